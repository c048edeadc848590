"""Options of array functions: values, derivatives, and both under `vmap`.

Precision and sums of products, modes of indices, dtypes of reductions, counts, norms, resampling
of images, and masks of the softmax family.
"""

from . import options_arrays, options_calls
from .api_table import R, Row, V, record
from .suite import Suite

# Decompositions that JAX does not have for `bf16`, and a product whose formula stands for `f32`.
WIDE_ONLY = (
    "norm_nuc", "norm_2", "norm_-2", "cond_", "eigvalsh", "cholesky", "svd", "pinv", "rank",
    "tensorsolve", "polyfit", "scaled_matmul",
)  # fmt: skip
# Results of several roundings.
ROUNDED = {"rtol": 3e-2, "atol": 3e-2}


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all families."""
    tolerance = {
        "bf16": {"rtol": 1e-2, "atol": 1e-2},
        "f32": {"rtol": 1e-5, "atol": 1e-6},
        "f64": {"rtol": 1e-12, "atol": 1e-13},
    }
    suite = Suite("options", __doc__.strip(), stride=stride, tolerance=tolerance)
    for family in (options_arrays, options_calls):
        name = family.__name__.rsplit("_", 1)[1]
        record(suite, name, family.ROWS)
        record(suite, name, [narrow(row) for row in family.ROWS if has_narrow(row)])
    return suite


def has_narrow(row):
    """Returns true for a function of floats whose cases do not have the dtype `bf16` yet."""
    floats = [x for x in row.operands if isinstance(x, R) or (isinstance(x, V) and _is_float(x))]
    return bool(floats) and "bf16" not in row.kinds and not row.op.startswith(WIDE_ONLY)


def _is_float(operand):
    return operand.draw("", "f64").dtype.kind == "f"


def narrow(row):
    """Returns the row of values in `bf16`."""
    tolerance = None if row.exact else ROUNDED
    return Row(row.op, row.operands, row.compute, None, ("bf16",), False, row.exact, tolerance)
