"""Options of array functions: values, derivatives, and both under `vmap`.

Precision and sums of products, modes of indices, dtypes of reductions, counts, norms, resampling
of images, and masks of the softmax family.
"""

from . import options_arrays, options_calls
from .api_table import record
from .suite import Suite


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all families."""
    tolerance = {
        "bf16": {"rtol": 1e-2, "atol": 1e-2},
        "f32": {"rtol": 1e-5, "atol": 1e-6},
        "f64": {"rtol": 1e-12, "atol": 1e-13},
    }
    suite = Suite("options", __doc__.strip(), stride=stride, tolerance=tolerance)
    for family in (options_arrays, options_calls):
        record(suite, family.__name__.rsplit("_", 1)[1], family.ROWS)
    return suite
