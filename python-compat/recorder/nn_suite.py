"""Initializers, losses and optimizers.

Optimizers run 20 steps on a small tree (`w` f32[3, 4], `b` f32[4], `s` f32[]). The gradients are
recorded operands, so that errors of a step cannot feed back through a loss. f32 trees are recorded
with 64-bit types off, f64 trees with them on.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .names import dtype
from .ops_elementwise import inside
from .suite import Suite

WIDE = ("f32", "f64")
NEAR = {"ulp": 16, "ulp_pinned": 4}
# XLA rewrote log1p in f64 between its versions in JAX 0.10.2 and in the pinned plugin.
NEAR_WIDE = {"ulp": 256}
STEPS = 20


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("nn", __doc__.strip(), stride=stride)
    _initializers(suite)
    _losses(suite)
    _optimizers(suite)
    return suite


def _initializers(suite):
    init = jax.nn.initializers
    table = {
        "glorot_uniform": init.glorot_uniform(),
        "glorot_normal": init.glorot_normal(),
        "he_normal": init.he_normal(),
        "he_uniform": init.he_uniform(),
        "lecun_normal": init.lecun_normal(),
        "lecun_uniform": init.lecun_uniform(),
        "normal": init.normal(0.02),
        "uniform": init.uniform(0.05),
        "truncated_normal": init.truncated_normal(0.02),
        "zeros": init.zeros,
        "ones": init.ones,
        "variance_scaling": init.variance_scaling(2.0, "fan_out", "normal"),
    }
    more = {
        "normal": {"stddev": 0.02},
        "uniform": {"scale": 0.05},
        "truncated_normal": {"stddev": 0.02},
    }
    more["variance_scaling"] = {"scale": 2.0, "mode": "fan_out", "distribution": "normal"}
    data = np.asarray(jax.random.key_data(jax.random.key(42)))
    for name, make in table.items():
        for kind in (*WIDE, "bf16"):
            for shape in ([13, 7], [3, 3, 4, 8]):
                if len(shape) > 2 and kind != "f32":
                    continue
                run = lambda k, m=make, s=shape, d=dtype(kind): m(
                    jax.random.wrap_key_data(jnp.asarray(k)), tuple(s), d
                )
                params = {"shape": shape, "dtype": kind} | more.get(name, {})
                suite.case(
                    f"init_{name}_{len(shape)}_{kind}",
                    f"init_{name}",
                    [data],
                    run,
                    params,
                    {"bf16": None, "f64": NEAR_WIDE}.get(kind, NEAR),
                )


def _losses(suite):
    for kind in WIDE:
        logits = inside("logits", (-4, 4), kind, (5, 7))
        labels = np.array([0, 6, 3, 3, 1], np.int32)
        targets = np.asarray(jax.nn.softmax(inside("targets", (-2, 2), kind, (5, 7))))
        x, y = inside("pred", (-3, 3), kind, (4, 3)), inside("true", (-3, 3), kind, (4, 3))
        bits = (inside("bits", (0, 1), "f32", (4, 3)) > 0.5).astype(dtype(kind))
        sparse = optax.softmax_cross_entropy_with_integer_labels
        suite.case(
            f"cross_entropy_labels_{kind}",
            "softmax_cross_entropy_labels",
            [logits, labels],
            sparse,
            wrt=[0],
        )
        suite.case(
            f"cross_entropy_mean_{kind}",
            "mean(softmax_cross_entropy_labels)",
            [logits, labels],
            lambda a, b: sparse(a, b).mean(),
            wrt=[0],
        )
        far = np.array([[1000.0, 0.0, -1000.0], [0.0, 500.0, 500.0]], dtype(kind))
        suite.case(
            f"cross_entropy_far_{kind}",
            "softmax_cross_entropy_labels",
            [far, np.array([2, 0], np.int32)],
            sparse,
            wrt=[0],
        )
        suite.case(
            f"cross_entropy_targets_{kind}",
            "softmax_cross_entropy",
            [logits, targets],
            optax.softmax_cross_entropy,
            wrt=[0, 1],
        )
        one_hot = jax.nn.one_hot(labels, 7, dtype=dtype(kind))
        suite.case(
            f"cross_entropy_one_hot_{kind}",
            "softmax_cross_entropy",
            [logits, one_hot],
            optax.softmax_cross_entropy,
            wrt=[0],
        )
        for alpha in (0.0, 0.1):
            run = lambda a, b, alpha=alpha: optax.softmax_cross_entropy(
                a, optax.smooth_labels(b, alpha)
            )
            suite.case(
                f"cross_entropy_smooth_{alpha}_{kind}",
                "softmax_cross_entropy_smoothed",
                [logits, one_hot],
                run,
                {"alpha": alpha},
                wrt=[0],
            )
        suite.case(
            f"sigmoid_cross_entropy_{kind}",
            "sigmoid_binary_cross_entropy",
            [x, bits],
            optax.sigmoid_binary_cross_entropy,
            wrt=[0],
        )
        wide = (
            np.array([100.0, -100.0, 0.0, 1000.0], dtype(kind)),
            np.array([0.0, 1.0, 1.0, 1.0], dtype(kind)),
        )
        suite.case(
            f"sigmoid_cross_entropy_far_{kind}",
            "sigmoid_binary_cross_entropy",
            list(wide),
            optax.sigmoid_binary_cross_entropy,
            wrt=[0],
        )
        suite.case(
            f"squared_error_{kind}", "squared_error", [x, y], optax.squared_error, wrt=[0, 1]
        )
        suite.case(
            f"mse_{kind}",
            "mean(squared_error)",
            [x, y],
            lambda a, b: jnp.mean((a - b) ** 2),
            wrt=[0, 1],
        )
        suite.case(
            f"l2_loss_{kind}",
            "l2_loss",
            [x, y],
            optax.l2_loss,
            {"formula": "(x - y)^2 / 2"},
            wrt=[0, 1],
        )
        for delta in (1.0, 0.5):
            run = lambda a, b, d=delta: optax.huber_loss(a, b, delta=d)
            suite.case(
                f"huber_{delta}_{kind}", "huber_loss", [x, y], run, {"delta": delta}, wrt=[0, 1]
            )
        suite.case(
            f"cosine_{kind}", "cosine_similarity", [x, y], optax.cosine_similarity, wrt=[0, 1]
        )
        suite.case(
            f"layer_norm_{kind}",
            "layer_norm",
            [x, y[0], y[1]],
            _layer_norm,
            {"formula": "(x - mean) / sqrt(var + 1e-5) * scale + bias, last axis"},
            wrt=[0, 1, 2],
        )


def _layer_norm(x, scale, bias):
    mean, var = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    return (x - mean) / jnp.sqrt(var + 1e-5) * scale + bias


def _optimizers(suite):
    rate = 0.05
    table = {
        "sgd": (optax.sgd(rate), {}),
        "momentum": (optax.sgd(rate, momentum=0.9), {"momentum": 0.9}),
        "nesterov": (
            optax.sgd(rate, momentum=0.9, nesterov=True),
            {"momentum": 0.9, "nesterov": True},
        ),
        "adam": (optax.adam(rate), {"b1": 0.9, "b2": 0.999, "eps": 1e-8}),
        "adam_options": (
            optax.adam(rate, b1=0.8, b2=0.95, eps=1e-3),
            {"b1": 0.8, "b2": 0.95, "eps": 1e-3},
        ),
        "adamw": (optax.adamw(rate), {"b1": 0.9, "b2": 0.999, "eps": 1e-8, "weight_decay": 1e-4}),
        "adamw_decay": (
            optax.adamw(rate, weight_decay=0.1),
            {"b1": 0.9, "b2": 0.999, "eps": 1e-8, "weight_decay": 0.1},
        ),
    }
    for name, (optimizer, params) in table.items():
        for kind in WIDE:
            tree = {
                "w": inside("w", (-1, 1), kind, (3, 4)),
                "b": inside("b", (-1, 1), kind, (4,)),
                "s": inside("s", (-1, 1), kind, ()),
            }
            grads = {
                leaf: inside(f"g{leaf}", (-2, 2), kind, (STEPS, *value.shape))
                for leaf, value in tree.items()
            }
            # Some gradients are zero for several steps, and one gradient is very large.
            grads["b"][3:6] = 0
            grads["w"][10] *= 1e4
            operands = [*tree.values(), *grads.values()]
            run = lambda *operands, optimizer=optimizer, kind=kind: _run(optimizer, operands, kind)
            op = name.split("_")[0] if name in ("adam_options", "adamw_decay") else name
            more = {
                "learning_rate": rate,
                "steps": STEPS,
                "operands": ["w", "b", "s", "grads_w", "grads_b", "grads_s"],
            }
            more["results"] = ["w after every step", "b after every step", "s after every step"]
            tolerance = (
                {"rtol": 1e-5, "atol": 1e-6} if kind == "f32" else {"rtol": 1e-12, "atol": 1e-14}
            )
            suite.case(f"{name}_{kind}", f"optim_{op}", operands, run, params | more, tolerance)


def _run(optimizer, operands, kind):
    """Returns the values of each leaf after every step."""
    with jax.enable_x64(kind == "f64"):
        params, grads = list(operands[:3]), operands[3:]
        state = optimizer.init([jnp.asarray(p) for p in params])

        @jax.jit
        def step(params, state, grads):
            updates, state = optimizer.update(grads, state, params)
            return optax.apply_updates(params, updates), state

        history = []
        for index in range(STEPS):
            params, state = step(params, state, [g[index] for g in grads])
            history.append([np.asarray(p) for p in params])
        return [np.stack(leaves) for leaves in zip(*history)]
