"""Every primitive of the core, as `jax.lax` has it: values, also at the edges of each dtype, and derivatives in f32 and f64."""

from . import ops_elementwise, ops_index, ops_reduce, ops_shape
from .suite import Suite


def build(stride: int, quick: bool) -> Suite:
    """All families."""
    suite = Suite("ops", __doc__.strip(), stride=stride)
    for family in (ops_elementwise, ops_shape, ops_reduce, ops_index):
        family.add(suite)
    return suite
