"""Trains the baby GPT of `examples/gpt2` in JAX, and records its held-out losses.

    .venv/bin/python gpt2_baby.py TEXT        writes fixtures/gpt2_baby.json

`examples/gpt2/text.sh` writes `TEXT`. The settings are the defaults of the example, which are those
of nanoGPT on a CPU. Training windows begin anywhere in the first nine tenths of the text. The
held-out loss is the mean over all consecutive windows of the last tenth. `examples/gpt2/baby.sh`
trains the example with the same seeds and compares the means. Three seeds take ten minutes on two
cores.
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
    """Returns the training tokens, the held-out tokens and the size of the vocabulary."""
    vocabulary = {c: token for token, c in enumerate(sorted(set(text)))}
    tokens = np.array([vocabulary[c] for c in text], np.int32)
    cut = len(text) * 9 // 10
    return tokens[:cut], tokens[cut:], len(vocabulary)


def run(seed, training, held_out, vocabulary):
    """Trains with a seed and returns the held-out loss."""
    block, batch = gpt2.SIZES["positions"], gpt2.SIZES["batch"]
    params = gpt2.init(jax.random.key(seed), vocabulary, gpt2.SIZES)
    optimizer = gpt2.optimizer(RECIPE)

    def loss(params, tokens, targets):
        return optax.softmax_cross_entropy_with_integer_labels(
            gpt2.forward(params, tokens, gpt2.SIZES), targets
        ).mean()

    @jax.jit
    def step(params, state, tokens, targets):
        value, grads = jax.value_and_grad(loss)(params, tokens, targets)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    def windows(tokens, starts):
        rows = np.stack([tokens[start : start + block + 1] for start in starts])
        return rows[:, :-1], rows[:, 1:]

    state, rng = optimizer.init(params), np.random.default_rng(seed)
    for _ in range(RECIPE["steps"]):
        params, state, _ = step(
            params, state, *windows(training, rng.integers(0, len(training) - block, batch))
        )
    evaluate = jax.jit(loss)
    starts = np.arange(0, len(held_out) - block, block)
    groups = [starts[index : index + batch] for index in range(0, len(starts), batch)]
    losses = [float(evaluate(params, *windows(held_out, group))) for group in groups]
    return float(np.average(losses, weights=[len(group) for group in groups]))


def main():
    """Trains with every seed and writes the fixture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    data = parser.parse_args().text.read_bytes()
    training, held_out, vocabulary = characters(data.decode())
    losses = {}
    for seed in SEEDS:
        start = time.monotonic()
        losses[str(seed)] = round(run(seed, training, held_out, vocabulary), 4)
        print(
            f"seed {seed}: held-out loss {losses[str(seed)]:.4f}, {time.monotonic() - start:.0f} s",
            flush=True,
        )
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
