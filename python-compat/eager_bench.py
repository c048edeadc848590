"""Measures JAX outside of jit, with numbers and indices that change from call to call.

    eager_bench.py --serve

Answers each line of standard input, a JSON request, with a line of numbers, so that
`benches/eager.rs` can alternate with it. The rows have the names that they have there.
"""

import json
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

SIZES = [784, 128, 128, 10]
BATCH = 128


def number(n):
    """Returns the number of call `n`."""
    return 1.0 + n * 1e-4


def loss(params, images, labels):
    """Returns the mean cross entropy of a perceptron."""
    x = images
    for index, (weight, bias) in enumerate(params):
        x = x @ weight + bias
        if index + 1 < len(params):
            x = jax.nn.relu(x)
    losses = jax.nn.log_softmax(x)
    return -jnp.take_along_axis(losses, labels[:, None], axis=1).mean()


def rows():
    """Returns a function of `n` for each row."""
    key = jax.random.key(0)
    vector = jax.random.uniform(key, (1000,))
    images = jax.random.uniform(key, (6000, 784))
    small = jax.random.uniform(key, (100, 5))
    params = [
        (jax.random.normal(key, sizes) * 0.05, jnp.zeros(sizes[1]))
        for sizes in zip(SIZES, SIZES[1:])
    ]
    batch = jax.random.uniform(key, (BATCH, SIZES[0]))
    labels = jnp.asarray(np.arange(BATCH) % 10, jnp.int32)

    def slice_rows(n):
        first = n * 7 % 5900
        return images[first : first + 100]

    def train(n):
        nonlocal params
        rate = 0.01 / (1.0 + n * 1e-3)
        value, gradient = jax.value_and_grad(loss)(params, batch, labels)
        params = jax.tree.map(lambda p, g: p - g * rate, params, gradient)
        return value

    return {
        "index": lambda n: vector[n % 1000],
        "slice": slice_rows,
        "set": lambda n: vector.at[n % 1000].set(number(n)),
        "add": lambda n: vector + number(n),
        "grad": lambda n: jax.grad(lambda y: (y * y * number(n)).sum())(vector),
        "vmap": lambda n: jax.vmap(lambda x: x.sum() * number(n))(small),
        "scan": lambda n: jax.lax.scan(
            lambda c, x: (c + x * number(n), None), jnp.float32(0.0), vector
        )[0],
        "normal": lambda n: jax.random.normal(key, (3,)),
        "bits": lambda n: jax.random.bits(key, (1_000_000,)),
        "normals": lambda n: jax.random.normal(key, (1_000_000,)),
        "train": train,
    }


def serve():
    """Answers requests with the microseconds per call."""
    calls_of = rows()
    for line in sys.stdin:
        request = json.loads(line)
        call, first, calls = calls_of[request["what"]], request["first"], request["calls"]
        start = time.perf_counter_ns()
        for n in range(first, first + calls):
            result = call(n)
        np.asarray(result)
        print(json.dumps([(time.perf_counter_ns() - start) / 1000 / calls]), flush=True)


if __name__ == "__main__":
    serve()
