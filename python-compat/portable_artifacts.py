"""Writes portable artifacts of StableHLO for the tests of `crates/vhlo`, or checks the texts there.

Usage: python portable_artifacts.py write DIR
       python portable_artifacts.py check DIR EXPORTED
       python portable_artifacts.py written DIR WRITTEN

`write` exports functions to NAME.bc. `check` compares each NAME.mlir of DIR with the module that
StableHLO's own reader returns for NAME.bc, or for the files of EXPORTED (those of
`exported_files.py`): both must print as the same text, except for sharding rules of custom calls,
which `crates/vhlo` leaves out. `written` compares each NAME.mlir with the module that StableHLO's
reader returns for WRITTEN/NAME.bc, which the ignored test `write_artifacts` of `crates/vhlo` writes
to target/tmp/written-artifacts. All need jax 0.10.2, jaxlib of the same version, flatbuffers and
absl-py in a virtual environment.
"""

import os
import pathlib
import re
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax._src.interpreters import mlir
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

# The folders of this machine do not go into the artifacts.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")

RULE = r", sdy\.sharding_rule = #sdy\.op_sharding_rule<[^\n]*?custom>"
FUNCTIONS = {}


def exports(*arguments, **options):
    """Adds a function that takes arrays of these types: a dtype's name and a shape."""

    def add(function):
        FUNCTIONS[function.__name__] = (function, arguments, options)
        return function

    return add


@exports(("float32", 3), ("float32", 3))
def elementwise(x, y):
    one = [jnp.abs, lax.cbrt, jnp.ceil, jnp.cos, jnp.exp, jnp.expm1, jnp.floor, jnp.isfinite,
           jnp.log, jnp.log1p, jax.nn.sigmoid, jnp.negative, lax.rsqrt, lax.sign, jnp.sin, jnp.sqrt,
           jnp.tan, jnp.tanh, jnp.round, lax.erf, lax.lgamma, lax.digamma, lax.erf_inv,
           lax.bessel_i1e]
    two = [jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.power, jnp.maximum, jnp.minimum,
           jnp.arctan2, lax.rem, lax.nextafter]
    rest = [lax.clamp(0.0, x, 1.0), jnp.where(x > y, x, y)]
    return [f(x) for f in one] + [f(x, y) for f in two] + rest


@exports(("int32", 4), ("int32", 4))
def integers(x, y):
    bits = [x & y, x | y, x ^ y, ~x, x << y, lax.shift_right_logical(x, y), x >> y]
    counts = [lax.population_count(x), lax.clz(x), x // y, x % y]
    types = [lax.bitcast_convert_type(x, jnp.float32), x.astype(jnp.int8)]
    return bits, counts, types, [x == y, x != y, x < y, x <= y, x >= y]


@exports(("complex64", 3), ("float32", 3))
def complexes(x, y):
    return lax.complex(y, y), jnp.real(x), jnp.imag(x), jnp.conj(x), jnp.abs(x), x * x, jnp.exp(x)


@exports(("float32", 2, 3, 4), ("float32", 2, 4, 5))
def dots(x, y):
    batched = (((2,), (1,)), ((0,), (0,)))
    algorithm = lax.DotAlgorithmPreset.BF16_BF16_F32
    return (jnp.einsum("bij,bjk->bik", x, y, precision="highest"),
            lax.dot_general(x, y, batched, precision=algorithm),
            jnp.tensordot(x[0], y[0], 1, preferred_element_type=jnp.bfloat16))


@exports(("float32", 2, 3, 8, 8), ("float32", 4, 3, 3, 3))
def convolutions(x, k):
    image = ("NHWC", "HWIO", "NHWC")
    return (lax.conv(x, k, (1, 1), "SAME"),
            lax.conv_general_dilated(x, k, (2, 2), ((1, 2), (0, 1)), (1, 2), (2, 1)),
            lax.conv_transpose(jnp.ones((2, 8, 8, 3)), jnp.ones((3, 3, 3, 4)), (2, 2), "SAME"),
            lax.conv_general_dilated(jnp.ones((1, 5, 5, 3)), jnp.ones((3, 3, 1, 6)), (1, 1), "SAME",
                                     feature_group_count=3, dimension_numbers=image),
            jax.grad(lambda k: lax.conv(x, k, (2, 2), "VALID").sum())(k))


@exports(("float32", 1, 8, 8, 2))
def windows(x):
    largest = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return (largest(x), jax.grad(lambda x: largest(x).sum())(x), jnp.cumsum(x, 1),
            lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME"),
            lax.cumlogsumexp(x, 2))


@exports(("float32", 4), ("int32",))
def loops(x, n):
    return (lax.fori_loop(0, n, lambda i, x: x * 2 + i, x),
            lax.while_loop(lambda c: c[0].sum() < 100, lambda c: (c[0] * 2, c[1] + 1), (x, n)),
            lax.scan(lambda c, y: (c + y, c * y), 0.0, x),
            lax.cond(n > 2, lambda x: x + 1, lambda x: x - 1, x),
            lax.switch(n, [jnp.sin, jnp.cos, jnp.tan], x))


@exports(("float32", 6, 5), ("int32", 3))
def indexing(x, i):
    return (x[i], x[i, i], x.at[i].set(1.0), x.at[i].add(2.0), x.at[1:3, 2].mul(3.0),
            lax.dynamic_slice(x, (i[0], i[1]), (2, 2)),
            lax.dynamic_update_slice(x, jnp.ones((2, 2)), (i[0], 0)),
            jnp.take_along_axis(x, i[None, :] * jnp.ones((6, 1), jnp.int32), 1),
            jax.vmap(lambda row, j: row[j])(x[:3], i), x[::2, 1:4:2], jnp.flip(x, 0))


@exports(("float32", 2, 3))
def shapes(x):
    return (x.T, x.reshape(6), jnp.concatenate([x, x], 1), jnp.pad(x, ((1, 2), (0, 1))),
            lax.pad(x, 0.0, ((1, 0, 1), (0, -1, 0))), jnp.broadcast_to(x, (4, 2, 3)),
            jnp.arange(6.0).reshape(2, 3) + x, jnp.tile(x, (2, 2)), lax.rev(x, (0, 1)),
            jnp.zeros((2, 2)), jnp.array([[True, False], [False, False]]), jnp.zeros((0, 2)))


@exports(("float32", 3, 4))
def reductions(x):
    pair = lambda a, b: (a[0] + b[0], a[1] * b[1])
    return (x.sum(), x.max(0), x.min(1), x.prod(), jnp.argmax(x, 1), jnp.any(x > 0),
            jnp.all(x > 0, 0), jnp.sort(x, 1), jnp.argsort(x, 0), lax.top_k(x, 2),
            lax.reduce((x, x), (0.0, 1.0), pair, (0,)), jax.nn.logsumexp(x))


@exports(("complex64", 4, 8), ("float32", 8))
def ffts(x, y):
    return jnp.fft.fft(x), jnp.fft.ifft(x), jnp.fft.rfft(y), jnp.fft.irfft(x, 8), jnp.fft.fft2(x)


@exports(("float32", 4, 4), ("float32", 4, 2))
def linalg(a, b):
    triangular = jax.scipy.linalg.solve_triangular
    return (jnp.linalg.cholesky(a), triangular(a, b), triangular(a, b, lower=True, trans=1),
            jnp.linalg.eigh(a)[0], jnp.linalg.svd(a)[1], jnp.linalg.qr(a)[0],
            jnp.linalg.solve(a, b), jnp.linalg.det(a))


@exports(("uint32", 2))
def random(key):
    state = jnp.ones(4, jnp.uint32)
    return (jax.random.uniform(key, (3,)), jax.random.randint(key, (3,), 0, 9),
            lax.rng_bit_generator(state, (3,))[1], lax.rng_uniform(0.0, 1.0, (2,)),
            lax.rng_bit_generator(state, (3,), algorithm=lax.RandomAlgorithm.RNG_PHILOX)[1])


@exports(("int4", 4), ("float8_e4m3fn", 4), ("bfloat16", 4))
def small_dtypes(a, b, c):
    return (a.astype(jnp.int8) + 1, a * a, b.astype(jnp.float32), c + 1,
            jnp.array([1, 2, 3, -4], jnp.int4), jnp.array([1.5, 2.0], jnp.float8_e5m2),
            jnp.array([0.1, 0.2], jnp.bfloat16), c.astype(jnp.float8_e4m3b11fnuz),
            lax.reduce_precision(c.astype(jnp.float32), 5, 10))


@exports(("float32", 3))
def rematerialized(x):
    loss = lambda x: jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))(x).sum()
    return jax.grad(loss)(x), lax.optimization_barrier(x), lax.stop_gradient(x)


@exports(("float32", 2, 8, 16))
def attention(x):
    scores = jnp.einsum("bqd,bkd->bqk", x, x) / 4.0
    scores = jnp.where(jnp.tril(jnp.ones((8, 8), bool)), scores, -1e9)
    return jax.nn.gelu(jax.nn.softmax(scores) @ x), jax.nn.one_hot(jnp.argmax(x, -1), 16)


@exports(("float32", 16, 16))
def constants(x):
    return x + np.arange(256, dtype=np.float32).reshape(16, 16), x * np.eye(16, dtype=bool)


@exports("b, 4")
def unknown_sizes(x):
    return (x.sum(0), x.reshape(-1), jnp.concatenate([x, x]), x[1:], jnp.arange(x.shape[0]),
            jnp.sort(x, 0), x @ x.T, jnp.cumsum(x, 0), jnp.pad(x, ((1, 1), (0, 0))), x[::-1],
            jax.nn.softmax(x, 0), jnp.zeros((x.shape[0] * 2,)))


def mesh():
    return Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))


@exports(("float32", 8, 4))
def collectives(x):
    def f(x):
        return (lax.psum(x, "data"), lax.pmax(x, "model"), lax.all_gather(x, "data"),
                lax.ppermute(x, "data", [(0, 1), (1, 2)]),
                lax.psum_scatter(x, "model", tiled=True),
                lax.all_to_all(x, "model", 1, 0, tiled=True), lax.axis_index("data"))

    outputs = (P(), P("data"), P(None, "data"), P("data"), P("data", "model"),
               P(("data", "model")), P())
    return jax.shard_map(f, mesh=mesh(), in_specs=P("data"), out_specs=outputs, check_vma=False)(x)


@exports(("float32", 8, 4))
def constrained(x):
    open_axis = NamedSharding(mesh(), P(P.UNCONSTRAINED, "model"))
    x = lax.with_sharding_constraint(x * 2, NamedSharding(mesh(), P("data", "model")))
    return lax.with_sharding_constraint(x + 1, open_axis)


@exports(("float32", 4), donated=(0,))
def donated(x):
    return x + 1


@exports(("float32", 4), platforms=["cpu", "tpu"])
def platforms(x):
    return lax.platform_dependent(x, cpu=jnp.sin, tpu=jnp.cos)


# A module with types that JAX does not export.
QUANTIZED = """
func.func @main(%x: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %0 = stablehlo.uniform_quantize %x
    : (tensor<4x2xf32>) -> tensor<4x2x!quant.uniform<i8<-127:127>:f32, 0.25:3>>
  %1 = stablehlo.uniform_dequantize %0
    : (tensor<4x2x!quant.uniform<i8<-127:127>:f32, 0.25:3>>) -> tensor<4x2xf32>
  %2 = stablehlo.uniform_quantize %x
    : (tensor<4x2xf32>) -> tensor<4x2x!quant.uniform<u8:f32:1, {0.1:128, 2.0:0}>>
  %3 = stablehlo.uniform_dequantize %2
    : (tensor<4x2x!quant.uniform<u8:f32:1, {0.1:128, 2.0:0}>>) -> tensor<4x2xf32>
  return %1, %3 : tensor<4x2xf32>, tensor<4x2xf32>
}
func.func private @declared(tensor<f32>, memref<3x?xf32>) -> tensor<f32>
func.func @annotated() attributes {stablehlo.attr = {number = 1 : i32}} {
  return
}
"""


def write(folder):
    quantized = stablehlo.serialize_portable_artifact_str(QUANTIZED, "1.15.0")
    (folder / "quantized.bc").write_bytes(quantized)
    for name, (function, arguments, options) in FUNCTIONS.items():
        types = [jax.ShapeDtypeStruct(export.symbolic_shape(a), jnp.float32) if isinstance(a, str)
                 else jax.ShapeDtypeStruct(a[1:], getattr(jnp, a[0])) for a in arguments]
        traced = jax.jit(function, donate_argnums=options.get("donated", ()))
        exported = export.export(traced, platforms=options.get("platforms"))(*types)
        (folder / f"{name}.bc").write_bytes(exported.mlir_module_serialized)


def check(folder, exported_folder):
    result = type(jnp.linalg.eigh(jnp.eye(2)))
    export.register_namedtuple_serialization(result, serialized_name="EighResult")
    artifacts = {path.stem: path.read_bytes() for path in folder.glob("*.bc")}
    for path in exported_folder.glob("*.bin"):
        exported, order = export.deserialize(bytearray(path.read_bytes())), 0
        while True:
            artifacts[f"{path.stem}.{order}"] = exported.mlir_module_serialized
            if not exported.has_vjp():
                break
            exported, order = exported.vjp(), order + 1
    compare(folder, artifacts)


def compare(folder, artifacts):
    assert {path.stem for path in folder.glob("*.mlir")} == set(artifacts)
    for name, artifact in sorted(artifacts.items()):
        with mlir.make_ir_context() as context:
            theirs = stablehlo.deserialize_portable_artifact(context, artifact)
            ours = ir.Module.parse((folder / f"{name}.mlir").read_text(), context)
            ours.operation.verify()
            theirs, ours = [m.operation.get_asm(enable_debug_info=False) for m in (theirs, ours)]
            theirs = re.sub(RULE, "", theirs)
            assert theirs == ours, f"{name}:\n{theirs}\n{ours}"
    print(f"{len(artifacts)} artifacts are equal")


match sys.argv[1:]:
    case ["write", folder]:
        write(pathlib.Path(folder))
    case ["check", folder, exported]:
        check(pathlib.Path(folder), pathlib.Path(exported))
    case ["written", folder, written]:
        paths = pathlib.Path(written).glob("*.bc")
        compare(pathlib.Path(folder), {path.stem: path.read_bytes() for path in paths})
    case _:
        sys.exit(__doc__)
