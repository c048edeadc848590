"""Common parts of the suite `parallel`: meshes, operands by formula, and the list of functions.

`tests/devices/parallel/parity/` contains each function in Rust under the same name.
"""

import re

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from .names import dtype

CASES = []


def mesh(**sizes):
    """Returns a mesh of the eight devices in row-major order."""
    return Mesh(np.array(jax.devices()).reshape(tuple(sizes.values())), tuple(sizes))


def row():
    """Returns a mesh of all devices along `i`."""
    return mesh(i=8)


def grid():
    """Returns a mesh of four by two devices."""
    return mesh(a=4, b=2)


def formula(spec: str, seed: int) -> np.ndarray:
    """Returns the operand of a type such as `f32[8,2]`.

    Its numbers are exact in every dtype, and any 101 neighbours are distinct.
    """
    kind, dims = re.fullmatch(r"(\w+)\[([\d,]*)\]", spec).groups()
    shape = tuple(int(size) for size in dims.split(",") if size)
    return numbers(kind, shape, seed)


def numbers(kind: str, shape: tuple, seed: int) -> np.ndarray:
    """Returns the numbers of an operand, see `formula`."""
    steps = (np.arange(int(np.prod(shape))) * 37 + seed * 11) % 101
    if kind == "bool":
        return (steps % 2 == 1).reshape(shape)
    if kind.startswith("c"):
        return (numbers("f64", shape, seed) + 1j * numbers("f64", shape, seed + 5)).astype(
            dtype(kind)
        )
    if kind.startswith(("f", "bf")):
        return ((steps - 50) / 32).reshape(shape).astype(dtype(kind))
    return (steps if kind.startswith("u") else steps - 50).reshape(shape).astype(dtype(kind))


def like(x, seed):
    """Returns an operand with the type of an array."""
    kind = {"bfloat16": "bf16", "float32": "f32", "float64": "f64", "complex64": "c64"}[
        str(x.dtype)
    ]
    return numbers(kind, x.shape, seed)


def case(family, *operands, wrt=None, tolerance=None, jit=True):
    """Registers a function with the types of its operands and the operands of its derivatives."""

    def register(f):
        CASES.append((family, f.__name__, operands, wrt, tolerance, jit, f))
        return f

    return register


def with_derivatives(f, wrt):
    """Returns a function that computes values and derivatives.

    Its results are the values, then the tangents of inexact results along the numbers of seeds 20
    and up, then the cotangents of the operands for those of seeds 40 and up.
    """

    def all_of(*xs):
        def real(*values_of_wrt):
            full = list(xs)
            for position, value in zip(wrt, values_of_wrt):
                full[position] = value
            return [y for y in f(*full) if jax.numpy.issubdtype(y.dtype, jax.numpy.inexact)]

        values_of_wrt = [xs[position] for position in wrt]
        tangents = [jax.numpy.asarray(like(x, 20 + n)) for n, x in enumerate(values_of_wrt)]
        values, pull = jax.vjp(real, *values_of_wrt)
        _, forward = jax.jvp(real, values_of_wrt, tangents)
        return [
            *f(*xs),
            *forward,
            *pull([jax.numpy.asarray(like(y, 40 + n)) for n, y in enumerate(values)]),
        ]

    return all_of


def put(where, *pairs):
    """Places arrays on a mesh with their specs."""
    return [jax.device_put(x, NamedSharding(where, spec)) for x, spec in pairs]


def split(f, ins, outs, where=None, **options):
    """Returns `shard_map` of a function, by default over a row of all devices."""
    return jax.shard_map(f, mesh=where or row(), in_specs=ins, out_specs=outs, **options)


__all__ = [
    "CASES",
    "NamedSharding",
    "P",
    "case",
    "formula",
    "grid",
    "like",
    "mesh",
    "numbers",
    "put",
    "row",
    "split",
    "with_derivatives",
]
