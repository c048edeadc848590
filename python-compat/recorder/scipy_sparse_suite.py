"""Sparse arrays of `jax.experimental.sparse`: values, derivatives by the data, and batches.

Results that are sparse are recorded as dense arrays, unless their entries are determined.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import sparse

from .mapped import plain_and_mapped
from .ops_elementwise import inside
from .suite import Suite, seed

TOLERANCE = {
    "f32": {"rtol": 2e-5, "atol": 1e-6},
    "f64": {"rtol": 1e-12, "atol": 1e-13},
    "c64": {"rtol": 2e-5, "atol": 1e-6},
    "c128": {"rtol": 1e-12, "atol": 1e-13},
}
# Shape, number of batch axes, number of dense axes.
LAYOUTS = {
    "plain": ((4, 5), 0, 0),
    "batch": ((2, 4, 5), 1, 0),
    "dense": ((4, 5, 2), 0, 1),
    "both": ((2, 3, 4, 2), 1, 1),
    "cube": ((2, 3, 4), 0, 0),
}


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("scipy_sparse", __doc__.strip(), stride=stride, tolerance=TOLERANCE)
    _layouts(suite)
    _shapes(suite)
    _products(suite)
    _sampled(suite)
    _matrices(suite)
    _derivatives(suite)
    return suite


def _dense(name, kind, shape):
    """Returns an array in which two of three elements are 0."""
    rng = np.random.default_rng(seed(name) + 1)
    x = inside(name, (-1, 1), kind, shape)
    return x * (rng.uniform(size=shape) < 0.35)


def _entries(layout, kind="f64", name=""):
    """Returns data and indices with one entry out of range and one that occurs twice."""
    shape, n_batch, n_dense = LAYOUTS[layout]
    x = _dense(f"{layout}{name}", kind, shape)
    m = sparse.BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense)
    m = sparse.BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense, nse=m.nse + 1)
    data, indices = np.array(m.data), np.array(m.indices)
    first = (slice(None),) * n_batch + (slice(0, 1),)
    data = np.concatenate([data, data[first] * 2], axis=n_batch)
    return data, np.concatenate([indices, indices[first]], axis=n_batch), shape


def _case(suite, label, op, layout, run, params=None, kind="f64", more=(), dense=None):
    """Adds a case of `run(m, *more)`, with derivatives by the data and by `more`.

    Where JAX does not implement a case, `dense` computes it from the dense array.
    """
    data, indices, shape = _entries(layout, kind)
    of = lambda d, i: sparse.BCOO((d, i), shape=shape)
    compute = lambda d, *rest: run(of(d, rest[-1]), *rest[: len(more)])
    inputs = [data, *more, indices]
    if dense is not None:

        def with_derivatives(first, *rest):
            out, pullback = jax.vjp(lambda *xs: compute(*xs, rest[-1]), first, *rest[:-1])
            return pullback(out)

        try:
            jax.jit(with_derivatives).lower(*inputs)
        except (NotImplementedError, ValueError, TypeError, AssertionError):
            compute = lambda d, *rest: dense(of(d, rest[-1]).todense(), *rest[: len(more)])
    params = {"shape": list(shape)} | (params or {})
    wrt = list(range(1 + len(more)))
    suite.case(f"{op}_{label}_{layout}_{kind}", op, inputs, compute, params, wrt=wrt)


def _layouts(suite):
    for layout in LAYOUTS:
        for kind in ("f32", "c128") if layout == "both" else ("f64",):
            _case(suite, "whole", "todense", layout, lambda m: m.todense(), kind=kind)
        shape, n_batch, n_dense = LAYOUTS[layout]
        _case(suite, "sorted", "sort_indices", layout, lambda m: m.sort_indices().todense())
        data, indices, shape = _entries(layout)
        nse = sparse.BCOO((data, indices), shape=shape).sum_duplicates().nse
        params = {"nse": nse}
        run = lambda m, nse=nse: m.sum_duplicates(nse=nse).todense()
        _case(suite, "whole", "sum_duplicates", layout, run, params)
        concrete = sparse.BCOO((data, indices), shape=shape).sum_duplicates()
        outputs = [concrete.data, concrete.indices.astype(jnp.int32)]
        suite.case(
            f"sum_duplicates_parts_{layout}",
            "sum_duplicates_parts",
            [data, indices],
            lambda d, i, outputs=outputs: outputs,
            {"shape": list(shape), "nse": nse},
        )
        x = _dense(f"from{layout}", "f64", shape)
        nse = sparse.BCOO.fromdense(x, n_batch=n_batch, n_dense=n_dense).nse + 1
        params = {"nse": nse, "n_batch": n_batch, "n_dense": n_dense}
        run = lambda x, p=params: sparse.BCOO.fromdense(x, **p).data
        suite.case(f"fromdense_{layout}", "fromdense", [x], run, params, wrt=[0])
        run = lambda x, p=params: sparse.BCOO.fromdense(x, **p).indices.astype(jnp.int32)
        suite.case(f"fromdense_indices_{layout}", "fromdense_indices", [x], run, params)
        full = inside("extract", (-1, 1), "f64", shape)
        run = lambda x, d, i, shape=shape: sparse.bcoo_extract(
            sparse.BCOO((d, i), shape=shape), x, assume_unique=True
        ).todense()
        unique = concrete.data, concrete.indices.astype(jnp.int32)
        params = {"shape": list(shape)}
        suite.case(f"extract_{layout}", "extract", [full, *unique], run, params, wrt=[0])
        for to in ((0, 0), (1, 0), (0, 1)):
            run = lambda m, to=to: m.update_layout(
                n_batch=to[0], n_dense=to[1], on_inefficient=None
            ).todense()
            params = {"n_batch": to[0], "n_dense": to[1]}
            label = f"{to[0]}_{to[1]}"
            _case(suite, label, "update_layout", layout, run, params, dense=lambda x: x)


def _shapes(suite):
    def case(op, label, layout, run, dense=None, **params):
        _case(suite, label, op, layout, lambda m: run(m).todense(), params, dense=dense)

    permutations = {"plain": [1, 0], "batch": [0, 2, 1], "dense": [1, 0, 2], "cube": [2, 0, 1]}
    for layout, p in permutations.items():
        case("transpose", "axes", layout, lambda m, p=p: m.transpose(axes=p), permutation=p)
    for layout, new in (
        ("plain", [2, 10]),
        ("plain", [5, 2, 2]),
        ("cube", [6, 4]),
        ("batch", [2, 20]),
    ):
        label = "x".join(map(str, new))
        dense = lambda x, new=new: x.reshape(new)
        case("reshape", label, layout, lambda m, new=new: m.reshape(*new), dense, new=new)
    for layout, new, dims in (
        ("plain", [3, 4, 5], [1, 2]),
        ("plain", [4, 2, 5], [0, 2]),
        ("batch", [2, 4, 3, 5], [0, 1, 3]),
        ("batch", [3, 2, 4, 5], [1, 2, 3]),
        ("dense", [4, 5, 3, 2], [0, 1, 3]),
        ("dense", [4, 5, 2, 3], [0, 1, 2]),
    ):
        run = lambda m, new=new, dims=dims: sparse.bcoo_broadcast_in_dim(
            m, shape=tuple(new), broadcast_dimensions=dims
        )
        label = "x".join(map(str, new))
        dense = lambda x, new=new, dims=dims: jax.lax.broadcast_in_dim(x, new, dims)
        case("broadcast_in_dim", label, layout, run, dense, new=new, dims=dims)
    for layout, start, limit, strides in (
        ("plain", [1, 0], [4, 5], [1, 1]),
        ("plain", [0, 1], [4, 5], [2, 3]),
        ("batch", [1, 1, 0], [2, 4, 3], [1, 1, 1]),
        ("dense", [0, 2, 1], [4, 4, 2], [1, 1, 1]),
    ):
        run = lambda m, a=start, b=limit, s=strides: sparse.bcoo_slice(
            m, start_indices=a, limit_indices=b, strides=s
        )
        label = "_".join(map(str, start + limit))
        dense = lambda x, a=start, b=limit, s=strides: jax.lax.slice(x, a, b, s)
        case("slice", label, layout, run, dense, start=start, limit=limit, strides=strides)
    for layout, start, sizes in (("plain", [1, 3], [2, 2]), ("batch", [1, 5, -1], [1, 2, 3])):
        run = lambda m, a=start, s=sizes: sparse.bcoo_dynamic_slice(m, a, s)
        dense = lambda x, a=start, s=sizes: jax.lax.dynamic_slice(x, a, s)
        case("dynamic_slice", "some", layout, run, dense, start=start, sizes=sizes)
    for layout, axes in (("plain", [0]), ("plain", [0, 1]), ("batch", [0, 2]), ("both", [1, 3])):
        label = "_".join(map(str, axes))
        run = lambda m, axes=axes: sparse.bcoo_rev(m, dimensions=axes)
        dense = lambda x, axes=axes: jax.lax.rev(x, axes)
        case("rev", label, layout, run, dense, axes=axes)
    for layout in LAYOUTS:
        for axes in ([0], [1], [0, 1], list(range(len(LAYOUTS[layout][0])))):
            if axes == [0, 1] and layout == "plain":
                continue
            run = lambda m, axes=axes: sparse.bcoo_reduce_sum(m, axes=axes)
            dense = lambda x, axes=axes: x.sum(axes)
            case("reduce_sum", "_".join(map(str, axes)), layout, run, dense, axes=axes)
    for layout in ("plain", "batch", "dense"):
        for axis in (0, 1):
            run = lambda m, axis=axis: sparse.bcoo_concatenate([m, m * 2.0, m], dimension=axis)
            dense = lambda x, axis=axis: jnp.concatenate([x, x * 2, x], axis)
            case("concatenate", str(axis), layout, run, dense, axis=axis)
    run = lambda m: sparse.bcoo_squeeze(m.reshape(1, 4, 1, 5), dimensions=[0, 2])
    case("squeeze", "sparse", "plain", run, to=[1, 4, 1, 5], axes=[0, 2])
    run = lambda m: m[1:, ::2]
    case("index", "ranges", "plain", run, run)
    run = lambda m: m[:, -1, None, ::-1]
    case("index_reversed", "new", "batch", run, run)


def _products(suite):
    def case(label, layout, rhs, dims, kind="f64"):
        run = lambda m, rhs: sparse.bcoo_dot_general(m, rhs, dimension_numbers=dims)
        params = {"dims": dims}
        dense = lambda x, y: jax.lax.dot_general(x, y, dims)
        _case(suite, label, "dot_general", layout, run, params, kind, [rhs], dense)

    of = lambda name, shape, kind="f64": inside(name, (-1, 1), kind, shape)
    for kind in ("f32", "f64", "c64", "c128"):
        case("vector", "plain", of("v", (5,), kind), (([1], [0]), ([], [])), kind)
    case("matrix", "plain", of("m", (5, 3)), (([1], [0]), ([], [])))
    case("rows", "plain", of("r", (3, 4)), (([0], [1]), ([], [])))
    case("all", "plain", of("a", (5, 4)), (([0, 1], [1, 0]), ([], [])))
    case("outer", "plain", of("o", (3,)), (([], []), ([], [])))
    case("batched", "batch", of("b", (2, 5, 3)), (([2], [1]), ([0], [0])))
    case("unbatched", "batch", of("u", (5, 3)), (([2], [0]), ([], [])))
    case("over_batch", "batch", of("ob", (2, 3)), (([0], [0]), ([], [])))
    case("dense_free", "dense", of("df", (5, 3)), (([1], [0]), ([], [])))
    case("both", "both", of("bo", (3, 2)), (([1], [0]), ([0], [1])))
    case("cube", "cube", of("cu", (4, 2, 3)), (([2, 0], [0, 1]), ([], [])))
    for kind in ("f64", "c64"):
        run = lambda m, x: x @ m
        _case(suite, "left", "rmatmul", "plain", run, {}, kind, [of("left", (3, 4), kind)])
    data, indices, shape = _entries("plain", "f64")
    run = lambda d, v, i: sparse.BCOO((d, i), shape=shape) @ v
    plain_and_mapped(
        suite,
        "matmul_mapped",
        "matmul",
        [data, of("mapped", (5,)), indices],
        run,
        {"shape": list(shape)},
        wrt=[0, 1],
        in_axes=[0, 0, None],
        plain=False,
    )
    for layout, shape in (
        ("plain", (4, 5)),
        ("plain", (5,)),
        ("plain", (4, 1)),
        ("batch", (2, 4, 5)),
        ("batch", (1, 5)),
        ("dense", (4, 5, 2)),
        ("dense", (5, 1)),
    ):
        v = of("dense" + str(shape), shape)
        run = lambda m, v: (m * v).todense()
        label = "x".join(map(str, shape))
        dense = lambda x, v: x * v
        _case(suite, label, "multiply_dense", layout, run, {}, "f64", [v], dense)
    for layout in ("plain", "batch"):
        other, at, _ = _entries(layout, name="other")
        data, indices, shape = _entries(layout)

        def run(d, e, i, j, shape=shape):
            l, r = sparse.BCOO((d, i), shape=shape), sparse.BCOO((e, j), shape=shape)
            return l.todense() * r.todense()

        inputs = [data, other, indices, at]
        params = {"shape": list(shape)}
        suite.case(f"multiply_sparse_{layout}", "multiply_sparse", inputs, run, params, wrt=[0, 1])
        add = lambda d, e, i, j, shape=shape: (
            sparse.BCOO((d, i), shape=shape).todense() + sparse.BCOO((e, j), shape=shape).todense()
        )
        suite.case(f"add_sparse_{layout}", "add_sparse", inputs, add, params, wrt=[0, 1])
        for label, dims in {
            "inner": (([len(shape) - 1], [len(shape) - 1]), ([], [])),
            "all": (([0, 1], [0, 1]), ([], [])),
            "batched": (([1], [1]), ([0], [0])),
        }.items():

            def run(d, e, i, j, shape=shape, dims=dims):
                l, r = sparse.BCOO((d, i), shape=shape), sparse.BCOO((e, j), shape=shape)
                return jax.lax.dot_general(l.todense(), r.todense(), dims)

            more = params | {"dims": dims}
            suite.case(f"spdot_{label}_{layout}", "spdot", inputs, run, more, wrt=[0, 1])
    signal, kernel = _dense("sig", "f64", (1, 1, 9)), _dense("ker", "f64", (1, 1, 4)) + 0.5
    for padding in ("VALID", "SAME", [(2, 1)]):
        run = lambda x, y, padding=padding: jax.lax.conv_general_dilated(x, y, (1,), padding)
        params = {"padding": padding}
        label = padding if isinstance(padding, str) else "explicit"
        suite.case(f"conv_{label}", "conv", [signal, kernel], run, params)


def _sampled(suite):
    of = lambda name, shape: inside(name, (-1, 1), "f64", shape)
    at = np.array([[0, 1], [2, 0], [3, 4], [4, 5]], np.int32)
    for label, a, b, indices, dims in (
        ("matrix", (4, 3), (3, 5), at, (([1], [0]), ([], []))),
        ("batched", (2, 4, 3), (2, 3, 5), np.stack([at, at[::-1]]), (([2], [1]), ([0], [0]))),
        ("rows", (4, 3), (3, 5), at[:, :1], (([1], [0]), ([], []))),
    ):
        run = lambda a, b, i, dims=dims: sparse.bcoo_dot_general_sampled(
            a, b, i, dimension_numbers=dims
        )
        inputs = [of("sa" + label, a), of("sb" + label, b), indices]
        suite.case(f"sampled_{label}", "sampled", inputs, run, {"dims": dims}, wrt=[0, 1])


def _matrices(suite):
    x = _dense("matrix", "f64", (4, 5))
    v, w = inside("mv", (-1, 1), "f64", (5,)), inside("mw", (-1, 1), "f64", (4,))
    b, c = inside("mb", (-1, 1), "f64", (5, 2)), inside("mc", (-1, 1), "f64", (4, 2))
    nse = int((x != 0).sum()) + 1
    of = lambda name: {"coo": sparse.COO, "csr": sparse.CSR, "csc": sparse.CSC}[name]
    for name in ("coo", "csr", "csc"):
        i32 = lambda x: x.astype(jnp.int32) if x.dtype == jnp.int64 else x

        def parts(x, name=name):
            m = of(name).fromdense(x, nse=nse - 1)
            return [i32(y) for y in m.tree_flatten()[0]]

        suite.case(f"{name}_parts", "parts", [x], jax.jit(parts), {"format": name, "nse": nse - 1})
        for op, rhs, run in (
            ("matvec", v, lambda m, v: m @ v),
            ("matmat", b, lambda m, b: m @ b),
            ("matvec_transposed", w, lambda m, w: m.T @ w),
            ("matmat_transposed", c, lambda m, c: m.T @ c),
        ):
            compute = lambda x, y, run=run, name=name: run(of(name).fromdense(x, nse=nse), y)
            params = {"format": name, "nse": nse}
            suite.case(f"{name}_{op}", op, [x, rhs], compute, params, wrt=[1])
    for n_batch, n_dense, shape in ((0, 0, (4, 5)), (1, 0, (2, 4, 5)), (0, 1, (4, 5, 2))):
        x = _dense(f"bcsr{n_batch}{n_dense}", "f64", shape)
        m = sparse.BCSR.fromdense(x, n_batch=n_batch, n_dense=n_dense)
        params = {"n_batch": n_batch, "n_dense": n_dense, "nse": m.nse}
        parts = lambda x, p=params: [
            y.astype(jnp.int32) if y.dtype == jnp.int64 else y
            for y in sparse.BCSR.fromdense(x, **p).tree_flatten()[0]
        ]
        suite.case(f"bcsr_parts_{n_batch}_{n_dense}", "bcsr_parts", [x], parts, params)
        run = lambda x, p=params: sparse.BCSR.fromdense(x, **p).todense()
        suite.case(f"bcsr_todense_{n_batch}_{n_dense}", "bcsr_todense", [x], run, params)
        rhs = inside("bcsr_rhs", (-1, 1), "f64", (*shape[:n_batch], 5, 3))
        dims = (([n_batch + 1], [n_batch]), (list(range(n_batch)), list(range(n_batch))))
        if n_dense == 0:
            run = lambda x, y, p=params, dims=dims: sparse.bcsr_dot_general(
                sparse.BCSR.fromdense(x, **p), y, dimension_numbers=dims
            )
            more = params | {"dims": dims}
            suite.case(f"bcsr_dot_{n_batch}", "bcsr_dot", [x, rhs], run, more, wrt=[1])
    for n, m, k in ((3, None, 0), (4, 3, 1), (3, 5, -2)):
        run = lambda n=n, m=m, k=k: np.asarray(sparse.eye(n, m, k).todense(), np.float32)
        suite.case(f"eye_{n}_{m}_{k}", "eye", [], run, {"n": n, "m": m, "k": k})


def _derivatives(suite):
    data, indices, shape = _entries("plain")
    v = inside("slope", (-1, 1), "f64", (5,))
    of = lambda d, i: sparse.BCOO((d, i), shape=shape)
    f = lambda m, v: jnp.sin(m @ v)
    params = {"shape": list(shape)}
    run = lambda d, v, i: sparse.grad(lambda m: f(m, v).sum())(of(d, i)).data
    suite.case("grad_plain", "grad", [data, v, indices], run, params, wrt=[0, 1])
    for op in ("jacfwd", "jacrev"):
        run = lambda d, v, i, op=op: getattr(sparse, op)(lambda m: f(m, v))(of(d, i)).todense()
        suite.case(f"{op}_plain", op, [data, v, indices], run, params)

    def dense(d, v, i):
        x = of(d, i).todense()
        return (jnp.sin(x.T * 2.0)[1:].sum(0) * v[:4]).sum() + (x @ v).sum()
    suite.case("sparsify_plain", "sparsify", [data, v, indices], dense, params, wrt=[0, 1])
