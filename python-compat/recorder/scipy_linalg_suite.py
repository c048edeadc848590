"""Factors of matrices of jax.scipy.linalg and jax.lax.linalg: values, derivatives and batches.

Factors that are determined up to signs or an order are recorded in an invariant form.
"""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as sl
import numpy as np
import scipy.linalg

from .ops_elementwise import inside
from .suite import Suite

KINDS = ("f32", "f64", "c128")
# Results accumulate many roundings, and LAPACK rounds in another order.
TOLERANCE = {
    "f32": {"rtol": 5e-4, "atol": 5e-5},
    "f64": {"rtol": 1e-9, "atol": 1e-10},
    "c64": {"rtol": 5e-4, "atol": 1e-4},
    "c128": {"rtol": 1e-9, "atol": 1e-10},
}


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("scipy_linalg", __doc__.strip(), stride=stride, tolerance=TOLERANCE)
    for kind in KINDS:
        _factors(suite, kind)
        _householder(suite, kind)
        _schur(suite, kind)
    return suite


def matrix(name, kind, shape):
    """Returns a random matrix that is far from singular, with distinct singular values."""
    x = inside(name, (-1, 1), kind, shape)
    n = min(shape[-2:])
    x[..., range(n), range(n)] += np.arange(2, n + 2).astype(x.dtype)
    return x


def definite(name, kind, shape):
    """Returns a Hermitian positive definite matrix."""
    x = matrix(name, kind, shape)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) / 4).astype(x.dtype)


def adder(suite, kind):
    """Returns a function that adds cases of a dtype. `wrt=[]` records no derivatives."""

    def case(op, label, inputs, compute, wrt=None, tolerance=None, **params):
        wrt = list(range(len(inputs))) if wrt is None else wrt or None
        if wrt is None:
            compute = jax.jit(compute)
        name = f"{op}_{label}_{kind}"
        suite.case(name, op, inputs, compute, params, wrt=wrt, tolerance=tolerance)

    return case


def _factors(suite, kind):
    case = adder(suite, kind)
    a, b = definite("scipy_definite", kind, (2, 3, 3)), inside("scipy_b", (-1, 1), kind, (2, 3, 2))
    square, wide = matrix("scipy_square", kind, (3, 3)), matrix("scipy_wide", kind, (3, 4))
    tall, vector = matrix("scipy_tall", kind, (4, 3)), inside("scipy_v", (-1, 1), kind, (3,))
    mixed = matrix("scipy_mixed", kind, (2, 3, 3))[:, ::-1].copy()
    for lower in (False, True):
        label = "lower" if lower else "upper"
        case("cholesky", label, [a], lambda x, low=lower: sl.cholesky(x, lower=low), lower=lower)
        run = lambda x, y, low=lower: sl.cho_solve(sl.cho_factor(x, lower=low), y)
        case("cho_solve", label, [a, b], run, lower=lower)
        case("cho_solve", f"{label}_vector", [a[0], vector], run, lower=lower)
    for label, x in (("square", square[::-1].copy()), ("wide", wide), ("tall", tall)):
        case("lu", label, [x], lambda x: list(sl.lu(x)), wrt=[])
        case("lu_permuted", label, [x], lambda x: list(sl.lu(x, permute_l=True)))
    case("lu_factor", "square", [mixed], lambda x: list(sl.lu_factor(x)), wrt=[])
    for trans in (0, 1, 2):
        run = lambda x, y, t=trans: sl.lu_solve(sl.lu_factor(x), y, trans=t)
        case("lu_solve", f"{trans}", [mixed, b], run, trans=trans)
    run = lambda x, y: sl.lu_solve(sl.lu_factor(x), y)
    case("lu_solve", "vector", [square, vector], run, trans=0)
    for mode in ("full", "economic"):
        for label, x in (("square", square), ("tall", tall), ("wide", wide)):
            # The signs of LAPACK's diagonal do not matter for the product and the Gram matrix.
            def parts(x, mode=mode):
                q, r = sl.qr(x, mode=mode)
                return [q @ r, jnp.conj(r.T) @ r, q @ jnp.conj(q.T)]

            case("qr_parts", f"{label}_{mode}", [x], parts, wrt=[], mode=mode)

            def pivoted(x, mode=mode):
                q, r, p = sl.qr(x, mode=mode, pivoting=True)
                return [jnp.abs(r), q @ r, p.astype(jnp.int32)]

            case("qr_pivoted", f"{label}_{mode}", [x], pivoted, wrt=[], mode=mode)
    case("svd_full", "tall", [tall], lambda x: sl.svd(x)[1], wrt=[])
    case("eigh_lower", "values", [square], lambda x: sl.eigh(x, eigvals_only=True), lower=True)
    run = lambda x: sl.eigh(x, lower=False, eigvals_only=True)
    case("eigh_lower", "upper", [square], run, lower=False)
    if kind in ("f64", "c128"):
        for type_ in (1, 2, 3):
            case_host = lambda x, y, t=type_: scipy.linalg.eigh(x, y, type=t, eigvals_only=True)
            suite.case(
                f"eigh_generalized_{type_}_{kind}", "eigh_generalized", [a[0], a[1]], case_host,
                {"type": type_},
            )  # fmt: skip
    if kind.startswith("f"):
        upper = np.triu(matrix("scipy_upper", kind, (2, 3, 3)))
        w = inside("scipy_w", (-1, 1), kind, (2, 3))
        update = jax.lax.linalg.cholesky_update
        run = lambda r, w: jnp.stack([update(r[0], w[0]), update(r[1], w[1])])
        case("cholesky_update", "batch", [upper, w], run, wrt=[])
        c = a[0] + a[0].T
        run = lambda x, c: jax.lax.linalg.symmetric_product(
            x, c, alpha=0.5, beta=2.0, symmetrize_output=True
        )
        case("symmetric_product", "square", [square, c], run, wrt=[])
    pivots = np.array([[2, 2, 2], [0, 1, 3]], np.int32)
    run = lambda p: jax.lax.linalg.lu_pivots_to_permutation(p, 4)
    if kind == "f32":
        case("lu_pivots_to_permutation", "batch", [pivots], run, wrt=[])


def _householder(suite, kind):
    case = adder(suite, kind)
    many, tall = matrix("house", kind, (2, 4, 4)), matrix("house_tall", kind, (2, 4, 3))
    wide, square = matrix("house_wide", kind, (3, 4)), matrix("house_square", kind, (3, 3))
    for label, x in (("tall", tall), ("wide", wide), ("square", square)):
        case("geqrf", label, [x], lambda x: list(jax._src.lax.linalg.geqrf(x)), wrt=[])
    taus = np.asarray(jax._src.lax.linalg.geqrf(tall)[1])
    packed = np.asarray(jax._src.lax.linalg.geqrf(tall)[0])
    run = lambda a, t: jax.lax.linalg.householder_product(a, t)
    case("householder_product", "tall", [packed, taus], run, wrt=[])
    c = inside("house_c", (-1, 1), kind, (2, 4, 2))
    for left in (True, False):
        for transpose in (True, False):
            other = c if left else np.swapaxes(c, -1, -2).copy()
            run = lambda a, t, c, left=left, tr=transpose: jax.lax.linalg.ormqr(
                a, t, c, left=left, transpose=tr
            )
            label = f"{'left' if left else 'right'}_{'adjoint' if transpose else 'plain'}"
            case(
                "ormqr", label, [packed, taus, other], run, wrt=[], left=left, transpose=transpose
            )
    for mode in ("left", "right"):
        for conjugate in (False, True):
            other = c[..., :3, :] if mode == "left" else np.swapaxes(c, -1, -2)
            run = lambda a, c, m=mode, j=conjugate: list(
                sl.qr_multiply(a, c, mode=m, conjugate=j)
            )
            label = f"{mode}_{'conjugate' if conjugate else 'plain'}"
            inputs = [tall, other.copy()]
            case("qr_multiply", label, inputs, run, wrt=[], mode=mode, conjugate=conjugate)
    run = lambda x: list(jax.lax.linalg.hessenberg(x))
    case("hessenberg_reflectors", "batch", [many], run, wrt=[])
    case("hessenberg", "batch", [many], lambda x: list(sl.hessenberg(x, calc_q=True)), wrt=[])
    hermitian = definite("house_definite", kind, (2, 4, 4))
    for lower in (True, False):
        run = lambda x, low=lower: list(jax.lax.linalg.tridiagonal(x, lower=low))[1:]
        label = "lower" if lower else "upper"
        case("tridiagonal", label, [hermitian], run, wrt=[], lower=lower)


def _eigenvalues(x):
    """Returns the eigenvalues in an order that rounding does not change."""
    w = jnp.linalg.eigvals(x)
    return jnp.take_along_axis(w, jnp.argsort(w.real + 0.37 * w.imag, -1), -1)


def _schur(suite, kind):
    case = adder(suite, kind)
    turning = inside("schur_turning", (-1, 1), kind, (6, 6))
    turning = turning - turning.T + 0.1 * turning
    companion = np.diag(np.ones(4), -1).astype(turning.dtype)
    companion[0] = inside("schur_companion", (-2, 2), kind, (5,))
    matrices = {
        "many": inside("schur_many", (-1, 1), kind, (2, 4, 4)),
        "turning": turning,
        "companion": companion,
        "two": inside("schur_two", (-1, 1), kind, (2, 2)),
        "triangular": np.triu(inside("schur_triangular", (-1, 1), kind, (3, 3))),
        "one": inside("schur_one", (-1, 1), kind, (1, 1)),
    }
    if kind == "f64":
        matrices["large"] = inside("schur_large", (-1, 1), kind, (20, 20))
    for label, x in matrices.items():
        for output in ("real", "complex"):
            case("schur", f"{label}_{output}", [x], _eigenvalues, wrt=[], output=output)
    if kind.startswith("f"):
        t, z = scipy.linalg.schur(turning)
        run = lambda t, z: list(sl.rsf2csf(t, z))
        case("rsf2csf", "turning", [t, z], run, wrt=[])
