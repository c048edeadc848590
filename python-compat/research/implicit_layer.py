"""Learns a regularizer, with the denoiser as an implicit layer.

The layer returns the minimum of an energy. Each step of the solver minimizes a quadratic bound by
conjugate gradients. The derivative follows from the implicit function theorem: one more linear
system. Domke: Generic methods for optimization-based modeling (2012).
"""

import jax
import jax.numpy as jnp
import optax
from jax.scipy.sparse.linalg import cg

jax.config.update("jax_enable_x64", True)

STEPS = 150
SOLVER_STEPS = 30
SMOOTHING = 0.01
SIGNALS = 32
POINTS = 64
FILTERS = 4


def edges(z, p):
    """Returns the responses of the filters to a signal [n], [filters, n - 2]."""
    return jax.vmap(lambda f: jnp.convolve(z, f, "valid"))(p["filters"])


def energy(z, y, p):
    """Returns the energy of a signal z [n] for noisy data y [n]."""
    penalty = jnp.sqrt(edges(z, p) ** 2 + SMOOTHING)
    return ((z - y) ** 2).sum() / 2 + (jax.nn.softplus(p["weights"])[:, None] * penalty).sum()


def bound(z, near, y, p):
    """Returns a quadratic function that touches the energy at `near` and is nowhere below it."""
    curvature = jax.nn.softplus(p["weights"])[:, None] / jnp.sqrt(edges(near, p) ** 2 + SMOOTHING)
    return ((z - y) ** 2).sum() / 2 + (curvature * edges(z, p) ** 2).sum() / 2


def solve(f, z, b):
    """Returns the product of the inverse Hessian of f at z with b."""
    product = lambda v: jax.jvp(jax.grad(f), (z,), (v,))[1]
    return cg(product, b, tol=1e-12, maxiter=100)[0]


@jax.custom_vjp
def denoise(y, p):
    """Returns the signal of least energy."""
    step = lambda _, z: solve(lambda v: bound(v, z, y, p), z, y)
    return jax.lax.fori_loop(0, SOLVER_STEPS, step, y)


def denoise_fwd(y, p):
    z = denoise(y, p)
    return z, (z, y, p)


def denoise_bwd(residuals, cotangent):
    z, y, p = residuals
    u = solve(lambda z: energy(z, y, p), z, cotangent)
    return jax.vjp(lambda y, p: -jax.grad(energy)(z, y, p), y, p)[1](u)


denoise.defvjp(denoise_fwd, denoise_bwd)


def steps_of(key):
    """Returns a signal with a few jumps."""
    k_where, k_size = jax.random.split(key)
    where = jax.random.uniform(k_where, (4,), maxval=POINTS)
    heights = jax.random.normal(k_size, (4,))
    return (heights * (jnp.arange(POINTS)[:, None] >= where)).sum(-1)


def train(steps):
    """Returns the loss of each step, and the error on other signals."""
    k_clean, k_noise, k_filters = jax.random.split(jax.random.key(0), 3)
    clean = jax.vmap(steps_of)(jax.random.split(k_clean, 2 * SIGNALS))
    noisy = clean + 0.3 * jax.random.normal(k_noise, clean.shape)
    filters = 0.5 * jax.random.normal(k_filters, (FILTERS, 3))
    params = {"filters": filters, "weights": jnp.full(FILTERS, -3.0)}
    tx = optax.adam(0.01)
    state = tx.init(params)

    def loss(p, y, truth):
        return ((jax.vmap(lambda y: denoise(y, p))(y) - truth) ** 2).mean()

    @jax.jit
    def step(params, state):
        value, grads = jax.value_and_grad(loss)(params, noisy[:SIGNALS], clean[:SIGNALS])
        updates, state = tx.update(grads, state)
        return optax.apply_updates(params, updates), state, value

    losses = []
    for _ in range(steps):
        params, state, value = step(params, state)
        losses.append(float(value))
    return losses, float(loss(params, noisy[SIGNALS:], clean[SIGNALS:]))


if __name__ == "__main__":
    losses, error = train(STEPS)
    print(f"loss      {losses[0]:.4f} -> {losses[-1]:.4f}")
    print(f"unseen    {error:.4f}")
