"""Collectives over the named axes of `vmap`.

`op` is a function of `recorder/collective_functions.py`, which contains the `vmap`. Derivatives are
taken outside of it.
"""

import jax

from .collective_functions import FUNCTIONS
from .ops_elementwise import inside
from .suite import Suite

LOOSE = {"f32": {"rtol": 2e-5, "atol": 2e-6}, "f64": {"rtol": 1e-11, "atol": 1e-13}}
# Shapes of the operands of each function. A string is the dtype of an integer operand.
OPERANDS = {
    "softmax_over_examples": [(5,)],
    "batch_norm": [(4, 3)],
    "gradient_inside": [(4,), ()],
    "gradient_of_a_mixture_inside": [(3,)],
    "second_derivative_inside": [(3,)],
    "data_parallel_step": [(3,), (4, 3), (4,)],
    "sums_over_two_axes": [(2, 3)],
    "gathered": [(3, 2, 2)],
    "scattered": [(3, 3, 2)],
    "scattered_in_tiles": [(3, 6, 3)],
    "exchanged": [(3, 3, 3, 2)],
    "exchanged_in_tiles": [(3, 6, 3)],
    "exchanged_over_two_axes": [(2, 3, 6)],
    "swapped": [(3, 2, 3)],
    "around_the_ring": [(4, 2)],
    "permuted": [(4, 2)],
    "ranks": [(2, 3)],
    "the_same_for_all": [(3,), (3,)],
    "exchanged_the_same": [(3,), (3,)],
    "without_a_mapped_operand": [(2,)],
    "inside_a_scan": [(3, 4), ()],
    "carry_that_comes_to_differ": [(4,)],
    "choice_of_all": [(4,)],
    "choice_of_each": [(4,)],
    "choice_of_each_with_a_sum": [(4,)],
    "until_all_are_small": [(4,)],
    "until_each_has_its_rank": [(4,)],
    "jit_inside": [(5,)],
    "rematerialized": [(4,)],
    "model_parallel_gradient": [(3,), (2, 3, 2), (2, 2, 2)],
    "own_rule_outside": [(3,)],
    "own_rule_of_a_sum_outside": [(3,)],
    "shadowed": [(2, 3)],
    "another_axis_between": [(3, 2, 3)],
    "other_places": [(2, 3)],
    "counts": ["i32"],
    "trees": [(3, 2)],
}
# Functions that JAX cannot differentiate in both modes.
VALUES_ONLY = (
    "exchanged_the_same",
    "until_all_are_small",
    "until_each_has_its_rank",
    "own_rule_outside",
    "own_rule_of_a_sum_outside",
    "counts",
)


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("collectives", __doc__.strip(), stride=stride, tolerance=LOOSE)
    assert list(OPERANDS) == list(FUNCTIONS)
    for name, specs in OPERANDS.items():
        for kind in ("f32", "f64"):
            if specs == ["i32"] and kind == "f64":
                continue
            draw = lambda i, spec: (
                inside(f"{name}{i}", (0, 9), spec, (5,))
                if isinstance(spec, str)
                else inside(f"{name}{i}", (-1.4, 1.4), kind, spec)
            )
            inputs = [draw(i, spec) for i, spec in enumerate(specs)]
            wrt = None if name in VALUES_ONLY else list(range(len(specs)))
            label = specs[0] if isinstance(specs[0], str) else kind
            suite.case(f"{name}_{label}", name, inputs, jax.jit(FUNCTIONS[name]), wrt=wrt)
    return suite
