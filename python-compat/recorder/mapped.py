"""Adds a case together with the same case under `vmap`."""

import jax
import numpy as np


def plain_and_mapped(
    suite, name, op, inputs, run, params, *, wrt=None, tolerance=None, in_axes=None, plain=True
):
    """Adds the case `name`, if `plain`, and the case `vmap_name`.

    The latter maps axis 0 of the operands that `in_axes` marks with 0, each a batch of three.
    """
    compute = run if wrt else jax.jit(run)
    if plain:
        suite.case(name, op, inputs, compute, params, tolerance, wrt)
    in_axes = in_axes if in_axes is not None else [0] * len(inputs)
    stacked = [x if axis is None else _batch(x) for x, axis in zip(inputs, in_axes)]
    mapped = jax.vmap(run, in_axes)
    suite.case(
        f"vmap_{name}",
        op,
        stacked,
        mapped if wrt else jax.jit(mapped),
        params | {"in_axes": in_axes},
        tolerance,
        wrt,
    )


def _batch(x):
    """Stacks three permutations of an array."""
    x = np.asarray(x)
    return np.stack([x, np.roll(x, 1), np.roll(x, -2)])
