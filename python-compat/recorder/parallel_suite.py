"""Programs on eight CPU devices.

`op` is a function of `recorder/parallel_*.py`. `params.operands` are the types of its operands,
which are computed and not stored. With `params.wrt` the outputs are values, tangents and
cotangents. `specs` are the shardings of the results.
"""

import importlib

import jax
from jax.sharding import NamedSharding

from .parallel_table import CASES, formula, with_derivatives
from .suite import Suite

FAMILIES = ("collectives", "gradients", "composed", "models", "pmapped", "sharded", "sharded_steps")
LOOSE = {
    "f32": {"rtol": 2e-5, "atol": 4e-6},
    "f64": {"rtol": 1e-11, "atol": 1e-13},
    "c64": {"rtol": 2e-5, "atol": 4e-6},
}


def spec_of(x):
    """Returns the spec of an array as a list of lists of axes, without empty entries at its end."""
    assert isinstance(x.sharding, NamedSharding), x.sharding
    entries = [
        [] if axis is None else [axis] if isinstance(axis, str) else list(axis)
        for axis in x.sharding.spec
    ]
    while entries and not entries[-1]:
        entries.pop()
    return entries


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    for family in FAMILIES:
        importlib.import_module(f"recorder.parallel_{family}")
    suite = Suite("parallel", __doc__.strip(), stride=stride, tolerance=LOOSE)
    suite.extra["families"] = list(FAMILIES)
    for family, name, operands, wrt, tolerance, jit, f in CASES:
        specs = []

        def compute(f=f, operands=operands, wrt=wrt, jit=jit, family=family, specs=specs):
            xs = [jax.numpy.asarray(formula(spec, seed)) for seed, spec in enumerate(operands)]
            run = f if wrt is None else with_derivatives(f, wrt)
            try:
                results = (jax.jit(run) if jit else run)(*xs)
            except Exception as error:
                error.add_note(f"in the case {f.__name__}")
                raise
            if family.startswith("sharded"):
                specs.extend(spec_of(x) for x in results)
            return results

        params = {"family": family, "operands": list(operands)}
        if wrt is not None:
            params["wrt"] = list(wrt)
        more = {"specs": specs} if family.startswith("sharded") else {}
        suite.case(name, name, [], compute, params, tolerance, **more)
    return suite
