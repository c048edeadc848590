"""Solves Burgers' equation with a network, trained by L-BFGS.

Raissi, Perdikaris, Karniadakis: Physics-informed neural networks (2019), example 1: the loss is the
mean square of the equation's residual inside the domain, and of the error at its border.
"""

import jax
import jax.numpy as jnp
import optax

jax.config.update("jax_enable_x64", True)

STEPS = 60
INSIDE = 512
BORDER = 128
VISCOSITY = 0.05
SIZES = [2, 16, 16, 16, 1]


def init(key):
    """Returns weights [in, out] and biases of all layers."""
    scales = [(2 / (a + b)) ** 0.5 for a, b in zip(SIZES, SIZES[1:])]
    keys = jax.random.split(key, len(scales))
    weights = [
        s * jax.random.normal(k, shape) for s, k, shape in zip(scales, keys, zip(SIZES, SIZES[1:]))
    ]
    return [(w, jnp.zeros(w.shape[1])) for w in weights]


def u(params, t, x):
    """Returns the velocity at a time and place, both scalars."""
    h = jnp.stack([t, x])
    for w, b in params[:-1]:
        h = jnp.tanh(h @ w + b)
    w, b = params[-1]
    return (h @ w + b)[0]


def residual(params, t, x):
    """Returns the violation of the equation."""
    u_t = jax.grad(u, argnums=1)(params, t, x)
    u_x = jax.grad(u, argnums=2)
    u_xx = jax.grad(u_x, argnums=2)(params, t, x)
    return u_t + u(params, t, x) * u_x(params, t, x) - VISCOSITY * u_xx


def train(steps):
    """Returns the loss of each step, and the velocity at a point."""
    k_net, k_t, k_x, k_start, k_border = jax.random.split(jax.random.key(0), 5)
    inside = jax.random.uniform(k_t, (INSIDE,)), jax.random.uniform(k_x, (INSIDE,), minval=-1.0)
    x_start = jax.random.uniform(k_start, (BORDER,), minval=-1.0)
    t_border = jax.random.uniform(k_border, (BORDER,))

    def loss(params):
        velocity = jax.vmap(lambda t, x: u(params, t, x))
        equation = jax.vmap(lambda t, x: residual(params, t, x))(*inside)
        start = velocity(jnp.zeros(BORDER), x_start) + jnp.sin(jnp.pi * x_start)
        left = velocity(t_border, -jnp.ones(BORDER))
        right = velocity(t_border, jnp.ones(BORDER))
        return sum((error**2).mean() for error in (equation, start, left, right))

    params = init(k_net)
    tx = optax.lbfgs()
    state = tx.init(params)

    @jax.jit
    def step(params, state):
        value, grads = optax.value_and_grad_from_state(loss)(params, state=state)
        updates, state = tx.update(
            grads, state, params, value=value, grad=grads, value_fn=loss
        )
        return optax.apply_updates(params, updates), state, value

    losses = []
    for _ in range(steps):
        params, state, value = step(params, state)
        losses.append(float(value))
    return losses, float(u(params, 0.5, 0.5))


if __name__ == "__main__":
    losses, velocity = train(STEPS)
    print(f"loss      {losses[0]:.5f} -> {losses[-1]:.5f}")
    print(f"velocity  {velocity:.4f}")
