"""Writes the checkpoints that tests/cpu/checkpoint reads, with PyTorch and `transformers`.

    python -m venv DIR
    DIR/bin/pip install torch==2.15.0 transformers==5.23.0 safetensors==0.8.0 numpy
    DIR/bin/python python-compat/checkpoint_files.py

The tests can compute every weight: element `i` of the `k`-th array, sorted by name, is `k +
i/1024`. The bytes of the arrays of all dtypes count up from 0.
"""

import pathlib
import tempfile

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "checkpoint" / "published"


def write_shards():
    """Writes a tiny GPT-2 in several shards."""
    config = GPT2Config(n_layer=2, n_embd=8, n_head=2, vocab_size=20, n_positions=8)
    model = GPT2LMHeadModel(config)
    names = sorted(name for name, _ in model.named_parameters())
    with torch.no_grad():
        for name, weight in model.named_parameters():
            numbers = torch.arange(weight.numel(), dtype=torch.float32).reshape(weight.shape)
            weight.copy_(names.index(name) + numbers / 1024)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, max_shard_size="3KB")
        for path in sorted(pathlib.Path(folder).glob("model*")):
            (FOLDER / path.name).write_bytes(path.read_bytes())


def write_dtypes():
    """Writes a file with an array of every dtype that PyTorch and safetensors share."""
    names = (
        "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 "
        "complex64 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu "
        "float4_e2m1fn_x2"
    )
    arrays = {}
    for name in names.split():
        dtype = getattr(torch, name)
        numbers = torch.arange(4 * dtype.itemsize, dtype=torch.uint8)
        arrays[name] = numbers % 2 == 1 if name == "bool" else numbers.view(dtype)
    save_file(arrays, FOLDER / "torch.safetensors", metadata={"format": "pt"})


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_shards()
    write_dtypes()


if __name__ == "__main__":
    main()
