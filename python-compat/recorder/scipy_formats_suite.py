"""Functions of `jax.experimental.sparse` by their names: formats, gathers, convolutions, `bf16`.

Data come first and indices last. Results that are sparse are recorded as dense arrays.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import sparse

from .mapped import plain_and_mapped
from .names import dtype
from .ops_elementwise import inside
from .scipy_sparse_suite import TOLERANCE, _dense, _entries
from .suite import Suite

_SHAPE = (4, 5)
_KINDS = ("f64", "bf16")


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    tolerance = TOLERANCE | {"bf16": {"rtol": 2e-2, "atol": 2e-2}}
    suite = Suite("scipy_formats", __doc__.strip(), stride=stride, tolerance=tolerance)
    _rows(suite)
    _matrices(suite)
    _coordinates(suite)
    _convolutions(suite)
    return suite


def _i32(x):
    return np.asarray(x, np.int32)


def _small(name, kind, shape):
    """Returns an array in which two of three elements are 0."""
    return _dense(name, "f32", shape).astype(dtype(kind))


def _values(name, kind, shape):
    return inside(name, (-1, 1), "f32", shape).astype(dtype(kind))


def _rows(suite):
    """Batched rows, BCSR."""
    params = {"shape": list(_SHAPE)}
    for kind in _KINDS:
        m = sparse.bcsr_fromdense(_small("rows", kind, _SHAPE))
        parts = [np.asarray(m.data), _i32(m.indices), _i32(m.indptr)]
        of = lambda d, i, p: sparse.BCSR((d, i, p), shape=_SHAPE)
        suite.case(f"bcsr_todense_{kind}", "bcsr_todense", parts,
                   lambda d, i, p: sparse.bcsr_todense(of(d, i, p)), params, wrt=[0])
        # JAX refuses new dense axes.
        new, dims = [2, *_SHAPE], [1, 2]
        run = lambda d, i, p, new=new, dims=dims: sparse.bcsr_todense(
            sparse.bcsr_broadcast_in_dim(
                of(d, i, p), shape=tuple(new), broadcast_dimensions=dims
            )
        )
        suite.case(f"bcsr_broadcast_in_dim_{kind}", "bcsr_broadcast_in_dim", parts, run,
                   params | {"new": new, "dims": dims}, wrt=[0])
        for axis in (0, 1):
            run = lambda d, i, p, axis=axis: sparse.bcsr_todense(
                sparse.bcsr_concatenate([of(d, i, p), of(d * 2, i, p)], dimension=axis)
            )
            suite.case(f"bcsr_concatenate_{axis}_{kind}", "bcsr_concatenate", parts, run,
                       params | {"axis": axis}, wrt=[0])
        full = _values("full", kind, _SHAPE)
        suite.case(f"bcsr_extract_{kind}", "bcsr_extract", [full, *parts[1:]],
                   lambda x, i, p: sparse.bcsr_extract(i, p, x), params, wrt=[0])
        # Every entry twice.
        twice = [np.repeat(parts[0], 2), np.repeat(parts[1], 2), parts[2] * 2]
        run = lambda d, i, p, nse=m.nse: sparse.bcsr_todense(
            sparse.bcsr_sum_duplicates(of(d, i, p), nse=nse)
        )
        suite.case(f"bcsr_sum_duplicates_{kind}", "bcsr_sum_duplicates", twice, run,
                   params | {"nse": m.nse}, wrt=[0])
        run = lambda d, v, i, p: sparse.bcsr_dot_general(
            of(d, i, p), v, dimension_numbers=(([1], [0]), ([], []))
        )
        inputs = [parts[0], _values("right", kind, (5, 3)), *parts[1:]]
        suite.case(f"bcsr_dot_general_{kind}", "bcsr_dot_general", inputs, run, params, wrt=[0, 1])
    x = _small("from", "bf16", (2, 4, 5))
    nse = sparse.bcsr_fromdense(x, n_batch=1).nse
    run = lambda x: sparse.bcsr_fromdense(x, nse=nse, n_batch=1).data
    suite.case("bcsr_fromdense", "bcsr_fromdense", [x], run, {"nse": nse, "n_batch": 1}, wrt=[0])


def _matrices(suite):
    """COO and CSR: products with vectors and matrices, and their transposes."""
    functions = {
        "coo": (sparse.coo_fromdense, sparse.coo_todense, sparse.coo_matvec, sparse.coo_matmat),
        "csr": (sparse.csr_fromdense, sparse.csr_todense, sparse.csr_matvec, sparse.csr_matmat),
    }
    for format, (fromdense, todense, matvec, matmat) in functions.items():
        new = {"coo": sparse.COO, "csr": sparse.CSR}[format]
        of = lambda d, i, j, new=new: new((d, i, j), shape=_SHAPE)
        for kind in _KINDS:
            params = {"format": format, "shape": list(_SHAPE)}
            x = _small(f"matrix{format}", kind, _SHAPE)
            m = fromdense(x)
            data, *at = [np.asarray(y) for y in m.tree_flatten()[0]]
            at = [_i32(y) for y in at]
            label = f"{format}_{kind}"
            run = lambda x, nse=m.nse, fromdense=fromdense: fromdense(x, nse=nse).data
            suite.case(f"fromdense_{label}", "fromdense", [x], run, params | {"nse": m.nse},
                       wrt=[0])
            run = lambda d, i, j, of=of, todense=todense: todense(of(d, i, j))
            suite.case(f"todense_{label}", "todense", [data, *at], run, params, wrt=[0])
            for op, product, shapes in (
                ("matvec", matvec, ((5,), (4,))),
                ("matmat", matmat, ((5, 2), (4, 3))),
            ):
                for transpose, shape in zip((False, True), shapes):
                    run = lambda d, v, i, j, of=of, p=product, t=transpose: p(
                        of(d, i, j), v, transpose=t
                    )
                    v = _values(f"{op}{transpose}", kind, shape)
                    # JAX's transposition by the data ignores `transpose`.
                    suite.case(f"{op}_{transpose}_{label}", op, [data, v, *at], run,
                               params | {"transpose": transpose},
                               wrt=None if transpose else [0, 1])


def _coordinates(suite):
    """Coordinates, BCOO, by the functions that its methods call."""
    data, at, shape = _entries("plain")
    params = {"shape": list(shape)}
    for kind in _KINDS:
        d = data.astype(np.float32).astype(dtype(kind))
        of = lambda d, i: sparse.BCOO((d, i), shape=shape)
        dense = sparse.bcoo_todense

        def case(op, run, more=None, operands=(), wrt=(0,), kind=kind, d=d):
            suite.case(f"bcoo_{op}_{kind}", f"bcoo_{op}", [d, *operands, at], run,
                       params | (more or {}), wrt=list(wrt))

        case("todense", lambda d, i: dense(of(d, i)))
        case("sort_indices", lambda d, i: dense(sparse.bcoo_sort_indices(of(d, i))))
        nse = sparse.bcoo_sum_duplicates(of(data, at)).nse
        case("sum_duplicates", lambda d, i: dense(sparse.bcoo_sum_duplicates(of(d, i), nse=nse)),
             {"nse": nse})
        case("transpose", lambda d, i: dense(
            sparse.bcoo_transpose(of(d, i), permutation=[1, 0])))
        case("reshape", lambda d, i: dense(sparse.bcoo_reshape(of(d, i), new_sizes=(2, 10))))
        case("update_layout", lambda d, i: dense(
            sparse.bcoo_update_layout(of(d, i), n_batch=1, n_dense=0, on_inefficient=None)))
        right = _values("bcoo_right", kind, (5, 3))
        case("dot_general", lambda d, v, i: sparse.bcoo_dot_general(
            of(d, i), v, dimension_numbers=(([1], [0]), ([], []))), None, [right], (0, 1))
        factors = _values("bcoo_factors", kind, shape)
        case("multiply_dense", lambda d, v, i: sparse.bcoo_multiply_dense(of(d, i), v), None,
             [factors], (0, 1))
    x = _small("fromdense", "bf16", shape)
    nse = sparse.bcoo_fromdense(x).nse
    run = lambda x: sparse.bcoo_fromdense(x, nse=nse).data
    suite.case("bcoo_fromdense", "bcoo_fromdense", [x], run, {"nse": nse}, wrt=[0])
    numbers = lax.GatherDimensionNumbers((0,), (0,), (0,))
    run = lambda d, row, i: sparse.bcoo_gather(
        sparse.BCOO((d, i), shape=shape), row, numbers, (1, 5)
    ).todense()
    for row in (0, 2):
        suite.case(f"bcoo_gather_{row}", "bcoo_gather", [data, _i32([row]), at], run, params)
    # Without indices out of range, whose products JAX counts as entries at the origin.
    left, right = (sparse.bcoo_fromdense(_dense(name, "f64", shape)) for name in ("left", "right"))
    inputs = [left.data, right.data, _i32(left.indices), _i32(right.indices)]
    run = lambda d, e, i, j: sparse.bcoo_multiply_sparse(
        sparse.BCOO((d, i), shape=shape), sparse.BCOO((e, j), shape=shape)
    ).todense()
    suite.case("bcoo_multiply_sparse", "bcoo_multiply_sparse", inputs, run, params)
    plain_and_mapped(
        suite, "bcoo_todense_mapped", "bcoo_todense", [data, at],
        lambda d, i: sparse.bcoo_todense(sparse.BCOO((d, i), shape=shape)), params, wrt=[0],
        in_axes=[0, None], plain=False,
    )


def _convolutions(suite):
    for kind in ("f64", "f32"):
        x, kernel = (
            sparse.bcoo_fromdense(_small(name, kind, (1, 1, size)) + 0) for name, size in
            (("signal", 9), ("kernel", 4))
        )
        for padding in ("VALID", "SAME", [(2, 1)]):
            run = lambda d, e, i, j, padding=padding: sparse.bcoo_conv_general_dilated(
                sparse.BCOO((d, i), shape=(1, 1, 9)), sparse.BCOO((e, j), shape=(1, 1, 4)),
                window_strides=(1,), padding=padding,
            ).todense()
            inputs = [x.data, kernel.data, _i32(x.indices), _i32(kernel.indices)]
            label = padding if isinstance(padding, str) else "explicit"
            suite.case(f"bcoo_conv_{label}_{kind}", "bcoo_conv", inputs, jax.jit(run),
                       {"padding": padding})
