"""`shard_map` combined with other transformations, loops, conditionals, and itself."""

import jax
import jax.numpy as jnp
from jax import lax

from .parallel_table import P, case, grid, split

I = P("i")
RING = [(k, (k + 1) % 8) for k in range(8)]


def values(*operands, wrt=None, tolerance=None):
    """Registers a function as a case of this family."""
    return case("composed", *operands, wrt=wrt, tolerance=tolerance)


@values("f32[3,8,2]", wrt=(0,))
def batch_of_sums(x):
    return [jax.vmap(split(lambda x: lax.psum(x * x, "i") * x, I, I))(x)]


@values("f32[8,2,3]", "f32[2]", wrt=(0, 1))
def batch_along_the_last_axis(x, w):
    f = split(lambda x, w: lax.psum(jnp.sin(x) * w, "i"), (I, P()), P())
    return [jax.vmap(f, in_axes=(2, None), out_axes=1)(x, w)]


@values("f32[2,8,8]", wrt=(0,))
def batch_of_moves(x):
    def each(x):
        gathered = lax.all_gather(x, "i", tiled=True).sum(0, keepdims=True)
        scattered = lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True)
        return [
            gathered * x,
            scattered,
            lax.all_to_all(x, "i", 1, 1) * x,
            lax.ppermute(x, "i", RING),
        ]

    return jax.vmap(split(each, I, I))(x)


@values("f32[2,3,8]", wrt=(0,))
def batch_of_batches(x):
    f = split(lambda x: lax.pmean(jnp.exp(x), "i"), I, P())
    return [jax.vmap(jax.vmap(f))(x)]


@values("f32[3,8,2]")
def gradient_of_each_example(x):
    f = lambda x: jnp.sin(split(lambda x: lax.psum(x * x, "i"), I, P())(x)).sum()
    return [jax.vmap(jax.grad(f))(x)]


@values("f32[8,4]", wrt=(0,))
def batch_inside(x):
    """Sums over an axis of `vmap` and an axis of the mesh.

    JAX 0.10.2 sums over an axis of `vmap` only without `check_vma`.
    """
    row = lambda x: x * lax.psum(x, "k") + lax.psum(x, ("i", "k"))
    return [
        split(
            lambda x: jax.vmap(row, axis_name="k", in_axes=1, out_axes=1)(x), I, I, check_vma=False
        )(x)
    ]


@values("f32[8,2,3]")
def rows_of_gradients_inside(x):
    f = lambda x: jnp.sin(lax.psum(x, "i")).sum()
    return [split(lambda x: jax.vmap(jax.grad(f), in_axes=2, out_axes=2)(x), I, I)(x)]


@values("f32[2]", "f32[8,2]", wrt=(0,))
def program_inside(w, x):
    layer = jax.jit(lambda w, x: jnp.tanh(x * w))
    return [split(lambda w, x: lax.psum(layer(w, x) * layer(w, x * 2), "i"), (P(), I), P())(w, x)]


@values("f32[2,2]", "f32[8,2]", wrt=(0, 1))
def rematerialized_inside(w, x):
    layer = jax.checkpoint(lambda w, x: jnp.sin(lax.psum(jnp.tanh(x @ w), "i")))
    return [split(lambda w, x: layer(w, x) * x, (P(), I), I)(w, x)]


@values("f32[2,2]", "f32[8,2]")
def rematerialized_outside(w, x):
    f = jax.checkpoint(split(lambda w, x: lax.pmean(jnp.tanh(x @ w), "i"), (P(), I), P()))
    return [jax.grad(lambda w: (f(w, x) ** 2).sum())(w)]


@values("f32[8,5,2]", wrt=(0,))
def scanned(x):
    def each(x):
        def step(h, x):
            h = jnp.tanh(lax.pmean(h, "i") + x)
            return h, lax.psum(h * x, "i")

        last, sums = lax.scan(step, jnp.zeros_like(x[0, 0]) + x[0, 0] * 0, x[0])
        return last[None], sums

    return list(split(each, I, (I, P()))(x))


@values("f32[8,2]", "f32[4]", wrt=(0, 1))
def carry_that_comes_to_vary(x, ks):
    def each(x, ks):
        start = lax.pcast(jnp.zeros(2, x.dtype), "i", to="varying")
        step = lambda h, k: (h * 0.5 + k * x[0], lax.psum(h, "i"))
        last, sums = lax.scan(step, start, ks)
        return last[None], sums

    return list(split(each, (I, P()), (I, P()))(x, ks))


@values("f32[8,2]", wrt=(0,))
def rotated_in_a_scan(x):
    def each(x):
        def step(carry, k):
            total, visitor = carry
            visitor = lax.ppermute(visitor, "i", RING)
            return (total + k * visitor * x, visitor), visitor.sum()

        (total, _), seen = lax.scan(step, (x * 0, x), jnp.arange(1, 5).astype(x.dtype))
        return total, seen[None]

    return list(split(each, I, I)(x))


@values("f32[8,2]")
def until_all_are_small(x):
    def each(x):
        step = lambda c: (c[0] + 1, c[1] * 0.5 + 0.01 * lax.pmean(c[1], "i"))
        n, y = lax.while_loop(
            lambda c: lax.pmax(jnp.abs(c[1]).max(), "i") > 0.1, step, (jnp.int32(0), x)
        )
        return n, y

    return list(split(each, I, (P(), I))(x))


@values("f32[8,2]")
def until_each_has_its_rank(x):
    """Makes a different number of steps on each device."""

    def each(x):
        rank = lax.axis_index("i")
        start = (lax.pcast(jnp.int32(0), "i", to="varying"), x)
        _, y = lax.while_loop(lambda c: c[0] < rank, lambda c: (c[0] + 1, jnp.cos(c[1]) * 2), start)
        return lax.psum(y, "i") - y

    return [split(each, I, I)(x)]


@values("f32[8,2]", wrt=(0,))
def counted_loop(x):
    step = lambda k, y: jnp.sin(y) * x_of(k) + lax.pmean(y, "i")
    x_of = lambda k: (k + 1) * jnp.float32(0.5)
    return [
        split(lambda x: lax.fori_loop(0, 3, lambda k, y: step(k.astype(jnp.float32), y), x), I, I)(
            x
        )
    ]


@values("f32[8,2]", wrt=(0,))
def choice_of_all(x):
    def each(x):
        return lax.cond(
            lax.psum(x.sum(), "i") > 0,
            lambda x: lax.psum(x**2, "i") * x,
            lambda x: lax.pmean(x, "i") - x,
            x,
        )

    return [split(each, I, I)(x)]


@values("f32[8,2]", wrt=(0,))
def choice_of_each(x):
    """Takes different branches.

    Without the `pcast`, JAX's backward pass sums over devices in one branch only, and hangs.
    """

    def each(x):
        total = lax.pcast(lax.psum(x, "i"), "i", to="varying")
        return lax.cond(
            lax.axis_index("i") % 2 == 0, lambda x: jnp.sin(x) * total, lambda x: x**2, x
        )

    return [split(each, I, I)(x)]


@values("f32[8,2]", "f32[2]", "f32[2]", wrt=(0, 1, 2))
def choice_by_what_is_the_same(x, w, v):
    """Passes an operand and captures an array that all devices share. JAX requires the `pcast`."""

    def each(x, w, v):
        w, v = (lax.pcast(y, "i", to="varying") for y in (w, v))
        return lax.cond(
            lax.axis_index("i") > 4, lambda w: jnp.sin(w * x) * v, lambda w: w**2 * x, w
        )

    return [split(each, (I, P(), P()), I)(x, w, v)]


@values("f32[8,2]", "i32[]", wrt=(0,))
def one_of_three(x, n):
    """Takes the same branch on all devices. An argument selects it."""
    branches = [lambda x: x * 2, lambda x: lax.psum(x, "i") * x, lambda x: jnp.sin(x)]
    return [split(lambda x, n: lax.switch((n + 51) % 3, branches, x), (I, P()), I)(x, n)]


@values("f32[2]", "f32[8,2]", wrt=(0, 1))
def captured(w, x):
    """Captures an array of the surrounding program and a constant."""
    table = jnp.array([1.5, -0.5], jnp.float32)
    return [split(lambda x: lax.psum(jnp.sin(x * w) * table, "i"), I, P())(x)]


@values("f32[2]", "f32[8,2]")
def captured_and_differentiated_inside(w, x):
    loss = lambda x: lax.psum(jnp.sin(x * w).sum(), "i")
    return [
        jax.jvp(lambda w: split(jax.grad(lambda x: jnp.sin(x * w).sum()), I, I)(x), (w,), (w * 2,))[
            1
        ],
        split(loss, I, P())(x),
    ]


@values("f32[8,4]", wrt=(0,))
def some_axes_only(x):
    f = split(
        lambda x: lax.psum(jnp.sin(x), "a") * x.sum(), P("a"), P("a"), grid(), axis_names={"a"}
    )
    return [f(x)]


@values("f32[4,4]", "f32[4,4]", wrt=(0, 1))
def products_spread_along_the_other_axis(x, w):
    f = split(
        lambda x, w: lax.pmean(jnp.tanh(x @ w), "a"), (P("a"), P()), P(), grid(), axis_names={"a"}
    )
    return [f(x, w)]


@values("f32[8,4]")
def nested(x):
    """Has no derivatives: JAX 0.10.2 cannot lower them, `axis "a" is already bound by a parent`."""

    def outer(x):
        inner = split(
            lambda x: lax.psum(jnp.sin(x), "b") * x,
            P(None, "b"),
            P(None, "b"),
            inner_mesh(),
            axis_names={"b"},
        )
        return lax.psum(inner(x), "a")

    return [split(outer, P("a"), P(), grid(), axis_names={"a"})(x)]


def inner_mesh():
    """Returns the mesh in scope.

    JAX requires the mesh of the outer function, with its axes marked as manual.
    """
    return jax.sharding.get_abstract_mesh()


@values("f32[8,2]", wrt=(0,))
def one_after_the_other(x):
    shares = split(lambda x: lax.psum(x, "i") * x, I, I)
    return [shares(jnp.sin(shares(x)).reshape(4, 4).reshape(8, 2))]


@case("composed", "f32[8,4]", wrt=(0,), jit=False)
def two_meshes(x):
    """Uses the same devices as a row and as a grid.

    Not compiled as one program: JAX 0.10.2 raises `IndivisibleError shape=[4, 2]`.
    """
    along_a_row = split(lambda x: lax.psum(x, "i") + x, I, I)
    on_a_grid = split(lambda x: lax.psum(jnp.sin(x), "b") * x, P("a", "b"), P("a", "b"), grid())
    return [on_a_grid(along_a_row(x))]


@values("f32[8,2]", wrt=(0,))
def some_results_only(x):
    """Uses one of three results."""
    f = split(lambda x: (x * 2, lax.psum(jnp.sin(x), "i"), x**2), I, (I, P(), I))
    return [f(x)[1]]


@values("f32[2]", "f32[8,2]")
def linearized(w, x):
    f = lambda w: split(lambda w, x: lax.psum(jnp.sin(w * x), "i"), (P(), I), P())(w, x)
    value, apply = jax.linearize(f, w)
    return [value, apply(w), apply(w * 2)]


@values("f32[2,8]", wrt=(0,))
def sorted_and_summed(x):
    """Applies ordinary operations to shards: sorting, slicing, cumulative sums."""

    def each(x):
        y = jnp.sort(lax.all_gather(x, "i", axis=1, tiled=True), axis=1)
        return lax.dynamic_slice_in_dim(jnp.cumsum(y, 1), lax.axis_index("i"), 1, 1)

    return [split(each, P(None, "i"), P(None, "i"))(x)]


@values("f32[8,3]", "i32[8,2]", wrt=(0,))
def rows_looked_up(x, n):
    def each(x, n):
        table = lax.all_gather(x, "i", tiled=True)
        return jnp.take(table, jnp.abs(n) % 8, axis=0)

    return [split(each, I, I)(x, n)]
