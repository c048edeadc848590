"""Measures small JAX programs that are loops.

    loops_bench.py --serve

Answers each line of standard input, a JSON request, with a line of numbers, so that
`benches/loops.rs` can alternate with it. The programs are those of `benches/support/loops.rs`, with
the same names and numbers.
"""

import json
import os
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def wave(shape, scale):
    """Returns `scale * sin(1), scale * sin(2), …`."""
    steps = np.arange(1, np.prod(shape) + 1, dtype=np.float32)
    return jnp.asarray((np.float32(scale) * np.sin(steps)).reshape(shape))


def cable(parameters):
    """Twelve coupled FitzHugh-Nagumo compartments with two scalars each."""
    diffusion, rate, offset, current = (parameters[i] for i in range(4))
    n = 12
    start = [jnp.float32(0.05 * i - 0.6) for i in range(2 * n)]

    def step(state, _):
        v, w = state[:n], state[n:]
        after = []
        for i in range(n):
            left, right = v[max(i - 1, 0)], v[min(i + 1, n - 1)]
            flow = diffusion * (left + right - v[i] * 2.0)
            cubic = v[i] * v[i] * v[i] * (1.0 / 3.0)
            after.append(v[i] + (v[i] - cubic - w[i] + flow + current) * 0.01)
        for i in range(n):
            after.append(w[i] + rate * (v[i] + offset - w[i] * 0.8) * 0.01)
        return after, None

    end, _ = lax.scan(step, start, length=1000)
    return sum(x * x for x in end)


def kalman(noise, h, ys):
    """The negative log-likelihood of scalar observations of a state of four dimensions."""
    transition = jnp.eye(4) * 0.95 + jnp.eye(4, k=1) * 0.1
    noise = noise @ noise.T + jnp.eye(4) * 0.1

    def step(carry, y):
        mean, p = carry
        mean = transition @ mean
        p = transition @ p @ transition.T + noise
        ph = p @ h
        s = h @ ph + 0.5
        error = y - h @ mean
        gain = ph / s
        mean = mean + gain * error
        p = p - jnp.outer(gain, ph)
        return (mean, p), jnp.log(s) + error**2 / s

    return lax.scan(step, (jnp.zeros(4), jnp.eye(4)), ys)[1].sum()


def lstm(of_input, of_state, bias, inputs):
    def step(carry, x):
        c, h = carry
        gates = x @ of_input + h @ of_state + bias
        i, f, g, o = jnp.split(gates, 4, axis=1)
        c = jax.nn.sigmoid(i) * c + jax.nn.sigmoid(f) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (c, h), h

    zeros = jnp.zeros((1, 32))
    return (lax.scan(step, (zeros, zeros), inputs)[1] ** 2).sum()


def ode(first, second, third, start):
    def field(y):
        return jnp.tanh(jnp.tanh(y @ first) @ second) @ third

    def step(y, _):
        h = 0.05
        k1 = field(y)
        k2 = field(y + k1 * (h / 2))
        k3 = field(y + k2 * (h / 2))
        k4 = field(y + k3 * h)
        return y + (k1 + (k2 + k3) * 2.0 + k4) * (h / 6), None

    return (lax.scan(step, start, length=200)[0] ** 2).sum()


def hmc(factor, start):
    precision = factor @ factor.T + jnp.eye(8)

    def energy(q):
        return (q @ precision * q).sum(1) * 0.5

    def kinetic(p):
        return (p * p).sum(1) * 0.5

    def sample(q, key):
        of_momentum, of_choice = jax.random.split(key)
        p = jax.random.normal(of_momentum, (64, 8))

        def leapfrog(_, state):
            q, p = state
            p = p - q @ precision * 0.05
            q = q + p * 0.1
            p = p - q @ precision * 0.05
            return q, p

        new, momentum = lax.fori_loop(0, 8, leapfrog, (q, p))
        change = energy(q) + kinetic(p) - energy(new) - kinetic(momentum)
        accepted = jnp.log(jax.random.uniform(of_choice, (64,))) < change
        after = jnp.where(accepted[:, None], new, q)
        return after, after.mean()

    keys = jax.random.split(jax.random.key(0), 100)
    return lax.scan(sample, start, keys)


def gradients(loss, arguments):
    """Returns the gradients of all arguments, then the value."""
    value, gradients = jax.value_and_grad(loss, range(len(arguments)))(*arguments)
    return *gradients, value


def programs():
    """Returns each program as a compiled function without arguments."""
    losses = {
        "cable": (cable, [wave((4,), 0.3)]),
        "kalman": (kalman, [wave((4, 4), 0.1), wave((4,), 1.0), wave((1000,), 1.0)]),
        "lstm": (
            lstm,
            [
                wave((32, 128), 0.1),
                wave((32, 128), 0.1),
                wave((128,), 0.1),
                wave((500, 1, 32), 1.0),
            ],
        ),
        "ode": (
            ode,
            [wave((2, 32), 0.2), wave((32, 32), 0.2), wave((32, 2), 0.2), wave((2,), 1.0)],
        ),
    }
    functions = {}
    for name, (loss, arguments) in losses.items():
        step = jax.jit(lambda arguments, loss=loss: gradients(loss, arguments))
        functions[name] = lambda step=step, arguments=arguments: step(arguments)
    sampler, arguments = jax.jit(hmc), [wave((8, 8), 0.1), wave((64, 8), 1.0)]
    functions["hmc"] = lambda: sampler(*arguments)
    return functions


def serve():
    """Answers requests with the elements of a result, or the milliseconds per call."""
    functions = programs()
    for line in sys.stdin:
        request = json.loads(line)
        run = functions[request["name"]]
        if request["what"] == "results":
            answer = np.asarray(run()[request["index"]]).ravel().tolist()
        else:
            calls = request["calls"]
            for _ in range(calls // 4 + 1):
                jax.block_until_ready(run())
            start = time.perf_counter_ns()
            for _ in range(calls):
                jax.block_until_ready(run())
            answer = [(time.perf_counter_ns() - start) / 1e6 / calls]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
