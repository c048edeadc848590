"""Linear algebra and Fourier transforms: values and derivatives.

Results that are determined up to a sign or a phase are recorded in an invariant form.
"""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as scipy_linalg
import numpy as np

from .names import dtype
from .ops_elementwise import inside
from .suite import Suite

KINDS = ("f32", "f64", "c64", "c128")
# Results accumulate many roundings, and LAPACK rounds in another order than XLA's decompositions.
TOLERANCE = {
    "f32": {"rtol": 2e-4, "atol": 2e-5},
    "f64": {"rtol": 1e-10, "atol": 1e-11},
    "c64": {"rtol": 2e-4, "atol": 4e-5},
    "c128": {"rtol": 1e-10, "atol": 1e-11},
}


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("linalg", __doc__.strip(), stride=stride, tolerance=TOLERANCE)
    for kind in KINDS:
        _decompositions(suite, kind)
        _functions(suite, kind)
        _transforms(suite, kind)
        _eigenvalues(suite, kind)
    _frequencies(suite)
    _roots(suite)
    return suite


def _matrix(name, kind, shape):
    """Returns a random matrix that is far from singular, with distinct singular values."""
    x = inside(name, (-1, 1), kind, shape)
    n = min(shape[-2:])
    x[..., range(n), range(n)] += np.arange(2, n + 2).astype(x.dtype)
    return x


def _definite(name, kind, shape):
    x = _matrix(name, kind, shape)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) / 4).astype(x.dtype)


def _projector(v):
    """Returns the projectors of vectors, which do not depend on the vectors' phases."""
    return jnp.einsum("...ik,...jk->...kij", v, jnp.conj(v))


def _decompositions(suite, kind):
    definite, square = _definite("definite", kind, (2, 3, 3)), _matrix("square", kind, (3, 3))
    tall, wide = _matrix("tall", kind, (2, 4, 3)), _matrix("wide", kind, (3, 4))

    def case(op, label, inputs, compute, wrt=(0,), **params):
        suite.case(f"{op}_{label}_{kind}", op, inputs, compute, params, wrt=wrt)

    case("cholesky", "batch", [definite], jnp.linalg.cholesky)
    for label, x in (("square", square), ("tall", tall), ("wide", wide)):
        case("lu", label, [x], lambda x: list(jax.lax.linalg.lu(x)[:1]))
        case("svdvals", label, [x], lambda x: jnp.linalg.svd(x, compute_uv=False))
        case("pinv", label, [x], jnp.linalg.pinv)
    case(
        "lu_permutation",
        "square",
        [square[::-1].copy()],
        jax.jit(lambda x: jax.lax.linalg.lu(x)[2]),
        wrt=None,
    )
    # LAPACK chooses the signs of the diagonal of r by its reflections. Absolute values do not
    # depend on them.
    for label, x in (("square", square), ("tall", tall)):
        case("qr_abs", label, [x], lambda x: jnp.abs(jnp.linalg.qr(x)[1]))
        case("qr_projector", label, [x], lambda x: _projector(jnp.linalg.qr(x)[0]))
        case(
            "svd_projectors",
            label,
            [x],
            lambda x: [
                _projector(v)
                for v in (
                    jnp.linalg.svd(x, full_matrices=False)[0],
                    jnp.conj(jnp.swapaxes(jnp.linalg.svd(x, full_matrices=False)[2], -1, -2)),
                )
            ],
        )
    case("eigvalsh", "batch", [definite], jnp.linalg.eigvalsh)
    case("eigh_projectors", "batch", [definite], lambda x: _projector(jnp.linalg.eigh(x)[1]))


def _stable_order(w):
    """Returns an order of complex numbers that is stable under rounding.

    It sorts along a direction in which no two numbers coincide.
    """
    return jnp.argsort(w.real + 0.37 * w.imag)


def _eigenvalues(suite, kind):
    def values(x):
        w = jnp.linalg.eigvals(x)
        return jnp.take_along_axis(w, _stable_order(w), -1)

    def residual(x):
        w, v = jnp.linalg.eig(x)
        return [jnp.abs(x @ v - v * w[..., None, :]).max(), jnp.linalg.norm(v, axis=-2)]

    def projectors(x):
        w, v = jax.lax.linalg.eig(x, compute_left_eigenvectors=False, enable_eigvec_derivs=True)
        return _projector(jnp.take_along_axis(v, _stable_order(w)[..., None, :], -1))

    square, many = _matrix("eig", kind, (4, 4)), inside("many_eig", (-1, 1), kind, (2, 3, 3))
    turning = inside("turning", (-1, 1), kind, (5, 5))
    turning = turning - turning.T + 0.1 * turning
    companion = np.diag(np.ones(5), -1).astype(square.dtype)
    companion[0] = inside("companion", (-2, 2), kind, (6,))
    large = inside("large", (-1, 1), kind, (24, 24))
    suite.case(f"eigvals_square_{kind}", "eigvals", [square], values, wrt=[0])
    suite.case(f"eig_residual_many_{kind}", "eig_residual", [many], jax.jit(residual))
    if kind in ("f32", "c64"):
        return
    suite.case(f"eigvals_many_{kind}", "eigvals", [many], values, wrt=[0])
    suite.case(f"eigvals_large_{kind}", "eigvals", [large], jax.jit(values))
    for label, x in (
        ("turning", turning),
        ("companion", companion),
        ("triangular", np.triu(square)),
    ):
        if kind == "f64":
            suite.case(f"eigvals_{label}_{kind}", "eigvals", [x], values, wrt=[0])
    for label, x in (
        ("companion", companion),
        ("large", large),
        ("zeros", np.zeros((3, 3), square.dtype)),
    ):
        suite.case(f"eig_residual_{label}_{kind}", "eig_residual", [x], jax.jit(residual))
    suite.case(f"eig_projectors_{kind}", "eig_projectors", [square], projectors, wrt=[0])


def _roots(suite):
    def roots(p):
        w = jnp.roots(p, strip_zeros=False)
        return w[_stable_order(w)]

    polynomials = [
        ("cubic", [1, -6, 11, -6]),
        ("complex", [2, 0, 1, 3, 5]),
        ("leading", [0, 0, 1, 2, 3]),
        ("trailing", [1, 2, 3, 0, 0]),
        ("both", [0, 3, 1, 0]),
        ("line", [2, 3]),
        ("zeros", [0, 0, 0]),
        ("constant", [0, 0, 4]),
    ]
    for label, p in polynomials:
        for kind in ("f64", "c64") if label in ("complex", "both") else ("f64",):
            wrt = [0] if label in ("cubic", "complex", "line") else None
            suite.case(
                f"roots_{label}_{kind}",
                "roots",
                [np.array(p).astype(dtype(kind))],
                roots if wrt else jax.jit(roots),
                wrt=wrt,
            )


def _functions(suite, kind):
    square, many = _matrix("square", kind, (3, 3)), _matrix("many", kind, (2, 3, 3))
    right, vector = inside("right", (-1, 1), kind, (2, 3, 2)), inside("vector", (-1, 1), kind, (3,))

    def case(op, label, inputs, compute, wrt=None, **params):
        wrt = list(range(len(inputs))) if wrt is None else wrt
        suite.case(f"{op}_{label}_{kind}", op, inputs, compute, params, wrt=wrt)

    case("solve", "batch", [many, right], jnp.linalg.solve)
    case("solve", "broadcast", [square, right], jnp.linalg.solve)
    case("solve", "vector", [square, vector], jnp.linalg.solve)
    for lower in (True, False):
        run = lambda a, b, lower=lower: scipy_linalg.solve_triangular(a, b, lower=lower)
        case("solve_triangular", f"lower_{lower}", [square, right[0]], run, lower=lower)
    case("inv", "batch", [many], jnp.linalg.inv)
    case("det", "batch", [many], jnp.linalg.det)
    case("slogdet", "batch", [many], lambda x: list(jnp.linalg.slogdet(x)))
    for n in (-2, 0, 1, 5):
        case(
            "matrix_power",
            f"{n}".replace("-", "minus_"),
            [square],
            lambda x, n=n: jnp.linalg.matrix_power(x, n),
            n=n,
        )
    case("expm", "square", [square / 2], scipy_linalg.expm)
    if kind in ("f64", "c128"):
        # The scaled matrix is squared several times, and each squaring doubles the rounding error.
        suite.case(
            f"expm_large_{kind}",
            "expm",
            [square * 4],
            jax.jit(scipy_linalg.expm),
            tolerance={"rtol": 1e-8, "atol": 1e-3},
        )
    case("cond", "square", [square], jnp.linalg.cond)
    case(
        "multi_dot",
        "chain",
        [many[0], right[0], right[1].T.copy(), vector],
        lambda *xs: jnp.linalg.multi_dot(xs),
    )
    suite.case(
        f"matrix_rank_{kind}",
        "matrix_rank",
        [np.stack([square, square * 0, np.outer(vector, vector)])],
        jax.jit(lambda x: jnp.linalg.matrix_rank(x).astype(jnp.int32)),
    )
    tall = _matrix("tall", kind, (2, 4, 3))[0]
    for label, b in (
        ("vector", inside("lv", (-1, 1), kind, (4,))),
        ("matrix", inside("lm", (-1, 1), kind, (4, 2))),
    ):
        case("lstsq", label, [tall, b], lambda a, b: jnp.linalg.lstsq(a, b)[0])
    tensor = _matrix("tensor", kind, (6, 6)).reshape(2, 3, 6)
    case(
        "tensorsolve", "six", [tensor, inside("ts", (-1, 1), kind, (2, 3))], jnp.linalg.tensorsolve
    )
    case("tensorinv", "six", [tensor], lambda x: jnp.linalg.tensorinv(x, ind=2))


def _transforms(suite, kind):
    x = inside("signal", (-1, 1), kind, (3, 6))
    real = kind.startswith("f")
    names = ("rfft", "ihfft", "fft", "ifft") if real else ("fft", "ifft", "irfft", "hfft")
    for op in names:
        for n, axis, norm in (
            (None, -1, "backward"),
            (4, 1, "ortho"),
            (9, -1, "forward"),
            (5, 0, "backward"),
        ):
            run = lambda x, op=op, n=n, axis=axis, norm=norm: getattr(jnp.fft, op)(
                x, n=n, axis=axis, norm=norm
            )
            suite.case(
                f"{op}_{n}_{axis}_{norm}_{kind}",
                op,
                [x],
                run,
                {"n": n, "axis": axis, "norm": norm},
                wrt=[0],
            )
    x = inside("cube", (-1, 1), kind, (2, 4, 3))
    for op in ("rfftn", "fftn") if real else ("fftn", "ifftn", "irfftn"):
        for s, axes in ((None, [-2, -1]), ([3, 5], [0, 2]), (None, None)):
            run = lambda x, op=op, s=s, axes=axes: getattr(jnp.fft, op)(x, s=s, axes=axes)
            label = "_".join(map(str, axes or ["all"])) + ("_sized" if s else "")
            suite.case(f"{op}_{label}_{kind}", op, [x], run, {"s": s, "axes": axes}, wrt=[0])


def _frequencies(suite):
    for n in (1, 4, 5):
        for op in ("fftfreq", "rfftfreq"):
            suite.case(
                f"{op}_{n}",
                op,
                [],
                lambda n=n, op=op: getattr(jnp.fft, op)(n, 0.25, dtype=jnp.float32),
                {"n": n, "d": 0.25},
            )
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    for op in ("fftshift", "ifftshift"):
        for axes in (None, [1], [0]):
            suite.case(
                f"{op}_{'all' if axes is None else axes[0]}",
                op,
                [x],
                lambda x, op=op, axes=axes: getattr(jnp.fft, op)(x, axes=axes),
                {"axes": axes},
                wrt=[0],
            )
