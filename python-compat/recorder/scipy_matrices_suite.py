"""Structured and named matrices of jax.scipy.linalg."""

import jax.scipy.linalg as sl
import numpy as np
import scipy.linalg

from .ops_elementwise import inside
from .scipy_linalg_suite import KINDS, TOLERANCE, adder
from .suite import Suite

def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("scipy_matrices", __doc__.strip(), stride=stride, tolerance=TOLERANCE)
    for kind in KINDS:
        _structured(suite, kind)
    for kind in ("bf16", "f16"):
        _halves(suite, kind)
    _named(suite)
    return suite


def _structured(suite, kind):
    case = adder(suite, kind)
    c, r = inside("str_c", (0.5, 1), kind, (2, 4)), inside("str_r", (-1, 1), kind, (2, 3))
    case("toeplitz", "one", [c], sl.toeplitz)
    case("toeplitz", "two", [c, r], sl.toeplitz)
    case("hankel", "one", [c], sl.hankel)
    case("hankel", "two", [c, r], sl.hankel)
    case("circulant", "batch", [c], sl.circulant)
    case("leslie", "batch", [c, r], sl.leslie)
    case("companion", "batch", [c], sl.companion)
    if kind.startswith("f"):
        case("fiedler", "batch", [c], sl.fiedler)
    for n in (1, 2, 3, 5, 6):
        x = inside(f"str_fiedler_{n}", (0.5, 1), kind, (n,))
        case("fiedler_companion", f"{n}", [x], sl.fiedler_companion)
    for mode in ("full", "same", "valid"):
        for n in (3, 6):
            run = lambda c, n=n, m=mode: sl.convolution_matrix(c, n, mode=m)
            case("convolution_matrix", f"{mode}_{n}", [c], run, n=n, mode=mode)
    blocks = [inside("str_block", (-1, 1), kind, (2, 3)), c[0], inside("str_x", (-1, 1), kind, ())]
    case("block_diag", "three", blocks, lambda *xs: sl.block_diag(*xs))


def _halves(suite, kind):
    def case(op, inputs, compute, **params):
        suite.case(f"{op}_{kind}", op, inputs, compute, params)

    c, r = inside("str_c", (0.5, 1), kind, (2, 4)), inside("str_r", (-1, 1), kind, (2, 3))
    case("toeplitz", [c, r], sl.toeplitz)
    case("hankel", [c, r], sl.hankel)
    case("circulant", [c], sl.circulant)
    case("leslie", [c, r], sl.leslie)
    case("companion", [c], sl.companion)
    case("fiedler", [c], sl.fiedler)
    run = lambda c: sl.convolution_matrix(c, 3, mode="full")
    case("convolution_matrix", [c], run, n=3, mode="full")
    case("block_diag", [c, c[0], r], lambda *xs: sl.block_diag(*xs))


def _named(suite):
    def case(op, n, compute, label="", **params):
        suite.case(f"{op}_{n}{label}", op, [], compute, {"n": n} | params)

    for n in (1, 4, 7):
        case("hilbert", n, lambda n=n: scipy.linalg.hilbert(n))
        case("invhilbert", n, lambda n=n: scipy.linalg.invhilbert(n))
        for kind in ("symmetric", "lower", "upper"):
            run = lambda n=n, k=kind: scipy.linalg.pascal(n, kind=k).astype(float)
            case("pascal", n, run, f"_{kind}", kind=kind)
            run = lambda n=n, k=kind: scipy.linalg.invpascal(n, kind=k).astype(float)
            case("invpascal", n, run, f"_{kind}", kind=kind)
        for full in (True, False):
            run = lambda n=n, full=full: sl.helmert(n, full=full)
            case("helmert", n, run, f"_{full}", full=full)
        for scale in (None, "sqrtn", "n"):
            run = lambda n=n, s=scale: scipy.linalg.dft(n, scale=s).astype(np.complex64)
            case("dft", n, run, f"_{scale}", scale=scale)
    for n in (1, 2, 8):
        case("hadamard", n, lambda n=n: sl.hadamard(n))
