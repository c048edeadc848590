"""The breadth of the array API: functions of `jax.numpy`, `jax.nn`, `jax.scipy.special` and `jax.scipy.stats` that are composites here, with derivatives and under vmap."""

from . import api_choosing, api_elementwise, api_shapes, api_special, api_statistics
from .api_table import record
from .suite import Suite


def build(stride: int, quick: bool) -> Suite:
    """All families."""
    suite = Suite("api", __doc__.strip(), stride=stride)
    for family in (api_elementwise, api_shapes, api_choosing, api_statistics, api_special):
        record(suite, family.__name__.rsplit("_", 1)[1], family.ROWS)
    return suite
