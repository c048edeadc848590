"""The multilayer perceptron of `examples/mlp`, in JAX: data, weights, order of batches, training. README.md states it in formulas."""

import gzip
import struct
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

DIGITS = Path(__file__).resolve().parents[2] / "examples/mlp/data/digits.csv.gz"


def digits():
    """(train images f32[1437, 64], train labels i32[1437], test images f32[360, 64], test labels i32[360])."""
    with gzip.open(DIGITS, "rt") as file:
        rows = np.loadtxt(file, delimiter=",", dtype=np.float32)
    images, labels = rows[:, :64] / np.float32(16), rows[:, 64].astype(np.int32)
    test = np.arange(len(rows)) % 5 == 0
    return images[~test], labels[~test], images[test], labels[test]


def _idx(path: Path) -> np.ndarray:
    with gzip.open(path, "rb") as file:
        zeros, kind, rank = struct.unpack(">HBB", file.read(4))
        assert (zeros, kind) == (0, 8), f"{path} is no idx file of bytes"
        shape = struct.unpack(f">{rank}I", file.read(4 * rank))
        return np.frombuffer(file.read(), np.uint8).reshape(shape)


def idx(folder: Path):
    """As `digits`, from the four files of MNIST or Fashion-MNIST: images f32[n, 784] in 0..=1."""
    parts = []
    for prefix in ("train", "t10k"):
        images = _idx(folder / f"{prefix}-images-idx3-ubyte.gz")
        parts.append(images.reshape(len(images), -1).astype(np.float32) / np.float32(255))
        parts.append(_idx(folder / f"{prefix}-labels-idx1-ubyte.gz").astype(np.int32))
    return parts


def init(key, sizes):
    """[{"weight": f32[in, out], "bias": f32[out]}, …]: weights by LeCun's rule (truncated normal, fan in), zero biases."""
    keys = jax.random.split(key, len(sizes) - 1)
    layers = []
    for layer_key, n_in, n_out in zip(keys, sizes[:-1], sizes[1:]):
        weight = jax.nn.initializers.lecun_normal()(layer_key, (n_in, n_out), jnp.float32)
        layers.append({"weight": weight, "bias": jnp.zeros((n_out,), jnp.float32)})
    return layers


def forward(params, x):
    """Logits; relu between the layers."""
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["weight"] + layer["bias"])
    return x @ params[-1]["weight"] + params[-1]["bias"]


def loss(params, images, labels):
    """Mean softmax cross entropy."""
    return optax.softmax_cross_entropy_with_integer_labels(forward(params, images), labels).mean()


def optimizer():
    """AdamW as optax has it by default: b1 0.9, b2 0.999, eps 1e-8, decay 1e-4 on every leaf; learning rate 1e-3."""
    return optax.adamw(1e-3)


def make_step():
    """`(params, state, images, labels) -> (params, state, loss)`, compiled, arguments donated."""
    rule = optimizer()

    def step(params, state, images, labels):
        value, grads = jax.value_and_grad(loss)(params, images, labels)
        updates, state = rule.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    return jax.jit(step, donate_argnums=(0, 1))


def order(epoch: int, n: int) -> np.ndarray:
    """Which training row comes when in an epoch."""
    return np.asarray(jax.random.permutation(jax.random.fold_in(jax.random.key(1), epoch), n))


def train(data, sizes, batch, epochs, limit=None):
    """(initial parameters, every loss before its update, test accuracy after each epoch), at most `limit` steps."""
    images, labels, test_images, test_labels = data
    params = init(jax.random.key(0), sizes)
    initial = jax.tree.map(np.asarray, params)
    state = optimizer().init(params)
    step, predict = make_step(), jax.jit(lambda p, x: jnp.argmax(forward(p, x), axis=-1))
    losses, accuracies = [], []
    for epoch in range(epochs):
        rows = order(epoch, len(images))
        for start in range(0, len(rows) - batch + 1, batch):
            if limit is not None and len(losses) == limit:
                return initial, np.array(losses, np.float32), np.array(accuracies, np.float64)
            chosen = rows[start : start + batch]
            params, state, value = step(params, state, images[chosen], labels[chosen])
            losses.append(np.asarray(value))
        right = np.asarray(predict(params, test_images)) == test_labels
        accuracies.append(right.mean())
    return initial, np.array(losses, np.float32), np.array(accuracies, np.float64)
