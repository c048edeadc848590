"""Records what `transformers` computes with BERT-type encoders: `fixtures/bert_transformers/` and `fixtures/bert_minilm/`.

The first is a small randomly filled `BertModel` as `transformers` saves it, in shards, with a WordPiece tokenizer of its own: what `examples/bert/tests`
compares with. The second holds the embeddings that the published all-MiniLM-L6-v2 gives of some sentences; its weights are not stored, but
fetched by `examples/bert/weights.sh`. See `python-compat/README.md`.

Needs CPython 3.11 with the packages of `requirements-gpt2.txt`, not those of `requirements.txt`. CI does not run it: recorded numbers last.

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
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertModel

HERE = Path(__file__).resolve().parent
FIXTURES = HERE / "fixtures"
TEXT = HERE.parent / "examples/gpt2/data/tragedies.txt.gz"

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY, POSITIONS, WIDTH, HEADS, LAYERS = 300, 40, 32, 4, 2
# What cosines are multiplied by, and the numbers of the five recorded steps.
SCALE = 20.0
ADAMW = {"learning_rate": 1e-3, "b1": 0.9, "b2": 0.999, "eps": 1e-8, "weight_decay": 0.01}
LONG = "The quick brown fox jumps over the lazy dog, and the dog, being lazy, thinks about it for a long while before it does nothing. "
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
    # Longer than the 256 tokens that the published model looks at.
    LONG * 12,
    "\x00\x01\x7f control",
]


def embed(hidden, mask):
    """The mean over the tokens that count, of unit length: what Sentence-BERT puts behind the encoder."""
    mask = mask.unsqueeze(-1).to(hidden.dtype)
    return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9), dim=1)


def saved(folder: Path, arrays: dict) -> None:
    """Writes `recorded.safetensors`, integers in 32 bits."""
    narrow = {torch.int64: torch.int32}
    save_file({name: x.detach().to(narrow.get(x.dtype, x.dtype)).contiguous().numpy() for name, x in arrays.items()}, folder / "recorded.safetensors")


def emptied(folder: Path) -> Path:
    """The folder with nothing in it."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    return folder


def wordpiece(folder: Path) -> Tokenizer:
    """A tokenizer as BERT's, with a vocabulary of its own; writes its file."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    text = gzip.decompress(TEXT.read_bytes()).decode()
    made.train_from_iterator([text], trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=SPECIAL, show_progress=False))
    numbered = [(name, made.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=numbered)
    # As published files have it: cut and padded to one length.
    made.enable_truncation(32)
    made.enable_padding(length=32)
    made.save(str(folder / "tokenizer.json"))
    return made


def contrastive(model, tokens, kinds, mask, probe):
    """Each even text is to be nearest to the odd one behind it; beside it something that reaches the pooler's leaves."""
    output = model(input_ids=tokens, token_type_ids=kinds, attention_mask=mask)
    embedded = embed(output.last_hidden_state, mask)
    scores = SCALE * embedded[0::2] @ embedded[1::2].T
    loss = torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)))
    return loss + (output.pooler_output * probe).mean(), output, embedded


def small() -> None:
    """`fixtures/bert_transformers`."""
    folder = emptied(FIXTURES / "bert_transformers")
    pieces = wordpiece(folder)
    sizes = {"vocab_size": VOCABULARY, "max_position_embeddings": POSITIONS, "hidden_size": WIDTH, "num_hidden_layers": LAYERS}
    sizes |= {"num_attention_heads": HEADS, "intermediate_size": 2 * WIDTH, "initializer_range": 0.2}
    model = BertModel(BertConfig(**sizes))
    with torch.no_grad():
        for name, leaf in model.named_parameters():
            # Not all ones and zeros, so that a leaf in another's place shows.
            if leaf.dim() == 1:
                leaf.add_(0.2 * torch.randn_like(leaf))
    model.eval()  # no dropout
    model.save_pretrained(folder, max_shard_size="60KB")

    lengths = torch.tensor([24, 3, 1, 17, 24, 9, 2, 12])
    tokens = torch.randint(0, VOCABULARY, (8, 24))
    kinds = torch.randint(0, 2, (8, 24))
    mask = (torch.arange(24) < lengths.unsqueeze(-1)).long()
    # PyTorch gives the row of the token that pads no gradient, whoever looks it up.
    assert not ((tokens == 0) & (mask == 1)).any()
    probe = torch.randn(8, WIDTH)
    arrays = {"tokens": tokens, "kinds": kinds, "lengths": lengths, "probe": probe}
    loss, output, embedded = contrastive(model, tokens, kinds, mask, probe)
    loss.backward()
    arrays |= {"hidden": output.last_hidden_state, "pooled": output.pooler_output, "embedded": embedded, "loss": loss}
    arrays |= {f"gradient.{name}": leaf.grad.clone() for name, leaf in model.named_parameters()}
    # Last, since it changes the model.
    numbers = {"lr": ADAMW["learning_rate"], "betas": (ADAMW["b1"], ADAMW["b2"]), "eps": ADAMW["eps"], "weight_decay": ADAMW["weight_decay"]}
    rule, losses = torch.optim.AdamW(model.parameters(), **numbers, foreach=False), []
    for _ in range(5):
        rule.zero_grad()
        loss, _, _ = contrastive(model, tokens, kinds, mask, probe)
        loss.backward()
        rule.step()
        losses.append(loss.item())
    saved(folder, arrays | {"losses": torch.tensor(losses)})
    print(f"losses {losses}")
    pieces.no_padding()
    sentences = [{"text": text, "ids": pieces.encode(text).ids} for text in SENTENCES]
    (folder / "recorded.json").write_text(json.dumps({"adamw": ADAMW, "scale": SCALE, "sentences": sentences}, indent=1) + "\n")
    print(f"{folder.name}: {sum(file.stat().st_size for file in folder.iterdir()):,} bytes")


def published(weights: Path) -> None:
    """`fixtures/bert_minilm`: one sentence at a time, so that no padding is involved."""
    folder = emptied(FIXTURES / "bert_minilm")
    model = BertModel.from_pretrained(weights, local_files_only=True).eval()
    pieces = Tokenizer.from_file(str(weights / "tokenizer.json"))
    pieces.no_padding()
    longest = json.loads((weights / "sentence_bert_config.json").read_text())["max_seq_length"]
    pieces.enable_truncation(longest)
    embedded, ids = [], []
    for text in SENTENCES:
        ids.append(pieces.encode(text).ids)
        tokens = torch.tensor([ids[-1]])
        with torch.no_grad():
            hidden = model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state
        embedded.append(embed(hidden, torch.ones_like(tokens))[0])
    assert max(map(len, ids)) == longest, "no sentence is cut"
    saved(folder, {"embedded": torch.stack(embedded)})
    notes = {"longest": longest, "sentences": [{"text": text, "tokens": len(some)} for text, some in zip(SENTENCES, ids, strict=True)]}
    (folder / "recorded.json").write_text(json.dumps(notes, indent=1) + "\n")
    print(f"{folder.name}: {sum(file.stat().st_size for file in folder.iterdir()):,} bytes")


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    small()
    published(Path(sys.argv[1]))
