"""Transforms with options: Taylor mode, user-defined rules, Jacobians of trees and of holomorphic
functions, linear maps, recomputation, loops, host functions and trees.

Each operation is one function of all operands. Cases with derivatives differentiate it again, so
the derivatives of `grad_…` are second derivatives. A case with `residuals` lists the values that
reverse mode stores.
"""

from . import autodiff_derivatives, autodiff_programs, autodiff_rules
from .api_table import record
from .suite import Suite


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all families."""
    tolerance = {
        "bf16": {"rtol": 2e-2, "atol": 2e-2},
        "f16": {"rtol": 4e-3, "atol": 4e-3},
        "f32": {"rtol": 1e-5, "atol": 1e-5},
        "f64": {"rtol": 1e-12, "atol": 1e-12},
        "c64": {"rtol": 1e-5, "atol": 1e-5},
        "c128": {"rtol": 1e-12, "atol": 1e-12},
    }
    suite = Suite("autodiff", __doc__.strip(), stride=stride, tolerance=tolerance)
    for family in (autodiff_derivatives, autodiff_rules, autodiff_programs):
        record(suite, family.__name__.rsplit("_", 1)[1], family.ROWS)
    autodiff_programs.add_residuals(suite)
    return suite
