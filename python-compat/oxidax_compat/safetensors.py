"""Files of the safetensors format, with every dtype of oxidax.

Dtypes without a name in the format are stored as a type with the same bits, and the metadata under
`oxidax.dtypes` records them: `i4` as `I8`, `c128` as pairs of `F64`. Reading inverts this.

Reference: https://github.com/huggingface/safetensors
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .dtypes import BITS_BELOW_A_BYTE, dtype_of, short_name

MAX_HEADER_BYTES = 100_000_000
_RECORDED = "oxidax.dtypes"
_FORMAT_NAMES = {
    "bool": "BOOL", "f8_e5m2": "F8_E5M2", "f8_e4m3fn": "F8_E4M3", "f8_e8m0fnu": "F8_E8M0",
    "f8_e4m3fnuz": "F8_E4M3FNUZ", "f8_e5m2fnuz": "F8_E5M2FNUZ", "i8": "I8", "i16": "I16",
    "i32": "I32", "i64": "I64", "u8": "U8", "u16": "U16", "u32": "U32", "u64": "U64",
    "bf16": "BF16", "f16": "F16", "f32": "F32", "f64": "F64", "c64": "C64",
}  # fmt: skip
# Two elements to a byte, the first in the low half; an odd number is stored as bytes.
_PACKED = "f4_e2m1fn"
_DTYPES_OF_FORMAT = {stored: short for short, stored in _FORMAT_NAMES.items()}

Array = np.ndarray[Any, Any]


class DamagedFile(ValueError):
    """The bytes are not a file of this format. The message has the path and the reason."""


def _stored(array: Array) -> tuple[str, Array, str | None]:
    """Returns the format's dtype, the stored bytes, and the dtype's name if it is recorded."""
    name = short_name(array.dtype)
    array = np.ascontiguousarray(array) if array.ndim else np.array(array)
    if name == "c128":
        return "F64", array.reshape(array.shape + (1,)).view(np.float64), name
    if name in _FORMAT_NAMES:
        return _FORMAT_NAMES[name], array, None
    if name == _PACKED and array.size % 2 == 0:
        bits = array.view(np.uint8).reshape(-1, 2)
        return "F4", bits[:, 0] | (bits[:, 1] << 4), None
    if name in BITS_BELOW_A_BYTE and name != _PACKED:
        is_signed = name.startswith("i")
        return ("I8", array.astype(np.int8), name) if is_signed else (
            "U8", array.astype(np.uint8), name)  # fmt: skip
    return "U8", array.view(np.uint8), name


def save(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Writes arrays under their names. The file appears under its name when it is complete.

    Raises `ValueError` for a name that the format reserves.
    """
    recorded: dict[str, str] = {}
    stored: dict[str, tuple[str, Array]] = {}
    for name, array in arrays.items():
        if name == "__metadata__":
            raise ValueError("the format reserves the name `__metadata__`")
        dtype, values, recorded_as = _stored(array)
        stored[name] = dtype, values.astype(values.dtype.newbyteorder("<"), copy=False)
        if recorded_as is not None:
            recorded[name] = recorded_as
    header: dict[str, Any] = {}
    if recorded:
        header["__metadata__"] = {_RECORDED: json.dumps(recorded)}
    offset = 0
    # Wide elements come first, so that arrays in a mapped file are aligned.
    order = sorted(stored, key=lambda name: (-stored[name][1].dtype.itemsize, name))
    for name in order:
        dtype, values = stored[name]
        span = [offset, offset + values.nbytes]
        shape = arrays[name].shape if dtype == "F4" else values.shape
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": span}
        offset += values.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with open(part, "wb") as file:
            file.write(len(text).to_bytes(8, "little"))
            file.write(text)
            for name in order:
                file.write(stored[name][1].tobytes())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def read_header(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, str], int]:
    """Returns the entries of the arrays, the recorded dtypes, and the offset of the elements.

    Raises `DamagedFile` if the header is not one.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little") if size >= 8 else 0
        if length < 2 or length > min(size - 8, MAX_HEADER_BYTES):
            raise DamagedFile(f"{path}: a header of {length} bytes in a file of {size}")
        text = file.read(length)
    try:
        header = json.loads(text)
        metadata = header.pop("__metadata__", None) or {}
        recorded = json.loads(metadata.get(_RECORDED, "{}"))
    except (ValueError, AttributeError, TypeError) as error:
        raise DamagedFile(f"{path}: the header: {error}") from error
    if not isinstance(recorded, dict):
        raise DamagedFile(f"{path}: the metadata `{_RECORDED}` is not an object")
    return header, recorded, 8 + length


def load(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Returns the arrays by name. They are read from the file when they are used.

    Raises `DamagedFile` if the file is damaged, and `TypeError` for a dtype that NumPy and
    `ml_dtypes` do not have.
    """
    header, recorded, start = read_header(path)
    size = os.path.getsize(path)
    if size == start:
        data: Any = b""
    else:
        with open(path, "rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))[start:]
    arrays = {}
    for name, entry in header.items():
        try:
            arrays[name] = _array(data, entry, recorded.get(name))
        except (KeyError, ValueError, AttributeError, OverflowError) as error:
            raise DamagedFile(f"{path}: array `{name}`: {error}") from error
        except TypeError as error:
            raise TypeError(f"{path}: array `{name}`: {error}") from error
    return arrays


def _array(data: Any, entry: Any, recorded: str | None) -> Array:
    if not isinstance(entry, dict):
        raise ValueError(f"its entry is {entry!r}")
    stored, shape = entry["dtype"], [int(size) for size in entry["shape"]]
    begin, end = (int(offset) for offset in entry["data_offsets"])
    if not 0 <= begin <= end <= len(data) or min(shape, default=0) < 0:
        raise ValueError(f"bytes {begin} to {end} of {len(data)}, shape {shape}")
    if stored == "F4":
        halves = np.frombuffer(data[begin:end], np.uint8)
        bits = np.stack([halves & 15, halves >> 4], axis=-1)
        return bits.reshape(shape).view(dtype_of(_PACKED))
    if stored not in _DTYPES_OF_FORMAT:
        raise TypeError(f"the dtype {stored} is not read here")
    dtype = dtype_of(_DTYPES_OF_FORMAT[stored])
    array = np.frombuffer(data[begin:end], dtype.newbyteorder("<")).astype(dtype, copy=False)
    array = array.reshape(shape)
    if recorded is None:
        return array
    if recorded == "c128":
        return array.view(np.complex128)[..., 0]
    if recorded in BITS_BELOW_A_BYTE and recorded != _PACKED:
        return array.astype(dtype_of(recorded))
    return array.view(dtype_of(recorded))
