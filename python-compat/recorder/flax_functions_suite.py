"""Pooling, recurrent cells and attention of Flax by their other names, metrics, and helpers of
training loops. Records values, and derivatives where a function has them."""

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging
from flax import jax_utils, nnx
from flax import linen as nn
from flax.training import dynamic_scale, early_stopping, lr_schedule
from jax import lax

from .api_table import I, R, Row, V, record
from .suite import Suite

_FLOATS = ("f32", "bf16")
_SLACK = {"rtol": 2e-2, "atol": 2e-2}


def _images(run, name, **more):
    return Row(name, [R((2, 5, 6, 3))], run, (0,), **{"kinds": _FLOATS} | more)


POOLS = [
    _images(lambda x: nn.avg_pool(x, (2, 3), (2, 1), "SAME"), "avg_pool"),
    _images(lambda x: nnx.avg_pool(x, (2, 2), (1, 2), "SAME", count_include_pad=False),
            "avg_pool_inside", kinds=("f32",)),
    Row("avg_pool_inside_narrow", [R((2, 5, 6, 3))],
        lambda x: nnx.avg_pool(x, (2, 2), (1, 2), "SAME", count_include_pad=False),
        kinds=("bf16",), batch=False, tolerance=_SLACK),
    _images(lambda x: nn.avg_pool(x, (2, 2), padding=((1, 0), (0, 1))), "avg_pool_explicit"),
    _images(lambda x: nnx.min_pool(x, (2, 2), (2, 2), "SAME"), "min_pool", exact=True),
    _images(lambda x: nn.max_pool(x, (3, 2), (1, 2)), "max_pool", exact=True),
    _images(lambda x: nn.pool(x, 0.0, lax.add, (2, 2), (2, 2), "VALID"), "pool"),
]  # fmt: skip


def _cell_leaves(leaves):
    inputs, recurrent, bias = (jnp.split(leaf, 4, -1) for leaf in leaves)
    of_x = {f"i{gate}": {"kernel": inputs[at]} for at, gate in enumerate("ifgo")}
    return of_x | {
        f"h{gate}": {"kernel": recurrent[at], "bias": bias[at]} for at, gate in enumerate("ifgo")
    }


def _optimized_lstm(x, c, h, *leaves):
    (c, h), _ = nn.OptimizedLSTMCell(4).apply({"params": _cell_leaves(leaves)}, (c, h), x)
    return c, h


def _nnx_optimized_lstm(x, c, h, kernel, recurrent, bias):
    cell = nnx.OptimizedLSTMCell(3, 4, rngs=nnx.Rngs(0))
    cell.dense_i.kernel = nnx.Param(kernel)
    cell.dense_h.kernel = nnx.Param(recurrent)
    cell.dense_h.bias = nnx.Param(bias)
    (c, h), _ = cell((c, h), x)
    return c, h


_CELL = [R((2, 3)), *[R((2, 4))] * 2, R((3, 16), -1, 1), R((4, 16), -1, 1), R((16,), -1, 1)]
_PROJECTIONS = [x for _ in range(3) for x in (R((4, 2, 3), -1, 1), R((2, 3), -1, 1))]
_ATTENTION = [R((2, 5, 4)), *_PROJECTIONS, R((2, 3, 4), -1, 1), R((4,), -1, 1)]


def _attention_params(leaves):
    names = ("query", "key", "value", "out")
    return {
        name: {"kernel": leaves[2 * at], "bias": leaves[2 * at + 1]}
        for at, name in enumerate(names)
    }


def _attention(type_):
    def run(x, *leaves):
        layer = type_(num_heads=2, qkv_features=6, deterministic=True)
        return layer.apply({"params": _attention_params(leaves)}, x)

    return run


def _nnx_attention(x, *leaves):
    layer = nnx.MultiHeadAttention(2, 4, 6, decode=False, rngs=nnx.Rngs(0))
    for name, part in _attention_params(leaves).items():
        getattr(layer, name).kernel = nnx.Param(part["kernel"])
        getattr(layer, name).bias = nnx.Param(part["bias"])
    return layer(x)


LAYERS = [
    Row("optimized_lstm", _CELL, _optimized_lstm, tuple(range(6)), _FLOATS[:1]),
    Row("optimized_lstm_bf16", _CELL, _optimized_lstm, None, ("bf16",), batch=False,
        tolerance=_SLACK),
    Row("nnx_optimized_lstm", _CELL, _nnx_optimized_lstm, tuple(range(6)), batch=False),
    Row("self_attention", _ATTENTION, _attention(nn.SelfAttention), tuple(range(9)), batch=False),
    Row("multi_head_attention", _ATTENTION, _attention(nn.MultiHeadAttention), tuple(range(9)),
        batch=False),
    Row("nnx_multi_head_attention", _ATTENTION, _nnx_attention, tuple(range(9)), batch=False),
]  # fmt: skip


def _metric(metric, *batches):
    for batch in batches:
        metric.update(**batch)
    return metric.compute()


def _accuracy(logits, labels, mask):
    batches = [
        {"logits": logits[0], "labels": labels[0], "mask": mask[0] > 0},
        {"logits": logits[1], "labels": labels[1]},
    ]
    return _metric(nnx.metrics.Accuracy(), *batches)


def _threshold(logits, labels):
    return _metric(
        nnx.metrics.Accuracy(threshold=0.3),
        *({"logits": x, "labels": y} for x, y in zip(logits, labels)),
    )


def _statistics(found):
    return found.mean, found.standard_error_of_mean, found.standard_deviation


def _welford(x):
    return _statistics(_metric(nnx.metrics.Welford(), *({"values": row} for row in x)))


def _multi_metric(losses, norms):
    metrics = nnx.MultiMetric(
        loss=nnx.metrics.Average("loss"), norm=nnx.metrics.Average("norm")
    )
    found = _metric(metrics, *({"loss": a, "norm": b} for a, b in zip(losses, norms)))
    return found["loss"], found["norm"]


METRICS = [
    Row("accuracy", [R((2, 6, 3)), I((2, 6), 0, 3), I((2, 6), 0, 2)], _accuracy, batch=False),
    Row("accuracy_threshold", [R((2, 6)), I((2, 6), 0, 2)], _threshold, batch=False),
    Row("average", [R((3, 4))],
        lambda x: _metric(nnx.metrics.Average(), *({"values": row} for row in x)), batch=False),
    Row("welford", [R((3, 4))], _welford, batch=False),
    Row("multi_metric", [R((2, 6)), R((2, 3))], _multi_metric, batch=False),
]  # fmt: skip


def _early_stopping():
    state, history = early_stopping.EarlyStopping(min_delta=0.1, patience=1), []
    for metric in (3.0, 2.5, 2.45, 2.6, 1.0, 0.95, 0.92, 0.1):
        state = state.update(metric)
        history.append(
            [state.best_metric, state.patience_count, state.should_stop, state.has_improved]
        )
    return np.array(history, np.float32)


def _scales(x):
    """Returns values, gradients and the following factors of a loss that overflows at times."""
    scale = dynamic_scale.DynamicScale(growth_interval=2, scale=1024.0)
    values, gradients, factors = [], [], []
    for row in x:
        found = scale.value_and_grad(lambda row: jnp.sum(row**2))(row)
        scale = found.dynamic_scale
        values.append(found.aux)
        gradients.append(found.grad)
        factors.append(scale.scale)
    return jnp.stack(values), jnp.stack(gradients), jnp.stack(factors)


def _schedules():
    logging.set_verbosity(logging.ERROR)
    stepped = lr_schedule.create_stepped_learning_rate_schedule(
        0.4, 10, [[0.9, 0.5], [1.9, 0.1], [2.9, 0.01]]
    )
    cosine = lr_schedule.create_cosine_learning_rate_schedule(0.4, 10, 4)
    steps = (0, 9, 10, 11, 20, 21, 35)
    return [jnp.array([f(step) for step in steps], jnp.float32) for f in (stepped, cosine)]


def _padded(x):
    # One device, and batches of at least eight examples.
    run = jax_utils.pad_shard_unpad(lambda x: jnp.cumsum(x, 1), static_argnums=())
    return run(np.asarray(x), min_device_batch=8)


HELPERS = [
    Row("early_stopping", [], _early_stopping, exact=True),
    Row("dynamic_scale", [V([[1.0, 2.0], [1e36, 1.0], [0.5, 3.0], [1.0, 1.0], [2.0, 0.0],
        [3.0, 1.0]])], _scales, batch=False),
    Row("schedules", [], _schedules),
]  # fmt: skip


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all families."""
    tolerance = {
        "bf16": {"rtol": 1.6e-2, "atol": 1e-2},
        "f32": {"rtol": 2e-5, "atol": 1e-5},
    }
    suite = Suite("flax_functions", __doc__.strip(), stride=stride, tolerance=tolerance)
    for family, rows in (
        ("pools", POOLS),
        ("layers", LAYERS),
        ("metrics", METRICS),
        ("helpers", HELPERS),
    ):
        with jax.enable_x64(False):
            record(suite, family, rows)
    operand = np.arange(10, dtype=np.float32).reshape(5, 2)
    suite.case("pad_shard_unpad", "pad_shard_unpad", [operand], _padded, {"family": "helpers"})
    return suite
