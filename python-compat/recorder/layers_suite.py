"""Layers of Flax, losses of Optax and initializers of JAX that the suite `nn` does not record.

Records values, and derivatives by operands and leaves.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from .layers_sequences import add as add_sequences
from .names import dtype
from .ops_elementwise import inside
from .suite import Suite

# Sums of several products are added in another order, and variances take two passes where Flax
# takes one.
TOLERANCE = {
    "bf16": {"rtol": 1.6e-2, "atol": 1e-2},
    "f32": {"rtol": 2e-5, "atol": 5e-6},
    "f64": {"rtol": 1e-11, "atol": 1e-13},
}
WIDE = ("f32", "f64")


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("layers", __doc__.strip(), stride=stride, tolerance=TOLERANCE)
    _tables(suite)
    _convolutions(suite)
    _norms(suite)
    _batch_norm(suite)
    _dropout(suite)
    _losses(suite)
    _initializers(suite)
    add_sequences(suite)
    return suite


def _apply(layer, names):
    """Returns a function of `x` and the leaves of a layer."""
    return lambda x, *leaves: layer.apply({"params": dict(zip(names, leaves))}, x)


def _tables(suite):
    for kind in WIDE:
        x, weight, bias = (
            inside("x", (-2, 2), kind, (2, 5, 7)),
            inside("w", (-1, 1), kind, (7, 3)),
            inside("b", (-1, 1), kind, (3,)),
        )
        suite.case(
            f"dense_{kind}",
            "dense",
            [x, weight, bias],
            _apply(nn.Dense(3), ["kernel", "bias"]),
            wrt=[0, 1, 2],
        )
        table, ids = (
            inside("table", (-1, 1), kind, (6, 4)),
            np.array([[0, 5, 2], [2, 2, 1]], np.int32),
        )
        embed = nn.Embed(6, 4, param_dtype=dtype(kind))
        suite.case(
            f"embed_{kind}",
            "embed",
            [table, ids],
            lambda t, i, e=embed: e.apply({"params": {"embedding": t}}, i),
            wrt=[0],
        )
        query = inside("query", (-1, 1), kind, (2, 3, 4))
        attend = lambda t, q, e=embed: e.apply({"params": {"embedding": t}}, q, method=e.attend)
        suite.case(f"embed_attend_{kind}", "embed_attend", [table, query], attend, wrt=[0, 1])


def _convolutions(suite):
    plain = {"strides": [], "padding": "SAME", "dilation": [], "groups": 1}
    table = {
        "1d": ((2, 9, 3), (3,), 4, {}),
        "1d_strided": ((2, 9, 3), (4,), 4, {"strides": [2], "padding": "VALID"}),
        "1d_causal": ((2, 9, 3), (3,), 4, {"padding": [[4, 0]], "dilation": [2]}),
        "2d": ((2, 5, 6, 3), (3, 3), 4, {}),
        "2d_strided": ((2, 5, 6, 3), (3, 2), 4, {"strides": [2, 2]}),
        "2d_dilated": ((2, 7, 6, 2), (3, 2), 3, {"padding": "VALID", "dilation": [2, 3]}),
        "2d_padded": ((1, 4, 4, 2), (3, 3), 3, {"padding": [[1, 2], [0, 1]]}),
        "2d_grouped": ((2, 4, 5, 4), (3, 3), 6, {"groups": 2}),
        "2d_depthwise": ((2, 4, 5, 4), (3, 3), 8, {"groups": 4}),
        "2d_outer": ((2, 3, 4, 5, 2), (2, 2), 3, {}),
        "3d": ((1, 3, 4, 3, 2), (2, 3, 2), 3, {"strides": [1, 2, 1]}),
    }
    for name, (shape, window, n_out, more) in table.items():
        options = plain | more
        for kind in ("f32", "bf16") if name == "2d" else WIDE if name == "2d_strided" else ("f32",):
            layer = nn.Conv(
                n_out,
                window,
                strides=options["strides"] or 1,
                padding=_padding(options),
                kernel_dilation=options["dilation"] or 1,
                feature_group_count=options["groups"],
                dtype=dtype(kind),
            )
            operands = _kernel(name, kind, shape, window, shape[-1] // options["groups"], n_out)
            suite.case(
                f"conv_{name}_{kind}",
                "conv",
                operands,
                _apply(layer, ["kernel", "bias"]),
                options,
                wrt=None if kind == "bf16" else [0, 1, 2],
            )
    plain = {"strides": [], "padding": "SAME", "dilation": [], "transpose_kernel": False}
    table = {
        "1d": ((2, 5, 3), (3,), {"strides": [2]}),
        "2d": ((2, 3, 4, 2), (3, 3), {"strides": [2, 2]}),
        "2d_valid": ((2, 3, 4, 2), (4, 2), {"strides": [2, 3], "padding": "VALID"}),
        "2d_padded": ((1, 3, 4, 2), (3, 3), {"strides": [1, 2], "padding": [[1, 1], [2, 0]]}),
        "2d_dilated": ((1, 3, 4, 2), (2, 2), {"dilation": [2, 2]}),
        "2d_turned": ((2, 3, 4, 2), (3, 3), {"strides": [2, 2], "transpose_kernel": True}),
    }
    for name, (shape, window, more) in table.items():
        options = plain | more
        layer = nn.ConvTranspose(
            4,
            window,
            strides=options["strides"] or None,
            padding=_padding(options),
            kernel_dilation=options["dilation"] or None,
            transpose_kernel=options["transpose_kernel"],
        )
        ends = (4, shape[-1]) if options["transpose_kernel"] else (shape[-1], 4)
        operands = _kernel(f"t{name}", "f32", shape, window, *ends)
        operands[2] = inside(f"tbias{name}", (-1, 1), "f32", (4,))
        suite.case(
            f"conv_transpose_{name}",
            "conv_transpose",
            operands,
            _apply(layer, ["kernel", "bias"]),
            options,
            wrt=[0, 1, 2],
        )


def _padding(options):
    return (
        options["padding"]
        if isinstance(options["padding"], str)
        else [tuple(pair) for pair in options["padding"]]
    )


def _kernel(name, kind, shape, window, n_in, n_out):
    return [
        inside(f"x{name}", (-1, 1), kind, shape),
        inside(f"w{name}", (-1, 1), kind, (*window, n_in, n_out)),
        inside(f"b{name}", (-1, 1), kind, (n_out,)),
    ]


def _norms(suite):
    for kind in (*WIDE, "bf16"):
        wrt = lambda n, kind=kind: None if kind == "bf16" else list(range(n))
        x = inside("norm", (-2, 3), kind, (2, 3, 3, 6))
        scale, bias = inside("scale", (0.5, 2), kind, (6,)), inside("shift", (-1, 1), kind, (6,))
        both, one = ["scale", "bias"], ["scale"]
        for epsilon in (1e-6, 1e-2):
            layer = nn.LayerNorm(epsilon=epsilon, dtype=dtype(kind))
            suite.case(
                f"layer_norm_{epsilon}_{kind}",
                "layer_norm",
                [x, scale, bias],
                _apply(layer, both),
                {"epsilon": epsilon},
                wrt=wrt(3),
            )
        suite.case(
            f"rms_norm_{kind}",
            "rms_norm",
            [x, scale],
            _apply(nn.RMSNorm(dtype=dtype(kind)), one),
            {"epsilon": 1e-6},
            wrt=wrt(2),
        )
        for groups in (1, 3, 6):
            layer = nn.GroupNorm(num_groups=groups, dtype=dtype(kind))
            suite.case(
                f"group_norm_{groups}_{kind}",
                "group_norm",
                [x, scale, bias],
                _apply(layer, both),
                {"epsilon": 1e-6, "groups": groups},
                wrt=wrt(3),
            )
    plain = nn.LayerNorm(use_bias=False, use_scale=False)
    suite.case(
        "layer_norm_plain",
        "layer_norm",
        [inside("plain", (-2, 3), "f32", (4, 5))],
        _apply(plain, []),
        {"epsilon": 1e-6},
        wrt=[0],
    )
    suite.case(
        "layer_norm_scale",
        "layer_norm",
        [x.astype(np.float32), scale.astype(np.float32)],
        _apply(nn.LayerNorm(use_bias=False), one),
        {"epsilon": 1e-6},
        wrt=[0, 1],
    )


def _batch_norm(suite):
    for kind in (*WIDE, "bf16"):
        x = inside("batch", (-2, 3), kind, (4, 3, 2, 5))
        leaves = [
            inside(name, domain, kind, (5,)) for name, domain in (("bs", (0.5, 2)), ("bb", (-1, 1)))
        ]
        stats = [inside("bm", (-1, 1), "f32", (5,)), inside("bv", (0.5, 2), "f32", (5,))]

        def run(x, scale, bias, mean, var, train, kind=kind):
            layer = nn.BatchNorm(use_running_average=not train, momentum=0.9, dtype=dtype(kind))
            state = {
                "params": {"scale": scale, "bias": bias},
                "batch_stats": {"mean": mean, "var": var},
            }
            y, new = layer.apply(state, x, mutable=["batch_stats"])
            return [y, new["batch_stats"]["mean"], new["batch_stats"]["var"]] if train else y

        wrt = None if kind == "bf16" else [0, 1, 2]
        params = {"momentum": 0.9, "epsilon": 1e-5}
        if kind == "f64":
            stats = [leaf.astype(np.float64) for leaf in stats]
        suite.case(
            f"batch_norm_train_{kind}",
            "batch_norm_train",
            [x, *leaves, *stats],
            lambda *a: run(*a, True),
            params,
            wrt=wrt,
        )
        suite.case(
            f"batch_norm_eval_{kind}",
            "batch_norm_eval",
            [x, *leaves, *stats],
            lambda *a: run(*a, False),
            params,
            wrt=wrt,
        )


def _dropout(suite):
    data = np.asarray(jax.random.key_data(jax.random.key(7)))
    for kind in ("f32", "bf16"):
        x = inside("drop", (-1, 1), kind, (6, 5))
        for rate, broadcast_axes in (
            (0.5, []),
            (0.1, []),
            (0.4, [0]),
            (0.3, [-1]),
            (0.0, []),
            (1.0, []),
        ):
            layer = nn.Dropout(rate, broadcast_dims=broadcast_axes)
            run = lambda k, x, layer=layer: _apply_dropout(layer, k, x)
            suite.case(
                f"dropout_{rate}_{len(broadcast_axes)}_{kind}",
                "dropout",
                [data, x],
                run,
                {"rate": rate, "broadcast_axes": broadcast_axes},
                {"ulp": 1} if kind == "f32" else None,
            )


def _apply_dropout(layer, key, x):
    # The dropout rate is a Python number. With 64-bit types off, as in training, it is f32.
    with jax.enable_x64(False):
        return np.asarray(
            layer.apply(
                {},
                jnp.asarray(x),
                deterministic=False,
                rng=jax.random.wrap_key_data(jnp.asarray(key)),
            )
        )


def _losses(suite):
    for kind in WIDE:
        logits, labels = (
            inside("logits", (-4, 4), kind, (5, 7)),
            np.array([0, 6, 3, 3, 1], np.int32),
        )
        for alpha in (0.0, 0.1, 1.0):
            smooth = lambda a, b, alpha=alpha: optax.softmax_cross_entropy(
                a, optax.smooth_labels(jax.nn.one_hot(b, 7, dtype=a.dtype), alpha)
            )
            suite.case(
                f"smoothed_{alpha}_{kind}",
                "smoothed_cross_entropy",
                [logits, labels],
                smooth,
                {"alpha": alpha},
                wrt=[0],
            )
        log_predictions = np.asarray(jax.nn.log_softmax(inside("lp", (-2, 2), kind, (4, 5))))
        targets = np.array(jax.nn.softmax(inside("lt", (-2, 2), kind, (4, 5))))
        suite.case(
            f"kl_{kind}",
            "kl_divergence",
            [log_predictions, targets],
            optax.kl_divergence,
            wrt=[0, 1],
        )
        targets[1, 2] = 0
        suite.case(
            f"kl_zero_{kind}",
            "kl_divergence",
            [log_predictions, targets],
            optax.kl_divergence,
            wrt=[0],
        )
        x, y = inside("cx", (-1, 1), kind, (4, 3)), inside("cy", (-1, 1), kind, (4, 3))
        suite.case(
            f"cosine_distance_{kind}",
            "cosine_distance",
            [x, y],
            optax.cosine_distance,
            {"epsilon": 0.0},
            wrt=[0, 1],
        )
        bounded = lambda a, b: optax.cosine_similarity(a, b, epsilon=0.9)
        suite.case(
            f"cosine_similarity_{kind}",
            "cosine_similarity",
            [x, y],
            bounded,
            {"epsilon": 0.9},
            wrt=[0, 1],
        )
        frames = inside("ctc", (-2, 2), kind, (4, 8, 5))
        letters = np.array([[1, 2, 2], [3, 3, 3], [4, 1, 0], [2, 0, 0]], np.int32)
        lengths, sizes = np.array([8, 7, 5, 1], np.int32), np.array([3, 3, 2, 1], np.int32)

        def ctc(logits, lengths, labels, sizes):
            padding_mask = lambda n, of: (jnp.arange(of)[None, :] >= n[:, None]).astype(
                logits.dtype
            )
            # With 64-bit types on, Optax widens the result.
            return optax.ctc_loss(
                logits, padding_mask(lengths, 8), labels, padding_mask(sizes, 3)
            ).astype(logits.dtype)

        suite.case(
            f"ctc_{kind}", "ctc_loss", [frames, lengths, letters, sizes], ctc, {"blank": 0}, wrt=[0]
        )


def _initializers(suite):
    init = jax.nn.initializers
    data = np.asarray(jax.random.key_data(jax.random.key(42)))
    few_ulps = {"ulp": 64}
    table = {
        "orthogonal": (init.orthogonal(1.5), [4, 6], {"scale": 1.5}, {"rtol": 1e-5, "atol": 1e-5}),
        "orthogonal_tall": (
            init.orthogonal(),
            [3, 5, 4],
            {"scale": 1.0},
            {"rtol": 1e-5, "atol": 1e-5},
        ),
        "delta_orthogonal": (
            init.delta_orthogonal(2.0),
            [3, 4, 2, 5],
            {"scale": 2.0},
            {"rtol": 1e-5, "atol": 1e-5},
        ),
        "geometric": (
            init.variance_scaling(2.0, "fan_geo_avg", "uniform"),
            [3, 5],
            {"scale": 2.0, "in": [0], "out": [1], "batch": [], "fan": "geometric"},
            few_ulps,
        ),
        "along": (
            init.variance_scaling(1.0, "fan_in", "normal", in_axis=(0,), out_axis=(1, 2)),
            [6, 2, 3],
            {"scale": 1.0, "in": [0], "out": [1, 2], "batch": [], "fan": "in"},
            few_ulps,
        ),
        "batch": (
            init.variance_scaling(
                1.0, "fan_avg", "truncated_normal", in_axis=1, out_axis=2, batch_axis=0
            ),
            [3, 4, 5],
            {"scale": 1.0, "in": [1], "out": [2], "batch": [0], "fan": "average"},
            few_ulps,
        ),
        "embed": (
            init.variance_scaling(1.0, "fan_in", "normal", out_axis=0),
            [7, 4],
            {"scale": 1.0, "in": [0], "out": [0], "batch": [], "fan": "in"},
            few_ulps,
        ),
        "constant": (init.constant(0.25), [2, 3], {"value": 0.25}, {"ulp": 0}),
    }
    for name, (make, shape, more, tolerance) in table.items():
        run = lambda k, m=make, s=shape: m(
            jax.random.wrap_key_data(jnp.asarray(k)), tuple(s), jnp.float32
        )
        op = (
            name
            if name in ("constant", "delta_orthogonal")
            else "orthogonal"
            if "orthogonal" in name
            else "variance_scaling"
        )
        suite.case(
            f"init_{name}",
            f"init_{op}",
            [data],
            run,
            {"shape": shape, "dtype": "f32", "distribution": name} | more,
            tolerance,
        )
