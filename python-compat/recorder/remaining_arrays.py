"""Functions of `jax.numpy` that no other suite calls."""

import jax.numpy as jnp
import numpy as np

from .api_table import B, I, R, Row, V
from .names import dtype

_FLOATS = ("f32", "bf16")
_NAN = float("nan")
_SHIFTS = V([0, 1, 5, 31, 32, 40])
# The dtypes of the tables, in the order of `DTYPES` in `crates/parity/src/remaining.rs`.
DTYPES = (
    "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bf16", "f16", "f32", "f64",
    "c64", "c128",
)  # fmt: skip
_KINDS = (
    "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating",
    "numeric",
)  # fmt: skip


def _elementwise(name, low, high, **options):
    function = getattr(jnp, name)
    return Row(name, [R((2, 5), low, high)], lambda x: function(x, **options), (0,), _FLOATS)


def _partition(x):
    """Returns the element of rank 3 and the sorted parts, as the order in them is not defined."""
    y = jnp.partition(x, 3, axis=1)
    return y[:, 3], jnp.sort(y[:, :3], 1), jnp.sort(y[:, 4:], 1)


def _argpartition(x):
    at = jnp.argpartition(x, 3, axis=1)
    return at[:, 3], jnp.sort(at[:, :3], 1), jnp.sort(at[:, 4:], 1)


def _can_cast():
    return np.array([[jnp.can_cast(dtype(a), dtype(b)) for b in DTYPES] for a in DTYPES])


def _isdtype():
    return np.array([[jnp.isdtype(dtype(a), kind) for kind in _KINDS] for a in DTYPES])


def _result_type():
    """Returns for each pair of dtypes the index of the dtype that both promote to.

    Signed integers and `u64` promote to the default float, which is `f32` in oxidax.
    """

    def index(a, b):
        kind = jnp.result_type(dtype(a), dtype(b))
        is_default = {dtype(a).kind, dtype(b).kind} == {"i", "u"} and kind == np.float64
        return [dtype(name) for name in DTYPES].index(np.float32 if is_default else kind)

    return np.array([[index(a, b) for b in DTYPES] for a in DTYPES], np.int32)


def _properties():
    arrays = [jnp.zeros((), dtype(name)) for name in DTYPES]
    functions = (jnp.isrealobj, jnp.iscomplexobj, jnp.isscalar)
    shapes = np.array([jnp.isscalar(x) for x in (jnp.zeros(()), jnp.zeros(1), jnp.zeros((1, 1)))])
    return *[np.array([bool(f(x)) for x in arrays]) for f in functions[:2]], shapes


ELEMENTWISE = [
    _elementwise("absolute", -2, 2),
    _elementwise("arccos", -0.9, 0.9),
    _elementwise("arccosh", 1.1, 3),
    _elementwise("arcsin", -0.9, 0.9),
    _elementwise("arcsinh", -3, 3),
    _elementwise("arctan", -3, 3),
    _elementwise("arctanh", -0.9, 0.9),
    _elementwise("negative", -2, 2),
    _elementwise("radians", -200, 200),
    Row("rint", [V([-2.5, -1.5, -0.4, 0.5, 1.5, 2.6])], jnp.rint, (0,), _FLOATS, exact=True),
    Row("rint_complex", [R((4,), -3, 3)], lambda x: jnp.rint(x * (1 + 2j)), exact=True),
    _elementwise("around", -9, 9, decimals=1),
    Row("fmod", [R((6,), -9, 9), R((6,), 1, 3)], jnp.fmod, (0, 1), _FLOATS),
    Row("mod", [R((6,), -9, 9), R((6,), 1, 3)], jnp.mod, (0, 1), _FLOATS),
] + [
    Row(f"{name}_integers", [I((8,), -20, 20), V([3, -3, 7, -7, 2, 1, -1, 0])],
        getattr(jnp, name), exact=True)
    for name in ("fmod", "mod")
] + [
    Row("true_divide", [R((4,)), R((4,), 1, 2)], jnp.true_divide, (0, 1), _FLOATS),
    Row("true_divide_integers", [I((4,), -9, 9), I((4,), 1, 9)], jnp.true_divide),
] + [
    Row(
        name,
        [V([1.0, 2.0, _NAN, 2.0]), V([2.0, 2.0, 1.0, -1.0])],
        getattr(jnp, name),
        kinds=_FLOATS,
        exact=True,
    )
    for name in ("greater", "less_equal", "not_equal")
] + [
    Row(f"{name}_{kind}", [I((6,), 0, 100, kind), I((6,), 0, 100, kind)], getattr(jnp, name),
        exact=True)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    for kind in ("i32", "u8")
] + [
    Row("bitwise_and_bool", [B((6,)), B((6,))], jnp.bitwise_and, exact=True),
    Row("bitwise_invert", [I((6,), -99, 99)], jnp.bitwise_invert, exact=True),
    Row("invert", [B((6,))], jnp.invert, exact=True),
    Row("bitwise_count", [V([-7, -1, 0, 1, 255, 1 << 30])], jnp.bitwise_count, exact=True),
    Row("bitwise_count_u8", [I((6,), 0, 255, "u8")], jnp.bitwise_count, exact=True),
] + [
    Row(f"{name}_{kind}", [I((6,), low, 250, kind), _SHIFTS if kind == "i32" else I((6,), 0, 9,
        kind)], getattr(jnp, name), exact=True)
    for name in ("left_shift", "right_shift", "bitwise_left_shift", "bitwise_right_shift")
    for kind, low in (("i32", -250), ("u8", 0))
]  # fmt: skip

REDUCTIONS = [
    Row("amax", [V([[1.0, 3.0, 3.0], [2.0, -1.0, 0.0]])], lambda x: jnp.amax(x, 1), (0,), _FLOATS),
    Row("amin", [R((3, 4))], lambda x: jnp.amin(x, axis=0, keepdims=True), (0,), _FLOATS),
    Row("count_nonzero", [I((3, 4), -1, 2)], lambda x: jnp.count_nonzero(x, axis=1), exact=True),
    Row("count_nonzero_all", [B((3, 4))], jnp.count_nonzero, exact=True),
    Row("partition", [R((2, 7))], _partition, kinds=_FLOATS, exact=True),
    Row("argpartition", [R((2, 7))], _argpartition, exact=True),
    Row("unique_values", [I((8,), 0, 5)], lambda x: jnp.unique_values(x, size=6, fill_value=9),
        exact=True),
    Row("unique_counts", [I((2, 4), 0, 5)], lambda x: tuple(jnp.unique_counts(x, size=6,
        fill_value=9)), exact=True),
    Row("unique_inverse", [I((2, 4), 0, 5)], lambda x: tuple(jnp.unique_inverse(x, size=6,
        fill_value=9)), exact=True),
    Row("unique_all", [V([3.0, 1.0, 3.0, -2.0, 1.0])], lambda x: tuple(jnp.unique_all(x, size=4,
        fill_value=0)), kinds=_FLOATS, exact=True),
]  # fmt: skip

SHAPES = [
    Row("permute_dims", [R((2, 3, 4))], lambda x: jnp.permute_dims(x, (2, 0, 1)), (0,), _FLOATS,
        exact=True),
    Row("index_exp", [R((3, 4))], lambda x: x[jnp.index_exp[..., None, 1:3]], (0,), exact=True),
    Row("s_", [R((5, 4))], lambda x: x[jnp.s_[1:4:2, ::-1]], (0,), _FLOATS, exact=True),
    Row("ix_", [R((4, 5)), V([3, 0]), V([1, 4, 1])], lambda x, i, j: x[jnp.ix_(i, j)], (0,),
        exact=True),
    Row("mgrid", [], lambda: jnp.mgrid[0:3, 0:4].astype(jnp.int32), exact=True),
    Row("ogrid", [], lambda: [x.astype(jnp.int32) for x in jnp.ogrid[0:3, 0:4]], exact=True),
    Row("tri", [], lambda: jnp.tri(3, 4, 1, dtype=jnp.float32), exact=True),
    Row("diag_indices_from", [R((3, 3))], jnp.diag_indices_from, batch=False, exact=True),
    Row("tril_indices_from", [R((3, 4))], lambda x: jnp.tril_indices_from(x, 1), batch=False,
        exact=True),
    Row("mask_indices", [], lambda: jnp.mask_indices(4, jnp.triu, 1, size=8), exact=True),
    Row("empty_like", [R((2, 3))], lambda x: jnp.empty_like(x, dtype=jnp.bfloat16), exact=True),
    Row("can_cast", [], _can_cast, exact=True),
    Row("isdtype", [], _isdtype, exact=True),
    Row("result_type", [], _result_type, exact=True),
    Row("properties", [], _properties, exact=True),
]  # fmt: skip

# Results whose shape depends on the values; they are computed outside of `jit`.
TRIMMED = [
    ("trim_zeros_both", [0.0, 0.0, 1.0, 0.0, 2.0, 0.0], {}),
    ("trim_zeros_front", [0.0, 0.0, 1.0, 0.0, 2.0, 0.0], {"trim": "f"}),
    ("trim_zeros_back", [0.0, 0.0, 1.0, 0.0, 2.0, 0.0], {"trim": "b"}),
    ("trim_zeros_none", [0.0, 0.0], {}),
]

_MATRIX = ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
_VECTOR = (1, 2, np.inf, -np.inf, 0, 3)


def _norms(function, name, orders):
    return [
        Row(
            f"{name}_{order}",
            [R((2, 3, 4))],
            lambda x, order=order: function(x, order),
            None if order == 0 else (0,),
            ("f64", "f32"),
        )
        for order in orders
    ]


LINALG = (
    _norms(lambda x, order: jnp.linalg.matrix_norm(x, ord=order), "matrix_norm", _MATRIX)
    + _norms(lambda x, o: jnp.linalg.vector_norm(x, ord=o, axis=1), "vector_norm", _VECTOR)
    + [
        Row("matrix_norm_bf16", [R((3, 4))], jnp.linalg.matrix_norm, (0,), ("bf16",)),
        Row("vector_norm_bf16", [R((3, 4))], jnp.linalg.vector_norm, (0,), ("bf16",)),
        Row("fft2", [R((2, 4, 6))], jnp.fft.fft2, (0,), ("f32", "f64")),
        Row("ifft2", [R((2, 4, 6))], lambda x: jnp.fft.ifft2(x + 0j), None, ("f32", "f64")),
        Row("rfft2", [R((2, 4, 5))], jnp.fft.rfft2, (0,), ("f32", "f64")),
        Row("irfft2", [R((2, 4, 5))], lambda x: jnp.fft.irfft2(x + 0j), (0,), ("f32", "f64")),
    ]
)
