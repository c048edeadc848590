"""Reductions with a mask and with an initial value."""

import jax.numpy as jnp

from .api_table import I, R, Row, V

BOTH = ("f32", "f64")
_X = R((3, 5))
_MASK = V([[True, False, True, True, False], [False] * 5, [True] * 5])
_COLUMN = V([[True], [False], [True]])
_HOLES = V([[1.0, float("nan"), 3.0, -2.0], [0.5, 2.5, float("nan"), 1.0]])
_PRESENT = V([[True, False, True, True], [True, True, False, True]])


def _where(op, function, operand=_X, mask=_MASK, kinds=BOTH, wrt=(0,)):
    return Row(op, [operand, mask], function, wrt, kinds)


ROWS = [
    _where("sum_where", lambda x, m: jnp.sum(x, axis=1, where=m)),
    _where(
        "sum_where_initial", lambda x, m: jnp.sum(x, axis=0, where=m, initial=2.5, keepdims=True)
    ),
    _where("sum_where_column", lambda x, m: jnp.sum(x, axis=(0, 1), where=m), mask=_COLUMN),
    _where(
        "sum_where_int",
        lambda x, m: jnp.sum(x, axis=1, where=m, initial=7),
        I((3, 5), -9, 9),
        kinds=("f32",),
        wrt=None,
    ),
    _where("sum_where_nan", lambda x, m: jnp.sum(x, axis=1, where=m), _HOLES, _PRESENT),
    _where("prod_where", lambda x, m: jnp.prod(x, axis=1, where=m, initial=-2.0)),
    _where("max_where", lambda x, m: jnp.max(x, axis=1, where=m, initial=-0.5)),
    _where("min_where", lambda x, m: jnp.min(x, axis=0, where=m, initial=5.0, keepdims=True)),
    _where(
        "max_where_int",
        lambda x, m: jnp.max(x, axis=1, where=m, initial=-100),
        I((3, 5), -9, 9),
        kinds=("f32",),
        wrt=None,
    ),
    Row("max_initial", [_X], lambda x: jnp.max(x, axis=1, initial=0.25), (0,)),
    Row("max_initial_empty", [R((2, 0))], lambda x: jnp.max(x, axis=1, initial=0.25)),
    Row("sum_initial", [_X], lambda x: jnp.sum(x, axis=(0, 1), initial=-1), (0,)),
    _where(
        "mean_where",
        lambda x, m: jnp.mean(x, axis=1, where=m),
        mask=_COLUMN,
        kinds=("f32",),
        wrt=None,
    ),
    _where("mean_where_some", lambda x, m: jnp.mean(x, axis=0, where=m, keepdims=True)),
    _where(
        "mean_where_int",
        lambda x, m: jnp.mean(x, axis=0, where=m),
        I((3, 5), -9, 9),
        kinds=("f32",),
        wrt=None,
    ),
    _where("mean_where_nan", lambda x, m: jnp.mean(x, axis=1, where=m), _HOLES, _PRESENT),
    _where("var_where", lambda x, m: jnp.var(x, where=m, ddof=1)),
    _where(
        "var_where_rows",
        lambda x, m: jnp.var(x, axis=1, where=m, keepdims=True),
        kinds=("f32",),
        wrt=None,
    ),
    _where(
        "std_where",
        lambda x, m: jnp.std(x, axis=0, where=m),
        mask=V([[True] * 5, [False, True, True, True, False], [True] * 5]),
    ),
    _where("any_where", lambda x, m: jnp.any(x > 0.5, axis=1, where=m), kinds=("f32",), wrt=None),
    _where("all_where", lambda x, m: jnp.all(x > -0.5, axis=1, where=m), kinds=("f32",), wrt=None),
]
