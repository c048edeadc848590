"""More functions of `control_flow_functions.py`: custom reductions, linear solves and roots."""

import jax
import jax.numpy as jnp
from jax import lax

from .control_flow_functions import function

STEPS = 100


@function
def reduced_pairs(a, b):
    """Multiplies complex numbers whose real and imaginary parts are separate operands."""
    times = lambda x, y: (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0])
    one, zero = jnp.ones((), a.dtype), jnp.zeros((), a.dtype)
    # JAX cannot differentiate by only one of the parts.
    return list(lax.reduce((a * b, a + b), (one, zero), times, (0,)))


@function
def reduced_logsumexp(x):
    return [lax.reduce(x, jnp.array(-jnp.inf, x.dtype), jnp.logaddexp, (1,))]


@function
def reduced_sum(x):
    return [
        lax.reduce(x, jnp.zeros((), x.dtype), lax.add, (0, 1)),
        lax.reduce(x, jnp.ones((), x.dtype), lax.mul, (1,)),
    ]


@function
def reduced_farthest(x):
    def farther(a, b):
        first = jnp.abs(a[0]) > jnp.abs(b[0])
        return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])

    return list(
        lax.reduce((x, jnp.cos(x)), (jnp.zeros((), x.dtype), jnp.zeros((), x.dtype)), farther, (0,))
    )


def richardson(matvec, b):
    """Iterates x + (b - A x) / 5."""
    return lax.while_loop(
        lambda c: c[0] < STEPS,
        lambda c: (c[0] + 1, c[1] + 0.2 * (b - matvec(c[1]))),
        (0, jnp.zeros_like(b)),
    )[1]


@function
def solved_symmetric(a, b):
    m = 4 * jnp.eye(3, dtype=a.dtype) + 0.3 * (a + a.T)
    return [lax.custom_linear_solve(lambda x: m @ x, b, richardson, symmetric=True)]


@function
def solved_general(a, b):
    m = 4 * jnp.eye(3, dtype=a.dtype) + a
    return [lax.custom_linear_solve(lambda x: m @ x, b, richardson, transpose_solve=richardson)]


@function
def solved_with_aux(a, b):
    m = 4 * jnp.eye(3, dtype=a.dtype) + 0.3 * (a + a.T)
    solve = lambda matvec, b: (richardson(matvec, b), jnp.sum(b * b))
    return list(lax.custom_linear_solve(lambda x: m @ x, b, solve, symmetric=True, has_aux=True))


@function
def cubic_root(a):
    f = lambda x: x * x * x + 2 * x - a

    def newton(f, x):
        return lax.while_loop(
            lambda c: c[0] < 30,
            lambda c: (c[0] + 1, c[1] - f(c[1]) / (3 * c[1] * c[1] + 2)),
            (0, x),
        )[1]

    return [lax.custom_root(f, jnp.ones_like(a), newton, lambda g, y: y / g(jnp.ones_like(y)))]


@function
def implicit_equilibrium(x, w):
    f = lambda z: jnp.tanh(0.3 * w @ z + x) - z
    iterate = lambda f, z: lax.while_loop(
        lambda c: c[0] < STEPS, lambda c: (c[0] + 1, c[1] + f(c[1])), (0, z)
    )[1]
    tangent_solve = lambda g, y: jnp.linalg.solve(jax.jacobian(g)(y), y)
    return [lax.custom_root(f, jnp.zeros_like(x), iterate, tangent_solve)]
