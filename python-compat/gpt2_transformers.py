"""Trains a small GPT-2 with `transformers` and records its results.

Writes `fixtures/gpt2_transformers` in Hugging Face's layout: `config.json`, the weights in shards,
`vocab.json`, `merges.txt` and `tokenizer.json`. `examples/gpt2` reads the folder with `--weights
DIR`. Its tests compare with `recorded.safetensors` and `recorded.json`, which `README.md`
describes.

Requires CPython 3.11 with the packages of `requirements-gpt2.txt`, not those of `requirements.txt`.
CI does not run this script, because recorded numbers do not change.

    python3.11 -m venv VENV
    VENV/bin/pip install -r requirements-gpt2.txt
    VENV/bin/python gpt2_transformers.py
"""

import gzip
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel

HERE = Path(__file__).resolve().parent
FOLDER = HERE / "fixtures" / "gpt2_transformers"
TEXT = HERE.parent / "examples/gpt2/data/tragedies.txt.gz"

END_OF_TEXT = "<|endoftext|>"
VOCABULARY, POSITIONS, WIDTH, HEADS, LAYERS = 512, 256, 48, 4, 3
# Hyperparameters of the five recorded steps. The training before them has a higher learning rate.
ADAMW = {
    "learning_rate": 1e-3,
    "b1": 0.9,
    "b2": 0.95,
    "eps": 1e-8,
    "weight_decay": 0.1,
    "max_norm": 1.0,
}
PROMPT, NEW_TOKENS = "HAMLET.\nTo be, or not to be", 200
# Smallest allowed gap between the two best candidates. Rounding errors are about 1e-5, so they
# cannot swap candidates.
MARGIN = 2e-4
# Edge cases of a byte-level tokenizer.
SENTENCES = [
    "",
    " ",
    "\n\n  \t\n",
    "Hamlet, Prince of Denmark",
    "I'll we've don't 'tis o'er they're I'm he'd",
    "  two  spaces   three",
    "trailing space ",
    "1603 and 3.14159, 42nd",
    "naïve café — “quoted” … ½ ﬁ",
    "Ελσινόρη Эльсинор 丹麦王子 デンマーク",
    "🎭💀 👩🏽‍🚀",
    "e\u0301 \u200b\u00a0\ufeff\u2028",
    "a<|endoftext|>b",
    "<|endoftext|>",
    "!!!???...---***",
    "line\r\nline\rline",
    "\x00\x01\x7f",
]


def train_tokenizer(text: str) -> Tokenizer:
    """Trains a byte-level BPE tokenizer like GPT-2's and writes its files."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    # The end-of-text token is the last one, as in GPT-2's vocabulary.
    bpe.train_from_iterator(
        [text],
        trainers.BpeTrainer(
            vocab_size=VOCABULARY - 1, initial_alphabet=alphabet, show_progress=False
        ),
    )
    bpe.add_special_tokens([END_OF_TEXT])
    assert bpe.token_to_id(END_OF_TEXT) == VOCABULARY - 1
    bpe.save(str(FOLDER / "tokenizer.json"))
    bpe.model.save(str(FOLDER))
    # GPT-2's `vocab.json` contains the end-of-text token too.
    vocabulary = json.loads((FOLDER / "vocab.json").read_text()) | {END_OF_TEXT: VOCABULARY - 1}
    (FOLDER / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
    return bpe


def make_optimizer(model, learning_rate: float):
    """Returns AdamW with decay on leaves of two or more axes, as in nanoGPT."""
    leaves = list(model.parameters())
    groups = [
        {"params": [p for p in leaves if p.dim() >= 2], "weight_decay": ADAMW["weight_decay"]},
        {"params": [p for p in leaves if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups, lr=learning_rate, betas=(ADAMW["b1"], ADAMW["b2"]), eps=ADAMW["eps"], foreach=False
    )


def step(model, adamw, tokens) -> float:
    """Makes one training step and returns the loss before it."""
    adamw.zero_grad()
    loss = model(tokens, labels=tokens).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), ADAMW["max_norm"])
    adamw.step()
    return loss.item()


def greedy(model, prompt: list[int]) -> tuple[list[int], float]:
    """Returns the tokens of `generate`, and the smallest gap between its two best candidates."""
    tokens = torch.tensor([prompt])
    sequence = model.generate(
        tokens,
        max_new_tokens=NEW_TOKENS,
        min_new_tokens=NEW_TOKENS,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    with torch.no_grad():
        logits = model(sequence).logits[0, len(prompt) - 1 : -1]
    best = logits.topk(2).values
    new = sequence[0, len(prompt) :].tolist()
    assert logits.argmax(-1).tolist() == new, "`generate` with a cache and without one differ"
    return new, (best[:, 0] - best[:, 1]).min().item()


def main() -> None:
    """Deletes the folder's files and writes new ones."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.iterdir():
        path.unlink()
    text = gzip.decompress(TEXT.read_bytes()).decode()
    bpe = train_tokenizer(text)
    ids = torch.tensor(bpe.encode(text).ids)
    rng = np.random.default_rng(0)

    def batch(rows: int, length: int):
        starts = rng.integers(0, len(ids) - length, rows)
        return torch.stack([ids[start : start + length] for start in starts])

    sizes = {
        "vocab_size": VOCABULARY,
        "n_positions": POSITIONS,
        "n_embd": WIDTH,
        "n_layer": LAYERS,
        "n_head": HEADS,
    }
    end_of_text = VOCABULARY - 1
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=end_of_text, eos_token_id=end_of_text))
    model.eval()  # disables dropout; config.json keeps the published rate of 0.1
    adamw = make_optimizer(model, 4e-3)
    losses = [step(model, adamw, batch(16, 64)) for _ in range(600)]
    print(f"trained: {losses[0]:.3f} -> {np.mean(losses[-20:]):.3f}")
    model.save_pretrained(FOLDER, max_shard_size="200KB")

    arrays = {}
    tokens = batch(2, 32)
    arrays["tokens"] = tokens
    model.zero_grad()  # deletes the gradients of the last step
    output = model(tokens, labels=tokens)
    output.loss.backward()
    arrays |= {"logits": output.logits, "loss": output.loss}
    arrays |= {f"gradient.{name}": leaf.grad.clone() for name, leaf in model.named_parameters()}
    prompt = bpe.encode(PROMPT).ids
    new, margin = greedy(model, prompt)
    assert margin > MARGIN, (
        f"the smallest gap between two candidates is {margin}: choose another prompt"
    )
    arrays |= {"prompt": torch.tensor(prompt), "greedy": torch.tensor(new)}
    print(f"greedy, smallest gap between candidates {margin:.4f}: {bpe.decode(new)!r}")
    # The recorded steps must come last, because they change the model.
    batches = torch.stack([batch(4, 33) for _ in range(5)])
    adamw = make_optimizer(model, ADAMW["learning_rate"])
    arrays |= {
        "batches": batches,
        "losses": torch.tensor([step(model, adamw, tokens) for tokens in batches]),
    }

    stored_dtypes = {torch.int64: torch.int32}
    save_file(
        {
            name: x.detach().to(stored_dtypes.get(x.dtype, x.dtype)).contiguous().numpy()
            for name, x in arrays.items()
        },
        FOLDER / "recorded.safetensors",
    )
    sentences = [
        {
            "text": text,
            "ids": bpe.encode(text).ids,
            "decoded": bpe.decode(bpe.encode(text).ids, skip_special_tokens=False),
        }
        for text in SENTENCES
    ]
    notes = {
        "adamw": ADAMW,
        "prompt": PROMPT,
        "text": bpe.decode(new, skip_special_tokens=False),
        "margin": margin,
        "sentences": sentences,
    }
    (FOLDER / "recorded.json").write_text(json.dumps(notes, indent=1) + "\n")
    print(f"{sum(file.stat().st_size for file in FOLDER.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
