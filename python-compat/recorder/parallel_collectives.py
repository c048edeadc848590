"""Collectives between devices, one function per case."""

import jax.numpy as jnp
from jax import lax

from .parallel_table import P, case, grid, split

I = P("i")


def values(*operands, wrt=(0,), tolerance=None):
    """Registers a function as a case of this family."""
    return case("collectives", *operands, wrt=wrt, tolerance=tolerance)


def per_device(f, x, out=I):
    """Applies `f` to each device's rows."""
    return [split(f, I, out)(x)]


@values("f32[8,2]")
def sums(x):
    return per_device(lambda x: lax.psum(jnp.sin(x), "i"), x, P())


@values("f32[8,2]")
def sums_that_meet_shards(x):
    return per_device(lambda x: lax.psum(x * x, "i") * x, x)


@values("f32[8,2]")
def means(x):
    return per_device(lambda x: (x - lax.pmean(x, "i")) ** 2, x)


@values("f32[8,2]", wrt=None)
def extrema(x):
    return list(split(lambda x: (lax.pmax(x, "i"), lax.pmin(x, "i")), I, P())(x))


@values("f32[8,2]")
def shifted_softmax(x):
    def each(x):
        e = jnp.exp(x - lax.pmax(lax.stop_gradient(x), "i"))
        return e / lax.psum(e, "i")

    return per_device(each, x)


def scale_by_rank(y):
    """Scales an array by the device's rank, so that gathered values differ."""
    return y * (1.0 + lax.axis_index("i")).astype(y.dtype)


@values("f32[8,2]")
def gathered_in_front(x):
    return per_device(lambda x: scale_by_rank(lax.all_gather(x[0] ** 2, "i")), x)


@values("f32[8,2]")
def gathered_between(x):
    return per_device(lambda x: scale_by_rank(lax.all_gather(x, "i", axis=1)), x)


@values("f32[8,2]")
def gathered_behind(x):
    return per_device(lambda x: scale_by_rank(lax.all_gather(jnp.sin(x), "i", axis=-1)), x)


@values("f32[8,2]")
def gathered_in_tiles(x):
    each = lambda x: tuple(
        scale_by_rank(lax.all_gather(x, "i", axis=at, tiled=True)) for at in (0, 1)
    )
    return list(split(each, I, I)(x))


@values("f32[8,8]")
def scattered(x):
    return per_device(lambda x: lax.psum_scatter(x[0] ** 2, "i")[None], x)


@values("f32[8,2,8]")
def scattered_behind(x):
    return per_device(lambda x: lax.psum_scatter(jnp.sin(x), "i", scatter_dimension=2), x)


@values("f32[8,16]")
def scattered_in_tiles(x):
    return per_device(
        lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True) * x.sum(), x
    )


@values("f32[8,8]")
def exchanged(x):
    return per_device(lambda x: lax.all_to_all(x**2, "i", 1, 1), x)


@values("f32[8,8,2]", wrt=None)
def exchanged_with_another_axis(x):
    """Has no derivatives. JAX 0.10.2 fails with `Expected cotangent type float32[1,8,2,1]`."""
    return per_device(lambda x: lax.all_to_all(x, "i", 1, 2) * x.sum(), x)


@values("f32[8,8]")
def exchanged_in_tiles(x):
    return [split(lambda x: lax.all_to_all(jnp.sin(x), "i", 1, 0, tiled=True), I, P(None, "i"))(x)]


@values("f32[8,8,2]")
def swapped(x):
    return per_device(lambda x: lax.pswapaxes(x[0], "i", 0)[None] * x.sum(), x)


@values("f32[8,2]")
def around_the_ring(x):
    return per_device(lambda x: lax.ppermute(x, "i", [(k, (k + 1) % 8) for k in range(8)]) * x, x)


@values("f32[8,2]")
def sent_to_some(x):
    return per_device(lambda x: lax.ppermute(x**2, "i", [(0, 3), (3, 1), (5, 6), (7, 0)]), x)


@values("f32[8,2]")
def shuffled(x):
    return per_device(lambda x: lax.pshuffle(jnp.sin(x), "i", [2, 0, 3, 1, 7, 6, 5, 4]) * x, x)


@values("f32[8,2]")
def ranks(x):
    return per_device(lambda x: x * lax.axis_index("i").astype(x.dtype) + lax.axis_size("i"), x)


@values("f32[8]", wrt=None)
def ranks_on_a_grid(x):
    def each(x):
        positions = [lax.axis_index(names) for names in ("a", "b", ("a", "b"), ("b", "a"))]
        sizes = lax.axis_size("a") * 10 + lax.axis_size("b") + lax.axis_size(("a", "b")) * 100
        return [*(x * k.astype(x.dtype) for k in positions), x * sizes]

    return split(each, P(("a", "b")), P(("a", "b")), grid())(x)


@values("f32[8,4]")
def sums_over_one_axis_of_a_grid(x):
    over_a = split(lambda x: lax.psum(x**2, "a"), P("a", "b"), P(None, "b"), grid())
    over_b = split(lambda x: lax.psum(jnp.sin(x), "b"), P("a", "b"), P("a"), grid())
    return [over_a(x), over_b(x)]


@values("f32[8,4]")
def sums_over_both_axes(x):
    each = lambda x: (
        lax.psum(x**2, ("a", "b")),
        lax.pmean(x, ("b", "a")),
        lax.psum(x, "a") * lax.psum(x, "b"),
    )
    return list(split(each, P("a", "b"), (P(), P(), P("a", "b")), grid())(x))


@values("f32[4,2]")
def one_axis_is_not_mentioned(x):
    each = lambda x: (
        lax.psum(x, "a"),
        x * x,
        lax.psum(x * (1.0 + lax.axis_index("b")).astype(x.dtype), ("a", "b")),
    )
    return list(split(each, P("a"), (P(), P("a"), P()), grid())(x))


@values("f32[8,2]")
def gathered_over_both_axes(x):
    def each(x):
        both = [lax.all_gather(x, names, tiled=True) for names in (("a", "b"), ("b", "a"))]
        plain = lax.all_gather(x, ("a", "b"), axis=1)
        k = (1.0 + lax.axis_index(("a", "b"))).astype(x.dtype)
        return [y * k for y in (*both, plain)]

    return split(each, P(("a", "b")), P(("a", "b")), grid())(x)


@values("f32[8,16]")
def scattered_over_both_axes(x):
    tiled = lambda x: lax.psum_scatter(x**2, ("a", "b"), scatter_dimension=1, tiled=True)
    plain = lambda x: lax.psum_scatter(x[:, :8], ("b", "a"), scatter_dimension=1)
    return split(lambda x: [tiled(x), plain(x)], P(("a", "b")), P(("a", "b")), grid())(x)


@values("f32[8,8]")
def exchanged_over_both_axes(x):
    each = lambda x: [
        lax.all_to_all(x, ("a", "b"), 1, 1),
        lax.all_to_all(jnp.sin(x), ("a", "b"), 1, 0, tiled=True),
    ]
    return split(each, P(("a", "b")), P(("a", "b")), grid())(x)


@values("f32[8,4]")
def moved_along_one_axis_of_a_grid(x):
    def each(x):
        ring = lax.ppermute(x, "a", [(k, (k + 1) % 4) for k in range(4)])
        swapped = lax.ppermute(x, "b", [(0, 1), (1, 0)])
        return [ring * x, swapped * ring, lax.all_to_all(x, "b", 0, 1, tiled=True)]

    return split(each, P("a", "b"), P("a", "b"), grid())(x)


@values("f32[8,4]")
def moved_along_both_axes_of_a_grid(x):
    def each(x):
        shift = lax.ppermute(x, ("a", "b"), [(k, k + 1) for k in range(7)])
        return [shift * x, lax.pshuffle(jnp.cos(x), ("a", "b"), [3, 0, 7, 1, 5, 2, 6, 4])]

    return split(each, P("a", "b"), P("a", "b"), grid())(x)


@values("f32[8,4]")
def in_groups(x):
    """Exchanges values in groups of devices, for which JAX 0.10.2 has no rule with `check_vma`."""
    groups = [[0, 5, 2, 7], [1, 6, 3, 4]]

    def each(x):
        x = x[0]
        still = lax.stop_gradient(x)
        gathered = lax.all_gather(x, "i", axis_index_groups=groups, axis=1)
        return [
            lax.psum(x, "i", axis_index_groups=groups)[None] * x,
            lax.pmean(x, "i", axis_index_groups=groups)[None] * x,
            lax.pmax(still, "i", axis_index_groups=groups)[None] * x,
            lax.pmin(still, "i", axis_index_groups=groups)[None] * x,
            gathered[None],
            lax.all_to_all(x, "i", 0, 0, axis_index_groups=groups)[None],
            lax.psum_scatter(x, "i", axis_index_groups=groups)[None],
        ]

    return split(each, P("i"), P("i"), check_vma=False)(x)


@values("f32[8,4]")
def in_another_order_of_the_mesh(x):
    each = lambda x: lax.psum(x * (1.0 + lax.axis_index("b")).astype(x.dtype), "a")
    return [split(each, P(None, ("b", "a")), P(None, "b"), grid())(x[:, :4].repeat(2, 1))]


@values("bf16[8,2]", tolerance={"rtol": 3e-2, "atol": 2e-2})
def sums_of_bf16(x):
    return list(split(lambda x: (lax.psum(x, "i"), lax.pmean(x, "i") * x), I, (P(), I))(x))


@values("f64[8,2]")
def sums_of_f64(x):
    return per_device(lambda x: lax.psum(jnp.sin(x), "i") * x, x)


@values("c64[8,2]", wrt=None)
def sums_of_complex_numbers(x):
    each = lambda x: (
        lax.psum(x * x, "i"),
        lax.pmean(x, "i"),
        lax.psum_scatter(lax.all_gather(x[0], "i"), "i")[None],
    )
    return list(split(each, I, (P(), P(), I))(x))


@values("i32[8,2]", "u8[8,2]", "i8[8,2]", wrt=None)
def integers(n, bytes_, small):
    def each(n, u, s):
        both = lambda x: (lax.pmax(x, "i"), lax.pmin(x, "i"))
        return (lax.psum(n, "i"), lax.psum(u, "i"), *both(n), *both(u), *both(s))

    return list(split(each, I, P())(n, bytes_, small))


@values("bool[8,2]", wrt=None)
def booleans(x):
    def each(x):
        count = lax.psum(x.astype(jnp.int32), "i")
        return [count + x, lax.all_gather(x, "i", axis=1), lax.ppermute(x, "i", [(0, 1), (1, 0)])]

    return split(each, I, I)(x)


@values("bool[8,2]", wrt=None)
def any_and_all(x):
    return list(split(lambda x: (lax.pmax(x, "i"), lax.pmin(x, "i")), I, P())(x))


@values("bf16[8,4]", "f16[8,4]", "i8[8,4]", wrt=None)
def moved_in_narrow_types(x, y, z):
    def each(*xs):
        ring = [(k, (k + 3) % 8) for k in range(8)]
        return [lax.ppermute(x, "i", ring) for x in xs] + [
            lax.all_gather(x, "i", axis=1, tiled=True)[:, ::5] for x in xs
        ]

    return split(each, I, I)(x, y, z)


@values("f32[8,2]", "f32[2]")
def of_what_is_the_same(x, w):
    def each(x, w):
        summed = lax.psum(jnp.sin(w), "i")
        gathered = lax.all_gather(lax.pcast(w, "i", to="varying"), "i")
        return [summed * x, gathered.sum(0)[None] * x, lax.pmean(w, "i") * x]

    return split(each, (I, P()), I)(x, w)


@values("f32[8,2]")
def trees(x):
    def each(x):
        tree = {"a": x, "b": [jnp.sin(x), x[0]]}
        summed, moved = lax.psum(tree, "i"), lax.ppermute(tree, "i", [(0, 1), (1, 2)])
        return [
            summed["a"] * x,
            summed["b"][0] * x,
            summed["b"][1] * x,
            moved["a"] + moved["b"][0] + moved["b"][1],
        ]

    return split(each, I, I)(x)
