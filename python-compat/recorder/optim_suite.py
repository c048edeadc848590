"""Optimizers, gradient transformations and schedules of Optax, over 100 steps.

Operands 0 to 2 are the parameters `w` f32[4, 6], `b` f32[6] and `s` f32[]. Operands 3 to 5 are
their gradients of every step. Gradients are recorded, so that errors of a step cannot feed back
through a loss. `trained_…` cases have a loss, and the losses of all steps are the last result. The
other results are the leaves after the steps in `params.seen`. 64-bit types are off. Schedules have
the counts as operand.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from optax import contrib

from .names import dtype
from .ops_elementwise import inside
from .suite import Suite

STEPS = 100
SEEN = [1, 2, 10, 11, 50, 100]
SHAPES = {"w": (4, 6), "b": (6,), "s": ()}
# Sums are added in another order, and the differences accumulate over 100 steps.
NEAR = {"rtol": 1e-5, "atol": 2e-6}
# Five iterations of matrix products amplify small singular values.
MUON = {"rtol": 1e-4, "atol": 1e-4}
# A unit in the last place of bf16 at the size of the parameters.
BF16 = {"rtol": 8e-3, "atol": 8e-3}
# The end of a curve is the difference of numbers near its maximum, 0.5.
CURVE = {"rtol": 2e-6, "atol": 6e-8}
# Optax stores the hyperparameters of an injected optimizer as f32: 1 - 0.999 has a relative error
# of 5e-5.
INJECTED = {"rtol": 1e-4, "atol": 1e-5}


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("optim", __doc__.strip(), stride=stride)
    for name, optimizer in _optimizers().items():
        _case(suite, name, optimizer)
    _case(
        suite,
        "adamw_bf16",
        optax.adamw(0.05, weight_decay=0.01, mu_dtype=jnp.float32),
        kind="bf16",
        tolerance=BF16,
    )
    _case(suite, "muon", contrib.muon(0.02), tolerance=MUON)
    numbers = {
        "weight_decay": 0.1,
        "nesterov": False,
        "beta": 0.9,
        "adam_learning_rate": 0.05,
        "adam_weight_decay": 0.01,
        "ns_steps": 4,
    }
    _case(suite, "muon_options", contrib.muon(0.02, **numbers), tolerance=MUON)
    _case(suite, "apply_if_finite", optax.apply_if_finite(optax.adam(0.05), 3), broken=True)
    _case(
        suite,
        "inject_hyperparams",
        optax.inject_hyperparams(optax.adamw)(learning_rate=0.05),
        change=True,
        tolerance=INJECTED,
    )
    # With eps 1e-8, these steps of RMSProp differ by 1.5e-3 between f32 and f64, with 1e-3 by 3e-7.
    for name, optimizer in (
        ("adamw", optax.adamw(0.02)),
        ("momentum", optax.sgd(0.05, momentum=0.9)),
        ("rmsprop", optax.rmsprop(0.01, eps=1e-3)),
    ):
        _training_case(suite, name, optimizer)
    counts = np.arange(0, 121, dtype=np.int32)
    for name, schedule in _schedules().items():
        run = lambda counts, schedule=schedule: _values(schedule, counts)
        suite.case(f"schedule_{name}", f"schedule_{name}", [counts], run, tolerance=CURVE)
    return suite


def _matrices(params):
    return jax.tree.map(lambda p: p.ndim >= 2, params)


def _optimizers():
    rate = 0.05
    by_rank = {"w": optax.lion(0.01), "rest": optax.adam(rate)}
    return {
        "sgd_cosine": optax.sgd(optax.cosine_decay_schedule(0.1, 80, 0.1)),
        "momentum_bf16_trace": optax.sgd(
            rate, momentum=0.9, nesterov=True, accumulator_dtype=jnp.bfloat16
        ),
        "adam_eps_root": optax.adam(rate, b1=0.8, b2=0.95, eps=1e-3, eps_root=1e-4),
        "adamw_masked": optax.adamw(rate, weight_decay=0.1, mask=_matrices),
        "adamw_bf16_mu": optax.adamw(rate, mu_dtype=jnp.bfloat16),
        "adamw_wsd": optax.adamw(_schedules()["wsd"], weight_decay=0.1),
        "nadam": optax.nadam(rate),
        "nadamw": optax.nadamw(rate),
        "adamax": optax.adamax(rate),
        "adabelief": optax.adabelief(rate),
        "radam": optax.radam(rate),
        "lion": optax.lion(0.01),
        "lion_options": optax.lion(0.01, b1=0.95, b2=0.98, weight_decay=0.1, mask=_matrices),
        "lamb": optax.lamb(rate, weight_decay=0.01),
        "rmsprop": optax.rmsprop(rate),
        "rmsprop_centered": optax.rmsprop(
            rate, decay=0.95, eps=1e-4, centered=True, momentum=0.9, nesterov=True
        ),
        "rmsprop_bias": optax.rmsprop(
            rate, eps=1e-6, initial_scale=0.5, eps_in_sqrt=False, bias_correction=True, momentum=0.5
        ),
        "adagrad": optax.adagrad(rate),
        "adafactor": optax.adafactor(rate, min_dim_size_to_factor=4),
        "adafactor_whole": optax.adafactor(rate),
        "adafactor_options": optax.adafactor(
            rate,
            min_dim_size_to_factor=2,
            decay_rate=0.7,
            multiply_by_parameter_scale=False,
            clipping_threshold=None,
            momentum=0.9,
            weight_decay_rate=1e-3,
            weight_decay_mask=_matrices,
        ),
        "sign_sgd": optax.sign_sgd(0.01),
        "ema": optax.chain(optax.ema(0.9), optax.scale(-rate)),
        "clip": optax.chain(optax.clip(0.5), optax.sgd(rate)),
        "clip_by_global_norm": optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(rate)),
        "clip_by_block_rms": optax.chain(optax.clip_by_block_rms(0.7), optax.sgd(rate)),
        "adaptive_grad_clip": optax.chain(optax.adaptive_grad_clip(0.3, 1e-3), optax.sgd(rate)),
        "trust_ratio": optax.chain(optax.scale_by_trust_ratio(0.01, 0.5, 1e-3), optax.sgd(rate)),
        "masked": optax.chain(
            optax.masked(optax.set_to_zero(), [False, True, False]), optax.adam(rate)
        ),
        "partition": optax.partition(by_rank, lambda params: ["w", "rest", "rest"]),
        "multi_steps": optax.MultiSteps(optax.adamw(rate), 4).gradient_transformation(),
        "decay_schedule": optax.chain(
            optax.add_decayed_weights(optax.linear_schedule(0.1, 0.0, 50)), optax.sgd(rate)
        ),
    }


def _schedules():
    warm = {
        "init_value": 0.0,
        "peak_value": 0.3,
        "warmup_steps": 10,
        "decay_steps": 40,
        "end_value": 0.01,
    }
    return {
        "constant": optax.constant_schedule(0.1),
        "linear": optax.linear_schedule(0.1, 0.7, 60, 20),
        "polynomial": optax.polynomial_schedule(1.0, 0.1, 2.5, 80),
        "piecewise_constant": optax.piecewise_constant_schedule(0.1, {30: 0.1, 60: 3.0, 90: 0.5}),
        "piecewise_linear": optax.piecewise_interpolate_schedule(
            "linear", 0.1, {30: 0.1, 60: 3.0, 90: 0.5}
        ),
        "piecewise_cosine": optax.piecewise_interpolate_schedule(
            "cosine", 0.1, {30: 0.1, 60: 3.0, 90: 0.5}
        ),
        "exponential": optax.exponential_decay(0.5, 20, 0.7),
        "exponential_stairs": optax.exponential_decay(
            0.5, 20, 0.7, transition_begin=15, staircase=True, end_value=0.2
        ),
        "exponential_up": optax.exponential_decay(0.5, 20, 1.3, end_value=0.9),
        "cosine": optax.cosine_decay_schedule(0.5, 90, 0.1),
        "warmup_constant": optax.warmup_constant_schedule(0.01, 0.5, 30),
        "warmup_cosine": optax.warmup_cosine_decay_schedule(0.01, 0.5, 20, 100, 0.05),
        "warmup_cosine_exponent": optax.warmup_cosine_decay_schedule(
            0.0, 0.5, 20, 100, 0.05, exponent=1.5
        ),
        "warmup_exponential": optax.warmup_exponential_decay_schedule(
            0.01, 0.5, 20, 30, 0.6, end_value=0.1
        ),
        "sgdr": optax.sgdr_schedule([warm, warm | {"decay_steps": 60, "peak_value": 0.2}]),
        "linear_onecycle": optax.linear_onecycle_schedule(100, 0.5),
        "cosine_onecycle": optax.cosine_onecycle_schedule(100, 0.5),
        "wsd": optax.join_schedules(
            [
                optax.linear_schedule(0.0, 0.1, 10),
                optax.constant_schedule(0.1),
                optax.linear_schedule(0.1, 0.001, 30),
            ],
            [10, 70],
        ),
    }


def _values(schedule, counts):
    with jax.enable_x64(False):
        return np.asarray(
            jax.jit(jax.vmap(lambda count: jnp.asarray(schedule(count), jnp.float32)))(counts)
        )


def _operands(kind):
    params = [inside(leaf, (-1, 1), kind, shape) for leaf, shape in SHAPES.items()]
    grads = [inside(f"g{leaf}", (-2, 2), "f32", (STEPS, *shape)) for leaf, shape in SHAPES.items()]
    # Some gradients are zero for several steps, and one gradient is very large.
    grads[1][3:6] = 0
    grads[0][10] *= 1e3
    return [*params, *(g.astype(dtype(kind)) for g in grads)]


def _case(suite, name, optimizer, kind="f32", tolerance=NEAR, broken=False, change=False):
    operands = _operands(kind)
    if broken:
        # One broken step, then two in a row at the end.
        operands[3][20, 0, 0] = np.inf
        operands[4][98:, 1] = np.nan
    run = lambda *operands: _run(optimizer, operands, change)
    results = [f"{leaf} after each step seen" for leaf in SHAPES]
    suite.case(
        name, name, operands, run, {"steps": STEPS, "seen": SEEN, "results": results}, tolerance
    )


def _run(optimizer, operands, change):
    with jax.enable_x64(False):
        params, grads = [jnp.asarray(p) for p in operands[:3]], operands[3:]
        state = optimizer.init(params)

        @jax.jit
        def step(params, state, grads):
            updates, state = optimizer.update(grads, state, params)
            return optax.apply_updates(params, updates), state

        history = []
        for index in range(STEPS):
            if change and index == 50:
                state.hyperparams["learning_rate"] = jnp.asarray(0.005, jnp.float32)
            params, state = step(params, state, [g[index] for g in grads])
            if index + 1 in SEEN:
                history.append([np.asarray(p) for p in params])
        return [np.stack(leaves) for leaves in zip(*history)]


def _training_case(suite, name, optimizer):
    """Adds a case that trains `tanh(x w + b) s` against a target on one batch."""
    params = [inside(leaf, (-1, 1), "f32", shape) for leaf, shape in SHAPES.items()]
    x, y = inside("x", (-1, 1), "f32", (8, 4)), inside("y", (-1, 1), "f32", (8, 6))

    def loss(params, x, y):
        w, b, s = params
        return jnp.mean((jnp.tanh(x @ w + b) * s - y) ** 2)

    def run(*operands):
        with jax.enable_x64(False):
            params, (x, y) = [jnp.asarray(p) for p in operands[:3]], operands[3:]
            state = optimizer.init(params)

            @jax.jit
            def step(params, state):
                value, grads = jax.value_and_grad(loss)(params, x, y)
                updates, state = optimizer.update(grads, state, params)
                return optax.apply_updates(params, updates), state, value

            losses = []
            for _ in range(STEPS):
                params, state, value = step(params, state)
                losses.append(np.asarray(value))
            return [*(np.asarray(p) for p in params), np.stack(losses)]

    # Errors feed back through the gradients.
    suite.case(
        f"trained_{name}",
        f"trained_{name}",
        [*params, x, y],
        run,
        {"steps": STEPS},
        {"rtol": 1e-4, "atol": 1e-5},
    )
