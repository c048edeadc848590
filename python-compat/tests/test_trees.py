"""Paths of leaves, and trees built from them."""

import dataclasses
import unittest
from typing import Any, NamedTuple

import numpy as np

from oxidax_compat import trees


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any


class Paths(unittest.TestCase):
    def test_paths_are_those_of_oxidax(self):
        tree = {"layers": [Layer(1, None), Layer(2, 3)], "norm": Pair(4, (5, {"b": 6, "a": 7}))}
        expected = [
            "layers[0].weight", "layers[1].weight", "layers[1].bias", "norm.first",
            "norm.second[0]", "norm.second[1].a", "norm.second[1].b",
        ]  # fmt: skip
        self.assertEqual([path for path, _ in trees.flatten(tree)], expected)

    def test_leaves_are_replaced_in_the_types_of_the_tree(self):
        tree = {"b": Pair(1, [2]), "a": Layer(3, None)}
        changed = trees.replace_leaves(tree, [30, 10, 20])
        self.assertEqual(changed, {"b": Pair(10, [20]), "a": Layer(30, None)})
        self.assertEqual(list(changed), ["b", "a"])
        with self.assertRaisesRegex(ValueError, "2 leaves for a tree that has 3"):
            trees.replace_leaves(tree, [1, 2])

    def test_parts_without_leaves_are_added(self):
        template = {"a": 1, "drop": {"rate": None}, "layers": [{"w": 2, "act": None}], (1, 2): 3}
        tree = {"a": 10, "layers": [{"w": 20}], (1, 2): 30}
        whole = {"a": 10, "drop": {"rate": None}, "layers": [{"w": 20, "act": None}], (1, 2): 30}
        self.assertEqual(trees.complete(template, tree), whole)
        self.assertEqual(trees.complete(template, whole), whole)
        self.assertEqual(trees.complete(({}, [None]), ({"a": {}}, [])), ({}, [None]))
        for other in [{"a": 10}, {"layers": []}, 5, None, [1, 2]]:
            self.assertNotIn("w", str(trees.complete(template, other)))

    def test_plain_trees_and_back(self):
        tree = [Pair(1, {"x": Layer(2, (3,))})]
        plain = trees.plain(tree)
        self.assertEqual(
            plain, [{"first": 1, "second": {"x": {"weight": 2, "bias": (3,)}}}]
        )
        self.assertEqual(trees.like(tree, plain), tree)

    def test_nested_trees(self):
        leaves = {"a.b": 1, "c[1]": 3, "c[0]": 2, "d[0][0].e": 4}
        expected = {"a": {"b": 1}, "c": [2, 3], "d": [[{"e": 4}]]}
        self.assertEqual(trees.nest(leaves), expected)
        self.assertEqual(trees.nest({"[0]": 1, "[1]": 2}), [1, 2])
        self.assertEqual(trees.nest({"": 5}), 5)

    def test_wrong_paths_are_errors(self):
        for leaves, message in [
            ({"a": 1, "a.b": 2}, "begins with the path of another leaf"),
            ({"a.b": 2, "a": 1}, "beginning of another leaf"),
            ({"a[0]": 1, "a[2]": 2}, "has the positions"),
            ({"": 1, "a": 2}, "must be the only one"),
            ({"a[": 1}, "is not a path"),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                trees.nest(leaves)
        with self.assertRaisesRegex(ValueError, "two leaves have the path `a.b`"):
            trees.flatten({"a": {"b": 1}, "a.b": 2})

    def test_leaves_that_are_not_arrays(self):
        with self.assertRaisesRegex(TypeError, "leaf `a` is str"):
            trees.as_array("text", "a")
        self.assertEqual(trees.as_array(2.5).dtype, np.float64)


if __name__ == "__main__":
    unittest.main()
