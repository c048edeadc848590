"""More cases of `parallel_sharded`: gradients, requested shardings and training steps."""

import jax
import jax.numpy as jnp
from jax import lax

from .parallel_sharded import follow
from .parallel_table import NamedSharding, P, case, grid, put


def values(*operands):
    """Registers a function as a case of this family."""
    return case("sharded_steps", *operands, jit=False)


def gradients(f, *pairs):
    """Returns the gradients of `sum(f^2)`."""
    loss = lambda *xs: sum((y**2).sum() for y in f(*xs))
    return follow(jax.grad(loss, tuple(range(len(pairs)))), *pairs)


@values("f32[8,4]", "f32[4,6]", "f32[6,2]")
def slopes_of_a_network(x, w, v):
    return gradients(
        lambda x, w, v: [jnp.tanh(x @ w) @ v], (x, P("a")), (w, P(None, "b")), (v, P("b"))
    )


@values("f32[8,4]")
def slopes_of_softmax(x):
    return gradients(lambda x: [jax.nn.softmax(x, -1)], (x, P("a", "b")))


@values("f32[8,4]")
def slopes_of_running_totals(x):
    return gradients(lambda x: [jnp.cumsum(x, 1), x.max(0)], (x, P("a", "b")))


@values("f32[8,4]", "i32[6]")
def slopes_of_rows_taken(x, n):
    f = lambda x, n: jax.grad(lambda x: (jnp.take(x, jnp.abs(n) % 8, axis=0) ** 3).sum())(x)
    return follow(lambda x, n: [f(x, n)], (x, P(None, "b")), (n, P()))


@values("f32[8,6,2]", "f32[3,2,4]")
def slopes_of_a_convolution(x, w):
    f = lambda x, w: [
        lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
    ]
    return gradients(f, (x, P("a")), (w, P(None, None, "b")))


@values("f32[8,3]", "f32[4,3,3]")
def slopes_of_scanned_layers(x, ws):
    f = lambda x, ws: [lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, ws)[0]]
    return gradients(f, (x, P("a")), (ws, P()))


@values("f32[8,4]", "f32[4,4]")
def put_where_asked(x, w):
    """Requests `in_shardings` and `out_shardings` for arguments on one device."""
    on = lambda spec: NamedSharding(grid(), spec)
    f = jax.jit(
        lambda x, w: (x @ w, x.sum(0)),
        in_shardings=(on(P("a")), on(P(None, "b"))),
        out_shardings=(on(P("b", "a")), on(P("a"))),
    )
    return list(f(x, w))


@values("f32[8,4]")
def moved_by_the_program(x):
    on = lambda spec: NamedSharding(grid(), spec)
    f = jax.jit(lambda x: (x * 2, x + 1), out_shardings=(on(P(None, "b")), on(P())))
    return list(f(*put(grid(), (x, P(("a", "b"))))))


@values("f32[8,4]", "f32[4,4]")
def constrained(x, w):
    on = lambda spec: NamedSharding(grid(), spec)

    def f(x, w):
        h = lax.with_sharding_constraint(jnp.tanh(x @ w), on(P("b", "a")))
        return [h * 2, lax.with_sharding_constraint(h.sum(0), on(P("b")))]

    return follow(f, (x, P("a")), (w, P()))


@values("f32[8,4]", "f32[4,4]")
def slopes_through_a_constraint(x, w):
    on = NamedSharding(grid(), P("a", "b"))
    return gradients(
        lambda x, w: [lax.with_sharding_constraint(jnp.tanh(x @ w), on)], (x, P("a")), (w, P())
    )


@values("f32[3,8,4]")
def batch_of_constraints(x):
    f = jax.vmap(
        lambda x: lax.with_sharding_constraint(jnp.sin(x), NamedSharding(grid(), P("a", "b")))
    )
    return follow(lambda x: [f(x)], (x, P()))


@values("f32[8,4]")
def shards_inside_of_a_program(x):
    """Calls `shard_map` between operations that the compiler partitions."""
    inner = jax.shard_map(
        lambda x: lax.psum(x, "a") * x, mesh=grid(), in_specs=P("a", "b"), out_specs=P("a", "b")
    )
    return follow(lambda x: [inner(jnp.sin(x)) * 2, inner(x).sum(1)], (x, P("a")))


@values("f32[16,4]", "f32[16]", "f32[4]")
def training_step(x, y, w):
    loss = lambda w, x, y: ((jnp.tanh(x @ w) - y) ** 2).mean()

    def step(w, x, y):
        value, gradient = jax.value_and_grad(loss)(w, x, y)
        return value, w - 0.1 * gradient

    return follow(step, (w, P()), (x, P("a")), (y, P("a")))
