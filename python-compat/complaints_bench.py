"""Measures small JAX programs after public reports of slow programs on CPUs.

    complaints_bench.py --serve

Answers each line of standard input, a JSON request, with a line of numbers, so that
`benches/complaints.rs` can alternate with it. The programs are those of
`benches/support/complaints.rs`, with the same names and numbers. Each is rewritten after the
description of an issue of https://github.com/jax-ml/jax/issues, whose number it cites.
"""

import json
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np
from jax import lax


def wave(dtype, shape, scale):
    """Returns `scale * sin(1), scale * sin(2), …`."""
    steps = np.arange(1, np.prod(shape) + 1, dtype=dtype)
    return jnp.asarray((dtype(scale) * np.sin(steps)).reshape(shape))


def filters(widths, observations):
    """Issue 40150: a chain of 30 Gaussian filters whose carry is a dictionary of 60 scalars."""
    n = 30
    start = {f"mean{i}": jnp.float32(0) for i in range(n)}
    start |= {f"precision{i}": jnp.float32(1) for i in range(n)}

    def step(state, observed):
        after, surprise = {}, jnp.float32(0)
        for i in range(n):
            mean, precision = state[f"mean{i}"], state[f"precision{i}"]
            expected = 1.0 / (1.0 / precision + jnp.exp(widths[i]))
            error = observed - mean
            surprise = surprise + (error * error * expected - jnp.log(expected)) * 0.5
            precision = expected + 1.0
            observed = mean + error / precision
            after |= {f"mean{i}": observed, f"precision{i}": precision}
        return after, surprise

    return lax.scan(step, start, observations)[1].sum()


def factor(p, q, a):
    """Issue 36799: the Cholesky factor of a quasi-separable matrix; the carry is f64[3, 3]."""

    def step(carried, row):
        p, q, a = row
        carried = a @ carried @ a.T
        projected = carried @ p
        diagonal = jnp.sqrt(2.0 - p @ projected)
        row = (q - projected) / diagonal
        return carried + jnp.outer(row, row), (diagonal, row)

    return lax.scan(step, jnp.zeros((3, 3)), (p, q, a))[1]


def history(x):
    """Issue 31282: the derivative of a loop that reads its carry and writes into it."""

    def derivative(position, x):
        def run(x):
            def step(carry, _):
                position, x = carry
                new = 2.0 * jnp.tanh(x[position * 7 // 11] * 0.9 + x[position])
                return (position + 1, x.at[position].set(new)), None

            return lax.scan(step, (position, x), length=x.shape[0])[0][1]

        return jax.linearize(run, x)[1](jnp.ones_like(x))

    return (jax.vmap(derivative)(jnp.zeros(x.shape[0], jnp.int32), x),)


def neuron(logarithms, currents):
    """Issue 26145: a neuron of 8 compartments with the channels of Hodgkin and Huxley."""
    n, dt = 8, 0.025
    sodium, potassium, leak = jnp.exp(logarithms) * jnp.array([120.0, 36.0, 0.3])

    def step(state, current):
        v, m, h, k = state

        def gate(x, opens, closes):
            rate = opens + closes
            end = opens / rate
            return end + (x - end) * jnp.exp(-dt * rate)

        def ramp(u):
            return u / (1.0 - jnp.exp(-u))

        m = gate(m, ramp((v + 40.0) / 10.0), 4.0 * jnp.exp((v + 65.0) / -18.0))
        h = gate(h, 0.07 * jnp.exp((v + 65.0) / -20.0), 1.0 / (jnp.exp((v + 35.0) / -10.0) + 1.0))
        k = gate(k, 0.1 * ramp((v + 55.0) / 10.0), 0.125 * jnp.exp((v + 65.0) / -80.0))
        ions = sodium * m * m * m * h * (v - 50.0)
        ions = ions + potassium * jnp.square(jnp.square(k)) * (v + 77.0) + leak * (v + 54.4)
        left, right = jnp.concatenate([v[:1], v[:-1]]), jnp.concatenate([v[1:], v[-1:]])
        injected = jnp.zeros(n).at[0].set((current + 1.0) * 20.0)
        v = v + (injected + (left + right - v * 2.0) * 2.0 - ions) * dt
        return (v, m, h, k), jnp.square(v).mean()

    start = tuple(jnp.full(n, value) for value in (-65.0, 0.05, 0.6, 0.32))
    return lax.scan(step, start, currents)[1].mean()


def gradients(loss):
    """Returns a function that returns the gradients of all arguments, then the value."""

    def run(*arguments):
        value, gradients = jax.value_and_grad(loss, range(len(arguments)))(*arguments)
        return *gradients, value

    return run


def program(name, scale):
    """Returns a compiled function and its arguments."""
    f32, f64, factors = np.float32, np.float64, 2000 // scale
    function, arguments = {
        "filters": (gradients(filters), [(f32, (30,), 0.3), (f32, (614 // scale,), 1.0)]),
        "factor": (
            factor,
            [(f64, (factors, 3), 0.3), (f64, (factors, 3), 0.4), (f64, (factors, 3, 3), 0.3)],
        ),
        "history": (history, [(f32, (2, 10_000 // scale), 0.5)]),
        "neuron": (gradients(neuron), [(f64, (3,), 0.1), (f64, (1000 // scale,), 1.0)]),
    }[name]
    return jax.jit(function), [wave(*argument) for argument in arguments]


def serve():
    """Answers with seconds of the first call, elements of a result, or milliseconds per call."""
    for line in sys.stdin:
        request = json.loads(line)
        if request["what"] == "start":
            function, arguments = program(request["name"], request["scale"])
            start = time.perf_counter()
            results = jax.block_until_ready(function(*arguments))
            answer = [time.perf_counter() - start]
        elif request["what"] == "result":
            answer = np.asarray(results[request["index"]]).ravel().tolist()
        else:
            calls = request["calls"]
            for _ in range(calls // 4 + 1):
                jax.block_until_ready(function(*arguments))
            start = time.perf_counter_ns()
            for _ in range(calls):
                jax.block_until_ready(function(*arguments))
            answer = [(time.perf_counter_ns() - start) / 1e6 / calls]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
