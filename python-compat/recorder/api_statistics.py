"""Averages, quantiles, counts and numerical calculus."""

import jax.numpy as jnp

from .api_table import I, R, Row, V

BOTH = ("f32", "f64")
_NAN = float("nan")
_X = R((3, 5))
_HOLES = V([[1.0, _NAN, 3.0, -2.0], [_NAN, _NAN, _NAN, _NAN], [0.5, 2.5, 4.0, 1.0]])
_FEW = V([[1.0, _NAN, 3.0, -2.0], [0.5, 2.5, _NAN, 1.0]])
_GRID = V([-1.0, -0.25, 0.5, 1.5, 1.75])


def _reduction(op, function, operand=_X, **more):
    return Row(op, [operand], function, (0,), **more)


ROWS = [
    _reduction("nansum", lambda x: jnp.nansum(x, axis=1), _HOLES),
    _reduction("nanprod", lambda x: jnp.nanprod(x, axis=0), _FEW),
    _reduction("nanmean", lambda x: jnp.nanmean(x, axis=1), _FEW, kinds=BOTH),
    Row("nanmean_none", [_HOLES], lambda x: jnp.nanmean(x, axis=1, keepdims=True)),
    _reduction("nanvar", lambda x: jnp.nanvar(x, axis=1, ddof=1), _FEW, kinds=BOTH),
    _reduction("nanstd", jnp.nanstd, _FEW, kinds=BOTH),
    _reduction("nanmax", lambda x: jnp.nanmax(x, axis=1), _FEW, exact=True),
    Row("nanmax_none", [_HOLES], lambda x: jnp.nanmax(x, axis=1), exact=True),
    _reduction("nanmin", lambda x: jnp.nanmin(x, axis=(0, 1)), _FEW, exact=True),
    Row("nanargmax", [_HOLES], lambda x: jnp.nanargmax(x, axis=1), exact=True),
    Row("nanargmin", [_HOLES], lambda x: jnp.nanargmin(x, axis=1), exact=True),
    _reduction("median", lambda x: jnp.median(x, axis=-1), kinds=BOTH),
    _reduction("median_even", lambda x: jnp.median(x, axis=0, keepdims=True), R((4, 3))),
    _reduction("median_all", jnp.median),
    Row("median_nan", [_HOLES], lambda x: jnp.median(x, axis=1)),
    _reduction("nanmedian", lambda x: jnp.nanmedian(x, axis=1), _FEW),
    Row("nanmedian_none", [_HOLES], lambda x: jnp.nanmedian(x, axis=1)),
    Row("quantile_scalar", [_X], lambda x: jnp.quantile(x, 0.3, axis=1), (0,), BOTH),
    Row(
        "quantile_vector",
        [_X, V([0.0, 0.1, 0.5, 1.0])],
        lambda x, q: jnp.quantile(x, q, axis=(0, 1), keepdims=True),
        (0,),
        BOTH,
    ),
    Row(
        "quantile_lower",
        [_X],
        lambda x: jnp.quantile(x, 0.3, axis=0, method="lower"),
        (0,),
        exact=True,
    ),
    Row(
        "quantile_higher",
        [_X],
        lambda x: jnp.quantile(x, 0.3, axis=0, method="higher"),
        (0,),
        exact=True,
    ),
    Row("quantile_midpoint", [_X], lambda x: jnp.quantile(x, 0.3, axis=0, method="midpoint"), (0,)),
    Row(
        "quantile_nearest",
        [_X],
        lambda x: jnp.quantile(x, 0.3, axis=0, method="nearest"),
        (0,),
        exact=True,
    ),
    Row("quantile_int", [I((9,), 0, 20)], lambda x: jnp.quantile(x, 0.4)),
    Row("percentile", [_X], lambda x: jnp.percentile(x, 62.5, axis=1), (0,)),
    Row("nanquantile", [_FEW, V([0.25, 0.5])], lambda x, q: jnp.nanquantile(x, q, axis=1), (0,)),
    Row("nanpercentile", [_HOLES], lambda x: jnp.nanpercentile(x, 30.0, axis=1)),
    Row(
        "average_vector",
        [_X, R((5,), 0.1, 2)],
        lambda x, w: jnp.average(x, axis=1, weights=w),
        (0, 1),
        BOTH,
    ),
    Row("average_all", [_X, R((3, 5), 0.1, 2)], lambda x, w: jnp.average(x, weights=w), (0, 1)),
    _reduction("ptp", lambda x: jnp.ptp(x, axis=1)),
    _reduction("cov", jnp.cov, kinds=BOTH),
    _reduction("cov_vector", jnp.cov, R((6,))),
    Row(
        "cov_weights",
        [_X, I((5,), 1, 4), R((5,), 0.1, 2)],
        lambda x, f, a: jnp.cov(x, fweights=f, aweights=a, ddof=1),
        (0, 2),
        BOTH,
    ),
    Row("cov_bias", [_X], lambda x: jnp.cov(x, bias=True), (0,)),
    _reduction("corrcoef", jnp.corrcoef, kinds=BOTH),
    Row("searchsorted", [_GRID, R((2, 3))], jnp.searchsorted, exact=True, batch=False),
    Row(
        "searchsorted_right",
        [V([0, 1, 1, 2, 2, 2]), V([1, 2, 0, 3, -1])],
        lambda s, v: jnp.searchsorted(s, v, side="right"),
        exact=True,
        batch=False,
    ),
    Row(
        "searchsorted_nan",
        [V([0.0, 1.0, _NAN]), V([_NAN, 0.5, 2.0])],
        jnp.searchsorted,
        exact=True,
        batch=False,
    ),
    Row(
        "searchsorted_long",
        [V([float(i * i) for i in range(50)]), R((20,), -5, 2500)],
        jnp.searchsorted,
        exact=True,
        batch=False,
    ),
    Row(
        "searchsorted_long_right",
        [V([i // 3 for i in range(50)]), I((20,), -2, 20)],
        lambda s, v: jnp.searchsorted(s, v, side="right"),
        exact=True,
        batch=False,
    ),
    Row("digitize", [R((6,)), _GRID], jnp.digitize, exact=True, batch=False),
    Row(
        "digitize_right",
        [V([-1.0, 0.5, 1.75, 9.0]), _GRID],
        lambda x, b: jnp.digitize(x, b, right=True),
        exact=True,
        batch=False,
    ),
    Row(
        "digitize_falling",
        [R((6,)), V([2.0, 1.0, 0.0, -1.0])],
        jnp.digitize,
        exact=True,
        batch=False,
    ),
    Row("bincount", [I((12,), 0, 7)], lambda x: jnp.bincount(x, length=5), exact=True),
    Row(
        "bincount_weighted",
        [I((6,), 0, 4), R((6,))],
        lambda x, w: jnp.bincount(x, w, length=4),
        (1,),
    ),
    Row("histogram", [R((20,))], lambda x: jnp.histogram(x, bins=4)),
    Row("histogram_range", [R((20,))], lambda x: jnp.histogram(x, bins=5, range=(-1.0, 1.0))),
    Row(
        "histogram_edges",
        [I((12,), 0, 6), V([0, 1, 3, 6])],
        lambda x, b: jnp.histogram(x, bins=b),
        batch=False,
    ),
    Row("histogram_density", [R((20,))], lambda x: jnp.histogram(x, bins=4, density=True)),
    Row(
        "histogram_weighted",
        [R((8,)), R((8,), 0, 1)],
        lambda x, w: jnp.histogram(x, bins=3, range=(-2.0, 2.0), weights=w),
    ),
    Row("histogram_bin_edges", [V([2.0, 2.0])], lambda x: jnp.histogram_bin_edges(x, bins=2)),
    Row(
        "histogram2d",
        [R((15,)), R((15,))],
        lambda x, y: jnp.histogram2d(x, y, bins=(3, 2), range=((-2.0, 2.0), (-2.0, 2.0))),
    ),
    Row("histogramdd", [R((15, 2))], lambda x: [(h := jnp.histogramdd(x, bins=[2, 3]))[0], *h[1]]),
    Row("interp", [R((7,), -1.5, 2), _GRID, R((5,))], jnp.interp, (0, 2), BOTH, batch=False),
    Row(
        "interp_outside",
        [R((7,), -3, 4), _GRID, R((5,))],
        lambda x, a, b: jnp.interp(x, a, b, left=7.0, right=-7.0),
        (2,),
        batch=False,
    ),
    Row(
        "interp_periodic",
        [R((7,), -5, 5), V([0.5, 0.1, 0.9]), R((3,))],
        lambda x, a, b: jnp.interp(x, a, b, period=1.0),
        batch=False,
        tolerance={"rtol": 1e-4, "atol": 1e-5},
    ),
    _reduction("gradient", lambda x: jnp.gradient(x, axis=1), kinds=BOTH),
    _reduction("gradient_spaced", lambda x: jnp.gradient(x, 0.5, axis=0)),
    Row("trapezoid", [_X], lambda y: jnp.trapezoid(y, dx=0.5, axis=1), (0,)),
    Row("trapezoid_at", [_X, R((5,))], lambda y, x: jnp.trapezoid(y, x, axis=1), (0, 1), BOTH),
]
