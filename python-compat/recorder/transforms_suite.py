"""Nested transformations of functions that README.md states as formulas.

`params.function` names the function, and `op` the transformations, outermost first: `vmap(grad)` is
`vmap(grad(f))`. The function's operands come first, then those of the transformations (tangents,
cotangents). `params.operands` names them. Derivatives are by operand 0, `x`, unless the name of the
case states otherwise.
"""

import jax
import jax.numpy as jnp
import numpy as np

from .ops_elementwise import inside
from .suite import Suite

WIDE = ("f32", "f64")
LOOSE = {"f32": {"rtol": 2e-5, "atol": 2e-6}, "f64": {"rtol": 1e-11, "atol": 1e-13}}


def sin_cube(x):
    """sin(x)^3, scalar."""
    return jnp.sin(x) ** 3


def rational(x):
    """(x^2 + 1) / (x + 3) - exp(-x), scalar."""
    return (x**2 + 1) / (x + 3) - jnp.exp(-x)


def logsumexp_chain(x):
    """logsumexp(tanh(x) * x), vector to scalar."""
    return jax.scipy.special.logsumexp(jnp.tanh(x) * x)


def matrix_quadratic(x, a):
    """x^T (A x) / 2 + sum(x^3) / 6, vector to scalar."""
    return x @ (a @ x) / 2 + jnp.sum(x**3) / 6


def tanh_mlp(x, w1, b1, w2):
    """sum(tanh(x W1 + b1) W2), vector to scalar."""
    return jnp.sum(jnp.tanh(x @ w1 + b1) @ w2)


def softmax_rows(x):
    """softmax(x, last axis) * x, matrix to matrix."""
    return jax.nn.softmax(x, axis=-1) * x


def where_gather(x):
    """sum(where(x > 0, log(1 + x^2), x[[2, 0, 1, 2]] * x)), vector of 4 to scalar."""
    return jnp.sum(jnp.where(x > 0, jnp.log(1 + x**2), x[np.array([2, 0, 1, 2])] * x))


def max_cumulative(x):
    """max(x) * prod(x) + sum(sort(x) * [1, 2, 3, 4]), vector of 4 to scalar."""
    return jnp.max(x) * jnp.prod(x) + jnp.sum(jnp.sort(x) * jnp.arange(1, 5, dtype=x.dtype))


SCALAR = {"sin_cube": sin_cube, "rational": rational}
VECTOR = {
    "logsumexp_chain": logsumexp_chain,
    "matrix_quadratic": matrix_quadratic,
    "tanh_mlp": tanh_mlp,
    "where_gather": where_gather,
    "max_cumulative": max_cumulative,
}


def _operands(name, kind, rows=None):
    """Returns the operands of a function. With `rows`, stacks that many `x`."""
    shape = () if name in SCALAR else (4,)
    shape = shape if rows is None else (rows, *shape)
    x = inside(f"{name}x", (0.2, 1.8) if name in SCALAR else (-1.5, 1.5), kind, shape)
    if name == "matrix_quadratic":
        return [x, inside("a", (-1, 1), kind, (4, 4))]
    if name == "tanh_mlp":
        return [
            x,
            inside("w1", (-1, 1), kind, (4, 5)),
            inside("b1", (-1, 1), kind, (5,)),
            inside("w2", (-1, 1), kind, (5, 3)),
        ]
    return [x]


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("transforms", __doc__.strip(), stride=stride, tolerance=LOOSE)
    for kind in WIDE:
        for name, function in (SCALAR | VECTOR).items():
            _nestings(suite, name, function, kind)
        for name, function in SCALAR.items():
            _scalar_only(suite, name, function, kind)
        _matrix(suite, kind)
        _several(suite, kind)
    return suite


def _nestings(suite, name, f, kind):
    def case(op, compute, operands, names):
        # One compiled program records both cases: results with and without jit must agree up to
        # rounding.
        run = jax.jit(compute)
        for label in (op, f"jit({op})"):
            suite.case(
                f"{name}_{label}_{kind}",
                label,
                operands,
                run,
                {"function": name, "operands": names},
            )

    single = _operands(name, kind)
    rest = [f"operand{i}" for i in range(1, len(single))]
    x = single[0]
    v, w = (inside(f"{name}{t}", (-1, 1), kind, x.shape) for t in ("v", "w"))
    batch = _operands(name, kind, rows=3)
    batch_v = inside(f"{name}bv", (-1, 1), kind, batch[0].shape)
    axes = [0] + [None] * len(rest)
    grad = jax.grad(f)
    case("call", f, single, ["x", *rest])
    case("grad", grad, single, ["x", *rest])
    case("value_and_grad", jax.value_and_grad(f), single, ["x", *rest])

    def directional(g):
        """Returns the derivative of `g` by `x` along the last operand."""
        return lambda x, *more: jax.jvp(lambda x: g(x, *more[:-1]), (x,), (more[-1],))

    case("jvp", directional(f), [*single, v], ["x", *rest, "v"])
    case("jvp(grad)", directional(grad), [*single, v], ["x", *rest, "v"])
    case(
        "grad(dot(grad))",
        jax.grad(lambda x, *more: jnp.vdot(grad(x, *more[:-1]), more[-1])),
        [*single, v],
        ["x", *rest, "v"],
    )
    twice = lambda x, *more: directional(lambda x, *inner: directional(f)(x, *inner, more[-2])[1])(
        x, *more[:-2], more[-1]
    )
    case("jvp(jvp)", twice, [*single, v, w], ["x", *rest, "v", "w"])
    case(
        "grad(jvp)",
        jax.grad(lambda x, *more: directional(f)(x, *more)[1]),
        [*single, v],
        ["x", *rest, "v"],
    )
    case(
        "vjp",
        lambda x, *more: jax.vjp(lambda x: f(x, *more[:-1]), x)[1](more[-1]),
        [*single, np.array(0.7, x.dtype)],
        ["x", *rest, "ct"],
    )
    case(
        "linearize",
        lambda x, *more: _linearized(lambda x: f(x, *more[:-1]), x, more[-1]),
        [*single, v],
        ["x", *rest, "v"],
    )
    case("vmap", jax.vmap(f, axes), batch, ["x", *rest])
    case("vmap(grad)", jax.vmap(grad, axes), batch, ["x", *rest])
    case(
        "grad(sum(vmap))", jax.grad(lambda *a: jnp.sum(jax.vmap(f, axes)(*a))), batch, ["x", *rest]
    )
    case(
        "vmap(jvp(grad))",
        jax.vmap(directional(grad), [*axes, 0]),
        [*batch, batch_v],
        ["x", *rest, "v"],
    )
    # The inner jit is a call inside the function that is differentiated and batched.
    case("grad(jit)", jax.grad(jax.jit(f)), single, ["x", *rest])
    case("vmap(grad(jit))", jax.vmap(jax.grad(jax.jit(f)), axes), batch, ["x", *rest])
    if name in VECTOR:
        case("hessian", jax.hessian(f), single, ["x", *rest])
        case("vmap(hessian)", jax.vmap(jax.hessian(f), axes), batch, ["x", *rest])
        if rest:
            case("grad_all", jax.grad(f, argnums=tuple(range(len(single)))), single, ["x", *rest])


def _linearized(f, x, v):
    value, linear = jax.linearize(f, x)
    return [value, linear(v), linear(2 * v)]


def _scalar_only(suite, name, f, kind):
    (x,) = _operands(name, kind)
    for order in (2, 3, 4):
        g = f
        for _ in range(order):
            g = jax.grad(g)
        op = "grad(" * order + "f" + ")" * order
        suite.case(
            f"{name}_{order}_{kind}", op, [x], jax.jit(g), {"function": name, "operands": ["x"]}
        )
    # Perturbation confusion: the inner derivative is by y only.
    nested = lambda x: x * jax.grad(lambda y: x * f(y))(2 * x)
    suite.case(
        f"{name}_confusion_{kind}",
        "confusion",
        [x],
        jax.jit(jax.grad(nested)),
        {"function": name, "operands": ["x"], "formula": "grad(|x| x * grad(|y| x * f(y))(2 x))"},
    )


def _matrix(suite, kind):
    x = inside("rows", (-1, 1), kind, (3, 4))
    v, ct = inside("rv", (-1, 1), kind, (3, 4)), inside("rct", (-1, 1), kind, (3, 4))
    f = softmax_rows
    case = lambda op, inputs, run, names: suite.case(
        f"softmax_rows_{op}_{kind}",
        op,
        inputs,
        jax.jit(run),
        {"function": "softmax_rows", "operands": names},
    )
    case("call", [x], f, ["x"])
    case("jvp", [x, v], lambda x, v: jax.jvp(f, (x,), (v,)), ["x", "v"])
    case("vjp", [x, ct], lambda x, ct: jax.vjp(f, x)[1](ct), ["x", "ct"])
    case("jacfwd", [x[0]], jax.jacfwd(f), ["x"])
    case("jacrev", [x[0]], jax.jacrev(f), ["x"])
    case("vmap_columns", [x], jax.vmap(f, in_axes=1, out_axes=1), ["x"])
    case("vmap_out_last", [x], jax.vmap(f, in_axes=0, out_axes=-1), ["x"])
    pairwise = jax.vmap(jax.vmap(lambda a, b: jnp.sum(f(a * b)), (None, 0)), (0, None))
    case("vmap(vmap)", [x, v], pairwise, ["x", "y"])
    case(
        "grad(sum(vmap(vmap)))",
        [x, v],
        jax.grad(lambda a, b: jnp.sum(pairwise(a, b) ** 2), (0, 1)),
        ["x", "y"],
    )


def _several(suite, kind):
    x, w1, b1, w2 = _operands("tanh_mlp", kind)

    def with_aux(params, x):
        hidden = jnp.tanh(x @ params["w1"] + params["b1"])
        return jnp.sum((hidden @ params["w2"]) ** 2), hidden

    def run(w1, b1, w2, x):
        (value, aux), grads = jax.value_and_grad(with_aux, has_aux=True)(
            {"w1": w1, "b1": b1, "w2": w2}, x
        )
        return [value, aux, grads["w1"], grads["b1"], grads["w2"]]

    params = {
        "function": "with_aux",
        "operands": ["w1", "b1", "w2", "x"],
        "results": ["value", "aux", "d_w1", "d_b1", "d_w2"],
    }
    suite.case(
        f"value_and_grad_aux_{kind}", "value_and_grad(aux)", [w1, b1, w2, x], jax.jit(run), params
    )
    rows = inside("samples", (-1, 1), kind, (6, 4))
    per_example = jax.vmap(lambda w1, b1, w2, x: run(w1, b1, w2, x), (None, None, None, 0))
    suite.case(
        f"per_example_grads_{kind}",
        "vmap(value_and_grad(aux))",
        [w1, b1, w2, rows],
        jax.jit(per_example),
        params,
    )
    stop = lambda x: jnp.sum(jax.lax.stop_gradient(x) ** 2 * x)
    suite.case(
        f"stop_gradient_{kind}",
        "grad",
        [x],
        jax.jit(jax.grad(stop)),
        {"function": "stop_gradient", "operands": ["x"], "formula": "sum(stop_gradient(x)^2 * x)"},
    )
    index = np.array([2, 0, 2], np.int32)
    mixed = lambda x, i: jnp.sum(x[i] ** 2)
    suite.case(
        f"integer_operand_{kind}",
        "grad",
        [x, index],
        jax.jit(jax.grad(mixed)),
        {"function": "integer_operand", "operands": ["x", "i"], "formula": "sum(x[i]^2)"},
    )
