"""Products, indices, repetitions, differences and sequences with options."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from .api_table import B, I, R, Row, V

WIDE = {"preferred_element_type": jnp.float32}
_M = R((3, 4))
_X3 = lax.DotAlgorithmPreset.BF16_BF16_F32_X3
_BF16 = lax.DotAlgorithmPreset.BF16_BF16_F32
_SLACK = {"rtol": 2e-2, "atol": 2e-2}


def _product(op, shapes, function, wrt=(0, 1), **more):
    """Returns a row of a product of `bf16` operands that is summed in `f32`."""
    operands = [R(shape) for shape in shapes]
    return Row(op, operands, function, wrt, kinds=("bf16", "f32"), tolerance=_SLACK, **more)


def _indexed(op, operands, function, wrt=(0,), **more):
    """Returns an exact row of a function that reads or writes at indices."""
    return Row(op, operands, function, wrt, kinds=("f32", "bf16"), exact=True, **more)


_AT = V([0, -1, 5, -7, 2])
_OFF = {"wrap_negative_indices": False}

PRODUCTS = [
    _product("dot_wide", [(3, 4), (4, 2)], lambda x, y: jnp.dot(x, y, **WIDE)),
    _product("dot_scalar_wide", [(), (4, 2)], lambda x, y: jnp.dot(x, y, **WIDE)),
    _product("inner_wide", [(3, 4), (2, 4)], lambda x, y: jnp.inner(x, y, **WIDE)),
    _product("vdot_wide", [(3, 4), (4, 3)], lambda x, y: jnp.vdot(x, y, **WIDE)),
    _product("vecdot_wide", [(3, 4), (3, 4)], lambda x, y: jnp.vecdot(x, y, **WIDE)),
    _product(
        "tensordot_wide",
        [(3, 4, 2), (4, 3, 5)],
        lambda x, y: jnp.tensordot(x, y, axes=([0, 1], [1, 0]), **WIDE),
    ),
    _product(
        "einsum_wide", [(3, 4), (4, 2)], lambda x, y: jnp.einsum("ij,jk->ki", x, y, **WIDE)
    ),
    Row(
        "matmul_bf16_x3",
        [_M, R((4, 2))],
        lambda x, y: jnp.matmul(x, y, precision=_X3),
        (0, 1),
        tolerance={"rtol": 1e-5, "atol": 1e-5},
    ),
    Row(
        "matmul_bf16",
        [_M, R((4, 2))],
        lambda x, y: jnp.matmul(x, y, precision=_BF16),
        tolerance=_SLACK,
    ),
    _product(
        "convolve_wide",
        [(7,), (3,)],
        lambda x, y: jnp.convolve(x, y, mode="same", **WIDE),
    ),
    _product(
        "correlate_wide",
        [(7,), (3,)],
        lambda x, y: jnp.correlate(x, y, mode="full", **WIDE),
    ),
    Row("cross_axes", [R((3, 2)), R((2, 3))], lambda x, y: jnp.cross(x, y, 0, 1, 0), (0, 1)),
    Row(
        "conv_transpose_consistent",
        [R((1, 5, 2)), R((3, 2, 4))],
        lambda x, k: lax.conv_transpose(
            x, k, (2,), [(1, 1)], use_consistent_padding=True, preferred_element_type=jnp.float32
        ),
        (0, 1),
    ),
]

INDICES = [
    _indexed("get_fill", [R((4, 2)), _AT], lambda x, i: x.at[i].get(mode="fill")),
    _indexed(
        "get_fill_value",
        [R((4, 2)), _AT],
        lambda x, i: x.at[i].get(mode="fill", fill_value=7),
    ),
    _indexed("get_clip", [R((4, 2)), _AT], lambda x, i: x.at[i].get(mode="clip")),
    _indexed(
        "get_clip_unwrapped", [R((4, 2)), _AT], lambda x, i: x.at[i].get(mode="clip", **_OFF)
    ),
    _indexed("get_static_fill", [R((4, 2))], lambda x: x.at[9].get(mode="fill", fill_value=1)),
    _indexed(
        "set_clip",
        [R((4, 2)), V([0, 9]), R((2, 2))],
        lambda x, i, v: x.at[i].set(v, mode="clip", unique_indices=True),
        (0, 2),
    ),
    _indexed(
        "set_unwrapped",
        [R((4, 2)), V([-1, 2]), R((2, 2))],
        lambda x, i, v: x.at[i].set(v, mode="drop", unique_indices=True, **_OFF),
        (0, 2),
    ),
    Row(
        "add_strided_clip",
        [R((4, 6)), V([0, 9, 2]), R((3, 3))],
        lambda x, i, v: x.at[i, ::2].add(v, mode="clip"),
        (0, 2),
        kinds=("f32", "bf16"),
    ),
    _indexed(
        "subtract",
        [R((4, 2)), V([0, 2]), R((2, 2))],
        lambda x, i, v: x.at[i].subtract(v),
        (0, 2),
    ),
    _indexed(
        "add_promised",
        [R((4, 2)), V([0, 2]), R((2, 2))],
        lambda x, i, v: x.at[i].add(
            v, mode="promise_in_bounds", unique_indices=True, indices_are_sorted=True
        ),
        (0, 2),
    ),
    _indexed("take_clip", [R((3, 4)), _AT], lambda x, i: jnp.take(x, i, axis=0, mode="clip")),
    _indexed("take_wrap", [R((3, 4)), _AT], lambda x, i: jnp.take(x, i, axis=1, mode="wrap")),
    _indexed(
        "take_fill_value", [R((3, 4)), _AT], lambda x, i: jnp.take(x, i, axis=0, fill_value=2)
    ),
    _indexed("take_flat", [R((3, 4)), I((2, 3), 0, 12)], lambda x, i: jnp.take(x, i)),
    _indexed(
        "take_along_clip",
        [R((3, 4)), I((3, 2), -6, 8)],
        lambda x, i: jnp.take_along_axis(x, i, 1, mode="clip"),
    ),
    _indexed(
        "take_along_fill",
        [R((3, 4)), I((3, 2), -6, 8)],
        lambda x, i: jnp.take_along_axis(x, i, 1, mode="fill", fill_value=0.5),
    ),
    _indexed(
        "take_along_flat",
        [R((3, 4)), I((5,), 0, 12)],
        lambda x, i: jnp.take_along_axis(x, i, None),
    ),
]

SHAPES = [
    _indexed(
        "repeat_total",
        [R((3, 2)), V([2, 0, 3])],
        lambda x, n: jnp.repeat(x, n, axis=0, total_repeat_length=5),
    ),
    _indexed(
        "repeat_longer",
        [R((3, 2)), V([2, 0, 1])],
        lambda x, n: jnp.repeat(x, n, axis=0, total_repeat_length=6),
    ),
    _indexed(
        "repeat_shorter",
        [R((2, 3)), V([2, 4, 1])],
        lambda x, n: jnp.repeat(x, n, axis=1, total_repeat_length=3),
    ),
    _indexed("repeat_counts", [R((3,))], lambda x: jnp.repeat(x, np.array([1, 0, 2]))),
    _indexed("repeat_flat", [R((2, 2))], lambda x: jnp.repeat(x, 2)),
    _indexed("roll_axes", [R((3, 4))], lambda x: jnp.roll(x, (1, -2), (0, 1))),
    _indexed("roll_flat", [R((3, 4))], lambda x: jnp.roll(x, 5)),
    _indexed("roll_traced", [R((3, 4)), V([5, -1])], lambda x, n: jnp.roll(x, n, (0, 1))),
    _indexed("moveaxis_list", [R((2, 3, 4))], lambda x: jnp.moveaxis(x, (0, 1), (-1, 0))),
    _indexed("append_flat", [R((2, 2)), R((3,))], lambda x, y: jnp.append(x, y), (0, 1)),
    _indexed("delete_flat", [R((2, 3))], lambda x: jnp.delete(x, 2)),
    _indexed(
        "insert_flat", [R((2, 2)), R((1,))], lambda x, y: jnp.insert(x, 1, y), (0, 1)
    ),
    _indexed("reshape_f", [R((2, 3))], lambda x: jnp.reshape(x, (3, 2), order="F")),
    _indexed("sort_flat", [R((2, 3))], lambda x: jnp.sort(x, axis=None)),
    _indexed("argsort_flat", [R((2, 3))], lambda x: jnp.argsort(x, axis=None), None),
    Row("diff_n", [R((2, 5))], lambda x: jnp.diff(x, n=2), (0,)),
    Row(
        "diff_ends",
        [R((2, 3)), R((2, 1))],
        lambda x, y: jnp.diff(x, axis=1, prepend=y, append=0.5),
        (0, 1),
    ),
    Row(
        "ediff1d_ends",
        [R((4,)), R((1,)), R((2,))],
        lambda x, a, b: jnp.ediff1d(x, to_begin=a, to_end=b),
        (0,),
    ),
    _indexed("vander_increasing", [V([0.5, -2.0, 1.0])], lambda x: jnp.vander(x, 3, True)),
    _indexed("meshgrid_sparse", [R((3,)), R((2,))], lambda x, y: jnp.meshgrid(x, y, sparse=True)),
    Row("linspace_axis", [R((2,)), R((2,))], lambda x, y: jnp.linspace(x, y, 4, axis=1), (0, 1)),
    Row("linspace_int", [], lambda: jnp.linspace(0, 10, 4, dtype=jnp.int32), exact=True),
    Row(
        "linspace_step",
        [R((2,)), R((2,))],
        lambda x, y: jnp.linspace(x, y, 4, endpoint=False, retstep=True),
        (0, 1),
    ),
    Row(
        "geomspace_open",
        [R((2,), 0.5, 2), R((2,), 2, 4)],
        lambda x, y: jnp.geomspace(x, y, 4, endpoint=False, axis=1),
        (0, 1),
    ),
    Row(
        "indices_sparse",
        [],
        lambda: jnp.indices((2, 3), dtype=jnp.int32, sparse=True),
        exact=True,
    ),
    _indexed("like_dtype", [_M], lambda x: jnp.full_like(x, 3, dtype=jnp.int8, shape=(2,)), None),
    _indexed(
        "isin_invert",
        [I((5,), 0, 4), I((2,), 0, 4)],
        lambda x, y: jnp.isin(x, y, invert=True),
        None,
    ),
    Row(
        "intersect_indices",
        [V([5, 1, 3, 5, 2]), V([3, 5, 5, 9])],
        lambda x, y: jnp.intersect1d(x, y, return_indices=True, size=2),
        batch=False,
        exact=True,
    ),
    Row(
        "searchsorted_sorter",
        [R((6,)), R((4,))],
        lambda x, v: jnp.searchsorted(x, v, sorter=jnp.argsort(x)),
        exact=True,
    ),
    _indexed("clip_upper", [R((2, 3))], lambda x: jnp.clip(x, max=0.5)),
    _indexed("where_mask", [R((2, 3)), B((2, 3))], lambda x, m: jnp.where(m, x, 0)),
]

ROWS = PRODUCTS + INDICES + SHAPES
