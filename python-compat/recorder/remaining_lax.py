"""Functions of `jax.lax`, `jax.nn` and `jax.scipy.special` that no other suite calls."""

import jax
import jax.numpy as jnp
from jax import lax
from jax._src.cudnn import scaled_matmul_stablehlo as block_scaled
from jax.scipy import special

from .api_table import B, I, R, Row, V

_FLOATS = ("f32", "bf16")
_SLACK = {"rtol": 2e-2, "atol": 2e-2}
_CONVOLUTION = ((2, 1), [(1, 2), (0, -1)], (2, 1), (1, 2))


def _scatter(function):
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    return lambda x, i, u: function(x, i[:, None], u, numbers)


def _scatter_apply(x, i):
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    shape = (i.shape[0], *x.shape[1:])
    return lax.scatter_apply(x, i[:, None], jnp.sin, numbers, update_shape=shape)


@jax.jit
def _tangent(x):
    return lax.composite(lambda x: jnp.sin(x) / jnp.cos(x), "my.tangent")(x)


def _scaled_dot(x, y, a, b):
    return lax.scaled_dot(x, y, lhs_scale=a, rhs_scale=b, preferred_element_type=jnp.float32)


INDEXING = [
    Row("slice_in_dim", [R((3, 8))], lambda x: lax.slice_in_dim(x, 1, -1, 2, axis=1), (0,), _FLOATS,
        exact=True),
    Row("index_in_dim", [R((3, 4))], lambda x: lax.index_in_dim(x, -1, 1), (0,), exact=True),
    Row("index_in_dim_dropped", [R((3, 4))], lambda x: lax.index_in_dim(x, 1, 0, keepdims=False),
        (0,), exact=True),
    Row("index_take", [R((4, 5)), V([3, 0, -1]), V([1, -2, 4])],
        lambda x, i, j: lax.index_take(x, (i, j), (0, 1)), (0,), exact=True, batch=False),
    Row("scatter_sub", [R((4, 3)), V([1, 3, 1]), R((3, 3))], _scatter(lax.scatter_sub), (0, 2),
        _FLOATS),
    Row("scatter_apply", [R((4, 3)), V([2, 0])], _scatter_apply, None, _FLOATS, batch=False),
] + [
    Row(f"dynamic_index_{label}", [R((3, 4)), V(index)],
        lambda x, i: lax.dynamic_index_in_dim(x, i, 1), (0,), exact=True)
    for label, index in (("inside", 2), ("negative", -1), ("after", 9), ("before", -9))
] + [
    Row("dynamic_index_dropped", [R((3, 4)), V(-2)],
        lambda x, i: lax.dynamic_index_in_dim(x, i, keepdims=False), (0,), _FLOATS, exact=True),
    Row("dynamic_slice_negative", [R((4, 5)), V(-3), V(-7)],
        lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 3)), (0,), _FLOATS, exact=True),
    Row("dynamic_slice_after", [R((4, 5)), V(3), V(7)],
        lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 3)), (0,), exact=True),
    Row("dynamic_slice_in_dim_negative", [R((4, 5)), V(-2)],
        lambda x, i: lax.dynamic_slice_in_dim(x, i, 3, 1), (0,), exact=True),
    Row("dynamic_update_slice_negative", [R((4, 5)), R((2, 3)), V(-3), V(-1)],
        lambda x, y, i, j: lax.dynamic_update_slice(x, y, (i, j)), (0, 1), _FLOATS, exact=True),
    Row("dynamic_update_index", [R((3, 4)), R((3,)), V(-1)],
        lambda x, y, i: lax.dynamic_update_index_in_dim(x, y, i, 1), (0, 1), _FLOATS, exact=True),
    Row("dynamic_update_index_after", [R((3, 4)), R((3, 1)), V(9)],
        lambda x, y, i: lax.dynamic_update_index_in_dim(x, y, i, 1), (0, 1), exact=True),
    Row("sort_key_val", [V([[3.0, 1.0, 2.0, 1.0], [0.0, 0.0, -1.0, 5.0]]), R((2, 4))],
        lambda k, v: lax.sort_key_val(k, v), (0, 1), _FLOATS, exact=True),
    Row("sort_key_val_axis", [R((4, 2)), I((4, 2))],
        lambda k, v: lax.sort_key_val(k, v, dimension=0), exact=True),
]  # fmt: skip

SHAPES = [
    Row("broadcast_like", [R((1, 3)), R((2, 3))], lax.broadcast_like, (0,), _FLOATS, exact=True),
    Row("broadcast_to_rank", [R((3,))], lambda x: lax.broadcast_to_rank(x, 3), (0,), exact=True),
    Row("collapse", [R((2, 3, 4, 2))], lambda x: lax.collapse(x, 1, 3), (0,), _FLOATS, exact=True),
    Row("iota", [], lambda: lax.iota(jnp.int32, 5), exact=True),
    Row("optimization_barrier", [R((3,)), R((2,))],
        lambda x, y: lax.optimization_barrier((x, y)), (0, 1), _FLOATS, exact=True),
] + [
    Row(f"lax_{name}_{kind}", [I((6,), 0, 100, kind), I((6,), 0, 100, kind)],
        getattr(lax, name), exact=True)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
    for kind in ("i32", "u32")
] + [
    Row("lax_bitwise_xor_bool", [B((6,)), B((6,))], lax.bitwise_xor, exact=True),
]  # fmt: skip

PRODUCTS = [
    Row("batch_matmul", [R((2, 3, 4)), R((2, 4, 2))], lax.batch_matmul, (0, 1), _FLOATS),
    Row("conv_with_general_padding", [R((1, 2, 5, 6)), R((3, 2, 2, 2))],
        lambda x, k: lax.conv_with_general_padding(x, k, *_CONVOLUTION), (0, 1), _FLOATS,
        tolerance=_SLACK),
    Row("conv_with_general_padding_f64", [R((2, 2, 5)), R((3, 2, 3))],
        lambda x, k: lax.conv_with_general_padding(x, k, (2,), "SAME", None, None), (0, 1),
        ("f64",)),
    # JAX has no derivative of `composite`: that of its decomposition is recorded.
    Row("composite", [R((2, 3), -1, 1)], _tangent, None, _FLOATS, batch=False),
    Row("composite_gradient", [R((2, 3), -1, 1)], lambda x: jnp.sin(x) / jnp.cos(x), (0,)),
    Row("scaled_dot", [R((2, 4)), R((4, 3)), R((2, 2), 0.5, 2), R((2, 3), 0.5, 2)], _scaled_dot,
        tolerance=_SLACK, batch=False),
    Row("triangular_solve", [R((3, 3), 0.5, 1.5), R((3, 2))],
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True), (0, 1),
        ("f64", "f32")),
    Row("triangular_solve_right", [R((3, 3), 0.5, 1.5), R((2, 3))],
        lambda a, b: lax.linalg.triangular_solve(
            a, b, transpose_a=True, unit_diagonal=True), (0, 1), ("f64",)),
]  # fmt: skip


def _dequantized_product(lhs, rhs, lhs_scales, rhs_scales, preferred_element_type):
    """Replaces the product of cuDNN, which multiplies scaled blocks."""

    def scaled(x, scales):
        count = x.shape[-1] // scales.shape[-1]
        return x.astype(jnp.float32) * jnp.repeat(scales.astype(jnp.float32), count, -1)

    product = jnp.einsum("bmk,bnk->bmn", scaled(lhs, lhs_scales), scaled(rhs, rhs_scales))
    return product.astype(preferred_element_type)


def _scaled_dot_general(mode, numbers, scale=None):
    config = jax.nn.get_scaled_dot_general_config(mode, scale)

    def run(x, y, ct):
        own, block_scaled.scaled_matmul_wrapper = (
            block_scaled.scaled_matmul_wrapper,
            _dequantized_product,
        )
        try:
            function = lambda x, y: jax.nn.scaled_dot_general(
                x, y, numbers, preferred_element_type=jnp.float32, configs=[config] * 3
            )
            value, pullback = jax.vjp(function, x, y)
            return (value, *pullback(ct.astype(value.dtype)))
        finally:
            block_scaled.scaled_matmul_wrapper = own

    return run


_BATCHED = (((2,), (2,)), ((0,), (0,)))
_TRANSPOSED = (((0,), (1,)), ((), ()))

PRODUCTS += [
    # The cotangent is the last operand.
    Row("scaled_dot_general_mxfp8", [R((32, 32)), R((32, 32)), R((32, 32))],
        _scaled_dot_general("mxfp8", _TRANSPOSED), tolerance=_SLACK, batch=False),
    # The range of the format is 2688 times the scale: some elements are beyond it.
    Row("scaled_dot_general_nvfp4", [R((2, 3, 32), -3, 3), R((2, 5, 32)), R((2, 3, 5))],
        _scaled_dot_general("nvfp4", _BATCHED, jnp.array([0.001], jnp.float32)),
        tolerance=_SLACK, batch=False),
]  # fmt: skip


def _activation(name, low=-4, high=4):
    return Row(name, [R((2, 6), low, high)], getattr(jax.nn, name), (0,), _FLOATS)


def _special(name, low, high):
    function = getattr(special, name)
    return Row(f"special_{name}", [R((2, 4), low, high)], function, (0,), _FLOATS)


ACTIVATIONS = [
    _activation("glu"),
    _activation("hard_swish"),
    _activation("hard_tanh"),
    _activation("selu"),
    _activation("swish"),
    _special("erfc", -2, 3),
    Row("lax_erfc", [V([-3.0, -0.5, 0.0, 0.7, 2.0, 6.0])], lax.erfc, (0,), _FLOATS),
    _special("erfinv", -0.9, 0.9),
    _special("expit", -6, 6),
    _special("gammaln", 0.2, 8),
    _special("i0e", -9, 9),
    _special("i1e", -9, 9),
] + [
    Row(f"special_{name}", [R((5,), 0.5, 5), R((5,), 0.2, 8)], getattr(special, name), (0, 1),
        ("f64", "f32"))
    for name in ("gammainc", "gammaincc")
] + [
    Row(f"special_{name}_bf16", [R((5,), 0.5, 5), R((5,), 0.2, 8)], getattr(special, name),
        kinds=("bf16",), batch=False)
    for name in ("gammainc", "gammaincc")
]  # fmt: skip
