"""Records parameters after steps of Optax's optimizers, and results of its functions.

Run it as `python -m recorder.optax_steps` in `python-compat`. It writes
`fixtures/optax_steps.json`, which the tests of `crates/optim` compare with. Parameters are
`w: f32[3, 4]` and `b: f32[4]`. Cases of `steps` get recorded gradients; cases of `trained` take
those of the loss `mean((tanh(x w + b) - y)^2)`. 64-bit types are off.
"""

import functools
import json
import os
import warnings
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_cpu_max_isa=AVX2 --xla_cpu_multi_thread_eigen=false"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_THREEFRY_PARTITIONABLE"] = "1"
warnings.simplefilter("ignore")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from optax import contrib, losses, projections

from .optax_transforms import trained_transforms, transforms

SEEN = [1, 2, 10, 50, 100]
RATE = 0.05


def _inputs():
    rng = np.random.default_rng(22)
    draw = lambda *shape: rng.uniform(-1, 1, shape).astype(np.float32)
    gradients = [2 * draw(100, 3, 4), 2 * draw(100, 4)]
    gradients[1][3:6] = 0
    return {"w": draw(3, 4), "b": draw(4), "gw": gradients[0], "gb": gradients[1],
            "x": draw(8, 3), "y": draw(8, 4)}  # fmt: skip


def _matrices(params):
    return jax.tree.map(lambda p: p.ndim >= 2, params)


def _optimizers():
    lr = RATE
    sgd = optax.sgd(lr)
    linear = optax.linear_schedule(0.1, 0.01, 80)
    return {
        "lars": optax.lars(lr, weight_decay=0.01, weight_decay_mask=_matrices,
                           trust_ratio_mask=_matrices, nesterov=True),
        "fromage": optax.fromage(lr),
        "fromage_schedule": optax.fromage(linear),
        "amsgrad": optax.amsgrad(lr),
        "amsgrad_raw": optax.amsgrad(lr, bias_correction_mu=False, bias_correction_nu=False),
        "yogi": optax.yogi(lr),
        "adan": optax.adan(lr, weight_decay=0.01),
        "adamaxw": optax.adamaxw(lr, weight_decay=0.01),
        "adadelta": optax.adadelta(1.0, weight_decay=0.01),
        "rprop": optax.rprop(0.01),
        "sm3": optax.sm3(lr),
        "sm3_decay": optax.chain(optax.scale_by_sm3(0.8, 0.95), sgd),
        "novograd": optax.novograd(lr, weight_decay=0.01),
        "optimistic_gradient_descent": optax.optimistic_gradient_descent(lr, 1.2, 0.7),
        "optimistic_adam": optax.optimistic_adam_v2(lr, beta=0.5),
        "noisy_sgd": optax.noisy_sgd(lr, key=jax.random.key(7)),
        "signum": optax.signum(lr),
        "centralize": optax.chain(optax.centralize(), sgd),
        "normalize_by_update_norm": optax.chain(optax.normalize_by_update_norm(2.0), sgd),
        "scale_by_param_block_norm": optax.chain(optax.scale_by_param_block_norm(), sgd),
        "scale_by_distance_over_gradients": optax.chain(
            optax.scale_by_distance_over_gradients(1e-2), optax.scale(-1.0)
        ),
        "lookahead": "lookahead",
        "lookahead_reset": "lookahead_reset",
        "flatten": optax.flatten(optax.novograd(lr)),
        "apply_every": optax.chain(optax.apply_every(4), sgd),
        "keep_params_nonnegative": optax.chain(sgd, optax.keep_params_nonnegative()),
        "conditionally_transform": optax.chain(
            optax.conditionally_transform(optax.adam(1.0), lambda step: step % 3 == 0), sgd
        ),
        "conditionally_mask": optax.conditionally_mask(optax.adam(lr), lambda step: step % 3 == 0),
        "selective_transform": optax.selective_transform(
            optax.adam(lr), freeze_mask=[False, True]
        ),
        "named_chain": optax.named_chain(("adam", optax.scale_by_adam()), ("rate", sgd)),
        "multi_steps_skip": optax.MultiSteps(
            optax.adam(lr), 3, should_skip_update_fn=functools.partial(
                optax.skip_large_updates, max_squared_norm=22.0)
        ).gradient_transformation(),
        "multi_steps_schedule": optax.MultiSteps(
            optax.adam(lr), lambda step: jnp.where(step < 5, 2, 4), use_grad_mean=False
        ).gradient_transformation(),
        "lbfgs_plain": optax.lbfgs(lr, memory_size=3, linesearch=None),
        "schedule_free_sgd": contrib.schedule_free_sgd(0.1, warmup_steps=10, weight_decay=0.01),
        "schedule_free_adamw": contrib.schedule_free_adamw(0.05, weight_decay=0.01),
        "prodigy": contrib.prodigy(0.5, weight_decay=0.01),
        "prodigy_safe": contrib.prodigy(safeguard_warmup=True),
        "dadapt_adamw": contrib.dadapt_adamw(0.5, weight_decay=0.01),
        "cocob": contrib.cocob(weight_decay=0.01),
        "dog": contrib.dog(weight_decay=0.01),
        "dog_rate": contrib.dog(init_step=("learning_rate", 0.01)),
        "dowg": contrib.dowg(),
        "normalize": optax.chain(contrib.normalize(), sgd),
        "sam": contrib.sam(sgd, optax.chain(contrib.normalize(), optax.sgd(0.02))),
        "sam_keep": contrib.sam(
            optax.adam(lr), optax.sgd(0.02, momentum=0.9), sync_period=3, reset_state=False
        ),
        "acprop": contrib.acprop(lr, weight_decay=0.01, eps=1e-6, eps_root=1e-6),
        "ademamix": contrib.ademamix(lr, b3=optax.linear_schedule(0.9, 0.999, 50),
                                     weight_decay=0.01),
        "simplified_ademamix": contrib.simplified_ademamix(0.005, alpha=2.0, weight_decay=0.01),
        "adopt": contrib.adopt(lr),
        "adopt_options": contrib.adopt(lr, nesterov=True, use_clipping=False),
        "madgrad": contrib.madgrad(linear, weight_decay=0.01),
        "mechanize": contrib.mechanize(optax.adam(0.1), s_init=1e-2),
        # One projection: the signs of singular vectors differ between libraries.
        "galore": contrib.galore(lr, rank=2, update_proj_gap=200),
    } | transforms()  # fmt: skip


def _trained():
    lr = RATE
    return {
        "polyak_sgd": optax.polyak_sgd(0.3, f_min=0.05),
        "polyak_plus": optax.polyak_sgd(1.0, f_min=0.2, variant="sps+", eps=1e-3),
        "momo": contrib.momo(0.3, weight_decay=0.01, adapt_lower_bound=True),
        "momo_fixed": contrib.momo(0.3),
        "momo_adam": contrib.momo_adam(0.05, adapt_lower_bound=True, weight_decay=0.01),
        "reduce_on_plateau": optax.chain(
            optax.sgd(0.5), contrib.reduce_on_plateau(
                patience=3, rtol=0.05, cooldown=2, accumulation_size=2, factor=0.5)
        ),
        "backtracking": optax.chain(
            optax.sgd(1.0), optax.scale_by_backtracking_linesearch(15, store_grad=True)
        ),
        "zoom": optax.chain(optax.sgd(1.0), optax.scale_by_zoom_linesearch(15)),
        "lbfgs": optax.lbfgs(),
    } | trained_transforms()  # fmt: skip


def _record(inputs, optimizer, loss=None, takes_function=False):
    params = [jnp.asarray(inputs["w"]), jnp.asarray(inputs["b"])]
    gradients = [jnp.asarray(inputs["gw"]), jnp.asarray(inputs["gb"])]
    looks_ahead = isinstance(optimizer, str)
    if looks_ahead:
        optimizer = optax.lookahead(
            optax.adam(RATE), 5, 0.5, reset_state=optimizer == "lookahead_reset"
        )
        params = optax.LookaheadParams.init_synced(params)
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, gradients):
        extra = {}
        if loss is not None:
            value, gradients = jax.value_and_grad(loss)(params)
            extra = {"value": value, "grad": gradients, "value_fn": loss}
            extra |= {"obj_fn": loss} if takes_function else {}
        updates, state = optimizer.update(gradients, state, params, **extra)
        return optax.apply_updates(params, updates), state

    history = []
    for index in range(SEEN[-1]):
        params, state = step(params, state, [g[index] for g in gradients])
        if index + 1 in SEEN:
            leaves = params.fast if looks_ahead else params
            history.append([_list(leaf) for leaf in leaves])
    return history


def _narrow():
    lr = RATE
    return {
        "sgd": optax.sgd(lr),
        "momentum": optax.sgd(lr, momentum=0.9, nesterov=True),
        "adam": optax.adam(lr),
        "adamw": optax.adamw(lr, weight_decay=0.1),
        "adamw_f32_mu": optax.adamw(lr, mu_dtype=jnp.float32),
        "lion": optax.lion(0.01),
        "rmsprop": optax.rmsprop(lr),
        "adagrad": optax.adagrad(lr),
        "adafactor": optax.adafactor(lr, min_dim_size_to_factor=2),
        "lamb": optax.lamb(lr, weight_decay=0.01),
        "amsgrad": optax.amsgrad(lr),
        "clip_by_global_norm": optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(lr)),
        "schedule": optax.adam(optax.cosine_decay_schedule(0.1, 10)),
        "multi_steps": optax.MultiSteps(optax.adam(lr), 2).gradient_transformation(),
        "ema": optax.chain(optax.ema(0.9), optax.scale(-lr)),
        "trust_ratio": optax.chain(optax.scale_by_trust_ratio(), optax.scale(-lr)),
        "centralize": optax.chain(optax.centralize(), optax.sgd(lr)),
        "normalize": optax.chain(optax.normalize_by_update_norm(), optax.sgd(lr)),
        "block_rms": optax.chain(optax.clip_by_block_rms(0.5), optax.sgd(lr)),
    }


def _record_narrow(inputs, optimizer):
    """Returns parameters and the dtypes of the state after steps with bf16, all roundings kept."""
    narrow = lambda x: jnp.asarray(x, jnp.bfloat16)
    params = [narrow(inputs["w"]), narrow(inputs["b"])]
    state = optimizer.init(params)

    def step(params, state, gradients):
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    step = jax.jit(step, compiler_options={"xla_allow_excess_precision": False})
    history = []
    for index in range(10):
        params, state = step(params, state, [narrow(inputs[g][index]) for g in ("gw", "gb")])
        history.append([_list(leaf) for leaf in params])
    dtypes = sorted(str(leaf.dtype) for leaf in jax.tree.leaves(state) if leaf.ndim > 0)
    return {"steps": history, "dtypes": dtypes}


def _list(x):
    return [float(v) for v in np.asarray(x, np.float32).ravel()]


def _losses(kind):
    """Returns the operands, and the results for operands of a dtype."""
    rng = np.random.default_rng(23)
    draw = lambda *shape: rng.uniform(-2, 2, shape).astype(np.float32)
    a, b, c = draw(4, 5), draw(4, 5), draw(4, 5)
    signs = np.sign(b)
    classes = np.array([0, 4, 2, 1])
    zero_one = (b > 0).astype(np.float32)
    shares = np.abs(b) / np.abs(b).sum(-1, keepdims=True)
    shares[0, 0] = 0
    where = rng.uniform(0, 1, (4, 5)) < 0.7
    where[:, 0] = True
    log = np.asarray(jax.nn.log_softmax(a))
    labels = np.array([0, 1, 0, 1])
    images, targets = draw(2, 3, 3, 4), rng.uniform(0, 1, (2, 3, 3, 4)).astype(np.float32)
    inputs = {"a": a, "b": b, "c": c, "signs": signs, "classes": classes, "zero_one": zero_one,
              "shares": shares, "where": where, "log": log, "labels": labels, "images": images,
              "targets": targets}  # fmt: skip
    # Arrays of NumPy would promote the results.
    floats = (a, b, c, signs, zero_one, shares, log, images, targets)
    a, b, c, signs, zero_one, shares, log, images, targets = (jnp.asarray(x, kind) for x in floats)
    cases = {
        "hinge_loss": lambda a: losses.hinge_loss(a, signs),
        "perceptron_loss": lambda a: losses.perceptron_loss(a, signs),
        "sparsemax_loss": lambda a: losses.sparsemax_loss(a, zero_one),
        "multiclass_hinge_loss": lambda a: losses.multiclass_hinge_loss(a, classes),
        "multiclass_perceptron_loss": lambda a: losses.multiclass_perceptron_loss(a, classes),
        "multiclass_sparsemax_loss": lambda a: losses.multiclass_sparsemax_loss(a, classes),
        "safe_softmax_cross_entropy": lambda a: losses.safe_softmax_cross_entropy(a, shares),
        "softmax_cross_entropy_axis": lambda a: losses.softmax_cross_entropy(a, shares, axis=0),
        "softmax_cross_entropy_where": lambda a: losses.softmax_cross_entropy(
            a, shares, where=where
        ),
        "integer_where": lambda a: losses.softmax_cross_entropy_with_integer_labels(
            a, classes, where=where | (np.arange(5) == classes[:, None])
        ),
        "integer_axis": lambda a: losses.softmax_cross_entropy_with_integer_labels(
            a.T, classes, axis=0
        ),
        "poly_loss_cross_entropy": lambda a: losses.poly_loss_cross_entropy(a, shares, epsilon=1.5),
        "kl_divergence_where": lambda a: losses.kl_divergence(a, shares, where=where),
        "kl_divergence_with_log_targets": lambda a: losses.kl_divergence_with_log_targets(
            a, log
        ),
        "generalized_kl_divergence": lambda a: losses.generalized_kl_divergence(a, shares),
        "sigmoid_focal_loss": lambda a: losses.sigmoid_focal_loss(
            a, zero_one, alpha=0.3, gamma=1.5
        ),
        "log_cosh": lambda a: losses.log_cosh(a, b),
        "cosine_similarity_axis": lambda a: losses.cosine_similarity(a, b, axis=0),
        "cosine_distance_where": lambda a: losses.cosine_distance(a, b, where=where),
        "ranking_softmax_loss": lambda a: losses.ranking_softmax_loss(
            a, zero_one, where=where
        ),
        "ntxent": lambda a: losses.ntxent(a, labels, 0.5),
        "triplet_margin_loss": lambda a: losses.triplet_margin_loss(a, b, c),
        "dice_loss": lambda images: losses.dice_loss(images, targets, alpha=0.3, beta=0.7),
        "dice_loss_foreground": lambda images: losses.dice_loss(
            images, targets, ignore_background=True, reduction="none"
        ),
        "multiclass_generalized_dice_loss": (
            lambda images: losses.multiclass_generalized_dice_loss(images, targets)
        ),
        "binary_dice_loss": lambda images: losses.binary_dice_loss(
            images[..., :1], zero_or_one(targets[..., :1])
        ),
        "fenchel_young": lambda a: losses.make_fenchel_young_loss(jax.nn.logsumexp)(
            a, shares
        ),
        "projection_simplex": lambda a: projections.projection_simplex(a, 2.0),
        "projection_l1_ball": lambda a: projections.projection_l1_ball(a, 3.0),
        "projection_l1_sphere": lambda a: projections.projection_l1_sphere(a, 3.0),
        "projection_l2_ball": lambda a: projections.projection_l2_ball(a, 0.7),
        "projection_l2_sphere": lambda a: projections.projection_l2_sphere(a, 9.0),
        "projection_linf_ball": lambda a: projections.projection_linf_ball(a, 0.7),
        "projection_hypercube": lambda a: projections.projection_hypercube(a, 0.7),
        "projection_non_negative": projections.projection_non_negative,
        "projection_vector": lambda a: projections.projection_vector(a, b),
        "projection_hyperplane": lambda a: projections.projection_hyperplane(
            a, b, 1.0
        ),
        "projection_halfspace": lambda a: projections.projection_halfspace(a, b, -9.0),
    }
    results = {}
    for name, loss in cases.items():
        operand = images if "dice" in name else a
        if kind != jnp.float32:
            try:
                value = loss(operand)
            except TypeError:
                # Some of Optax's functions mix this dtype with others.
                continue
            results[name] = {"value": _list(value)}
            continue
        value, vjp = jax.vjp(loss, operand)
        # Distinct weights, so that the gradient of every element counts.
        weights = 1 + jnp.arange(value.size, dtype=jnp.float32).reshape(value.shape) / 8
        results[name] = {"value": _list(value), "gradient": _list(vjp(weights)[0])}
    return {key: _list(x) for key, x in inputs.items()}, results


def zero_or_one(x):
    """Rounds to 0 and 1."""
    return (x > 0.5).astype(x.dtype)


def main() -> None:
    """Writes the fixture."""
    inputs = _inputs()
    x, y = jnp.asarray(inputs["x"]), jnp.asarray(inputs["y"])
    loss = lambda params: jnp.mean((jnp.tanh(x @ params[0] + params[1]) - y) ** 2)
    operands, results = _losses(jnp.float32)
    fixture = {
        "note": __doc__.strip().split("\n")[0],
        "optax": optax.__version__,
        "seen": SEEN,
        "inputs": {name: _list(value) for name, value in inputs.items()},
        "steps": {name: _record(inputs, o) for name, o in _optimizers().items()},
        "trained": {
            name: _record(inputs, o, loss, name.startswith(("hutchinson", "sophia")))
            for name, o in _trained().items()
        },
        "narrow": {name: _record_narrow(inputs, o) for name, o in _narrow().items()},
        "operands": operands,
        "losses": results,
        "losses_bf16": _losses(jnp.bfloat16)[1],
    }
    path = Path(__file__).resolve().parent.parent / "fixtures" / "optax_steps.json"
    text = json.dumps(fixture)
    path.write_text(text.replace('"gw"', '\n"gw"') + "\n")


if __name__ == "__main__":
    main()
