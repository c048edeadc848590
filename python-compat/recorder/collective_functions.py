"""Functions with collectives over named axes.

Each takes arrays, maps over their leading axes with `vmap` and axis names, and returns a list of
arrays. `crates/parity/src/collective_functions.rs` contains the same functions in Rust.
"""

import jax
import jax.numpy as jnp
from jax import lax

FUNCTIONS = {}


def function(f):
    """Registers a function under its name."""
    FUNCTIONS[f.__name__] = f
    return f


def over(name, f, **options):
    """Maps a function over an axis with this name."""
    return jax.vmap(f, axis_name=name, **options)


@function
def softmax_over_examples(x):
    def each(x):
        constant = lax.stop_gradient(x)
        e = jnp.exp(x - lax.pmax(constant, "i"))
        return [e / lax.psum(e, "i"), x * lax.pmin(constant, "i")]

    return over("i", each)(x)


@function
def batch_norm(x):
    def each(x):
        centred = x - lax.pmean(x, "i")
        return centred * lax.rsqrt(lax.pmean(centred**2, "i") + 0.1)

    return [over("i", each)(x)]


@function
def gradient_inside(x, w):
    return [over("i", lambda x: jax.grad(lambda w: lax.psum(jnp.sin(w * x), "i"))(w))(x)]


@function
def gradient_of_a_mixture_inside(x):
    return [over("i", jax.grad(lambda x: jnp.sin(lax.psum(x * x, "i")) * x))(x)]


@function
def second_derivative_inside(x):
    f = lambda x: jnp.tanh(lax.psum(x**3, "i")) * lax.pmean(x, "i")
    along = lambda x: jax.jvp(jax.grad(f), (x,), (jnp.cos(x),))[1]
    return [over("i", along)(x)]


@function
def data_parallel_step(w, xs, ys):
    def each(x, y):
        loss, gradient = jax.value_and_grad(lambda w: (jnp.tanh(x @ w) - y) ** 2)(w)
        loss, gradient = lax.pmean((loss, gradient), "batch")
        return loss, w - 0.1 * gradient

    return list(over("batch", each, out_axes=None)(xs, ys))


@function
def sums_over_two_axes(x):
    def each(x):
        both = lax.psum(x, ("i", "j"))
        return [
            both * x,
            lax.psum(x, "i") * x,
            lax.psum(x**2, "j") - both,
            lax.pmean(jnp.sin(x), ("j", "i")),
        ]

    return over("i", over("j", each))(x)


@function
def gathered(x):
    def each(x):
        k = 1.0 + lax.axis_index("i").astype(x.dtype)
        gathered = [lax.all_gather(x, "i", axis=at) * k for at in (0, 1, -1)]
        return [*gathered, *(lax.all_gather(x, "i", axis=at, tiled=True) * k for at in (0, 1))]

    return over("i", each)(x)


@function
def scattered(x):
    def each(x):
        return [
            lax.psum_scatter(jnp.sin(x), "i"),
            lax.psum_scatter(x.T**2, "i", scatter_dimension=1),
        ]

    return over("i", each)(x)


@function
def scattered_in_tiles(x):
    each = lambda x: [
        lax.psum_scatter(jnp.sin(x), "i", scatter_dimension=at, tiled=True) for at in (0, 1)
    ]
    return over("i", each)(x)


@function
def exchanged(x):
    def each(x):
        axes = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2)]
        return [lax.all_to_all(x**2, "i", split, concat) for split, concat in axes]

    return over("i", each)(x)


@function
def exchanged_in_tiles(x):
    def each(x):
        axes = [(0, 0), (0, 1), (1, 0), (1, 1)]
        return [lax.all_to_all(x**2, "i", split, concat, tiled=True) for split, concat in axes]

    return over("i", each)(x)


@function
def exchanged_over_two_axes(x):
    each = lambda x: lax.all_to_all(jnp.sin(x), ("i", "j"), 0, 0)
    return [over("i", over("j", each))(x)]


@function
def swapped(x):
    return [over("i", lambda x: lax.pswapaxes(x, "i", 1) * x.sum())(x)]


@function
def around_the_ring(x):
    def each(x):
        n = lax.axis_size("i")
        ring = [(k, (k + 1) % n) for k in range(n)]

        def step(carry, k):
            total, visitor = carry
            visitor = lax.ppermute(visitor, "i", ring)
            return (total + k * visitor * x, visitor), visitor

        (total, _), seen = lax.scan(step, (jnp.zeros_like(x), x), jnp.arange(1.0, n, dtype=x.dtype))
        return [total, seen]

    return over("i", each)(x)


@function
def permuted(x):
    def each(x):
        back = lax.ppermute(x, "i", [(0, 3), (1, 2), (2, 1), (3, 0)])
        return [back * x, lax.pshuffle(jnp.sin(x), "i", [2, 0, 3, 1])]

    return over("i", each)(x)


@function
def ranks(x):
    def each(x):
        sizes = lax.axis_size("i") * 10 + lax.axis_size("j") + lax.axis_size(("i", "j")) * 100
        positions = [lax.axis_index(names) for names in ("i", "j", ("i", "j"), ("j", "i"))]
        return [x * k for k in positions] + [x * sizes]

    return over("i", over("j", each))(x)


@function
def the_same_for_all(a, x):
    def each(x):
        summed = lax.psum(jnp.sin(a), "i")
        spread = lax.psum_scatter(a, "i"), lax.all_gather(a, "i")
        return [
            summed * x,
            *(y * x for y in spread),
            lax.pmean(a, "i"),
            lax.pshuffle(a, "i", [1, 2, 0]),
        ]

    return over("i", each)(x)


@function
def exchanged_the_same(a, x):
    return [over("i", lambda x: lax.all_to_all(a, "i", 0, 0) * x)(x)]


@function
def without_a_mapped_operand(a):
    def each():
        return [lax.psum(a, "i"), a * lax.axis_index("i")]

    return jax.vmap(each, axis_name="i", axis_size=4)()


@function
def inside_a_scan(xs, h):
    def each(xs):
        def step(h, x):
            h = jnp.tanh(lax.pmean(h, "i") + x)
            return h, lax.psum(h * x, "i")

        return lax.scan(step, h, xs)

    return list(over("i", each)(xs))


@function
def carry_that_comes_to_differ(xs):
    def each():
        def step(h, x):
            return h * 0.5 + x * lax.axis_index("i"), lax.psum(h, "i")

        return lax.scan(step, jnp.zeros_like(xs[0]), xs)

    return list(jax.vmap(each, axis_name="i", axis_size=3)())


@function
def choice_of_all(x):
    def each(x):
        return lax.cond(
            lax.psum(x, "i") > 0,
            lambda x: lax.psum(x**2, "i") * x,
            lambda x: lax.pmean(x, "i") - x,
            x,
        )

    return [over("i", each)(x)]


@function
def choice_of_each(x):
    def each(x):
        total = lax.psum(x, "i")
        return lax.cond(
            lax.axis_index("i") % 2 == 0, lambda x: jnp.sin(x) * total, lambda x: x**2, x
        )

    return [over("i", each)(x)]


@function
def choice_of_each_with_a_sum(x):
    def each(x):
        even = lax.axis_index("i") % 2 == 0
        return lax.cond(even, lambda x: jnp.sin(x) * lax.psum(x, "i"), lambda x: x**2, x)

    return [over("i", each)(x)]


@function
def until_all_are_small(x):
    def each(x):
        def step(carry):
            n, y = carry
            return n + 1, y * 0.5 + 0.01 * lax.pmean(y, "i")

        return lax.while_loop(
            lambda carry: lax.pmax(jnp.abs(carry[1]), "i") > 0.1, step, (jnp.zeros_like(x), x)
        )

    return list(over("i", each)(x))


@function
def until_each_has_its_rank(x):
    def each(x):
        rank = lax.axis_index("i")
        _, y = lax.while_loop(
            lambda carry: carry[0] < rank,
            lambda carry: (carry[0] + 1, jnp.cos(carry[1]) * 2),
            (0, x),
        )
        return lax.psum(y, "i") - y

    return [over("i", each)(x)]


@function
def jit_inside(x):
    share = jax.jit(lambda x: jnp.exp(x) / lax.psum(jnp.exp(x), "i"))
    two, five = over("i", lambda x: share(x) * share(2 * x))(x[:2]), over("i", share)(x)
    return [two, five]


@function
def rematerialized(x):
    f = jax.checkpoint(lambda x: jnp.sin(lax.psum(jnp.sin(x), "i")) * x)
    return [over("i", lambda x: f(x) * lax.axis_index("i"))(x), over("i", jax.grad(f))(x)]


@jax.custom_vjp
def copied_to_all(x):
    return x


copied_to_all.defvjp(lambda x: (x, None), lambda _, ct: (lax.psum(ct, "model"),))


@jax.custom_vjp
def summed_once(x):
    return lax.psum(x, "model")


summed_once.defvjp(lambda x: (lax.psum(x, "model"), None), lambda _, ct: (ct,))


@function
def model_parallel_gradient(x, w, v):
    """Differentiates two layers. Each example holds columns of the first and rows of the second."""

    def each(w, v):
        loss = lambda x, w, v: (summed_once(jnp.tanh(copied_to_all(x) @ w) @ v) ** 2).sum()
        return jax.grad(loss, (0, 1, 2))(x, w, v)

    return list(over("model", each)(w, v))


@function
def own_rule_outside(x):
    """Differentiates outside of the axis that the custom rule uses."""
    value, pull = jax.vjp(over("model", lambda x: jnp.sin(copied_to_all(x))), x)
    return [value, *pull(x**2)]


@function
def own_rule_of_a_sum_outside(x):
    """Differentiates like `own_rule_outside`, with a function whose value all examples share."""
    value, pull = jax.vjp(over("model", lambda x: x * summed_once(x)), x)
    return [value, *pull(jnp.cos(x))]


@function
def shadowed(x):
    inner = over("i", lambda x: lax.psum(x, "i") * x)
    return [over("i", lambda row: inner(row) * lax.axis_index("i") + lax.psum(row, "i"))(x)]


@function
def another_axis_between(x):
    def each(x):
        plain = lambda x: [
            lax.psum(x, "i"),
            lax.all_gather(x, "i", axis=1),
            lax.all_gather(x, "i", tiled=True),
            lax.psum_scatter(x, "i"),
            lax.all_to_all(x, "i", 0, 0),
            lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)]),
            lax.axis_index("i") * x,
        ]
        return [
            y * jnp.arange(1.0, 3.0, dtype=x.dtype).reshape(2, *[1] * (y.ndim - 1))
            for y in jax.vmap(plain)(x)
        ]

    return over("i", each)(x)


@function
def other_places(x):
    each = lambda x: [lax.psum(x, "i") * x, lax.all_gather(x, "i", axis=1), lax.axis_index("i") * x]
    return over("i", each, in_axes=1, out_axes=-1)(x)


@function
def counts(n):
    def each(n):
        odd = n % 2 == 1
        return [
            lax.psum(n, "i"),
            lax.psum(odd, "i"),
            lax.pmean(n, "i"),
            lax.pmax(n, "i"),
            lax.pmin(odd, "i"),
        ]

    return over("i", each)(n)


@function
def trees(x):
    def each(x):
        tree = {"a": x, "b": [jnp.sin(x), x[0]]}
        return jax.tree.leaves(lax.psum(tree, "i")) + jax.tree.leaves(lax.all_gather(tree, "i"))

    return over("i", each, out_axes=None)(x)
