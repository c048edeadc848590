"""The breadth of the array API: functions of `jax.numpy`, `jax.nn`, `jax.scipy.special` and `jax.scipy.stats` that are composites here, with derivatives and under vmap."""

from . import api_choosing, api_elementwise, api_reductions, api_shapes, api_special, api_statistics
from .api_table import record
from .suite import Suite


def build(stride: int, quick: bool) -> Suite:
    """All families."""
    # Chains of several transcendental functions, and their derivatives, which are sums of terms that partly cancel.
    room = {"f32": {"rtol": 1e-5, "atol": 1e-6}, "f64": {"rtol": 1e-12, "atol": 1e-13}}
    suite = Suite("api", __doc__.strip(), stride=stride, tolerance=room)
    for family in (api_elementwise, api_shapes, api_choosing, api_reductions, api_statistics, api_special):
        record(suite, family.__name__.rsplit("_", 1)[1], family.ROWS)
    return suite
