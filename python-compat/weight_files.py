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
    B/bin/python weight_files.py numpy flax orbax zarr

    python3.11 -m venv C
    C/bin/pip install transformers==4.46.3 flax==0.10.2 jax==0.4.38 jaxlib==0.4.38 optax==0.2.4 \
        orbax-checkpoint==0.6.4 safetensors==0.8.0
    C/bin/python weight_files.py flax_gpt2 orbax

`NAME.expected.safetensors` has the arrays of a file as their library reads them.
"""

import json
import shutil
import sys
import zipfile
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

    # TorchScript, without the code, which names folders of the machine.
    whole = FOLDER / "torch_script_whole.pt"
    torch.jit.save(torch.jit.script(module), whole)
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(FOLDER / "torch_script.pt", "w") as to:
        for name in source.namelist():
            if "/data" in name or name.endswith("byteorder"):
                to.writestr(zipfile.ZipInfo(name), source.read(name))
    whole.unlink()


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


def pack(folder):
    """Replaces a folder by one file: a tensor of bytes for each file, named by its path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    arrays = {name: np.frombuffer(content, np.uint8) for name, content in names.items()}
    save_file(arrays, folder.with_name(f"{folder.name}.files.safetensors"))
    shutil.rmtree(folder)


def orbax_tree(mesh=None):
    """Returns a small tree; with a mesh, one array is sharded over it."""
    import jax
    import jax.numpy as jnp

    numbers = np.arange(48, dtype=np.float32).reshape(8, 6)
    sharded = jnp.asarray(numbers * 2)
    if mesh is not None:
        spec = jax.sharding.PartitionSpec("x", "y")
        sharded = jax.device_put(sharded, jax.sharding.NamedSharding(mesh, spec))
    return {
        "params": {
            "dense": {"kernel": jnp.asarray(numbers), "bias": jnp.zeros(6)},
            "norm": {"scale": jnp.asarray([0.5, 1.5, -2.0], jnp.bfloat16)},
        },
        "large": jnp.asarray(np.random.default_rng(0).normal(size=(40, 16)), jnp.float32),
        "sharded": sharded,
        "mask": jnp.asarray([True, False, True]),
        "counts": np.arange(5, dtype=np.int8),
        "step": jnp.asarray(7, jnp.int32),
    }


def write_orbax():
    """Writes checkpoints of the installed Orbax: OCDBT and zarr, in all variants it offers."""
    import os

    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import orbax.checkpoint as ocp

    version = ".".join(ocp.__version__.split(".")[:2])
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
    tree = orbax_tree(mesh)
    for name, options in [
        ("ocdbt", dict(use_ocdbt=True)),
        ("ocdbt_zarr3", dict(use_ocdbt=True, use_zarr3=True)),
        ("zarr", dict(use_ocdbt=False)),
        ("zarr3", dict(use_ocdbt=False, use_zarr3=True)),
    ]:
        folder = FOLDER / "orbax" / f"{name}_{version}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)
        handler = ocp.PyTreeCheckpointHandler(**options)
        with ocp.Checkpointer(handler) as checkpointer:
            checkpointer.save(folder, tree)
        # These name devices, times and folders of the machine.
        for file in folder.rglob("*"):
            if file.name in ("_sharding", "_CHECKPOINT_METADATA", "commit_success.txt"):
                file.unlink()
        pack(folder)
    expected = {
        "params.dense.kernel": np.asarray(tree["params"]["dense"]["kernel"]),
        "params.dense.bias": np.zeros(6, np.float32),
        "params.norm.scale": np.asarray(tree["params"]["norm"]["scale"]).view(np.uint16),
        "large": np.asarray(tree["large"]),
        "sharded": np.asarray(tree["sharded"]),
        "mask": np.asarray(tree["mask"]),
        "counts": tree["counts"],
        "step": np.asarray(tree["step"]),
    }
    save_expected("orbax", expected)


def write_zarr():
    """Writes arrays with TensorStore: deep trees of keys, a numbered manifest, other codecs."""
    import tensorstore as ts

    numbers = np.arange(35, dtype=np.float32).reshape(5, 7)
    expected = {}
    for name, config in [
        ("deep", {"max_decoded_node_bytes": 300, "max_inline_value_bytes": 20}),
        ("numbered", {"manifest_kind": "numbered", "compression": None}),
    ]:
        folder = FOLDER / "orbax" / name
        shutil.rmtree(folder, ignore_errors=True)
        store = {"driver": "ocdbt", "base": f"file://{folder}/", "config": config}
        for index in range(6):
            kvstore = store | {"path": f"layers.{index}.weight/"}
            metadata = {
                "shape": [5, 7],
                "chunks": [2, 3],
                "dtype": "<f4",
                "compressor": {"id": "zstd"},
            }
            spec = {"driver": "zarr", "kvstore": kvstore, "metadata": metadata, "create": True}
            ts.open(spec).result().write(numbers + index).result()
            expected[f"layers.{index}.weight"] = numbers + index
        pack(folder)
    save_expected("orbax_deep", expected)

    folder = FOLDER / "orbax" / "codecs"
    shutil.rmtree(folder, ignore_errors=True)
    expected = {}
    small = {"shape": [5, 7], "chunks": [2, 3], "fill_value": 0}
    for name, metadata in {
        "none": {"dtype": "<f4", "compressor": None},
        "zlib": {"dtype": "<i2", "compressor": {"id": "zlib", "level": 1}},
        "gzip": {"dtype": "<f8", "compressor": {"id": "gzip"}},
        "fortran": {"dtype": "<f4", "compressor": None, "order": "F"},
        "big": {"dtype": ">f4", "compressor": None},
        "slash": {"dtype": "<f4", "compressor": None, "dimension_separator": "/"},
    }.items():
        kvstore = {"driver": "file", "path": f"{folder}/{name}/"}
        spec = {"driver": "zarr", "kvstore": kvstore, "metadata": small | metadata}
        array = ts.open(spec, create=True).result()
        array.write(numbers.astype(array.dtype.numpy_dtype)).result()
        expected[name] = numbers.astype(array.dtype.numpy_dtype)
    plain = {"name": "bytes", "configuration": {"endian": "little"}}
    grid = {"name": "regular", "configuration": {"chunk_shape": [4, 6]}}
    for name, codecs in {
        "v3_big": [{"name": "bytes", "configuration": {"endian": "big"}}],
        "v3_gzip": [plain, {"name": "gzip", "configuration": {"level": 1}}],
        "v3_crc": [plain, {"name": "zstd"}, {"name": "crc32c"}],
        "v3_transposed": [{"name": "transpose", "configuration": {"order": [1, 0]}}, plain],
        "v3_sharded": [
            {
                "name": "sharding_indexed",
                "configuration": {
                    "chunk_shape": [2, 3],
                    "codecs": [plain, {"name": "crc32c"}],
                    "index_codecs": [plain, {"name": "crc32c"}],
                    "index_location": "start",
                },
            }
        ],
    }.items():
        kvstore = {"driver": "file", "path": f"{folder}/{name}/"}
        metadata = {
            "shape": [5, 7],
            "data_type": "float32",
            "chunk_grid": grid,
            "codecs": codecs,
        }
        spec = {"driver": "zarr3", "kvstore": kvstore, "metadata": metadata}
        array = ts.open(spec, create=True).result()
        # Part of the chunks stays empty.
        array[:4].write(numbers[:4]).result()
        expected[name] = np.concatenate([numbers[:4], np.zeros((1, 7), np.float32)])
    pack(folder)
    save_expected("orbax_codecs", expected)


def write_gpt2():
    """Trains a tiny GPT-2 with `transformers`, and writes it in four layouts with its logits."""
    import gguf
    import torch
    from safetensors.torch import save_file as save_torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(**GPT2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    config.bos_token_id = config.eos_token_id = None
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(20):
        texts = torch.randint(0, GPT2["vocab_size"], (4, 12))
        texts[:, 1::2] = texts[:, ::2]
        loss = model(texts, labels=texts).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    folder = FOLDER / "gpt2"
    folder.mkdir(exist_ok=True)
    with torch.no_grad():
        logits = model(torch.tensor(TOKENS)).logits
    save_torch({"logits": logits}, folder / "logits.safetensors")
    config.architectures = ["GPT2LMHeadModel"]
    (folder / "config.json").write_text(json.dumps(config.to_dict(), indent=1, default=str) + "\n")
    state = model.state_dict()
    bare = {name.removeprefix("transformer."): leaf for name, leaf in state.items()}
    del bare["lm_head.weight"]
    # Published files have names without the prefix, and masks.
    for layer in range(GPT2["n_layer"]):
        size = GPT2["n_positions"]
        bare[f"h.{layer}.attn.bias"] = torch.ones(1, 1, size, size).tril()
    save_torch(bare, folder / "model.safetensors")
    # `lm_head.weight` shares its storage with `transformer.wte.weight`.
    torch.save(state, folder / "pytorch_model.bin")
    names = sorted(state)
    index = {}
    for part, names in enumerate([names[: len(names) // 2], names[len(names) // 2 :]], 1):
        name = f"pytorch_model-0000{part}-of-00002.bin"
        torch.save({key: state[key].clone() for key in names}, folder / name)
        index |= {key: name for key in names}
    index = {"metadata": {"total_size": 0}, "weight_map": index}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=1) + "\n")

    # The names and transposed matrices of llama.cpp's `convert_hf_to_gguf.py`.
    arch = gguf.MODEL_ARCH.GPT2
    names = gguf.get_tensor_name_map(arch, GPT2["n_layer"])
    writer = gguf.GGUFWriter(folder / "gpt2.gguf", gguf.MODEL_ARCH_NAMES[arch])
    writer.add_block_count(GPT2["n_layer"])
    writer.add_context_length(GPT2["n_positions"])
    writer.add_embedding_length(GPT2["n_embd"])
    writer.add_feed_forward_length(4 * GPT2["n_embd"])
    writer.add_head_count(GPT2["n_head"])
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    for name, leaf in state.items():
        if name == "lm_head.weight":
            continue
        array = leaf.numpy()
        if name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
            array = np.ascontiguousarray(array.T)
        name = names.get_name(name.removeprefix("transformer."), (".weight", ".bias"))
        writer.add_tensor(name, array)
    finish(writer)


def write_flax_gpt2():
    """Trains a tiny Flax GPT-2 of `transformers` 4, and writes it with its logits."""
    import jax
    import jax.numpy as jnp
    import optax
    from transformers import FlaxGPT2LMHeadModel, GPT2Config

    config = GPT2Config(**GPT2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    model = FlaxGPT2LMHeadModel(config, seed=1)
    params = model.params
    adam = optax.adam(1e-2)
    state = adam.init(params)

    def loss(params, texts):
        logits = model(texts, params=params).logits[:, :-1]
        return optax.softmax_cross_entropy_with_integer_labels(logits, texts[:, 1:]).mean()

    random = np.random.default_rng(0)
    for _ in range(20):
        texts = random.integers(0, GPT2["vocab_size"], (4, 12))
        texts[:, 1::2] = texts[:, ::2]
        gradient = jax.grad(loss)(params, jnp.asarray(texts))
        updates, state = adam.update(gradient, state)
        params = optax.apply_updates(params, updates)
    folder = FOLDER / "gpt2_flax"
    model.params = params
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    logits = np.asarray(model(jnp.asarray(TOKENS)).logits)
    save_file({"logits": logits}, folder / "logits.safetensors")


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:]:
        globals()[f"write_{name}"]()


if __name__ == "__main__":
    main()
