"""Cases of convolutions."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .mapped import plain_and_mapped
from .names import dtype
from .ops_elementwise import inside
from .ops_shape import sample

NHWC = ("NHWC", "HWIO", "NHWC")
NCHW = ("NCHW", "OIHW", "NCHW")
# label, operand, kernel, strides, padding, both dilations, layout, feature groups, batch groups
CONVOLUTIONS = [
    ("images", (2, 5, 4, 3), (3, 2, 3, 2), (1, 1), "SAME", (1, 1), (1, 1), NHWC, 1, 1),
    ("strided", (1, 6, 5, 2), (3, 3, 2, 2), (2, 2), "SAME_LOWER", (1, 1), (1, 1), NHWC, 1, 1),
    ("channels_first", (2, 2, 5, 4), (3, 2, 2, 2), (1, 2), "VALID", (1, 1), (1, 1), NCHW, 1, 1),
    ("dilated", (1, 2, 4, 4), (2, 2, 2, 2), (1, 2), [(1, 2), (0, 3)], (2, 1), (1, 2), NCHW, 1, 1),
    ("cropped", (1, 2, 5, 5), (2, 2, 2, 2), (1, 1), [(-1, 1), (0, -1)], (1, 1), (1, 1), NCHW, 1, 1),
    ("groups", (2, 4, 4, 4), (2, 2, 2, 6), (1, 2), "SAME", (1, 1), (1, 1), NHWC, 2, 1),
    ("depthwise", (1, 5, 5, 3), (3, 3, 1, 3), (1, 1), "SAME", (1, 1), (1, 1), NHWC, 3, 1),
    ("batch_groups", (4, 4, 4, 2), (2, 2, 2, 4), (2, 1), "SAME", (1, 1), (1, 1), NHWC, 1, 2),
    (
        "mixed",
        (3, 2, 4, 2),
        (2, 3, 2, 2),
        (1, 1),
        "SAME",
        (1, 1),
        (1, 1),
        ("WNHC", "OHIW", "CHNW"),
        1,
        1,
    ),
    ("line", (2, 3, 6), (2, 3, 3), (2,), [(1, 1)], (1,), (1,), ("NCW", "OIW", "NCW"), 1, 1),
    (
        "volume",
        (1, 3, 2, 3, 2),
        (2, 2, 1, 2, 2),
        (1, 1, 1),
        "VALID",
        (1, 1, 1),
        (1, 1, 1),
        ("NDHWC", "DHWIO", "NDHWC"),
        1,
        1,
    ),
    ("no_space", (3, 2), (4, 2), (), (), (), (), ("NC", "OI", "NC"), 1, 1),
]


def add(suite):
    """Adds all cases."""
    _general(suite)
    _dtypes(suite)
    _transposed(suite)
    _patches(suite)
    _vectors(suite)


def _general(suite):
    for (
        label,
        left,
        right,
        strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        layout,
        groups,
        batch_groups,
    ) in CONVOLUTIONS:

        def run(
            x,
            y,
            s=strides,
            p=padding,
            l=lhs_dilation,
            r=rhs_dilation,
            n=layout,
            g=groups,
            b=batch_groups,
        ):
            return lax.conv_general_dilated(x, y, s, p, l, r, n, g, b)

        params = {
            "window_strides": strides,
            "padding": padding,
            "lhs_dilation": lhs_dilation,
            "rhs_dilation": rhs_dilation,
            "dimension_numbers": layout,
            "feature_group_count": groups,
            "batch_group_count": batch_groups,
        }
        points = lambda kind: (
            inside(f"cl{label}", (-2, 2), kind, left),
            inside(f"cr{label}", (-2, 2), kind, right),
        )
        if label != "cropped":
            # For negative padding in f32, JAX reads beyond the operand, and its results are
            # arbitrary.
            suite.case(
                f"conv_{label}_f32", "conv_general_dilated", points("f32"), run, params, wrt=[0, 1]
            )
        plain_and_mapped(
            suite,
            f"conv_{label}_f64",
            "conv_general_dilated",
            points("f64"),
            run,
            params,
            wrt=[0, 1],
        )
        for side, in_axes in (("lhs", [0, None]), ("rhs", [None, 0])):
            name = f"conv_{label}_{side}"
            plain_and_mapped(
                suite,
                name,
                "conv_general_dilated",
                points("f64"),
                run,
                params,
                wrt=[0, 1],
                in_axes=in_axes,
                plain=False,
            )


def _dtypes(suite):
    layout = ("NCW", "OIW", "NCW")
    base = {
        "window_strides": [1],
        "padding": [[1, 0]],
        "lhs_dilation": [1],
        "rhs_dilation": [1],
        "dimension_numbers": layout,
        "feature_group_count": 1,
        "batch_group_count": 1,
    }
    for kind, preferred in (
        ("i32", None),
        ("i8", "i32"),
        ("bf16", None),
        ("bf16", "f32"),
        ("f16", "f32"),
        ("c64", None),
        ("c128", None),
    ):
        x, y = (
            sample(f"{side}{kind}", kind, shape)
            for side, shape in (("x", (2, 2, 5)), ("y", (3, 2, 2)))
        )
        run = lambda x, y, p=preferred: lax.conv_general_dilated(
            x, y, (1,), [(1, 0)], dimension_numbers=layout, preferred_element_type=p and dtype(p)
        )
        params = base | {"preferred_element_type": preferred}
        wrt = [0, 1] if kind.startswith("c") else None
        suite.case(
            f"conv_{kind}_{preferred}",
            "conv_general_dilated",
            [x, y],
            run if wrt else jax.jit(run),
            params,
            wrt=wrt,
        )


def _transposed(suite):
    for stride in (1, 2, 3):
        for padding in ("SAME", "VALID", [(1, 2), (2, 0)]):
            for transpose_kernel in (False, True):
                run = lambda x, y, s=stride, p=padding, t=transpose_kernel: lax.conv_transpose(
                    x, y, (s, s), p, transpose_kernel=t
                )
                label = padding if isinstance(padding, str) else "explicit"
                params = {
                    "strides": [stride, stride],
                    "padding": padding,
                    "rhs_dilation": [1, 1],
                    "transpose_kernel": transpose_kernel,
                }
                x = inside("transposed", (-2, 2), "f32", (1, 3, 4, 2))
                y = inside("kernel", (-2, 2), "f32", (3, 2, 2, 2))
                name = (
                    f"conv_transpose_{stride}_{label}_{'turned' if transpose_kernel else 'plain'}"
                )
                suite.case(name, "conv_transpose", [x, y], run, params, wrt=[0, 1])


def _patches(suite):
    x = inside("patches", (-2, 2), "f32", (2, 3, 5, 4))
    for label, shape, strides, padding, dilation in (
        ("plain", (2, 2), (1, 1), "VALID", (1, 1)),
        ("strided", (3, 2), (2, 1), "SAME", (1, 1)),
        ("dilated", (2, 2), (1, 1), "VALID", (2, 1)),
    ):
        run = lambda x, f=shape, s=strides, p=padding, r=dilation: lax.conv_general_dilated_patches(
            x, f, s, p, rhs_dilation=r
        )
        params = {
            "filter_shape": shape,
            "window_strides": strides,
            "padding": padding,
            "rhs_dilation": dilation,
        }
        plain_and_mapped(
            suite, f"patches_{label}", "conv_general_dilated_patches", [x], run, params, wrt=[0]
        )


def _vectors(suite):
    for op in ("convolve", "correlate"):
        function = getattr(jnp, op)
        for mode in ("full", "same", "valid"):
            for n, m in ((6, 3), (3, 6), (4, 4)):
                run = lambda x, y, f=function, mode=mode: f(x, y, mode=mode)
                for kind in ("f32", "c64"):
                    x, y = (
                        inside(f"{op}x", (-2, 2), kind, (n,)),
                        inside(f"{op}y", (-2, 2), kind, (m,)),
                    )
                    suite.case(
                        f"{op}_{mode}_{n}_{m}_{kind}", op, [x, y], run, {"mode": mode}, wrt=[0, 1]
                    )
        x, y = np.arange(5, dtype=np.int32), np.array([1, -1], np.int32)
        suite.case(
            f"{op}_i32",
            op,
            [x, y],
            jax.jit(lambda x, y, f=function: f(x, y, mode="full")),
            {"mode": "full"},
        )
