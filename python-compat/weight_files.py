"""Writes the weight files that the tests of `crates/weights` and `crates/models` read.

Each part needs other packages, so each is a command with its environment. CI does not run this
script, because recorded files do not change. CPython 3.11 on Linux x86-64:

    python3.11 -m venv A
    A/bin/pip install torch==2.15.0 transformers==5.23.0 safetensors==0.8.0 numpy==2.4.6 \
        gguf==0.19.0
    A/bin/python weight_files.py torch gguf gpt2

    python3.11 -m venv B
    B/bin/pip install flax==0.12.8 jax==0.10.2 ml_dtypes==0.6.0 numpy==2.4.6 \
        orbax-checkpoint==0.12.8 tensorstore==0.1.86 safetensors==0.8.0
    B/bin/python weight_files.py numpy flax orbax

    python3.11 -m venv C
    C/bin/pip install transformers==4.46.3 flax==0.10.2 jax==0.4.38 jaxlib==0.4.38 optax==0.2.4 \
        orbax-checkpoint==0.6.4 safetensors==0.8.0
    C/bin/python weight_files.py flax_gpt2 orbax

`NAME.expected.safetensors` has the arrays of a file as their library reads them.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / "crates" / "weights" / "tests" / "data"
# Weights of a GPT-2 small enough for a repository.
GPT2 = dict(vocab_size=40, n_positions=16, n_embd=16, n_head=2, n_layer=2)
TOKENS = [[1, 5, 9, 2, 39, 0, 7, 11]]


def save_expected(name, arrays):
    """Writes the expected arrays of a file. Safetensors lacks c128, which is stored as floats."""
    plain = {}
    for key, array in arrays.items():
        array = np.array(array, order="C")
        if array.dtype == np.complex128:
            array = np.atleast_1d(array).view(np.float64).reshape(*array.shape, 2)
        plain[key] = array
    save_file(plain, FOLDER / f"{name}.expected.safetensors")


def write_torch():
    """Writes files of `torch.save`: every dtype, views of storages, modules, the older format."""
    import torch
    from collections import OrderedDict
    from safetensors.torch import save_file as save_torch

    names = (
        "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 "
        "uint16 uint32 uint64 float8_e4m3fn float8_e5m2"
    )
    dtypes = {}
    for name in names.split():
        dtype = getattr(torch, name)
        numbers = torch.arange(6 * dtype.itemsize, dtype=torch.uint8)
        dtypes[name] = (numbers % 2 == 1 if name == "bool" else numbers.view(dtype)).reshape(2, 3)
    torch.save(dtypes, FOLDER / "torch_dtypes.pt")
    save_torch(dtypes, FOLDER / "torch_dtypes.expected.safetensors")

    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    views = OrderedDict(
        whole=base,
        transposed=base.T,
        columns=base[:, 1:4],
        every_other=base[::2, ::3],
        permuted=torch.arange(24, dtype=torch.int16).reshape(2, 3, 4).permute(2, 0, 1),
        expanded=torch.tensor([[1.5], [2.5]]).expand(2, 3),
        scalar=torch.tensor(7.25, dtype=torch.float64),
        empty=torch.zeros(0, 3),
        parameter=torch.nn.Parameter(torch.ones(2) / 3),
        complex=torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex128),
    )
    expected = {key: value.detach().numpy() for key, value in views.items()}
    nested = {
        "model": views,
        "optimizer": {"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 0.5}]},
        "epoch": 12,
        "name": "run",
        "path": HERE.__class__("relative"),
    }
    expected = {f"model.{key}": value for key, value in expected.items()}
    expected["optimizer.state.0.step"] = np.float32(3.0)
    save_expected("torch_views", expected)
    torch.save(nested, FOLDER / "torch_views.pt")
    torch.save(nested, FOLDER / "torch_views_legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(nested, FOLDER / "torch_views_protocol4.pt", pickle_protocol=4)

    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Sequential(torch.nn.Linear(2, 1))
    )
    torch.save(module, FOLDER / "torch_module.pt")
    save_expected("torch_module", {k: v.numpy() for k, v in module.state_dict().items()})
    torch.save(base, FOLDER / "torch_tensor.pt")


def dequantized_q8(kind, blocks):
    """Returns the values of the types that the package `gguf` only lists."""
    if kind == "Q8_1":
        scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        return scale * blocks[:, 4:].view(np.int8).astype(np.float32)
    scale = blocks[:, :4].copy().view(np.float32)
    return scale * blocks[:, 4:260].view(np.int8).astype(np.float32)


def write_gguf():
    """Writes GGUF files: every type with random blocks, both byte orders, all metadata types."""
    import gguf
    from gguf import GGMLQuantizationType as Type
    from gguf import GGUFEndian, GGUFWriter, quants

    # The package lists the size before ggml made the two scales half precision.
    gguf.GGML_QUANT_SIZES[Type.Q8_1] = (32, 36)
    random = np.random.default_rng(0)
    plain = {"F32", "F16", "F64", "BF16", "I8", "I16", "I32", "I64"}
    writer = GGUFWriter(FOLDER / "gguf_types.gguf", "none")
    expected = {}
    for kind in Type:
        # Q1_0 has no dequantizer in the package.
        if kind.name in plain or kind.name == "Q1_0":
            continue
        block, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (4, size), dtype=np.uint8)
        set_scales(kind.name, blocks, random)
        name = kind.name.lower()
        writer.add_tensor(name, blocks.reshape(2, 2 * size), raw_dtype=kind)
        if kind.name in ("Q8_1", "Q8_K"):
            values = dequantized_q8(kind.name, blocks)
        else:
            values = quants.dequantize(blocks, kind)
        assert np.isfinite(values).all(), name
        expected[name] = values.astype(np.float32).reshape(2, 2 * block)
    finish(writer)
    save_expected("gguf_types", expected)

    for endian in (GGUFEndian.LITTLE, GGUFEndian.BIG):
        name = f"gguf_{endian.name.lower()}"
        writer = GGUFWriter(FOLDER / f"{name}.gguf", "none", endianess=endian)
        writer.add_uint8("a.u8", 200)
        writer.add_int8("a.i8", -3)
        writer.add_uint16("a.u16", 60000)
        writer.add_int16("a.i16", -300)
        writer.add_uint32("a.u32", 4000000000)
        writer.add_int32("a.i32", -70000)
        writer.add_uint64("a.u64", 2**64 - 1)
        writer.add_int64("a.i64", -(2**40))
        writer.add_float32("a.f32", 0.5)
        writer.add_float64("a.f64", 0.1)
        writer.add_bool("a.bool", True)
        writer.add_string("a.string", "naïve")
        writer.add_array("a.array", ["x", "y", "z"])
        numbers = np.arange(12).reshape(3, 4)
        expected = {}
        for kind in ("float32", "float16", "float64", "int8", "int16", "int32", "int64"):
            expected[kind] = numbers.astype(kind)
            writer.add_tensor(kind, expected[kind])
        blocks = quants.quantize(np.linspace(-1, 1, 64, dtype=np.float32), Type.Q8_0)
        expected["q8_0"] = quants.dequantize(blocks, Type.Q8_0)
        swapped = blocks.reshape(2, 34).copy()
        if endian == GGUFEndian.BIG:
            swapped[:, :2] = swapped[:, 1::-1]
        writer.add_tensor("q8_0", swapped.reshape(68), raw_dtype=Type.Q8_0)
        finish(writer)
    save_expected("gguf_little", expected)

    values = random.normal(size=(3, 64)).astype(np.float32)
    values[1, :32] = 0
    quantized = {
        name: quants.quantize(values, Type[name.upper()]).view(np.uint8)
        for name in ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0")
    }
    save_expected("gguf_quantized", {"values": values, **quantized})


def set_scales(kind, blocks, random):
    """Replaces the scales of random blocks by finite ones."""
    half = {
        "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q8_1": [0, 2],
        "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
        "IQ2_XXS": [0], "IQ2_XS": [0], "IQ3_XXS": [0], "IQ1_S": [0], "IQ4_NL": [0], "IQ3_S": [0],
        "IQ2_S": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64],
    }
    for at in half.get(kind, []):
        scales = random.normal(size=(len(blocks), 1)).astype(np.float16)
        blocks[:, at : at + 2] = scales.view(np.uint8)
    if kind == "Q8_K":
        blocks[:, :4] = random.normal(size=(len(blocks), 1)).astype(np.float32).view(np.uint8)
    if kind == "IQ1_M":
        # The scale is in the highest four bits of four numbers.
        bits = random.normal(size=len(blocks)).astype(np.float16).view(np.uint16)
        for index in range(4):
            nibble = (bits >> (4 * index) & 15).astype(np.uint8)
            at = 49 + 2 * index
            blocks[:, at] = blocks[:, at] & 15 | nibble << 4
    if kind == "MXFP4":
        blocks[:, 0] = [0, 1, 2, 130]


def finish(writer):
    """Writes a GGUF file."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_numpy():
    """Writes NumPy files: every dtype, both memory orders and byte orders, compressed archives."""
    import ml_dtypes

    numbers = np.arange(12).reshape(3, 4)
    kinds = "i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()
    arrays = {kind: numbers.astype(kind) for kind in kinds}
    arrays["bool"] = numbers % 2 == 1
    arrays["big"] = numbers.astype(">f4")
    arrays["fortran"] = np.asfortranarray(numbers.astype("f4"))
    arrays["bfloat16"] = numbers.astype(ml_dtypes.bfloat16)
    arrays["scalar"] = np.float64(2.5)
    arrays["empty"] = np.zeros((0, 3), "f4")
    np.savez(FOLDER / "numpy.npz", **arrays)
    np.savez_compressed(FOLDER / "numpy_compressed.npz", **arrays)
    np.save(FOLDER / "numpy.npy", arrays["fortran"])
    expected = dict(arrays)
    expected["bfloat16"] = arrays["bfloat16"].view(np.uint16)
    expected["big"] = numbers.astype("<f4")
    save_expected("numpy", expected)


def write_flax():
    """Writes files of `flax.serialization`: every dtype, scalars, arrays in chunks."""
    import flax.serialization as serialization
    import jax.numpy as jnp
    import ml_dtypes

    numbers = np.arange(12).reshape(3, 4)
    kinds = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
    kinds = (kinds + " complex64 bfloat16 float8_e4m3fn float8_e5m2 int4").split()
    dtype = lambda name: getattr(ml_dtypes, name, None) or np.dtype(name)
    arrays = {name: numbers.astype(dtype(name)) for name in kinds}
    serialization.MAX_CHUNK_SIZE = 20
    tree = {
        "params": {"dense": {"kernel": jnp.asarray(numbers, jnp.float32), "bias": np.float32(3)}},
        "dtypes": arrays,
        "step": 7,
        "rate": 0.25,
        "list": [np.arange(3, dtype=np.int32), None],
        "complex": 1 + 2j,
    }
    state = serialization.to_state_dict(tree)
    (FOLDER / "flax.msgpack").write_bytes(serialization.msgpack_serialize(state))
    expected = {"params.dense.kernel": numbers.astype("f4"), "params.dense.bias": np.float32(3)}
    expected["list.0"] = np.arange(3, dtype=np.int32)
    for name, array in arrays.items():
        is_known = name in "bool float16 float32 float64 complex64".split() or "int" in name
        if not is_known:
            array = array.view(np.uint16 if name == "bfloat16" else np.uint8)
        expected[f"dtypes.{name}"] = array.astype(np.int8) if name == "int4" else array
    save_expected("flax", expected)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:]:
        globals()[f"write_{name}"]()


if __name__ == "__main__":
    main()
