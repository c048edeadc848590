"""Cases of reductions over windows."""

import jax
import numpy as np
from jax import lax

from .mapped import plain_and_mapped
from .ops_elementwise import WIDE, inside
from .ops_shape import sample

# label, shape, dimensions, strides, padding, base dilation, window dilation
WINDOWS = [
    ("plain", (4, 5), (2, 3), (1, 1), "VALID", (1, 1), (1, 1)),
    ("same", (5, 4), (3, 2), (2, 1), "SAME", (1, 1), (1, 1)),
    ("lower", (6,), (4,), (2,), "SAME_LOWER", (1,), (1,)),
    ("images", (2, 6, 6, 2), (1, 2, 2, 1), (1, 2, 2, 1), "VALID", (1, 1, 1, 1), (1, 1, 1, 1)),
    (
        "overlapping",
        (1, 5, 5, 2),
        (1, 3, 3, 1),
        (1, 2, 2, 1),
        [(0, 0), (1, 1), (1, 1), (0, 0)],
        (1, 1, 1, 1),
        (1, 1, 1, 1),
    ),
    ("cropped", (5, 4), (2, 2), (1, 1), [(1, 0), (0, 2)], (1, 1), (1, 1)),
    ("stretched", (3, 4), (2, 2), (1, 2), [(1, 1), (0, 1)], (2, 3), (1, 1)),
    ("dilated", (6, 5), (2, 3), (1, 1), "VALID", (1, 1), (2, 1)),
]
REDUCERS = {
    "sum": (lax.add, 0),
    "max": (lax.max, -np.inf),
    "min": (lax.min, np.inf),
    "prod": (lax.mul, 1),
}


def add(suite):
    """Adds all cases."""
    for op, (combine, identity) in REDUCERS.items():
        for label, shape, dimensions, strides, padding, base, dilation in WINDOWS:
            params = {
                "dimensions": dimensions,
                "strides": strides,
                "padding": padding,
                "base_dilation": base,
                "window_dilation": dilation,
            }
            run = (
                lambda x, c=combine, i=identity, w=(dimensions, strides, padding, base, dilation): (
                    lax.reduce_window(x, dtype_of(x, i), c, *w)
                )
            )
            # JAX has no reverse mode for products, nor for extrema of dilated windows.
            smooth = op == "sum" or (op in ("max", "min") and label != "dilated")
            name, wrt = f"reduce_window_{op}_{label}", [0] if smooth else None
            points = lambda kind: [inside(f"window{label}", (-2, 2), kind, shape)]
            suite.case(
                f"{name}_f32",
                f"reduce_window_{op}",
                points("f32"),
                run if wrt else jax.jit(run),
                params,
                wrt=wrt,
            )
            plain_and_mapped(
                suite, f"{name}_f64", f"reduce_window_{op}", points("f64"), run, params, wrt=wrt
            )
    for op in ("sum", "prod"):
        combine, identity = REDUCERS[op]
        for kind in ("i32", "u8", "i64"):
            run = jax.jit(
                lambda x, c=combine, i=identity: lax.reduce_window(
                    x, dtype_of(x, i), c, (3,), (2,), "SAME"
                )
            )
            params = {
                "dimensions": [3],
                "strides": [2],
                "padding": "SAME",
                "base_dilation": [1],
                "window_dilation": [1],
            }
            suite.case(
                f"reduce_window_{op}_{kind}",
                f"reduce_window_{op}",
                [sample(op, kind, (7,))],
                run,
                params,
            )
    # The first of equal elements is selected.
    ties = np.array([1, 3, 3, 3, 0, 0], np.float64)
    params = {
        "dimensions": [3],
        "strides": [1],
        "padding": "VALID",
        "base_dilation": [1],
        "window_dilation": [1],
    }
    for op in ("max", "min"):
        combine, identity = REDUCERS[op]
        run = lambda x, c=combine, i=identity: lax.reduce_window(
            x, dtype_of(x, i), c, (3,), (1,), "VALID"
        )
        suite.case(f"reduce_window_{op}_ties", f"reduce_window_{op}", [ties], run, params, wrt=[0])
    # A general reduction with an initial value other than the identity.
    for kind in WIDE:
        run = jax.jit(lambda x: lax.reduce_window(x, dtype_of(x, 2), lax.add, (2,), (1,), [(1, 1)]))
        params = {
            "dimensions": [2],
            "strides": [1],
            "padding": [[1, 1]],
            "base_dilation": [1],
            "window_dilation": [1],
            "init": 2,
        }
        suite.case(
            f"reduce_window_begun_{kind}",
            "reduce_window",
            [inside("begun", (-2, 2), kind, (5,))],
            run,
            params,
        )


def dtype_of(x, value):
    """Returns `value` in the dtype of `x`, concrete, so that JAX recognizes the reduction."""
    return np.array(value, x.dtype)
