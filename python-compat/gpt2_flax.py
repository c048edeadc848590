"""Trains a small Flax GPT-2 with `transformers` and records its loss.

Writes `fixtures/gpt2_flax`: `config.json` and `flax_model.msgpack`, as `save_pretrained` of
`FlaxGPT2LMHeadModel` does, and `recorded.safetensors` with `tokens` i32[2, 32] and their `loss` in
Flax. Writes `fixtures/gpt2_tokens.safetensors` too: the licence of this repository as `tokens`
i32[n], on which `exports/finetune.rs` fine-tunes. Both use the tokenizer of
`fixtures/gpt2_transformers`, which `gpt2_transformers.py` writes.

Version 4 of `transformers` is the last one with Flax. CI does not run this script, because recorded
numbers do not change. CPython 3.11 on Linux x86-64:

    python3.11 -m venv VENV
    VENV/bin/pip install transformers==4.46.3 tokenizers==0.20.3 flax==0.10.2 jax==0.4.38 \
        jaxlib==0.4.38 optax==0.2.4 numpy==2.4.6 safetensors==0.8.0
    VENV/bin/python gpt2_flax.py
"""

import gzip
import os
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from transformers import FlaxGPT2LMHeadModel, GPT2Config

HERE = Path(__file__).resolve().parent
FIXTURES = HERE / "fixtures"
FOLDER = FIXTURES / "gpt2_flax"
TEXT = HERE.parent / "examples/gpt2/data/tragedies.txt.gz"
LICENCE = HERE.parent / "LICENSE-APACHE"

STEPS, ROWS, BLOCK = 600, 16, 64
CONFIG = {
    "vocab_size": 512,
    "n_positions": 128,
    "n_embd": 32,
    "n_layer": 3,
    "n_head": 4,
    "bos_token_id": 511,
    "eos_token_id": 511,
}


def main() -> None:
    """Trains the model and writes all files."""
    bpe = Tokenizer.from_file(str(FIXTURES / "gpt2_transformers" / "tokenizer.json"))
    licence = np.asarray(bpe.encode(LICENCE.read_text()).ids, np.int32)
    save_file({"tokens": licence}, FIXTURES / "gpt2_tokens.safetensors")
    print(f"{len(licence)} tokens of {LICENCE.name}")

    ids = np.asarray(bpe.encode(gzip.decompress(TEXT.read_bytes()).decode()).ids, np.int32)
    rng = np.random.default_rng(1)

    def batch(rows: int, length: int) -> np.ndarray:
        starts = rng.integers(0, len(ids) - length, rows)
        return np.stack([ids[start : start + length] for start in starts])

    model = FlaxGPT2LMHeadModel(GPT2Config(**CONFIG), seed=1)

    def loss(params, tokens):
        # Without `train=True`, no dropout is used.
        logits = model(tokens, params=params).logits[:, :-1]
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

    adamw = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(4e-3, b2=0.95))

    @jax.jit
    def step(params, state, tokens):
        value, gradients = jax.value_and_grad(loss)(params, tokens)
        updates, state = adamw.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    params, losses = model.params, []
    state = adamw.init(params)
    for _ in range(STEPS):
        params, state, value = step(params, state, batch(ROWS, BLOCK))
        losses.append(float(value))
    print(f"trained: {losses[0]:.3f} -> {np.mean(losses[-20:]):.3f}")

    model.params = params
    model.save_pretrained(FOLDER)
    (FOLDER / "generation_config.json").unlink(missing_ok=True)
    tokens = batch(2, 32)
    recorded = {"tokens": tokens, "loss": np.asarray(jax.jit(loss)(params, jnp.asarray(tokens)))}
    save_file(recorded, FOLDER / "recorded.safetensors")
    print(f"{sum(file.stat().st_size for file in FOLDER.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
