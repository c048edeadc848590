"""Trees of arrays, and the paths of their leaves.

A tree is made of dicts, lists, tuples, `NamedTuple`s and dataclasses, with arrays or numbers as
leaves; `None` is a tree without leaves. Paths are those of oxidax: names of fields and keys after
dots, positions in brackets, as in `layers[0].weight`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np


def is_named_tuple(tree: Any) -> bool:
    """Returns true for an instance of a `NamedTuple`."""
    return isinstance(tree, tuple) and hasattr(tree, "_fields")


def _is_dataclass(tree: Any) -> bool:
    return dataclasses.is_dataclass(tree) and not isinstance(tree, type)


def _fields(tree: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass by name."""
    return {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}


def children(tree: Any) -> list[tuple[str, Any]] | None:
    """Returns the subtrees with the last part of their paths, or `None` for a leaf."""
    if tree is None:
        return []
    if isinstance(tree, Mapping):
        return [(_entry(key), tree[key]) for key in sorted(tree, key=_order)]
    if is_named_tuple(tree):
        return [(f".{name}", value) for name, value in zip(tree._fields, tree)]
    if isinstance(tree, (list, tuple)):
        return [(f"[{index}]", value) for index, value in enumerate(tree)]
    if _is_dataclass(tree):
        return [(f".{name}", value) for name, value in _fields(tree).items()]
    return None


def _order(key: Any) -> tuple[bool, Any]:
    return (not isinstance(key, int), key if isinstance(key, int) else str(key))


def _entry(key: Any) -> str:
    if not isinstance(key, (str, int)) or isinstance(key, bool):
        raise TypeError(f"keys of dicts are strings or integers, this one is {key!r}")
    return f".{key}"


def flatten(tree: Any) -> list[tuple[str, Any]]:
    """Returns the leaves with their paths. Entries of dicts are in the order of their keys.

    >>> flatten({"b": [1, 2], "a": 3})
    [('a', 3), ('b[0]', 1), ('b[1]', 2)]
    """
    found: list[tuple[str, Any]] = []

    def walk(node: Any, path: str) -> None:
        parts = children(node)
        if parts is None:
            found.append((path.removeprefix("."), node))
            return
        for part, value in parts:
            walk(value, path + part)

    walk(tree, "")
    seen: set[str] = set()
    for path, _ in found:
        if path in seen:
            raise ValueError(f"two leaves have the path `{path}`; rename a key that has dots")
        seen.add(path)
    return found


def replace_leaves(template: Any, leaves: Iterable[Any]) -> Any:
    """Returns a tree of the template's structure with other leaves, in the order of `flatten`.

    Raises `ValueError` if the number of leaves differs.
    """
    values = list(leaves)
    count = len(flatten(template))
    if len(values) != count:
        raise ValueError(f"{len(values)} leaves for a tree that has {count}")
    remaining = iter(values)
    return map_leaves(lambda _: next(remaining), template)


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """Returns the tree with `function` applied to every leaf, in the order of `flatten`."""
    if children(tree) is None:
        return function(tree)
    if tree is None:
        return None
    if isinstance(tree, Mapping):
        mapped = {key: map_leaves(function, tree[key]) for key in sorted(tree, key=_order)}
        return {key: mapped[key] for key in tree}
    if is_named_tuple(tree):
        return type(tree)(*(map_leaves(function, value) for value in tree))
    if isinstance(tree, (list, tuple)):
        items = [map_leaves(function, value) for value in tree]
        return items if isinstance(tree, list) else tuple(items)
    fields = {name: map_leaves(function, value) for name, value in _fields(tree).items()}
    return dataclasses.replace(tree, **fields)


def plain(tree: Any) -> Any:
    """Returns the tree with dicts in place of `NamedTuple`s and dataclasses.

    `jax.export` stores dicts, lists, tuples and `None` without the program that defines a class.
    """
    if children(tree) is None or tree is None:
        return tree
    if isinstance(tree, Mapping):
        return {key: plain(value) for key, value in tree.items()}
    if is_named_tuple(tree):
        return {name: plain(value) for name, value in zip(tree._fields, tree)}
    if isinstance(tree, (list, tuple)):
        items = [plain(value) for value in tree]
        return items if isinstance(tree, list) else tuple(items)
    return {name: plain(value) for name, value in _fields(tree).items()}


def like(template: Any, tree: Any, path: str = "$") -> Any:
    """Inverts `plain`: returns the leaves of a plain tree in the template's types."""
    if children(template) is None:
        return tree
    if template is None:
        return None
    if isinstance(template, Mapping):
        return {key: like(template[key], tree[key], f"{path}.{key}") for key in template}
    if is_named_tuple(template):
        names = template._fields
        fields = (like(getattr(template, n), tree[n], f"{path}.{n}") for n in names)
        return type(template)(*fields)
    if isinstance(template, (list, tuple)):
        if len(template) != len(tree):
            raise ValueError(f"{path}: {len(tree)} items, the template has {len(template)}")
        items = [like(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(template, tree))]
        return items if isinstance(template, list) else tuple(items)
    fields_of = _fields(template).items()
    values = {name: like(value, tree[name], f"{path}.{name}") for name, value in fields_of}
    return dataclasses.replace(template, **values)


def complete(template: Any, tree: Any) -> Any:
    """Returns a plain tree with the parts of the template that have no leaves, such as `None`.

    Files of arrays do not have them, so a tree that `nest` makes lacks them.

    >>> complete({"w": 1, "rate": None}, {"w": 5})
    {'w': 5, 'rate': None}
    """
    if not _has_leaves(template) and not _has_leaves(tree):
        return template
    if isinstance(template, Mapping) and isinstance(tree, Mapping):
        known = {k: complete(template[k], v) if k in template else v for k, v in tree.items()}
        added = {k: v for k, v in template.items() if k not in tree and not _has_leaves(v)}
        return known | added
    sequences = (list, tuple)
    if isinstance(template, sequences) and type(tree) is type(template):
        if len(tree) == len(template):
            return type(tree)(complete(a, b) for a, b in zip(template, tree))
    return tree


def _has_leaves(tree: Any) -> bool:
    """Returns true if a plain tree has leaves. Its keys may be any."""
    if isinstance(tree, (Mapping, list, tuple)):
        return any(map(_has_leaves, tree.values() if isinstance(tree, Mapping) else tree))
    return tree is not None


_PART = re.compile(r"\[(\d+)\]|\.?([^.\[\]]+)")


def split_path(path: str) -> list[str | int]:
    """Returns the parts of a path: names as strings, positions as integers.

    >>> split_path("layers[0].weight")
    ['layers', 0, 'weight']
    """
    parts: list[str | int] = []
    end = 0
    while end < len(path):
        match = _PART.match(path, end)
        if match is None:
            raise ValueError(f"`{path}` is not a path: it stops at `{path[end:]}`")
        index, name = match.groups()
        parts.append(name if index is None else int(index))
        end = match.end()
    return parts


def nest(leaves: Mapping[str, Any]) -> Any:
    """Returns the tree of dicts and lists whose leaves have these paths.

    >>> nest({"a.b": 1, "c[0]": 2, "c[1]": 3})
    {'a': {'b': 1}, 'c': [2, 3]}

    Raises `ValueError` if a path is also the beginning of another one, or a list has gaps.
    """
    if "" in leaves:
        if len(leaves) > 1:
            raise ValueError("the leaf without a path must be the only one")
        return leaves[""]
    root: dict[str | int, Any] = {}
    for path, leaf in leaves.items():
        *parts, last = split_path(path)
        node = root
        for part in parts:
            node = node.setdefault(part, _Node())
            if not isinstance(node, dict):
                raise ValueError(f"`{path}` begins with the path of another leaf")
        if last in node:
            raise ValueError(f"`{path}` is the beginning of another leaf's path")
        node[last] = leaf
    return _lists(root, "")


class _Node(dict[Any, Any]):
    """A subtree in the making, to tell it from a leaf that is a dict."""


def _lists(node: Any, path: str) -> Any:
    """Turns nodes whose keys are positions into lists."""
    indices = [key for key in node if isinstance(key, int)]

    def build(key: str | int) -> Any:
        value = node[key]
        return _lists(value, f"{path}.{key}") if isinstance(value, _Node) else value

    if not indices:
        return {key: build(key) for key in node}
    if sorted(indices) != list(range(len(node))):
        raise ValueError(f"`{path.removeprefix('.')}` has the positions {sorted(node, key=str)}")
    return [build(index) for index in range(len(node))]


def as_array(leaf: Any, path: str = "") -> np.ndarray[Any, Any]:
    """Returns a leaf as a NumPy array: an array of NumPy or JAX, or a number.

    Raises `TypeError` for other objects.
    """
    array = np.asarray(leaf)
    if array.dtype == object or array.dtype.kind in "SUMm":
        where = f"leaf `{path}`" if path else "a leaf"
        raise TypeError(f"{where} is {type(leaf).__name__}, and not an array or a number")
    return array
