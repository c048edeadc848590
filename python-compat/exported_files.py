"""Writes functions that `jax.export` serializes, with their signatures as JSON, for the tests of
`crates/jax-export`.

Usage: python exported_files.py DIR
       python exported_files.py DIR WRITTEN

The second form reads each file of the installed version in DIR, and the file of the same name in
WRITTEN, which the ignored test `write_functions` of `crates/jax-export` writes to
target/tmp/written-functions: both must be the same function. The first form writes
NAME.VERSION.bin and NAME.VERSION.json for each function, VERSION being that of the installed
JAX. It runs on eight CPU devices, and leaves out functions that the version cannot export. The
tests have files of JAX 0.4.31, 0.4.38, 0.6.2, 0.8.1, 0.9.0 and 0.10.2, each written in a virtual
environment with `jax`, `jaxlib` of the same version, `flatbuffers` and `absl-py`.
"""

import json
import os
import pathlib
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.sharding import Mesh, NamedSharding, PartitionSpec

# The folders of this machine do not go into the files.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")

f32 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)


def trees():
    def f(pair, *, options):
        (a, b), c = pair
        return {"sum": a + b, "rest": [c, None, (options["scale"] * a,)]}

    args = (((f32(3), f32(3)), f32(2, 2)),)
    return export.export(jax.jit(f))(*args, options={"scale": f32(3), "unused": f32()})


def dtypes():
    names = "bool_ int8 int16 int32 uint8 uint16 uint32 float16 bfloat16 float32 complex64 int4 " \
            "uint4 float8_e4m3fn float8_e5m2 float8_e4m3b11fnuz float8_e4m3fnuz float8_e5m2fnuz"
    args = [jax.ShapeDtypeStruct((2,), getattr(jnp, name)) for name in names.split()]
    return export.export(jax.jit(lambda *args: args))(*args)


def symbolic():
    b, n = export.symbolic_shape("b, n")
    args = jax.ShapeDtypeStruct((b, n), jnp.float32), jax.ShapeDtypeStruct((n, 4), jnp.float32)

    def f(x, w):
        y = x @ w
        return y.reshape(-1), jnp.concatenate([x, x[:, 1:]], axis=1)

    return export.export(jax.jit(f))(*args)


def sharded():
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    rows = NamedSharding(mesh, PartitionSpec("data"))
    blocks = NamedSharding(mesh, PartitionSpec(("data", "model"), None))
    f = jax.jit(lambda x, w: x @ w, in_shardings=(rows, None), out_shardings=blocks)
    return export.export(f)(f32(16, 4), f32(4, 8))


def gradient():
    return export.export(jax.jit(lambda w, x: jnp.tanh(x @ w).sum()))(f32(4, 2), f32(3, 4))


def platforms():
    f = jax.jit(lambda x: jnp.sin(x))
    return export.export(f, platforms=["cpu", "tpu", "cuda"])(f32(5))


def keys():
    key = jax.ShapeDtypeStruct((), jax.random.key(0).dtype)
    return export.export(jax.jit(lambda key: jax.random.uniform(key, (2,))))(key)


def custom_call():
    result = type(jnp.linalg.eigh(jnp.eye(2)))
    export.register_namedtuple_serialization(result, serialized_name="EighResult")
    return export.export(jax.jit(jnp.linalg.eigh))(f32(4, 4))


FUNCTIONS = [trees, dtypes, symbolic, sharded, gradient, platforms, keys, custom_call]
VJP_ORDERS = {"gradient": 2}


def paths(tree):
    numbers = jax.tree_util.tree_unflatten(tree, range(tree.num_leaves))
    with_paths, _ = jax.tree_util.tree_flatten_with_path(numbers)
    return [jax.tree_util.keystr(path) for path, _ in with_paths]


def signature(exported):
    return {
        "name": exported.fun_name,
        "input_paths": paths(exported.in_tree),
        "inputs": [aval.str_short(short_dtypes=False) for aval in exported.in_avals],
        "output_paths": paths(exported.out_tree),
        "outputs": [aval.str_short(short_dtypes=False) for aval in exported.out_avals],
        "devices": exported.nr_devices,
        "platforms": list(exported.platforms),
        "used_inputs": list(exported.module_kept_var_idx),
        "calling_convention": exported.calling_convention_version,
        "module_bytes": len(exported.mlir_module_serialized),
    }


def fields(exported):
    """Returns all that JAX has read, derivatives included."""
    if exported is None:
        return None
    names = [name for name in exported.__dataclass_fields__ if name != "_get_vjp"]
    values = {name: getattr(exported, name) for name in names}
    # Shardings of the compiler, and dimension variables of two files, compare by their text.
    for name in ["in_shardings_hlo", "out_shardings_hlo", "in_avals", "out_avals"]:
        values[name] = [str(value) for value in values[name]]
    return values, fields(exported.vjp() if exported.has_vjp() else None)


def compare(folder, written):
    count = 0
    if hasattr(export, "register_namedtuple_serialization"):
        custom_call()
    for path in sorted(folder.glob(f"*.{jax.__version__}.bin")):
        theirs, ours = [export.deserialize(bytearray(file.read_bytes()))
                        for file in [path, written / path.name]]
        assert fields(theirs) == fields(ours), path.name
        count += 1
    assert count, f"there are no files of JAX {jax.__version__}"
    print(f"JAX {jax.__version__}: {count} functions are equal")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for function in FUNCTIONS:
        name = f"{function.__name__}.{jax.__version__}"
        try:
            exported = function()
            order = VJP_ORDERS.get(function.__name__, 0)
            data = exported.serialize(vjp_order=order)
        except Exception as error:
            print(f"{name}: not exported: {str(error).splitlines()[0]}")
            continue
        folder.joinpath(f"{name}.bin").write_bytes(data)
        text = json.dumps(signature(exported), indent=1)
        folder.joinpath(f"{name}.json").write_text(text + "\n")
        print(f"{name}: {len(data)} bytes")


if len(sys.argv) == 3:
    compare(*map(pathlib.Path, sys.argv[1:]))
else:
    main()
