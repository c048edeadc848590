"""Derivatives inside `shard_map`, higher derivatives, and derivatives without `check_vma`."""

import jax
import jax.numpy as jnp
from jax import lax

from .parallel_table import P, case, grid, split

I = P("i")


def values(*operands, wrt=None, tolerance=None):
    """Registers a function as a case of this family."""
    return case("gradients", *operands, wrt=wrt, tolerance=tolerance)


RING = [(k, (k + 1) % 8) for k in range(8)]


def inside(loss, x):
    """Returns the gradient of each device's loss by its rows."""
    return [split(jax.grad(loss), I, I)(x)]


@values("f32[8,2]", wrt=(0,))
def of_a_sum(x):
    return inside(lambda x: jnp.sin(lax.psum(x, "i")).sum(), x)


@values("f32[8,2]", wrt=(0,))
def of_a_sum_that_meets_shards(x):
    return inside(lambda x: (lax.psum(x * x, "i") * x).sum(), x)


@values("f32[8,2]")
def of_a_mean(x):
    return inside(lambda x: ((x - lax.pmean(x, "i")) ** 3).sum(), x)


@values("f32[8,2]")
def of_gathered_rows(x):
    def loss(x):
        k = (1.0 + lax.axis_index("i")).astype(x.dtype)
        return jnp.sin(k * lax.all_gather(x, "i", tiled=True)).sum()

    return inside(loss, x)


@values("f32[8,8]")
def of_scattered_sums(x):
    return inside(lambda x: (lax.psum_scatter(x[0], "i") ** 2).sum(), x)


@values("f32[8,8]")
def of_exchanged_columns(x):
    def loss(x):
        k = (1.0 + lax.axis_index("i")).astype(x.dtype)
        return (k * lax.all_to_all(x, "i", 1, 1) ** 2).sum()

    return inside(loss, x)


@values("f32[8,2]", wrt=(0,))
def of_what_came_around(x):
    return inside(lambda x: (lax.ppermute(x, "i", RING) ** 2 * x).sum(), x)


@values("f32[8,2]")
def of_what_was_sent_to_some(x):
    return inside(lambda x: jnp.exp(lax.ppermute(x, "i", [(0, 2), (2, 5)])).sum(), x)


@values("f32[2]", "f32[8,2]")
def by_what_is_the_same(w, x):
    """Differentiates a summed loss, and each device's loss, by a replicated array.

    In both cases the cotangents are summed where `w` becomes device-varying.
    """
    summed = lambda w, x: lax.psum(jnp.sin(w * x).sum(), "i")
    local_loss = lambda w, x: jnp.sin(w * x).sum()
    each = lambda w, x: (jax.grad(summed)(w, x), jax.grad(local_loss)(w, x))
    return list(split(each, (P(), I), P())(w, x))


@values("f32[2]", "f32[8,2]")
def by_what_was_made_to_vary(w, x):
    local_loss = lambda w, x: jnp.sin(w * x).sum()
    each = lambda w, x: jax.grad(local_loss)(lax.pcast(w, "i", to="varying"), x)[None]
    return [split(each, (P(), I), I)(w, x)]


@values("f32[2]", "f32[8,2]")
def value_and_gradient(w, x):
    each = lambda w, x: jax.value_and_grad(lambda w: lax.pmean((jnp.tanh(x @ w) ** 2).sum(), "i"))(
        w
    )
    return list(split(each, (P(), I), P())(w, x))


@values("f32[2]", "f32[8,2]", "f32[8]")
def data_parallel_step(w, x, y):
    def each(w, x, y):
        loss, gradient = jax.value_and_grad(
            lambda w: lax.pmean(((jnp.tanh(x @ w) - y) ** 2).mean(), "i")
        )(w)
        return loss, w - 0.1 * gradient

    return list(split(each, (P(), I, I), P())(w, x, y))


@values("f32[8,2]")
def forward_inside(x):
    def each(x):
        f = lambda x: jnp.sin(lax.psum(x, "i")) * x
        value, tangent = jax.jvp(f, (x,), (jnp.cos(x),))
        return value, tangent

    return list(split(each, I, I)(x))


@values("f32[8,2]")
def forward_over_reverse_inside(x):
    f = lambda x: (jnp.tanh(lax.psum(x**3, "i")) * lax.pmean(x, "i")).sum()
    return [split(lambda x: jax.jvp(jax.grad(f), (x,), (jnp.cos(x),))[1], I, I)(x)]


@values("f32[8,2]")
def reverse_over_reverse_inside(x):
    f = lambda x: (jnp.sin(lax.ppermute(x, "i", RING)) * lax.psum(x, "i")).sum()
    return [split(jax.grad(lambda x: (jax.grad(f)(x) ** 2).sum()), I, I)(x)]


def along(f, x):
    """Returns the Hessian of `f` times `cos(x)`: forward over reverse, and reverse over reverse."""
    v = jnp.cos(x)
    return [
        jax.jvp(jax.grad(f), (x,), (v,))[1],
        jax.grad(lambda x: (jax.grad(f)(x) * lax.stop_gradient(v)).sum())(x),
    ]


@values("f32[8,2]")
def second_derivatives_of_sums(x):
    return along(lambda x: jnp.sin(split(lambda x: lax.psum(x * x, "i"), I, P())(x)).sum(), x)


@values("f32[8,2]")
def second_derivatives_of_gathered_rows(x):
    def each(x):
        k = (1.0 + lax.axis_index("i")).astype(x.dtype)
        return jnp.sin(k * lax.all_gather(x, "i", tiled=True)).sum()[None]

    return along(lambda x: split(each, I, I)(x).sum(), x)


@values("f32[8,8]")
def second_derivatives_of_scattered_sums(x):
    each = lambda x: lax.psum_scatter(jnp.sin(x), "i", scatter_dimension=1, tiled=True) ** 2
    return along(lambda x: split(each, I, I)(x).sum(), x)


@values("f32[8,8]")
def second_derivatives_of_exchanged_columns(x):
    each = lambda x: jnp.sin(lax.all_to_all(x, "i", 1, 1)) * x
    return along(lambda x: split(each, I, I)(x).sum(), x)


@values("f32[8,2]")
def second_derivatives_of_what_came_around(x):
    each = lambda x: jnp.sin(lax.ppermute(x, "i", RING) * x)
    return along(lambda x: split(each, I, I)(x).sum(), x)


@values("f32[2]", "f32[8,2]")
def second_derivatives_by_what_is_the_same(w, x):
    f = lambda w: split(lambda w, x: lax.psum(jnp.sin(w * x).sum(), "i"), (P(), I), P())(w, x)
    return along(f, w)


@values("f32[8]")
def third_derivative(x):
    f = lambda x: split(lambda x: jnp.sin(lax.psum(x, "i")), I, P())(x).sum()
    g = lambda f: lambda x: jax.grad(lambda x: f(x).sum())(x)
    return [g(g(g(f)))(x)]


@values("f32[8,2]", wrt=(0,))
def held_still(x):
    return [split(lambda x: lax.psum(lax.stop_gradient(x) * x, "i") * x, I, I)(x)]


@values("f32[4,2]", "f32[2]", wrt=(0, 1))
def over_a_grid(x, w):
    def each(x, w):
        y = jnp.tanh(x * w)
        return lax.psum(y, "a") * y, lax.psum(y.sum(), ("a", "b"))

    return list(split(each, (P("a", "b"), P("b")), (P("a", "b"), P()), grid())(x, w))


@values("f32[4,2]", "f32[2]")
def inside_of_a_grid(x, w):
    """Differentiates by an array that is replicated along only one axis."""
    loss = lambda w, x: lax.psum((jnp.tanh(x * w) ** 2).sum(), ("a", "b"))
    each = lambda x, w: (jax.grad(loss)(w, x), jax.grad(loss, 1)(w, x))
    return list(split(each, (P("a", "b"), P("b")), (P("b"), P("a", "b")), grid())(x, w))


@values("f32[8,2]", "f32[2]", wrt=(0, 1))
def untyped_sums(x, w):
    each = lambda x, w: (lax.psum(jnp.sin(x * w), "i"), lax.pmean(x, "i") * w)
    return list(split(each, (I, P()), P(), check_vma=False)(x, w))


@values("f32[8,2]", wrt=(0,))
def untyped_sums_that_meet_shards(x):
    return [split(lambda x: lax.psum(x * x, "i") * x, I, I, check_vma=False)(x)]


@values("f32[8,2]", wrt=(0,))
def untyped_gathered_rows(x):
    return [
        split(lambda x: jnp.sin(lax.all_gather(x, "i", tiled=True)), I, P(), check_vma=False)(x)
    ]


@values("f32[8,2]")
def untyped_inside(x):
    """Differentiates without `check_vma`, where `psum` is its own transpose."""
    loss = lambda x: (lax.psum(x * x, "i") * x).sum()
    return [split(jax.grad(loss), I, I, check_vma=False)(x)]


@values("f32[2]", "f32[8,2]")
def untyped_step(w, x):
    each = lambda w, x: lax.pmean(jax.grad(lambda w: jnp.sin(w * x).sum())(w), "i")
    return [split(each, (P(), I), P(), check_vma=False)(w, x)]


@values("f32[4,2]", wrt=(0,))
def untyped_over_a_grid(x):
    each = lambda x: (lax.psum(x**2, "a"), lax.psum(x * 3, ("a", "b")), jnp.sin(x))
    return list(split(each, P("a"), (P(), P(), P("a")), grid(), check_vma=False)(x))


@jax.custom_vjp
def copied_to_all(x):
    return x


copied_to_all.defvjp(lambda x: (x, None), lambda _, ct: (lax.psum(ct, "i"),))


@jax.custom_vjp
def summed_once(x):
    return lax.psum(x, "i")


summed_once.defvjp(lambda x: (lax.psum(x, "i"), None), lambda _, ct: (ct,))


@values("f32[3,2]", "f32[2,8]", "f32[8,2]")
def own_rules(x, w, v):
    """Splits two layers by columns and rows, with Megatron's rules and without `check_vma`."""

    def each(x, w, v):
        loss = lambda x, w, v: (summed_once(jnp.tanh(copied_to_all(x) @ w) @ v) ** 2).sum()
        return jax.grad(loss, (0, 1, 2))(x, w, v)

    specs = (P(), P(None, "i"), P("i"))
    return list(split(each, specs, specs, check_vma=False)(x, w, v))


@jax.custom_jvp
def cubed(x):
    return x**3


cubed.defjvp(lambda xs, ts: (xs[0] ** 3, 5.0 * xs[0] * ts[0]))


@values("f32[8,2]", wrt=(0,))
def own_forward_rule(x):
    return [split(lambda x: lax.psum(cubed(x), "i") * cubed(x), I, I)(x)]
