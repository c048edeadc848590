"""Recomputation, loops, platforms, host functions and trees under transforms."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.ad_checkpoint import checkpoint_name
from jax.flatten_util import ravel_pytree

from .api_table import I, Row
from .autodiff_derivatives import FLOATS, HALVES, WIDE, Z

_policies = jax.checkpoint_policies
POLICIES = {
    "nothing": _policies.nothing_saveable,
    "everything": _policies.everything_saveable,
    "dots": _policies.dots_saveable,
    "dots_without_batch": _policies.dots_with_no_batch_dims_saveable,
    "names": _policies.save_only_these_names("hidden"),
    "all_but_names": _policies.save_anything_except_these_names("hidden"),
    "any_names_but": _policies.save_any_names_but_these("hidden"),
    "dots_or_names": _policies.save_from_both_policies(
        _policies.dots_saveable, _policies.save_only_these_names("gate")
    ),
}


def block(x, w):
    """A product, two named values and a product with a batch axis."""
    hidden = checkpoint_name(jnp.tanh(x @ w), "hidden")
    gate = checkpoint_name(jnp.sin(hidden) * hidden, "gate")
    scores = jnp.einsum("bi,bi->b", gate, hidden)
    return (jnp.exp(gate) * scores[:, None]).sum()


def _remat(policy):
    run = jax.checkpoint(block, policy=policy)
    return lambda x, w: jax.tree.leaves(jax.value_and_grad(run, (0, 1))(x, w))


def _hessian_product(x, w, v):
    run = jax.checkpoint(block, policy=POLICIES["names"])
    return [jax.jvp(lambda x: jax.grad(run)(x, w), (x,), (v,))[1]]


_BLOCK = [Z((2, 3)), Z((3, 3))]

# Recomputed values of `bf16` differ in their roundings, which fusions of the compiler leave out.
_ROUNDED = {"rtol": 3e-2, "atol": 6e-2}
REMAT = [
    Row(f"remat_{name}", _BLOCK, _remat(policy), (0, 1), ("f32",), batch=False)
    for name, policy in POLICIES.items()
]
REMAT += [
    Row(f"remat_{name}", _BLOCK, _remat(policy), None, ("bf16",), False, tolerance=_ROUNDED)
    for name, policy in POLICIES.items()
]
REMAT += [Row("remat_hvp", [*_BLOCK, Z((2, 3))], _hessian_product, (0,), WIDE)]


def add_residuals(suite):
    """Adds the values of `block` with the lists of the stored values."""
    from jax._src.ad_checkpoint import saved_residuals

    operands = [z.draw(f"residuals{i}", "f32") for i, z in enumerate(_BLOCK)]
    runs = {name: jax.checkpoint(block, policy=policy) for name, policy in POLICIES.items()}
    # JAX names a value that this policy recomputes, because another value equals it.
    del runs["all_but_names"]
    for name, run in ({"none": block} | runs).items():
        lines = sorted(_residual(*entry) for entry in saved_residuals(run, *operands))
        # Derivatives of the same functions differ in their operations.
        more = {}
        if name in ("none", "everything"):
            lines = [line for line in lines if "named" in line or "argument" in line]
            more = {"only_named": True}
        suite.case(
            f"residuals_{name}",
            f"residuals_{name}",
            operands,
            jax.jit(lambda x, w: [block(x, w)]),
            {"family": "programs"},
            residuals=lines,
            **more,
        )


def _residual(aval, source):
    """Returns the type and the origin of a stored value: `f32[2,3] named hidden`."""
    kind = f"f32[{','.join(map(str, aval.shape))}]"
    assert aval.dtype == np.float32, aval
    if source.startswith("from the argument"):
        return f"{kind} argument"
    if source.startswith("named"):
        return f"{kind} named {source.split()[1].strip(chr(39))}"
    return f"{kind} {source.split(' from ')[0]}"


def _fori(unroll):
    def run(x, w):
        body = lambda i, y: jnp.tanh(w @ y) + y / (i + 2)
        return [jax.lax.fori_loop(0, 7, body, x, unroll=unroll)]

    return run


def _fori_grad(x, w):
    f = lambda x, w: _fori(3)(x, w)[0].sum()
    return list(jax.grad(f, (0, 1))(x, w))


_LOOP = [Z((3,)), Z((3, 3))]
LOOPS = [
    Row("fori_unroll_1", _LOOP, _fori(1), (0, 1), FLOATS),
    Row("fori_unroll_3", _LOOP, _fori(3), (0, 1), WIDE),
    Row("fori_unroll_all", _LOOP, _fori(True), (0, 1), ("f32", "bf16")),
    Row("fori_unroll_grad", _LOOP, _fori_grad, (0,), WIDE),
]


def _by_platform(x):
    f = lambda x: jax.lax.platform_dependent(x, cpu=jnp.sin, default=jnp.tanh)
    return [f(x), jax.grad(lambda x: (f(x) * x).sum())(x)]


def _on_host(x, y):
    """x y, plus the number of elements of y and ten times its rank."""
    y = np.asarray(y)
    factor = y.reshape(y.shape + (1,) * (x.ndim - y.ndim))
    return (np.asarray(x) * factor + (y.size + 10 * y.ndim)).astype(x.dtype)


def _callback(method):
    def call(x, y):
        result = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(_on_host, result, x, y, vmap_method=method)

    return call


def _host(method, axes):
    return lambda x, y: [jax.vmap(_callback(method), axes)(x, y)]


def _host_nested(method):
    def run(x, y):
        return [jax.vmap(jax.vmap(_callback(method), (0, None)), (None, 0))(x, y)]

    return run


HOST = [Row("callback_call", [Z((3,)), Z(())], lambda x, y: [_callback(None)(x, y)], batch=False)]
for _method in ("sequential", "expand_dims", "broadcast_all"):
    HOST += [
        Row(f"callback_{_method}", [Z((4, 3)), Z((4,))], _host(_method, 0), None, WIDE, False),
        Row(
            f"callback_{_method}_one",
            [Z((4, 3)), Z(())],
            _host(_method, (0, None)),
            None,
            WIDE,
            False,
        ),
    ]
HOST.append(
    Row("callback_nested", [Z((4, 3)), Z((2,))], _host_nested("sequential"), None, WIDE, False)
)


def _ravel(a, b):
    flat, unravel = ravel_pytree({"a": a, "b": (b,)})
    return [flat, *jax.tree.leaves(unravel(flat * flat))]


def _ravel_mixed(a, n):
    flat, unravel = ravel_pytree((a, n))
    return [flat, *unravel(flat)]


def _ravel_hessian(a, b):
    flat, unravel = ravel_pytree((a, b))

    def loss(flat):
        a, b = unravel(flat)
        return (jnp.sin(a @ b) ** 2).sum()

    return [jax.hessian(loss)(flat)]


def _tree_sums(a, b):
    tree = {"a": a, "b": [b]}
    other = jax.tree.map(jnp.cos, tree)
    return [optax.tree.sum(tree), optax.tree.vdot(tree, other), optax.tree.norm(tree)]


def _tree_steps(a, b):
    tree = {"a": a, "b": [b]}
    moved = optax.tree.add_scale(tree, 0.5, jax.tree.map(jnp.sin, tree))
    clipped = optax.tree.scale(2.0, optax.tree.sub(moved, tree))
    return jax.tree.leaves(optax.tree.mul(clipped, tree))


def _tree_prefix(a, b):
    tree = {"a": a, "b": [b, a]}
    prefix = {"a": jnp.float32(2), "b": jnp.float32(3)}
    scales = jax.tree.broadcast(prefix, tree)
    return jax.tree.leaves(jax.tree.map(lambda s, x: s.astype(x.dtype) * x, scales, tree))


def _tree_transposed(a, b):
    pairs = [(a, b), (b * 2, a * 2)]
    outer, inner = jax.tree.structure([0, 0]), jax.tree.structure((0, 0))
    return jax.tree.leaves(jax.tree.transpose(outer, inner, pairs))


_PAIR = [Z((2, 3)), Z((3,))]
TREES = [
    Row("ravel", _PAIR, _ravel, (0, 1), (*HALVES, "c64")),
    Row("ravel_mixed", [Z((2, 2)), I((3,))], _ravel_mixed, None, FLOATS, batch=False),
    Row("ravel_hessian", _PAIR, _ravel_hessian, (0,), WIDE),
    Row("tree_sums", _PAIR, _tree_sums, (0, 1), (*WIDE, "c64")),
    Row("tree_steps", _PAIR, _tree_steps, (0, 1), (*FLOATS, "c64")),
    Row("tree_prefix", _PAIR, _tree_prefix, None, FLOATS, batch=False),
    Row("tree_transposed", [Z((3,)), Z((3,))], _tree_transposed, (0, 1), WIDE),
]

ROWS = [
    *REMAT,
    *LOOPS,
    Row("platform_dependent", [Z((3,))], _by_platform, (0,), FLOATS),
    *HOST,
    *TREES,
]
