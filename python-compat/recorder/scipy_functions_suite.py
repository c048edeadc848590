"""Functions of matrices and linear systems of jax.scipy.linalg."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as sl
import numpy as np
import scipy.linalg

from .ops_elementwise import inside
from .scipy_linalg_suite import KINDS, TOLERANCE, adder, definite, matrix
from .suite import Suite

def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("scipy_functions", __doc__.strip(), stride=stride, tolerance=TOLERANCE)
    for kind in KINDS:
        _functions(suite, kind)
        _systems(suite, kind)
        _tridiagonal(suite, kind)
    return suite


def _functions(suite, kind):
    case = adder(suite, kind)
    square, many = matrix("fun_square", kind, (3, 3)), matrix("fun_many", kind, (2, 3, 3))
    tall, wide = matrix("fun_tall", kind, (2, 4, 3)), matrix("fun_wide", kind, (3, 4))
    turning = inside("fun_turning", (-1, 1), kind, (4, 4))
    case("expm", "square", [many / 2], sl.expm)
    triangular = np.triu(square).astype(square.dtype)
    run = lambda x: sl.expm(x, upper_triangular=True)
    case("expm", "triangular", [triangular / 2], run, wrt=[], upper_triangular=True)
    run = lambda x: sl.expm(x, max_squarings=1)
    case("expm", "too_large", [square * 50], run, wrt=[], max_squarings=1)
    direction = inside("fun_direction", (-1, 1), kind, (3, 3))
    run = lambda a, e: list(sl.expm_frechet(a, e))
    case("expm_frechet", "square", [square / 2, direction], run, wrt=[])
    root = jnp.vectorize(sl.sqrtm, signature="(n,n)->(n,n)")
    case("sqrtm", "batch", [many], root, wrt=[])
    case("sqrtm", "turning", [turning], sl.sqrtm, wrt=[])
    case("funm", "sin", [square], lambda x: sl.funm(x, jnp.sin), wrt=[])
    case("funm", "turning", [turning], lambda x: sl.funm(x, jnp.sin), wrt=[])
    for method in ("qdwh", "svd"):
        wrt = [0] if method == "svd" else []
        for side, x in (("right", tall), ("left", wide)):
            run = lambda x, side=side, m=method: list(sl.polar(x, side=side, method=m))
            case("polar", f"{method}_{side}", [x], run, wrt=wrt, method=method, side=side)
    run = lambda x: list(jax.lax.linalg.qdwh(x)[:2])
    case("qdwh", "square", [square], run, wrt=[])


def _systems(suite, kind):
    case = adder(suite, kind)
    a, b = definite("sys_definite", kind, (2, 3, 3)), inside("sys_b", (-1, 1), kind, (2, 3, 2))
    vector = inside("sys_v", (-1, 1), kind, (3,))
    for assume in ("gen", "sym", "her", "pos"):
        # In reverse mode JAX takes a complex Hermitian matrix for a symmetric one.
        wrt = [] if kind == "c128" and assume == "pos" else [0, 1]
        run = lambda x, y, s=assume: sl.solve(x, y, assume_a=s)
        case("solve", assume, [a, b], run, wrt, assume_a=assume, lower=False)
    run = lambda x, y: sl.solve(x, y, assume_a="pos", lower=True)
    wrt = [] if kind == "c128" else [0, 1]
    case("solve", "pos_lower", [a[0], vector], run, wrt, assume_a="pos", lower=True)
    left, right = matrix("syl_a", kind, (2, 3, 3)), matrix("syl_b", kind, (2, 2, 2))
    c = inside("syl_c", (-1, 1), kind, (2, 3, 2))
    run = lambda a, b, c: sl.solve_sylvester(a, b, c)
    case("solve_sylvester", "schur", [left, right, c], run, wrt=[], method="schur")
    if kind in ("f64", "c128"):
        # The derivative is recorded from the linear system of all elements.
        def kronecker(a, b, c):
            m, n = c.shape
            k = jnp.kron(a, jnp.eye(n)) + jnp.kron(jnp.eye(m), b.T)
            return jnp.linalg.solve(k, c.reshape(-1)).reshape(m, n)

        inputs = [left[0], right[0], c[0]]
        for method in ("schur", "eigen"):
            case("solve_sylvester", f"{method}_derivative", inputs, kronecker, method=method)

        # The square root by eigenvectors, which has derivatives.
        def root(x):
            w, v = jax.lax.linalg.eig(
                x, compute_left_eigenvectors=False, enable_eigvec_derivs=True
            )
            return (v * jnp.sqrt(w)[None]) @ jnp.linalg.inv(v)

        case("sqrtm", "derivative", [matrix("sys_root", kind, (3, 3))], root)


def _tridiagonal(suite, kind):
    case = adder(suite, kind)
    n = 6
    dl, du = inside("tri_dl", (-1, 1), kind, (2, n)), inside("tri_du", (-1, 1), kind, (2, n))
    d, b = inside("tri_d", (-1, 1), kind, (2, n)), inside("tri_b", (-1, 1), kind, (2, n, 2))
    dl[:, 0], du[:, -1] = 0, 0
    run = lambda dl, d, du, b: jax.lax.linalg.tridiagonal_solve(dl, d, du, b)
    case("tridiagonal_solve", "batch", [dl, d, du, b], run, wrt=[])

    def dense(dl, d, du, b):
        full = jnp.diag(d) + jnp.diag(dl[1:], -1) + jnp.diag(du[:-1], 1)
        return jnp.linalg.solve(full, b)

    case("tridiagonal_solve", "derivative", [dl[0], d[0], du[0], b[0]], dense)
    ab = inside("tri_ab", (-1, 1), kind, (4, n))
    ab[2] += 4
    for label, low, up, bands in (("tridiagonal", 1, 1, ab[1:]), ("four", 1, 2, ab)):
        run = lambda ab, b, low=low, up=up: scipy.linalg.solve_banded((low, up), ab, b)
        name = f"solve_banded_{label}_{kind}"
        suite.case(name, "solve_banded", [bands.copy(), b[0]], run, {"lower": low, "upper": up})
    if kind == "c128":
        return
    off = inside("tri_e", (0.3, 1), kind, (n - 1,))
    run = lambda d, e: sl.eigh_tridiagonal(d, e, eigvals_only=True)
    case("eigvalsh_tridiagonal", "all", [d[0], off], run, wrt=[])
    run = lambda d, e: sl.eigh_tridiagonal(
        d, e, eigvals_only=True, select="i", select_range=(1, 3)
    )
    case("eigvalsh_tridiagonal", "some", [d[0], off], run, wrt=[], start=1, end=4)

    def by_dense(d, e):
        return jnp.linalg.eigvalsh(jnp.diag(d) + jnp.diag(e, 1) + jnp.diag(e, -1))

    case("eigvalsh_tridiagonal", "derivative", [d[0], off], by_dense)

    def projectors(d, e):
        v = jnp.linalg.eigh(jnp.diag(d) + jnp.diag(e, 1) + jnp.diag(e, -1))[1]
        return jnp.einsum("ik,jk->kij", v, v)

    case("eigh_tridiagonal", "projectors", [d[0], off], projectors, wrt=[])
