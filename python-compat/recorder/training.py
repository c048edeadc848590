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


# gelu is the tanh approximation, 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): JAX's default.
ACTIVATIONS = {"gelu": jax.nn.gelu, "relu": jax.nn.relu}


def forward(params, x, activation):
    """Logits; an activation between the layers."""
    for layer in params[:-1]:
        x = ACTIVATIONS[activation](x @ layer["weight"] + layer["bias"])
    return x @ params[-1]["weight"] + params[-1]["bias"]


def loss(params, images, labels, activation):
    """Mean softmax cross entropy."""
    return optax.softmax_cross_entropy_with_integer_labels(forward(params, images, activation), labels).mean()


def optimizer():
    """AdamW as optax has it by default: b1 0.9, b2 0.999, eps 1e-8, decay 1e-4 on every leaf; learning rate 1e-3."""
    return optax.adamw(1e-3)


def make_step(activation):
    """`(params, state, images, labels) -> (params, state, loss)`, compiled, arguments donated."""
    rule = optimizer()

    def step(params, state, images, labels):
        value, grads = jax.value_and_grad(loss)(params, images, labels, activation)
        updates, state = rule.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    return jax.jit(step, donate_argnums=(0, 1))


def order(epoch: int, n: int) -> np.ndarray:
    """Which training row comes when in an epoch."""
    return np.asarray(jax.random.permutation(jax.random.fold_in(jax.random.key(1), epoch), n))


def train(data, sizes, activation, batch, epochs, limit=None, dtype=np.float32):
    """(initial parameters, every loss before its update, test accuracy after each epoch), at most `limit` steps.

    With `dtype` float64 the same float32 weights and pixels are the start, and every step is computed in float64.
    """
    images, labels, test_images, test_labels = data
    initial = jax.tree.map(np.asarray, init(jax.random.key(0), sizes))
    params = jax.tree.map(lambda x: jnp.asarray(x.astype(dtype)), initial)
    state = optimizer().init(params)
    step, predict = make_step(activation), jax.jit(lambda p, x: jnp.argmax(forward(p, x, activation), axis=-1))
    losses, accuracies = [], []
    for epoch in range(epochs):
        rows = order(epoch, len(images))
        for start in range(0, len(rows) - batch + 1, batch):
            if limit is not None and len(losses) == limit:
                return initial, np.array(losses), np.array(accuracies)
            chosen = rows[start : start + batch]
            params, state, value = step(params, state, images[chosen].astype(dtype), labels[chosen])
            losses.append(np.asarray(value))
        right = np.asarray(predict(params, test_images.astype(dtype))) == test_labels
        accuracies.append(right.mean())
    return initial, np.array(losses), np.array(accuracies)
