"""Measures the cross entropy of GPT-2's head in JAX.

    cross_entropy_bench.py --serve

Answers each line of standard input, a JSON request, with a line of numbers, so that
`benches/cross_entropy.rs` can alternate with it: the milliseconds of a call, or the megabytes of
intermediate values.
"""

import functools
import json
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp

FEATURES = 768
VOCABULARY = 50257


def loss(operands, labels):
    """The mean cross entropy of the labels, from logits."""
    x, w = operands
    logits = x @ w.T
    picked = jnp.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]
    return (jax.nn.logsumexp(logits, axis=-1) - picked).mean()


@functools.cache
def program(rows, gradients):
    """Returns the compiled program and its operands."""
    x = jax.random.normal(jax.random.key(0), (rows, FEATURES))
    w = jax.random.normal(jax.random.key(1), (VOCABULARY, FEATURES)) * 0.02
    labels = jax.random.randint(jax.random.key(2), (rows,), 0, VOCABULARY)
    function = jax.jit(jax.value_and_grad(loss) if gradients else loss)
    return function.lower((x, w), labels).compile(), ((x, w), labels)


def serve():
    """Answers requests."""
    for line in sys.stdin:
        request = json.loads(line)
        compiled, operands = program(request["rows"], request["gradients"])
        if request["what"] == "memory":
            answer = [compiled.memory_analysis().temp_size_in_bytes / 1e6]
        else:
            start = time.perf_counter_ns()
            jax.block_until_ready(compiled(*operands))
            answer = [(time.perf_counter_ns() - start) / 1e6]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
