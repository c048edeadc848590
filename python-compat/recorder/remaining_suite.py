"""Functions of `jax.numpy`, `jax.lax`, `jax.nn` and `jax.scipy.special` that no other suite calls.

Their operands, derivatives and batches are those of the suite `api`.
"""

import jax.numpy as jnp
import numpy as np

from . import remaining_arrays as arrays
from . import remaining_lax as lax
from .api_table import record
from .suite import EXACT, Suite


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all families."""
    tolerance = {
        "bf16": {"rtol": 1.6e-2, "atol": 1e-2},
        "f32": {"rtol": 1e-5, "atol": 2e-6},
        "f64": {"rtol": 1e-11, "atol": 1e-12},
        "c64": {"rtol": 1e-5, "atol": 4e-6},
        "c128": {"rtol": 1e-12, "atol": 1e-12},
    }
    suite = Suite("remaining", __doc__.strip(), stride=stride, tolerance=tolerance)
    for family, rows in (
        ("elementwise", arrays.ELEMENTWISE),
        ("reductions", arrays.REDUCTIONS),
        ("shapes", arrays.SHAPES + lax.SHAPES),
        ("linalg", arrays.LINALG),
        ("indexing", lax.INDEXING),
        ("products", lax.PRODUCTS),
        ("activations", lax.ACTIVATIONS),
    ):
        record(suite, family, rows)
    for name, values, options in arrays.TRIMMED:
        run = lambda x, options=options: jnp.trim_zeros(x, **options)
        operand = np.array(values, np.float32)
        suite.case(name, name, [operand], run, {"family": "trimmed"}, EXACT)
    return suite
