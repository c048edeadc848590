"""Conversion of checkpoints between oxidax and Flax, Orbax and NumPy.

| format | read and written as | needs |
| --- | --- | --- |
| `oxidax` | a safetensors file whose names are leaf paths; folders of runs are read | |
| `npz` | NumPy's archive whose names are leaf paths | |
| `flax` | the bytes of `flax.serialization`, `.msgpack` | `msgpack` |
| `orbax` | a folder of Orbax | `orbax-checkpoint` |

Flax and Orbax store lists as dicts with the keys "0", "1", …; reading turns such dicts into
lists.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import checkpoints
from .safetensors import DamagedFile
from .trees import as_array, flatten, map_leaves, nest, plain

FORMATS = ("oxidax", "npz", "flax", "orbax")
_ENDINGS = {".safetensors": "oxidax", ".npz": "npz", ".msgpack": "flax"}
_ORBAX_FILES = ("_METADATA", "_CHECKPOINT_METADATA", "_sharding", "manifest.ocdbt", "checkpoint")


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    source_format: str | None = None,
    target_format: str | None = None,
) -> list[str]:
    """Writes a checkpoint in another format, and returns the leaf paths.

    Formats that are not given follow from the names: `.safetensors`, `.npz`, `.msgpack`, and what
    a folder contains.
    """
    tree = read(source, source_format)
    write(target, tree, target_format)
    return [path for path, _ in flatten(tree)]


def read(source: str | os.PathLike[str], source_format: str | None = None) -> Any:
    """Returns the tree of a checkpoint as dicts, lists and NumPy arrays."""
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    form = source_format or detect(path)
    if form == "oxidax":
        return checkpoints.load(path)
    if form == "npz":
        with np.load(path, allow_pickle=False) as archive:
            return nest({name: archive[name] for name in archive.files})
    if form == "flax":
        return from_flax_bytes(path.read_bytes())
    if form == "orbax":
        return _plain_arrays(_orbax().restore(str(path.resolve())))
    raise _unknown(form)


def write(target: str | os.PathLike[str], tree: Any, target_format: str | None = None) -> None:
    """Writes a tree as a checkpoint."""
    path = Path(target)
    form = target_format or _ENDINGS.get(path.suffix)
    if form is None:
        raise ValueError(f"{path}: state the format, one of {', '.join(FORMATS)}")
    if form == "oxidax":
        checkpoints.save(path, tree)
    elif form == "npz":
        leaves = {name: as_array(leaf, name) for name, leaf in flatten(tree)}
        with open(path, "wb") as file:
            np.savez(file, **leaves)  # type: ignore[arg-type]
    elif form == "flax":
        path.write_bytes(to_flax_bytes(tree))
    elif form == "orbax":
        _orbax().save(str(path.resolve()), map_leaves(as_array, plain(tree)))
    else:
        raise _unknown(form)


def detect(path: Path) -> str:
    """Returns the format of a checkpoint, from the name of a file or the contents of a folder."""
    if path.is_dir():
        is_orbax = any((path / name).exists() for name in _ORBAX_FILES)
        return "orbax" if is_orbax else "oxidax"
    if path.name.endswith(".index.json"):
        return "oxidax"
    if path.suffix in _ENDINGS:
        return _ENDINGS[path.suffix]
    raise ValueError(f"{path}: the format of `{path.suffix}` is unknown; state one of {FORMATS}")


def _unknown(form: str) -> ValueError:
    return ValueError(f"there is no format {form!r}; there are {', '.join(FORMATS)}")


def from_flax_bytes(data: bytes) -> Any:
    """Returns the tree of what `flax.serialization.to_bytes` or `msgpack_serialize` wrote.

    Flax itself is not needed. Raises `DamagedFile` for other bytes.
    """
    msgpack = _required("msgpack", "Flax stores trees as msgpack")
    try:
        decoded = msgpack.unpackb(data, ext_hook=_decode_extension, raw=False)
    except DamagedFile:
        raise
    except Exception as error:  # `msgpack` has no common base of its errors.
        raise DamagedFile(f"not a tree of Flax: {error}") from error
    return _plain_arrays(_join_chunks(decoded))


def to_flax_bytes(tree: Any) -> bytes:
    """Returns the bytes that `flax.serialization.from_bytes` and `msgpack_restore` read."""
    msgpack = _required("msgpack", "Flax stores trees as msgpack")
    state = _as_state(map_leaves(as_array, plain(tree)))
    packed = msgpack.packb(state, default=_encode_array, strict_types=True)
    assert isinstance(packed, bytes)
    return packed


# The codes of Flax's extension types, in `flax/serialization.py`.
_NDARRAY, _COMPLEX, _NUMPY_SCALAR = 1, 2, 3


def _encode_array(value: Any) -> Any:
    msgpack = importlib.import_module("msgpack")
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{type(value).__name__} is not an array")
    fields = (list(value.shape), value.dtype.name, value.tobytes())
    return msgpack.ExtType(_NDARRAY, msgpack.packb(fields, use_bin_type=True))


def _decode_extension(code: int, data: bytes) -> Any:
    msgpack = importlib.import_module("msgpack")
    if code == _COMPLEX:
        real, imag = msgpack.unpackb(data)
        return complex(real, imag)
    if code not in (_NDARRAY, _NUMPY_SCALAR):
        raise DamagedFile(f"extension {code} is not one of Flax")
    shape, name, content = msgpack.unpackb(data, raw=True)
    dtype = _dtype_named(name.decode())
    array = np.frombuffer(content, dtype)
    if array.size != int(np.prod(shape, dtype=object)):
        raise DamagedFile(f"an array of {array.size} elements with the shape {shape}")
    return array.reshape(shape)


def _dtype_named(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        module = _required("ml_dtypes", f"NumPy has no dtype {name}")
        found: np.dtype[Any] = np.dtype(getattr(module, name))
        return found


def _join_chunks(node: Any) -> Any:
    """Joins arrays that Flax stored in parts, since msgpack limits the length of one."""
    if isinstance(node, Mapping):
        if "__msgpack_chunked_array__" in node:
            shape = _in_order(node["shape"])
            return np.concatenate([np.ravel(c) for c in _in_order(node["chunks"])]).reshape(shape)
        return {key: _join_chunks(value) for key, value in node.items()}
    return [_join_chunks(item) for item in node] if isinstance(node, (list, tuple)) else node


def _in_order(entries: Any) -> list[Any]:
    return [entries[str(index)] for index in range(len(entries))]


def _as_state(node: Any) -> Any:
    """Returns a tree as Flax's state dicts: lists and tuples are dicts with keys "0", "1", …"""
    if isinstance(node, Mapping):
        return {str(key): _as_state(value) for key, value in node.items()}
    if isinstance(node, (list, tuple)):
        return {str(index): _as_state(value) for index, value in enumerate(node)}
    return node


def _plain_arrays(node: Any) -> Any:
    """Returns a tree with NumPy arrays, and lists in place of dicts with the keys "0", "1", …"""
    if node is None or (isinstance(node, (Mapping, list, tuple)) and len(node) == 0):
        return None
    if isinstance(node, Mapping):
        values = {str(key): _plain_arrays(value) for key, value in node.items()}
        if set(values) == {str(index) for index in range(len(values))}:
            return _in_order(values)
        return values
    if isinstance(node, (list, tuple)):
        return [_plain_arrays(item) for item in node]
    return as_array(node)


def from_nnx(model: Any) -> Any:
    """Returns the state of a Flax `nnx` module as a tree of dicts, lists and NumPy arrays.

    Keys of random number generators are stored as their integers. Needs `flax`.
    """
    nnx = _required("flax.nnx", "the model is one of Flax")
    jax = _required("jax", "the model is one of Flax")
    state = nnx.state(model) if isinstance(model, nnx.Module) else model

    def leaf(value: Any) -> Any:
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        return as_array(value)

    return _plain_arrays(jax.tree.map(leaf, nnx.to_pure_dict(state)))


def to_nnx(tree: Any, model: Any) -> None:
    """Sets the state of a Flax `nnx` module to a tree that `from_nnx` or `load` returned.

    Raises `ValueError` with all differences if the tree has other leaves than the module.
    """
    nnx = _required("flax.nnx", "the model is one of Flax")
    jax = _required("jax", "the model is one of Flax")
    state = nnx.state(model)
    arrays = {path: as_array(leaf, path) for path, leaf in flatten(tree)}
    checkpoints.fill(from_nnx(model), arrays)
    leaves, structure = jax.tree.flatten(nnx.to_pure_dict(state))
    numbered = jax.tree.unflatten(structure, [np.asarray(n) for n in range(len(leaves))])
    for path, number in flatten(_plain_arrays(numbered)):
        old, new = leaves[int(number)], arrays[path]
        if jax.dtypes.issubdtype(old.dtype, jax.dtypes.prng_key):
            new = jax.random.wrap_key_data(new, impl=jax.random.key_impl(old))
        leaves[int(number)] = jax.numpy.asarray(new)
    nnx.replace_by_pure_dict(state, jax.tree.unflatten(structure, leaves))
    nnx.update(model, state)


def _orbax() -> Any:
    """Returns a checkpointer of Orbax."""
    orbax = _required("orbax.checkpoint", "the checkpoint is one of Orbax", "orbax-checkpoint")
    return orbax.PyTreeCheckpointer()


def _required(module: str, reason: str, package: str | None = None) -> Any:
    """Imports a module of an optional package. Raises `ImportError` with what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = package or (error.name or module).split(".")[0]
        raise ImportError(f"{reason}: install `{name}` ({error})") from error
