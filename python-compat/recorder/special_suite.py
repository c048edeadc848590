"""Special functions of `jax.lax`: values, values at edges, derivatives, and all under `vmap`."""

import jax
import numpy as np
from jax import lax

from .mapped import plain_and_mapped
from .names import dtype
from .ops_elementwise import WIDE, edges, inside
from .suite import Suite

# Series are evaluated in another order. JAX computes f32 in f32, where logarithms of large gammas
# cancel.
TOLERANCE = {
    "f32": {"rtol": 3e-5, "atol": 1e-6},
    "f64": {"rtol": 2e-11, "atol": 1e-13},
    "bf16": {"rtol": 2e-2, "atol": 2e-2},
}

# op, function, domains of the operands, operands with a derivative in JAX
FUNCTIONS = [
    ("lgamma", lax.lgamma, [(0.1, 6)], [0]),
    ("digamma", lax.digamma, [(0.1, 6)], [0]),
    ("bessel_i0e", lax.bessel_i0e, [(-12, 12)], [0]),
    ("bessel_i1e", lax.bessel_i1e, [(-12, 12)], [0]),
    ("zeta", lax.zeta, [(1.5, 6), (0.3, 4)], None),
    ("igamma", lax.igamma, [(0.3, 6), (0.1, 9)], [0, 1]),
    ("igammac", lax.igammac, [(0.3, 6), (0.1, 9)], [0, 1]),
    ("igamma_grad_a", lax.igamma_grad_a, [(0.3, 6), (0.1, 9)], None),
    ("random_gamma_grad", lax.random_gamma_grad, [(0.3, 6), (0.1, 9)], None),
    ("betainc", lax.betainc, [(0.3, 6), (0.3, 6), (0.02, 0.98)], [2]),
]


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("special", __doc__.strip(), stride=stride, tolerance=TOLERANCE)
    for op, function, domains, wrt in FUNCTIONS:
        for kind in WIDE:
            operands = [
                inside(f"{op}{i}", domain, kind, (3, 5)) for i, domain in enumerate(domains)
            ]
            plain_and_mapped(suite, f"{op}_{kind}", op, operands, function, {}, wrt=wrt)
        operands = [inside(f"{op}{i}", domain, "bf16", (4,)) for i, domain in enumerate(domains)]
        suite.case(f"{op}_bf16", op, operands, jax.jit(function))
        suite.case(
            f"{op}_empty", op, [np.zeros((0, 2), np.float32)] * len(domains), jax.jit(function)
        )
    for kind in WIDE:
        m = np.array([[0, 1, 2, 3, 5]] * 2, dtype(kind))
        x = inside("polygamma", (0.3, 6), kind, (2, 5))
        plain_and_mapped(
            suite, f"polygamma_{kind}", "polygamma", [m, x], lax.polygamma, {}, wrt=[1]
        )
        for op in ("lgamma", "digamma", "bessel_i0e", "bessel_i1e"):
            suite.case(
                f"{op}_edges_{kind}",
                op,
                [edges(kind)],
                jax.jit(dict((name, f) for name, f, *_ in FUNCTIONS)[op]),
            )
        inf, nan = np.inf, np.nan
        a = np.array([1, 0, 0.5, 2, -1, nan, 3, 2, 30, 30, 1e3, 1e3], dtype(kind))
        x = np.array([0, 2, inf, inf, 1, 1, -1, 1e5, 29, 31, 9.9e2, 1.1e3], dtype(kind))
        for op in ("igamma", "igammac"):
            suite.case(
                f"{op}_edges_{kind}",
                op,
                [a, x],
                jax.jit(getattr(lax, op)),
                tolerance={
                    "rtol": 2e-4 if kind == "f32" else 1e-10,
                    "atol": 1e-6 if kind == "f32" else 1e-12,
                },
            )
        a = np.array([0, 0, inf, 2, 1, 1, -1, nan, 1, 50, 0.01], dtype(kind))
        b = np.array([0, 2, 2, 0, 1, 2, 1, 1, 1, 60, 0.02], dtype(kind))
        x = np.array([0.5, 0.5, 0.5, 0.5, 0, 1, 0.5, 0.5, 1.5, 0.45, 0.3], dtype(kind))
        suite.case(f"betainc_edges_{kind}", "betainc", [a, b, x], jax.jit(lax.betainc))
    return suite
