"""Conversion between dtypes and their short names, as programs print them."""

import ml_dtypes
import numpy as np

NAMES = {
    "bool": np.bool_,
    "i4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f8_e3m4": ml_dtypes.float8_e3m4,
    "f8_e4m3": ml_dtypes.float8_e4m3,
    "f8_e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
    "f8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8_e5m2": ml_dtypes.float8_e5m2,
    "f8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "c64": np.complex64,
    "c128": np.complex128,
}
DTYPES = {name: np.dtype(scalar) for name, scalar in NAMES.items()}
_SHORT = {dtype: name for name, dtype in DTYPES.items()}


def short(dtype) -> str:
    """Returns the short name of a dtype: `f32` for `float32`."""
    return _SHORT[np.dtype(dtype)]


def dtype(name: str) -> np.dtype:
    """Returns NumPy's dtype for a short name."""
    return DTYPES[name]
