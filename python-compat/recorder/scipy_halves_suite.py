"""Functions of `jax.scipy` in `bf16` and `f16`: values. Operations are those of the suites
`scipy_signal` and `scipy_spatial`; `params.family` names the suite.

Decompositions and Fourier transforms do not take these dtypes.
"""

import jax
import jax.scipy.signal as signal
import numpy as np
from jax.scipy.cluster.vq import vq
from jax.scipy.interpolate import RegularGridInterpolator
from jax.scipy.ndimage import map_coordinates

from .names import dtype
from .ops_elementwise import inside
from .suite import Suite

TOLERANCE = {
    "bf16": {"rtol": 2e-2, "atol": 4e-2},
    "f16": {"rtol": 3e-3, "atol": 6e-3},
}


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("scipy_halves", __doc__.strip(), stride=stride, tolerance=TOLERANCE)
    for kind in ("bf16", "f16"):
        _signals(suite, kind)
        _spatial(suite, kind)
    return suite


def _adder(suite, family, kind):
    def add(name, op, inputs, run, **params):
        label = f"{family}_{name}_{kind}"
        suite.case(label, op, inputs, jax.jit(run), {"family": family} | params)

    return add


def _signals(suite, kind):
    add = _adder(suite, "signal", kind)
    long, short = inside("long", (-1, 1), kind, (9,)), inside("short", (-1, 1), kind, (4,))
    cube, kernel = inside("cube", (-1, 1), kind, (2, 3, 4)), inside("ker", (-1, 1), kind, (1, 2, 1))
    image, patch = inside("large", (-1, 1), kind, (5, 6)), inside("small", (-1, 1), kind, (2, 3))
    for op in ("convolve", "correlate"):
        function = getattr(signal, op)
        for mode in ("full", "same", "valid"):
            run = lambda x, y, function=function, mode=mode: function(x, y, mode=mode)
            add(f"{op}_{mode}", op, [long, short], run, mode=mode, method="direct")
        run = lambda x, y, function=function: function(x, y, mode="same")
        add(f"{op}_cube", op, [cube, kernel], run, mode="same", method="direct")
        function = getattr(signal, f"{op}2d")
        for mode in ("full", "same"):
            run = lambda x, y, function=function, mode=mode: function(x, y, mode=mode)
            add(f"{op}2d_{mode}", f"{op}2d", [image, patch], run, mode=mode)
    run = lambda x: signal.detrend(x, axis=-1, type="constant")
    add("detrend", "detrend", [image], run, axis=-1, trend="constant")


def _spatial(suite, kind):
    add = _adder(suite, "spatial", kind)
    image = inside("image", (-1, 1), kind, (3, 4))
    rows, columns = inside("rows", (-4, 6), kind, (2, 5)), inside("columns", (-5, 8), kind, (5,))
    for order in (0, 1):
        for mode in ("constant", "nearest", "wrap", "mirror", "reflect"):
            run = lambda x, r, c, order=order, mode=mode: map_coordinates(x, [r, c], order, mode, 2)
            name = f"map_coordinates_{order}_{mode}"
            inputs = [image, rows, columns]
            add(name, "map_coordinates", inputs, run, order=order, mode=mode, cval=2)
    x, y = np.array([0.0, 0.5, 2.0], dtype(kind)), np.array([-1.0, 0.0, 1.0, 3.0], dtype(kind))
    values = inside("grid", (-1, 1), kind, (3, 4, 2))
    points = np.array([[0.25, 0.25], [1.75, 2.5], [0.5, -1.0], [2.5, 0.5]], dtype(kind))
    for method in ("linear", "nearest"):
        run = lambda x, y, v, p, method=method: RegularGridInterpolator(
            (x, y), v, method=method, bounds_error=False, fill_value=7.0
        )(p)
        inputs = [x, y, values, points]
        add(f"grid_{method}", "grid", inputs, run, method=method, fill="value")
    observed, codes = inside("obs", (-1, 1), kind, (6, 3)), inside("codes", (-1, 1), kind, (4, 3))
    add("vq_codes", "vq_codes", [observed, codes], lambda x, c: vq(x, c)[0].astype(np.int32))
    add("vq", "vq", [observed, codes], lambda x, c: vq(x, c)[1])

