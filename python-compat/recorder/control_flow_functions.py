"""Functions with loops and conditionals. README.md states them as formulas.

Each takes arrays and returns a list of arrays. `control_flow_suite.py` transforms them.
"""

import jax
import jax.numpy as jnp
from jax import lax

FUNCTIONS = {}


def function(f):
    """Registers a function under its name."""
    FUNCTIONS[f.__name__] = f
    return f


@function
def running_sum(xs):
    total, sums = lax.scan(lambda c, x: (c + x, c + x), jnp.zeros_like(xs[0]), xs)
    return [total, sums]


@function
def running_product_back(xs):
    last, all_ = lax.scan(lambda c, x: (c * x, c), jnp.ones_like(xs[0]), xs, reverse=True)
    return [last, all_]


@function
def rnn(xs, w_h, w_x, b, h0):
    def step(h, x):
        h = jnp.tanh(h @ w_h + x @ w_x + b)
        return h, h * x[0]

    last, ys = lax.scan(step, h0, xs)
    return [last, ys]


@function
def lstm(xs, w, h0, c0):
    def step(carry, x):
        h, c = carry
        i, f, g, o = jnp.split(jnp.concatenate([x, h]) @ w, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    (h, c), hs = lax.scan(step, (h0, c0), xs)
    return [h, c, hs]


@function
def nested(rows, a):
    def row(c, xs):
        inner, ys = lax.scan(lambda d, x: (jnp.sin(d * a + x) + c, d * x), c, xs)
        return inner * 0.5, ys

    last, ys = lax.scan(row, a, rows)
    return [last, ys]


@function
def powers(x):
    last, all_ = lax.scan(lambda p, _: (p * x, p), jnp.ones_like(x), None, length=5)
    return [last, all_]


@function
def unrolled(xs, a):
    def step(c, x):
        c = jnp.cos(c) * a + x
        return c, c * x

    last, ys = lax.scan(step, a, xs, unroll=3)
    again, zs = lax.scan(step, a, xs, unroll=True, reverse=True)
    return [last, ys, again, zs]


@function
def counted(table):
    def step(carry, _):
        i, total = carry
        return (i + 1, total + jnp.sin(table[i]) * table[i]), total

    (_, total), totals = lax.scan(step, (0, jnp.zeros_like(table[0])), None, length=table.shape[0])
    return [total, totals]


@function
def carried_weights(xs, w):
    def step(carry, x):
        return {"w": carry["w"], "h": jnp.tanh(carry["w"] @ carry["h"] + x)}, ()

    out, _ = lax.scan(step, {"w": w, "h": jnp.zeros_like(xs[0])}, xs)
    return [out["w"], out["h"]]


@function
def no_steps(xs, c):
    last, ys = lax.scan(lambda c, x: (c * x, c + x), c, xs[:0])
    return [last, ys]


@function
def weak_start(xs):
    last, ys = lax.scan(lambda c, x: (c + x, c * 2), 0, xs)
    return [last, ys]


@function
def van_der_pol(y0, mu):
    def field(y):
        return jnp.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])

    def rk4(y, _):
        h = 0.1
        k1 = field(y)
        k2 = field(y + h / 2 * k1)
        k3 = field(y + h / 2 * k2)
        k4 = field(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y[0]

    last, path = lax.scan(rk4, y0, None, length=20)
    return [last, path]


@function
def streamed_logsumexp(xs):
    def step(carry, x):
        m, s = carry
        top = jnp.maximum(m, x)
        return (top, s * jnp.exp(m - top) + jnp.exp(x - top)), ()

    (m, s), _ = lax.scan(step, (xs[0], jnp.ones_like(xs[0])), xs[1:])
    return [m + jnp.log(s)]


@function
def choice(x, a):
    return [lax.cond(jnp.sum(x) > 0, lambda x: jnp.sin(x) * a, lambda x: x * x, x)]


@function
def choice_of_pairs(x, a):
    y, z = lax.cond(a > 0, lambda: (x * a, jnp.exp(x)), lambda: (jnp.zeros_like(x), x + a))
    return [y, z]


@function
def switched(x, i):
    return [
        lax.switch(i, [jnp.sin, lambda x: x * x * x, lambda x: jnp.zeros_like(x) + 2, jnp.exp], x)
    ]


@function
def choice_in_scan(xs, a):
    def step(c, x):
        c = lax.cond(x > 0, lambda c: jnp.sin(c * a) + x, lambda c: c * x * 0.5, c)
        return c, c

    last, ys = lax.scan(step, a, xs)
    return [last, ys]


@function
def scan_in_choice(xs, a):
    def looped(a):
        return lax.scan(lambda c, x: (jnp.tanh(c * a + x), c), a, xs)

    last, ys = lax.cond(a > 0, looped, lambda a: (a * 2, xs * a), a)
    return [last, ys]


@function
def halvings(x):
    n, y = lax.while_loop(
        lambda c: jnp.abs(c[1]) > 0.1,
        lambda c: (c[0] + 1, c[1] * 0.5 * jnp.cos(c[1])),
        (jnp.int32(0), x),
    )
    return [n, y]


@function
def newton_root(a):
    is_far = lambda c: (jnp.abs(c[0] ** 3 - a) > 1e-4) & (c[1] < 20)
    x, n = lax.while_loop(
        is_far,
        lambda c: (c[0] - (c[0] ** 3 - a) / (3 * c[0] ** 2), c[1] + 1),
        (jnp.ones_like(a) * 2, jnp.int32(0)),
    )
    return [x, n]


@function
def shared_steps(x, n):
    _, y = lax.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sin(c[1]) + x), (jnp.zeros_like(n), x)
    )
    return [y]


@function
def equilibrium(x, w):
    """Solves z = tanh(w z + x) by iteration, and its implicit gradient by another iteration."""
    f = lambda z, x, w: jnp.tanh(w @ z + x)

    def has_changed(c):
        z, previous, n = c
        return (jnp.max(jnp.abs(z - previous)) > 1e-6) & (n < 100)

    z, _, _ = lax.while_loop(
        has_changed,
        lambda c: (f(c[0], x, w), c[0], c[2] + 1),
        (f(jnp.zeros_like(x), x, w), jnp.zeros_like(x), 0),
    )
    ct = 2 * z
    _, pull_z = jax.vjp(lambda z: f(z, x, w), z)
    u = lax.fori_loop(0, 40, lambda i, u: ct + pull_z(u)[0], ct)
    _, pull = jax.vjp(lambda x, w: f(z, x, w), x, w)
    dx, dw = pull(u)
    return [z, dx, dw]


@function
def fixed_power_iteration(m):
    v = lax.fori_loop(
        0, 6, lambda i, v: (m @ v) / jnp.linalg.norm(m @ v), jnp.ones(m.shape[0], m.dtype)
    )
    return [v, v @ m @ v]


@function
def indexed_loop(x):
    return [lax.fori_loop(1, 4, lambda i, y: y * x[i] + i, x[0])]


@function
def open_bound(x, n):
    return [lax.fori_loop(0, n, lambda i, y: jnp.sin(y) * x + i, x)]


@function
def mapped(rows, a):
    return [lax.map(lambda r: jnp.sum(jnp.sin(r) * a), rows)]


@function
def mapped_batches(rows, a):
    return [lax.map(lambda r: jnp.sum(jnp.sin(r) * a), rows, batch_size=2)]


@function
def partial_sums(x):
    return [lax.associative_scan(jnp.add, x), lax.associative_scan(jnp.add, x, reverse=True)]


@function
def partial_maxima(x):
    return [lax.associative_scan(jnp.maximum, x, axis=-1)]


@function
def partial_products_of_matrices(ms):
    return [lax.associative_scan(jnp.matmul, ms)]


@function
def linear_recurrence(a, b):
    """Computes h_t = a_t h_{t-1} + b_t."""
    join = lambda l, r: (r[0] * l[0], r[0] * l[1] + r[1])
    return list(lax.associative_scan(join, (a, b)))


@function
def learned_start(w, xs):
    """Computes a differentiable loss after three steps of gradient descent from `w`."""
    inner = lambda w: jnp.sum((jnp.tanh(xs @ w) - 0.5) ** 2)
    adapted, _ = lax.scan(lambda w, _: (w - 0.1 * jax.grad(inner)(w), ()), w, None, length=3)
    return [jnp.sum((jnp.tanh(xs @ adapted) + 0.1) ** 2)]
