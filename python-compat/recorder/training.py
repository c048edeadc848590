"""The multilayer perceptron of `examples/mlp` in JAX: data, weights, order of batches and training.

README.md states it as formulas.
"""

import gzip
import struct
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

DIGITS = Path(__file__).resolve().parents[2] / "examples/mlp/data/digits.csv.gz"


def digits():
    """Returns the digits.

    The arrays are train images f32[1437, 64], train labels i32[1437], test images f32[360, 64] and
    test labels i32[360].
    """
    with gzip.open(DIGITS, "rt") as file:
        rows = np.loadtxt(file, delimiter=",", dtype=np.float32)
    images, labels = rows[:, :64] / np.float32(16), rows[:, 64].astype(np.int32)
    test = np.arange(len(rows)) % 5 == 0
    return images[~test], labels[~test], images[test], labels[test]


def _idx(path: Path) -> np.ndarray:
    with gzip.open(path, "rb") as file:
        zeros, kind, rank = struct.unpack(">HBB", file.read(4))
        assert (zeros, kind) == (0, 8), f"{path} is not an idx file of bytes"
        shape = struct.unpack(f">{rank}I", file.read(4 * rank))
        return np.frombuffer(file.read(), np.uint8).reshape(shape)


def idx(folder: Path):
    """Returns arrays like `digits`, from the four files of MNIST or Fashion-MNIST.

    Images are f32[n, 784] in 0..=1.
    """
    parts = []
    for prefix in ("train", "t10k"):
        images = _idx(folder / f"{prefix}-images-idx3-ubyte.gz")
        parts.append(images.reshape(len(images), -1).astype(np.float32) / np.float32(255))
        parts.append(_idx(folder / f"{prefix}-labels-idx1-ubyte.gz").astype(np.int32))
    return parts


def init(key, sizes):
    """Returns the layers `[{"weight": f32[in, out], "bias": f32[out]}, …]`.

    Weights follow LeCun's rule (truncated normal, fan in), and biases are zero.
    """
    keys = jax.random.split(key, len(sizes) - 1)
    layers = []
    for layer_key, n_in, n_out in zip(keys, sizes[:-1], sizes[1:]):
        weight = jax.nn.initializers.lecun_normal()(layer_key, (n_in, n_out), jnp.float32)
        layers.append({"weight": weight, "bias": jnp.zeros((n_out,), jnp.float32)})
    return layers


# gelu is JAX's default, the tanh approximation:
# 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
ACTIVATIONS = {"gelu": jax.nn.gelu, "relu": jax.nn.relu}


def forward(params, x, activation):
    """Returns the logits, with an activation between layers."""
    for layer in params[:-1]:
        x = ACTIVATIONS[activation](x @ layer["weight"] + layer["bias"])
    return x @ params[-1]["weight"] + params[-1]["bias"]


def loss(params, images, labels, activation):
    """Returns the mean softmax cross entropy."""
    return optax.softmax_cross_entropy_with_integer_labels(
        forward(params, images, activation), labels
    ).mean()


def optimizer():
    """Returns AdamW with Optax's defaults.

    These are b1 0.9, b2 0.999, eps 1e-8 and decay 1e-4 on every leaf. The learning rate is 1e-3.
    """
    return optax.adamw(1e-3)


def make_step(activation):
    """Returns the jitted step `(params, state, images, labels) -> (params, state, loss)`.

    It donates parameters and state.
    """
    adamw = optimizer()

    def step(params, state, images, labels):
        value, grads = jax.value_and_grad(loss)(params, images, labels, activation)
        updates, state = adamw.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    return jax.jit(step, donate_argnums=(0, 1))


def order(epoch: int, n: int) -> np.ndarray:
    """Returns the order of the training rows in an epoch."""
    return np.asarray(jax.random.permutation(jax.random.fold_in(jax.random.key(1), epoch), n))


def train(data, sizes, activation, batch, epochs, limit=None, dtype=np.float32):
    """Trains for at most `limit` steps.

    Returns the initial parameters, the loss before every update, and the test accuracy after each
    epoch. With `dtype` float64, training begins with the same float32 weights and pixels, and every
    step is computed in float64.
    """
    images, labels, test_images, test_labels = data
    initial = jax.tree.map(np.asarray, init(jax.random.key(0), sizes))
    params = jax.tree.map(lambda x: jnp.asarray(x.astype(dtype)), initial)
    state = optimizer().init(params)
    step, predict = (
        make_step(activation),
        jax.jit(lambda p, x: jnp.argmax(forward(p, x, activation), axis=-1)),
    )
    losses, accuracies = [], []
    for epoch in range(epochs):
        rows = order(epoch, len(images))
        for start in range(0, len(rows) - batch + 1, batch):
            if limit is not None and len(losses) == limit:
                return initial, np.array(losses), np.array(accuracies)
            batch_rows = rows[start : start + batch]
            params, state, value = step(
                params, state, images[batch_rows].astype(dtype), labels[batch_rows]
            )
            losses.append(np.asarray(value))
        is_correct = np.asarray(predict(params, test_images.astype(dtype))) == test_labels
        accuracies.append(is_correct.mean())
    return initial, np.array(losses), np.array(accuracies)
