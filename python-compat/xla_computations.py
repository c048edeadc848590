"""Writes computations of XLA's builder as protocol buffers, with arguments and results, for the
tests of `oxidax::import::module`.

Usage: python xla_computations.py FILE

XLA's builder is the C++ class that the Rust crate `xla` (xla-rs) wraps; jaxlib 0.4.31 wraps it too.
Writes a safetensors file with one `u8` array for each computation, and arrays for its arguments and
results. It needs `jax` and `jaxlib` 0.4.31, and `safetensors`.
"""

import json
import sys
import zlib

import jax
import numpy as np
from jax._src.lib import xla_client
from safetensors.numpy import save_file

ops = xla_client.ops
Shape = xla_client.Shape


def numbers(name, *shape):
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    return generator.uniform(-1, 1, shape).astype(np.float32)


def scalar_computation(operation):
    builder = xla_client.XlaBuilder("scalar")
    shape = Shape.array_shape(np.dtype(np.float32), ())
    a, b = (ops.Parameter(builder, index, shape) for index in range(2))
    operation(a, b)
    return builder.build()


def polynomial(builder, x):
    two = ops.Constant(builder, np.float32(2))
    return ops.Add(ops.Mul(x, x), ops.Mul(x, two))


def layer(builder, x, w, b):
    y = ops.Dot(x, w)
    zero = ops.Constant(builder, np.float32(0))
    shifted = ops.Add(y, b, broadcast_dimensions=[1])
    return ops.Tuple(builder, [ops.Max(shifted, zero), y])


def softmax(builder, x):
    highest = ops.Reduce(builder, [x], [ops.Constant(builder, np.float32(-np.inf))],
                         scalar_computation(ops.Max), [1])
    powers = ops.Exp(ops.Sub(x, highest, broadcast_dimensions=[0]))
    total = ops.Reduce(builder, [powers], [ops.Constant(builder, np.float32(0))],
                       scalar_computation(ops.Add), [1])
    return ops.Div(powers, total, broadcast_dimensions=[0])


def newton(builder, a):
    shape = Shape.array_shape(np.dtype(np.float32), ())
    state = Shape.tuple_shape([shape, shape])
    condition = xla_client.XlaBuilder("condition")
    pair = ops.Parameter(condition, 0, state)
    x, a_inside = (ops.GetTupleElement(pair, index) for index in range(2))
    distance = ops.Abs(ops.Sub(ops.Mul(x, x), a_inside))
    ops.Gt(distance, ops.Constant(condition, np.float32(1e-5)))
    body = xla_client.XlaBuilder("body")
    pair = ops.Parameter(body, 0, state)
    x, a_inside = (ops.GetTupleElement(pair, index) for index in range(2))
    half = ops.Constant(body, np.float32(0.5))
    ops.Tuple(body, [ops.Mul(half, ops.Add(x, ops.Div(a_inside, x))), a_inside])
    result = ops.While(condition.build(), body.build(), ops.Tuple(builder, [a, a]))
    return ops.GetTupleElement(result, 0)


def integers(builder, x):
    return ops.Add(ops.ConvertElementType(x, xla_client.PrimitiveType.S32),
                   ops.Iota(builder, xla_client.PrimitiveType.S32, 5))


COMPUTATIONS = {
    "polynomial": (polynomial, [numbers("x", 7)]),
    "layer": (layer, [numbers("x", 3, 4), numbers("w", 4, 5), numbers("b", 5)]),
    "softmax": (softmax, [numbers("x", 3, 4)]),
    "newton": (newton, [np.float32(3)]),
    "integers": (integers, [np.float32([1.5, -2.5, 3, 4, 5])]),
}


def main():
    backend = jax.devices("cpu")[0].client
    arrays, cases = {}, []
    for name, (build, arguments) in COMPUTATIONS.items():
        builder = xla_client.XlaBuilder(name)
        shapes = [Shape.array_shape(x.dtype, x.shape) for x in arguments]
        parameters = [ops.Parameter(builder, i, shape) for i, shape in enumerate(shapes)]
        build(builder, *parameters)
        computation = builder.build()
        arrays[name] = np.frombuffer(computation.as_serialized_hlo_module_proto(), np.uint8)
        module = xla_client._xla.mlir.xla_computation_to_mlir_module(computation)
        executable = backend.compile(module)
        placed = [backend.buffer_from_pyval(x) for x in arguments]
        results = [np.asarray(result) for result in executable.execute(placed)]
        for kind, each in (("in", arguments), ("out", results)):
            for index, x in enumerate(each):
                arrays[f"{name}.{kind}{index}"] = np.array(x)
        cases.append({"name": name, "inputs": len(arguments), "outputs": len(results)})
    save_file(arrays, sys.argv[1], {"cases": json.dumps(cases)})
    print(f"{len(cases)} computations of jaxlib {jax.__version__}")


main()
