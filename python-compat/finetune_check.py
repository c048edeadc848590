"""Evaluates in JAX what `exports/finetune.rs` has fine-tuned and exported, and compares.

Usage: python finetune_check.py DIR

DIR is what `cargo run -p exports --bin finetune -- DIR` writes. For each model, the exported loss
on the held-out tokens must be that of oxidax within 1e-6, relative, and that of the GPT-2 below,
which shares no code with oxidax, within 1e-5. The gradient in the second file must be that of
oxidax and that of JAX within 1e-5 of the largest number of each leaf. Needs jax, jaxlib and
flatbuffers.
"""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np

from oxidax_compat import load, load_checkpoint
from oxidax_compat.trees import flatten

NAMES = ("flax", "hugging_face")


def linear(layer, x):
    return x @ layer["weight"] + layer["bias"]


def norm(layer, x, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    deviation = jnp.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return centred / deviation * layer["scale"] + layer["bias"]


def attention(layer, x, heads):
    rows, length, width = x.shape
    queries, keys, values = (
        part.reshape(rows, length, heads, width // heads).transpose(0, 2, 1, 3)
        for part in jnp.split(linear(layer["c_attn"], x), 3, axis=-1)
    )
    scores = queries @ keys.swapaxes(-1, -2) / np.sqrt(width // heads)
    scores = jnp.where(np.tri(length, dtype=bool), scores, -1e30)
    mixed = jax.nn.softmax(scores) @ values
    return linear(layer["c_proj"], mixed.transpose(0, 2, 1, 3).reshape(x.shape))


def loss_of(params, tokens, heads, epsilon):
    """Returns the mean cross entropy of a GPT-2, in nats."""
    given, following = tokens[:, :-1], tokens[:, 1:]
    x = params["wte"]["weight"][given] + params["wpe"]["weight"][: given.shape[1]]
    for block in params["h"]["layers"]:
        x = x + attention(block["attn"], norm(block["ln_1"], x, epsilon), heads)
        hidden = linear(block["mlp"]["c_fc"], norm(block["ln_2"], x, epsilon))
        x = x + linear(block["mlp"]["c_proj"], jax.nn.gelu(hidden, approximate=True))
    logits = norm(params["ln_f"], x, epsilon) @ params["wte"]["weight"].T
    scores = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(scores, following[..., None], axis=-1).mean()


value_and_gradient = jax.jit(jax.value_and_grad(loss_of), static_argnums=(2, 3))


def relative(ours, expected):
    return abs(float(ours) / float(expected) - 1)


def difference(ours, expected):
    """Returns the largest difference of two gradients, relative to the largest number of a leaf."""
    ours, expected = dict(flatten(ours)), dict(flatten(expected))
    assert ours.keys() == expected.keys(), f"{sorted(ours)}, expected {sorted(expected)}"
    worst = 0.0
    for path, leaf in expected.items():
        largest = np.abs(leaf).max()
        assert ours[path].shape == leaf.shape and largest > 0, path
        worst = max(worst, float(np.abs(ours[path] - leaf).max() / largest))
    return worst


def check(folder, name):
    notes = json.loads((folder / f"{name}.json").read_text())
    params = load_checkpoint(folder / f"{name}.safetensors")
    tokens = load_checkpoint(folder / f"{name}.tokens.safetensors")
    sizes = notes["heads"], notes["epsilon"]

    loss = load(folder / f"{name}.loss.jax_export")
    assert not loss.has_gradients
    found, expected = loss(params, tokens), notes["end"]
    in_jax, slopes = value_and_gradient(params, tokens, *sizes)
    print(f"{name}: {expected:.7f} in oxidax, {found:.7f} exported, {in_jax:.7f} written in JAX")
    assert relative(found, expected) <= 1e-6, name
    assert relative(in_jax, expected) <= 1e-5, name
    assert found < notes["start"], f"{name}: the loss before is {notes['start']}"

    gradient = load(folder / f"{name}.gradient.jax_export")
    found, pullback = gradient.vjp(params, tokens)
    assert relative(found, expected) <= 1e-6, name
    found, _ = pullback(np.float32(1))
    ours = difference(found, load_checkpoint(folder / f"{name}.gradient.safetensors"))
    theirs = difference(found, jax.tree.map(np.asarray, slopes))
    print(f"{name}: the gradient differs by {ours:.1e} from oxidax's, by {theirs:.1e} from JAX's")
    assert max(ours, theirs) <= 1e-5, name


def main(folder):
    for name in NAMES:
        check(Path(folder), name)


match sys.argv[1:]:
    case [folder]:
        main(folder)
    case _:
        sys.exit(__doc__)
