"""Functions that the tests record, export and compare."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Weights(NamedTuple):
    w: Any
    b: Any


def predict(weights, x):
    """A layer with softmax."""
    hidden = jnp.tanh(x @ weights.w + weights.b)
    return {"classes": jax.nn.softmax(hidden), "norm": jnp.sum(hidden**2)}


def loss(weights, x):
    return jnp.mean((x @ weights["w"] - 1.0) ** 2)


def wide(x):
    return x * 2 + 1


def prints(x):
    jax.debug.print("{}", x)
    return x


def looped(key, x):
    """A loop, a conditional, a nested `jit` and random numbers."""
    noise = jax.random.normal(key, x.shape)
    body = lambda c, y: (c * 0.5 + y, jax.jit(jnp.sin)(c))
    last, history = jax.lax.scan(body, x[0], x + noise)
    return jax.lax.cond(last.sum() > 0, lambda: last, lambda: -last), history


def batch():
    return np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def key():
    return jax.random.key_data(jax.random.key(0))
