"""Calls functions that oxidax has exported, in JAX, and compares results and gradients.

Usage: python export_check.py DIR [--without NAME,...]

DIR is what `cargo run -p exports -- DIR` writes: for each function a file for
`jax.export.deserialize`, its arguments, the results that oxidax computes and, for functions with
derivatives, the gradients for the squares of the results as cotangents. Integers and flags must be
equal; the largest difference of other results is compared with the largest number of each, and the
tolerance is 1e-6 in float32 unless the function states another. The script fails if a function is
missing, cannot be read, or differs. Needs jax, jaxlib and flatbuffers.
"""

import json
import os
import pathlib
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import export
from jax.sharding import Mesh, NamedSharding, PartitionSpec

# The number of functions that oxidax writes at least, and of those with derivatives.
FUNCTIONS, DERIVATIVES = 60, 24

NAMES = {"bool": "bool", "bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
KINDS = {"i": "int", "u": "uint", "f": "float", "c": "complex"}


def dtype(name):
    name = name.lower()
    return jnp.dtype(NAMES.get(name) or KINDS[name[0]] + name[1:])


def read(entries, data):
    """Returns arrays by their paths."""
    arrays = {}
    for entry in entries:
        end = entry["offset"] + entry["bytes"]
        array = np.frombuffer(data[entry["offset"]:end], np.uint8)
        kind = dtype(entry["dtype"])
        if kind.itemsize == 1 and entry["dtype"] in ("i4", "u4"):
            array = array.view(np.int8 if entry["dtype"] == "i4" else np.uint8).astype(kind)
        arrays[entry["path"]] = array.view(kind).reshape(entry["shape"])
    return arrays


def paths(tree):
    numbers = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    with_paths, _ = jax.tree_util.tree_flatten_with_path(numbers)
    return [jax.tree_util.keystr(path) for path, _ in with_paths]


def difference(ours, theirs, tolerance, what):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), (
        f"{what}: {theirs.dtype}{theirs.shape} in JAX, {ours.dtype}{ours.shape} in oxidax")
    if not jnp.issubdtype(ours.dtype, np.inexact):
        assert np.array_equal(ours, theirs), f"{what}: {theirs} in JAX, {ours} in oxidax"
        return 0.0
    wide = np.complex128 if np.iscomplexobj(ours) else np.float64
    ours, theirs = ours.astype(wide), theirs.astype(wide)
    assert np.all(np.isfinite(ours)) and np.all(np.isfinite(theirs)), what
    if ours.size == 0:
        return 0.0
    found = np.abs(ours - theirs).max() / max(np.abs(ours).max(), 1e-30)
    assert found <= tolerance, f"{what}: {found} is larger than {tolerance}"
    return float(found)


def on_mesh(exported):
    """Returns the function on the devices that it was exported for."""
    if exported.nr_devices == 1:
        return exported.call
    shardings = [s for s in exported._in_named_shardings if s is not None]
    shape = shardings[0].mesh
    devices = np.array(jax.devices()[:exported.nr_devices]).reshape(shape.axis_sizes)
    mesh = Mesh(devices, shape.axis_names, axis_types=shape.axis_types)

    def call(*arguments):
        leaves, tree = jax.tree.flatten(arguments)
        placed = [jax.device_put(leaf, NamedSharding(mesh, PartitionSpec())) for leaf in leaves]
        return jax.jit(exported.call)(*jax.tree.unflatten(tree, placed))

    return call


def check(path):
    description = json.loads(path.with_suffix(".json").read_text())
    data, tolerance = path.with_suffix(".data").read_bytes(), description["tolerance"]
    exported = export.deserialize(bytearray(path.read_bytes()))
    assert exported.fun_name == path.stem, exported.fun_name
    expected = read(description["arguments"], data)
    # A call has a tuple of arguments and a dictionary of keywords.
    names = [name.removeprefix("[0]") for name in paths(exported.in_tree)]
    assert sorted(names) == sorted(expected), f"arguments {names}, not {list(expected)}"
    leaves = [jnp.asarray(expected[name]) for name in names]
    arguments, keywords = jax.tree.unflatten(exported.in_tree, leaves)
    assert not keywords
    call = on_mesh(exported)
    results = call(*arguments)
    expected = read(description["results"], data)
    names = paths(exported.out_tree)
    assert sorted(names) == sorted(expected), f"results {names}, not {list(expected)}"
    worst = 0.0
    for name, result in zip(names, jax.tree.leaves(results), strict=True):
        worst = max(worst, difference(expected[name], result, tolerance, f"result {name}"))
    if description["gradients"] is None:
        assert not exported.has_vjp()
        return worst, False
    results, pullback = jax.vjp(call, *arguments)
    gradients = pullback(jax.tree.map(lambda y: y * y, results))
    # A function of one argument has its gradients without a tuple around them.
    expected = list(read(description["gradients"], data).values())
    names = [name.removeprefix("[0]") for name in paths(exported.in_tree)]
    order = [entry["path"] for entry in description["arguments"]]
    count = 0
    for name, gradient in zip(names, jax.tree.leaves(gradients), strict=True):
        if gradient.dtype == jax.dtypes.float0:
            continue
        ours = expected[order.index(name)]
        worst = max(worst, difference(ours, gradient, 4 * tolerance, f"gradient {name}"))
        count += 1
    assert count, "the function has no gradient"
    return worst, True


def main(folder, without):
    files = sorted(pathlib.Path(folder).glob("*.jax_export"))
    failures, derivatives = [], 0
    for path in files:
        if path.stem in without:
            continue
        try:
            worst, has_gradients = check(path)
        except Exception as error:
            failures.append(path.stem)
            print(f"{path.stem}: FAILED: {type(error).__name__}: {str(error)[:600]}")
            continue
        derivatives += has_gradients
        print(f"{path.stem}: {worst:.1e}{', with gradients' if has_gradients else ''}")
    print(f"JAX {jax.__version__}: {len(files)} functions, {derivatives} with gradients")
    if failures:
        sys.exit(f"{len(failures)} differ: {', '.join(failures)}")
    if len(files) < FUNCTIONS or derivatives < DERIVATIVES:
        sys.exit(f"at least {FUNCTIONS} functions and {DERIVATIVES} gradients are expected")


match sys.argv[1:]:
    case [folder]:
        main(folder, [])
    case [folder, "--without", names]:
        main(folder, names.split(","))
    case _:
        sys.exit(__doc__)
