"""Taylor mode, Jacobians with options, and linear maps."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.jet import jet

from .api_table import Row
from .names import dtype
from .suite import seed

WIDE = ("f32", "f64")
FLOATS = ("f32", "f64", "bf16")
HALVES = ("f32", "f64", "bf16", "f16")
COMPLEX = ("c64", "c128")


@dataclass(frozen=True)
class Z:
    """Real numbers from an interval, or complex numbers from a square, by the dtype of the case."""

    shape: tuple
    low: float = -1.0
    high: float = 1.0

    def draw(self, name, kind):
        """Draws the array."""
        rng = np.random.default_rng(seed(name))
        values = rng.uniform(self.low, self.high, self.shape)
        if dtype(kind).kind == "c":
            values = values + 1j * rng.uniform(self.low, self.high, self.shape)
        return values.astype(dtype(kind))


def _flat(value, series):
    return [value, *series]


CURVES = {
    "exp_sin": lambda x: jnp.exp(jnp.sin(x)),
    "rational": lambda x: (x * x + 1) / (x + 3),
    "log_tanh": lambda x: jnp.log(x * x + 2) * jnp.tanh(x),
    "roots": lambda x: jnp.sqrt(x + 3) + jax.lax.integer_pow(x, 5),
    "logistic": lambda x: jax.lax.logistic(x) * x,
    "cumsum_max": lambda x: jnp.cumsum(jnp.sin(x)) * jnp.max(x),
    "softmax": lambda x: jax.nn.softmax(x * x),
}


def _jet(f, order):
    def run(x, *series):
        return _flat(*jet(f, (x,), (list(series[:order]),)))

    return run


def _taylor(name, f, kinds=WIDE, order=3):
    operands = [Z((3,))] + [Z((3,)) for _ in range(order)]
    return Row(f"jet_{name}", operands, _jet(f, order), (0,), kinds)


def _jet_mlp(x, w, x1, x2, x3):
    return _flat(*jet(lambda x: jnp.tanh(x @ w).sum(), (x,), ([x1, x2, x3],)))


def _jet_two(x, y, x1, x2, y1, y2):
    f = lambda x, y: jnp.sin(x) * y / (1 + y * y)
    return _flat(*jet(f, (x, y), ([x1, x2], [y1, y2])))


def entire(z, w):
    """sin(w z) z, a holomorphic function of a vector."""
    return jnp.sin(w @ z) * z


def entire_total(z, w):
    """Sum of the elements of `entire`."""
    return entire(z, w).sum()


def _holomorphic(name, run, wrt=(0,)):
    return Row(f"holomorphic_{name}", [Z((3,)), Z((3, 3))], run, wrt, COMPLEX)


def layer(w, b, x):
    """A layer with two outputs and a pair of auxiliary values."""
    hidden = jnp.tanh(x @ w + b)
    return (hidden, (hidden * hidden).sum()), (x * 2, hidden.sum())


def _leaves(result):
    return jax.tree.leaves(result)


def _of_layer(transform):
    def run(w, b, x):
        return _leaves(transform(lambda p: layer(*p, x), has_aux=True)((w, b)))

    return run


def _scalar_layer(p, x):
    (_, total), aux = layer(*p, x)
    return total, aux


def _of_scalar(transform):
    def run(w, b, x):
        return _leaves(transform(lambda p: _scalar_layer(p, x), has_aux=True)((w, b)))

    return run


_LAYER = [Z((2, 3)), Z((3,)), Z((2,))]


def _linearized(x, w, t, ts):
    value, tangent = jax.linearize(lambda x: jnp.tanh(w @ x) * x, x)
    return [value, tangent(t), tangent(2 * t), jax.vmap(tangent)(ts)]


def _linearized_aux(x, w, t):
    f = lambda x: (jnp.tanh(w @ x), jnp.exp(x))
    value, tangent, aux = jax.linearize(f, x, has_aux=True)
    return [value, tangent(t), aux]


def _pulled_back(x, w, ct, cts):
    f = lambda x: (jnp.tanh(w @ x), jnp.exp(x))
    value, pullback, aux = jax.vjp(f, x, has_aux=True)
    return [value, aux, pullback(ct)[0], jax.vmap(pullback)(cts)[0]]


def _transposed(w, ct):
    x = jax.ShapeDtypeStruct((3,), w.dtype)
    return [jax.linear_transpose(lambda x: jnp.cumsum(w @ x) * 2, x)(ct)[0]]


def _real_parts(x, y):
    """Gradients of a real function of complex numbers."""
    f = lambda x: (jnp.abs(x * y) ** 2).sum() + jnp.real(jnp.exp(x)).sum()
    return [jax.grad(f)(x)]


ROWS = [
    *[_taylor(name, f) for name, f in CURVES.items()],
    _taylor("entire", lambda z: jnp.exp(jnp.sin(z)) / (z + 3), COMPLEX),
    Row("jet_mlp", [Z((4,)), Z((4, 5)), Z((4,)), Z((4,)), Z((4,))], _jet_mlp, (0, 1), WIDE),
    Row("jet_two", [Z((2,)) for _ in range(6)], _jet_two, (0, 1), WIDE),
    _holomorphic("grad", lambda z, w: [jax.grad(entire_total, holomorphic=True)(z, w)]),
    _holomorphic(
        "value_and_grad", lambda z, w: jax.value_and_grad(entire_total, holomorphic=True)(z, w)
    ),
    _holomorphic("jacfwd", lambda z, w: [jax.jacfwd(entire, holomorphic=True)(z, w)]),
    _holomorphic("jacrev", lambda z, w: [jax.jacrev(entire, holomorphic=True)(z, w)]),
    _holomorphic("hessian", lambda z, w: [jax.hessian(entire_total, holomorphic=True)(z, w)]),
    Row("grad_complex", [Z((3,)), Z((3,))], _real_parts, (0,), COMPLEX),
    Row("jacfwd_aux", _LAYER, _of_layer(jax.jacfwd), (0, 2), FLOATS),
    Row("jacrev_aux", _LAYER, _of_layer(jax.jacrev), (0, 2), ("f32", "bf16")),
    Row("hessian_aux", _LAYER, _of_layer(jax.hessian), (0,), WIDE),
    Row("grad_aux", _LAYER, _of_scalar(jax.grad), (0, 1, 2), ("f32", "f16")),
    Row("value_and_grad_aux", _LAYER, _of_scalar(jax.value_and_grad), (0, 2), ("f32", "bf16")),
    Row(
        "linearize",
        [Z((3,)), Z((3, 3)), Z((3,)), Z((2, 3))],
        _linearized,
        (0, 1, 2),
        ("f32", "f64", "bf16", "c64"),
    ),
    Row("linearize_aux", [Z((3,)), Z((3, 3)), Z((3,))], _linearized_aux, (0, 2), WIDE),
    Row(
        "vjp_aux",
        [Z((3,)), Z((2, 3)), Z((2,)), Z((4, 2))],
        _pulled_back,
        (0, 2),
        ("f32", "f64", "f16", "c128"),
    ),
    Row("linear_transpose", [Z((4, 3)), Z((4,))], _transposed, (0, 1), HALVES),
]
