"""Trains the character-level baby GPT of `examples/gpt2` in JAX, for several seeds, and records its held-out losses.

    .venv/bin/python gpt2_baby.py TEXT        writes fixtures/gpt2_baby.json

`TEXT` is what `examples/gpt2/text.sh` writes. Settings are that example's defaults, which are nanoGPT's for a CPU. Windows to train on
begin anywhere in the first nine tenths of the text; the held-out loss is the mean over all windows of the last tenth, one behind the
other. `examples/gpt2/baby.sh` trains the example for the same seeds and compares the means. Three seeds take ten minutes on two cores.
"""

import argparse
import hashlib
import json
import time
from pathlib import Path

import jax
import numpy as np
import optax

from recorder import gpt2_suite as gpt2

FIXTURE = Path(__file__).parent / "fixtures/gpt2_baby.json"
RECIPE = gpt2.RECIPE | {"steps": 2000, "warmup": 100}
SEEDS = [1337, 1338, 1339]


def characters(text):
    """Tokens to train on, tokens held out, and how many kinds there are."""
    kinds = {c: token for token, c in enumerate(sorted(set(text)))}
    tokens = np.array([kinds[c] for c in text], np.int32)
    cut = len(text) * 9 // 10
    return tokens[:cut], tokens[cut:], len(kinds)


def run(seed, seen, held_out, vocabulary):
    """The held-out loss after training."""
    block, batch = gpt2.SIZES["positions"], gpt2.SIZES["batch"]
    params = gpt2.init(jax.random.key(seed), vocabulary, gpt2.SIZES)
    rule = gpt2.optimizer(RECIPE)

    def loss(params, tokens, following):
        return optax.softmax_cross_entropy_with_integer_labels(gpt2.forward(params, tokens, gpt2.SIZES), following).mean()

    @jax.jit
    def step(params, state, tokens, following):
        value, grads = jax.value_and_grad(loss)(params, tokens, following)
        updates, state = rule.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    def windows(tokens, starts):
        taken = np.stack([tokens[start : start + block + 1] for start in starts])
        return taken[:, :-1], taken[:, 1:]

    state, draw = rule.init(params), np.random.default_rng(seed)
    for _ in range(RECIPE["steps"]):
        params, state, _ = step(params, state, *windows(seen, draw.integers(0, len(seen) - block, batch)))
    measure = jax.jit(loss)
    starts = np.arange(0, len(held_out) - block, block)
    batches = [starts[at : at + batch] for at in range(0, len(starts), batch)]
    losses = [float(measure(params, *windows(held_out, part))) for part in batches]
    return float(np.average(losses, weights=[len(part) for part in batches]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    data = parser.parse_args().text.read_bytes()
    seen, held_out, vocabulary = characters(data.decode())
    losses = {}
    for seed in SEEDS:
        start = time.monotonic()
        losses[str(seed)] = round(run(seed, seen, held_out, vocabulary), 4)
        print(f"seed {seed}: held out {losses[str(seed)]:.4f}, {time.monotonic() - start:.0f} s", flush=True)
    record = {
        "jax": jax.__version__,
        "text_sha256": hashlib.sha256(data).hexdigest(),
        "settings": gpt2.SIZES | RECIPE,
        "held_out": losses,
        "mean": round(float(np.mean(list(losses.values()))), 4),
    }
    FIXTURE.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
