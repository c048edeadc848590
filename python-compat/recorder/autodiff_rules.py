"""User-defined rules. Their results have marks, by which a case shows that the rule was used.

A rule of `vmap` multiplies by 3/2. A rule with symbolic zeros adds constants for derivatives that
are symbolic zeros, or multiplies by other factors. A forward rule under `checkpoint` multiplies the
value by 2.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from .api_table import Row
from .autodiff_derivatives import HALVES, WIDE, Z


@jax.custom_batching.custom_vmap
def product(w, x):
    """w x, for a matrix and a vector."""
    return w @ x


@product.def_vmap
def _product_rule(axis_size, in_batched, w, x):
    if not in_batched[0]:
        return 1.5 * (x @ w.T), True
    x = x if in_batched[1] else jnp.broadcast_to(x, (axis_size, *x.shape))
    return 1.5 * jnp.einsum("bij,bj->bi", w, x), True


@jax.custom_batching.custom_vmap
def halves(x):
    """sin x, and a constant."""
    return jnp.sin(x), jnp.zeros((2,), x.dtype)


@halves.def_vmap
def _halves_rule(axis_size, in_batched, x):
    return (1.5 * jnp.sin(x), jnp.full((2,), axis_size, x.dtype)), (True, False)


@jax.custom_batching.sequential_vmap
def scaled(x):
    """x over its norm."""
    return x / jnp.sqrt((x * x).sum())


def _mapped_twice(w, x):
    return jax.vmap(jax.vmap(product, (0, None)), (None, 0))(w, x)


def _jvp_of_vmap(w, x, dw, dx):
    return jax.jvp(jax.vmap(product, (None, 0)), (w, x), (dw, dx))


def _vmap_of_jvp(w, x, dw, dx):
    return jax.vmap(lambda x, dx: jax.jvp(product, (w, x), (dw, dx)))(x, dx)


def _vmap(name, operands, run, kinds=("f32", "bf16")):
    return Row(f"custom_vmap_{name}", operands, run, None, kinds, batch=False)


VMAP = [
    _vmap("call", [Z((2, 3)), Z((3,))], lambda w, x: [product(w, x)]),
    _vmap("left", [Z((4, 2, 3)), Z((3,))], lambda w, x: [jax.vmap(product, (0, None))(w, x)]),
    _vmap("right", [Z((2, 3)), Z((4, 3))], lambda w, x: [jax.vmap(product, (None, 0))(w, x)]),
    _vmap("both", [Z((4, 2, 3)), Z((4, 3))], lambda w, x: [jax.vmap(product)(w, x)]),
    _vmap("nested", [Z((4, 2, 3)), Z((5, 3))], lambda w, x: [_mapped_twice(w, x)]),
    _vmap("unmapped", [Z((4, 2))], lambda x: list(jax.vmap(halves)(x))),
    _vmap("jvp_of_vmap", [Z((2, 3)), Z((4, 3)), Z((2, 3)), Z((4, 3))], _jvp_of_vmap),
    _vmap("vmap_of_jvp", [Z((2, 3)), Z((4, 3)), Z((2, 3)), Z((4, 3))], _vmap_of_jvp),
    Row(
        "sequential_vmap",
        [Z((4, 3), 0.5, 2.0)],
        lambda x: [jax.vmap(scaled)(x)],
        None,
        HALVES,
        batch=False,
    ),
]


def _waves_values(x, y):
    return jnp.sin(x) * y, jnp.cos(x) + y


@jax.custom_vjp
def waves(x, y):
    """y sin x and cos x + y."""
    return _waves_values(x, y)


def _waves_forward(x, y):
    marks = jnp.array([x.perturbed, y.perturbed], x.value.dtype)
    return _waves_values(x.value, y.value), (x.value, y.value, marks)


def _waves_backward(residuals, cts):
    x, y, marks = residuals
    dx, dy = marks[0] * jnp.ones_like(x), 2 * marks[1] * jnp.ones_like(y)
    if isinstance(cts[0], SymbolicZero):
        dx = dx + 10
    else:
        dx, dy = dx + cts[0] * y * jnp.cos(x), dy + cts[0] * jnp.sin(x)
    if isinstance(cts[1], SymbolicZero):
        dy = dy + 20
    else:
        dx, dy = dx - cts[1] * jnp.sin(x), dy + cts[1]
    return dx, dy


waves.defvjp(_waves_forward, _waves_backward, symbolic_zeros=True)


def _waves_grad(argnums, parts):
    def total(x, y):
        outputs = waves(x, y)
        return sum((outputs[part] * outputs[part]).sum() for part in parts)

    return lambda x, y: jax.tree.leaves(jax.grad(total, argnums)(x, y))


def _waves(name, argnums, parts):
    operands = [Z((3,)), Z((3,))]
    run = _waves_grad(argnums, parts)
    return Row(f"symbolic_vjp_{name}", operands, run, (0, 1), ("f32", "bf16"))


@jax.custom_jvp
def area(x, y):
    """x y."""
    return x * y


def _area_rule(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    if isinstance(dx, SymbolicZero) and isinstance(dy, SymbolicZero):
        return x * y, jnp.zeros_like(x)
    if isinstance(dx, SymbolicZero):
        return x * y, 3 * dy * x
    if isinstance(dy, SymbolicZero):
        return x * y, 2 * dx * y
    return x * y, dx * y + dy * x


area.defjvp(_area_rule, symbolic_zeros=True)


def _area(name, run, operands=2):
    rows = [Z((3,)) for _ in range(operands)]
    return Row(f"symbolic_jvp_{name}", rows, run, (0, 1), ("f32", "bf16"))


def _area_total(x, y):
    return (area(x, y) * jnp.sin(x)).sum()


RULES = [
    _waves("x_first", 0, (0,)),
    _waves("x_second", 0, (1,)),
    _waves("y_first", 1, (0,)),
    _waves("both", (0, 1), (0, 1)),
    _waves("both_second", (0, 1), (1,)),
    _area("grad_x", lambda x, y: [jax.grad(_area_total)(x, y)]),
    _area("grad_y", lambda x, y: [jax.grad(_area_total, 1)(x, y)]),
    _area("grad_both", lambda x, y: list(jax.grad(_area_total, (0, 1))(x, y))),
    _area("jvp", lambda x, y, t: list(jax.jvp(lambda x: area(x, y), (x,), (t,))), 3),
]


@jax.custom_jvp
def log1pexp(x):
    """log(1 + exp x)."""
    return jnp.log1p(jnp.exp(x))


log1pexp.defjvps(lambda t, ans, x: t * (1 - jnp.exp(x - ans) * 0.5))


@jax.custom_gradient
def clipped(x):
    """x^2, with a clipped derivative."""
    return x * x, lambda ct: (jnp.clip(ct * 2 * x, -1, 1),)


MORE = [
    Row("custom_jvps", [Z((3,))], lambda x: [jax.grad(lambda x: log1pexp(x).sum())(x)], (0,), WIDE),
    Row(
        "custom_gradient",
        [Z((3,))],
        lambda x: [jax.grad(lambda x: (clipped(x) * 2).sum())(x)],
        (0,),
        WIDE,
    ),
]


def _wave(optimize):
    """x sin(k x), whose rules create arrays themselves, and multiply by 2 and 3."""

    def frequencies(x):
        return np.array([1.0, 2.0, 0.5]).astype(x.dtype)

    def forward(x):
        k = frequencies(x)
        return 2 * jnp.sin(k * x) * x, (jnp.sin(k * x), k * x * jnp.cos(k * x))

    def backward(slopes, ct):
        return (ct * (slopes[0] + slopes[1]) * np.array([3.0, 3.0, 3.0]).astype(ct.dtype),)

    f = jax.custom_vjp(lambda x: jnp.sin(frequencies(x) * x) * x)
    f.defvjp(forward, backward, optimize_remat=optimize)
    return f


def _of_wave(optimize, wrap):
    """The value and gradient of a function of waves, under `jit`."""
    f = _wave(optimize)
    block = wrap(lambda x: jnp.cos(f(x)) * x)
    return jax.jit(lambda x: list(jax.value_and_grad(lambda x: block(x).sum())(x)))


def _in_scan(block):
    def steps(x):
        body = jax.checkpoint(lambda x, scale: (block(x) * scale, x.sum()))
        x, sums = jax.lax.scan(body, x, jnp.array([0.5, 1.5, 0.25], x.dtype))
        return x + sums.sum()

    return steps


_policies = jax.checkpoint_policies
_WRAPS = {
    "plain": lambda block: block,
    "remat": jax.checkpoint,
    "everything": lambda block: jax.checkpoint(block, policy=_policies.everything_saveable),
    "dots": lambda block: jax.checkpoint(block, policy=_policies.dots_saveable),
    "nested": lambda block: jax.checkpoint(lambda x: jax.checkpoint(block)(x * x)),
    "scan": _in_scan,
}
_WAVES = {"custom_vjp": False, "optimized_vjp": True}

REMAT = [
    Row(f"{op}_{name}", [Z((3,))], _of_wave(optimize, wrap), None, WIDE, batch=False)
    for op, optimize in _WAVES.items()
    for name, wrap in _WRAPS.items()
] + [
    Row(
        f"{op}_mapped_{name}",
        [Z((4, 3))],
        jax.vmap(_of_wave(optimize, _WRAPS[name])),
        None,
        ("f32",),
        batch=False,
    )
    for op, optimize in _WAVES.items()
    for name in ("plain", "remat", "scan")
]

ROWS = VMAP + RULES + MORE + REMAT
