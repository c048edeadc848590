"""Elementwise functions, and the activation functions of `jax.nn`."""

import jax
import jax.numpy as jnp

from .api_table import B, I, R, Row, V

BOTH = ("f32", "f64")
_EDGES = V([0.0, -0.0, 1.0, -1.5, float("inf"), float("-inf"), float("nan"), 1e-40, 3e38])
_X = R((3, 4))
_P = R((3, 4), 0.1, 3.0)


def _unary(op, function, operand=_X, wrt=(0,), **more):
    return Row(op, [operand], function, wrt, **more)


ROWS = [
    _unary("log2", jnp.log2, _P, kinds=BOTH),
    _unary("log10", jnp.log10, _P, kinds=BOTH),
    Row("logaddexp2", [_X, _X], jnp.logaddexp2, (0, 1), BOTH),
    _unary("deg2rad", jnp.deg2rad),
    _unary("rad2deg", jnp.rad2deg),
    Row("hypot", [_X, _X], jnp.hypot, (0, 1), BOTH),
    Row(
        "hypot_edges",
        [V([0.0, 3.0, float("inf"), 1e-20, 1e30]), V([0.0, 4.0, float("nan"), 1e-20, 1e30])],
        jnp.hypot,
        None,
        batch=False,
    ),
    _unary("sinc", jnp.sinc, kinds=BOTH),
    _unary("sinc_zero", jnp.sinc, V([0.0, 0.5, -2.0]), kinds=BOTH, batch=False),
    # Values only: JAX's derivative loses half of its digits near 0.
    _unary("sinc_near_zero", jnp.sinc, V([1e-4, -1e-3, 1e-2]), None, kinds=BOTH, batch=False),
    Row("unwrap", [R((2, 7), -9, 9)], jnp.unwrap, (0,), BOTH),
    Row("unwrap_period", [R((6, 2), -9, 9)], lambda x: jnp.unwrap(x, axis=0, period=3.0), (0,)),
    Row("signbit", [_EDGES], jnp.signbit, exact=True, kinds=("f32", "f64", "bf16")),
    Row("signbit_int", [I((6,), -3, 3)], jnp.signbit, exact=True, batch=False),
    Row("copysign", [_X, _X], jnp.copysign, (0,)),
    Row("trunc", [_X], jnp.trunc, (0,), exact=True),
    Row("modf", [_X], jnp.modf, (0,), BOTH),
    Row("fabs_int", [I((5,), -9, 9)], jnp.fabs, exact=True, batch=False),
    Row("positive", [_X], jnp.positive, (0,), batch=False),
    _unary("reciprocal", jnp.reciprocal, _P),
    Row("reciprocal_int", [I((5,), 1, 9)], jnp.reciprocal, batch=False),
    Row("float_power", [I((5,), 1, 9), I((5,), -3, 4)], jnp.float_power),
    Row("round_2", [_X], lambda x: jnp.round(x, 2), kinds=("f64",)),
    Row(
        "frexp",
        [V([0.0, -0.0, 1.0, -1.5, float("inf"), float("-inf"), float("nan"), 1e-37, 3e38])],
        lambda x: [jnp.frexp(x)[0], jnp.frexp(x)[1].astype("int32")],
        exact=True,
        kinds=("f32", "f64"),
        batch=False,
    ),
    Row(
        "frexp_plain",
        [R((3, 4), -900, 900)],
        lambda x: [jnp.frexp(x)[0], jnp.frexp(x)[1].astype("int32")],
        exact=True,
        kinds=("f32", "f64", "f16"),
    ),
    Row("ldexp", [_X, I((3, 4), -20, 20)], jnp.ldexp, (0,), BOTH),
    Row(
        "spacing",
        [V([0.0, 1.0, -1.5, 1e10, 3e-5, float("nan")])],
        jnp.spacing,
        exact=True,
        kinds=("f32", "f64"),
        batch=False,
    ),
    Row("fmax", [_X, _X], jnp.fmax, (0, 1), exact=True),
    Row(
        "fmax_nan",
        [V([1.0, float("nan"), 2.0, float("nan")]), V([float("nan"), 1.0, 3.0, float("nan")])],
        jnp.fmax,
        exact=True,
        batch=False,
    ),
    Row("fmin", [_X, _X], jnp.fmin, (0, 1), exact=True),
    Row(
        "fmin_nan",
        [V([1.0, float("nan"), 2.0, float("nan")]), V([float("nan"), 1.0, 3.0, float("nan")])],
        jnp.fmin,
        exact=True,
        batch=False,
    ),
    Row(
        "heaviside",
        [V([-2.0, 0.0, 3.0, float("nan")]), V([0.5, 0.25, 0.5, 0.5])],
        jnp.heaviside,
        exact=True,
    ),
    Row("divmod", [R((3, 4), -9, 9), R((3, 4), 1, 3)], jnp.divmod, (0, 1)),
    Row("divmod_int", [I((8,), -9, 9), V([3, -3, 2, -2, 4, 5, -7, 1])], jnp.divmod, exact=True),
    Row("gcd", [I((12,), -60, 60), I((12,), -60, 60)], jnp.gcd, exact=True),
    Row(
        "lcm",
        [I((12,), -60, 60), V([12, 0, 7, -8, 30, 1, 6, 9, -15, 20, 4, 3])],
        jnp.lcm,
        exact=True,
    ),
    Row("logical_and", [I((6,), -1, 2), B((6,))], jnp.logical_and, exact=True),
    Row("logical_or", [I((6,), -1, 2), B((6,))], jnp.logical_or, exact=True),
    Row("logical_xor", [I((6,), -1, 2), B((6,))], jnp.logical_xor, exact=True),
    Row("logical_not", [I((6,), -1, 2)], jnp.logical_not, exact=True),
    Row(
        "isclose",
        [
            V([1.0, 1.0, float("inf"), float("nan"), 0.0]),
            V([1.000001, 1.1, float("inf"), float("nan"), 1e-9]),
        ],
        jnp.isclose,
        exact=True,
    ),
    Row(
        "isclose_nan",
        [V([1.0, float("nan")]), V([1.05, float("nan")])],
        lambda x, y: jnp.isclose(x, y, rtol=0.1, equal_nan=True),
        exact=True,
    ),
    Row("allclose", [V([1.0, 2.0]), V([1.0, 2.00001])], jnp.allclose, exact=True),
    Row("array_equal", [I((2, 2), 0, 2), I((2, 2), 0, 2)], jnp.array_equal, exact=True),
    Row("array_equiv", [V([[1, 2], [1, 2]]), V([1, 2])], jnp.array_equiv, exact=True),
    Row("isreal", [_X], jnp.isreal, exact=True, kinds=("f32", "c64"), batch=False),
    Row("iscomplex", [_X], jnp.iscomplex, exact=True, kinds=("f32", "c64"), batch=False),
    Row("isposinf", [_EDGES], jnp.isposinf, exact=True),
    Row("isneginf", [_EDGES], jnp.isneginf, exact=True),
    Row("packbits", [B((2, 11))], lambda x: jnp.packbits(x, axis=-1), exact=True),
    Row(
        "packbits_little",
        [I((9, 2), 0, 2)],
        lambda x: jnp.packbits(x, axis=0, bitorder="little"),
        exact=True,
    ),
    Row("unpackbits", [I((2, 3), 0, 256, "u8")], lambda x: jnp.unpackbits(x, axis=-1), exact=True),
    Row(
        "unpackbits_little",
        [I((2, 3), 0, 256, "u8")],
        lambda x: jnp.unpackbits(x, axis=0, bitorder="little"),
        exact=True,
    ),
    _unary("celu", lambda x: jax.nn.celu(x, 1.5), kinds=BOTH),
    _unary("hard_sigmoid", jax.nn.hard_sigmoid, R((3, 4), -5, 5)),
    _unary("hard_silu", jax.nn.hard_silu, R((3, 4), -5, 5)),
    _unary("mish", jax.nn.mish, kinds=BOTH),
    _unary("squareplus", jax.nn.squareplus, kinds=BOTH),
    _unary("sparse_plus", jax.nn.sparse_plus),
    _unary("sparse_sigmoid", jax.nn.sparse_sigmoid),
    _unary("log1mexp", jax.nn.log1mexp, R((3, 4), 0.05, 5), kinds=BOTH),
    _unary("logmeanexp", lambda x: jax.nn.logmeanexp(x, axis=-1), kinds=BOTH),
    Row("logmeanexp_all", [_X], lambda x: jax.nn.logmeanexp(x), (0,)),
]
