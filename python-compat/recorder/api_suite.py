"""Composite functions of the array API: values, derivatives, and both under `vmap`.

They are functions of `jax.numpy`, `jax.nn`, `jax.scipy.special` and `jax.scipy.stats` that oxidax
composes from primitives.
"""

from . import (
    api_choosing,
    api_elementwise,
    api_integrals,
    api_reductions,
    api_shapes,
    api_special,
    api_statistics,
)
from .api_table import record
from .suite import Suite


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all families."""
    # The functions chain several transcendental functions, and terms of their derivatives partly
    # cancel.
    tolerance = {"f32": {"rtol": 1e-5, "atol": 1e-6}, "f64": {"rtol": 1e-12, "atol": 1e-13}}
    suite = Suite("api", __doc__.strip(), stride=stride, tolerance=tolerance)
    for family in (
        api_elementwise,
        api_shapes,
        api_choosing,
        api_reductions,
        api_statistics,
        api_special,
        api_integrals,
    ):
        record(suite, family.__name__.rsplit("_", 1)[1], family.ROWS)
    return suite
