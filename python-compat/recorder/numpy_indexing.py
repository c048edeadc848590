"""Cases of indexing, of `take` and `take_along_axis`, and of updates at an index.

`params.index` has one entry per axis: `{"slice": [start, stop, step]}` with null for omitted
values, `{"int": i}`, `"newaxis"`, `"ellipsis"`, or `{"array": n}` for operand `n`. Negative
integers count from the end. Indices out of range behave as by default in JAX: indexing clamps them,
`take` returns NaN or the smallest integer, and updates drop them.
"""

import jax
import jax.numpy as jnp
import numpy as np

from .ops_shape import sample

WIDE = ("f32", "f64")
_S = slice
# label, shape, index, integer arrays
_INDEX = [
    ("row", (4, 5), (1,), []),
    ("negative_row", (4, 5), (-1,), []),
    ("element", (4, 5), (2, -2), []),
    ("range", (4, 5), (_S(1, 3),), []),
    ("column", (4, 5), (_S(None), 1), []),
    ("step", (7,), (_S(None, None, 2),), []),
    ("back", (7,), (_S(None, None, -1),), []),
    ("back_step", (7,), (_S(5, 1, -2),), []),
    ("back_rows", (4, 5), (_S(None, None, -2), _S(3, None, -1)), []),
    ("from_end", (7,), (_S(-3, None),), []),
    ("to_end", (7,), (_S(None, -2),), []),
    ("beyond", (4,), (_S(2, 100),), []),
    ("empty", (4, 5), (_S(3, 1),), []),
    ("newaxis", (4, 5), (None, _S(None), None, 2), []),
    ("ellipsis", (2, 3, 4), (..., 1), []),
    ("ellipsis_middle", (2, 3, 4, 5), (1, ..., _S(0, 2)), []),
    ("array", (5, 3), ("a0",), [[1, 4, 1]]),
    ("array_negative", (5, 3), ("a0",), [[-1, 0, -5]]),
    ("array_outside", (5, 3), ("a0",), [[5, 0, -6]]),
    ("array_matrix", (5, 3), ("a0",), [[[0, 1], [2, 4]]]),
    ("array_second", (4, 5), (_S(None), "a0"), [[4, 0]]),
    ("two_arrays", (4, 5), ("a0", "a1"), [[0, 3, 2], [4, 4, 1]]),
    ("two_arrays_broadcast", (4, 5), ("a0", "a1"), [[[0], [3]], [[4, 1, 2]]]),
    ("arrays_apart", (2, 3, 4), ("a0", _S(None), "a1"), [[0, 1], [3, 2]]),
    ("array_and_int", (4, 5), (2, "a0"), [[0, 4]]),
    ("array_and_slice", (4, 5), ("a0", _S(1, 4, 2)), [[3, 0]]),
    ("array_scalar", (4, 5), ("a0",), [2]),
    ("array_empty", (4, 5), ("a0",), [np.zeros((0,))]),
]


def _json_entry(entry):
    if isinstance(entry, slice):
        return {"slice": [entry.start, entry.stop, entry.step]}
    if entry is None:
        return "newaxis"
    if entry is Ellipsis:
        return "ellipsis"
    return {"array": int(entry[1:])} if isinstance(entry, str) else {"int": entry}


def _resolve(index, arrays):
    return tuple(arrays[int(entry[1:])] if isinstance(entry, str) else entry for entry in index)


def add(suite):
    """Adds all cases."""
    for label, shape, index, arrays in _INDEX:
        arrays = [np.asarray(a).astype(np.int32) for a in arrays]
        params = {"index": [_json_entry(entry) for entry in index]}
        for kind in (*WIDE, "i32"):
            x = sample(f"index{shape}", kind, shape)
            run = lambda x, *a, index=index: x[_resolve(index, a)]
            wrt = [0] if kind in WIDE else None
            x_run = run if wrt else jax.jit(run)
            suite.case(
                f"index_{label}_{kind}",
                "index",
                [x, *arrays],
                lambda x, *a, r=x_run: r(jnp.asarray(x), *a),
                params,
                wrt=wrt,
            )
        for op in ("set", "add", "multiply", "min", "max"):
            flat = np.concatenate([a.reshape(-1) for a in arrays]) if arrays else np.zeros(0)
            if op != "add" and len(flat) != len(set(flat.tolist())):
                continue
            x = sample(f"index{shape}", "f32", shape)
            taken = jax.eval_shape(lambda x, *a, index=index: x[_resolve(index, a)], x, *arrays)
            update = sample(f"at{taken.shape}", "f32", taken.shape)
            run = lambda x, u, *a, index=index, op=op: getattr(
                jnp.asarray(x).at[_resolve(index, a)], op
            )(u)
            wrt = [0, 1] if op in ("set", "add") else None
            suite.case(
                f"at_{op}_{label}",
                f"at_{op}",
                [x, update, *arrays],
                run if wrt else jax.jit(run),
                params,
                wrt=wrt,
            )
    _take(suite)


def _take(suite):
    for kind in (*WIDE, "i32"):
        wrt = [0] if kind in WIDE else None
        x = sample("take", kind, (4, 5))
        for label, indices, axis in (
            ("rows", [[0, 3], [1, 1]], 0),
            ("last", [4, -1, 0], 1),
            ("outside", [7, 1], 0),
            ("flat", [0, 19, 7], None),
        ):
            run = lambda x, i, a=axis: jnp.take(x, i, axis=a)
            suite.case(
                f"take_{label}_{kind}",
                "take",
                [x, np.array(indices, np.int32)],
                run if wrt else jax.jit(run),
                {"axis": axis},
                wrt=wrt,
            )
        for label, indices, axis in (
            ("last", [[0], [4], [2], [2]], 1),
            ("first", [[0, 1, 2, 3, 0]], 0),
            ("many", [[0, 0], [4, 3], [-1, 1], [2, -5]], -1),
            ("broadcast", [[1, 3]], 1),
            ("outside", [[9], [0], [-6], [1]], 1),
        ):
            run = lambda x, i, a=axis: jnp.take_along_axis(x, i, axis=a)
            inputs = [x, np.array(indices, np.int32)]
            suite.case(
                f"take_along_axis_{label}_{kind}",
                "take_along_axis",
                inputs,
                run if wrt else jax.jit(run),
                {"axis": axis},
                wrt=wrt,
            )
