"""Loops and conditionals under transformations. README.md states the functions as formulas.

`params.function` names the function, and `op` the transformations:

- `call`: the function itself, with derivatives in both modes if it has them;
- `jvp`: the derivative along the tangents in the last operands, for functions without reverse mode;
- `vmap`: the operands `params.mapped` are mapped over axis 0;
- `vmap(grad)`: the gradient of `sum(y**2)` over all real results by operand 0, for every row;
- `jvp(grad)`: this gradient, and its derivative along the last operand.
"""

import jax
import jax.numpy as jnp
import numpy as np

from . import implicit_functions  # noqa: F401, registers its functions
from .control_flow_functions import FUNCTIONS
from .ops_elementwise import inside
from .suite import Suite

LOOSE = {"f32": {"rtol": 2e-5, "atol": 5e-6}, "f64": {"rtol": 1e-11, "atol": 1e-12}}
# Shapes of the operands of each function. Numbers are passed unchanged and are not differentiated.
OPERANDS = {
    "running_sum": [(5, 2)],
    "running_product_back": [(4,)],
    "rnn": [(6, 2), (3, 3), (2, 3), (3,), (3,)],
    "lstm": [(4, 2), (5, 12), (3,), (3,)],
    "nested": [(3, 4), ()],
    "powers": [()],
    "unrolled": [(7,), ()],
    "counted": [(4,)],
    "carried_weights": [(3, 2), (2, 2)],
    "no_steps": [(3,), ()],
    "weak_start": [(4,)],
    "van_der_pol": [(2,), ()],
    "streamed_logsumexp": [(6,)],
    "choice": [(3,), ()],
    "choice_of_pairs": [(3,), ()],
    "switched": [(3,), np.int32(1)],
    "choice_in_scan": [(5,), ()],
    "scan_in_choice": [(3,), ()],
    "halvings": [()],
    "newton_root": [()],
    "shared_steps": [(), np.int32(3)],
    "equilibrium": [(3,), (3, 3)],
    "fixed_power_iteration": [(3, 3)],
    "indexed_loop": [(4,)],
    "open_bound": [(), np.int32(4)],
    "mapped": [(5, 3), (3,)],
    "mapped_batches": [(5, 3), (3,)],
    "partial_sums": [(7,)],
    "partial_maxima": [(2, 6)],
    "partial_products_of_matrices": [(5, 2, 2)],
    "linear_recurrence": [(6,), (6,)],
    "learned_start": [(2,), (4, 2)],
    "reduced_pairs": [(5,), (5,)],
    "reduced_logsumexp": [(2, 7)],
    "reduced_sum": [(3, 4)],
    "reduced_farthest": [(5, 2)],
    "solved_symmetric": [(3, 3), (3,)],
    "solved_general": [(3, 3), (3,)],
    "solved_with_aux": [(3, 3), (3,)],
    "cubic_root": [(3,)],
    "implicit_equilibrium": [(3,), (3, 3)],
}
FORWARD_ONLY = ("halvings", "newton_root", "shared_steps", "equilibrium", "open_bound")
# Sets of operands that `vmap` maps. Other functions are not mapped.
MAPPED = {
    "running_sum": [[0]],
    "rnn": [[0], [4], [1, 4]],
    "nested": [[0], [1]],
    "powers": [[0]],
    "counted": [[0]],
    "carried_weights": [[1]],
    "van_der_pol": [[0, 1], [1]],
    "choice": [[0, 1], [1]],
    "choice_of_pairs": [[1]],
    "switched": [[0, 1], [0], [1]],
    "choice_in_scan": [[0], [1]],
    "scan_in_choice": [[1]],
    "halvings": [[0]],
    "newton_root": [[0]],
    "shared_steps": [[0], [0, 1], [1]],
    "equilibrium": [[0], [1]],
    "open_bound": [[0], [1]],
    "mapped_batches": [[1]],
    "linear_recurrence": [[1]],
    "learned_start": [[0]],
    "reduced_pairs": [[0, 1], [1]],
    "reduced_logsumexp": [[0]],
    "reduced_farthest": [[0]],
    "solved_symmetric": [[0, 1], [0], [1]],
    "solved_general": [[0, 1], [0], [1]],
    "solved_with_aux": [[0]],
    "cubic_root": [[0]],
    "implicit_equilibrium": [[0], [1], [0, 1]],
}
TWICE = (
    "reduced_pairs",
    "reduced_logsumexp",
    "solved_symmetric",
    "solved_general",
    "cubic_root",
    "implicit_equilibrium",
    "rnn",
    "nested",
    "powers",
    "unrolled",
    "counted",
    "van_der_pol",
    "choice_in_scan",
    "scan_in_choice",
    "choice",
    "mapped",
    "learned_start",
    "partial_products_of_matrices",
    "fixed_power_iteration",
    "streamed_logsumexp",
)
ROWS = 3


def _draw(name, index, spec, kind, rows=None):
    if not isinstance(spec, tuple):
        return np.arange(-1, ROWS - 1, dtype=np.int32) * 2 + spec if rows else np.asarray(spec)
    low = 0.2 if name in ("newton_root", "linear_recurrence", "fixed_power_iteration") else -1.2
    return inside(f"{name}{index}", (low, 1.4), kind, spec if rows is None else (rows, *spec))


def _total(f):
    def total(x, *rest):
        real = [y for y in f(x, *rest) if jnp.issubdtype(y.dtype, jnp.floating)]
        return sum(jnp.sum(y**2) for y in real)

    return total


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("control_flow", __doc__.strip(), stride=stride, tolerance=LOOSE)
    for name, specs in OPERANDS.items():
        for kind in ("f32", "f64"):
            _cases(suite, name, specs, kind)
    return suite


def _cases(suite, name, specs, kind):
    f = FUNCTIONS[name]
    inputs = [_draw(name, i, spec, kind) for i, spec in enumerate(specs)]
    real = [i for i, spec in enumerate(specs) if isinstance(spec, tuple)]
    params = {"function": name}
    suite.case(
        f"{name}_{kind}",
        "call",
        inputs,
        jax.jit(f),
        params,
        wrt=None if name in FORWARD_ONLY else real,
    )
    if name in FORWARD_ONLY and name != "equilibrium":
        directions = [inside(f"{name}t{i}", (-1, 1), kind, inputs[i].shape) for i in real]

        def forward(*operands):
            primals, tangents = operands[: len(specs)], list(operands[len(specs) :])

            def function_of_reals(*xs):
                full = list(primals)
                for i, x in zip(real, xs):
                    full[i] = x
                return [y for y in f(*full) if jnp.issubdtype(y.dtype, jnp.floating)]

            outputs, derivatives = jax.jvp(function_of_reals, [primals[i] for i in real], tangents)
            return [*outputs, *derivatives]

        suite.case(
            f"{name}_jvp_{kind}",
            "jvp",
            [*inputs, *directions],
            jax.jit(forward),
            params | {"wrt": real},
        )
    # Cases under transformations are recorded only in f64.
    if kind == "f32":
        return
    for mapped in MAPPED.get(name, []):
        label = "".join(map(str, mapped))
        batch = [
            _draw(name, i, spec, kind, ROWS if i in mapped else None)
            for i, spec in enumerate(specs)
        ]
        axes = [0 if i in mapped else None for i in range(len(specs))]
        more = params | {"mapped": mapped}
        wrt = None if name in FORWARD_ONLY else real
        suite.case(
            f"{name}_vmap{label}_{kind}", "vmap", batch, jax.jit(jax.vmap(f, axes)), more, wrt=wrt
        )
        if name not in FORWARD_ONLY:
            per_row = jax.jit(jax.vmap(jax.grad(_total(f)), axes))
            suite.case(f"{name}_vmap{label}_grad_{kind}", "vmap(grad)", batch, per_row, more)
    if name in TWICE:
        v = inside(f"{name}v", (-1, 1), kind, inputs[0].shape)
        gradient = jax.grad(_total(f))
        twice = lambda x, *rest: jax.jvp(lambda x: gradient(x, *rest[:-1]), (x,), (rest[-1],))
        suite.case(f"{name}_jvp_grad_{kind}", "jvp(grad)", [*inputs, v], jax.jit(twice), params)
