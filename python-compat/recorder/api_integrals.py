"""Integrals, hypergeometric functions, recurrences and density estimates of `jax.scipy`.

Operands are in the range where JAX is as accurate as its dtype. Outside of it, JAX's series end
after 250 terms, and some of its formulas cancel in `f32`. Rust tests compare results outside of
this range with published values.
"""

import jax
import jax.numpy as jnp
from jax.scipy import special as s
from jax.scipy import stats as t

from .api_table import R, Row, V


def _row(op, operands, compute, wrt=(0,), narrow=2e-5, wide=1e-12, batch=True):
    """Yields a row for each dtype that has a tolerance. `f64` always has one."""
    for kind, rtol in (("f32", narrow), ("f64", wide)):
        if rtol is not None:
            tolerance = {"rtol": rtol, "atol": rtol / 10}
            yield Row(
                op,
                operands,
                compute,
                wrt,
                (kind,),
                batch=batch and (kind == "f32" or narrow is None),
                tolerance=tolerance,
            )


def _parts(function):
    """Converts a complex function to a function of real and imaginary part."""

    def run(x, y):
        w = function(jax.lax.complex(x, y))
        return [w.real, w.imag]

    return run


def _harmonic(theta, phi):
    n, m = jnp.array([0, 1, 2, 3, 5, 4]), jnp.array([0, -1, 2, 0, -3, 5])
    w = s.sph_harm_y(n, jnp.minimum(m, n), theta, phi, n_max=5)
    return [w.real, w.imag]


def _normal(x, mean, root):
    return t.multivariate_normal.logpdf(x, mean, root @ root.T + jnp.eye(3, dtype=x.dtype))


def _kde(method, *operands):
    def run(data, *points):
        weights = (
            jnp.arange(1, data.shape[-1] + 1, dtype=data.dtype) if "weights" in operands else None
        )
        bandwidth = next((operand for operand in operands if operand != "weights"), None)
        return getattr(t.gaussian_kde(data, bw_method=bandwidth, weights=weights), method)(*points)

    return run


def _both_kdes(data, other):
    return t.gaussian_kde(data).integrate_kde(t.gaussian_kde(other))


def _resampled(data):
    weights = jnp.arange(1, data.shape[-1] + 1, dtype=data.dtype)
    return t.gaussian_kde(data, weights=weights).resample(jax.random.key(7), (6,))


_DATA, _LINE = R((2, 9)), R((9,))

ROWS = [
    *_row("special.erfcx", [R((8,), -2, 5)], s.erfcx),
    *_row("special.dawsn", [R((12,), -8, 8)], s.dawsn),
    *_row("special.wofz", [R((12,), -6, 6), R((12,), -1, 4)], _parts(s.wofz), (0, 1), wide=1e-10),
    *_row(
        "special.erfcx_complex",
        [R((6,), -1, 4), R((6,), -3, 3)],
        _parts(s.erfcx),
        (0, 1),
        wide=1e-10,
    ),
    # JAX has no reverse mode here, because its formula contains a `while_loop`.
    *_row(
        "special.loggamma_complex",
        [R((12,), -4, 6), R((12,), -5, 5)],
        _parts(s.loggamma),
        None,
        wide=2e-11,
    ),
    *_row("special.loggamma", [R((6,), 0.3, 9)], s.loggamma),
    Row(
        "special.loggamma_outside",
        [V([-0.5, -1.0, 0.0, float("nan")])],
        s.loggamma,
        None,
        ("f32", "f64"),
    ),
    *_row("special.expi", [R((12,), 0.6, 30)], s.expi),
    *_row("special.expi_negative", [R((6,), -9, -0.2)], s.expi),
    *_row("special.exp1", [R((12,), 0.05, 9)], s.exp1),
    *[
        row
        for n in (1, 2, 5)
        for row in _row(
            f"special.expn_{n}", [R((12,), 0.05, 9)], lambda x, n=n: s.expn(float(n), x)
        )
    ],
    *_row("special.expn_0", [R((6,), 0.1, 9)], lambda x: s.expn(0.0, x), None),
    *_row("special.sici", [R((16,), -12, 12)], lambda x: list(s.sici(x)), wide=2e-11),
    *_row("special.fresnel", [R((16,), -6, 6)], lambda x: list(s.fresnel(x)), wide=2e-11),
    # JAX's reverse mode gives NaN for some of these.
    *_row("special.spence", [R((16,), 0.05, 5)], s.spence, None),
    # With 64-bit types on, JAX computes f64 from f32 here and in `sph_harm_y`.
    *_row("special.owens_t", [R((16,), -3, 3), R((16,), -3, 3)], s.owens_t, (0, 1), None, 1e-9),
    *_row(
        "special.hyp1f1",
        [R((6,), 0.5, 4), R((6,), 0.8, 5), R((6,), 0.1, 8)],
        s.hyp1f1,
        (0, 1, 2),
        None,
        1e-11,
    ),
    *_row(
        "special.hyp2f1",
        [R((6,), 0.3, 2), R((6,), 0.3, 2), R((6,), 2.2, 4), R((6,), 0.05, 0.8)],
        s.hyp2f1,
        (0, 1, 2, 3),
        None,
        1e-11,
    ),
    Row(
        "special.bessel_jn",
        [R((2, 4), 1, 9)],
        lambda z: s.bessel_jn(z, v=3),
        (0,),
        ("f64",),
        tolerance={"rtol": 1e-10, "atol": 1e-12},
    ),
    Row(
        "special.bessel_jn_short",
        [R((2, 4), 4, 9)],
        lambda z: s.bessel_jn(z, v=3, n_iter=22),
        (0,),
        tolerance={"rtol": 3e-5, "atol": 3e-6},
    ),
    *_row("special.sph_harm_y", [R((6,), 0.3, 2.8), R((6,), 0.1, 6)], _harmonic, (0, 1), None),
    Row("special.bernoulli", [], lambda: s.bernoulli(12), tolerance={"rtol": 1e-5, "atol": 1e-7}),
    # JAX sums terms up to 20 above small means, and its derivative is NaN.
    Row(
        "poisson.entropy",
        [R((6,), 0.3, 90)],
        t.poisson.entropy,
        None,
        ("f32", "f64"),
        tolerance={"rtol": 2e-5, "atol": 0.0},
    ),
    # JAX omits terms of second order in the inverse mean.
    Row(
        "poisson.entropy_large",
        [V([120.0, 500.0, 0.0])],
        t.poisson.entropy,
        tolerance={"rtol": 3e-6, "atol": 0.0},
    ),
    *_row(
        "multivariate_normal.logpdf",
        [R((4, 3)), R((3,)), R((3, 3))],
        _normal,
        (0, 1, 2),
        narrow=1e-4,
        wide=1e-11,
    ),
    *_row(
        "multivariate_normal.batches",
        [R((2, 3)), R((4, 1, 3)), R((1,), 0.5, 2)],
        lambda x, m, c: t.multivariate_normal.logpdf(x, m, c[0]),
        (0, 1, 2),
    ),
    *_row(
        "multivariate_normal.scalar",
        [R((4,)), R((1,)), R((4,), 0.5, 2)],
        lambda x, m, c: t.multivariate_normal.pdf(x, m[0], c),
        (0, 1, 2),
    ),
    *_row("kde.evaluate", [_DATA, R((2, 4))], _kde("evaluate"), (0, 1), narrow=2e-4, wide=1e-11),
    *_row(
        "kde.line",
        [_LINE, R((4,))],
        _kde("evaluate", "silverman", "weights"),
        (0, 1),
        narrow=2e-4,
        wide=1e-11,
    ),
    *_row(
        "kde.one_point",
        [_DATA, R((2,))],
        _kde("pdf", 0.4),
        (0, 1),
        narrow=2e-4,
        wide=1e-11,
        batch=False,
    ),
    *_row(
        "kde.logpdf",
        [_DATA, R((2, 4), 3, 5)],
        _kde("logpdf", "weights"),
        (0, 1),
        narrow=5e-4,
        wide=1e-10,
    ),
    *_row(
        "kde.integrate_gaussian",
        [_DATA, R((2,)), R((1,), 0.5, 2)],
        lambda data, mean, c: _kde("integrate_gaussian")(
            data, mean, c[0] * jnp.eye(2, dtype=data.dtype)
        ),
        (0, 1, 2),
        narrow=2e-4,
        wide=1e-11,
    ),
    *_row(
        "kde.integrate_box_1d",
        [_LINE, R((1,), -2, 0), R((1,), 0, 2)],
        lambda data, a, b: _kde("integrate_box_1d", "weights")(data, a[0], b[0]),
        (0, 1, 2),
        narrow=2e-4,
        wide=1e-11,
    ),
    *_row("kde.integrate_kde", [_DATA, R((2, 5))], _both_kdes, (0, 1), narrow=2e-4, wide=1e-11),
    Row(
        "kde.resample",
        [_DATA],
        _resampled,
        None,
        ("f32",),
        batch=False,
        tolerance={"rtol": 2e-5, "atol": 2e-5},
    ),
]
