"""Composite functions of `jax.numpy`, `jax.nn` and `jax.scipy.special`: values and derivatives.

`op` is JAX's name. Operators are recorded with operands of different shapes, and of different
dtypes where promotion matters.
"""

import jax
import jax.numpy as jnp
import numpy as np

from . import numpy_arrays, numpy_indexing
from .ops_elementwise import edges, inside
from .ops_shape import sample
from .suite import Suite

WIDE = ("f32", "f64")


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("numpy", __doc__.strip(), stride=stride)
    _operators(suite)
    _products(suite)
    _activations(suite)
    _statistics(suite)
    numpy_arrays.add(suite)
    numpy_indexing.add(suite)
    return suite


def _operators(suite):
    table = {
        "add": jnp.add,
        "subtract": jnp.subtract,
        "multiply": jnp.multiply,
        "divide": jnp.divide,
        "maximum": jnp.maximum,
        "minimum": jnp.minimum,
        "power": jnp.power,
        "remainder": jnp.remainder,
        "floor_divide": jnp.floor_divide,
        "arctan2": jnp.arctan2,
    }
    shapes = [
        ((2, 3), (3,)),
        ((2, 3), ()),
        ((4, 1), (1, 5)),
        ((1,), (2, 3)),
        ((0, 3), (1, 3)),
        ((2, 1, 3), (4, 1)),
    ]
    for op, function in table.items():
        for kind in WIDE:
            for left, right in shapes:
                x, y = (
                    inside(f"{op}l", (0.3, 4), kind, left),
                    inside(f"{op}r", (0.3, 3), kind, right),
                )
                label = "x".join(map(str, left)) + "_" + "x".join(map(str, right))
                wrt = None if op == "floor_divide" else [0, 1]
                suite.case(
                    f"{op}_{kind}_{label}",
                    op,
                    [x, y],
                    function if wrt else jax.jit(function),
                    wrt=wrt,
                )
        for left, right in (
            ("i32", "f32"),
            ("i8", "u8"),
            ("bf16", "f32"),
            ("f16", "bf16"),
            ("i64", "f32"),
            ("bool", "f32"),
            ("u8", "i32"),
            ("i32", "i32"),
        ):
            x = edges(left)[-3:] if left == "bool" else np.array([7, 2, 5, 100], edges(left).dtype)
            y = np.array([2, 3, 1, 7], edges(right).dtype)
            suite.case(
                f"{op}_{left}_{right}",
                op,
                [x[: len(y)] if left != "bool" else np.resize(x, 4), y],
                jax.jit(function),
            )
    signs = (
        np.array([7, -7, 7, -7, 6, -6, 0], np.int32),
        np.array([3, 3, -3, -3, 2, -2, 5], np.int32),
    )
    for op in ("remainder", "floor_divide", "divide"):
        for kind in ("i32", "f32", "f64", "i8"):
            x, y = (v.astype(edges(kind).dtype) for v in signs)
            suite.case(f"{op}_signs_{kind}", op, [x, y], jax.jit(table[op]))
    for kind in ("i32", *WIDE):
        for y in (0, 1, 2, 3, 0.5, -1):
            if kind == "i32" and (y != int(y) or y < 0):
                continue
            x = (
                inside("power", (0.5, 3), kind)
                if kind in WIDE
                else np.array([-3, 0, 2, 7], np.int32)
            )
            run = lambda x, y=y: jnp.power(x, y)
            suite.case(
                f"power_scalar_{y}_{kind}",
                "power_scalar",
                [x],
                run if kind in WIDE else jax.jit(run),
                {"y": y},
                wrt=[0] if kind in WIDE else None,
            )
    for op in ("sign", "square", "isnan", "isinf", "isfinite", "abs", "reciprocal", "signbit"):
        for kind in ("f32", "bf16"):
            suite.case(f"{op}_{kind}", op, [edges(kind)], jax.jit(getattr(jnp, op)))
    for op in ("equal", "less", "greater_equal", "logical_and", "logical_or", "logical_xor"):
        suite.case(
            f"{op}_broadcast",
            op,
            [sample("lg", "i32", (2, 3)) % 3, np.array([0, 1, 2], np.float32)],
            jax.jit(getattr(jnp, op)),
        )
    for kind in WIDE:
        x, low, high = (
            inside("clip", (-3, 3), kind),
            np.array(-1, edges(kind).dtype),
            np.array([0.5, 1, 1.5, 2, 0], edges(kind).dtype),
        )
        suite.case(f"clip_{kind}", "clip", [x, low, high], jnp.clip, wrt=[0, 1, 2])
        predicate = inside("where", (-1, 1), "f32", (3, 1)) > 0
        suite.case(f"where_{kind}", "where", [predicate, x, high], jnp.where, wrt=[1, 2])
        # The branch that is not taken is infinite. Its zero cotangent times infinity must not give
        # NaN.
        points = np.array([0.0, 1.0, -1.0, 4.0], edges(kind).dtype)
        run = lambda x: jnp.where(x > 0, jnp.sqrt(x), jnp.zeros_like(x))
        suite.case(
            f"where_trap_{kind}",
            "where_sqrt",
            [points],
            run,
            {"formula": "where(x > 0, sqrt(x), 0)"},
            wrt=[0],
        )


def _products(suite):
    shapes = {"v": (4,), "m": (3, 4), "b": (2, 3, 4), "bb": (5, 1, 3, 4)}
    rights = {"v": (4,), "m": (4, 2), "b": (2, 4, 2), "bb": (1, 2, 4, 6)}
    for kind in (*WIDE, "c64", "bf16", "i32"):
        for left, left_shape in shapes.items():
            for right, right_shape in rights.items():
                if kind in ("c64", "bf16", "i32") and (left, right) not in (("m", "m"), ("b", "b")):
                    continue
                x, y = sample("ml", kind, left_shape), sample("mr", kind, right_shape)
                wrt = [0, 1] if kind in (*WIDE, "c64") else None
                suite.case(
                    f"matmul_{left}_{right}_{kind}",
                    "matmul",
                    [x, y],
                    jnp.matmul if wrt else jax.jit(jnp.matmul),
                    wrt=wrt,
                )
    specs = [
        ("ij,jk->ik", (3, 4), (4, 2)), ("ij,jk", (3, 4), (4, 2)), ("ij,kj->ik", (3, 4), (2, 4)),
        ("i,i->", (4,), (4,)), ("i,j->ij", (3,), (2,)), ("ij->ji", (3, 4)), ("ij->", (3, 4)),
        ("ij->j", (3, 4)), ("ii->i", (3, 3)), ("ii->", (3, 3)),
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
        ("bhqk,bkhd->bqhd", (2, 2, 3, 5), (2, 5, 2, 4)), ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
        ("...i->...", (2, 3, 4)), ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
        ("i,i,i->i", (3,), (3,), (3,)), ("ij,ij->i", (3, 4), (3, 4)), ("ij,j->ij", (3, 4), (4,)),
        ("abc,cb->a", (2, 3, 4), (4, 3)), ("ij,k->kji", (2, 3), (2,)),
        ("iij,j->i", (3, 3, 2), (2,)), ("b...d,d->b...", (2, 3, 4), (4,)), ("ba", (2, 3)),
        ("ij,ji->", (3, 4), (4, 3)),
    ]  # fmt: skip
    for index, (spec, *operands) in enumerate(specs):
        for kind in WIDE if index % 5 else (*WIDE, "bf16"):
            arrays = [sample(f"einsum{i}", kind, shape) for i, shape in enumerate(operands)]
            run = lambda *xs, s=spec: jnp.einsum(s, *xs)
            wrt = list(range(len(arrays))) if kind in WIDE else None
            suite.case(
                f"einsum_{index}_{kind}",
                "einsum",
                arrays,
                run if wrt else jax.jit(run),
                {"spec": spec},
                wrt=wrt,
            )
    for kind in WIDE:
        for op, left, right in (
            ("dot", (4,), (4,)),
            ("dot", (2, 3), (3,)),
            ("dot", (2, 3), (4, 3, 2)),
            ("dot", (), (2, 2)),
            ("vdot", (2, 3), (2, 3)),
            ("outer", (3,), (4,)),
            ("inner", (2, 3), (4, 3)),
        ):
            arrays = [sample("dl", kind, left), sample("dr", kind, right)]
            suite.case(
                f"{op}_{len(left)}_{len(right)}_{kind}", op, arrays, getattr(jnp, op), wrt=[0, 1]
            )
        for label, left, right, axes in (
            ("int", (2, 3, 4), (3, 4, 5), 2),
            ("lists", (2, 3, 4), (4, 2, 5), [[0, 2], [1, 0]]),
            ("zero", (2,), (3,), 0),
        ):
            arrays = [sample("tl", kind, left), sample("tr", kind, right)]
            run = lambda x, y, a=axes: jnp.tensordot(x, y, axes=a)
            suite.case(
                f"tensordot_{label}_{kind}", "tensordot", arrays, run, {"axes": axes}, wrt=[0, 1]
            )


def _activations(suite):
    table = {
        "relu": jax.nn.relu,
        "gelu_tanh": jax.nn.gelu,
        "gelu_erf": lambda x: jax.nn.gelu(x, approximate=False),
        "silu": jax.nn.silu,
        "sigmoid": jax.nn.sigmoid,
        "softplus": jax.nn.softplus,
        "elu": jax.nn.elu,
        "leaky_relu": jax.nn.leaky_relu,
        "tanh": jnp.tanh,
        "log_sigmoid": jax.nn.log_sigmoid,
        "relu6": jax.nn.relu6,
        "soft_sign": jax.nn.soft_sign,
    }
    for op, function in table.items():
        for kind in WIDE:
            suite.case(f"{op}_{kind}", op, [inside(op, (-4, 4), kind)], function, wrt=[0])
            # Zero, and large numbers for which a naive formula overflows.
            points = np.array(
                [0.0, -0.0, 30.0, -30.0, 90.0, -90.0, 1000.0, -1000.0], edges(kind).dtype
            )
            suite.case(f"{op}_{kind}_far", op, [points], function, wrt=[0])
        for kind in ("bf16", "f16"):
            suite.case(f"{op}_{kind}", op, [inside(op, (-4, 4), kind)], jax.jit(function))
    for alpha in (0.3,):
        for kind in WIDE:
            for op in ("elu", "leaky_relu"):
                run = lambda x, f=table[op]: f(x, alpha)
                suite.case(
                    f"{op}_{alpha}_{kind}",
                    op,
                    [inside(op, (-4, 4), kind)],
                    run,
                    {"alpha": alpha},
                    wrt=[0],
                )
    softs = {
        "softmax": jax.nn.softmax,
        "log_softmax": jax.nn.log_softmax,
        "logsumexp": jax.scipy.special.logsumexp,
    }
    for op, function in softs.items():
        for kind in WIDE:
            for label, shape, axis in (
                ("last", (3, 5), -1),
                ("first", (3, 5), 0),
                ("both", (3, 5), [0, 1]),
                ("rank3", (2, 3, 4), 1),
                ("single", (3, 1), -1),
            ):
                run = lambda x, f=function, a=axis: f(
                    x, axis=tuple(a) if isinstance(a, list) else a
                )
                suite.case(
                    f"{op}_{label}_{kind}",
                    op,
                    [inside(op, (-5, 5), kind, shape)],
                    run,
                    {"axis": axis},
                    wrt=[0],
                )
            big = np.array(
                [[1000.0, 1001.0, 999.0], [-1000.0, -1000.5, -2000.0], [0.0, -np.inf, 1.0]],
                edges(kind).dtype,
            )
            suite.case(
                f"{op}_large_{kind}",
                op,
                [big],
                lambda x, f=function: f(x, axis=-1),
                {"axis": -1},
                wrt=[0],
            )
            infinite = np.array([[-np.inf] * 3, [np.inf, 0, 1], [np.nan, 0, 1]], edges(kind).dtype)
            suite.case(
                f"{op}_infinite_{kind}",
                op,
                [infinite],
                jax.jit(lambda x, f=function: f(x, axis=-1)),
                {"axis": -1},
            )
        suite.case(
            f"{op}_bf16",
            op,
            [inside(op, (-5, 5), "bf16")],
            jax.jit(lambda x, f=function: f(x, axis=-1)),
            {"axis": -1},
        )
    for kind in WIDE:
        x = inside("lse", (-2, 2), kind)
        run = lambda x: jax.scipy.special.logsumexp(x, axis=1, keepdims=True)
        suite.case(
            f"logsumexp_keepdims_{kind}",
            "logsumexp",
            [x],
            run,
            {"axis": 1, "keepdims": True},
            wrt=[0],
        )
        weights = np.abs(inside("weights", (0.1, 2), kind))
        run = lambda x, b: jax.scipy.special.logsumexp(x, axis=1, b=b)
        suite.case(
            f"logsumexp_weights_{kind}", "logsumexp", [x, weights], run, {"axis": 1}, wrt=[0, 1]
        )
    labels = np.array([[0, 2], [3, -1], [4, 1]], np.int32)
    for axis in (-1, 0):
        for kind in ("f32", "bf16", "i32"):
            run = jax.jit(
                lambda i, a=axis, k=kind: jax.nn.one_hot(i, 4, dtype=edges(k).dtype, axis=a)
            )
            suite.case(
                f"one_hot_{axis}_{kind}",
                "one_hot",
                [labels],
                run,
                {"num_classes": 4, "axis": axis, "dtype": kind},
            )


def _statistics(suite):
    for kind in WIDE:
        x = inside("stat", (-3, 3), kind, (2, 3, 4))
        for axis in (None, 0, -1, [0, 2]):
            for keep in (False, True):
                label = (
                    f"{'all' if axis is None else axis if not isinstance(axis, list) else '02'}_"
                    f"{'keep' if keep else 'drop'}_{kind}"
                )
                options = {
                    "axis": tuple(axis) if isinstance(axis, list) else axis,
                    "keepdims": keep,
                }
                params = {"axis": axis, "keepdims": keep}
                for op in ("sum", "prod", "mean", "max", "min"):
                    suite.case(
                        f"{op}_{label}",
                        op,
                        [x],
                        lambda x, f=getattr(jnp, op), o=options: f(x, **o),
                        params,
                        wrt=[0],
                    )
                for op in ("var", "std"):
                    for ddof in (0, 1):
                        run = lambda x, f=getattr(jnp, op), o=options, d=ddof: f(x, ddof=d, **o)
                        suite.case(
                            f"{op}_{ddof}_{label}", op, [x], run, params | {"ddof": ddof}, wrt=[0]
                        )
        for order in (1, 2, "inf"):
            for axis in (0, -1):
                run = lambda x, o=order, a=axis: jnp.linalg.norm(
                    x, ord=np.inf if o == "inf" else o, axis=a
                )
                suite.case(
                    f"norm_{order}_{axis}_{kind}",
                    "norm",
                    [x[0]],
                    run,
                    {"ord": order, "axis": axis, "keepdims": False},
                    wrt=[0],
                )
        run = lambda x: jnp.linalg.norm(x)
        suite.case(
            f"norm_flat_{kind}",
            "norm",
            [x],
            run,
            {"ord": None, "axis": None, "keepdims": False},
            wrt=[0],
        )
        run = lambda x: jnp.linalg.norm(x, axis=1, keepdims=True)
        suite.case(
            f"norm_keepdims_{kind}",
            "norm",
            [x[0]],
            run,
            {"ord": None, "axis": 1, "keepdims": True},
            wrt=[0],
        )
    for kind in ("bool", "i8", "u8", "i32", "bf16"):
        x = sample("small", kind, (3, 4))
        for op in (
            ("sum", "prod", "mean", "max", "min", "any", "all")
            if kind != "bool"
            else ("sum", "any", "all", "mean")
        ):
            suite.case(
                f"{op}_{kind}",
                op,
                [x],
                jax.jit(lambda x, f=getattr(jnp, op): f(x, axis=0)),
                {"axis": 0, "keepdims": False},
            )
    for op in ("argmax", "argmin"):
        x = inside("arg", (-3, 3), "f32", (3, 4))
        for axis in (None, 0, 1):
            run = jax.jit(lambda x, f=getattr(jnp, op), a=axis: f(x, axis=a).astype(np.int32))
            suite.case(f"{op}_{axis}", op, [x], run, {"axis": axis})
