"""`pmap`: one example on each device. `pmap` compiles the functions, so they are not jitted."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from .parallel_table import case


def values(*operands, wrt=None, tolerance=None):
    """Registers a function as a case of this family."""
    return case("pmapped", *operands, wrt=wrt, tolerance=tolerance, jit=False)


over = partial(jax.pmap, axis_name="i")


@values("f32[8,3]", wrt=(0,))
def each_alone(x):
    return [jax.pmap(lambda x: jnp.sin(x) * x)(x)]


@values("f32[8,3]", wrt=(0,))
def centred(x):
    return [over(lambda x: (x - lax.pmean(x, "i")) ** 2)(x)]


@values("f32[8,3]", "f32[3]")
def first_axes(x, w):
    return [over(lambda x, w: lax.psum(x * w, "i"), in_axes=(0, None))(x, w)]


@values("f32[3,8]", "f32[8,2,2]")
def other_axes(x, y):
    f = over(lambda x, y: (x.sum() * y, lax.psum(x, "i")), in_axes=(1, 0), out_axes=(2, 1))
    return list(f(x, y))


@values("f32[2,8]", wrt=(0,))
def last_axes(x):
    """Maps the last axis. The Rust test writes -1, which JAX 0.10.2 supports only for `vmap`."""
    return [over(lambda x: x * lax.pmean(x, "i"), in_axes=1, out_axes=1)(x)]


@values("f32[8,2]", "f32[]")
def same_results(x, a):
    return [over(lambda x, a: lax.psum(x * a, "i"), in_axes=(0, None), out_axes=None)(x, a)]


@values("f32[8,2]")
def some_results_are_the_same(x):
    return list(over(lambda x: (lax.pmax(x, "i"), x * 2), out_axes=(None, 0))(x))


@values("f32[8,2]")
def static_arguments(x):
    f = over(
        lambda x, n: sum(lax.psum(x, "i") * x**k for k in range(n)), static_broadcasted_argnums=1
    )
    return [f(x, 2), f(x, 3)]


@values("f32[8]")
def ranks_of_examples(x):
    return [over(lambda x: x + lax.axis_index("i").astype(x.dtype) * lax.axis_size("i"))(x)]


@values("f32[4,2]")
def fewer_than_devices(x):
    return [over(lambda x: lax.psum(x, "i") * x)(x)]


@values("f32[8,2]")
def gathered_examples(x):
    def each(x):
        return [
            lax.all_gather(x, "i"),
            lax.all_gather(x, "i", axis=1),
            lax.all_gather(x, "i", tiled=True)[::3],
        ]

    return [y[::5] for y in over(each)(x)]


@values("f32[8,8]")
def scattered_examples(x):
    return [
        over(lambda x: lax.psum_scatter(x, "i"))(x),
        over(lambda x: lax.psum_scatter(x, "i", tiled=True))(x),
    ]


@values("f32[8,8,2]")
def exchanged_examples(x):
    return [
        over(lambda x: lax.all_to_all(x, "i", 0, 0))(x),
        over(lambda x: lax.pswapaxes(x, "i", 0) * 2)(x),
    ]


@values("f32[8,2]", wrt=(0,))
def examples_around_the_ring(x):
    return [over(lambda x: lax.ppermute(x, "i", [(k, (k + 1) % 8) for k in range(8)]) * x)(x)]


@values("f32[8,2]")
def shuffled_examples(x):
    return [over(lambda x: lax.pshuffle(x, "i", [7, 2, 5, 0, 1, 3, 4, 6]))(x)]


@values("i32[8,2]", "bool[8,2]", "c64[8,2]")
def other_types(n, b, c):
    f = lambda n, b, c: (
        lax.psum(n, "i"),
        lax.pmin(n, "i"),
        lax.pmax(b, "i"),
        lax.psum(c, "i"),
        lax.psum(b.astype(jnp.int32), "i"),
    )
    return [y[::7] for y in over(f)(n, b, c)]


@values("f32[8,2]", "f32[8,2]")
def gradients_inside(w, x):
    """Differentiates each device's loss, and the sum of all losses. `psum` is its own transpose."""
    local = over(jax.grad(lambda w, x: jnp.sin(w * x).sum()))
    summed = over(jax.grad(lambda w, x: lax.psum(jnp.sin(w * x).sum(), "i")))
    return [local(w, x), summed(w, x)]


@values("f32[8,2]", "f32[8,2]")
def gradients_outside(w, x):
    f = over(lambda w, x: lax.psum(jnp.sin(w * x), "i") * x)
    return list(jax.grad(lambda w, x: (f(w, x) ** 2).sum(), (0, 1))(w, x))


@values("f32[2]", "f32[8,2]")
def gradients_by_what_all_get(w, x):
    f = over(lambda w, x: jnp.sin(w * x), in_axes=(None, 0))
    return list(jax.grad(lambda w, x: (f(w, x) ** 2).sum(), (0, 1))(w, x))


@values("f32[3]", "f32[8,2,3]", "f32[8,2]")
def step_on_copies(w, x, y):
    """Trains copies of the weights with the mean of all devices' gradients."""

    def each(w, x, y):
        loss, gradient = jax.value_and_grad(lambda w: ((jnp.tanh(x @ w) - y) ** 2).mean())(w)
        return lax.pmean(loss, "i"), w - 0.1 * lax.pmean(gradient, "i")

    copies = jnp.stack([w] * 8)
    for _ in range(2):
        loss, copies = over(each)(copies, x, y)
    return [loss, copies]


@values("f32[8,2]")
def second_derivatives_of_examples(x):
    f = over(lambda x: jnp.sin(lax.psum(x * x, "i")) * x)
    gradient = jax.grad(lambda x: f(x).sum())
    return [jax.jvp(gradient, (x,), (jnp.cos(x),))[1]]


@values("f32[8,2,3]")
def batches_on_devices(x):
    """Nests `vmap` inside, with another axis name, and outside."""
    inside = over(jax.vmap(lambda x: x * lax.psum(x, ("i", "k")), axis_name="k"))
    outside = jax.vmap(over(lambda x: x - lax.pmean(x, "i")), in_axes=2, out_axes=2)
    return [inside(x), outside(x)]


@values("f32[8,4]")
def loop_on_devices(x):
    def each(x):
        def step(h, x):
            h = jnp.tanh(lax.pmean(h, "i") + x)
            return h, lax.psum(h, "i")

        return lax.scan(step, jnp.zeros((), x.dtype), x)

    return list(over(each)(x))


@values("f32[8,2]")
def trees_of_examples(x):
    f = over(lambda t: {"sum": lax.psum(t["x"], "i"), "pair": (t["y"], t["x"] * 2)})
    result = f({"x": x, "y": x + 1})
    return [result["pair"][0], result["pair"][1], result["sum"]]
