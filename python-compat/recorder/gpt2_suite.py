"""The first ten training steps of a character-level GPT-2.

Recipe and text are those of `examples/gpt2`. Weights and batches are not stored: oxidax and JAX
draw them from the same keys. The weights come from `key(0)`. The windows of step `i` begin at
`randint(fold_in(key(1), i), [batch], 0, n - block)`. `losses_f64` are the losses of the same steps
in float64, to show the effect of rounding.
"""

import gzip
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .suite import Suite

TEXT = Path(__file__).resolve().parents[2] / "examples/gpt2/data/tragedies.txt.gz"
# nanoGPT's settings for a CPU.
SIZES = {"layers": 4, "heads": 4, "width": 128, "positions": 64, "batch": 12, "epsilon": 1e-5}
RECIPE = {
    "steps": 10,
    "warmup": 3,
    "learning_rate": 1e-3,
    "min_learning_rate": 1e-4,
    "weight_decay": 0.1,
    "b1": 0.9,
    "b2": 0.99,
    "clip": 1.0,
}
OUTPUTS = ["losses", "losses_f64", "windows", "weight_corner"]
TOLERANCE = {"rtol": 1e-4, "atol": 0.0}


def characters():
    """Returns the first nine tenths of the text as i32 tokens, and the size of the vocabulary."""
    text = gzip.decompress(TEXT.read_bytes()).decode()
    vocabulary = {c: token for token, c in enumerate(sorted(set(text)))}
    return np.array([vocabulary[c] for c in text[: len(text) * 9 // 10]], np.int32), len(vocabulary)


def init(key, vocabulary, sizes):
    """Draws weights as nanoGPT does.

    Their deviation is 0.02, and 0.02 / sqrt(2 layers) for projections into the residual stream.
    """
    width, layers = sizes["width"], sizes["layers"]
    normal = lambda key, shape, deviation=0.02: (
        deviation * jax.random.normal(key, shape, jnp.float32)
    )
    norm = lambda: {"scale": jnp.ones(width), "bias": jnp.zeros(width)}
    linear = lambda key, n_in, n_out, deviation=0.02: {
        "weight": normal(key, (n_in, n_out), deviation),
        "bias": jnp.zeros(n_out),
    }
    tokens, positions, blocks = jax.random.split(key, 3)
    last = 0.02 / np.sqrt(2 * layers)

    def block(key):
        keys = jax.random.split(key, 4)
        return {
            "ln_1": norm(),
            "attn": {
                "c_attn": linear(keys[0], width, 3 * width),
                "c_proj": linear(keys[1], width, width, last),
            },
            "ln_2": norm(),
            "mlp": {
                "c_fc": linear(keys[2], width, 4 * width),
                "c_proj": linear(keys[3], 4 * width, width, last),
            },
        }

    return {
        "wte": normal(tokens, (vocabulary, width)),
        "wpe": normal(positions, (sizes["positions"], width)),
        "h": [block(key) for key in jax.random.split(blocks, layers)],
        "ln_f": norm(),
    }


def forward(params, tokens, sizes):
    """Returns the logits [b, t, vocabulary] of tokens [b, t]."""
    b, t = tokens.shape

    def norm(p, x):
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        mean, variance = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
        y = (wide - mean) * jax.lax.rsqrt(variance + sizes["epsilon"]) * p["scale"] + p["bias"]
        return y.astype(x.dtype)

    def linear(p, x):
        return x @ p["weight"] + p["bias"]

    def attend(p, x):
        parts = jnp.split(linear(p["c_attn"], x), 3, axis=-1)
        query, keys, values = (part.reshape(b, t, sizes["heads"], -1) for part in parts)
        return linear(
            p["c_proj"],
            jax.nn.dot_product_attention(query, keys, values, is_causal=True).reshape(x.shape),
        )

    x = params["wte"][tokens] + params["wpe"][:t]
    for p in params["h"]:
        x = x + attend(p["attn"], norm(p["ln_1"], x))
        x = x + linear(
            p["mlp"]["c_proj"], jax.nn.gelu(linear(p["mlp"]["c_fc"], norm(p["ln_2"], x)))
        )
    return norm(params["ln_f"], x) @ params["wte"].T


def optimizer(recipe):
    """Returns AdamW with clipped gradients and decay on leaves of two or more axes.

    The learning rate has a linear warm-up and a cosine decay.
    """
    peak, warmup = recipe["learning_rate"], recipe["warmup"]
    rate = optax.warmup_cosine_decay_schedule(
        peak / (warmup + 1), peak, warmup, recipe["steps"], recipe["min_learning_rate"]
    )
    matrices = lambda params: jax.tree.map(lambda leaf: leaf.ndim >= 2, params)
    adamw = optax.adamw(
        rate, recipe["b1"], recipe["b2"], weight_decay=recipe["weight_decay"], mask=matrices
    )
    return optax.chain(optax.clip_by_global_norm(recipe["clip"]), adamw)


def starts(step, n, sizes):
    """Returns the positions at which the windows of a step begin."""
    key = jax.random.fold_in(jax.random.key(1), step)
    return np.asarray(
        jax.random.randint(key, (sizes["batch"],), 0, n - sizes["positions"], jnp.int32)
    )


def run(dtype):
    """Returns the losses, the positions of the windows and a corner of the first weights."""
    text, vocabulary = characters()
    adamw, block = optimizer(RECIPE), SIZES["positions"]
    initial = jax.tree.map(np.asarray, init(jax.random.key(0), vocabulary, SIZES))
    params = jax.tree.map(lambda x: jnp.asarray(x.astype(dtype)), initial)

    def loss(params, tokens, targets):
        return optax.softmax_cross_entropy_with_integer_labels(
            forward(params, tokens, SIZES), targets
        ).mean()

    @jax.jit
    def step(params, state, tokens, targets):
        value, grads = jax.value_and_grad(loss)(params, tokens, targets)
        updates, state = adamw.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    state, losses, windows = adamw.init(params), [], []
    for index in range(RECIPE["steps"]):
        windows.append(starts(index, len(text), SIZES))
        rows = np.stack([text[start : start + block + 1] for start in windows[-1]])
        params, state, value = step(params, state, rows[:, :-1], rows[:, 1:])
        losses.append(np.asarray(value))
    return np.array(losses), np.stack(windows), initial["h"][0]["attn"]["c_attn"]["weight"][:4, :4]


def outputs():
    """Returns the arrays in the order of `OUTPUTS`."""
    with jax.enable_x64(False):
        losses, windows, corner = run(np.float32)
    wide, _, _ = run(np.float64)
    print(
        f"gpt2: {losses[0]:.4f} -> {losses[-1]:.4f}; "
        f"float32 and float64 differ by {np.abs(losses / wide - 1).max():.1e}"
    )
    return [losses, wide, windows, corner]


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with its single run."""
    suite = Suite("gpt2", __doc__.strip(), stride=stride)
    suite.case("tragedies", "train", [], outputs, SIZES | RECIPE, TOLERANCE, output_names=OUTPUTS)
    return suite
