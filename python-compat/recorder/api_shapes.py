"""Joining, splitting, flipping, diagonals, indices, vector products, polynomials and windows."""

import jax.numpy as jnp

from .api_table import I, R, Row

BOTH = ("f32", "f64")
_M = R((3, 4))


def _rearrangement(op, operands, function, **more):
    """Returns an exact row of a function that moves elements, differentiable by all operands."""
    return Row(op, operands, function, tuple(range(len(operands))), exact=True, **more)


ROWS = [
    _rearrangement("atleast_1d", [R(())], jnp.atleast_1d),
    _rearrangement("atleast_2d", [R((3,))], jnp.atleast_2d),
    _rearrangement("atleast_3d", [R((3,))], jnp.atleast_3d),
    _rearrangement("atleast_3d_matrix", [_M], jnp.atleast_3d),
    _rearrangement("append", [_M, R((1, 4))], lambda x, y: jnp.append(x, y, axis=0)),
    _rearrangement("hstack", [_M, R((3, 1))], lambda x, y: jnp.hstack([x, y])),
    _rearrangement("hstack_vectors", [R((3,)), R((2,))], lambda x, y: jnp.hstack([x, y])),
    _rearrangement("vstack", [R((3,)), R((3,))], lambda x, y: jnp.vstack([x, y])),
    _rearrangement("dstack", [R((3,)), R((3,))], lambda x, y: jnp.dstack([x, y])),
    _rearrangement("column_stack", [R((3,)), R((3, 2))], lambda x, y: jnp.column_stack([x, y])),
    _rearrangement(
        "block", [R((2, 2)), R((2, 3)), R((1, 5))], lambda a, b, c: jnp.block([[a, b], [c]])
    ),
    _rearrangement(
        "broadcast_arrays", [R((3, 1)), R((4,))], lambda x, y: jnp.broadcast_arrays(x, y)
    ),
    _rearrangement("array_split", [R((7, 2))], lambda x: jnp.array_split(x, 3)),
    _rearrangement("hsplit", [R((2, 4))], lambda x: jnp.hsplit(x, 2)),
    _rearrangement("vsplit", [R((4, 2))], lambda x: jnp.vsplit(x, 2)),
    _rearrangement("dsplit", [R((1, 2, 4))], lambda x: jnp.dsplit(x, 2)),
    _rearrangement("unstack", [_M], lambda x: jnp.unstack(x, axis=1)),
    _rearrangement("rot90", [_M], jnp.rot90),
    _rearrangement("rot90_2", [_M], lambda x: jnp.rot90(x, 2)),
    _rearrangement("rot90_back", [R((2, 3, 4))], lambda x: jnp.rot90(x, -1, axes=(1, 2))),
    _rearrangement("fliplr", [_M], jnp.fliplr),
    _rearrangement("flipud", [_M], jnp.flipud),
    _rearrangement("rollaxis", [R((2, 3, 4))], lambda x: jnp.rollaxis(x, 2)),
    _rearrangement("rollaxis_1_3", [R((2, 3, 4))], lambda x: jnp.rollaxis(x, 1, 3)),
    _rearrangement("matrix_transpose", [R((2, 3, 4))], jnp.matrix_transpose),
    _rearrangement("resize", [_M], lambda x: jnp.resize(x, (5, 3))),
    _rearrangement(
        "delete",
        [_M],
        lambda x: jnp.delete(x, jnp.array([0, -1]), axis=1, assume_unique_indices=True),
    ),
    _rearrangement(
        "insert", [_M, R((3, 1))], lambda x, v: jnp.insert(x, jnp.array([1, 4]), v, axis=1)
    ),
    Row("diff", [_M], lambda x: jnp.diff(x, 2, axis=1), (0,), BOTH),
    Row("ediff1d", [_M], jnp.ediff1d, (0,)),
    _rearrangement("diag_vector", [R((3,))], jnp.diag),
    _rearrangement("diag_above", [R((3,))], lambda x: jnp.diag(x, 2)),
    _rearrangement("diag_below", [R((3,))], lambda x: jnp.diag(x, -1)),
    _rearrangement("diag_matrix", [_M], lambda x: jnp.diag(x, 1)),
    _rearrangement("diagflat", [R((2, 2))], lambda x: jnp.diagflat(x, 1)),
    _rearrangement(
        "fill_diagonal", [_M, R((3,))], lambda x, v: jnp.fill_diagonal(x, v, inplace=False)
    ),
    Row("vander", [R((4,))], lambda x: jnp.vander(x, 4), (0,)),
    Row("vander_int", [I((4,), -3, 4)], lambda x: jnp.vander(x, 3), exact=True),
    Row("diag_indices", [], lambda: jnp.diag_indices(3, 2), exact=True),
    Row("tril_indices", [], lambda: jnp.tril_indices(4, -1, 5), exact=True),
    Row("tril_indices_above", [], lambda: jnp.tril_indices(3, 1, 4), exact=True),
    Row("triu_indices", [], lambda: jnp.triu_indices(4, 1), exact=True),
    Row("triu_indices_from", [R((3, 5))], lambda x: jnp.triu_indices_from(x, -1), exact=True),
    Row("indices", [], lambda: jnp.indices((2, 3)), exact=True),
    Row(
        "fromfunction",
        [],
        lambda: jnp.fromfunction(lambda i, j: i * 10 + j, (3, 4), dtype=int),
        exact=True,
    ),
    Row(
        "ravel_multi_index",
        [I((5,), -2, 5), I((5,), -2, 6)],
        lambda i, j: jnp.ravel_multi_index((i, j), (3, 4), mode="clip"),
        exact=True,
    ),
    Row(
        "ravel_multi_index_wrap",
        [I((5,), -2, 5), I((5,), -2, 6)],
        lambda i, j: jnp.ravel_multi_index((i, j), (3, 4), mode="wrap"),
        exact=True,
    ),
    Row("unravel_index", [I((7,), -12, 12)], lambda i: jnp.unravel_index(i, (3, 4)), exact=True),
    Row(
        "linspace_open",
        [R((2,)), R((2,))],
        lambda a, b: jnp.linspace(a, b, 5, endpoint=False),
        (0, 1),
        BOTH,
    ),
    Row(
        "logspace",
        [R(()), R(())],
        lambda a, b: jnp.logspace(a, b, 5),
        (0, 1),
        BOTH,
        tolerance={"rtol": 1e-5, "atol": 1e-6},
    ),
    Row(
        "geomspace", [R((), 0.5, 2), R((), 5, 9)], lambda a, b: jnp.geomspace(a, b, 6), (0, 1), BOTH
    ),
    Row("vecdot", [R((2, 5, 3)), R((5, 3))], jnp.vecdot, (0, 1), BOTH),
    Row(
        "vecdot_axis_c64",
        [R((3, 2)), R((3, 2))],
        lambda x, y: jnp.vecdot(x * (1 + 2j), y * (2 - 1j), axis=0),
        None,
    ),
    Row("matvec", [R((2, 3, 4)), R((4,))], jnp.matvec, (0, 1)),
    Row("vecmat", [R((2, 3)), R((3, 4))], jnp.vecmat, (0, 1)),
    Row("cross", [R((4, 3)), R((3,))], jnp.cross, (0, 1), BOTH),
    Row("cross_plane", [R((4, 2)), R((4, 2))], jnp.cross, (0, 1)),
    Row("cross_mixed", [R((4, 2)), R((4, 3))], jnp.cross, (0, 1)),
    Row("cross_axis", [R((3, 2)), R((3, 2))], lambda x, y: jnp.cross(x, y, axis=0), (0, 1)),
    Row("kron", [R((2, 3)), R((3, 2))], jnp.kron, (0, 1)),
    Row("kron_vector", [R((2,)), R((3, 2))], jnp.kron, (0, 1)),
    Row("polyval", [R((4,)), _M], jnp.polyval, (0, 1), BOTH),
    Row("polyadd", [R((4,)), R((2,))], jnp.polyadd, (0, 1)),
    Row("polysub", [R((2,)), R((4,))], jnp.polysub, (0, 1)),
    Row(
        "polymul",
        [R((4,)), R((3,))],
        jnp.polymul,
        (0, 1),
        BOTH,
        tolerance={"rtol": 1e-5, "atol": 1e-6},
    ),
    Row(
        "polydiv",
        [R((5,)), R((3,), 1, 2)],
        jnp.polydiv,
        (0, 1),
        BOTH,
        tolerance={"rtol": 1e-4, "atol": 1e-4},
    ),
    Row("polyder", [R((5,))], lambda p: jnp.polyder(p, 2), (0,)),
    Row("polyint", [R((3,))], lambda p: jnp.polyint(p, 2, jnp.array([0.5, 1.0], p.dtype)), (0,)),
    Row("poly", [R((4,))], jnp.poly, (0,), BOTH, tolerance={"rtol": 1e-5, "atol": 1e-6}),
    Row("bartlett", [], lambda: jnp.bartlett(7), tolerance={"rtol": 1e-6, "atol": 1e-6}),
    Row("blackman", [], lambda: jnp.blackman(8), tolerance={"rtol": 1e-6, "atol": 1e-6}),
    Row("hamming", [], lambda: jnp.hamming(8), tolerance={"rtol": 1e-6, "atol": 1e-6}),
    Row("hanning", [], lambda: jnp.hanning(1)),
    Row("kaiser", [], lambda: jnp.kaiser(9, 14.0), tolerance={"rtol": 2e-5, "atol": 1e-6}),
    Row(
        "apply_along_axis",
        [R((2, 3, 4))],
        lambda x: jnp.apply_along_axis(lambda v: jnp.outer(v, v), 1, x),
        (0,),
    ),
    Row("apply_over_axes", [R((2, 3, 4))], lambda x: jnp.apply_over_axes(jnp.sum, x, (0, 2)), (0,)),
    Row(
        "vectorize",
        [R((2, 1, 2, 3)), R((4, 3))],
        jnp.vectorize(jnp.dot, signature="(m,n),(n)->(m)"),
        (0, 1),
    ),
]
