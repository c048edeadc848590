"""Padding modes and masks of Flax's convolutions, and masks, axes and fast variances of its
normalization layers. Records values, and derivatives by the operands and leaves."""

import flax.linen as nn
import numpy as np

from .names import dtype
from .ops_elementwise import inside
from .suite import Suite, seed

TOLERANCE = {
    "bf16": {"rtol": 1.6e-2, "atol": 2e-2},
    "f16": {"rtol": 4e-3, "atol": 4e-3},
    "f32": {"rtol": 3e-5, "atol": 1e-5},
    "f64": {"rtol": 1e-10, "atol": 1e-12},
}
KINDS = ("f32", "f64", "bf16", "f16")


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("flax_options", __doc__.strip(), stride=stride, tolerance=TOLERANCE)
    _convolutions(suite)
    _norms(suite)
    _batch_norms(suite)
    return suite


def _operands(name, kind, *shapes):
    return [inside(f"{name}{at}", (-1, 1), kind, shape) for at, shape in enumerate(shapes)]


def _mask(name, shape):
    """Returns random booleans, of which the first are true."""
    values = np.random.default_rng(seed(name)).uniform(size=shape) > 0.3
    values[..., :1] = True
    return values


def _wide(kind):
    return kind in ("f32", "f64")


CONVOLUTIONS = {
    "1d": ((2, 6, 2), (3, 2, 3), {}),
    "1d_even": ((2, 7, 2), (4, 2, 3), {"strides": [2]}),
    "1d_dilated": ((1, 7, 2), (3, 2, 2), {"dilation": [2]}),
    "2d": ((1, 5, 4, 2), (3, 2, 2, 3), {"strides": [2, 1]}),
    "2d_groups": ((1, 4, 5, 4), (3, 3, 2, 4), {"groups": 2, "dilation": [1, 2]}),
}


def _conv(kernel, options, mode, kind, **more):
    window = kernel[:-2]
    return nn.Conv(
        kernel[-1],
        window,
        strides=options.get("strides", 1),
        kernel_dilation=options.get("dilation", 1),
        feature_group_count=options.get("groups", 1),
        padding=mode,
        dtype=dtype(kind),
        param_dtype=dtype(kind),
        **more,
    )


def _convolutions(suite):
    for name, (shape, kernel, options) in CONVOLUTIONS.items():
        for mode in ("CIRCULAR", "REFLECT", "CAUSAL"):
            if mode == "CAUSAL" and len(kernel) > 3:
                continue
            for kind in KINDS if name in ("1d", "2d") else ("f32",):
                operands = _operands(f"conv_{name}", kind, shape, kernel, (kernel[-1],))
                layer = _conv(kernel, options, mode, kind)
                run = lambda x, w, b, layer=layer: layer.apply(
                    {"params": {"kernel": w, "bias": b}}, x
                )
                suite.case(
                    f"conv_{name}_{mode}_{kind}".lower(),
                    "conv_mode",
                    operands,
                    run,
                    {"strides": [], "dilation": [], "groups": 1, "mode": mode} | options,
                    wrt=[0, 1, 2] if _wide(kind) else None,
                )
    for name, dilation in (("1d", [2]), ("1d_even", [3]), ("2d", [2, 1]), ("2d_groups", [1, 2])):
        shape, kernel, options = CONVOLUTIONS[name]
        for pair in ([0, 0], [1, 2]):
            padding = [pair] * len(dilation)
            operands = _operands(f"dilated_{name}", "f32", shape, kernel, (kernel[-1],))
            layer = _conv(kernel, options, padding, "f32", input_dilation=dilation)
            run = lambda x, w, b, layer=layer: layer.apply({"params": {"kernel": w, "bias": b}}, x)
            params = {"strides": [], "dilation": [], "groups": 1} | options
            suite.case(
                f"conv_{name}_input_dilation_{pair[1]}",
                "conv_input_dilated",
                operands,
                run,
                params | {"input_dilation": dilation, "padding": padding},
                wrt=[0, 1, 2],
            )
    for name in ("1d", "2d", "2d_groups"):
        shape, kernel, options = CONVOLUTIONS[name]
        mask = _mask(f"mask_{name}", kernel).astype(np.float32)
        for kind in KINDS if name == "1d" else ("f32",):
            operands = _operands(f"masked_{name}", kind, shape, kernel, (kernel[-1],))
            run = lambda x, w, b, mask: _conv(kernel, options, "SAME", kind, mask=mask).apply(
                {"params": {"kernel": w, "bias": b}}, x
            )
            suite.case(
                f"conv_{name}_masked_{kind}",
                "conv_masked",
                [*operands, mask.astype(dtype(kind))],
                run,
                {"strides": [], "dilation": [], "groups": 1} | options,
                wrt=[0, 1, 2] if _wide(kind) else None,
            )
    for kind in ("f32", "bf16"):
        operands = _operands("transposed", kind, (1, 4, 2), (3, 2, 3), (3,))
        mask = _mask("transposed", (3, 2, 3)).astype(dtype(kind))
        run = lambda x, w, b, mask: nn.ConvTranspose(
            3, (3,), strides=(2,), mask=mask, dtype=dtype(kind), param_dtype=dtype(kind)
        ).apply({"params": {"kernel": w, "bias": b}}, x)
        suite.case(
            f"conv_transpose_masked_{kind}",
            "conv_transpose_masked",
            [*operands, mask],
            run,
            {"strides": [2]},
            wrt=[0, 1, 2] if _wide(kind) else None,
        )


LAYER_NORMS = {
    "fast": {"fast": True},
    "axes": {"axes": [-2, -1], "fast": False},
    "first_axes": {"axes": [0, 1], "fast": True},
    "mask": {"mask": (2, 4, 6), "fast": False},
    "mask_fast": {"mask": (4, 6), "fast": True},
    "mask_axes": {"mask": (2, 4, 1), "axes": [1, 2], "fast": False},
}
GROUP_NORMS = {
    "fast": {"fast": True},
    "axes": {"axes": [-1], "fast": False},
    "batch_axes": {"axes": [0, 1, 2], "fast": False},
    "mask": {"mask": (2, 4, 6), "fast": False},
    "mask_axes": {"mask": (2, 4, 6), "axes": [0, 2], "fast": True},
}


def _norm_case(suite, family, name, options, layer, kind, leaves):
    shape = (2, 4, 6)
    operands = _operands(f"{family}_{name}", kind, shape, *[(6,)] * len(leaves))
    masks = [_mask(f"{family}_{name}", options["mask"])] if "mask" in options else []
    run = lambda x, *rest: layer.apply(
        {"params": dict(zip(leaves, rest))}, x, mask=rest[-1] if masks else None
    )
    suite.case(
        f"{family}_{name}_{kind}",
        family,
        [*operands, *masks],
        run,
        {"axes": options.get("axes"), "fast": options.get("fast", False), "mask": bool(masks)},
        wrt=list(range(1 + len(leaves))) if _wide(kind) else None,
    )


def _norms(suite):
    for kind in KINDS:
        both = {"dtype": dtype(kind), "param_dtype": dtype(kind)}
        for name, options in LAYER_NORMS.items():
            if kind != "f32" and name not in ("fast", "mask"):
                continue
            axes = {"reduction_axes": options["axes"]} if "axes" in options else {}
            layer = nn.LayerNorm(use_fast_variance=options["fast"], **axes, **both)
            _norm_case(suite, "layer_norm", name, options, layer, kind, ("scale", "bias"))
            if name == "fast":
                continue
            layer = nn.RMSNorm(use_fast_variance=options["fast"], **axes, **both)
            _norm_case(suite, "rms_norm", name, options, layer, kind, ("scale",))
        for name, options in GROUP_NORMS.items():
            if kind != "f32" and name not in ("fast", "mask"):
                continue
            axes = {"reduction_axes": options["axes"]} if "axes" in options else {}
            layer = nn.GroupNorm(3, use_fast_variance=options["fast"], **axes, **both)
            _norm_case(suite, "group_norm", name, options, layer, kind, ("scale", "bias"))


def _batch_norms(suite):
    for name, fast, shape in (
        ("fast", True, None),
        ("mask", False, (2, 4, 6)),
        ("mask_rows", False, (2, 4, 1)),
        ("mask_fast", True, (2, 4, 6)),
    ):
        for kind in KINDS if name == "mask_fast" else ("f32",):
            layer = nn.BatchNorm(
                use_running_average=False,
                momentum=0.9,
                use_fast_variance=fast,
                dtype=dtype(kind),
                param_dtype=dtype(kind),
            )
            operands = _operands(f"batch_norm_{name}", kind, (2, 4, 6), (6,), (6,))
            stats = [np.linspace(-1, 1, 6), np.linspace(0.5, 2, 6)]
            stats = [x.astype(np.float64 if kind == "f64" else np.float32) for x in stats]
            masks = [] if shape is None else [_mask(f"batch_norm_{name}", shape)]

            def run(x, scale, bias, mean, var, *masks, layer=layer):
                variables = {
                    "params": {"scale": scale, "bias": bias},
                    "batch_stats": {"mean": mean, "var": var},
                }
                mask = masks[0] if masks else None
                y, new = layer.apply(variables, x, mask=mask, mutable=["batch_stats"])
                return [y, new["batch_stats"]["mean"], new["batch_stats"]["var"]]

            suite.case(
                f"batch_norm_{name}_{kind}",
                "batch_norm",
                [*operands, *stats, *masks],
                run,
                {"fast": fast, "mask": bool(masks)},
                wrt=[0, 1, 2] if _wide(kind) else None,
            )
