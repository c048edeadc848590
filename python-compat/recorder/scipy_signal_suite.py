"""Signals and cosine transforms of `jax.scipy`: values, derivatives and batches.

Boundaries of two-dimensional convolutions, which JAX does not have, are SciPy's.
"""

import jax.numpy as jnp
import jax.scipy.fft as jfft
import jax.scipy.signal as signal
import numpy as np
import scipy.signal

from .mapped import plain_and_mapped
from .ops_elementwise import inside
from .suite import Suite

KINDS = ("f32", "f64", "c64", "c128")
# Transforms and least squares accumulate many roundings.
TOLERANCE = {
    "f32": {"rtol": 1e-4, "atol": 2e-5},
    "f64": {"rtol": 1e-10, "atol": 1e-12},
    "c64": {"rtol": 1e-4, "atol": 4e-5},
    "c128": {"rtol": 1e-10, "atol": 1e-12},
}


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("scipy_signal", __doc__.strip(), stride=stride, tolerance=TOLERANCE)
    for kind in KINDS:
        _convolutions(suite, kind)
        _matrices(suite, kind)
        if kind != "c64":
            _detrend(suite, kind)
            _cosines(suite, kind)
        _spectra(suite, kind)
        _stft(suite, kind)
    _integers(suite)
    _boundaries(suite)
    _windows(suite)
    return suite


def _convolutions(suite, kind):
    long, short = inside("long", (-1, 1), kind, (9,)), inside("short", (-1, 1), kind, (4,))
    cube, kernel = inside("cube", (-1, 1), kind, (2, 3, 4)), inside("ker", (-1, 1), kind, (1, 2, 1))
    pairs = {"long": [long, short], "short": [short, long], "cube": [cube, kernel]}
    for op in ("convolve", "correlate"):
        for label, inputs in pairs.items():
            for mode in ("full", "same", "valid"):
                for method in ("direct", "fft"):
                    if kind != "f64" and (label == "cube" or method == "fft"):
                        continue
                    if method == "fft" and label != "long":
                        continue
                    if label == "cube" and mode != "same":
                        continue
                    if kind in ("f32", "c64") and (label, mode) != ("long", "same"):
                        continue
                    if kind == "c128" and label != "long":
                        continue
                    run = lambda x, y, op=op, mode=mode, method=method: getattr(signal, op)(
                        x, y, mode=mode, method=method
                    )
                    name = f"{op}_{label}_{mode}_{method}_{kind}"
                    suite.case(name, op, inputs, run, {"mode": mode, "method": method}, wrt=[0, 1])
    run = lambda x, y: signal.convolve(x, y, mode="same")
    params = {"mode": "same", "method": "direct"}
    plain_and_mapped(
        suite, f"mapped_{kind}", "convolve", [long, short], run, params, wrt=[0, 1], plain=False
    )
    if kind in ("f32", "c64"):
        return
    rows, other = inside("rows", (-1, 1), kind, (3, 7)), inside("other", (-1, 1), kind, (3, 4))
    for mode in ("full", "same", "valid"):
        run = lambda x, y, mode=mode: signal.fftconvolve(x, y, mode=mode, axes=[1])
        name = f"fftconvolve_axes_{mode}_{kind}"
        suite.case(name, "fftconvolve", [rows, other], run, {"mode": mode, "axes": [1]}, wrt=[0, 1])


def _matrices(suite, kind):
    large, small = inside("large", (-1, 1), kind, (5, 6)), inside("small", (-1, 1), kind, (2, 3))
    for op in ("convolve2d", "correlate2d"):
        for label, inputs in {"large": [large, small], "small": [small, large]}.items():
            for mode in ("full", "same", "valid"):
                if kind in ("f32", "c64") and mode != "same":
                    continue
                if kind == "c128" and label == "small" and op == "convolve2d":
                    continue
                if kind in ("f32", "c64") and label == "small":
                    continue
                run = lambda x, y, op=op, mode=mode: getattr(signal, op)(x, y, mode=mode)
                name = f"{op}_{label}_{mode}_{kind}"
                suite.case(name, op, inputs, run, {"mode": mode}, wrt=[0, 1])


def _detrend(suite, kind):
    x = inside("trend", (-1, 1), kind, (2, 8))
    for trend in ("linear", "constant"):
        for axis in (0, -1) if kind == "f64" else (-1,):
            if kind == "c128" and trend == "constant":
                continue
            run = lambda x, axis=axis, trend=trend: signal.detrend(x, axis=axis, type=trend)
            params = {"axis": axis, "trend": trend}
            plain_and_mapped(
                suite, f"detrend_{trend}_{axis}_{kind}", "detrend", [x], run, params, wrt=[0]
            )
    run = lambda x: signal.detrend(x, axis=-1, bp=[3, 6])
    params = {"axis": -1, "trend": "linear", "bp": [3, 6]}
    suite.case(f"detrend_pieces_{kind}", "detrend", [x], run, params, wrt=[0])


def _spectra(suite, kind):
    x, y = inside("spectrum", (-1, 1), kind, (2, 20)), inside("cross", (-1, 1), kind, (2, 17))
    options = {
        "default": {},
        "segments": {"nperseg": 8, "fs": 4.0},
        "overlap": {"nperseg": 7, "noverlap": 4, "nfft": 10, "scaling": "spectrum"},
        "median": {"nperseg": 6, "average": "median", "detrend": "linear"},
        "axis": {"nperseg": 2, "axis": 0, "detrend": False},
        "twosided": {"nperseg": 8, "return_onesided": False, "window": "hamming"},
    }
    for label, params in options.items():
        if kind in ("f32", "c64") and label != "segments":
            continue
        if kind == "c128" and label not in ("segments", "median"):
            continue
        run = lambda x, params=params: list(signal.welch(x, **params))
        suite.case(f"welch_{label}_{kind}", "welch", [x], run, params, wrt=[0])
        if label == "axis":
            y_of = y[:, :1].repeat(20, axis=1)
        else:
            y_of = y
        if label == "twosided":
            continue
        run = lambda x, y, params=params: list(signal.csd(x, y, **params))
        suite.case(f"csd_{label}_{kind}", "csd", [x, y_of], run, params, wrt=[0, 1])


def _stft(suite, kind):
    x = inside("stft", (-1, 1), kind, (2, 14))
    options = {
        "default": {},
        "short": {"nperseg": 8, "fs": 2.0},
        "odd": {"nperseg": 9, "noverlap": 5, "boundary": "odd"},
        "even": {"nperseg": 8, "boundary": "even", "padded": False},
        "constant": {"nperseg": 8, "boundary": "constant", "nfft": 16},
        "none": {"nperseg": 8, "boundary": None, "detrend": "constant"},
        "twosided": {"nperseg": 8, "return_onesided": False},
    }
    for label, params in options.items():
        if kind in ("f32", "c64") and label != "short":
            continue
        if kind == "c128" and label != "short":
            continue
        run = lambda x, params=params: list(signal.stft(x, **params))
        suite.case(f"stft_{label}_{kind}", "stft", [x], run, params, wrt=[0])
    z = inside("istft", (-1, 1), {"f32": "c64", "f64": "c128"}.get(kind, kind), (5, 6))
    for label, params in {
        "default": {},
        "overlap": {"noverlap": 5, "fs": 2.0, "window": "hamming"},
        "nfft": {"nperseg": 6, "nfft": 8, "boundary": False},
        "twosided": {"input_onesided": False, "nperseg": 5},
        "axes": {"time_axis": 0, "freq_axis": 1},
    }.items():
        if kind in ("f32", "c64", "c128") and label != "overlap":
            continue
        run = lambda z, params=params: list(signal.istft(z, **params))
        suite.case(f"istft_{label}_{kind}", "istft", [z], run, params, wrt=[0])


def _cosines(suite, kind):
    x = inside("cosines", (-1, 1), kind, (2, 3, 4))
    for op in ("dct", "idct"):
        for n, axis, norm in ((None, -1, None), (2, 1, "ortho"), (5, -1, None), (3, 0, "ortho")):
            if kind != "f64" and n != 2:
                continue
            run = lambda x, op=op, n=n, axis=axis, norm=norm: getattr(jfft, op)(
                x, n=n, axis=axis, norm=norm
            )
            params = {"n": n, "axis": axis, "norm": norm}
            suite.case(f"{op}_{n}_{axis}_{norm}_{kind}", op, [x], run, params, wrt=[0])
    for op in ("dctn", "idctn"):
        for s, axes, norm in ((None, None, None), ([3, 4], [2, 0], "ortho"), ([2, 2], None, None)):
            run = lambda x, op=op, s=s, axes=axes, norm=norm: getattr(jfft, op)(
                x, s=s, axes=axes, norm=norm
            )
            params = {"s": s, "axes": axes, "norm": norm}
            if kind != "f64" and axes is None:
                continue
            label = f"{'all' if axes is None else 'two'}_{'sized' if s else 'whole'}"
            suite.case(f"{op}_{label}_{kind}", op, [x], run, params, wrt=[0])
    run = lambda x: jfft.dct(x, axis=0)
    params = {"n": None, "axis": 0, "norm": None}
    plain_and_mapped(suite, f"dct_{kind}", "dct", [x], run, params, wrt=[0], plain=False)


def _integers(suite):
    x, y = np.arange(-4, 5, dtype=np.int32), np.array([1, 2, -1], np.int32)
    f = lambda x: x.astype(jnp.float32)
    for op in ("convolve", "correlate"):
        run = lambda x, y, op=op: getattr(signal, op)(f(x), f(y))
        suite.case(f"{op}_i32", op, [x, y], run, {"mode": "full", "method": "direct"})
    suite.case("detrend_i32", "detrend", [x], lambda x: signal.detrend(f(x)), {"axis": -1})
    params = {"n": None, "axis": -1, "norm": None}
    suite.case("dct_i32", "dct", [x], lambda x: jfft.dct(f(x)), params)
    bf16 = inside("bf16", (-1, 1), "bf16", (8,)), inside("bf16k", (-1, 1), "bf16", (3,))
    params = {"mode": "same", "method": "direct"}
    run = lambda x, y: signal.convolve(x, y, mode="same")
    suite.case("convolve_bf16", "convolve", list(bf16), run, params)


def _boundaries(suite):
    for kind in ("f32", "c128"):
        x, y = inside("edge", (-1, 1), kind, (5, 4)), inside("edgek", (-1, 1), kind, (3, 2))
        for op in ("convolve2d", "correlate2d"):
            for boundary, fill in (("fill", 1.5), ("wrap", 0), ("symm", 0)):
                for mode in ("full", "same", "valid"):
                    if kind == "c128" and boundary != "wrap":
                        continue
                    run = lambda x, y, op=op, mode=mode, boundary=boundary, fill=fill: getattr(
                        scipy.signal, op
                    )(x, y, mode=mode, boundary=boundary, fillvalue=fill)
                    params = {"mode": mode, "boundary": boundary, "fillvalue": fill}
                    suite.case(f"{op}_{boundary}_{mode}_{kind}", op, [x, y], run, params)


def _windows(suite):
    named = (
        "hann hamming blackman blackmanharris nuttall flattop boxcar bartlett triang cosine bohman "
        "parzen tukey"
    ).split()
    parameters = [("kaiser", 8.6), ("gaussian", 2.0), ("general_gaussian", 1.5, 2.0)]
    parameters += [("general_hamming", 0.7), ("exponential", None, 3.0), ("tukey", 0.3)]
    for n in (8, 9):
        for window in [*named, *parameters]:
            label = window if isinstance(window, str) else window[0] + "_parameters"
            run = lambda window=window, n=n: scipy.signal.get_window(window, n).astype(np.float32)
            params = {"window": window, "n": n}
            suite.case(f"window_{label}_{n}", "get_window", [], run, params)
