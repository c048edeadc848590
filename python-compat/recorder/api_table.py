"""Rows of the suite `api`: the name of an operation, its operands and the call of JAX.

A name stands for one call with its options. The Rust tests are a table of calls with these names.
"""

from dataclasses import dataclass, field

import jax
import numpy as np

from .names import dtype
from .suite import EXACT, seed


@dataclass(frozen=True)
class R:
    """Real numbers from an interval, in the dtype of the case."""

    shape: tuple
    low: float = -2.0
    high: float = 2.0

    def draw(self, name, kind):
        """Draws the array. The same name gives the same numbers, rounded to the dtype."""
        values = np.random.default_rng(seed(name)).uniform(self.low, self.high, self.shape)
        return values.astype(dtype(kind))


@dataclass(frozen=True)
class I:
    """Integers `low <= i < high`."""

    shape: tuple
    low: int = 0
    high: int = 10
    kind: str = "i32"

    def draw(self, name, kind):
        """Draws the array."""
        return (
            np.random.default_rng(seed(name))
            .integers(self.low, self.high, self.shape)
            .astype(dtype(self.kind))
        )


@dataclass(frozen=True)
class B:
    """Booleans."""

    shape: tuple

    def draw(self, name, kind):
        """Draws the array."""
        return np.random.default_rng(seed(name)).uniform(size=self.shape) > 0.5


@dataclass(frozen=True)
class V:
    """Listed values: floats in the dtype of the case, integers as `i32`, booleans unchanged."""

    values: list

    def draw(self, name, kind):
        """Returns the array."""
        array = np.array(self.values)
        if array.dtype.kind == "i":
            return array.astype(np.int32)
        return array if array.dtype.kind == "b" else array.astype(dtype(kind))


@dataclass(frozen=True)
class Row:
    """One call of a function.

    `wrt` are the differentiable operands, and `kinds` the dtypes of the case's floats. With `batch`
    the call is also recorded under `vmap` over all operands.
    """

    op: str
    operands: list
    compute: object
    wrt: tuple | None = None
    kinds: tuple = ("f32",)
    batch: bool = True
    exact: bool = False
    tolerance: dict | None = field(default=None)


def record(suite, family, rows):
    """Records each row in its dtypes, and in the first of them also under `vmap`."""
    for row in rows:
        for kind in row.kinds:
            name = f"{row.op}_{kind}"
            arrays = [x.draw(f"{row.op}{i}", kind) for i, x in enumerate(row.operands)]
            _case(suite, family, row, name, arrays, row.compute, {})
        if row.batch and row.operands:
            kind = row.kinds[0]
            arrays = [
                np.stack([x.draw(f"{row.op}{i}.{n}", kind) for n in range(2)])
                for i, x in enumerate(row.operands)
            ]
            _case(
                suite, family, row, f"{row.op}_vmap", arrays, jax.vmap(row.compute), {"vmap": True}
            )


def _case(suite, family, row, name, arrays, compute, params):
    tolerance = row.tolerance or (EXACT if row.exact else None)
    run = compute if row.wrt else jax.jit(compute)
    suite.case(name, row.op, arrays, run, {"family": family} | params, tolerance, row.wrt)
