"""Rows of the suite `api`: an operation by name, its operands, and what JAX makes of them.

A name stands for one call with its options, so that the other side is a table of calls with the same names.
"""

from dataclasses import dataclass, field

import jax
import numpy as np

from .names import dtype
from .suite import EXACT, seed


@dataclass(frozen=True)
class R:
    """Real numbers of an interval, in the dtype of the case."""

    shape: tuple
    low: float = -2.0
    high: float = 2.0

    def draw(self, name, kind):
        """The array, the same for the same name; f64 draws are rounded for f32."""
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
        """The array."""
        return np.random.default_rng(seed(name)).integers(self.low, self.high, self.shape).astype(dtype(self.kind))


@dataclass(frozen=True)
class B:
    """Booleans."""

    shape: tuple

    def draw(self, name, kind):
        """The array."""
        return np.random.default_rng(seed(name)).uniform(size=self.shape) > 0.5


@dataclass(frozen=True)
class V:
    """Listed values: floats in the dtype of the case, integers as `i32`, booleans as they are."""

    values: list

    def draw(self, name, kind):
        """The array."""
        array = np.array(self.values)
        if array.dtype.kind == "i":
            return array.astype(np.int32)
        return array if array.dtype.kind == "b" else array.astype(dtype(kind))


@dataclass(frozen=True)
class Row:
    """One call. `wrt`: differentiable operands. `kinds`: dtypes of its floats. `batch`: also under vmap, of all operands."""

    op: str
    operands: list
    compute: object
    wrt: tuple | None = None
    kinds: tuple = ("f32",)
    batch: bool = True
    exact: bool = False
    tolerance: dict | None = field(default=None)


def record(suite, family, rows):
    """Records the rows: each in its dtypes, and in the first of them under vmap."""
    for row in rows:
        for kind in row.kinds:
            name = f"{row.op}_{kind}"
            arrays = [x.draw(f"{row.op}{i}", kind) for i, x in enumerate(row.operands)]
            _case(suite, family, row, name, arrays, row.compute, {})
        if row.batch and row.operands:
            kind = row.kinds[0]
            arrays = [np.stack([x.draw(f"{row.op}{i}.{n}", kind) for n in range(2)]) for i, x in enumerate(row.operands)]
            _case(suite, family, row, f"{row.op}_vmap", arrays, jax.vmap(row.compute), {"vmap": True})


def _case(suite, family, row, name, arrays, compute, params):
    tolerance = row.tolerance or (EXACT if row.exact else None)
    run = compute if row.wrt else jax.jit(compute)
    suite.case(name, row.op, arrays, run, {"family": family} | params, tolerance, row.wrt)
