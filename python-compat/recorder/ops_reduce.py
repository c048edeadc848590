"""Cases of reductions, matrix products and sorting."""

import jax
import numpy as np
from jax import lax

from .names import dtype
from .ops_elementwise import COMPLEX, FLOATS, INTS, WIDE, edges
from .ops_shape import sample
from .suite import EXACT

_SHAPES = [
    ("all", (3, 4), (0, 1)),
    ("rows", (3, 4), (0,)),
    ("last", (2, 3, 4), (2,)),
    ("outer", (2, 3, 4), (0, 2)),
    ("empty", (0, 3), (0,)),
    ("scalar", (), ()),
    ("none", (2, 3), ()),
]
_REDUCE = {
    f"reduce_{name}": getattr(lax, f"reduce_{name}")
    for name in ("sum", "prod", "max", "min", "and", "or", "xor")
}


def add(suite):
    """Adds all cases."""
    _reductions(suite)
    _arg(suite)
    _dot(suite)
    _sort(suite)


def _reductions(suite):
    for op, function in _REDUCE.items():
        logic = op in ("reduce_and", "reduce_or", "reduce_xor")
        ordered = op in ("reduce_max", "reduce_min")
        kinds = (
            ("bool", "i32", "u8", "i64")
            if logic
            else ("i32", "u8", "i64", *FLOATS, *(() if ordered else COMPLEX))
        )
        for label, shape, axes in _SHAPES:
            run = lambda x, f=function, a=axes: f(x, a)
            for kind in kinds:
                if label not in ("all", "empty") and kind not in ("bool", "i32", *WIDE):
                    continue
                if (
                    kind in ("bf16", "f16")
                    and op in ("reduce_sum", "reduce_prod")
                    and label == "all"
                ):
                    # The compiler chooses the order of narrow roundings. Halves of small integers
                    # are not rounded.
                    x = (np.arange(12).reshape(shape) % 4 / 2 + 0.5).astype(dtype(kind))
                else:
                    x = sample(f"{op}{label}", kind, shape)
                wrt = [0] if kind in WIDE + COMPLEX and not logic else None
                suite.case(
                    f"{op}_{label}_{kind}",
                    op,
                    [x],
                    run if wrt else jax.jit(run),
                    {"axes": axes},
                    wrt=wrt,
                )
    for kind in FLOATS:
        for op in ("reduce_max", "reduce_min", "reduce_sum"):
            x = edges(kind)
            for label, values in (("nan", x), ("infinities", x[1:7]), ("zeros", x[3:5])):
                run = jax.jit(lambda x, f=_REDUCE[op]: f(x, (0,)))
                suite.case(f"{op}_{label}_{kind}", op, [values], run, {"axes": [0]})
    for kind in WIDE:
        # Derivatives of extrema with ties, and of a product with zeros.
        ties = np.array([[1, 3, 3], [3, 0, -1]], dtype(kind))
        for op in ("reduce_max", "reduce_min"):
            for axes in ((0,), (1,), (0, 1)):
                run = lambda x, f=_REDUCE[op], a=axes: f(x, a)
                suite.case(
                    f"{op}_ties_{''.join(map(str, axes))}_{kind}",
                    op,
                    [ties],
                    run,
                    {"axes": axes},
                    wrt=[0],
                )
        zeros = np.array([[2, 0, 3], [0, 0, 5]], dtype(kind))
        suite.case(
            f"reduce_prod_zeros_{kind}",
            "reduce_prod",
            [zeros],
            lambda x: _REDUCE["reduce_prod"](x, (1,)),
            {"axes": [1]},
            wrt=[0],
        )


def _arg(suite):
    for op, function in (("argmax", lax.argmax), ("argmin", lax.argmin)):
        for kind in ("bool", "i32", "u8", *FLOATS):
            for label, shape, axis in (
                ("rows", (4, 3), 0),
                ("last", (2, 3, 5), 2),
                ("one", (1,), 0),
            ):
                for index in ("i32", "i64") if kind == "f32" else ("i32",):
                    run = jax.jit(lambda x, f=function, a=axis, d=index: f(x, a, dtype(d)))
                    params = {"axes": [axis], "index_dtype": index}
                    suite.case(
                        f"{op}_{label}_{kind}_{index}",
                        op,
                        [sample(f"{op}{label}", kind, shape)],
                        run,
                        params,
                    )
        for label, values in (
            ("ties", [1, 3, 3, 1]),
            ("nan", [1, np.nan, 3, np.nan]),
            ("zeros", [0.0, -0.0, 0.0]),
            ("infinities", [-np.inf, np.inf, np.inf]),
        ):
            run = jax.jit(lambda x, f=function: f(x, 0, np.int32))
            suite.case(
                f"{op}_{label}",
                op,
                [np.array(values, np.float32)],
                run,
                {"axes": [0], "index_dtype": "i32"},
            )


def _dot(suite):
    shapes = [
        ("vectors", (4,), (4,), ([0], [0]), ([], [])),
        ("matrix_vector", (3, 4), (4,), ([1], [0]), ([], [])),
        ("matrices", (3, 4), (4, 5), ([1], [0]), ([], [])),
        ("transposed", (4, 3), (5, 4), ([0], [1]), ([], [])),
        ("batch", (2, 3, 4), (2, 4, 5), ([2], [1]), ([0], [0])),
        ("batch_inner", (3, 2, 4), (4, 5, 2), ([2], [0]), ([1], [2])),
        ("two_batches", (2, 3, 4, 5), (3, 2, 5, 2), ([3], [2]), ([0, 1], [1, 0])),
        ("two_contracted", (2, 3, 4), (4, 3, 5), ([1, 2], [1, 0]), ([], [])),
        ("outer", (3,), (2, 2), ([], []), ([], [])),
        ("scalars", (), (), ([], []), ([], [])),
        ("empty_sum", (3, 0), (0, 2), ([1], [0]), ([], [])),
        ("empty_result", (0, 4), (4, 2), ([1], [0]), ([], [])),
        ("batch_only", (2, 3), (2, 3), ([], []), ([0, 1], [0, 1])),
    ]
    for label, left, right, contract, batch in shapes:
        for kind in ("i32", "bf16", *WIDE, *COMPLEX):
            if kind in ("i32", "bf16", "c128") and label not in ("matrices", "batch"):
                continue
            _dot_case(suite, label, kind, kind, left, right, contract, batch, None)
    for kind, preferred in (
        ("bf16", "f32"),
        ("f16", "f32"),
        ("i8", "i32"),
        ("u8", "i32"),
        ("f32", "f64"),
        ("i32", "i64"),
        ("f8_e4m3fn", "f32"),
        ("f8_e5m2", "f32"),
    ):
        for label, left, right, contract, batch in (shapes[2], shapes[4]):
            _dot_case(
                suite,
                f"{label}_to_{preferred}",
                kind,
                kind,
                left,
                right,
                contract,
                batch,
                preferred,
            )
    for precision in ("default", "high", "highest"):
        _dot_case(
            suite,
            f"precision_{precision}",
            "f32",
            "f32",
            (5, 7),
            (7, 3),
            ([1], [0]),
            ([], []),
            None,
            precision,
        )


def _dot_case(
    suite, label, lhs_kind, rhs_kind, left, right, contract, batch, preferred, precision=None
):
    def points(name, kind, shape):
        if kind.startswith("f8"):
            return sample(name, "f32", shape).astype(dtype(kind))
        if kind in ("i8", "u8"):
            return sample(name, "i32", shape).astype(dtype(kind))
        return sample(name, kind, shape)

    x, y = points(f"dl{label}", lhs_kind, left), points(f"dr{label}", rhs_kind, right)
    if lhs_kind in ("i8", "i32") and len(left) > 1:
        x = x * np.array(-1, x.dtype)
    dims = tuple(map(tuple, contract)), tuple(map(tuple, batch))
    run = lambda x, y: lax.dot_general(
        x, y, dims, precision=precision, preferred_element_type=preferred and dtype(preferred)
    )
    params = {
        "contracting": contract,
        "batch": batch,
        "precision": precision,
        "preferred_element_type": preferred,
    }
    wrt = (
        [0, 1]
        if lhs_kind in (*WIDE, *COMPLEX) or (lhs_kind, preferred) == ("bf16", "f32")
        else None
    )
    suite.case(
        f"dot_general_{label}_{lhs_kind}",
        "dot_general",
        [x, y],
        run if wrt else jax.jit(run),
        params,
        wrt=wrt,
    )


def _sort(suite):
    def case(name, arrays, axis, keys, stable=True, wrt=None):
        run = lambda *xs: lax.sort(xs, dimension=axis, is_stable=stable, num_keys=keys)
        params = {"dimension": axis, "is_stable": stable, "num_keys": keys}
        suite.case(
            f"sort_{name}", "sort", arrays, run if wrt else jax.jit(run), params, EXACT, wrt=wrt
        )

    for kind in (*INTS, "bool", *FLOATS):
        case(f"vector_{kind}", [np.concatenate([edges(kind)[::-1], edges(kind)])], 0, 1)
    for kind in WIDE:
        for axis in (0, 1):
            case(f"matrix_{axis}_{kind}", [sample("sort", kind, (4, 5))], axis, 1, wrt=[0])
        key, value = np.array([3, 1, 2, 1, 3], dtype(kind)), np.arange(5, dtype=dtype(kind))
        case(f"payload_{kind}", [key, value], 0, 1, wrt=[0, 1])
    key = np.array([2, 1, 2, 1, 2, 1], np.int32)
    second = np.array([5, 4, 3, 2, 1, 0], np.float32)
    case("stable", [key, np.arange(6, dtype=np.int32)], 0, 1)
    case("two_keys", [key, second, np.arange(6, dtype=np.int32)], 0, 2)
    case("three_operands", [second, key, key * 2], 0, 1)
    case("empty", [np.zeros((0, 3), np.float32)], 0, 1)
    case("unstable", [np.array([5, 3, 9, 1], np.int32)], 0, 1, stable=False)
