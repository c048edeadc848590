"""Cases of ragged products, local convolutions, high halves of products, and random bits."""

import jax
import numpy as np
from jax import lax
from jax._src.lax.lax import _ragged_dot_general_impl

from .mapped import plain_and_mapped
from .names import dtype
from .ops_elementwise import inside
from .suite import EXACT

# label, operands, group sizes, contracting and batch axes, ragged axis, group axis
RAGGED = [
    ("rows", (7, 3), (4, 3, 2), [3, 0, 2, 1], ([1], [1]), ([], []), 0, 0),
    ("rest", (7, 3), (3, 3, 2), [3, 0, 2], ([1], [1]), ([], []), 0, 0),
    ("last_group_axis", (5, 3), (3, 2, 2), [3, 2], ([1], [0]), ([], []), 0, 2),
    ("batch", (2, 5, 3), (2, 2, 3, 2), [[2, 3], [4, 1]], ([2], [2]), ([0], [1]), 1, 0),
    ("batch_one_list", (2, 5, 3), (2, 2, 3, 2), [2, 3], ([2], [2]), ([0], [1]), 1, 0),
    ("outer_rows", (2, 5, 3), (2, 3, 4), [[2, 3], [4, 1]], ([2], [1]), ([], []), 1, 0),
    ("contracting", (6, 3), (6, 2), [1, 3, 2], ([0], [0]), ([], []), 0, None),
    ("contracting_batch", (2, 3, 6), (2, 6, 4), [[1, 5], [3, 2]], ([2], [1]), ([0], [0]), 2, None),
    (
        "contracting_two",
        (2, 6, 3),
        (6, 2, 4),
        [[1, 5], [3, 2]],
        ([0, 1], [1, 0]),
        ([], []),
        1,
        None,
    ),
    ("of_batch", (4, 2, 3), (4, 3, 2), [1, 3], ([2], [1]), ([0], [0]), 0, None),
]


def add(suite):
    """Adds all cases."""
    _ragged(suite)
    _local(suite)
    _high(suite)
    _bits(suite)


def _ragged(suite):
    for label, left, right, sizes, contract, batch, ragged, group in RAGGED:
        dims = lax.RaggedDotDimensionNumbers(
            (tuple(contract), tuple(batch)), [ragged], [] if group is None else [group]
        )
        # JAX differentiates `ragged_dot_general` only if the ragged axis is free. The other cases
        # use the implementation that defines it.
        function = _ragged_dot_general_impl if group is None else lax.ragged_dot_general
        run = lambda x, y, sizes, f=function, dims=dims: f(x, y, sizes, dims)
        params = {"contracting": contract, "batch": batch, "ragged": ragged, "group": group}
        for kind in ("f32", "f64"):
            x, y = (
                inside(f"rl{label}", (-2, 2), kind, left),
                inside(f"rr{label}", (-2, 2), kind, right),
            )
            suite.case(
                f"ragged_{label}_{kind}",
                "ragged_dot_general",
                [x, y, np.array(sizes, np.int32)],
                run,
                params,
                wrt=[0, 1],
            )
    x, y, sizes = (
        inside("rx", (-2, 2), "f32", (7, 3)),
        inside("ry", (-2, 2), "f32", (4, 3, 2)),
        np.array([3, 0, 2, 1], np.int32),
    )
    suite.case("ragged_dot_f32", "ragged_dot", [x, y, sizes], lax.ragged_dot, {}, wrt=[0, 1])
    # JAX cannot map the sizes without the operands.
    batched_sizes = np.stack([sizes, sizes[::-1]])
    suite.case(
        "vmap_ragged_dot",
        "ragged_dot",
        [np.stack([x, x[::-1]]), np.stack([y, y * 2]), batched_sizes],
        jax.vmap(lax.ragged_dot),
        {"in_axes": [0, 0, 0]},
        wrt=[0, 1],
    )


def _local(suite):
    layouts = [
        ("first", ("NCHW", "OIHW", "NCHW"), (2, 3, 5, 4), (4, 12, 4, 3)),
        ("last", ("NHWC", "HWIO", "NHWC"), (2, 5, 4, 3), (4, 3, 12, 4)),
        ("mixed", ("WNHC", "OHIW", "CHNW"), (4, 2, 5, 3), (4, 4, 12, 3)),
    ]
    for label, layout, left, right in layouts:
        x, y = (
            inside(f"ll{label}", (-2, 2), "f64", left),
            inside(f"lr{label}", (-2, 2), "f64", right),
        )
        run = lambda x, y, n=layout: lax.conv_general_dilated_local(
            x, y, (1, 1), "VALID", (2, 2), dimension_numbers=n
        )
        params = {
            "filter_shape": [2, 2],
            "window_strides": [1, 1],
            "padding": "VALID",
            "dimension_numbers": layout,
        }
        plain_and_mapped(
            suite, f"local_{label}", "conv_general_dilated_local", [x, y], run, params, wrt=[0, 1]
        )
    x, y = inside("lsx", (-2, 2), "f32", (1, 2, 6, 5)), inside("lsy", (-2, 2), "f32", (3, 12, 3, 5))
    run = lambda x, y: lax.conv_general_dilated_local(
        x, y, (2, 1), "SAME", (2, 3), rhs_dilation=(2, 1)
    )
    params = {
        "filter_shape": [2, 3],
        "window_strides": [2, 1],
        "padding": "SAME",
        "rhs_dilation": [2, 1],
    }
    suite.case("local_strided", "conv_general_dilated_local", [x, y], run, params, wrt=[0, 1])


def _high(suite):
    for kind in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"):
        info = np.iinfo(dtype(kind))
        rng = np.random.default_rng(info.bits)
        edges = np.array(
            [info.min, info.max, info.max - 1, info.min + 1, 0, 1, 3, info.max // 3], dtype(kind)
        )
        drawn = rng.integers(info.min, info.max, 8, dtype(kind), endpoint=True)
        x, y = np.repeat(edges, 8), np.tile(np.concatenate([edges[:4], drawn[:4]]), 8)
        suite.case(f"mulhi_{kind}", "mulhi", [x, y], jax.jit(lax.mulhi), {}, EXACT)


def _bits(suite):
    states = {
        "u32": np.array([1, 2**31 + 5, 77, 3], np.uint32),
        "u64": np.array([2**63 + 11, 42], np.uint64),
    }
    for label, algorithm in (("default", 0), ("three_fry", 1), ("philox", 2)):
        for state, value in states.items():
            for kind in ("u8", "u16", "u32", "u64"):
                for shape in ((5,), (2, 3)):
                    run = jax.jit(
                        lambda s, a=algorithm, k=kind, shape=shape: lax.rng_bit_generator(
                            s, shape, dtype(k), lax.RandomAlgorithm(a)
                        )
                    )
                    params = {"algorithm": label, "dtype": kind, "shape": shape}
                    suite.case(
                        f"bits_{label}_{state}_{kind}_{len(shape)}",
                        "rng_bit_generator",
                        [value],
                        run,
                        params,
                        EXACT,
                    )
