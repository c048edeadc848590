"""Layers, recurrent networks, masks and metrics of Flax that the suite `layers` does not record.

Records values, and derivatives by operands and leaves.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from .names import dtype
from .ops_elementwise import inside
from .suite import Suite

TOLERANCE = {
    "bf16": {"rtol": 1.6e-2, "atol": 1e-2},
    "f32": {"rtol": 3e-5, "atol": 1e-5},
    "f64": {"rtol": 1e-10, "atol": 1e-12},
}
WIDE = ("f32", "f64")


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("flax_layers", __doc__.strip(), stride=stride, tolerance=TOLERANCE)
    _products(suite)
    _elementwise(suite)
    _convolutions(suite)
    _recurrent(suite)
    _norms(suite)
    _attention(suite)
    return suite


def _operands(name, kind, *shapes):
    return [inside(f"{name}{at}", (-1, 1), kind, shape) for at, shape in enumerate(shapes)]


def _params(leaves, *names):
    """Returns a nested dictionary of leaves by their names, joined by slashes."""
    params = {}
    for name, leaf in zip(names, leaves):
        *outer, last = name.split("/")
        node = params
        for part in outer:
            node = node.setdefault(part, {})
        node[last] = leaf
    return {"params": params}


def _products(suite):
    table = {
        "last": ((2, 5, 3), (3, 4, 2), (4, 2), {"axes": [-1], "batch_axes": []}),
        "two": ((2, 3, 4), (3, 4, 5), (5,), {"axes": [-2, -1], "batch_axes": []}),
        "batch": ((2, 3, 4), (2, 4, 5), (2, 5), {"axes": [-1], "batch_axes": [0]}),
        "middle": ((2, 3, 4), (3, 5, 2), (5, 2), {"axes": [1], "batch_axes": []}),
    }
    for name, (shape, kernel, bias, options) in table.items():
        n_out = len(bias) - len(options["batch_axes"])
        layer = nn.DenseGeneral(
            features=kernel[-n_out:],
            axis=tuple(options["axes"]),
            batch_dims=tuple(options["batch_axes"]),
        )
        run = lambda x, *leaves, layer=layer: layer.apply(_params(leaves, "kernel", "bias"), x)
        for kind in (*WIDE, "bf16") if name == "two" else ("f32",):
            operands = _operands(f"general_{name}", kind, shape, kernel, bias)
            wrt = None if kind == "bf16" else [0, 1, 2]
            layer.dtype = dtype(kind)
            suite.case(f"general_{name}_{kind}", "linear_general", operands, run, options, wrt=wrt)
    for name, equation, shape, kernel, bias in (
        ("heads", "btd,dnh->btnh", (2, 3, 4), (4, 2, 3), (2, 3)),
        ("batched", "bni,nio->bno", (2, 3, 4), (3, 4, 5), (3, 5)),
        ("dots", "...d,df->...f", (2, 3, 4), (4, 5), (5,)),
    ):
        layer = nn.Einsum(shape=kernel, einsum_str=equation)
        run = lambda x, *leaves, layer=layer: layer.apply(_params(leaves, "kernel", "bias"), x)
        suite.case(
            f"einsum_{name}",
            "einsum",
            _operands(f"einsum_{name}", "f32", shape, kernel, bias),
            run,
            {"equation": equation},
            wrt=[0, 1, 2],
        )
    for kind in WIDE:
        lora = lambda x, w, b, a, c: x @ w + b + nnx_lora(x, a, c)
        operands = _operands("lora", kind, (2, 4), (4, 3), (3,), (4, 2), (2, 3))
        suite.case(f"lora_linear_{kind}", "lora_linear", operands, lora, wrt=[0, 1, 2, 3, 4])


def nnx_lora(x, a, b):
    """Applies a LoRA layer of `flax.nnx` with these matrices."""
    layer = nnx.LoRA(a.shape[0], a.shape[1], b.shape[1], rngs=nnx.Rngs(0))
    layer.lora_a.set_value(a)
    layer.lora_b.set_value(b)
    return layer(x)


def _elementwise(suite):
    for kind in (*WIDE, "bf16"):
        operands = [inside("prelu", (-2, 2), kind, (3, 4)), np.array(0.25, dtype(kind))]
        run = lambda x, slope: nn.PReLU(param_dtype=x.dtype).apply(
            {"params": {"negative_slope": slope}}, x
        )
        wrt = None if kind == "bf16" else [0, 1]
        suite.case(f"prelu_{kind}", "prelu", operands, run, wrt=wrt)


def _convolutions(suite):
    table = {
        "1d": ((2, 6, 3), (3,), {"padding": "SAME", "strides": []}, (6,)),
        "1d_strided": ((2, 7, 2), (3,), {"padding": "VALID", "strides": [2]}, (3,)),
        "2d": ((1, 4, 5, 2), (2, 3), {"padding": "VALID", "strides": [1, 2]}, (3, 2)),
    }
    for name, (shape, window, options, space) in table.items():
        n_rows = shape[-1] * int(np.prod(window))
        layer = nn.ConvLocal(
            3, window, strides=options["strides"] or 1, padding=options["padding"]
        )
        run = lambda x, *leaves, layer=layer: layer.apply(_params(leaves, "kernel", "bias"), x)
        operands = _operands(f"local_{name}", "f32", shape, (*space, n_rows, 3), (*space, 3))
        params = options | {"window": list(window)}
        suite.case(f"conv_local_{name}", "conv_local", operands, run, params, wrt=[0, 1, 2])


def _cell(name, kind, n_in=3, n=4):
    """Returns a cell of Flax, shapes of its leaves, and the names of the leaves."""
    if name == "simple":
        cell = nn.SimpleCell(n)
        leaves = {"i/kernel": (n_in, n), "h/kernel": (n, n), "i/bias": (n,)}
    elif name == "residual":
        cell = nn.SimpleCell(n, residual=True)
        leaves = {"i/kernel": (n_in, n), "h/kernel": (n, n), "i/bias": (n,)}
    else:
        cell = nn.MGUCell(n, reset_gate=name == "mgu")
        leaves = {
            "if/kernel": (n_in, n),
            "in/kernel": (n_in, n),
            "hf/kernel": (n, n),
            "hn/kernel": (n, n),
            "if/bias": (n,),
            "in/bias": (n,),
        }
        if name == "mgu":
            leaves["hn/bias"] = (n,)
    return cell, leaves


def _recurrent(suite):
    for name in ("simple", "residual", "mgu", "mgu_no_reset"):
        for kind in WIDE if name in ("simple", "mgu") else ("f32",):
            cell, leaves = _cell(name, kind)
            shapes = [(2, 4), (2, 3), *leaves.values()]
            run = lambda h, x, *values, cell=cell, leaves=leaves: cell.apply(
                _params(values, *leaves), h, x
            )[1]
            operands = _operands(f"cell_{name}", kind, *shapes)
            every = list(range(len(shapes)))
            suite.case(f"cell_{name}_{kind}", "cell", operands, run, {"cell": name}, wrt=every)
    shapes = [(1, 2, 4, 4, 2), (3, 3, 2, 12), (12,), (3, 3, 3, 12), (12,)]

    def conv_lstm(xs, *leaves):
        cell = nn.ConvLSTMCell(3, (3, 3))
        names = ["ih/kernel", "ih/bias", "hh/kernel", "hh/bias"]
        c = h = jnp.zeros((1, 4, 4, 3), xs.dtype)
        ys = []
        for t in range(xs.shape[1]):
            (c, h), y = cell.apply(_params(leaves, *names), (c, h), xs[:, t])
            ys.append(y)
        return jnp.stack(ys, 1), c

    operands = _operands("conv_lstm", "f32", *shapes)
    suite.case("conv_lstm", "conv_lstm", operands, conv_lstm, wrt=[0, 1, 2, 3, 4])
    cell, leaves = _cell("simple", "f32")
    operands = _operands("rnn", "f32", (2, 5, 3), *leaves.values())
    lengths = np.array([3, 5], np.int32)
    for name, options in {
        "plain": {},
        "lengths": {"lengths": True},
        "reverse": {"reverse": True},
        "reverse_kept": {"reverse": True, "keep_order": True},
        "reverse_lengths": {"reverse": True, "lengths": True},
        "reverse_kept_lengths": {"reverse": True, "keep_order": True, "lengths": True},
        "time_major": {"time_major": True},
    }.items():
        plain = {"reverse": False, "keep_order": False, "lengths": False, "time_major": False}
        options = plain | options
        rnn = nn.RNN(cell, return_carry=True)

        def run(xs, *values, options=options, rnn=rnn):
            given = dict(options, seq_lengths=lengths if options["lengths"] else None)
            del given["lengths"]
            params = {"params": {"cell": _params(values, *leaves)["params"]}}
            return rnn.apply(params, xs, **given)

        xs = operands[0].swapaxes(0, 1) if options["time_major"] else operands[0]
        suite.case(
            f"rnn_{name}",
            "rnn",
            [np.ascontiguousarray(xs), *operands[1:]],
            run,
            options | {"seq_lengths": lengths.tolist()},
            wrt=[0, 1, 2, 3],
        )
    both = _operands("bidirectional", "f32", *leaves.values(), *leaves.values())

    def bidirectional(xs, *values):
        layer = nn.Bidirectional(nn.RNN(nn.SimpleCell(4)), nn.RNN(nn.SimpleCell(4)))
        halves = {"forward_rnn": values[:3], "backward_rnn": values[3:]}
        params = {
            name: {"cell": _params(half, *leaves)["params"]} for name, half in halves.items()
        }
        return layer.apply({"params": params}, xs, seq_lengths=lengths)

    suite.case(
        "bidirectional",
        "bidirectional",
        [operands[0], *both],
        bidirectional,
        {"seq_lengths": lengths.tolist()},
        wrt=list(range(7)),
    )


def _norms(suite):
    for kind in WIDE:
        operands = _operands("instance", kind, (2, 4, 3, 5), (5,), (5,))
        run = lambda x, scale, bias: nn.InstanceNorm(param_dtype=x.dtype).apply(
            {"params": {"scale": scale, "bias": bias}}, x
        )
        suite.case(f"instance_norm_{kind}", "instance_norm", operands, run, wrt=[0, 1, 2])
    for name, shape, axes in (
        ("matrix", (4, 3), [-1]),
        ("kernel", (2, 2, 3, 4), [-1]),
        ("rows", (4, 3), [0]),
    ):
        x = (2, 4) if len(shape) == 2 else (1, 3, 3, 3)
        scale = shape[axes[0]]
        operands = _operands(f"weight_norm_{name}", "f32", x, shape, (shape[-1],), (scale,))

        def run(x, kernel, bias, scale, shape=shape, axes=axes):
            inner = nn.Dense(3) if len(shape) == 2 else nn.Conv(4, (2, 2))
            layer = nn.WeightNorm(inner, feature_axes=tuple(axes))
            inner = {"kernel": kernel, "bias": bias}
            params = {"layer_instance": inner, "layer_instance/kernel/scale": scale}
            return layer.apply({"params": params}, x)

        params = {"feature_axes": axes}
        suite.case(f"weight_norm_{name}", "weight_norm", operands, run, params, wrt=[0, 1, 2, 3])
    for n_steps in (1, 3):
        operands = _operands("spectral", "f32", (2, 4), (4, 3), (3,), (1, 3))

        def run(x, kernel, bias, u, n_steps=n_steps):
            layer = nn.SpectralNorm(nn.Dense(3), n_steps=n_steps)
            names = [f"layer_instance/kernel/{name}" for name in ("u", "sigma")]
            variables = {
                "params": {"layer_instance": {"kernel": kernel, "bias": bias}},
                "batch_stats": dict(zip(names, (u, jnp.ones(())))),
            }
            y, new = layer.apply(variables, x, update_stats=True, mutable=["batch_stats"])
            u, sigma = (new["batch_stats"][name] for name in names)
            return y, u, jax.lax.stop_gradient(sigma)

        params = {"n_steps": n_steps}
        name = f"spectral_norm_{n_steps}"
        suite.case(name, "spectral_norm", operands, run, params, wrt=[0, 1, 2])


def _attention(suite):
    tokens = np.array([[5, 3, 0, 0], [1, 2, 3, 0]], np.int32)
    causal = lambda x: nn.make_causal_mask(x, dtype=bool)
    padding = lambda x: nn.make_attention_mask(x > 0, x > 0, dtype=bool)
    segments = lambda x: nn.make_attention_mask(x, x, pairwise_fn=jnp.equal, dtype=bool)
    combined = lambda x: nn.combine_masks(causal(x), None, padding(x), dtype=bool)
    for name, mask in {
        "causal": causal,
        "padding": padding,
        "segments": segments,
        "combined": combined,
    }.items():
        suite.case(f"mask_{name}", "mask", [tokens], mask, {"mask": name})
    for kind in (*WIDE, "bf16"):
        operands = _operands("weights", kind, (2, 4, 2, 3), (2, 5, 2, 3), (2, 1, 4, 5))
        mask = np.tril(np.ones((1, 1, 4, 5), bool))
        run = lambda q, k, bias: nn.dot_product_attention_weights(q, k, bias=bias, mask=mask)
        wrt = None if kind == "bf16" else [0, 1, 2]
        suite.case(f"attention_weights_{kind}", "attention_weights", operands, run, wrt=wrt)
    shapes = [(2, 4, 6), (2, 5, 3)]
    names = []
    for name, n_in in (("query", 6), ("key", 3), ("value", 3)):
        names += [f"{name}/kernel", f"{name}/bias"]
        shapes += [(n_in, 2, 4), (2, 4)]
    names += ["out/kernel", "out/bias", "query_ln/scale", "key_ln/scale"]
    shapes += [(2, 4, 5), (5,), (4,), (4,)]

    def attention(x, memory, *leaves):
        layer = nn.MultiHeadDotProductAttention(
            num_heads=2, qkv_features=8, out_features=5, normalize_qk=True, deterministic=True
        )
        return layer.apply(_params(leaves, *names), x, memory, memory)

    operands = _operands("normalized", "f32", *shapes)
    every = list(range(len(shapes)))
    suite.case("attention_normalized", "attention", operands, attention, wrt=every)
