"""Cases of cumulative operations, `top_k`, `select_n` and `reduce_precision`."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .mapped import plain_and_mapped
from .names import dtype
from .ops_elementwise import FLOATS, WIDE, edges, inside
from .ops_shape import sample
from .suite import EXACT

RUNNING = {
    name: getattr(lax, name) for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
}


def add(suite):
    """Adds all cases."""
    _running(suite)
    _numpy(suite)
    _largest(suite)
    _choices(suite)
    _precision(suite)


def _running(suite):
    for op, function in RUNNING.items():
        for kind in WIDE:
            for label, shape, axis, reverse in (
                ("rows", (3, 5), 0, False),
                ("columns", (3, 5), 1, True),
                ("long", (33,), 0, False),
            ):
                run = lambda x, f=function, a=axis, r=reverse: f(x, a, r)
                params = {"axis": axis, "reverse": reverse}
                x = inside(f"{op}{label}", (-1.5, 1.5), kind, shape)
                if kind == "f32":
                    suite.case(f"{op}_{label}_{kind}", op, [x], run, params, wrt=[0])
                else:
                    plain_and_mapped(suite, f"{op}_{label}_{kind}", op, [x], run, params, wrt=[0])
        for kind in ("i32", "u8", "i64", "bf16"):
            if op == "cumlogsumexp" and kind != "bf16":
                continue
            params = {"axis": 1, "reverse": False}
            suite.case(
                f"{op}_{kind}",
                op,
                [sample(op, kind, (2, 4))],
                jax.jit(lambda x, f=function: f(x, 1, False)),
                params,
            )
        if op in ("cummax", "cummin"):
            x = edges("f32")
            suite.case(
                f"{op}_edges",
                op,
                [x],
                jax.jit(lambda x, f=function: f(x, 0, False)),
                {"axis": 0, "reverse": False},
                EXACT,
            )
        suite.case(
            f"{op}_empty",
            op,
            [np.zeros((0, 3), np.float32)],
            jax.jit(lambda x, f=function: f(x, 0, True)),
            {"axis": 0, "reverse": True},
        )
    zeros = np.array([[2, 0, 3, 0, 5], [0, 1, 2, 3, 4]], np.float64)
    suite.case(
        "cumprod_zeros_f64",
        "cumprod",
        [zeros],
        lambda x: lax.cumprod(x, 1, False),
        {"axis": 1, "reverse": False},
        wrt=[0],
    )
    inf = np.array([-np.inf, -np.inf, 1.0, -np.inf, 800.0], np.float64)
    suite.case(
        "cumlogsumexp_infinite_f64",
        "cumlogsumexp",
        [inf],
        jax.jit(lambda x: lax.cumlogsumexp(x, 0, False)),
        {"axis": 0, "reverse": False},
    )


def _numpy(suite):
    nan = np.array([[1, np.nan, 3], [np.nan, 5, 6]], np.float32)
    for op in ("cumsum", "cumprod", "nancumsum", "nancumprod"):
        function = getattr(jnp, op)
        for axis in (None, 0, -1):
            run = jax.jit(lambda x, f=function, a=axis: f(x, axis=a))
            for label, x in (
                ("nan", nan),
                ("bool", np.array([[True, False], [True, True]])),
                ("u8", np.array([[200, 100], [3, 4]], np.uint8)),
            ):
                suite.case(f"jnp_{op}_{label}_{axis}", f"jnp.{op}", [x], run, {"axis": axis})
    for op in ("cumulative_sum", "cumulative_prod"):
        for initial in (False, True):
            for kind in ("f32", "i8"):
                run = jax.jit(
                    lambda x, f=getattr(jnp, op), i=initial: f(x, axis=-1, include_initial=i)
                )
                suite.case(
                    f"{op}_{kind}_{initial}",
                    op,
                    [sample(op, kind, (2, 3)) // 20 + 1],
                    run,
                    {"axis": -1, "include_initial": initial},
                )


def _largest(suite):
    for kind in WIDE:
        for k, axis in ((2, 1), (3, 0)):
            run = lambda x, k=k, a=axis: lax.top_k(x, k, axis=a)[0]
            values = inside("top_k", (-2, 2), kind, (4, 5))
            plain_and_mapped(
                suite,
                f"top_k_values_{axis}_{kind}",
                "top_k_values",
                [values],
                run,
                {"k": k, "axis": axis},
                wrt=[0],
            )
    for kind in FLOATS:
        suite.case(
            f"top_k_edges_{kind}",
            "top_k",
            [edges(kind)],
            jax.jit(lambda x: lax.top_k(x, 12)),
            {"k": 12, "axis": 0},
            EXACT,
        )
    for kind in ("i8", "u8", "i32", "u32", "i64", "bool"):
        x = sample("top_k", kind, (3, 6))
        plain_and_mapped(
            suite, f"top_k_{kind}", "top_k", [x], lambda x: lax.top_k(x, 3), {"k": 3, "axis": 1}
        )
    x = inside("approx", (-2, 2), "f32", (2, 7))
    for op in ("approx_max_k", "approx_min_k"):
        suite.case(
            op, op, [x], jax.jit(lambda x, f=getattr(lax, op): f(x, 3)), {"k": 3, "axis": -1}, EXACT
        )


def _choices(suite):
    for kind in WIDE:
        cases = [inside(f"case{i}", (-2, 2), kind, (2, 3)) for i in range(4)]
        which = np.array([[0, 1, 2], [3, 2, 1]], np.int32)
        run = lambda which, *cases: lax.select_n(which, *cases)
        plain_and_mapped(
            suite, f"select_n_4_{kind}", "select_n", [which, *cases], run, {}, wrt=[1, 2, 3, 4]
        )
        plain_and_mapped(
            suite,
            f"select_n_scalar_{kind}",
            "select_n",
            [np.int32(2), *cases],
            run,
            {},
            wrt=[1, 3],
            in_axes=[None, 0, 0, None, 0],
        )
        plain_and_mapped(
            suite, f"select_n_bool_{kind}", "select_n", [which > 1, *cases[:2]], run, {}, wrt=[1, 2]
        )


def _precision(suite):
    for kind in FLOATS:
        bits = jnp.finfo(dtype(kind)).bits
        for exponent, mantissa in ((8, 7), (5, 10), (4, 3), (5, 2)):
            if kind == "bf16" and mantissa > 7 or kind == "f16" and exponent > 5 or bits < 16:
                continue
            run = jax.jit(lambda x, e=exponent, m=mantissa: lax.reduce_precision(x, e, m))
            params = {"exponent_bits": exponent, "mantissa_bits": mantissa}
            suite.case(
                f"reduce_precision_{exponent}_{mantissa}_{kind}",
                "reduce_precision",
                [edges(kind)],
                run,
                params,
                EXACT,
            )
    x = inside("precision", (-3, 3), "f32", (4,))
    run = lambda x: lax.reduce_precision(x, 8, 7)
    plain_and_mapped(
        suite,
        "reduce_precision_f32",
        "reduce_precision",
        [x],
        run,
        {"exponent_bits": 8, "mantissa_bits": 7},
        wrt=[0],
    )
