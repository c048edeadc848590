"""Random numbers of the default generator, partitionable Threefry 2x32: keys, bits and samplers.

Operand 0 is raw key data, u32[2], except in the cases of `key`. Bits, and results of integer
arithmetic on them, are exact on all machines. Samplers that use log or erf_inv are exact on the
pinned plugin, except in f64, and within 8 ulp elsewhere.
"""

import jax
import jax.numpy as jnp
import numpy as np

from .names import dtype
from .suite import EXACT, Suite

NEAR = {"ulp": 8, "ulp_pinned": 0}
# XLA rewrote log1p in f64 between its versions in JAX 0.10.2 and in the pinned plugin.
NEAR_WIDE = {"ulp": 256}
SEEDS = {"zero": 0, "42": 42, "wide": 2**40 + 7, "minus_one": -1}


def _data(seed):
    return np.asarray(jax.random.key_data(jax.random.key(seed)))


def _raw(keys):
    return jax.random.key_data(keys)


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("random", __doc__.strip(), stride=stride)
    _keys(suite)
    _bits(suite)
    _floats(suite)
    _integers(suite)
    _orders(suite)
    _choices(suite)
    return suite


def _sampler(suite, name, op, compute, seed=42, tolerance=EXACT, inputs=(), **params):
    """Adds a case whose first input is a key, computed by `compute(key, *inputs)`."""

    def run(data, *rest):
        return compute(jax.random.wrap_key_data(jnp.asarray(data)), *rest)

    if tolerance is NEAR and params["dtype"] in ("f64", "c128"):
        tolerance = NEAR_WIDE
    suite.case(name, op, [_data(seed), *inputs], run, params, tolerance)


def _keys(suite):
    for label, seed in (SEEDS | {"max": 2**63 - 1, "min": -(2**63), "u32": 2**32 - 1}).items():
        suite.case(f"key_{label}", "key", [], lambda seed=seed: _data(seed), {"seed": seed}, EXACT)
    for label, seed in SEEDS.items():
        for shape in ([1], [2], [3], [2, 3], [0], [513]):
            name = f"split_{label}_{'x'.join(map(str, shape))}"
            _sampler(
                suite,
                name,
                "split",
                lambda k, s=tuple(shape): _raw(jax.random.split(k, s)),
                seed,
                shape=shape,
            )
        for data in (0, 1, 7, 2**31, 2**32 - 1):
            _sampler(
                suite,
                f"fold_in_{label}_{data}",
                "fold_in",
                lambda k, d=data: _raw(jax.random.fold_in(k, d)),
                seed,
                data=data,
            )

    def chain(key):
        a, b = jax.random.split(key)
        c = jax.random.fold_in(jax.random.split(b, 3)[2], 11)
        return [_raw(a), _raw(b), _raw(c), jax.random.bits(c, (4,), np.uint32)]

    _sampler(
        suite,
        "chain",
        "chain",
        chain,
        0,
        formula="(a, b) = split(key); c = fold_in(split(b, 3)[2], 11); [a, b, c, bits(c, u32[4])]",
    )


def _bits(suite):
    shapes = {8: [100003], 16: [4099], 32: [65537], 64: [4099]}
    for width in (8, 16, 32, 64):
        for label, seed in SEEDS.items():
            for shape in ([], [0], [1], [5], [3, 7], [2, 0, 4], shapes[width]):
                if len(shape) == 1 and shape[0] > 1000 and label != "42":
                    continue
                name = f"bits{width}_{label}_{'x'.join(map(str, shape)) or 'scalar'}"
                kind = dtype(f"u{width}")
                run = lambda k, s=tuple(shape), d=kind: jax.random.bits(k, s, d)
                _sampler(suite, name, "bits", run, seed, shape=shape, dtype=f"u{width}")
    # A batch of keys: one row of bits for each key.
    run = lambda k: jax.vmap(lambda k: jax.random.bits(k, (3,), np.uint32))(jax.random.split(k, 5))
    _sampler(
        suite, "bits_vmap", "bits_vmap", run, formula="vmap(|k| bits(k, u32[3]))(split(key, 5))"
    )


def _floats(suite):
    for kind in ("bf16", "f16", "f32", "f64"):
        d = dtype(kind)
        for low, high in ((0.0, 1.0), (-1.0, 1.0), (0.3, 7.1), (-2.5, 3.25), (1.0, 1.0)):
            for seed in (0, 42):
                name = f"uniform_{kind}_{low}_{high}_seed_{seed}"
                run = lambda k, d=d, lo=low, hi=high: jax.random.uniform(k, (257,), d, lo, hi)
                _sampler(
                    suite,
                    name,
                    "uniform",
                    run,
                    seed,
                    shape=[257],
                    dtype=kind,
                    minval=low,
                    maxval=high,
                )
        for shape in ([], [0], [3, 5]):
            tag = f"{kind}_{'x'.join(map(str, shape)) or 'scalar'}"
            uniform = lambda k, s=tuple(shape), d=d: jax.random.uniform(k, s, d)
            _sampler(
                suite,
                f"uniform_{tag}",
                "uniform",
                uniform,
                shape=shape,
                dtype=kind,
                minval=0.0,
                maxval=1.0,
            )
            normal = lambda k, s=tuple(shape), d=d: jax.random.normal(k, s, d)
            _sampler(
                suite, f"normal_{tag}", "normal", normal, tolerance=NEAR, shape=shape, dtype=kind
            )
        for seed in (0, 42, 2**40 + 7):
            normal = lambda k, d=d: jax.random.normal(k, (1025,), d)
            _sampler(
                suite,
                f"normal_{kind}_seed_{seed}",
                "normal",
                normal,
                seed,
                NEAR,
                shape=[1025],
                dtype=kind,
            )
        for name in ("exponential", "gumbel"):
            run = lambda k, f=getattr(jax.random, name), d=d: f(k, (257,), d)
            _sampler(suite, f"{name}_{kind}", name, run, tolerance=NEAR, shape=[257], dtype=kind)
    for kind in ("f32", "f64"):
        d = dtype(kind)
        for low, high in ((-2.0, 2.0), (-1.0, 3.0), (0.5, 0.75), (-30.0, 30.0)):
            run = lambda k, d=d, lo=low, hi=high: jax.random.truncated_normal(k, lo, hi, (257,), d)
            params = {"shape": [257], "dtype": kind, "lower": low, "upper": high}
            _sampler(
                suite,
                f"truncated_normal_{kind}_{low}_{high}",
                "truncated_normal",
                run,
                tolerance=NEAR,
                **params,
            )
        low, high = np.array([-1.0, 0.0, 2.0], d), np.array([[-0.5, 1.0, 4.0], [0.0, 5.0, 3.0]], d)
        run = lambda k, lo, hi, d=d: jax.random.truncated_normal(k, lo, hi, (2, 3), d)
        params = {"shape": [2, 3], "dtype": kind}
        _sampler(
            suite,
            f"truncated_normal_{kind}_arrays",
            "truncated_normal",
            run,
            tolerance=NEAR,
            inputs=[low, high],
            **params,
        )
        low, high = np.array([-1.0, 0.0, 2.0], d), np.array(4.5, d)
        run = lambda k, lo, hi, d=d: jax.random.uniform(k, (4, 3), d, lo, hi)
        _sampler(
            suite,
            f"uniform_{kind}_arrays",
            "uniform",
            run,
            inputs=[low, high],
            shape=[4, 3],
            dtype=kind,
        )
    for kind in ("c64", "c128"):
        run = lambda k, d=dtype(kind): jax.random.normal(k, (65,), d)
        _sampler(suite, f"normal_{kind}", "normal", run, tolerance=NEAR, shape=[65], dtype=kind)


def _integers(suite):
    ranges = {
        "i8": [(-128, 127), (-5, 7), (-128, 128), (-300, 50)],
        "u8": [(0, 256), (3, 300), (250, 255)],
        "i16": [(-7, 9), (-32768, 32768)],
        "u16": [(0, 65536), (5, 5)],
        "i32": [
            (0, 10),
            (-5, 7),
            (9, 3),
            (0, 1),
            (-(2**31), 2**31 - 1),
            (-(2**31), 2**31),
            (0, 2**31 - 1),
            (0, 3 * 2**20),
        ],
        "u32": [(0, 10), (0, 2**32), (2**31, 2**32 - 1)],
        "i64": [(0, 10), (0, 1000003), (-(2**63), 2**63 - 1), (-(2**40), 2**52)],
        "u64": [(0, 10), (0, 2**40), (7, 2**62)],
    }
    for kind, pairs in ranges.items():
        for low, high in pairs:
            for shape in ([101], [], [2, 3]) if (low, high) == (0, 10) else ([101],):
                name = f"randint_{kind}_{low}_{high}_{'x'.join(map(str, shape)) or 'scalar'}"
                run = lambda k, s=tuple(shape), lo=low, hi=high, d=dtype(kind): jax.random.randint(
                    k, s, lo, hi, d
                )
                _sampler(
                    suite, name, "randint", run, shape=shape, dtype=kind, minval=low, maxval=high
                )
    low, high = np.array([0, 10, -4], np.int32), np.array([[5, 20, -3], [1, 100, 9]], np.int32)
    run = lambda k, lo, hi: jax.random.randint(k, (2, 3), lo, hi, np.int32)
    _sampler(
        suite, "randint_i32_arrays", "randint", run, inputs=[low, high], shape=[2, 3], dtype="i32"
    )
    for kind in ("f32", "f64", "bf16"):
        for p in (0.0, 0.1, 0.5, 0.99, 1.0):
            run = lambda k, p: jax.random.bernoulli(k, jnp.asarray(p), (101,))
            _sampler(
                suite,
                f"bernoulli_{kind}_{p}",
                "bernoulli",
                run,
                inputs=[np.array(p, dtype(kind))],
                shape=[101],
            )
    p = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    _sampler(
        suite,
        "bernoulli_array",
        "bernoulli",
        lambda k, p: jax.random.bernoulli(k, jnp.asarray(p)),
        inputs=[p],
        shape=[3, 4],
    )
    p = np.array([0.2, 0.8], np.float64)
    run = lambda k, p: jax.random.bernoulli(k, jnp.asarray(p), (50, 2))
    _sampler(suite, "bernoulli_broadcast", "bernoulli", run, inputs=[p], shape=[50, 2])


def _orders(suite):
    for n in (0, 1, 2, 10, 1625, 1626, 4000):
        for seed in (0, 42):
            # JAX's default is i64 here. Only the values matter, so the narrower type is recorded.
            run = lambda k, n=n: jax.random.permutation(k, n).astype(np.int32)
            _sampler(suite, f"permutation_{n}_seed_{seed}", "permutation", run, seed, n=n)
    x = np.arange(24, dtype=np.int32).reshape(4, 6)
    y = np.linspace(-1, 1, 3000, dtype=np.float32).reshape(50, 20, 3)
    for name, array, axis, independent in (
        ("rank1", y.reshape(-1)[:100], 0, False),
        ("rows", x, 0, False),
        ("columns", x, 1, False),
        ("last", x, -1, False),
        ("rows_independent", x, 0, True),
        ("columns_independent", x, 1, True),
        ("two_rounds", y, 1, True),
        ("rank3", y, 1, False),
        ("bool", x % 3 == 0, 1, True),
    ):
        run = lambda k, a, axis=axis, ind=independent: jax.random.permutation(
            k, jnp.asarray(a), axis=axis, independent=ind
        )
        _sampler(
            suite,
            f"permutation_{name}",
            "permutation",
            run,
            inputs=[array],
            axis=axis,
            independent=independent,
        )


def _choices(suite):
    rng = np.random.default_rng(7)
    for kind in ("f32", "f64"):
        logits = rng.normal(size=(3, 5)).astype(dtype(kind))
        for axis, shape in (
            (-1, None),
            (1, None),
            (0, None),
            (-1, [4, 3]),
            (0, [2, 2, 5]),
            (-1, [0, 3]),
        ):
            run = lambda k, a, axis=axis, s=shape: jax.random.categorical(
                k, a, axis, None if s is None else tuple(s)
            ).astype(np.int32)
            name = f"categorical_{kind}_{axis}_{'x'.join(map(str, shape)) if shape else 'default'}"
            _sampler(suite, name, "categorical", run, inputs=[logits], axis=axis, shape=shape)
    logits = np.array([0.0, -np.inf, 1.0, -np.inf], np.float32)
    run = lambda k, a: jax.random.categorical(k, a, shape=(200,)).astype(np.int32)
    _sampler(suite, "categorical_masked", "categorical", run, inputs=[logits], axis=-1, shape=[200])
    for n, count in ((10, 10), (1000, 5)):
        run = lambda k, n=n, c=count: jax.random.choice(
            k, jnp.arange(n, dtype=np.int32), (c,), replace=False
        )
        _sampler(
            suite, f"choice_{n}_{count}", "choice_without_replacement", run, n=n, shape=[count]
        )
