"""`jit` of arrays on a mesh: values, and the shardings of results.

JAX reports the shardings that XLA's partitioner chose. Results that several specs describe (with a
size of 1, or with mesh axes in either order) are not among the cases.
"""

import jax
import jax.numpy as jnp
from jax import lax

from .parallel_table import P, case, grid, put, row


def values(*operands, tolerance=None):
    """Registers a function as a case of this family."""
    return case("sharded", *operands, tolerance=tolerance, jit=False)


def follow(f, *pairs, where=None):
    """Runs a jitted function on arrays with these shardings."""
    return list(jax.jit(f)(*put(where or grid(), *pairs)))


@values("f32[8,4]")
def elementwise(x):
    return follow(lambda x: [jnp.sin(x) * 2, x > 0, x.astype(jnp.int32)], (x, P("a", "b")))


@values("f32[8,4]", "f32[4]")
def broadcast(x, y):
    return follow(lambda x, y: [x + y], (x, P("a")), (y, P("b")))


@values("f32[8,4]", "f32[4,6]")
def product_of_rows_and_columns(x, w):
    return follow(lambda x, w: [x @ w], (x, P("a")), (w, P(None, "b")))


@values("f32[8,4]", "f32[4,6]")
def product_of_contracted_parts(x, w):
    return follow(lambda x, w: [x @ w], (x, P("a", "b")), (w, P("b")))


@values("f32[8,4]", "f32[4,6]")
def product_of_whole_weights(x, w):
    return follow(lambda x, w: [x @ w, x.T], (x, P(("a", "b"))), (w, P()))


@values("f32[4,2,3]", "f32[4,3,5]")
def batch_of_products(x, w):
    return follow(lambda x, w: [x @ w], (x, P("a", "b")), (w, P("a")))


@values("f32[4,3,8]", "f32[8,2,4]")
def einsum(x, w):
    return follow(lambda x, w: [jnp.einsum("bsd,dhk->bshk", x, w)], (x, P("a")), (w, P(None, "b")))


@values("f32[8,4]")
def reductions(x):
    return follow(
        lambda x: [x.sum(0), x.sum(1), x.max(0), x.min(1), x.prod(0), x.mean()], (x, P("a", "b"))
    )


@values("f32[8,4]")
def softmax_of_rows(x):
    return follow(lambda x: [jax.nn.softmax(x, -1), jax.nn.softmax(x, 0)], (x, P("a", "b")))


@values("f32[8,4]", "f32[4]")
def layer_norm(x, scale):
    def f(x, scale):
        centred = x - x.mean(-1, keepdims=True)
        return [centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-3) * scale]

    return follow(f, (x, P("a")), (scale, P("b")))


@values("f32[8,4]")
def logsumexp_of_rows(x):
    return follow(lambda x: [jax.nn.logsumexp(x, -1), jax.nn.logsumexp(x)], (x, P("a", "b")))


@values("f32[8,6,2]", "f32[3,2,4]")
def convolution(x, w):
    f = lambda x, w: [
        lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
    ]
    return follow(f, (x, P("a")), (w, P(None, None, "b")))


@values("f32[2,8,2]", "f32[3,2,2]")
def convolution_of_spread_positions(x, w):
    f = lambda x, w: [
        lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
    ]
    return follow(f, (x, P(None, "a")), (w, P()))


@values("f32[8,4]", "i32[6]")
def rows_taken(x, n):
    return follow(lambda x, n: [jnp.take(x, jnp.abs(n) % 8, axis=0)], (x, P(None, "b")), (n, P()))


@values("f32[8,4]", "i32[8]")
def rows_taken_by_spread_numbers(x, n):
    return follow(lambda x, n: [jnp.take(x, jnp.abs(n) % 8, axis=0)], (x, P()), (n, P("a")))


@values("f32[8,4]", "i32[6]")
def rows_taken_of_a_spread_table(x, n):
    return follow(lambda x, n: [jnp.take(x, jnp.abs(n) % 8, axis=0)], (x, P("a")), (n, P()))


@values("f32[8,4]", "i32[4]", "f32[4,4]")
def rows_added(x, n, u):
    return follow(
        lambda x, n, u: [x.at[jnp.abs(n) % 8].add(u)],
        (x, P(None, "b")),
        (n, P()),
        (u, P(None, "b")),
    )


@values("f32[8,4]")
def running_totals(x):
    return follow(lambda x: [jnp.cumsum(x, 0), jnp.cumsum(x, 1)], (x, P("a")))


@values("f32[8,4]")
def running_maxima(x):
    """Computes only maxima.

    Next to a sum, XLA begins both windows of a sharded array with the same number, so that in JAX
    0.10.2 the maximum of -1.5 is 0.
    """
    return follow(lambda x: [lax.cummax(x, 0), lax.cummax(x, 1)], (x, P("a")))


@values("f32[8,4]")
def sorted_columns(x):
    return follow(lambda x: [jnp.sort(x, 0), jnp.sort(x, 1)], (x, P(None, "b")))


@values("f32[8,4]")
def largest(x):
    return follow(lambda x: [*lax.top_k(x, 2)], (x, P("a")))


@values("f32[8,4]", "f32[8,4]")
def joined(x, y):
    return follow(
        lambda x, y: [jnp.concatenate([x, y], 1), jnp.concatenate([x, y], 0), jnp.stack([x, y])],
        (x, P("a")),
        (y, P("a")),
    )


@values("f32[8,4]")
def sliced(x):
    return follow(lambda x: [x[:, 1:3], x[2:6], x[::2], x[:, ::-1]], (x, P("a")))


@values("f32[8,4]")
def sliced_dynamically(x):
    f = lambda x: [
        lax.dynamic_slice_in_dim(x, jnp.int32(1), 2, 1),
        lax.dynamic_update_slice_in_dim(x, x[:, :2] * 2, jnp.int32(1), 1),
    ]
    return follow(f, (x, P("a")))


@values("f32[8,4]")
def padded(x):
    return follow(
        lambda x: [jnp.pad(x, ((0, 0), (1, 2))), jnp.roll(x, 1, 0), jnp.roll(x, 1, 1)], (x, P("a"))
    )


@values("f32[8,4]")
def turned(x):
    return follow(lambda x: [x.T, x[:, None, :], jnp.broadcast_to(x, (3, 8, 4))], (x, P("a", "b")))


@values("f32[8,4]")
def reshaped(x):
    return follow(
        lambda x: [x.reshape(4, 2, 4), x.reshape(8, 2, 2), x.reshape(32)], (x, P("a", "b"))
    )


@values("f32[8,4]", "bool[8,4]")
def chosen(x, c):
    return follow(
        lambda x, c: [jnp.where(c, x, 0), jnp.clip(x, -1, 1)], (x, P("a", "b")), (c, P("a"))
    )


@values("f32[8,3]", "f32[5,3,3]")
def scanned_layers(x, ws):
    """Stores the weights of all layers in one array."""
    f = lambda x, ws: lax.scan(lambda h, w: (jnp.tanh(h @ w), (h**2).sum(0)), x, ws)
    return follow(f, (x, P("a")), (ws, P()))


@values("f32[6,8]")
def scanned_rows(x):
    f = lambda x: lax.scan(lambda h, x: (jnp.sin(h) + x, h), x[0], x)
    return follow(f, (x, P(None, ("a", "b"))))


@values("f32[8,4]")
def until_small(x):
    f = lambda x: [lax.while_loop(lambda y: jnp.abs(y).max() > 0.1, lambda y: y * 0.5, x)]
    return follow(f, (x, P("a", "b")))


@values("f32[8,4]")
def chosen_branch(x):
    f = lambda x: [lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x)]
    return follow(f, (x, P("a", "b")))


@values("f32[8,2]", "f32[2,3]")
def spread_over_all_in_a_row(x, w):
    return follow(
        lambda x, w: [jnp.tanh(x @ w), (x @ w).sum(0)], (x, P("i")), (w, P()), where=row()
    )


@values("bf16[8,4]", "bf16[4,4]", tolerance={"rtol": 3e-2, "atol": 2e-2})
def product_of_bf16(x, w):
    return follow(lambda x, w: [x @ w], (x, P("a", "b")), (w, P("b")))
