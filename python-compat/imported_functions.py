"""Writes functions that `jax.export` serializes, with arguments and results, for the tests of
`oxidax::import`.

Usage: python imported_functions.py FILE

Writes a safetensors file with one `u8` array for each function and arrays for its arguments and
results. Its metadata lists the cases as JSON. It runs on eight CPU devices, and leaves out
functions that the installed version of JAX cannot export. The tests have files of several versions
of JAX, each written in a virtual environment with `jax`, `jaxlib` of the same version,
`flatbuffers`, `safetensors` and `absl-py`.
"""

import json
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

import imported_kinds

# The folders of this machine do not go into the files.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
jax.config.update("jax_include_full_tracebacks_in_locations", False)


class Cases:
    def __init__(self):
        self.arrays, self.cases = {}, []

    def put(self, name, array):
        array = np.asarray(array)
        kind = str(array.dtype)
        if array.dtype == jax.dtypes.float0:
            kind, array = "float0", np.zeros(array.shape, np.uint8)
        elif kind in ("int4", "uint4"):
            array = array.astype(np.int8 if kind == "int4" else np.uint8)
        elif array.dtype.itemsize == 1 and kind not in ("int8", "uint8", "bool"):
            array = array.view(np.uint8)
        elif kind == "bfloat16":
            array = array.view(np.uint16)
        elif array.dtype.kind == "c":
            array = np.stack([array.real, array.imag], -1)
        self.arrays[name] = np.array(array, order="C")
        return {"array": name, "dtype": kind}

    def leaves(self, name, tree):
        leaves = jax.tree_util.tree_leaves(tree)
        raw = [raw_of(leaf) for leaf in leaves]
        return [self.put(f"{name}{index}", leaf) for index, leaf in enumerate(raw)]

    def add(self, kind, name, case):
        exported = case.exported()
        data = exported.serialize(vjp_order=case.vjp_order)
        key = f"{kind}/{name}"
        self.arrays[key] = np.frombuffer(bytes(data), np.uint8)
        calls = []
        for index, arguments in enumerate(case.calls):
            # The function runs as it was exported: the derivative of a loaded function is the
            # exported one.
            results = case.run(exported, arguments)
            at = f"{key}.{index}"
            call = {
                "arguments": self.leaves(f"{at}.in", arguments),
                "results": self.leaves(f"{at}.out", results),
            }
            if case.vjp_order:
                results, pull_back = jax.vjp(case.function, *arguments)
                cotangents = jax.tree_util.tree_map(cotangent, results)
                gradients = pull_back(cotangents)
                call["cotangents"] = self.leaves(f"{at}.ct", cotangents)
                call["gradients"] = self.leaves(f"{at}.grad", gradients)
            calls.append(call)
        self.cases.append({
            "kind": kind, "name": name, "devices": exported.nr_devices,
            "tolerance": case.tolerance, "calls": calls,
        })


def cotangent(x):
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        return np.zeros(x.shape, jax.dtypes.float0)
    return jnp.cos(jnp.arange(x.size, dtype=jnp.float32)).reshape(x.shape).astype(x.dtype)


def raw_of(leaf):
    if hasattr(leaf, "dtype") and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.key_data(leaf)
    return leaf


def main():
    out = Cases()
    for kind, name, case in imported_kinds.all_cases():
        try:
            out.add(kind, name, case)
        except Exception as error:
            lines = str(error).splitlines() or [repr(error)]
            print(f"{kind}/{name}: not exported by {jax.__version__}: {lines[0][:150]}")
    metadata = {"jax": jax.__version__, "cases": json.dumps(out.cases)}
    save_file(out.arrays, sys.argv[1], metadata)
    size = os.path.getsize(sys.argv[1])
    print(f"{len(out.cases)} functions of JAX {jax.__version__}, {size} bytes")


main()
