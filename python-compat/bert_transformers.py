"""Records results of the BERT encoders of `transformers`.

Writes two folders, which `README.md` describes:

- `fixtures/bert_transformers`: a small `BertModel` with random weights, saved in shards, and a
  WordPiece tokenizer that is trained for it. The tests of `crates/models` compare with its results.
- `fixtures/bert_minilm`: embeddings of sentences by the published all-MiniLM-L6-v2. Its weights are
  not stored; `examples/bert/weights.sh` downloads them.

Requires CPython 3.11 with the packages of `requirements-gpt2.txt`, not those of `requirements.txt`.
CI does not run this script, because recorded numbers do not change.

    python3.11 -m venv VENV
    VENV/bin/pip install -r requirements-gpt2.txt
    ../examples/bert/weights.sh WEIGHTS
    VENV/bin/python bert_transformers.py WEIGHTS
"""

import gzip
import json
import sys
from pathlib import Path

import torch
from safetensors.numpy import save_file
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import BertConfig, BertModel

HERE = Path(__file__).resolve().parent
FIXTURES = HERE / "fixtures"
TEXT = HERE.parent / "examples/gpt2/data/tragedies.txt.gz"

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY, POSITIONS, WIDTH, HEADS, LAYERS = 300, 40, 32, 4, 2
# Factor of the cosine similarities, and hyperparameters of the five recorded steps.
SCALE = 20.0
ADAMW = {"learning_rate": 1e-3, "b1": 0.9, "b2": 0.999, "eps": 1e-8, "weight_decay": 0.01}
LONG = (
    "The quick brown fox jumps over the lazy dog, and the dog, being lazy, "
    "thinks about it for a long while before it does nothing. "
)
SENTENCES = [
    "",
    " ",
    "Hello",
    "This is an example sentence",
    "Each sentence is converted",
    "The cat sits on the mat.",
    "A feline rests upon a rug.",
    "How do I reset my password?",
    "I forgot my login credentials; what should I do?",
    "Stock markets fell sharply on Monday after the central bank's announcement.",
    "WHY ARE YOU SHOUTING?!",
    "naïve café — “quoted” … ½ ﬁ résumé",
    "Ελσινόρη Эльсинор 丹麦王子 デンマーク 한국어 العربية हिन्दी",
    "🎭💀 👩🏽‍🚀 emoji only?",
    "e\u0301 \u200b\u00a0\ufeff\u2028 odd spaces\tand\nlines\r\n",
    "3.14159, 42nd, 1e-12 and $1,000,000.00",
    "x" * 120,
    "don't can't o'er they're",
    "[CLS] these [MASK] are names of tokens [SEP]",
    LONG * 3,
    # Longer than the 256 tokens that the published model reads.
    LONG * 12,
    "\x00\x01\x7f control",
]


def embed(hidden, mask):
    """Returns the mean of the unmasked token vectors, normalized to length 1."""
    mask = mask.unsqueeze(-1).to(hidden.dtype)
    return torch.nn.functional.normalize(
        (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9), dim=1
    )


def save_arrays(folder: Path, arrays: dict) -> None:
    """Writes `recorded.safetensors`. 64-bit integers are stored in 32 bits."""
    stored_dtypes = {torch.int64: torch.int32}
    save_file(
        {
            name: x.detach().to(stored_dtypes.get(x.dtype, x.dtype)).contiguous().numpy()
            for name, x in arrays.items()
        },
        folder / "recorded.safetensors",
    )


def empty_folder(folder: Path) -> Path:
    """Creates a folder or deletes its files, and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    return folder


def train_tokenizer(folder: Path) -> Tokenizer:
    """Trains a WordPiece tokenizer like BERT's and writes its file."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    text = gzip.decompress(TEXT.read_bytes()).decode()
    tokenizer.train_from_iterator(
        [text],
        trainers.WordPieceTrainer(
            vocab_size=VOCABULARY, special_tokens=SPECIAL, show_progress=False
        ),
    )
    token_ids = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=token_ids
    )
    # Published tokenizers truncate and pad to one length.
    tokenizer.enable_truncation(32)
    tokenizer.enable_padding(length=32)
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def contrastive_loss(model, tokens, token_types, mask, probe):
    """Returns a contrastive loss, the model's output and the embeddings.

    Each even text must match the odd text after it. The loss includes the pooler's output, so that
    every leaf has a gradient.
    """
    output = model(input_ids=tokens, token_type_ids=token_types, attention_mask=mask)
    embedded = embed(output.last_hidden_state, mask)
    scores = SCALE * embedded[0::2] @ embedded[1::2].T
    loss = torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)))
    return loss + (output.pooler_output * probe).mean(), output, embedded


def record_small_model() -> None:
    """Writes `fixtures/bert_transformers`."""
    folder = empty_folder(FIXTURES / "bert_transformers")
    tokenizer = train_tokenizer(folder)
    sizes = {
        "vocab_size": VOCABULARY,
        "max_position_embeddings": POSITIONS,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
    }
    sizes |= {
        "num_attention_heads": HEADS,
        "intermediate_size": 2 * WIDTH,
        "initializer_range": 0.2,
    }
    model = BertModel(BertConfig(**sizes))
    with torch.no_grad():
        for name, leaf in model.named_parameters():
            # Random scales and biases reveal leaves that are swapped.
            if leaf.dim() == 1:
                leaf.add_(0.2 * torch.randn_like(leaf))
    model.eval()  # disables dropout
    model.save_pretrained(folder, max_shard_size="60KB")

    lengths = torch.tensor([24, 3, 1, 17, 24, 9, 2, 12])
    tokens = torch.randint(0, VOCABULARY, (8, 24))
    token_types = torch.randint(0, 2, (8, 24))
    mask = (torch.arange(24) < lengths.unsqueeze(-1)).long()
    # PyTorch gives the embedding row of the padding token no gradient, wherever the token occurs.
    assert not ((tokens == 0) & (mask == 1)).any()
    probe = torch.randn(8, WIDTH)
    arrays = {"tokens": tokens, "kinds": token_types, "lengths": lengths, "probe": probe}
    loss, output, embedded = contrastive_loss(model, tokens, token_types, mask, probe)
    loss.backward()
    arrays |= {
        "hidden": output.last_hidden_state,
        "pooled": output.pooler_output,
        "embedded": embedded,
        "loss": loss,
    }
    arrays |= {f"gradient.{name}": leaf.grad.clone() for name, leaf in model.named_parameters()}
    # The recorded steps must come last, because they change the model.
    options = {
        "lr": ADAMW["learning_rate"],
        "betas": (ADAMW["b1"], ADAMW["b2"]),
        "eps": ADAMW["eps"],
        "weight_decay": ADAMW["weight_decay"],
    }
    optimizer, losses = torch.optim.AdamW(model.parameters(), **options, foreach=False), []
    for _ in range(5):
        optimizer.zero_grad()
        loss, _, _ = contrastive_loss(model, tokens, token_types, mask, probe)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    save_arrays(folder, arrays | {"losses": torch.tensor(losses)})
    print(f"losses {losses}")
    tokenizer.no_padding()
    sentences = [{"text": text, "ids": tokenizer.encode(text).ids} for text in SENTENCES]
    (folder / "recorded.json").write_text(
        json.dumps({"adamw": ADAMW, "scale": SCALE, "sentences": sentences}, indent=1) + "\n"
    )
    print(f"{folder.name}: {sum(file.stat().st_size for file in folder.iterdir()):,} bytes")


def record_minilm(weights: Path) -> None:
    """Writes `fixtures/bert_minilm`. Texts are embedded one at a time, without padding."""
    folder = empty_folder(FIXTURES / "bert_minilm")
    model = BertModel.from_pretrained(weights, local_files_only=True).eval()
    tokenizer = Tokenizer.from_file(str(weights / "tokenizer.json"))
    tokenizer.no_padding()
    max_length = json.loads((weights / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer.enable_truncation(max_length)
    embedded, ids = [], []
    for text in SENTENCES:
        ids.append(tokenizer.encode(text).ids)
        tokens = torch.tensor([ids[-1]])
        with torch.no_grad():
            hidden = model(
                input_ids=tokens, attention_mask=torch.ones_like(tokens)
            ).last_hidden_state
        embedded.append(embed(hidden, torch.ones_like(tokens))[0])
    assert max(map(len, ids)) == max_length, "no sentence is truncated"
    save_arrays(folder, {"embedded": torch.stack(embedded)})
    notes = {
        "longest": max_length,
        "sentences": [
            {"text": text, "tokens": len(token_ids)}
            for text, token_ids in zip(SENTENCES, ids, strict=True)
        ],
    }
    (folder / "recorded.json").write_text(json.dumps(notes, indent=1) + "\n")
    print(f"{folder.name}: {sum(file.stat().st_size for file in folder.iterdir()):,} bytes")


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    record_small_model()
    record_minilm(Path(sys.argv[1]))
