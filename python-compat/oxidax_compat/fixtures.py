"""Records what a JAX function computes as a fixture: NAME.json, and NAME.safetensors.

The files have the format of `python-compat/README.md`. In Rust, `checkpoint::open(path)` reads the
arrays by name, and `oxidax_parity::Suite` compares results within the recorded tolerances.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .recorder_modules import recorder
from .trees import as_array, flatten, replace_leaves


class Recording:
    """Cases of one fixture.

    >>> recording = Recording("model", "The model of the paper.")
    >>> recording.case(forward, params, x, gradients=True)
    >>> recording.write("tests/fixtures")
    """

    def __init__(
        self,
        name: str,
        about: str = "",
        *,
        tolerance: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        """Starts a fixture. `tolerance` overrides those of dtypes: `{"f32": {"rtol": 1e-5, …}}`."""
        if not name or Path(name).name != name:
            raise ValueError(f"{name!r} is not the name of a file")
        self.name = name
        own = {dtype: dict(bounds) for dtype, bounds in (tolerance or {}).items()}
        self._suite = recorder("suite").Suite(name, about, tolerance=own)

    def case(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        name: str | None = None,
        gradients: bool = False,
        tolerance: Mapping[str, float] | None = None,
    ) -> None:
        """Computes `function(*arguments)` and records operands and results, leaf by leaf.

        The function must be one that JAX can trace if `gradients` is true. Then forward and reverse
        derivatives by all floating leaves are recorded too, along random tangents and cotangents.

        Raises `ValueError` if two cases have one name, or no leaf can be differentiated.
        """
        op = getattr(function, "__name__", "function").replace("<lambda>", "function")
        label = op if name is None else name
        if any(case["name"] == label for case in self._suite.cases):
            raise ValueError(f"two cases are named {label!r}; state `name`")
        leaves = [(path, _operand(leaf, path)) for path, leaf in flatten(list(arguments))]
        wrt = [i for i, (_, leaf) in enumerate(leaves) if _is_inexact(leaf)]
        if gradients and not wrt:
            raise ValueError(f"{label}: no argument has a floating dtype")
        paths: list[str] = []

        def compute(*values: Any) -> list[Any]:
            results = flatten(function(*replace_leaves(list(arguments), values)))
            paths[:] = [path for path, _ in results]
            return [result for _, result in results]

        more = {"input_paths": [path for path, _ in leaves], "output_paths": paths}
        own = None if tolerance is None else dict(tolerance)
        operands = [leaf for _, leaf in leaves]
        by = wrt if gradients else None
        self._suite.case(label, op, operands, compute, tolerance=own, wrt=by, **more)

    def write(self, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
        """Writes both files, and returns their paths. Equal results give equal files."""
        if not self._suite.cases:
            raise ValueError(f"the recording {self.name!r} has no case")
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        self._suite.write(target)
        return target / f"{self.name}.json", target / f"{self.name}.safetensors"


def record(
    function: Callable[..., Any],
    *arguments: Any,
    folder: str | os.PathLike[str],
    name: str | None = None,
    gradients: bool = False,
    tolerance: Mapping[str, float] | None = None,
) -> tuple[Path, Path]:
    """Records one call as a fixture with one case, and returns the paths of its files.

    >>> record(jax.nn.gelu, numpy.linspace(-3, 3, 7), folder="tests/fixtures", gradients=True)
    """
    label = name or getattr(function, "__name__", "function").replace("<lambda>", "function")
    recording = Recording(label, f"One call of {label}.")
    recording.case(function, *arguments, name=label, gradients=gradients, tolerance=tolerance)
    return recording.write(folder)


def _operand(leaf: Any, path: str) -> np.ndarray[Any, Any]:
    """Returns a leaf as an array. Numbers get the dtypes that JAX gives them."""
    if isinstance(leaf, (bool, int, float, complex)):
        leaf = importlib.import_module("jax.numpy").asarray(leaf)
    return as_array(leaf, path)


def _is_inexact(leaf: np.ndarray[Any, Any]) -> bool:
    return leaf.dtype.kind in "fc" or leaf.dtype.name.startswith(("bfloat", "float"))
