"""Functions that select elements by value, with fixed result sizes."""

import jax.numpy as jnp

from .api_table import B, I, R, Row, V

_I = I((3, 4), 0, 5)


def _exact(op, operands, function, **options):
    return Row(op, operands, function, exact=True, **options)


ROWS = [
    _exact("nonzero", [I((3, 4), 0, 2)], lambda x: jnp.nonzero(x, size=9, fill_value=-1)),
    _exact("nonzero_cut", [B((3, 4))], lambda x: jnp.nonzero(x, size=2)),
    _exact("flatnonzero", [I((3, 4), 0, 2)], lambda x: jnp.flatnonzero(x, size=15, fill_value=-1)),
    _exact("argwhere", [B((3, 4))], lambda x: jnp.argwhere(x, size=9, fill_value=-1)),
    Row(
        "compress",
        [B((4,)), R((3, 4))],
        lambda c, x: jnp.compress(c, x, axis=1, size=3, fill_value=0),
        (1,),
        exact=True,
    ),
    Row(
        "compress_short",
        [B((2,)), R((4, 3))],
        lambda c, x: jnp.compress(c, x, axis=0, size=2, fill_value=0),
        (1,),
        exact=True,
    ),
    Row(
        "extract",
        [B((3, 4)), R((3, 4))],
        lambda c, x: jnp.extract(c, x, size=8, fill_value=0),
        (1,),
        exact=True,
    ),
    Row(
        "select_first",
        [B((3, 1)), B((4,)), R((3, 4)), R((4,))],
        lambda a, b, x, y: jnp.select([a, b], [x, y], 7.0),
        (2, 3),
        exact=True,
    ),
    Row(
        "choose",
        [I((4,), 0, 3), R((4,)), R((3, 4)), R((3, 1))],
        lambda i, a, b, c: jnp.choose(i, [a, b, c], mode="clip"),
        (1, 2, 3),
        exact=True,
    ),
    _exact(
        "choose_clip",
        [I((5,), -2, 5), R((5,)), R((5,))],
        lambda i, a, b: jnp.choose(i, [a, b], mode="clip"),
    ),
    _exact(
        "choose_wrap",
        [I((5,), -2, 5), R((5,)), R((5,))],
        lambda i, a, b: jnp.choose(i, [a, b], mode="wrap"),
    ),
    Row(
        "piecewise",
        [R((6,))],
        lambda x: jnp.piecewise(x, [x < 0, x > 1], [lambda v: v * v, jnp.sin, lambda v: 2 * v]),
        (0,),
    ),
    Row(
        "place",
        [R((3, 4)), B((3, 4)), R((2,))],
        lambda x, m, v: jnp.place(x, m, v, inplace=False),
        (0, 2),
        exact=True,
    ),
    Row(
        "put",
        [R((3, 4)), V([0, 5, 11]), R((2,))],
        lambda x, i, v: jnp.put(x, i, v, inplace=False),
        (0, 2),
        exact=True,
        batch=False,
    ),
    _exact(
        "put_wrap",
        [R((3, 4)), V([-1, 14, 5]), R((3,))],
        lambda x, i, v: jnp.put(x, i, v, mode="wrap", inplace=False),
        batch=False,
    ),
    Row(
        "put_along_axis",
        [R((3, 4)), V([[0, 2], [1, -1], [3, 0]]), R((3, 2))],
        lambda x, i, v: jnp.put_along_axis(x, i, v, axis=1, inplace=False),
        (0, 2),
        exact=True,
        batch=False,
    ),
    _exact("unique", [_I], lambda x: jnp.unique(x, size=7, fill_value=-1)),
    _exact("unique_cut", [_I], lambda x: jnp.unique(x, size=2)),
    _exact(
        "unique_nan",
        [V([1.0, float("nan"), 0.0, -0.0, float("nan"), 1.0])],
        lambda x: jnp.unique(x, size=5, fill_value=9),
        batch=False,
    ),
    _exact(
        "unique_all",
        [I((3, 4), 0, 9)],
        lambda x: [
            jnp.unique(x, size=4, return_inverse=True, return_counts=True)[i] for i in (0, 2)
        ],
        batch=False,
    ),
    _exact(
        "unique_index",
        [V([3, 1, 3, 2, 1, 3])],
        lambda x: jnp.unique(x, size=3, return_index=True, return_inverse=True, return_counts=True),
        batch=False,
    ),
    _exact(
        "unique_along",
        [V([[1, 0, 1, 1], [2, 5, 2, 0]])],
        lambda x: jnp.unique(
            x, axis=1, size=3, return_index=True, return_inverse=True, return_counts=True
        ),
        batch=False,
    ),
    _exact("isin", [_I, I((3,), 0, 5)], jnp.isin),
    _exact("isin_float", [V([1.0, float("nan"), 2.0]), V([float("nan"), 2.0])], jnp.isin),
    _exact(
        "union1d",
        [I((5,), 0, 6), I((4,), 0, 6)],
        lambda x, y: jnp.union1d(x, y, size=8, fill_value=-1),
    ),
    _exact(
        "intersect1d",
        [I((5,), 0, 6), I((4,), 0, 6)],
        lambda x, y: jnp.intersect1d(x, y, size=4, fill_value=-1),
    ),
    _exact(
        "setdiff1d",
        [I((5,), 0, 6), I((4,), 0, 6)],
        lambda x, y: jnp.setdiff1d(x, y, size=5, fill_value=-1),
    ),
    _exact(
        "setxor1d",
        [I((5,), 0, 6), I((4,), 0, 6)],
        lambda x, y: jnp.setxor1d(x, y, size=8, fill_value=-1),
    ),
    _exact("lexsort", [I((6,), 0, 3), I((6,), 0, 3)], lambda a, b: jnp.lexsort([a, b])),
    Row("partition_sorted", [R((3, 7))], lambda x: jnp.sort(x, -1), (0,), exact=True),
    _exact("sort_complex", [R((6,))], lambda x: jnp.sort_complex(x)),
]
