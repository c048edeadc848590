"""Layers over sequences: attention, rotary positions, recurrent cells and MLP blocks.

Flax has neither rotary positions nor grouped heads, so this file defines their formulas.
"""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from .ops_elementwise import inside

WIDE = ("f32", "f64")


def add(suite):
    """Adds all cases."""
    _attention(suite)
    _rotary(suite)
    _recurrent(suite)
    _blocks(suite)


def _leaves(name, kind, n_features, heads, kv_heads):
    """Returns kernels and biases of query, key, value and out."""
    h = n_features // heads
    shapes = [
        (n_features, heads, h),
        (heads, h),
        (n_features, kv_heads, h),
        (kv_heads, h),
        (n_features, kv_heads, h),
        (kv_heads, h),
        (heads, h, n_features),
        (n_features,),
    ]
    return [inside(f"{name}{at}", (-0.5, 0.5), kind, shape) for at, shape in enumerate(shapes)]


def _attention(suite):
    names = ("query", "key", "value", "out")
    for kind in WIDE:
        x, memory = inside("ax", (-1, 1), kind, (2, 5, 8)), inside("am", (-1, 1), kind, (2, 4, 8))
        leaves = _leaves("attention", kind, 8, 2, 2)

        def run(leaves, x, memory, mask):
            params = {
                name: {"kernel": leaves[2 * at], "bias": leaves[2 * at + 1]}
                for at, name in enumerate(names)
            }
            layer = nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=8, deterministic=True)
            return layer.apply({"params": params}, x, memory, memory, mask=mask)

        params = {"heads": 2, "kv_heads": 2, "rotary": None}
        every = list(range(9))
        full = lambda x, *leaves: run(leaves, x, x, None)
        suite.case(
            f"attention_{kind}",
            "attention",
            [x, *leaves],
            full,
            params | {"causal": False},
            wrt=every,
        )
        causal = lambda x, *leaves: run(leaves, x, x, nn.make_causal_mask(jnp.ones(x.shape[:2])))
        suite.case(
            f"attention_causal_{kind}",
            "attention",
            [x, *leaves],
            causal,
            params | {"causal": True},
            wrt=every,
        )
        mask = np.array(
            [[1, 0, 1, 1], [1, 1, 1, 1], [0, 0, 1, 0], [1, 1, 0, 0], [0, 1, 1, 0]], bool
        )[None, None]
        cross = lambda x, memory, mask, *leaves: run(leaves, x, memory, mask)
        suite.case(
            f"attention_cross_{kind}",
            "attention_cross",
            [x, memory, mask, *leaves],
            cross,
            params | {"causal": False},
            wrt=[0, 1, *range(3, 11)],
        )
        leaves = _leaves("grouped", kind, 16, 4, 2)
        x = inside("gx", (-1, 1), kind, (2, 5, 16))
        for rotary in (None, "halves", "neighbours"):
            options = {"heads": 4, "kv_heads": 2, "rotary": rotary, "causal": True}
            grouped = lambda x, *leaves, rotary=rotary: _grouped(x, leaves, rotary)
            suite.case(
                f"attention_grouped_{rotary}_{kind}",
                "attention",
                [x, *leaves],
                grouped,
                options,
                wrt=every,
            )


def _grouped(x, leaves, rotary):
    """Computes attention with each head of keys and values repeated for its group of queries."""
    wq, bq, wk, bk, wv, bv, wo, bo = leaves
    maps = [jnp.einsum("btf,fnh->btnh", x, w) + b for w, b in ((wq, bq), (wk, bk), (wv, bv))]
    if rotary:
        maps[:2] = [rotate(m, jnp.arange(x.shape[1]), 10000.0, rotary) for m in maps[:2]]
    q, k, v = maps
    k, v = (jnp.repeat(m, q.shape[2] // m.shape[2], axis=2) for m in (k, v))
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) / math.sqrt(q.shape[-1])
    t = x.shape[1]
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e30)
    return (
        jnp.einsum("btnh,nhf->btf", jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores), v), wo)
        + bo
    )


def rotate(x, positions, base, pairs):
    """Rotates pairs of features by equation 15 of arXiv:2104.09864, as complex numbers.

    A pair consists of neighbours, or of features that are half of all features apart.
    """
    h = x.shape[-1]
    angles = positions[..., None] * base ** (-2.0 * jnp.arange(h // 2, dtype=x.dtype) / h)
    angles = angles[..., None, :]
    parts = (
        x.reshape(*x.shape[:-1], h // 2, 2)
        if pairs == "neighbours"
        else jnp.stack([x[..., : h // 2], x[..., h // 2 :]], -1)
    )
    z = (parts[..., 0] + 1j * parts[..., 1]) * jnp.exp(1j * angles)
    y = jnp.stack([z.real, z.imag], -1)
    y = y.reshape(x.shape) if pairs == "neighbours" else jnp.concatenate([y[..., 0], y[..., 1]], -1)
    return y.astype(x.dtype)


def _rotary(suite):
    for kind in WIDE:
        x = inside("rx", (-1, 1), kind, (2, 4, 3, 6))
        for name, positions in (
            ("row", np.array([0, 1, 7, 500], np.int32)),
            ("rows", np.array([[0, 1, 2, 3], [9, 8, 3, 0]], np.int32)),
        ):
            for pairs in ("halves", "neighbours"):
                run = lambda x, p, pairs=pairs: rotate(x, p, 100.0, pairs)
                # The angle 500 has a rounding error of 3e-5 in f32.
                tolerance = {"rtol": 2e-4, "atol": 1e-4} if kind == "f32" else None
                suite.case(
                    f"rotary_{name}_{pairs}_{kind}",
                    "rotary",
                    [x, positions],
                    run,
                    {"base": 100.0, "pairs": pairs},
                    tolerance,
                )


def _recurrent(suite):
    for kind in WIDE:
        xs, c, h = (
            inside("sx", (-1, 1), kind, (2, 5, 3)),
            inside("sc", (-1, 1), kind, (2, 4)),
            inside("sh", (-1, 1), kind, (2, 4)),
        )
        make = lambda n, kind=kind: [
            inside(f"ri{n}", (-1, 1), kind, (3, 4 * n)),
            inside(f"rr{n}", (-1, 1), kind, (4, 4 * n)),
            inside(f"rb{n}", (-1, 1), kind, (4 * n,)),
        ]

        def lstm(leaves):
            inputs, recurrent, bias = (jnp.split(leaf, 4, -1) for leaf in leaves)
            of_x = {f"i{gate}": {"kernel": inputs[at]} for at, gate in enumerate("ifgo")}
            return of_x | {
                f"h{gate}": {"kernel": recurrent[at], "bias": bias[at]}
                for at, gate in enumerate("ifgo")
            }

        def lstm_step(x, c, h, *leaves):
            (c, h), _ = nn.LSTMCell(4).apply({"params": lstm(leaves)}, (c, h), x)
            return [c, h]

        suite.case(
            f"lstm_{kind}", "lstm", [xs[:, 0], c, h, *make(4)], lstm_step, wrt=list(range(6))
        )
        for reverse in (False, True):

            def lstm_scan(xs, c, h, *leaves, reverse=reverse):
                rnn = nn.RNN(nn.LSTMCell(4), return_carry=True, reverse=reverse, keep_order=True)
                (c, h), ys = rnn.apply({"params": {"cell": lstm(leaves)}}, xs, initial_carry=(c, h))
                return [c, h, ys]

            suite.case(
                f"lstm_scan_{reverse}_{kind}",
                "lstm_scan",
                [xs, c, h, *make(4)],
                lstm_scan,
                {"reverse": reverse},
                wrt=list(range(6)),
            )

        def gru(leaves):
            inputs, recurrent, bias = (jnp.split(leaf, 3, -1) for leaf in leaves[:3])
            params = {
                f"i{gate}": {"kernel": inputs[at], "bias": bias[at]}
                for at, gate in enumerate("rzn")
            }
            params |= {f"h{gate}": {"kernel": recurrent[at]} for at, gate in enumerate("rzn")}
            params["hn"]["bias"] = leaves[3]
            return params

        gru_leaves = [*make(3), inside("rn", (-1, 1), kind, (4,))]
        step = lambda x, h, *leaves: nn.GRUCell(4).apply({"params": gru(leaves)}, h, x)[0]
        suite.case(f"gru_{kind}", "gru", [xs[:, 0], h, *gru_leaves], step, wrt=list(range(6)))

        def gru_scan(xs, h, *leaves):
            rnn = nn.RNN(nn.GRUCell(4), return_carry=True)
            return list(rnn.apply({"params": {"cell": gru(leaves)}}, xs, initial_carry=h))

        suite.case(
            f"gru_scan_{kind}",
            "gru_scan",
            [xs, h, *gru_leaves],
            gru_scan,
            {"reverse": False},
            wrt=list(range(6)),
        )


def _blocks(suite):
    for kind in WIDE:
        x = inside("bx", (-1, 1), kind, (2, 3, 4))
        leaves = [
            inside(f"block{shape}", (-1, 1), kind, shape) for shape in ((4, 6), (6,), (6, 4), (4,))
        ]
        dense = lambda x, w, b: nn.Dense(w.shape[1]).apply({"params": {"kernel": w, "bias": b}}, x)
        for name, f in (
            ("relu", nn.relu),
            ("gelu", nn.gelu),
            ("gelu_exact", lambda x: nn.gelu(x, approximate=False)),
            ("silu", nn.silu),
            ("tanh", jnp.tanh),
            ("sigmoid", nn.sigmoid),
        ):
            block = lambda x, w, b, v, d, f=f: dense(f(dense(x, w, b)), v, d)
            suite.case(
                f"mlp_{name}_{kind}",
                "mlp",
                [x, *leaves],
                block,
                {"activation": name},
                wrt=list(range(5)),
            )
        gate, up, down = inside("gate", (-1, 1), kind, (4, 6)), leaves[0], leaves[2]
        suite.case(
            f"gated_mlp_{kind}",
            "gated_mlp",
            [x, gate, up, down],
            lambda x, g, u, d: (nn.silu(x @ g) * (x @ u)) @ d,
            wrt=list(range(4)),
        )
