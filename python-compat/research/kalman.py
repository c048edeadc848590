"""Fits the Kalman filter of a damped oscillator to noisy measurements of its position.

Kalman: A new approach to linear filtering and prediction problems (1960). The likelihood of the
measurements is that of their one-step predictions, and Adam climbs its gradient through the filter.
"""

import jax
import jax.numpy as jnp
import optax

jax.config.update("jax_enable_x64", True)

STEPS = 300
SERIES = 16
TIMES = 100
TRUTH = {"frequency": 0.5, "damping": 0.05, "process": jnp.log(0.1), "noise": jnp.log(0.3)}


def transition(p):
    """Returns the matrix of one time step of the oscillator, [2, 2]."""
    c, s = jnp.cos(p["frequency"]), jnp.sin(p["frequency"])
    return jnp.exp(-p["damping"]) * jnp.array([[c, s], [-s, c]])


def simulate(p, key):
    """Returns the measurements [t] of an oscillator that noise drives."""
    k_start, k_process, k_noise = jax.random.split(key, 3)
    shocks = jnp.exp(p["process"]) * jax.random.normal(k_process, (TIMES, 2))

    def step(x, shock):
        x = transition(p) @ x + shock
        return x, x[0]

    positions = jax.lax.scan(step, jax.random.normal(k_start, (2,)), shocks)[1]
    return positions + jnp.exp(p["noise"]) * jax.random.normal(k_noise, (TIMES,))


def log_likelihood(p, measured):
    """Returns the log density of the measurements [t], divided by their number."""
    a, h = transition(p), jnp.array([1.0, 0.0])
    q, r = jnp.exp(2 * p["process"]) * jnp.eye(2), jnp.exp(2 * p["noise"])

    def step(state, y):
        mean, cov = state
        mean, cov = a @ mean, a @ cov @ a.T + q
        variance, error = h @ cov @ h + r, y - h @ mean
        gain = cov @ h / variance
        mean, cov = mean + gain * error, cov - jnp.outer(gain, h @ cov)
        return (mean, cov), jax.scipy.stats.norm.logpdf(error, scale=jnp.sqrt(variance))

    return jax.lax.scan(step, (jnp.zeros(2), jnp.eye(2)), measured)[1].mean()


def train(steps):
    """Returns the loss of each step, and the fitted frequency."""
    simulated = jax.vmap(lambda key: simulate(TRUTH, key))
    measured = simulated(jax.random.split(jax.random.key(0), SERIES))
    params = {name: jnp.array(0.0) for name in TRUTH} | {"frequency": jnp.array(0.7)}
    tx = optax.adam(0.02)
    state = tx.init(params)

    def loss(p):
        return -jax.vmap(lambda series: log_likelihood(p, series))(measured).mean()

    @jax.jit
    def step(params, state):
        value, grads = jax.value_and_grad(loss)(params)
        updates, state = tx.update(grads, state)
        return optax.apply_updates(params, updates), state, value

    losses = []
    for _ in range(steps):
        params, state, value = step(params, state)
        losses.append(float(value))
    return losses, float(params["frequency"])


if __name__ == "__main__":
    losses, frequency = train(STEPS)
    print(f"loss      {losses[0]:.4f} -> {losses[-1]:.4f}")
    print(f"frequency {frequency:.4f}")
