"""Functions and arguments that are named on the command line.

A function is `module:name`, or `file.py:name`. An argument is one of

- a type: `f32[8,4]` stands for an array of numbers that depend only on its position;
- a number: `2.5`, `3`;
- a file: `x.npy`, or `x.safetensors` for a tree;
- a call: `module:make_batch` stands for what the function returns without arguments.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import checkpoints
from .dtypes import dtype_of

_TYPE = re.compile(r"([a-z]+[0-9]*(?:_[a-z0-9]+)?)\[([0-9, ]*)\]")


def find_function(spec: str) -> Callable[..., Any]:
    """Returns the function called `module:name` or `file.py:name`.

    Raises `ValueError` if there is none, with the names that there are.
    """
    module_name, colon, name = spec.rpartition(":")
    if not colon or not module_name or not name:
        raise ValueError(f"{spec!r} does not name a function; write module:name or file.py:name")
    if module_name.endswith(".py"):
        module = _module_of_file(Path(module_name))
    else:
        if "" not in sys.path:
            sys.path.insert(0, "")
        module = importlib.import_module(module_name)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
            raise ValueError(f"{module_name} has no {name!r}; it has {', '.join(names)}")
        found = getattr(found, part)
    if not callable(found):
        raise ValueError(f"{spec} is {type(found).__name__}, which cannot be called")
    return found  # type: ignore[no-any-return]


def _module_of_file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"{path} is not a file of Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    return module


def make_arguments(specs: Sequence[str]) -> list[Any]:
    """Returns the arguments for descriptions from the command line."""
    return [make_argument(spec, position) for position, spec in enumerate(specs)]


def make_argument(spec: str, position: int) -> Any:
    """Returns one argument. Raises `ValueError` if the description is not understood."""
    typed = _TYPE.fullmatch(spec)
    if typed is not None:
        sizes = [int(size) for size in typed[2].replace(" ", "").split(",") if size]
        return sample(dtype_of(typed[1]), sizes, position)
    for number in (int, float):
        try:
            return number(spec)
        except ValueError:
            continue
    if spec.endswith(".npy"):
        return np.load(spec, allow_pickle=False)
    if spec.endswith(".safetensors") or Path(spec).is_dir():
        return checkpoints.load(spec)
    if ":" in spec:
        return find_function(spec)()
    raise ValueError(
        f"argument {position}, {spec!r}, is not a type such as f32[8,4], a number, a file of "
        ".npy or .safetensors, or module:function"
    )


def sample(dtype: np.dtype[Any], shape: Sequence[int], position: int) -> np.ndarray[Any, Any]:
    """Returns numbers that depend only on dtype, shape and position.

    Floats are normal, integers are from 0 to 9, booleans are true or false.
    """
    rng = np.random.default_rng([position, *shape])
    if dtype == np.bool_:
        return np.asarray(rng.integers(0, 2, shape) == 1)
    if dtype.kind in "iu" or dtype.name.startswith(("int", "uint")):
        bits = dtype.itemsize * 8 if dtype.kind in "iu" else 2
        return np.asarray(rng.integers(0, min(10, 2 ** (bits - 1)), shape)).astype(dtype)
    values = rng.normal(size=shape)
    if dtype.kind == "c":
        return np.asarray(values + 1j * rng.normal(size=shape)).astype(dtype)
    return np.asarray(values).astype(dtype)
