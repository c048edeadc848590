"""Short names of dtypes, as oxidax prints them: `f32` for `float32`.

Narrow floats and four-bit integers are dtypes of the package `ml_dtypes`, which JAX installs. They
are looked up when they are needed, so that NumPy alone is enough for the others.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

# Short name, NumPy's name, and true if the dtype is one of `ml_dtypes`.
_NAMES: dict[str, tuple[str, bool]] = {
    "bool": ("bool", False),
    "i2": ("int2", True),
    "i4": ("int4", True),
    "i8": ("int8", False),
    "i16": ("int16", False),
    "i32": ("int32", False),
    "i64": ("int64", False),
    "u2": ("uint2", True),
    "u4": ("uint4", True),
    "u8": ("uint8", False),
    "u16": ("uint16", False),
    "u32": ("uint32", False),
    "u64": ("uint64", False),
    "f4_e2m1fn": ("float4_e2m1fn", True),
    "f8_e3m4": ("float8_e3m4", True),
    "f8_e4m3": ("float8_e4m3", True),
    "f8_e4m3b11fnuz": ("float8_e4m3b11fnuz", True),
    "f8_e4m3fn": ("float8_e4m3fn", True),
    "f8_e4m3fnuz": ("float8_e4m3fnuz", True),
    "f8_e5m2": ("float8_e5m2", True),
    "f8_e5m2fnuz": ("float8_e5m2fnuz", True),
    "f8_e8m0fnu": ("float8_e8m0fnu", True),
    "bf16": ("bfloat16", True),
    "f16": ("float16", False),
    "f32": ("float32", False),
    "f64": ("float64", False),
    "c64": ("complex64", False),
    "c128": ("complex128", False),
}
_SHORT = {long: short for short, (long, _) in _NAMES.items()}

BITS_BELOW_A_BYTE = {"i2": 2, "u2": 2, "i4": 4, "u4": 4, "f4_e2m1fn": 4}


def short_name(dtype: Any) -> str:
    """Returns the short name of a dtype.

    Raises `TypeError` for a dtype that oxidax does not have.
    """
    name = np.dtype(dtype).name
    if name not in _SHORT:
        raise TypeError(f"oxidax has no dtype {name}; it has {', '.join(_NAMES)}")
    return _SHORT[name]


def dtype_of(short: str) -> np.dtype[Any]:
    """Returns NumPy's dtype for a short name.

    Raises `TypeError` for an unknown name, and `ImportError` if `ml_dtypes` is needed and missing.
    """
    if short not in _NAMES:
        raise TypeError(f"there is no dtype {short}; there are {', '.join(_NAMES)}")
    name, is_extended = _NAMES[short]
    if not is_extended:
        return np.dtype(name)
    try:
        module = importlib.import_module("ml_dtypes")
    except ImportError as error:
        raise ImportError(
            f"NumPy has no dtype {short}; install `ml_dtypes`, which has it"
        ) from error
    if not hasattr(module, name):
        raise ImportError(f"ml_dtypes {module.__version__} has no {name}; install a newer one")
    found: np.dtype[Any] = np.dtype(getattr(module, name))
    return found


def aval(array: Any) -> str:
    """Returns the type of an array as oxidax prints it: `f32[3,4]`."""
    dims = ",".join(str(size) for size in array.shape)
    return f"{short_name(array.dtype)}[{dims}]"
