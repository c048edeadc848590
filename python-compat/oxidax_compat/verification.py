"""JAX's side of `oxidax verify`: writes what the installed JAX computes, for the command to read.

`verify` starts the command. `write_fixtures` and `write_function` are what the command starts.
"""

from __future__ import annotations

import functools
import importlib
import os
import platform as host
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .programs import Program, exported_function, write_program
from .recorder_modules import recorder
from .trees import as_array, flatten, replace_leaves

# Tolerances for the results of whole functions, by dtype.
FUNCTION_TOLERANCE = {
    "bf16": {"rtol": 3.2e-2, "atol": 1e-2},
    "f16": {"rtol": 4e-3, "atol": 1e-3},
    "f32": {"rtol": 1e-5, "atol": 1e-6},
    "f64": {"rtol": 1e-12, "atol": 1e-13},
    "c64": {"rtol": 1e-5, "atol": 1e-6},
    "c128": {"rtol": 1e-12, "atol": 1e-13},
}


def verify(*arguments: str, command: str = "oxidax") -> int:
    """Runs `oxidax verify` with this Python, and returns its exit status: 0 if all results agree.

    Arguments are those of the command: suites of fixtures, or `module:function` with `--args`.

    Raises `FileNotFoundError` if the command is not installed.
    """
    found = shutil.which(command)
    if found is None:
        raise FileNotFoundError(
            f"there is no command `{command}`: run `cargo install oxidax-cli`, or name its file"
        )
    return subprocess.call([found, "verify", "--python", sys.executable, *arguments])


def versions() -> dict[str, str]:
    """Returns the versions that results depend on, and the kind of device.

    Raises `ImportError` if JAX is not installed.
    """
    try:
        jax = importlib.import_module("jax")
        jaxlib = importlib.import_module("jaxlib")
    except ImportError as error:
        raise ImportError(f"JAX is not installed in {sys.executable} ({error})") from error
    numpy = importlib.import_module("numpy")
    return {
        "python": host.python_version(),
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "numpy": numpy.__version__,
        "device": str(jax.devices()[0]),
    }


def use_platform(name: str, *, wide: bool) -> None:
    """Selects JAX's platform, and 64-bit types if `wide`, before JAX is imported.

    Random numbers are those of the default of newer versions, which oxidax has.
    """
    os.environ["JAX_PLATFORMS"] = name
    os.environ["JAX_ENABLE_X64"] = "1" if wide else "0"
    os.environ["JAX_THREEFRY_PARTITIONABLE"] = "1"


def write_fixtures(folder: Path, suites: Sequence[str], stride: int) -> Iterator[dict[str, Any]]:
    """Computes the cases of suites and writes them as fixtures. Yields a report for each suite.

    A `stride` above 1 selects one in `stride` cases by name. A report has the name, the number of
    cases, the seconds, `failures` by case, and `error` if the suite could not be built, for example
    because a package that it needs is missing.
    """
    recorder("suite").Suite.is_for_verify = True
    for name in suites:
        start, report = time.perf_counter(), {"suite": name, "cases": 0, "failures": {}}
        try:
            suite = recorder(f"{name}_suite").build(stride, quick=True)
            suite.write(folder)
            report |= {"cases": len(suite.cases), "failures": suite.failures}
        except Exception as error:  # Any error of a suite must not end the others.
            report["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
        yield report | {"seconds": round(time.perf_counter() - start, 2)}


def write_function(
    folder: Path,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    gradients: bool = False,
) -> dict[str, Any]:
    """Writes what JAX computes for one call, and the programs that oxidax runs.

    `whole` is the program of the function. `steps` is the same program with the result of every
    operation, by which the first operation that differs is found. The fixture `function` has what
    JAX computes for both, in the cases `whole` and `steps`. The returned report, which is part of
    the fixture, names the operations with their lines.
    """
    jax = importlib.import_module("jax")
    tree = list(arguments)
    leaves = [jax.numpy.asarray(as_array(leaf, path)) for path, leaf in flatten(tree)]

    def on_leaves(*values: Any) -> list[Any]:
        if not gradients:
            return [leaf for _, leaf in flatten(function(*replace_leaves(tree, values)))]
        return _with_gradients(jax, function, tree, values)

    program = Program.of(jax, on_leaves, leaves)
    name = getattr(function, "__name__", "function")
    suite = recorder("suite").Suite("function", f"{name}.", tolerance=FUNCTION_TOLERANCE)
    for part, values_of in (("whole", on_leaves), ("steps", program.every_value)):
        traced = _on_data(jax, values_of)
        results = jax.jit(traced)(*leaves)
        exported = exported_function(jax, traced, leaves)
        write_program(folder / part, f"{name}_{part}", exported, leaves, results)
        suite.case(part, name, [], functools.partial(list, results))
    report = {
        "function": name,
        "line": _line(function),
        "steps": [{"op": step.op, "line": step.line} for step in program.steps],
    }
    suite.extra = report
    suite.write(folder)
    return report


def _with_gradients(jax: Any, function: Any, tree: list[Any], values: Sequence[Any]) -> list[Any]:
    """Returns the results, then the derivatives of the sum of all floating results."""
    inexact = [i for i, v in enumerate(values) if jax.numpy.issubdtype(v.dtype, jax.numpy.inexact)]
    if not inexact:
        raise ValueError("no argument has a floating dtype, so there is no derivative")

    def of_inexact(*chosen: Any) -> list[Any]:
        full = list(values)
        for position, value in zip(inexact, chosen):
            full[position] = value
        return [leaf for _, leaf in flatten(function(*replace_leaves(tree, full)))]

    results, pullback = jax.vjp(of_inexact, *(values[i] for i in inexact))
    zero = jax.dtypes.float0
    ones = [
        jax.numpy.ones_like(r)
        if jax.numpy.issubdtype(r.dtype, jax.numpy.inexact)
        else importlib.import_module("numpy").zeros(r.shape, zero)
        for r in results
    ]
    return [*results, *pullback(ones)]


def _on_data(jax: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function with the integers of random keys in place of keys."""

    def on_data(*values: Any) -> list[Any]:
        results = [jax.numpy.asarray(result) for result in function(*values)]
        return [_data(jax, result) for result in results]

    return on_data


def _data(jax: Any, array: Any) -> Any:
    is_key = jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(array) if is_key else array


def _line(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    if code is None:
        code = getattr(getattr(function, "__wrapped__", None), "__code__", None)
    return "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"
