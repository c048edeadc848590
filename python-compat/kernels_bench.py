"""Measures the functions of the benchmark `kernels` in JAX.

    kernels_bench.py --serve

Answers each line of standard input, a JSON request, with a line of numbers, so that
`benches/kernels.rs` can alternate with it. The functions are those of `benches/support/kernels.rs`,
with the same names and arguments.
"""

import json
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np


def wave(shape, scale, step):
    """Returns `scale * sin(step), scale * sin(2 * step), …`."""
    numbers = np.sin(np.arange(1, np.prod(shape) + 1, dtype=np.float64) * step)
    return jnp.asarray((np.float32(scale) * numbers.astype(np.float32)).reshape(shape))


def attention(q, k, v):
    return [jax.nn.dot_product_attention(q, k, v, is_causal=True)]


def attention_gradient(q, k, v):
    def loss(q, k, v):
        return jnp.sum(jnp.square(attention(q, k, v)[0]))

    return jax.grad(loss, argnums=(0, 1, 2))(q, k, v)


def cases():
    """Returns functions and their arguments by name."""
    shape = (1, 2048, 12, 64)
    qkv = [wave(shape, 1.0, 1.0), wave(shape, 1.0, 0.7), wave(shape, 1.0, 0.3)]
    return {"attention": (attention, qkv), "attention_gradient": (attention_gradient, qkv)}


def serve():
    """Answers requests with sums of absolute results, MB of temporaries, or milliseconds."""
    compiled = {
        name: (jax.jit(function).lower(*arguments).compile(), arguments)
        for name, (function, arguments) in cases().items()
    }
    for line in sys.stdin:
        request = json.loads(line)
        run, arguments = compiled[request["name"]]
        if request["what"] == "sums":
            results = run(*arguments)
            answer = [float(np.abs(np.asarray(x, dtype=np.float64)).sum()) for x in results]
        elif request["what"] == "memory":
            answer = [run.memory_analysis().temp_size_in_bytes / 1e6]
        else:
            start = time.perf_counter_ns()
            jax.block_until_ready(run(*arguments))
            answer = [(time.perf_counter_ns() - start) / 1e6]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
