"""Options of `jax.lax`, `jax.numpy`, `jax.nn` and `jax.random` that few programs use.

Functions that JAX lacks on CPUs, or refuses, are computed by other functions of JAX.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax._src.cudnn import scaled_matmul_stablehlo as block_scaled
from jax.experimental import random as stateful
from jax.experimental import rnn
from jax.nn import initializers

from .api_table import I, R, Row, V, record
from .suite import Suite

_SLACK = {"rtol": 2e-2, "atol": 2e-2}
_NAN = float("nan")


def _reduce_captured(x, w):
    """Returns the reduction of `a + b + w a b / 10` along the first axis."""
    combine = lambda a, b: a + b + w * a * b * 0.1
    return functools.reduce(combine, list(x), jnp.zeros(x.shape[1:], x.dtype))


def _largest(x, window, padding):
    """Returns the largest element of each window, and its index along the last axis."""
    index = lax.broadcasted_iota(jnp.int32, x.shape, x.ndim - 1)

    def larger(left, right):
        (a, i), (b, j) = left, right
        return jnp.where(a >= b, a, b), jnp.where(a >= b, i, j)

    init = (jnp.array(-jnp.inf, x.dtype), jnp.int32(-1))
    return lax.reduce_window((x, index), init, larger, window, (1,) * x.ndim, padding)


def _sum_and_product(x, y):
    combine = lambda left, right: (left[0] + right[0], left[1] * right[1])
    init = (jnp.array(0, x.dtype), jnp.array(1, x.dtype))
    return lax.reduce_window((x, y), init, combine, (2, 2), (1, 2), "VALID")


def _weighted(q, axis, function=jnp.quantile):
    return lambda x, w: function(x, jnp.array(q, x.dtype), axis, method="inverted_cdf", weights=w)


def _of_groups(x, w, sizes):
    """Returns the product with the matrices of the groups from 1 on."""
    whole = jnp.concatenate([jnp.zeros_like(w[:1]), w])
    return lax.ragged_dot(x, whole, sizes)


def _along(function):
    return jax.vmap(function, axis_name="i")


def _positive(a):
    return a @ a.T + 2 * jnp.eye(3, dtype=a.dtype)


def _block_scaled(mode, numbers, scale=None):
    config = jax.nn.get_scaled_dot_general_config(mode, scale)

    def dequantized(x):
        elements, scales = block_scaled.quantize(x, config)
        scales = jnp.repeat(scales.astype(jnp.float32), config.block_size, -1)
        scaled = elements.astype(jnp.float32) * scales
        return scaled if scale is None else scaled * scale

    def product(x, y):
        return lax.dot_general(dequantized(x), dequantized(y), numbers)

    return product


def _weights(distribution):
    make = initializers.variance_scaling(2.0, "fan_avg", distribution)
    return lambda: make(jax.random.key(3), (4, 5), jnp.complex64)


def _draws():
    rng = stateful.stateful_rng(7)
    uniform = rng.uniform(-1, 2, (3,), dtype=jnp.float32)
    normal = rng.normal(1.0, 2.0, (3,), dtype=jnp.float32)
    integers = rng.integers(0, 10, (4,), dtype=jnp.int32)
    (child,) = rng.spawn(1)
    parts = jax.vmap(lambda rng: rng.random((), dtype=jnp.float32))(rng.split(3))
    return uniform, normal, integers, child.random((2,), dtype=jnp.float32), parts


def _lstm(layers, bidirectional):
    """Returns the LSTM of cuDNN by JAX's reference implementation."""

    def run(x, h, c, weights, lengths):
        sizes = (x.shape[-1], h.shape[-1], layers)
        parts = rnn.unpack_lstm_weights(weights, *sizes, bidirectional)
        return rnn.lstm_ref(x, h, c, *parts, lengths, *sizes, 0.0, bidirectional)

    return run


def _lstm_row(op, layers, bidirectional, **more):
    directions = 2 if bidirectional else 1
    count = rnn.get_num_params_in_lstm(3, 2, layers, bidirectional)
    states = [R((layers * directions, 2, 2)) for _ in range(2)]
    operands = [R((2, 4, 3)), *states, R((count,), -0.7, 0.7), V([4, 2])]
    return Row(op, operands, _lstm(layers, bidirectional), (0, 1, 2, 3), **more)


REDUCTIONS = [
    Row("reduce_captured", [R((5, 3)), R((), 0, 1)], _reduce_captured, (0, 1)),
    Row("reduce_captured_bf16", [R((4, 2)), R(())], _reduce_captured, kinds=("bf16",)),
    Row(
        "window_largest",
        [R((2, 7))],
        lambda x: _largest(x, (1, 3), "SAME"),
        kinds=("f32", "bf16"),
        exact=True,
    ),
    Row(
        "window_largest_valid",
        [R((4, 5))],
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 1), (1, 1), "VALID"),
        (0,),
    ),
    Row("window_pair", [R((4, 6)), R((4, 6))], _sum_and_product, kinds=("f32", "bf16")),
    Row(
        "quantile_weights",
        [R((6, 4)), R((6, 4), 0.1, 1.0)],
        _weighted([0.1, 0.5, 0.9], 0),
        (0,),
        exact=True,
    ),
    Row(
        "quantile_weights_bf16",
        [R((5,)), V([1.0, 2.0, 1.0, 4.0, 2.0])],
        _weighted(0.5, 0),
        kinds=("bf16",),
        exact=True,
    ),
    Row("quantile_axis_weights", [R((3, 5)), R((5,), 0.1, 1.0)], _weighted(0.3, 1), exact=True),
    Row(
        "quantile_bad_weights",
        [V([[1.0, _NAN], [3.0, 4.0]]), V([[1.0, -1.0], [1.0, 2.0]])],
        _weighted([0.2, 1.0], (0,)),
        exact=True,
    ),
    Row(
        "nanquantile_weights",
        [V([[1.0, _NAN, 2.0], [_NAN, _NAN, _NAN]]), V([[1.0, 5.0, 3.0], [1.0, 1.0, 1.0]])],
        _weighted([0.0, 0.2, 0.9], 1, jnp.nanquantile),
        exact=True,
    ),
    Row(
        "percentile_weights",
        [R((4, 3)), R((4, 3), 0.1, 1.0)],
        lambda x, w: jnp.percentile(
            x, jnp.float32(40), None, method="inverted_cdf", weights=w
        ),
        exact=True,
    ),
    Row(
        "nanpercentile_cdf",
        [R((4, 3))],
        lambda x: jnp.nanpercentile(x, jnp.float32(40), 0, method="inverted_cdf"),
        exact=True,
    ),
    Row("argmax_i16", [R((3, 4))], lambda x: lax.argmax(x, 1, jnp.int16), exact=True),
    Row("argmin_u8", [R((3, 4))], lambda x: lax.argmin(x, 0, jnp.uint8), exact=True),
]
PRODUCTS = [
    Row("div_integers", [I((8,), -20, 20), V([3, -3, 7, -7, 2, 1, -1, 5])], lax.div, exact=True),
    Row("div_floats", [R((4,)), R((4,), 1, 2)], lax.div, (0, 1), kinds=("f32", "bf16")),
    Row(
        "ragged_offset",
        [R((7, 3)), R((2, 3, 2)), V([2, 3, 1])],
        _of_groups,
        (0, 1),
        kinds=("f32", "bf16"),
        tolerance=_SLACK,
    ),
    Row(
        "block_layers",
        [R((1, 2, 2)), R((2, 2))],
        lambda x, y: jnp.block([[[x, y], [y, x]], [[x, x], [x, x]]]),
        (0, 1),
        exact=True,
    ),
    Row(
        "vectorize_scalars",
        [R((3, 1)), R((4,))],
        jnp.vectorize(lambda x, y: jnp.where(x > y, x * y, y)),
        (0, 1),
    ),
    Row(
        "scaled_dot_mxfp8",
        [R((2, 4, 64)), R((2, 3, 64))],
        _block_scaled("mxfp8", (((2,), (2,)), ((0,), (0,)))),
        kinds=("f32", "bf16"),
    ),
    Row(
        "scaled_dot_nvfp4",
        [R((2, 3, 32)), R((2, 4, 32))],
        _block_scaled("nvfp4", (((2,), (2,)), ((0,), (0,))), jnp.array([0.5], jnp.float32)),
    ),
]
FUNCTIONS = [
    Row(
        f"{name}_highest",
        [R((2, 3), 0.5, 1.5)],
        functools.partial(getattr(lax, name), accuracy=lax.AccuracyMode.HIGHEST),
        (0,),
        kinds=("f32", "bf16"),
        batch=name == "exp",
    )
    for name in (
        "cbrt", "cos", "exp", "exp2", "expm1", "log", "log1p", "logistic", "rsqrt", "sin", "sqrt",
        "tan", "tanh",
    )
] + [
    Row(
        "pbroadcast",
        [R((3, 2))],
        _along(lambda x: lax.psum(jnp.where(lax.axis_index("i") == 1, x, 0), "i")),
        (0,),
        kinds=("f32", "bf16"),
        exact=True,
    ),
    Row(
        "psend_precv",
        [R((3, 2))],
        _along(lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)])),
        (0,),
        exact=True,
    ),
    Row(
        "approx_min",
        [R((3, 40))],
        lambda x: lax.approx_min_k(x, 5, reduction_dimension=1, recall_target=0.9),
        kinds=("f32", "bf16"),
    ),
    Row(
        "approx_max_candidates",
        [R((2, 300))],
        lambda x: lax.approx_max_k(
            x, 3, reduction_input_size_override=3000, aggregate_to_topk=False
        ),
        batch=False,
    ),
    Row("approx_max_gradient", [R((4, 20))], lambda x: lax.approx_max_k(x, 4)[0], (0,)),
    Row("eigh_subset", [R((3, 3))], lambda a: jnp.linalg.eigvalsh(_positive(a))[1:], (0,)),
    Row(
        "svd_subset",
        [R((4, 3))],
        lambda a: jnp.linalg.svd(a, compute_uv=False)[:2],
        (0,),
    ),
    _lstm_row("lstm", 2, False),
    _lstm_row("lstm_bidirectional", 2, True, batch=False),
    Row("qr_raw", [R((4, 3))], lambda a: jnp.linalg.qr(a, mode="raw")),
    Row("complex_weights_uniform", [], _weights("uniform")),
    Row("complex_weights_truncated_normal", [], _weights("truncated_normal")),
    Row("complex_weights_normal", [], _weights("normal")),
    Row("stateful_rng", [], _draws),
]


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all families."""
    tolerance = {
        "bf16": {"rtol": 1e-2, "atol": 1e-2},
        "f32": {"rtol": 1e-5, "atol": 2e-6},
        "c64": {"rtol": 1e-5, "atol": 1e-6},
    }
    suite = Suite("lax_options", __doc__.strip(), stride=stride, tolerance=tolerance)
    for family, rows in (
        ("reductions", REDUCTIONS),
        ("products", PRODUCTS),
        ("functions", FUNCTIONS),
    ):
        record(suite, family, rows)
    return suite
