"""Cumulative operations, windows, convolutions and selections of `jax.lax`.

Records values and derivatives, and both under `vmap`.
"""

from . import lax_convolution, lax_products, lax_running, lax_window
from .suite import Suite

# Sums of many products are added in another order.
TOLERANCE = {"f32": {"rtol": 1e-5, "atol": 2e-6}, "f64": {"rtol": 1e-12, "atol": 1e-14}}


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all families."""
    suite = Suite("lax", __doc__.strip(), stride=stride, tolerance=TOLERANCE)
    for family in (lax_running, lax_window, lax_convolution, lax_products):
        family.add(suite)
    return suite
