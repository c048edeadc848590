"""Cases of gather and scatter, in StableHLO's general form, for every mode."""

import jax
import numpy as np
from jax import lax

from .names import dtype
from .ops_elementwise import WIDE
from .ops_shape import sample
from .suite import EXACT

_MODES = {"promise_in_bounds": "promise_in_bounds", "clip": "clip", "fill_or_drop": "fill"}
_SCATTER = {
    "scatter": lax.scatter,
    "scatter_add": lax.scatter_add,
    "scatter_mul": lax.scatter_mul,
    "scatter_min": lax.scatter_min,
    "scatter_max": lax.scatter_max,
}

# label, operand, indices (the last axis is the index vector), dimension numbers, slice sizes
_GATHER = [
    ("rows", (5, 3), [[1], [4], [1]], ((1,), (0,), (0,), (), ()), (1, 3)),
    ("columns", (3, 5), [[0], [2]], ((0,), (1,), (1,), (), ()), (3, 1)),
    ("points", (4, 5), [[0, 1], [3, 4], [2, 2]], ((), (0, 1), (0, 1), (), ()), (1, 1)),
    ("windows", (6, 5), [[0, 1], [3, 2]], ((1, 2), (), (0, 1), (), ()), (2, 3)),
    ("swapped", (6, 5), [[1, 0], [2, 3]], ((1,), (1,), (1, 0), (), ()), (2, 1)),
    ("matrix_of_rows", (5, 2), [[[0], [1]], [[4], [4]]], ((2,), (0,), (0,), (), ()), (1, 2)),
    ("scalar_index", (5, 2), [3], ((0,), (0,), (0,), (), ()), (1, 2)),
    ("batched", (3, 4), [[[0], [1]], [[3], [3]], [[2], [0]]], ((), (1,), (1,), (0,), (0,)), (1, 1)),
    ("no_rows", (5, 3), np.zeros((0, 1)), ((1,), (0,), (0,), (), ()), (1, 3)),
]
_OUT = {
    "rows": [[1], [7], [-1], [5]],
    "points": [[0, 1], [3, 5], [-1, 2], [4, 0]],
    "windows": [[0, 1], [5, 2], [-2, -1], [9, 9]],
    "batched": [[[0], [4]], [[-1], [3]], [[2], [100]]],
}


def add(suite):
    """Adds all cases."""
    for label, shape, indices, numbers, sizes in _GATHER:
        for mode in _MODES:
            _gather(suite, f"{label}_{mode}", shape, indices, numbers, sizes, mode)
            if label in _OUT and mode != "promise_in_bounds":
                _gather(suite, f"{label}_outside_{mode}", shape, _OUT[label], numbers, sizes, mode)
    for value in (0, -5):
        _gather(
            suite,
            f"rows_fill_{value}",
            (5, 3),
            _OUT["rows"],
            _GATHER[0][3],
            (1, 3),
            "fill_or_drop",
            value,
        )
    for index_kind in ("i8", "u8", "i64", "u32"):
        _gather(
            suite,
            f"rows_{index_kind}",
            (5, 3),
            [[1], [4]],
            _GATHER[0][3],
            (1, 3),
            "fill_or_drop",
            None,
            index_kind,
        )
    for label, shape, indices, numbers, sizes in _GATHER:
        for op in _SCATTER:
            _scatter(suite, op, label, shape, indices, numbers, sizes, "fill_or_drop")
            if label in _OUT:
                for mode in ("clip", "fill_or_drop"):
                    _scatter(
                        suite,
                        op,
                        f"{label}_outside_{mode}",
                        shape,
                        _OUT[label],
                        numbers,
                        sizes,
                        mode,
                    )


def _gather(suite, label, shape, indices, numbers, sizes, mode, fill=None, index_kind="i32"):
    offset, collapsed, start, operand_batching, indices_batching = numbers
    dims = lax.GatherDimensionNumbers(offset, collapsed, start, operand_batching, indices_batching)
    params = {
        "offset_dims": offset,
        "collapsed_slice_dims": collapsed,
        "start_index_map": start,
        "operand_batching_dims": operand_batching,
        "start_indices_batching_dims": indices_batching,
        "slice_sizes": sizes,
        "mode": mode,
        "fill_value": fill,
    }
    indices = np.asarray(indices).astype(dtype(index_kind))
    run = lambda x, i: lax.gather(x, i, dims, sizes, mode=_MODES[mode], fill_value=fill)
    for kind in ("i32", "bool", "bf16", *WIDE):
        if kind in ("bool", "bf16", "i32") and not label.startswith(("rows", "points_outside")):
            continue
        wrt = [0] if kind in WIDE else None
        x = sample(f"gather{shape}", kind, shape)
        suite.case(
            f"gather_{label}_{kind}",
            "gather",
            [x, indices],
            run if wrt else jax.jit(run),
            params,
            None if wrt else EXACT,
            wrt=wrt,
        )


def _scatter(suite, op, label, shape, indices, numbers, sizes, mode):
    offset, collapsed, start, operand_batching, indices_batching = numbers
    dims = lax.ScatterDimensionNumbers(offset, collapsed, start, operand_batching, indices_batching)
    params = {
        "update_window_dims": offset,
        "inserted_window_dims": collapsed,
        "scatter_dims_to_operand_dims": start,
        "operand_batching_dims": operand_batching,
        "scatter_indices_batching_dims": indices_batching,
        "mode": mode,
    }
    indices = np.asarray(indices).astype(np.int32)
    gather_dims = lax.GatherDimensionNumbers(
        offset, collapsed, start, operand_batching, indices_batching
    )
    unique = (
        len({tuple(row) for row in indices.reshape(-1, indices.shape[-1]).tolist()})
        == indices[..., 0].size
    )
    for kind in ("i32", *WIDE):
        if kind == "i32" and not label.startswith(("rows", "points")):
            continue
        x = sample(f"scatter{shape}", kind, shape)
        taken = jax.eval_shape(
            lambda x, i: lax.gather(x, i, gather_dims, sizes, mode="clip"), x, indices
        )
        updates = sample(f"updates{taken.shape}", kind, taken.shape)
        run = lambda x, u, i, f=_SCATTER[op]: f(x, i, u, dims, mode=_MODES[mode])
        wrt = [0, 1] if kind in WIDE and op in ("scatter", "scatter_add") else None
        # If two updates write the same element, the result of `scatter` is undefined, and a product
        # has no derivative.
        if not unique and op == "scatter":
            continue
        if kind in WIDE and op == "scatter_mul" and unique:
            run = lambda x, u, i: lax.scatter_mul(
                x, i, u, dims, mode=_MODES[mode], unique_indices=True
            )
            wrt = [0, 1]
        more = {"unique_indices": unique}
        suite.case(
            f"{op}_{label}_{kind}",
            op,
            [x, updates, indices],
            run if wrt else jax.jit(run),
            params | more,
            wrt=wrt,
        )
