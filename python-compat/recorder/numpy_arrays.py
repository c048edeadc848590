"""Cases of `jax.numpy` functions that create and rearrange arrays."""

import jax
import jax.numpy as jnp
import numpy as np

from .names import dtype
from .ops_shape import sample
from .suite import EXACT

WIDE = ("f32", "f64")

# op, label, shapes, function, params. All operands are differentiable.
_REARRANGE = [
    ("stack", "0", [(2, 3)] * 3, lambda *xs: jnp.stack(xs, 0), {"axis": 0}),
    ("stack", "last", [(2, 3)] * 2, lambda *xs: jnp.stack(xs, -1), {"axis": -1}),
    ("concatenate", "last", [(2, 3), (2, 1)], lambda *xs: jnp.concatenate(xs, -1), {"axis": -1}),
    ("split", "even", [(2, 6)], lambda x: jnp.split(x, 3, 1), {"sections": 3, "axis": 1}),
    ("split", "at", [(7,)], lambda x: jnp.split(x, [2, 5]), {"indices": [2, 5], "axis": 0}),
    ("tile", "vector", [(3,)], lambda x: jnp.tile(x, 2), {"reps": [2]}),
    ("tile", "matrix", [(2, 3)], lambda x: jnp.tile(x, (2, 1)), {"reps": [2, 1]}),
    ("tile", "more", [(3,)], lambda x: jnp.tile(x, (2, 2)), {"reps": [2, 2]}),
    ("repeat", "rows", [(2, 3)], lambda x: jnp.repeat(x, 2, axis=0), {"repeats": 2, "axis": 0}),
    ("repeat", "flat", [(2, 3)], lambda x: jnp.repeat(x, 3), {"repeats": 3, "axis": None}),
    ("squeeze", "all", [(1, 3, 1)], jnp.squeeze, {"axis": None}),
    ("squeeze", "one", [(1, 3, 1)], lambda x: jnp.squeeze(x, -1), {"axis": [-1]}),
    ("expand_dims", "first", [(2, 3)], lambda x: jnp.expand_dims(x, 0), {"axis": [0]}),
    ("expand_dims", "two", [(2, 3)], lambda x: jnp.expand_dims(x, (0, -1)), {"axis": [0, -1]}),
    (
        "moveaxis",
        "one",
        [(2, 3, 4)],
        lambda x: jnp.moveaxis(x, 0, -1),
        {"source": [0], "destination": [-1]},
    ),
    (
        "moveaxis",
        "two",
        [(2, 3, 4)],
        lambda x: jnp.moveaxis(x, (0, 1), (2, 0)),
        {"source": [0, 1], "destination": [2, 0]},
    ),
    ("swapaxes", "ends", [(2, 3, 4)], lambda x: jnp.swapaxes(x, 0, -1), {"axis1": 0, "axis2": -1}),
    ("transpose", "default", [(2, 3, 4)], jnp.transpose, {"axes": None}),
    ("flip", "all", [(2, 3)], jnp.flip, {"axis": None}),
    ("flip", "last", [(2, 3)], lambda x: jnp.flip(x, -1), {"axis": [-1]}),
    ("roll", "flat", [(2, 3)], lambda x: jnp.roll(x, 2), {"shift": [2], "axis": None}),
    ("roll", "last", [(2, 5)], lambda x: jnp.roll(x, -2, 1), {"shift": [-2], "axis": [1]}),
    (
        "roll",
        "two",
        [(3, 4)],
        lambda x: jnp.roll(x, (1, 5), (0, 1)),
        {"shift": [1, 5], "axis": [0, 1]},
    ),
    ("tril", "0", [(3, 4)], jnp.tril, {"k": 0}),
    ("tril", "batch", [(2, 4, 3)], lambda x: jnp.tril(x, -1), {"k": -1}),
    ("triu", "0", [(3, 4)], jnp.triu, {"k": 0}),
    ("triu", "1", [(4, 3)], lambda x: jnp.triu(x, 1), {"k": 1}),
    ("broadcast_to", "rows", [(3,)], lambda x: jnp.broadcast_to(x, (2, 3)), {"shape": [2, 3]}),
    ("ravel", "matrix", [(2, 3)], jnp.ravel, {}),
    ("reshape", "guess", [(2, 6)], lambda x: jnp.reshape(x, (3, -1)), {"shape": [3, -1]}),
    (
        "pad",
        "zero",
        [(2, 3)],
        lambda x: jnp.pad(x, ((1, 0), (0, 2))),
        {"pad_width": [[1, 0], [0, 2]], "constant_values": 0},
    ),
    ("diagonal", "matrix", [(3, 4)], jnp.diagonal, {}),
    ("trace", "matrix", [(3, 3)], jnp.trace, {}),
    ("cumsum", "last", [(2, 5)], lambda x: jnp.cumsum(x, axis=1), {"axis": 1}),
    ("cumprod", "first", [(4, 2)], lambda x: jnp.cumprod(x, axis=0), {"axis": 0}),
    ("sort", "last", [(2, 5)], lambda x: jnp.sort(x, axis=-1), {"axis": -1, "descending": False}),
    (
        "sort",
        "down",
        [(5,)],
        lambda x: jnp.sort(x, descending=True),
        {"axis": -1, "descending": True},
    ),
    ("diff", "last", [(2, 5)], lambda x: jnp.diff(x), {"axis": -1}),
]


def add(suite):
    """Adds all cases."""
    for op, label, shapes, function, params in _REARRANGE:
        for kind in WIDE:
            arrays = [sample(f"{op}{i}", kind, shape) for i, shape in enumerate(shapes)]
            suite.case(f"{op}_{label}_{kind}", op, arrays, function, params, wrt=range(len(shapes)))
        arrays = [sample(f"{op}{i}", "i32", shape) for i, shape in enumerate(shapes)]
        suite.case(f"{op}_{label}_i32", op, arrays, jax.jit(function), params)
    _creation(suite)
    _order(suite)


def _creation(suite):
    def case(op, label, function, tolerance=EXACT, **params):
        suite.case(f"{op}_{label}", op, [], function, params, tolerance)

    for kind in ("f32", "bf16", "i32", "bool"):
        d = dtype(kind)
        case("eye", f"square_{kind}", lambda d=d: jnp.eye(3, dtype=d), n=3, m=3, k=0, dtype=kind)
        case(
            "eye",
            f"shifted_{kind}",
            lambda d=d: jnp.eye(3, 5, k=-1, dtype=d),
            n=3,
            m=5,
            k=-1,
            dtype=kind,
        )
        case("full", kind, lambda d=d: jnp.full((2, 3), 1, d), shape=[2, 3], value=1, dtype=kind)
    for kind in ("f32", "f64", "bf16"):
        d = dtype(kind)
        for start, stop, num, endpoint in (
            (0, 1, 5, True),
            (-2.5, 3.7, 11, True),
            (0, 1, 4, False),
            (1, 1, 3, True),
            (5, -5, 1, True),
            (0, 1, 0, True),
            (0.1, 0.7, 100, True),
        ):
            run = lambda a=start, b=stop, n=num, e=endpoint, d=d: jnp.linspace(
                a, b, n, endpoint=e, dtype=d
            )
            params = {
                "start": float(start),
                "stop": float(stop),
                "num": num,
                "endpoint": endpoint,
                "dtype": kind,
            }
            case("linspace", f"{start}_{stop}_{num}_{endpoint}_{kind}", run, None, **params)
    for kind, start, stop, step in (
        ("i32", 0, 5, 1),
        ("i32", 2, -3, -2),
        ("i64", 0, 10, 3),
        ("f32", 0, 1, 0.1),
        ("f32", 0.5, 3.0, 0.25),
        ("f64", 1, 0, -0.1),
        ("i32", 5, 2, 1),
        ("u8", 250, 256, 1),
    ):
        run = lambda a=start, b=stop, s=step, k=kind: jnp.arange(a, b, s, dtype=dtype(k))
        case(
            "arange",
            f"{kind}_{start}_{stop}_{step}",
            run,
            None,
            start=start,
            stop=stop,
            step=step,
            dtype=kind,
        )


def _order(suite):
    ties = np.array([[3, 1, 2, 1, 3], [np.nan, 0.0, -0.0, np.inf, -np.inf]], np.float32)
    whole = np.array([[3, 1, 2, 1, 3], [0, -5, 7, 7, 7]], np.int32)
    for label, values in (("f32", ties), ("i32", whole)):
        for axis in (-1, 0):
            for down in (False, True):
                run = jax.jit(
                    lambda x, a=axis, d=down: jnp.argsort(x, axis=a, descending=d).astype(np.int32)
                )
                suite.case(
                    f"argsort_{label}_{axis}_{'down' if down else 'up'}",
                    "argsort",
                    [values],
                    run,
                    {"axis": axis, "descending": down},
                )
