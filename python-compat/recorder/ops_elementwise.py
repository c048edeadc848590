"""Cases of elementwise primitives: values at edges, and values and derivatives in the domain."""

import jax
import numpy as np
from jax import lax
from jax._src.lax import lax as internal

from .names import dtype
from .suite import EXACT, seed

FLOATS = ("bf16", "f16", "f32", "f64")
WIDE = ("f32", "f64")
COMPLEX = ("c64", "c128")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTS = SIGNED + UNSIGNED

# op, function, domain of the points of derivatives, true if results are exact on all machines
UNARY = [
    ("neg", lax.neg, (-3, 3), True),
    ("sign", lax.sign, (0.5, 3), True),
    ("abs", lax.abs, (-3, -0.5), True),
    ("floor", lax.floor, (0.1, 0.9), True),
    ("ceil", lax.ceil, (0.1, 0.9), True),
    ("exp", lax.exp, (-3, 3), False),
    ("expm1", lax.expm1, (-1, 1), False),
    ("log", lax.log, (0.1, 4), False),
    ("log1p", lax.log1p, (-0.5, 2), False),
    ("sqrt", lax.sqrt, (0.1, 4), False),
    ("rsqrt", lax.rsqrt, (0.1, 4), False),
    ("cbrt", lax.cbrt, (0.1, 4), False),
    ("logistic", lax.logistic, (-4, 4), False),
    ("tanh", lax.tanh, (-2, 2), False),
    ("sin", lax.sin, (-4, 4), False),
    ("cos", lax.cos, (-4, 4), False),
    ("tan", lax.tan, (-1.2, 1.2), False),
    ("asin", lax.asin, (-0.8, 0.8), False),
    ("acos", lax.acos, (-0.8, 0.8), False),
    ("atan", lax.atan, (-3, 3), False),
    ("sinh", lax.sinh, (-3, 3), False),
    ("cosh", lax.cosh, (-3, 3), False),
    ("asinh", lax.asinh, (-3, 3), False),
    ("acosh", lax.acosh, (1.3, 4), False),
    ("atanh", lax.atanh, (-0.8, 0.8), False),
    ("erf", lax.erf, (-2, 2), False),
    ("erf_inv", lax.erf_inv, (-0.9, 0.9), False),
    ("square", lax.square, (-3, 3), False),
]
UNARY_COMPLEX = (
    "neg sign abs exp expm1 log log1p sqrt rsqrt logistic tanh sin cos tan asin acos atan sinh "
    "cosh asinh acosh atanh square"
).split()
BINARY = [
    ("add", lax.add, (-3, 3), False),
    ("sub", lax.sub, (-3, 3), False),
    ("mul", lax.mul, (-3, 3), False),
    ("div", lax.div, (0.5, 3), False),
    ("rem", lax.rem, (1.1, 9), False),
    ("max", lax.max, (-3, 3), True),
    ("min", lax.min, (-3, 3), True),
    ("pow", lax.pow, (0.3, 3), False),
    ("atan2", lax.atan2, (-3, 3), False),
]
COMPARE = [(name, getattr(lax, name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")]
TOTAL = [(name, getattr(internal, f"{name}_p").bind) for name in ("eq_to", "lt_to", "le_to")]
BITWISE = [(name, getattr(lax, f"bitwise_{name}")) for name in ("and", "or", "xor")]
SHIFTS = [
    (name, getattr(lax, name))
    for name in ("shift_left", "shift_right_logical", "shift_right_arithmetic")
]
INT_BINARY = [
    (name, getattr(lax, name)) for name in ("add", "sub", "mul", "div", "rem", "max", "min")
]


def edges(kind: str) -> np.ndarray:
    """Returns the values of a dtype at which functions have special results."""
    d = dtype(kind)
    if kind == "bool":
        return np.array([False, True])
    if d.kind in "iu":
        info = np.iinfo(d)
        middle = [v for v in (-100, -8, -7, -2, -1, 0, 1, 2, 3, 7, 8, 31, 100) if v >= info.min]
        return np.array([info.min, info.min + 1, *middle, info.max - 1, info.max], d)
    import ml_dtypes

    info = ml_dtypes.finfo(d)
    values = [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        -1.5,
        2.5,
        -2.5,
        3.7,
        -3.7,
        1e-3,
        -1e-3,
        20.0,
        -20.0,
    ]
    return np.array(
        [*values, float(info.max), float(info.min), float(info.tiny), float(info.eps)], np.float64
    ).astype(d)


def pairs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns every ordered pair of values, as two vectors."""
    return np.repeat(values, len(values)), np.tile(values, len(values))


def inside(name: str, domain, kind: str, shape=(3, 5)) -> np.ndarray:
    """Returns random points of an interval, or of a square in the complex plane."""
    rng = np.random.default_rng(seed(name))
    values = rng.uniform(*domain, shape)
    if dtype(kind).kind == "c":
        values = values + 1j * rng.uniform(*domain, shape)
    return values.astype(dtype(kind))


def add(suite):
    """Adds all cases."""
    _unary(suite)
    _binary(suite)
    _integers(suite)
    _complex(suite)
    _selection(suite)


def _unary(suite):
    for op, function, domain, exact in UNARY:
        tolerance = EXACT if exact else None
        for kind in FLOATS:
            suite.case(
                f"{op}_{kind}_edges", op, [edges(kind)], jax.jit(function), tolerance=tolerance
            )
            if kind in WIDE:
                suite.case(f"{op}_{kind}", op, [inside(op, domain, kind)], function, wrt=[0])
        if op in UNARY_COMPLEX:
            for kind in COMPLEX:
                suite.case(f"{op}_{kind}", op, [inside(op, domain, kind)], function, wrt=[0])
    for kind in FLOATS:
        for label, method in (
            ("away_from_zero", lax.RoundingMethod.AWAY_FROM_ZERO),
            ("to_nearest_even", lax.RoundingMethod.TO_NEAREST_EVEN),
        ):
            run = jax.jit(lambda x, m=method: lax.round(x, m))
            suite.case(
                f"round_{label}_{kind}",
                "round",
                [edges(kind)],
                run,
                {"rounding_method": label},
                EXACT,
            )
        suite.case(f"is_finite_{kind}", "is_finite", [edges(kind)], jax.jit(lax.is_finite))
        # Higher powers of the largest number overflow in intermediate products, so that even the
        # sign of infinity depends on the order of multiplications. At edges only the square is
        # recorded.
        for y in (-3, -1, 0, 1, 2, 3, 7):
            run = lambda x, y=y: lax.integer_pow(x, y)
            suite.case(
                f"integer_pow_{y}_{kind}",
                "integer_pow",
                [inside(f"ipow{y}", (-2, 2), kind)],
                run,
                {"y": y},
                wrt=[0] if kind in WIDE else None,
            )
        suite.case(
            f"integer_pow_2_{kind}_edges",
            "integer_pow",
            [edges(kind)],
            jax.jit(lambda x: lax.integer_pow(x, 2)),
            {"y": 2},
        )
    for kind in ("f32", "f64"):
        for label, shape in (("scalar", ()), ("empty", (0, 3))):
            suite.case(
                f"sin_{kind}_{label}",
                "sin",
                [inside(label, (-2, 2), kind, shape)],
                lax.sin,
                wrt=[0],
            )
        suite.case(
            f"tanh_{kind}_rank4",
            "tanh",
            [inside("rank4", (-2, 2), kind, (2, 1, 3, 2))],
            lax.tanh,
            wrt=[0],
        )


def _binary(suite):
    for op, function, domain, exact in BINARY:
        tolerance = EXACT if exact or op in ("add", "sub", "mul") else None
        for kind in FLOATS:
            lhs, rhs = pairs(edges(kind)[:17])
            suite.case(f"{op}_{kind}_edges", op, [lhs, rhs], jax.jit(function), tolerance=tolerance)
            if kind in WIDE:
                points = [inside(f"{op}{i}", domain, kind) for i in (0, 1)]
                suite.case(f"{op}_{kind}", op, points, function, wrt=[0, 1])
        if op in ("add", "sub", "mul", "div", "pow"):
            for kind in COMPLEX:
                points = [inside(f"{op}{i}", domain, kind) for i in (0, 1)]
                suite.case(f"{op}_{kind}", op, points, function, wrt=[0, 1])
    for kind in WIDE:
        # If both operands are equal, the derivative is split evenly between them.
        x = inside("tie", (-2, 2), kind)
        for op, function in (("max", lax.max), ("min", lax.min)):
            suite.case(f"{op}_{kind}_tie", op, [x, x.copy()], function, wrt=[0, 1])
        suite.case(
            f"pow_{kind}_integer_exponent",
            "pow",
            [x, np.full(x.shape, 3, np.int32)],
            lax.pow,
            wrt=[0],
        )
    for kind in FLOATS:
        lhs, rhs = pairs(edges(kind))
        for op, function in COMPARE + TOTAL:
            suite.case(f"{op}_{kind}", op, [lhs, rhs], jax.jit(function))
    for kind in WIDE:
        lhs, rhs = pairs(edges(kind))
        suite.case(
            f"nextafter_{kind}", "nextafter", [lhs, rhs], jax.jit(lax.nextafter), tolerance=EXACT
        )


def _integers(suite):
    for kind in INTS:
        lhs, rhs = pairs(edges(kind))
        for op, function in INT_BINARY + COMPARE + BITWISE:
            suite.case(f"{op}_{kind}", op, [lhs, rhs], jax.jit(function))
        amounts = np.array(
            [
                v
                for v in (-1, 0, 1, 3, 7, 8, 15, 16, 31, 32, 63, 64)
                if v >= np.iinfo(dtype(kind)).min
            ],
            dtype(kind),
        )
        values = np.repeat(edges(kind), len(amounts))
        for op, function in SHIFTS:
            suite.case(
                f"{op}_{kind}", op, [values, np.tile(amounts, len(edges(kind)))], jax.jit(function)
            )
        for op, function in (
            ("not", lax.bitwise_not),
            ("popcnt", lax.population_count),
            ("clz", lax.clz),
            ("sign", lax.sign),
        ):
            suite.case(f"{op}_{kind}", op, [edges(kind)], jax.jit(function))
        for op in ("neg", "abs") if kind in SIGNED else ("neg",):
            suite.case(f"{op}_{kind}", op, [edges(kind)], jax.jit(getattr(lax, op)))
        for y in (0, 1, 2, 5):
            suite.case(
                f"integer_pow_{y}_{kind}",
                "integer_pow",
                [edges(kind)],
                jax.jit(lambda x, y=y: lax.integer_pow(x, y)),
                {"y": y},
            )
    lhs, rhs = pairs(edges("bool"))
    for op, function in BITWISE + COMPARE:
        suite.case(f"{op}_bool", op, [lhs, rhs], jax.jit(function))
    suite.case("not_bool", "not", [edges("bool")], jax.jit(lax.bitwise_not))


def _complex(suite):
    for kind, part in (("c64", "f32"), ("c128", "f64")):
        z = inside("parts", (-2, 2), kind)
        suite.case(
            f"complex_{part}", "complex", [z.real.copy(), z.imag.copy()], lax.complex, wrt=[0, 1]
        )
        for op in ("real", "imag", "conj"):
            suite.case(f"{op}_{kind}", op, [z], getattr(lax, op), wrt=[0])
        lhs, rhs = pairs(z[0])
        for op, function in COMPARE[:2]:
            suite.case(f"{op}_{kind}", op, [lhs, rhs], jax.jit(function))
        for y in (-2, 0, 3):
            suite.case(
                f"integer_pow_{y}_{kind}",
                "integer_pow",
                [z],
                lambda x, y=y: lax.integer_pow(x, y),
                {"y": y},
                wrt=[0],
            )
        special = np.array([0.0, np.inf, -np.inf, np.nan, -0.0, 1.0], dtype(part))
        real, imag = pairs(special)
        for op in ("abs", "sign", "exp", "sqrt"):
            suite.case(
                f"{op}_{kind}_edges", op, [_join(real, imag, kind)], jax.jit(getattr(lax, op))
            )


def _selection(suite):
    rng = np.random.default_rng(3)
    predicate = rng.uniform(size=(3, 5)) < 0.5
    for kind in ("bool", "i8", "u32", "i64", *FLOATS, *COMPLEX):
        values = np.resize(
            edges(kind) if kind not in COMPLEX else inside("select", (-2, 2), kind), (2, 3, 5)
        )
        if kind in WIDE:
            on_true, on_false = inside("select_t", (-2, 2), kind), inside("select_f", (-2, 2), kind)
            suite.case(
                f"select_{kind}", "select", [predicate, on_true, on_false], lax.select, wrt=[1, 2]
            )
            suite.case(
                f"select_{kind}_scalar_predicate",
                "select",
                [np.array(True), on_true, on_false],
                lax.select,
                wrt=[1, 2],
            )
        else:
            suite.case(
                f"select_{kind}", "select", [predicate, values[0], values[1]], jax.jit(lax.select)
            )
    for kind in ("i8", "u32", "i64", *FLOATS):
        d = dtype(kind)
        low, high = np.array(1, d), np.array(20, d)
        suite.case(f"clamp_{kind}", "clamp", [low, edges(kind), high], jax.jit(lax.clamp))
    for kind in WIDE:
        x = inside("clamp", (-3, 3), kind)
        low, high = np.full(x.shape, -1, x.dtype), np.full(x.shape, 1.5, x.dtype)
        suite.case(f"clamp_{kind}_arrays", "clamp", [low, x, high], lax.clamp, wrt=[0, 1, 2])
        # If low is above high, the result is high.
        suite.case(f"clamp_{kind}_crossed", "clamp", [high, x, low], jax.jit(lax.clamp))


def _join(real, imag, kind):
    """Joins real and imaginary parts. `real + 1j * imag` would turn an infinite part into NaN."""
    z = np.empty(real.shape, dtype(kind))
    z.real, z.imag = real, imag
    return z
