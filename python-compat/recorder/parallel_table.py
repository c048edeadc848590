"""What the suite `parallel` is made of: eight CPU devices, operands by formula, and a list of functions with their derivatives.

`tests/devices/parallel/parity/` has each function's twin under the same name.
"""

import re

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from .names import dtype

CASES = []


def mesh(**sizes):
    """The eight devices, row-major."""
    return Mesh(np.array(jax.devices()).reshape(tuple(sizes.values())), tuple(sizes))


def row():
    """All devices along `i`."""
    return mesh(i=8)


def grid():
    """Four by two."""
    return mesh(a=4, b=2)


def formula(spec: str, seed: int) -> np.ndarray:
    """The operand of a type like `f32[8,2]`: numbers that every dtype has exactly, no two alike among 101 neighbours."""
    kind, dims = re.fullmatch(r"(\w+)\[([\d,]*)\]", spec).groups()
    shape = tuple(int(size) for size in dims.split(",") if size)
    return numbers(kind, shape, seed)


def numbers(kind: str, shape: tuple, seed: int) -> np.ndarray:
    """Numbers of a dtype."""
    steps = (np.arange(int(np.prod(shape))) * 37 + seed * 11) % 101
    if kind == "bool":
        return (steps % 2 == 1).reshape(shape)
    if kind.startswith("c"):
        return (numbers("f64", shape, seed) + 1j * numbers("f64", shape, seed + 5)).astype(dtype(kind))
    if kind.startswith(("f", "bf")):
        return ((steps - 50) / 32).reshape(shape).astype(dtype(kind))
    return (steps if kind.startswith("u") else steps - 50).reshape(shape).astype(dtype(kind))


def like(x, seed):
    """Numbers of the type of an array."""
    kind = {"bfloat16": "bf16", "float32": "f32", "float64": "f64", "complex64": "c64"}[str(x.dtype)]
    return numbers(kind, x.shape, seed)


def case(family, *operands, wrt=None, tolerance=None, jit=True):
    """Lists a function: its operands' types, and which of them it is differentiated by."""

    def listed(f):
        CASES.append((family, f.__name__, operands, wrt, tolerance, jit, f))
        return f

    return listed


def with_derivatives(f, wrt):
    """Values; then the tangents of real results along numbers of seed 20 on; then the cotangents of the operands for those of seed 40 on."""

    def all_of(*xs):
        def real(*chosen):
            full = list(xs)
            for position, value in zip(wrt, chosen):
                full[position] = value
            return [y for y in f(*full) if jax.numpy.issubdtype(y.dtype, jax.numpy.inexact)]

        chosen = [xs[position] for position in wrt]
        tangents = [jax.numpy.asarray(like(x, 20 + n)) for n, x in enumerate(chosen)]
        values, pull = jax.vjp(real, *chosen)
        _, forward = jax.jvp(real, chosen, tangents)
        return [*f(*xs), *forward, *pull([jax.numpy.asarray(like(y, 40 + n)) for n, y in enumerate(values)])]

    return all_of


def put(where, *pairs):
    """Arrays on the devices of a mesh, cut as their specs say."""
    return [jax.device_put(x, NamedSharding(where, spec)) for x, spec in pairs]


def split(f, ins, outs, where=None, **options):
    """`shard_map`, over all devices in a row if nothing is said."""
    return jax.shard_map(f, mesh=where or row(), in_specs=ins, out_specs=outs, **options)


__all__ = ["CASES", "NamedSharding", "P", "case", "formula", "grid", "like", "mesh", "numbers", "put", "row", "split", "with_derivatives"]
