"""Reductions, norms, decompositions, images and the softmax family with options."""

import jax
import jax.numpy as jnp

from .api_table import B, I, R, Row, V

_M = R((3, 4))
_S = R((3, 3))
_NARROW = ("bf16", "f32")


def _spd(x):
    """Returns a positive definite matrix."""
    return x @ x.mT + 2 * jnp.eye(x.shape[-1], dtype=x.dtype)


REDUCTIONS = [
    Row("sum_f32", [_M], lambda x: jnp.sum(x, axis=1, dtype=jnp.float32), (0,), _NARROW),
    Row("sum_u8", [I((3, 4), 0, 200, "u8")], lambda x: jnp.sum(x, 1, dtype=jnp.uint8), exact=True),
    Row(
        "sum_kept",
        [I((3, 4), 0, 99, "i8")],
        lambda x: jnp.sum(x, 1, promote_integers=False),
        exact=True,
    ),
    Row("prod_f32", [_M], lambda x: jnp.prod(x, axis=0, dtype=jnp.float32), (0,), _NARROW),
    Row("mean_f32", [_M], lambda x: jnp.mean(x, axis=0, dtype=jnp.float32), (0,), _NARROW),
    Row("var_f32", [_M], lambda x: jnp.var(x, axis=0, dtype=jnp.float32), (0,), ("bf16", "f32")),
    Row("std_f32", [_M], lambda x: jnp.std(x, axis=0, dtype=jnp.float32, ddof=1), (0,), ("f32",)),
    Row("cumsum_f32", [_M], lambda x: jnp.cumsum(x, axis=1, dtype=jnp.float32), (0,), _NARROW),
    Row("cumprod_i8", [I((5,), 1, 4)], lambda x: jnp.cumprod(x, dtype=jnp.int8), exact=True),
    Row("argmax_kept", [_M], lambda x: jnp.argmax(x, 1, keepdims=True), exact=True),
    Row("argmin_all_kept", [_M], lambda x: jnp.argmin(x, keepdims=True), exact=True),
    Row(
        "nanargmax_kept",
        [V([[1.0, jnp.nan], [3.0, 4.0]])],
        lambda x: jnp.nanargmax(x, 1, keepdims=True),
        exact=True,
    ),
    Row(
        "nansum_where",
        [V([1.0, jnp.nan, 3.0]), V([True, True, False])],
        lambda x, m: jnp.nansum(x, where=m),
        (0,),
    ),
    Row(
        "nanmean_where",
        [V([1.0, jnp.nan, 3.0, 5.0]), V([True, True, False, True])],
        lambda x, m: jnp.nanmean(x, where=m),
        (0,),
    ),
    Row(
        "nan_to_num_values",
        [V([1.0, jnp.nan, jnp.inf, -jnp.inf])],
        lambda x: jnp.nan_to_num(x, nan=2.0, posinf=5.0, neginf=-6.0),
        (0,),
        _NARROW,
        exact=True,
    ),
    Row("angle_deg", [R((4,))], lambda x: jnp.angle(x, deg=True)),
    Row(
        "average_returned",
        [_M, R((4,), 0.5, 2)],
        lambda x, w: jnp.average(x, 1, w, returned=True),
        (0, 1),
    ),
    Row("gradient_axes", [_M], jnp.gradient, (0,)),
    Row("cov_y", [R((2, 5)), R((2, 5))], lambda x, y: jnp.cov(x, y), (0, 1)),
    Row("cov_columns", [R((5, 2))], lambda x: jnp.cov(x, rowvar=False), (0,)),
    Row("corrcoef_y", [R((5,)), R((5,))], lambda x, y: jnp.corrcoef(x, y), (0, 1)),
    Row(
        "histogram2d_density",
        [R((9,)), R((9,)), R((9,), 0, 1)],
        lambda x, y, w: jnp.histogram2d(x, y, bins=[2, 3], weights=w, density=True),
        batch=False,
    ),
]

LINALG = [
    Row(f"norm_{name}", [_M], lambda x, ord=ord: jnp.linalg.norm(x, ord), (0,), ("f32", "f64"))
    for name, ord in [("nuc", "nuc"), ("2", 2), ("-2", -2), ("-1", -1), ("-inf", -jnp.inf)]
] + [
    Row("norm_axis", [_M], lambda x: jnp.linalg.norm(x, axis=0, keepdims=True), (0,)),
    Row(
        "norm_axes",
        [R((2, 3, 4))],
        lambda x: jnp.linalg.norm(x, 1, axis=(2, 0), keepdims=True),
        (0,),
    ),
    Row("cond_1", [_S], lambda x: jnp.linalg.cond(_spd(x), 1), (0,), ("f64",)),
    Row("cond_-2", [_S], lambda x: jnp.linalg.cond(_spd(x), -2), (0,), ("f64",)),
    # Under differentiation JAX symmetrizes the matrix all the same, so values alone are recorded.
    Row(
        "eigvalsh_lower",
        [_S],
        lambda x: jnp.linalg.eigvalsh(x, "L", symmetrize_input=False),
        None,
        ("f32", "f64"),
    ),
    Row(
        "eigvalsh_upper",
        [_S],
        lambda x: jnp.linalg.eigvalsh(x, "U", symmetrize_input=False),
        None,
        ("f32", "f64"),
    ),
    Row("cholesky_upper", [_S], lambda x: jnp.linalg.cholesky(_spd(x), upper=True), (0,), ("f64",)),
    Row(
        "cholesky_lower",
        [V([[4.0, 9.0], [1.0, 3.0]])],
        lambda x: jnp.linalg.cholesky(x, symmetrize_input=False),
        (0,),
        ("f64",),
    ),
    Row(
        "svd_hermitian",
        [_S],
        lambda x: jnp.linalg.svd(x + x.T, hermitian=True)[1],
        (0,),
        ("f64",),
    ),
    Row("pinv_hermitian", [_S], lambda x: jnp.linalg.pinv(x + x.T, hermitian=True), (0,), ("f64",)),
    Row(
        "rank_hermitian",
        [_S],
        lambda x: jnp.linalg.matrix_rank(x + x.T, hermitian=True).astype(jnp.int32),
        None,
        ("f64",),
    ),
    Row(
        "tensorsolve_axes",
        [R((2, 4, 2)), R((4,))],
        lambda a, b: jnp.linalg.tensorsolve(a, b, axes=(0,)),
        (0, 1),
        ("f64",),
        batch=False,
    ),
]

_METHODS = ["linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area", "nearest"]


def _resize(name, shape, to, method, antialias, kinds=("f32",)):
    wrt = None if method == "nearest" else (0,)
    return Row(
        f"resize_{name}_{method}",
        [R(shape)],
        lambda x: jax.image.resize(x, to, method, antialias),
        wrt,
        kinds,
        tolerance={"rtol": 2e-2, "atol": 2e-2} if "bf16" in kinds else {"rtol": 1e-4, "atol": 1e-5},
    )


IMAGES = (
    [_resize("up", (4, 3), (7, 5), method, True) for method in _METHODS]
    + [_resize("down", (9, 4), (4, 3), method, True) for method in _METHODS]
    + [_resize("sharp", (9, 4), (4, 6), method, False) for method in _METHODS]
    + [_resize("bf16", (2, 4, 1), (2, 6, 1), "linear", True, ("bf16",))]
    + [
        Row(
            f"scale_{method}",
            [R((5, 4)), V([1.5, 0.75]), V([-0.5, 1.0])],
            lambda x, s, t, method=method: jax.image.scale_and_translate(
                x, (6, 4), (0, 1), s, t, method
            ),
            (0, 1, 2) if method == "cubic" else (0,),
            tolerance={"rtol": 1e-4, "atol": 1e-5},
        )
        for method in ["linear", "cubic", "lanczos3", "area"]
    ]
)

MASKS = [
    Row("softmax_where", [_M, B((3, 4))], lambda x, m: jax.nn.softmax(x, where=m), (0,), _NARROW),
    Row(
        "log_softmax_where",
        [V([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]]), V([[True, False, True], [True, True, True]])],
        lambda x, m: jax.nn.log_softmax(x, where=m),
    ),
    Row("logsumexp_where", [_M, B((3, 4))], lambda x, m: jax.nn.logsumexp(x, 0, where=m), (0,)),
    Row(
        "logsumexp_sign",
        [_M, R((3, 4))],
        lambda x, b: jax.nn.logsumexp(x, 1, b, return_sign=True),
    ),
    Row(
        "logmeanexp_where",
        [_M, V([True, False, True, True])],
        lambda x, m: jax.nn.logmeanexp(x, -1, where=m),
        (0,),
    ),
    Row(
        "standardize_given",
        [_M, R((3, 1)), R((3, 1), 0.5, 2)],
        lambda x, m, v: jax.nn.standardize(x, mean=m, variance=v),
        (0, 1, 2),
    ),
    Row(
        "standardize_where",
        [_M, V([True, False, True, True])],
        lambda x, m: jax.nn.standardize(x, where=m),
        None,
        tolerance={"rtol": 1e-3, "atol": 1e-4},
    ),
]

_PADS = ((2, 3), (0, 1))


def _row_sums(row, width, axis, _):
    """Pads with the sum of a row and its axis in front, and the number of elements behind."""
    before, after = width
    row = row.at[:before].set(row.sum() + axis)
    return row.at[row.size - after :].set(after)


def _pad(name, mode, pads=_PADS, shape=(3, 4), **options):
    """Returns a row of a mode of `pad`."""
    return Row(
        f"pad_{name}",
        [R(shape)],
        lambda x: jnp.pad(x, pads, mode, **options),
        (0,),
        _NARROW,
    )


PADS = [
    _pad("mean", "mean"),
    _pad("mean_2", "mean", stat_length=2),
    _pad("maximum_2", "maximum", stat_length=2),
    _pad("minimum", "minimum"),
    _pad("median", "median"),
    _pad("ramp", "linear_ramp", end_values=1.5),
    _pad("reflect_odd", "reflect", (5, 6), (3,), reflect_type="odd"),
    _pad("empty", "empty"),
    _pad("function", _row_sums),
    _pad("symmetric_odd", "symmetric", (5, 6), (3,), reflect_type="odd"),
    Row("pad_mean_int", [I((4,), -9, 9)], lambda x: jnp.pad(x, 2, "mean"), exact=True),
    Row("pad_ramp_int", [I((4,), -9, 9)], lambda x: jnp.pad(x, 4, "linear_ramp"), exact=True),
]

SCALED = [
    Row(
        "scaled_matmul",
        [R((2, 3, 4)), R((2, 5, 4)), R((2, 3, 2), 0.5, 2), R((2, 5, 2), 0.5, 2)],
        # JAX has no `scaled_matmul` on CPUs: this is the formula of its documentation.
        lambda x, y, a, b: jnp.einsum(
            "bmk,bnk->bmn", x * jnp.repeat(a, 2, axis=-1), y * jnp.repeat(b, 2, axis=-1)
        ),
        (0, 1, 2, 3),
        batch=False,
    ),
    Row(
        "ragged_dot_wide",
        [R((6, 3)), R((3, 3, 2)), V([2, 1, 2])],
        lambda x, y, n: jax.lax.ragged_dot(x, y, n, preferred_element_type=jnp.float32),
        (0, 1),
        _NARROW,
        tolerance={"rtol": 2e-2, "atol": 2e-2},
        batch=False,
    ),
    Row(
        "polyfit_w",
        [R((6,)), R((6,)), R((6,), 0.5, 2)],
        lambda x, y, w: jnp.polyfit(x, y, 2, w=w),
        kinds=("f64",),
    ),
]

ROWS = REDUCTIONS + LINALG + IMAGES + MASKS + PADS + SCALED
