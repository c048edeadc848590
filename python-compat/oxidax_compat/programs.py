"""Traced functions of JAX as lists of operations, and as modules that oxidax runs."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .dtypes import short_name

# Primitives that only hold a program, with the parameter that is it. Their operations are listed.
_HOLDERS = {
    "pjit": "jaxpr",
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat": "jaxpr",
    "checkpoint": "jaxpr",
}


@dataclasses.dataclass(frozen=True)
class Step:
    """One result of an operation: the primitive, and the line of Python that called it."""

    op: str
    line: str


@dataclasses.dataclass
class Program:
    """A traced function. Loops and conditionals are one operation each."""

    jax: Any
    closed: Any
    steps: list[Step]

    @staticmethod
    def of(jax: Any, function: Callable[..., Any], leaves: Sequence[Any]) -> Program:
        """Traces a function of arrays that returns a list of arrays."""
        closed = jax.make_jaxpr(function)(*leaves)
        program = Program(jax, closed, [])
        jax.eval_shape(program.every_value, *leaves)  # fills `steps`
        return program

    def every_value(self, *leaves: Any) -> list[Any]:
        """Computes the function and returns the result of every operation, in their order."""
        values: list[Any] = []
        steps: list[Step] = []
        self._run(self.closed.jaxpr, self.closed.consts, leaves, values, steps)
        self.steps[:] = steps
        return values

    def _run(
        self,
        jaxpr: Any,
        consts: Sequence[Any],
        leaves: Sequence[Any],
        values: list[Any],
        steps: list[Step],
    ) -> list[Any]:
        known: dict[Any, Any] = {}

        def read(var: Any) -> Any:
            return var.val if hasattr(var, "val") else known[var]

        known.update(zip(jaxpr.constvars, consts))
        known.update(zip(jaxpr.invars, leaves))
        for eqn in jaxpr.eqns:
            operands = [read(var) for var in eqn.invars]
            name = eqn.primitive.name
            inner = eqn.params.get(_HOLDERS.get(name, ""))
            if inner is not None:
                body, constants = getattr(inner, "jaxpr", inner), getattr(inner, "consts", ())
                results = self._run(body, constants, operands, values, steps)
            else:
                results = _bind(eqn, operands)
                results = list(results) if eqn.primitive.multiple_results else [results]
                values.extend(results)
                steps.extend([Step(name, _source_line(eqn))] * len(results))
            known.update(zip(eqn.outvars, results))
        return [read(var) for var in jaxpr.outvars]


def _bind(eqn: Any, operands: Sequence[Any]) -> Any:
    bound = eqn.primitive.get_bind_params(eqn.params)
    if isinstance(bound, dict):
        return eqn.primitive.bind(*operands, **bound)
    functions, params = bound  # Until JAX 0.9 the functions are separate.
    return eqn.primitive.bind(*functions, *operands, **params)


def _source_line(eqn: Any) -> str:
    """Returns the file and line that called an operation, or "" if JAX does not record it."""
    try:
        private = importlib.import_module("jax._src.source_info_util")
        return str(private.summarize(eqn.source_info))
    except Exception:  # The module is internal to JAX and may change.
        return ""


def exported_function(jax: Any, function: Callable[..., Any], leaves: Sequence[Any]) -> Any:
    """Exports a function of arrays that returns a list of arrays, for CPUs."""
    jax_export = importlib.import_module("jax.export")
    return jax_export.export(jax.jit(function, keep_unused=True), platforms=["cpu"])(*leaves)


def write_program(
    folder: Path, name: str, exported: Any, inputs: Sequence[Any], results: Sequence[Any]
) -> None:
    """Writes an exported function, and its module with inputs as a reproducer, which `oxidax
    replay` runs too."""
    (folder / "inputs").mkdir(parents=True, exist_ok=True)
    (folder / "module.mlir").write_text(str(exported.mlir_module()))
    (folder / "function.jax_export").write_bytes(exported.serialize())
    entries = []
    for index, value in enumerate(inputs):
        file = f"inputs/{index:03}.npy"
        array = np.asarray(value)
        np.save(folder / file, array, allow_pickle=False)
        entries.append({"file": file, "path": f"[{index}]", "sharding": None} | _type(array))
    manifest = {
        "name": name,
        "devices": 1,
        "mesh": None,
        "inputs": entries,
        "results": [_type(result) for result in results],
    }
    (folder / "reproducer.json").write_text(json.dumps(manifest, indent=1))


def _type(array: Any) -> dict[str, Any]:
    return {"dtype": short_name(array.dtype), "shape": list(array.shape)}
