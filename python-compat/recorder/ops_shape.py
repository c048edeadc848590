"""Cases of primitives that move elements, and of conversions."""

import jax
import numpy as np
from jax import lax

from .names import DTYPES, dtype
from .ops_elementwise import edges, inside
from .suite import EXACT

KINDS = ("bool", "i32", "bf16", "f32", "f64", "c64")


def sample(name: str, kind: str, shape) -> np.ndarray:
    """Returns random values of any dtype. Integers are small."""
    if kind == "bool":
        return inside(name, (-1, 1), "f32", shape) > 0
    if dtype(kind).kind in "iu":
        return inside(name, (0, 100), "f64", shape).astype(dtype(kind))
    return inside(name, (-2, 2), kind, shape)


def _cases(suite, op, label, shapes, function, params, kinds=KINDS, wrt=(0,)):
    """Adds a case for each dtype, with derivatives for f32, f64 and c64."""
    for kind in kinds:
        arrays = [sample(f"{label}{i}", kind, shape) for i, shape in enumerate(shapes)]
        differentiable = list(wrt) if kind in ("f32", "f64", "c64") else None
        compute = function if differentiable else jax.jit(function)
        suite.case(
            f"{op}_{label}_{kind}",
            op,
            arrays,
            compute,
            params,
            EXACT if op != "pad" else None,
            wrt=differentiable,
        )


def add(suite):
    """Adds all cases."""
    _convert(suite)
    _reshaping(suite)
    _slicing(suite)


def _convert(suite):
    whole = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
    real = ("bf16", "f16", "f32", "f64")
    for source in (*whole, *real, "c64", "c128"):
        if source.startswith("c"):
            values = inside("convert", (-3, 3), source, (7,))
        else:
            values = edges(source)
        for target in (*whole, *real, "c64", "c128"):
            if source == target or (source.startswith("c") and not target.startswith("c")):
                continue
            run = jax.jit(lambda x, t=target: lax.convert_element_type(x, dtype(t)))
            suite.case(
                f"convert_{source}_{target}",
                "convert_element_type",
                [values],
                run,
                {"new_dtype": target},
            )
    for kind in (name for name in DTYPES if name.startswith("f8")):
        for source in ("f32", "bf16"):
            run = jax.jit(lambda x, t=kind: lax.convert_element_type(x, dtype(t)))
            values = edges(source)
            suite.case(
                f"convert_{source}_{kind}",
                "convert_element_type",
                [values],
                run,
                {"new_dtype": kind},
            )
        # All bit patterns of the narrow type.
        every = np.arange(256, dtype=np.uint8).view(dtype(kind))
        for target in ("f32", "f64", "bf16"):
            run = jax.jit(lambda x, t=target: lax.convert_element_type(x, dtype(t)))
            suite.case(
                f"convert_{kind}_{target}",
                "convert_element_type",
                [every],
                run,
                {"new_dtype": target},
            )
    for kind, values in (("i4", np.arange(-8, 8)), ("u4", np.arange(16))):
        for target in ("i32", "f32"):
            run = jax.jit(lambda x, t=target: lax.convert_element_type(x, dtype(t)))
            suite.case(
                f"convert_{kind}_{target}",
                "convert_element_type",
                [values.astype(dtype(kind))],
                run,
                {"new_dtype": target},
            )
            back = jax.jit(lambda x, t=kind: lax.convert_element_type(x, dtype(t)))
            suite.case(
                f"convert_{target}_{kind}",
                "convert_element_type",
                [values.astype(dtype(target))],
                back,
                {"new_dtype": kind},
            )
    for source, target in (
        ("f32", "f64"),
        ("f64", "f32"),
        ("f32", "bf16"),
        ("bf16", "f32"),
        ("f32", "c64"),
        ("f64", "c128"),
        ("c64", "c128"),
    ):
        run = lambda x, t=target: lax.convert_element_type(x, dtype(t))
        suite.case(
            f"convert_grad_{source}_{target}",
            "convert_element_type",
            [inside("grad", (-3, 3), source)],
            run,
            {"new_dtype": target},
            wrt=[0],
        )
    for source, target in (
        ("f32", "i32"),
        ("f32", "u32"),
        ("i64", "f64"),
        ("bf16", "u16"),
        ("u8", "i8"),
    ):
        run = jax.jit(lambda x, t=target: lax.bitcast_convert_type(x, dtype(t)))
        values = sample("bitcast", source, (3, 4))
        suite.case(
            f"bitcast_{source}_{target}",
            "bitcast_convert_type",
            [values],
            run,
            {"new_dtype": target},
        )


def _reshaping(suite):
    for label, source, shape, dims in (
        ("scalar", (), (2, 3), ()),
        ("row", (3,), (2, 3), (1,)),
        ("column", (2,), (2, 3), (0,)),
        ("stretch", (2, 1), (4, 2, 3), (1, 2)),
        ("empty", (1, 0), (4, 0), (0, 1)),
        ("same", (2, 3), (2, 3), (0, 1)),
    ):
        run = lambda x, s=shape, d=dims: lax.broadcast_in_dim(x, s, d)
        _cases(
            suite,
            "broadcast_in_dim",
            label,
            [source],
            run,
            {"shape": shape, "broadcast_dimensions": dims},
        )
    for label, source, shape in (
        ("flat", (2, 3), (6,)),
        ("split", (12,), (2, 3, 2)),
        ("scalar", (1, 1), ()),
        ("unit", (), (1, 1)),
        ("empty", (0, 3), (3, 0, 2)),
    ):
        _cases(
            suite,
            "reshape",
            label,
            [source],
            lambda x, s=shape: lax.reshape(x, s),
            {"new_sizes": shape},
        )
    for label, source, order in (
        ("matrix", (2, 3), (1, 0)),
        ("rank3", (2, 3, 4), (2, 0, 1)),
        ("scalar", (), ()),
        ("rank4", (2, 1, 3, 2), (3, 1, 0, 2)),
        ("empty", (0, 2), (1, 0)),
    ):
        _cases(
            suite,
            "transpose",
            label,
            [source],
            lambda x, o=order: lax.transpose(x, o),
            {"permutation": order},
        )
    for label, source, dims in (
        ("vector", (5,), (0,)),
        ("both", (2, 3), (0, 1)),
        ("last", (2, 3), (1,)),
        ("none", (2, 3), ()),
    ):
        _cases(suite, "rev", label, [source], lambda x, d=dims: lax.rev(x, d), {"dimensions": dims})
    for kind in ("i8", "i32", "i64", "u8", "u32", "u64", "bf16", "f32", "f64", "c64"):
        for label, shape, axis in (
            ("vector", (5,), 0),
            ("rows", (3, 2), 0),
            ("columns", (3, 2), 1),
            ("empty", (0,), 0),
        ):
            run = lambda k=kind, s=shape, a=axis: lax.broadcasted_iota(dtype(k), s, a)
            suite.case(
                f"iota_{label}_{kind}",
                "iota",
                [],
                run,
                {"dtype": kind, "shape": shape, "dimension": axis},
                EXACT,
            )
    for label, source, config in (
        ("plain", (3,), [(1, 2, 0)]),
        ("negative", (6,), [(-1, -2, 0)]),
        ("interior", (3,), [(0, 0, 2)]),
        ("all", (2, 3), [(1, 0, 1), (2, -1, 1)]),
        ("crop_interior", (4,), [(-2, 1, 1)]),
        ("to_empty", (2, 3), [(-1, -1, 0), (0, 0, 0)]),
        ("empty", (0,), [(2, 1, 3)]),
        ("scalar", (), []),
    ):
        run = lambda x, value, c=config: lax.pad(x, value, c)
        _cases(suite, "pad", label, [source, ()], run, {"padding_config": config}, wrt=(0, 1))
    for label, shapes, axis in (
        ("rows", [(2, 3), (1, 3), (4, 3)], 0),
        ("columns", [(2, 1), (2, 2)], 1),
        ("one", [(2, 2)], 0),
        ("empty", [(0, 2), (3, 2)], 0),
    ):
        run = lambda *xs, a=axis: lax.concatenate(xs, a)
        _cases(
            suite, "concatenate", label, shapes, run, {"dimension": axis}, wrt=range(len(shapes))
        )


def _slicing(suite):
    for label, source, start, limit, strides in (
        ("vector", (7,), (1,), (6,), None),
        ("strided", (7,), (1,), (7,), (3,)),
        ("matrix", (4, 5), (1, 0), (3, 5), (1, 2)),
        ("empty", (4, 5), (2, 2), (2, 4), None),
        ("scalar", (), (), (), None),
    ):
        run = lambda x, s=start, l=limit, t=strides: lax.slice(x, s, l, t)
        params = {"start_indices": start, "limit_indices": limit, "strides": strides}
        _cases(suite, "slice", label, [source], run, params)
    for kind in ("i32", "bf16", "f32", "f64"):
        wrt = [0] if kind in ("f32", "f64") else None
        both = [0, 1] if kind in ("f32", "f64") else None
        x, update = sample("ds", kind, (4, 5)), sample("update", kind, (2, 3))
        # Start indices out of range are clamped, so that the slice is in bounds.
        for label, index, index_kind in (
            ("inside", (1, 2), "i32"),
            ("clamped", (3, 4), "i32"),
            ("negative", (-7, 1), "i64"),
            ("unsigned", (200, 0), "u8"),
        ):
            starts = [np.array(i, dtype(index_kind)) for i in index]
            run = lambda x, i, j: lax.dynamic_slice(x, (i, j), (2, 3))
            run = run if wrt else jax.jit(run)
            suite.case(
                f"dynamic_slice_{label}_{kind}",
                "dynamic_slice",
                [x, *starts],
                run,
                {"slice_sizes": [2, 3]},
                EXACT,
                wrt=wrt,
            )
            run = lambda x, u, i, j: lax.dynamic_update_slice(x, u, (i, j))
            run = run if wrt else jax.jit(run)
            suite.case(
                f"dynamic_update_slice_{label}_{kind}",
                "dynamic_update_slice",
                [x, update, *starts],
                run,
                tolerance=EXACT,
                wrt=both,
            )
