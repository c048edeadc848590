"""Samplers of the generator: values for keys and batches of keys, and derivatives by parameters.

Operand 0 is raw key data, u32[2]. The others are the sampler's parameters in JAX's order, unless
`params.numbers` lists them as Python numbers. `params.shape` is the argument, null for JAX's
`None`. With `params.keys` the sampler is mapped over that many keys, split from operand 0. With
`params.derivatives` derivatives are recorded. 64-bit types are on only for results of 64 bits,
which determines the dtypes of Python numbers and defaults.
"""

import jax
import jax.numpy as jnp
import numpy as np

from .names import dtype
from .suite import EXACT, Suite

NEAR = {"ulp": 8, "ulp_pinned": 0}
# In programs with loops, XLA vectorizes and contracts other operations from version to version and
# from processor to processor, so the last digits of f32 differ: by up to 30 units between an Intel
# Xeon and an AMD EPYC. The softmax of dirichlet takes logarithms that differ by up to 11, whose
# last digits are five times as large.
LOOSE = {"ulp": 64}
SOFTMAX = {"ulp": 128}
# XLA rewrote log1p in f64 between its versions in JAX 0.10.2 and in the pinned plugin, and
# differences in formulas amplify the change.
NEAR_WIDE = {"rtol": 3e-13, "atol": 0}
# Derivatives by a shape parameter divide by the density at the sample, and are sums over samples.
SLOPES = {"f32": {"rtol": 2e-5, "atol": 1e-6}, "f64": {"rtol": 1e-12, "atol": 1e-14}}
FLOATS = ("bf16", "f16", "f32", "f64")
# Samplers that use the loop for gamma numbers, which takes seconds to compile.
SLOW = ("gamma", "loggamma", "chisquare", "t", "beta", "f", "generalized_normal")
SHAPES = [0.05, 0.3, 0.9, 1.0, 1.7, 5.0, 40.0, 300.0]


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("samplers", __doc__.strip(), stride=stride, tolerance=SLOPES)
    _plain(suite)
    _parameters(suite)
    _counts(suite)
    _vectors(suite)
    _choices(suite)
    _modes(suite)
    _gradients(suite)
    return suite


def _positional(op):
    """Returns JAX's sampler `op`, whose parameters come between key and shape."""
    function = getattr(jax.random, op)
    return lambda key, args, shape, kind, more: function(key, *args, shape, kind, **more)


def _case(
    suite,
    op,
    kind,
    args=(),
    shape=None,
    tag="",
    seed=42,
    tolerance=NEAR,
    call=None,
    keys=None,
    wrt=None,
    **more,
):
    """Adds a case of the sampler `op`. `more` are its keyword arguments."""
    numbers = bool(args) and not isinstance(args[0], np.ndarray)
    params = {"shape": shape, "dtype": kind} | more
    params |= ({"numbers": list(args)} if numbers else {}) | ({"keys": keys} if keys else {})
    params |= {"derivatives": True} if wrt else {}
    call = call or _positional(op)

    def run(data, *arrays):
        parameters = args if numbers else [jnp.asarray(x) for x in arrays]
        size = None if shape is None else tuple(shape)
        sample = lambda key: call(key, parameters, size, dtype(kind), more)
        key = jax.random.wrap_key_data(jnp.asarray(data))
        return sample(key) if keys is None else jax.vmap(sample)(jax.random.split(key, keys))

    if tolerance is NEAR and kind == "f32":
        tolerance = (
            SOFTMAX
            if op == "dirichlet"
            else LOOSE
            if op in (*SLOW, "ball", "maxwell", "double_sided_maxwell")
            else NEAR
        )
    if tolerance is NEAR and kind in ("f64", "c128"):
        tolerance = NEAR_WIDE
    inputs = [np.asarray(jax.random.key_data(jax.random.key(seed))), *([] if numbers else args)]
    name = "_".join(filter(None, [op, kind, tag]))
    with jax.enable_x64(kind in ("f64", "i64", "u64", "c128")):
        suite.case(name, op, inputs, run, params, tolerance, wrt)


def _plain(suite):
    """Adds samplers without parameters."""
    for op in ("cauchy", "laplace", "logistic", "maxwell"):
        for kind in FLOATS:
            _case(suite, op, kind, shape=[257])
        _case(suite, op, "f32", shape=[2, 3], tag="keys", keys=3)
        for seed in (0, 2**40 + 7):
            _case(suite, op, "f32", shape=[1025], tag=f"seed_{seed}", seed=seed)
        _case(suite, op, "f32", shape=[], tag="scalar")
        _case(suite, op, "f32", shape=[0, 3], tag="empty")
    for kind in ("i8", "i16", "i32", "i64", "u8", "u32", "bf16", "f16", "f32", "f64", "c64"):
        _case(suite, "rademacher", kind, shape=[101], tolerance=EXACT)
    _case(suite, "rademacher", "i32", shape=[5], tag="keys", keys=4, tolerance=EXACT)


def _parameters(suite):
    """Adds samplers of floats, whose parameters are arrays, broadcast arrays or numbers."""
    wide = np.array([0.3, 1.0, 2.5, 40.0])
    rows = np.array([[0.7], [5.0]])
    table = {
        "gamma": [np.array(SHAPES)],
        "loggamma": [np.array(SHAPES)],
        "chisquare": [np.array(SHAPES)],
        "t": [np.array(SHAPES)],
        "beta": [wide, rows],
        "f": [wide, rows],
        "pareto": [wide],
        "rayleigh": [wide],
        "wald": [wide],
        "lognormal": [wide / 20],
        "weibull_min": [rows, wide],
        "generalized_normal": [np.array([0.5, 1.0, 1.5, 2.0, 7.0])],
        "triangular": [
            np.array([-1.0, 0.0, 0.5]),
            np.array([0.5, 0.25, 0.75]),
            np.array([[1.0], [3.0]]),
        ],
        "double_sided_maxwell": [np.array([0.5, -2.0]), np.array([0.25, 3.0])],
    }
    fixed = {"weibull_min": [2, 4], "double_sided_maxwell": [], "generalized_normal": [5]}
    for op, parameters in table.items():
        slow = op in SLOW
        for kind in FLOATS:
            args = [x.astype(dtype(kind)) for x in parameters]
            joint = list(np.broadcast_shapes(*(x.shape for x in args)))
            if op == "f":
                # JAX does not broadcast these two parameters.
                args = [np.broadcast_to(x, joint) for x in args]
            if not slow or kind != "f16" or op in ("gamma", "loggamma"):
                _case(suite, op, kind, args, fixed.get(op), "own_shape")
            if kind != "f32" and (slow or kind != "f64"):
                continue
            _case(
                suite,
                op,
                kind,
                args,
                [17] if op == "double_sided_maxwell" else joint if op == "f" else [17, *joint],
                "shaped",
            )
            _case(suite, op, kind, args, joint, "keys", keys=3)
            numbers = [float(x.flat[0]) for x in parameters]
            _case(suite, op, kind, numbers, [65], "numbers")
        if not slow:
            args = [np.array(x.flat[0], np.float32) for x in parameters]
            _case(suite, op, "f32", args, [257], "seed_0", seed=0)
    for seed in (0, 2**40 + 7):
        _case(suite, "gamma", "f32", [np.array(0.7, np.float32)], [257], f"seed_{seed}", seed=seed)
    # Parameters that are narrower than the result, and parameters out of range.
    for op in ("gamma", "pareto"):
        _case(suite, op, "f32", [np.array([0.5, 3.0], dtype("bf16"))], [9, 2], "narrow")
        _case(suite, op, "f64", [np.array([0.5, 3.0], np.float32)], [9, 2], "narrow")
        _case(suite, op, "f32", [np.array([2, 9], np.int32)], [9, 2], "integers")
        _case(
            suite,
            op,
            "f32",
            [np.array([0.0, -0.5, -3.0, np.nan, np.inf], np.float32)],
            [5],
            "outside",
        )
        _case(suite, op, "f32", [np.zeros((0, 2), np.float32)], None, "empty")
    _case(suite, "gamma", "f32", [np.array([0.5, 3.0], np.float64)], [9, 2], "wide")
    for kind in ("c64", "c128"):
        _case(suite, "lognormal", kind, [0.5], [33])


def _counts(suite):
    means = np.array([0.0, 0.1, 2.0, 9.9, 10.0, 30.0, 1e3, 1e6, np.nan], np.float32)
    for kind in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"):
        finite = means[:6] if kind in ("i8", "u8", "i16", "u16") else means[:-1]
        _case(suite, "poisson", kind, [finite], [11, len(finite)], tolerance=EXACT)
    for seed in (0, 2**40 + 7):
        _case(suite, "poisson", "i32", [3.5], [257], f"seed_{seed}", seed=seed, tolerance=EXACT)
    _case(suite, "poisson", "i32", [means], None, "own_shape", tolerance=EXACT)
    _case(suite, "poisson", "i32", [means[:8]], [3, 8], "keys", keys=3, tolerance=EXACT)
    _case(suite, "poisson", "i32", [np.array([2.0, 20.0])], [9, 2], "wide", tolerance=EXACT)
    _case(
        suite, "poisson", "i32", [np.array([2, 20], np.int16)], [9, 2], "integers", tolerance=EXACT
    )
    _case(suite, "poisson", "i32", [np.zeros((0, 2), np.float32)], None, "empty", tolerance=EXACT)
    chances = [0.01, 0.25, 0.5, 0.9, 1.0]
    for kind in ("i8", "i32", "i64", "u16", "u64"):
        low = 1 if kind == "i8" else 0
        _case(
            suite,
            "geometric",
            kind,
            [np.array(chances[low:], np.float32)],
            [21, 5 - low],
            tolerance=EXACT,
        )
        _case(suite, "geometric", kind, [0.3], [65], "numbers", tolerance=EXACT)
    for kind in ("bf16", "f16", "f64"):
        _case(
            suite,
            "geometric",
            "i64" if kind == "f64" else "i32",
            [np.array(chances[1:], dtype(kind))],
            None,
            f"of_{kind}",
            tolerance=EXACT,
        )
    _case(
        suite,
        "geometric",
        "i32",
        [np.array(chances, np.float32)],
        [2, 5],
        "keys",
        keys=3,
        tolerance=EXACT,
    )
    n = np.array([0.0, 1.0, 9.0, 15.0, 100.0, 1e4])
    p = np.array([0.0, 0.02, 0.3, 0.5, 0.7, 0.999, 1.0])[:, None]
    for kind in FLOATS:
        trials = n[:-1] if kind in ("bf16", "f16") else n
        args = [trials.astype(dtype(kind)), p.astype(dtype(kind))]
        _case(suite, "binomial", kind, args, None, "own_shape", tolerance=EXACT)
        _case(suite, "binomial", kind, args, [3, 7, len(trials)], "shaped", tolerance=EXACT)
        _case(suite, "binomial", kind, [40.0, 0.3], [65], "numbers", tolerance=EXACT)
    _case(suite, "binomial", "f32", [10, 0.5], [257], "integer", tolerance=EXACT)
    _case(
        suite,
        "binomial",
        "f32",
        [np.array([5, 500], np.int32), np.array([0.2, 0.6], np.float32)],
        [3, 2],
        "keys",
        keys=3,
        tolerance=EXACT,
    )
    _case(
        suite,
        "binomial",
        "f64",
        [np.array([5, 500], np.int32), np.array([0.2, 0.6], np.float32)],
        [5, 2],
        "narrow",
        tolerance=EXACT,
    )
    odd = [
        np.array([-1.0, np.nan, np.inf, 5.0, 5.0, 7.5], np.float32),
        np.array([0.5, 0.5, 0.5, np.nan, -0.5, 0.25], np.float32),
    ]
    _case(suite, "binomial", "f32", odd, None, "outside", tolerance=EXACT)
    call = lambda key, args, shape, kind, more: jax.random.multinomial(
        key, *args, shape=shape, dtype=kind
    )
    p = np.array([[0.2, 0.3, 0.5, 0.0], [0.1, 0.1, 0.1, 0.7]])
    for kind in ("bf16", "f16", "f32", "f64"):
        args = [np.array([12.0, 90.0], dtype(kind)), p.astype(dtype(kind))]
        _case(suite, "multinomial", kind, args, None, "own_shape", tolerance=EXACT, call=call)
        _case(suite, "multinomial", kind, args, [5, 2, 4], "shaped", tolerance=EXACT, call=call)
    _case(
        suite,
        "multinomial",
        "f32",
        [np.array(100, np.float32), p[0].astype(np.float32)],
        None,
        "keys",
        keys=4,
        tolerance=EXACT,
        call=call,
    )


# Other libraries round factorizations differently, in the last digits of f32 and f64.
FACTORED = {
    "f32": {"rtol": 1e-5, "atol": 2e-6},
    "f64": {"rtol": 1e-12, "atol": 1e-14},
    "c64": {"rtol": 1e-5, "atol": 2e-6},
    "c128": {"rtol": 1e-12, "atol": 1e-14},
}


def _vectors(suite):
    alpha = np.array([[0.1, 1.0, 3.0], [20.0, 0.5, 2.0]])
    call = lambda key, args, shape, kind, more: jax.random.ball(key, more["d"], *args, shape, kind)
    for kind in FLOATS:
        args = [alpha.astype(dtype(kind))]
        _case(suite, "dirichlet", kind, args, None, "own_shape")
        for p in (2.0,) if kind != "f32" else (1.0, 2.0, 3.5):
            _case(suite, "ball", kind, [p], [33], f"p_{p}", call=call, d=3)
    args = [alpha.astype(np.float32)]
    _case(suite, "dirichlet", "f32", args, [9, 2], "shaped")
    _case(suite, "dirichlet", "f32", args, [2], "keys", keys=3)
    _case(suite, "ball", "f32", [np.array(1.5, np.float32)], [2], "keys", keys=3, call=call, d=2)
    factor = np.array([[1.0, 0.0, 0.0], [0.5, 2.0, 0.0], [-1.0, 0.25, 0.75]])
    cov = np.stack([factor @ factor.T, np.diag([1.0, 4.0, 0.25])])
    mean = np.array([1.0, -2.0, 0.5])
    for kind in ("f32", "f64"):
        args = [mean.astype(dtype(kind)), cov.astype(dtype(kind))]
        tolerance = FACTORED[kind]
        _case(suite, "multivariate_normal", kind, args, None, "own_shape", tolerance=tolerance)
        _case(suite, "multivariate_normal", kind, args, [7, 2], "shaped", tolerance=tolerance)
        _case(suite, "multivariate_normal", kind, args, [2], "keys", keys=3, tolerance=tolerance)
        # A diagonal matrix with distinct, descending eigenvalues: the signs of its eigenvectors do
        # not depend on the library.
        plain = [mean.astype(dtype(kind)), np.diag([4.0, 2.0, 0.5]).astype(dtype(kind))]
        for method in ("eigh", "svd"):
            _case(
                suite,
                "multivariate_normal",
                kind,
                plain,
                [9],
                method,
                tolerance=tolerance,
                method=method,
            )
    _case(
        suite,
        "multivariate_normal",
        "f64",
        [mean.astype(np.float32), cov[0].astype(np.float32)],
        [5],
        "narrow",
        tolerance=FACTORED["f32"],
    )
    call = lambda key, args, shape, kind, more: jax.random.orthogonal(
        key, more["n"], shape, kind, more["m"]
    )
    for kind in ("f32", "f64", "c64", "c128"):
        for n, m in ((3, 3), (2, 4), (5, 2), (1, 1)):
            _case(
                suite,
                "orthogonal",
                kind,
                (),
                [2],
                f"{n}x{m}",
                tolerance=FACTORED[kind],
                call=call,
                n=n,
                m=m,
            )
    _case(
        suite,
        "orthogonal",
        "f32",
        (),
        [],
        "keys",
        keys=3,
        tolerance=FACTORED["f32"],
        call=call,
        n=3,
        m=3,
    )


def _choices(suite):
    def call(key, args, shape, kind, more):
        a = more["a"] if more["a"] is not None else args[0]
        p = args[-1] if more["p"] else None
        return jax.random.choice(key, a, shape, more["replace"], p, more["axis"], more["mode"])

    def choice(tag, kind, args, shape, a=None, p=False, replace=True, axis=0, mode=None, **more):
        _case(
            suite,
            "choice",
            kind,
            args,
            shape,
            tag,
            more.pop("seed", 42),
            EXACT,
            call,
            a=a,
            p=p,
            replace=replace,
            axis=axis,
            mode=mode,
            **more,
        )

    rows = np.arange(24, dtype=np.float32).reshape(4, 6)
    for seed in (0, 42):
        choice(f"number_{seed}", "i32", [], [101], a=52, seed=seed)
        choice(f"number_without_{seed}", "i32", [], [20], a=52, replace=False, seed=seed)
    choice("rows", "f32", [rows], [5])
    choice("columns", "f32", [rows], [2, 3], axis=1)
    choice("last", "f32", [rows], [], axis=-1)
    choice("rows_without", "f32", [rows], [3], replace=False)
    choice("columns_without", "f32", [rows], [2, 2], axis=1, replace=False)
    choice("vector_without", "f32", [rows[0]], [4], replace=False)
    choice("keys", "i32", [], [3], a=10, keys=4)
    choice("keys_without", "i32", [], [3], a=10, keys=4, replace=False)
    for kind in ("bf16", "f16", "f32", "f64"):
        p = np.array([0.1, 0.0, 0.25, 0.5, 0.125, 0.025], dtype(kind))
        result = "i64" if kind == "f64" else "i32"
        for mode in (None, "high", "highest"):
            choice(
                f"{kind}_without_{mode}", result, [p], [3], a=6, p=True, replace=False, mode=mode
            )
        choice(f"{kind}_replace", result, [p], [101], a=6, p=True)
        choice(f"{kind}_columns", kind, [rows.astype(dtype(kind)), p], [3], axis=1, p=True)
        choice(
            f"{kind}_columns_without",
            kind,
            [rows.astype(dtype(kind)), p],
            [2],
            axis=1,
            p=True,
            replace=False,
        )
    p = np.full(1000, 1e-3, np.float32)
    choice("long", "i32", [p], [101], a=1000, p=True)


def _modes(suite):
    """Adds further options of samplers of the suite `random`."""
    call = lambda key, args, shape, kind, more: jax.random.gumbel(key, shape, kind, more["mode"])
    for kind in FLOATS:
        for mode in ("low", "high", "highest"):
            _case(suite, "gumbel", kind, (), [257], mode, call=call, mode=mode)
    _case(suite, "gumbel", "f32", (), [2], "keys", call=call, keys=3, mode="highest")
    call = lambda key, args, shape, kind, more: jax.random.bernoulli(
        key, args[0], shape, more["mode"]
    )
    for kind in FLOATS:
        p = np.array([0.0, 1e-9, 0.3, 0.75, 1.0], dtype(kind))
        for mode in ("low", "high"):
            _case(
                suite, "bernoulli", kind, [p], [51, 5], mode, tolerance=EXACT, call=call, mode=mode
            )
            _case(
                suite,
                "bernoulli",
                kind,
                [p],
                None,
                f"{mode}_own_shape",
                tolerance=EXACT,
                call=call,
                mode=mode,
            )
    call = lambda key, args, shape, kind, more: jax.random.truncated_normal(key, *args, shape, kind)
    for kind in FLOATS:
        args = [np.array([-1.0, 0.5], dtype(kind)), np.array([[0.75], [2.0]], dtype(kind))]
        _case(suite, "truncated_normal", kind, args, None, "own_shape", call=call)
    logits = np.random.default_rng(3).normal(size=(3, 5))

    def call(key, args, shape, kind, more):
        return jax.random.categorical(
            key, args[0], more["axis"], shape, more["replace"], more["mode"]
        )

    for kind in FLOATS:
        result = "i64" if kind == "f64" else "i32"
        args = [logits.astype(dtype(kind))]
        for mode in ("high", "highest"):
            _case(
                suite,
                "categorical",
                result,
                args,
                [7, 3],
                f"{kind}_{mode}",
                tolerance=EXACT,
                call=call,
                axis=-1,
                replace=True,
                mode=mode,
            )
        for axis, shape in ((-1, [4, 3]), (0, [2, 5]), (1, [2, 2, 3])):
            tag = f"{kind}_without_{axis}"
            _case(
                suite,
                "categorical",
                result,
                args,
                shape,
                tag,
                tolerance=EXACT,
                call=call,
                axis=axis,
                replace=False,
                mode=None,
            )
    args = [logits.astype(np.float32).reshape(3, 1, 5)]
    _case(
        suite,
        "categorical",
        "i32",
        args,
        [2, 3, 4],
        "broadcast",
        tolerance=EXACT,
        call=call,
        axis=-1,
        replace=True,
        mode=None,
    )


def _gradients(suite):
    few = np.array([0.4, 1.5, 6.0, 30.0])
    rows = np.array([[0.7], [5.0]])
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    table = {
        "gamma": [few],
        "loggamma": [few],
        "chisquare": [few],
        "t": [few],
        "beta": [few, rows],
        "f": [few, rows],
        "dirichlet": [np.array([[0.4, 1.5, 6.0]])],
        "generalized_normal": [np.array([1.5, 2.0, 7.0])],
        "pareto": [few],
        "rayleigh": [few],
        "wald": [few],
        "lognormal": [few / 20],
        "weibull_min": [rows, few],
        "triangular": [np.array([-1.0, 0.0]), np.array([0.5, 0.25]), np.array([[1.0], [3.0]])],
        "double_sided_maxwell": [np.array([0.5, -2.0]), np.array([0.25, 3.0])],
        "multivariate_normal": [np.array([0.5, -1.0]), cov],
    }
    shapes = {"dirichlet": [5, 1], "multivariate_normal": [5], "double_sided_maxwell": [5]}
    for op, parameters in table.items():
        for kind in ("f32",) if op in SLOW[2:] else ("f32", "f64"):
            args = [x.astype(dtype(kind)) for x in parameters]
            joint = list(np.broadcast_shapes(*(x.shape for x in args)))
            args = [np.array(np.broadcast_to(x, joint)) for x in args] if op == "f" else args
            shape = shapes.get(op, joint if op == "f" else [5, *joint])
            wrt = list(range(1, 1 + len(args)))
            _case(suite, op, kind, args, shape, "grad", tolerance=SLOPES[kind], wrt=wrt)
    counts = [np.array([5.0, 500.0], np.float32), np.array([0.2, 0.6], np.float32)]
    _case(suite, "binomial", "f32", counts, [3, 2], "grad", tolerance=EXACT, wrt=[1, 2])
    _case(
        suite,
        "gamma",
        "f32",
        [few.astype(np.float32)],
        [4],
        "grad_keys",
        keys=3,
        tolerance=SLOPES["f32"],
        wrt=[1],
    )
    call = lambda key, args, shape, kind, more: jax.random.truncated_normal(key, *args, shape, kind)
    for kind in ("f32", "f64"):
        args = [np.array([-1.0, 0.5], dtype(kind)), np.array([[0.75], [2.0]], dtype(kind))]
        _case(
            suite,
            "truncated_normal",
            kind,
            args,
            [2, 2],
            "grad",
            call=call,
            tolerance=SLOPES[kind],
            wrt=[1, 2],
        )
