"""Core primitives of `jax.lax`: values, edge cases of each dtype, derivatives in f32 and f64."""

from . import ops_elementwise, ops_index, ops_reduce, ops_shape
from .suite import Suite


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all families."""
    suite = Suite("ops", __doc__.strip(), stride=stride)
    for family in (ops_elementwise, ops_shape, ops_reduce, ops_index):
        family.add(suite)
    return suite
