"""Checkpoints: every dtype, folders of runs, damaged files, and conversion from and to Flax."""

import json
import os
import tempfile
import unittest
from pathlib import Path

import numpy as np

from oxidax_compat import DamagedFile, checkpoints, conversion, dtypes, safetensors
from oxidax_compat.trees import flatten


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def assert_equal_trees(self, a, b):
        self.assertEqual([p for p, _ in flatten(a)], [p for p, _ in flatten(b)])
        for (path, x), (_, y) in zip(flatten(a), flatten(b)):
            self.assertEqual((x.dtype, x.shape), (y.dtype, y.shape), path)
            self.assertEqual(np.asarray(x).tobytes(), np.asarray(y).tobytes(), path)


class Files(InFolder):
    def test_every_dtype_survives(self):
        values = np.array([[0, 1, 0], [1, 1, 0]])
        tree = {name: values.astype(dtypes.dtype_of(name)) for name in dtypes._NAMES}
        tree["odd"] = values[0].astype(dtypes.dtype_of("f4_e2m1fn"))
        path = self.folder / "all.safetensors"
        checkpoints.save(path, tree)
        self.assert_equal_trees(checkpoints.load(path), tree)
        header, recorded, _ = safetensors.read_header(path)
        self.assertEqual(header["f4_e2m1fn"]["dtype"], "F4")
        self.assertEqual(header["odd"]["dtype"], "U8")
        as_bytes = ["i2", "i4", "u2", "u4", "f8_e3m4", "f8_e4m3", "f8_e4m3b11fnuz", "c128", "odd"]
        self.assertEqual(sorted(recorded), sorted(as_bytes))

    def test_an_array_without_a_tree_has_the_name_of_oxidax(self):
        path = self.folder / "tokens.safetensors"
        tokens = np.arange(6, dtype=np.int32).reshape(2, 3)
        self.assertEqual(checkpoints.save(path, tokens), ["array"])
        self.assertEqual(list(checkpoints.load_arrays(path)), ["array"])
        for template in [None, np.zeros((2, 3), np.int32)]:
            np.testing.assert_array_equal(checkpoints.load(path, template), tokens)
        in_dict = checkpoints.load(path, {"array": tokens})
        np.testing.assert_array_equal(in_dict["array"], tokens)
        with self.assertRaisesRegex(ValueError, r"array: stored i32\[2,3\], the template has f"):
            checkpoints.load(path, 1.0)

    def test_scalars_empty_arrays_and_complex_infinities(self):
        tree = {
            "scalar": np.array(2.5),
            "none": np.zeros((0, 3), np.float32),
            "c": np.array([complex(np.inf, 1), complex(0, -np.inf)]),
        }
        path = self.folder / "x.safetensors"
        checkpoints.save(path, tree)
        self.assert_equal_trees(checkpoints.load(path), tree)
        self.assertEqual(os.listdir(self.folder), ["x.safetensors"])

    def test_damaged_files_are_errors(self):
        path = self.folder / "x.safetensors"
        checkpoints.save(path, {"a": np.arange(6, dtype=np.int16), "b": np.ones((2, 2))})
        whole = path.read_bytes()
        rng = np.random.default_rng(0)
        n_errors = 0
        for length in range(len(whole)):
            path.write_bytes(whole[:length])
            with self.assertRaises(DamagedFile):
                safetensors.load(path)
        for _ in range(2000):
            bytes_ = bytearray(whole)
            bytes_[rng.integers(0, len(whole) - 44)] = rng.integers(0, 256)
            path.write_bytes(bytes(bytes_))
            try:
                safetensors.load(path)
            except (DamagedFile, TypeError):
                n_errors += 1
        self.assertGreater(n_errors, 1000)

    def test_templates_list_all_differences(self):
        path = self.folder / "x.safetensors"
        checkpoints.save(path, {"a": np.zeros(3, "f"), "b": np.zeros(2, "f")})
        with self.assertRaises(ValueError) as caught:
            checkpoints.load(path, {"a": np.zeros(4, "f"), "c": np.zeros(2, "f")})
        for line in ["a: stored f32[3], the template has f32[4]", "missing: c", "template: b"]:
            self.assertIn(line, str(caught.exception))


class Folders(InFolder):
    def write_step(self, name, arrays, pieces=None, version=2):
        step = self.folder / name
        step.mkdir()
        safetensors.save(step / "arrays.safetensors", arrays)
        manifest = {
            "format": "oxidax checkpoint", "version": version, "step": 1, "notes": {},
            "files": [{"name": "arrays.safetensors"}], "pieces": pieces or {},
        }  # fmt: skip
        (step / "manifest.jsonl").write_text(json.dumps(manifest) + '\n{"crc32c":0}\n')

    def test_shards_are_joined_and_the_last_step_is_read(self):
        whole = np.arange(12, dtype=np.float32).reshape(3, 4)
        self.write_step("step-000000010", {"w": whole * 0})
        shards = {"w@0": whole[:, :2], "w@1": whole[:, 2:], "b": np.zeros(1)}
        starts = {"w": {"shape": [3, 4], "pieces": {"w@0": [0, 0], "w@1": [0, 2]}}}
        self.write_step("step-000000020", shards, starts)
        (self.folder / ".step-000000030.written").mkdir()
        self.assertEqual(checkpoints.steps(self.folder), [10, 20])
        self.assert_equal_trees(checkpoints.load(self.folder), {"w": whole, "b": np.zeros(1)})

    def test_wrong_manifests_are_errors(self):
        half = {"w": {"shape": [3, 4], "pieces": {"w@0": [0, 0]}}}
        outside = {"w": {"shape": [2, 1], "pieces": {"w@0": [1, 0]}}}
        for number, (pieces, version) in enumerate([(half, 2), (outside, 2), ({}, 99)]):
            name = f"step-{number}"
            self.write_step(name, {"w@0": np.zeros((2, 1))}, pieces, version)
            with self.assertRaises(DamagedFile):
                checkpoints.load(self.folder / name)

    def test_indices_name_files_of_their_folder_only(self):
        safetensors.save(self.folder / "a.safetensors", {"x": np.zeros(2)})
        index = self.folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": {"x": "a.safetensors"}}))
        self.assertEqual(list(checkpoints.load(self.folder)), ["x"])
        for name in ["../a.safetensors", "", 3]:
            index.write_text(json.dumps({"weight_map": {"x": name}}))
            with self.assertRaises(DamagedFile):
                checkpoints.load(self.folder)


class Conversion(InFolder):
    TREE = {
        "layers": [
            {"kernel": np.ones((2, 3), "f"), "bias": np.zeros(3, "f")},
            {"kernel": np.ones(1)},
        ],
        "step": np.array(7, np.int32),
    }

    def test_formats_convert_both_ways(self):
        names = ["a.safetensors", "b.npz", "c.msgpack", "d.safetensors"]
        paths = [self.folder / name for name in names]
        conversion.write(paths[0], self.TREE)
        for source, target in zip(paths, paths[1:]):
            conversion.convert(source, target)
        for path in paths:
            self.assert_equal_trees(conversion.read(path), self.TREE)

    def test_flax_reads_and_writes_the_same_bytes(self):
        from flax import serialization

        data = conversion.to_flax_bytes(self.TREE)
        restored = serialization.from_bytes(self.TREE, data)
        self.assert_equal_trees(restored, self.TREE)
        self.assertEqual(serialization.to_bytes(self.TREE), data)
        import jax.numpy as jnp

        tree = {"b": jnp.ones(3, jnp.bfloat16), "empty": {}}
        read = conversion.from_flax_bytes(serialization.to_bytes(tree))
        self.assertEqual(read["b"].dtype.name, "bfloat16")
        with self.assertRaises(DamagedFile):
            conversion.from_flax_bytes(data[:-3])

    def test_arrays_that_flax_stored_in_parts(self):
        from flax import serialization

        whole = np.arange(60, dtype=np.float32).reshape(3, 20)
        size, serialization.MAX_CHUNK_SIZE = serialization.MAX_CHUNK_SIZE, 64
        try:
            data = serialization.msgpack_serialize({"w": whole})
        finally:
            serialization.MAX_CHUNK_SIZE = size
        self.assert_equal_trees(conversion.from_flax_bytes(data), {"w": whole})

    def test_nnx_modules_both_ways(self):
        from flax import nnx

        class Net(nnx.Module):
            def __init__(self, rngs):
                self.a = nnx.Linear(2, 3, rngs=rngs)
                self.norm = nnx.BatchNorm(3, rngs=rngs)
                self.drop = nnx.Dropout(0.1, rngs=rngs)

        first, second = Net(nnx.Rngs(0)), Net(nnx.Rngs(1))
        tree = conversion.from_nnx(first)
        path = self.folder / "net.safetensors"
        checkpoints.save(path, tree)
        self.assertIn("a.kernel", checkpoints.load_arrays(path))
        conversion.to_nnx(checkpoints.load(path), second)
        self.assert_equal_trees(conversion.from_nnx(second), tree)
        with self.assertRaisesRegex(ValueError, "missing: a.bias"):
            conversion.to_nnx({"a": {"kernel": np.ones((2, 3), "f")}}, second)

    def test_missing_packages_are_named(self):
        try:
            import orbax.checkpoint  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(ImportError, "install `orbax-checkpoint`"):
                conversion.write(self.folder / "o", self.TREE, "orbax")
        else:
            conversion.write(self.folder / "o", self.TREE, "orbax")
            self.assertEqual(conversion.detect(self.folder / "o"), "orbax")
            self.assert_equal_trees(conversion.read(self.folder / "o"), self.TREE)

    def test_unknown_formats_are_errors(self):
        with self.assertRaisesRegex(ValueError, "the format of `.pt` is unknown"):
            (self.folder / "m.pt").touch()
            conversion.read(self.folder / "m.pt")
        with self.assertRaisesRegex(ValueError, "state the format"):
            conversion.write(self.folder / "m", self.TREE)


if __name__ == "__main__":
    unittest.main()
