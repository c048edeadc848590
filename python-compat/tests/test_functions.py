"""Recording, exporting and the programs of `oxidax verify`, with the installed JAX."""

import json
import tempfile
import unittest
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from oxidax_compat import Recording, checkpoints, export, exported, functions, load, record
from oxidax_compat import safetensors, verification
from oxidax_compat.__main__ import main

from . import programs

WEIGHTS = programs.Weights(np.ones((3, 4), "f") * 0.1, np.arange(4, dtype="f"))
X = np.linspace(-1, 1, 6, dtype="f").reshape(2, 3)


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class Record(InFolder):
    def test_trees_are_recorded_leaf_by_leaf(self):
        index, arrays = record(
            programs.predict, WEIGHTS, X, folder=self.folder, name="net", gradients=True
        )
        case = json.loads(index.read_text())["cases"][0]
        self.assertEqual(case["input_paths"], ["[0].w", "[0].b", "[1]"])
        self.assertEqual(case["output_paths"], ["classes", "norm"])
        stored = safetensors.load(arrays)
        expected = programs.predict(WEIGHTS, X)
        np.testing.assert_allclose(stored[case["outputs"][0]], expected["classes"], rtol=1e-6)
        _, pullback = jax.vjp(programs.predict, WEIGHTS, X)
        cotangents = [stored[key] for key in case["grad"]["cotangents"]]
        by_hand = pullback({"classes": cotangents[0], "norm": cotangents[1]})
        for key, leaf in zip(case["grad"]["vjp"], jax.tree.leaves(by_hand)):
            np.testing.assert_allclose(stored[key], leaf, rtol=1e-4, atol=1e-6)

    def test_equal_recordings_are_equal_files(self):
        paths = [
            record(programs.predict, WEIGHTS, X, folder=self.folder / str(n)) for n in range(2)
        ]
        for a, b in zip(*paths):
            self.assertEqual(a.read_bytes(), b.read_bytes())

    def test_mistakes_are_errors(self):
        recording = Recording("r")
        with self.assertRaisesRegex(ValueError, "no argument has a floating dtype"):
            recording.case(lambda n: n, np.arange(3), gradients=True)
        recording.case(jnp.sin, X)
        with self.assertRaisesRegex(ValueError, "two cases are named 'sin'"):
            recording.case(jnp.sin, X)
        with self.assertRaisesRegex(ValueError, "has no case"):
            Recording("empty").write(self.folder)
        with self.assertRaisesRegex(ValueError, "not the name of a file"):
            Recording("../up")


class Export(InFolder):
    def test_exported_functions_take_and_return_plain_trees(self):
        path = self.folder / "predict.jax_export"
        export(programs.predict, WEIGHTS, X, path=path, gradients=1)
        loaded = load(path)
        results = loaded({"w": WEIGHTS.w, "b": WEIGHTS.b}, X)
        expected = programs.predict(WEIGHTS, X)
        for name in ("classes", "norm"):
            self.assertIsInstance(results[name], np.ndarray)
            np.testing.assert_allclose(results[name], expected[name], rtol=1e-5)
        # A `NamedTuple` is accepted too, since it becomes the same dict.
        np.testing.assert_array_equal(loaded(WEIGHTS, X)["norm"], results["norm"])
        self.assertTrue(loaded.has_gradients)
        self.assertIn("predict(float32[4], float32[3,4], float32[2,3])", repr(loaded))

    def test_gradients_of_loaded_functions(self):
        weights = {"w": np.ones((3, 2), "f")}
        path = self.folder / "loss.jax_export"
        export(programs.loss, weights, X, path=path, gradients=1)
        gradient = load(path).grad(weights, X)
        np.testing.assert_allclose(
            gradient["w"], jax.grad(programs.loss)(weights, X)["w"], rtol=1e-5
        )
        export(programs.loss, weights, X, path=path)
        with self.assertRaisesRegex(ValueError, "exported without derivatives"):
            load(path).grad(weights, X)

    def test_parts_without_arrays_may_be_absent(self):
        weights = {"drop": {"rate": None}, "layers": [{"w": np.ones((3, 2), "f"), "act": None}]}
        path = self.folder / "loss.jax_export"
        product = lambda weights, x: (x @ weights["layers"][0]["w"]).sum()
        export(product, weights, X, path=path, gradients=1)
        loaded, stored = load(path), self.folder / "weights.safetensors"
        self.assertEqual(checkpoints.save(stored, weights), ["layers[0].w"])
        without = checkpoints.load(stored)
        self.assertEqual(loaded(without, X), loaded(weights, X))
        gradient = loaded.grad(without, X)
        self.assertEqual(gradient["drop"], {"rate": None})
        np.testing.assert_allclose(gradient["layers"][0]["w"][:, 0], X.sum(0), atol=1e-6)
        for other, problem in [
            ({}, "w'] is missing"),
            (without | {"drop": {"rate": 1.0}}, "rate'] is not an argument"),
            ({"layers": tuple(without["layers"])}, "a list, a tuple or None"),
            ({"layers": [{f"v{n}": X for n in range(9)}]}, r"v\d'] is not an argument, and 5 more"),
        ]:
            with self.assertRaisesRegex(TypeError, problem):
                loaded(other, X)

    def test_wide_types_need_no_setting(self):
        path = self.folder / "wide.jax_export"
        export(programs.wide, np.ones(3), path=path)
        self.assertEqual(load(path)(np.ones(3)).dtype, np.float64)
        with self.assertRaisesRegex(TypeError, "an argument is float32"):
            load(path)(np.ones(3, "f"))

    def test_what_oxidax_does_not_read_is_refused(self):
        with self.assertRaisesRegex(exported.UnsupportedExport, "host_callbacks"):
            export(programs.prints, X)
        with self.assertRaisesRegex(exported.UnsupportedExport, "platforms|[Pp]latform"):
            export(programs.wide, X, platforms=["METAL"])
        with self.assertRaisesRegex(ValueError, "an order from 0 to 16"):
            export(programs.wide, X, gradients=17)

    def test_other_arguments_and_files_are_errors(self):
        path = self.folder / "loss.jax_export"
        export(programs.loss, {"w": np.ones((3, 2), "f")}, X, path=path)
        expected = r"\[0\]\['w'\] is missing; \[0\]\['v'\] is not an argument$"
        with self.assertRaisesRegex(TypeError, expected):
            load(path)({"v": np.ones((3, 2), "f")}, X)
        with self.assertRaisesRegex(TypeError, r"\[1\] is missing; \['x'\] is not an argument"):
            load(path)({"w": np.ones((3, 2), "f")}, x=X)
        path.write_bytes(path.read_bytes()[:40])
        with self.assertRaisesRegex(ValueError, "not a function of jax.export"):
            load(path)


class Programs(InFolder):
    def results(self):
        """Returns the arrays of the cases `whole` and `steps`, and the fixture's JSON."""
        arrays = safetensors.load(self.folder / "function.safetensors")
        index = json.loads((self.folder / "function.json").read_text())
        cases = {case["name"]: [arrays[k] for k in case["outputs"]] for case in index["cases"]}
        return cases, index

    def test_every_operation_has_a_value_and_a_line(self):
        report = verification.write_function(
            self.folder, programs.looped, [programs.key(), X], gradients=False
        )
        expected, index = self.results()
        ops = [step["op"] for step in report["steps"]]
        self.assertEqual(len(expected["steps"]), len(ops))
        self.assertEqual(index["steps"], report["steps"])
        self.assertIn("scan", ops)
        self.assertIn("cond", ops)
        scan = report["steps"][ops.index("scan")]
        self.assertRegex(scan["line"], r"programs\.py:\d+")
        results = jax.tree.leaves(programs.looped(programs.key(), X))
        for number, result in enumerate(results):
            np.testing.assert_allclose(expected["whole"][number], result, rtol=1e-5, atol=1e-6)
        manifest = json.loads((self.folder / "whole/reproducer.json").read_text())
        self.assertEqual([entry["dtype"] for entry in manifest["inputs"]], ["u32", "f32"])
        self.assertIn("@main", (self.folder / "whole/module.mlir").read_text())

    def test_gradients_follow_the_results(self):
        report = verification.write_function(
            self.folder, programs.loss, [{"w": np.ones((3, 2), "f")}, X], gradients=True
        )
        self.assertEqual(report["function"], "loss")
        expected = self.results()[0]["whole"]
        self.assertEqual(len(expected), 3)
        gradient = jax.grad(programs.loss)({"w": np.ones((3, 2), "f")}, X)["w"]
        np.testing.assert_allclose(expected[1], gradient, rtol=1e-5)

    def test_suites_state_their_lines_and_failures(self):
        from oxidax_compat.recorder_modules import recorder

        suite_type = recorder("suite").Suite
        self.addCleanup(setattr, suite_type, "is_for_verify", False)
        reports = list(verification.write_fixtures(self.folder, ["special", "nowhere"], 40))
        self.assertGreater(reports[0]["cases"], 0)
        self.assertIn("ModuleNotFoundError", reports[1]["error"])
        index = json.loads((self.folder / "special.json").read_text())
        for case in index["cases"]:
            self.assertRegex(case["line"], r"^\w+\.py:\d+$")

        suite = suite_type("x", "")
        suite.case("bad", "bad", [X], lambda x: 1 / 0)
        self.assertEqual(suite.failures, {"bad": "ZeroDivisionError: division by zero"})


class Arguments(InFolder):
    def test_descriptions_of_arguments(self):
        np.save(self.folder / "x.npy", X)
        specs = ["f32[2,3]", "i4[5]", "bool[ 7 ]", "c64[]", "2.5", "3", str(self.folder / "x.npy")]
        values = functions.make_arguments([*specs, "tests.programs:batch"])
        types = [getattr(value, "dtype", type(value)) for value in values]
        names = [np.dtype(type_).name for type_ in types[:4]]
        self.assertEqual(names, ["float32", "int4", "bool", "complex64"])
        self.assertEqual(values[4:6], [2.5, 3])
        np.testing.assert_array_equal(values[6], X)
        np.testing.assert_array_equal(values[7], X)
        again = functions.make_argument("f32[2,3]", 0)
        np.testing.assert_array_equal(values[0], again)
        for wrong in ["f33[2]", "words", "nowhere:f"]:
            with self.assertRaises((ValueError, TypeError, ImportError)):
                functions.make_argument(wrong, 0)

    def test_functions_are_found(self):
        self.assertIs(functions.find_function("tests.programs:wide"), programs.wide)
        self.assertEqual(functions.find_function(f"{programs.__file__}:wide")(1), 3)
        with self.assertRaisesRegex(ValueError, "has no 'gone'; it has .*predict"):
            functions.find_function("tests.programs:gone")
        with self.assertRaisesRegex(ValueError, "module:name"):
            functions.find_function("gone")

    def test_the_command_oxidax_must_be_installed(self):
        with self.assertRaisesRegex(FileNotFoundError, "cargo install oxidax-cli"):
            verification.verify("ops", command="oxidax-that-is-missing")

    def test_the_command_line(self):
        out = str(self.folder / "wide.jax_export")
        wide = ["tests.programs:wide", "--args", "f32[3]"]
        self.assertEqual(main(["export", *wide, "--out", out]), 0)
        self.assertEqual(main(["export", out]), 0)
        self.assertEqual(main(["record", *wide, "--gradients", "--out", str(self.folder)]), 0)
        target = str(self.folder / "wide.npz")
        self.assertEqual(main(["convert", str(self.folder / "wide.safetensors"), target]), 0)
        self.assertEqual(main(["convert", str(self.folder / "none.npz"), target]), 1)
        self.assertEqual(main(["export", "tests.programs:wide"]), 1)


if __name__ == "__main__":
    unittest.main()
