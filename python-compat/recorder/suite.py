"""A suite of cases: recording to two files, and the comparison of `--check`.

Cases outside of the sample are not computed. Arrays that are equal bit for bit are stored once,
under a short key: the number of the first case that uses them, the first letter of the array's role
and its position.
"""

import json
import struct
import sys
import zlib
from pathlib import Path

import numpy as np

from .names import dtype as dtype_of
from .names import short

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"

# safetensors' names of the dtypes that it supports. `_encode` converts the others.
_TENSOR_NAMES = {
    "bool": "BOOL", "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64", "u8": "U8", "u16": "U16",
    "u32": "U32", "u64": "U64", "bf16": "BF16", "f16": "F16", "f32": "F32", "f64": "F64",
}  # fmt: skip
_TENSOR_DTYPES = {stored: name for name, stored in _TENSOR_NAMES.items()}

# Relative and absolute tolerances by dtype, for results of several roundings. A case can override
# them.
TOLERANCE = {
    "bf16": {"rtol": 1.6e-2, "atol": 1e-3},
    "f16": {"rtol": 2e-3, "atol": 1e-4},
    "f32": {"rtol": 2e-6, "atol": 1e-7},
    "f64": {"rtol": 1e-13, "atol": 1e-15},
    "c64": {"rtol": 4e-6, "atol": 1e-6},
    "c128": {"rtol": 2e-13, "atol": 1e-14},
}


# For results without rounding.
EXACT = {"ulp": 0}
# Arrays that a case with derivatives records in addition to its outputs; see README.md.
GRAD_ROLES = ("tangents", "jvp", "cotangents", "vjp")


def seed(name: str) -> int:
    """Returns a number that depends only on a case's name, not on the order of cases."""
    return zlib.crc32(name.encode())


def _encode(array: np.ndarray) -> tuple[np.ndarray, str | None]:
    """Returns the stored array, and the dtype's name if safetensors does not support it."""
    name = short(array.dtype)
    if name in ("c64", "c128"):
        part = np.float32 if name == "c64" else np.float64
        return np.ascontiguousarray(np.stack([array.real, array.imag], axis=-1).astype(part)), name
    if name.startswith("f8"):
        return np.ascontiguousarray(array).view(np.uint8), name
    if name in ("i4", "u4"):
        return array.astype(np.int8 if name == "i4" else np.uint8), name
    return np.array(array, order="C"), None


def decode(stored: np.ndarray, encoded: str | None) -> np.ndarray:
    """Inverts `_encode`."""
    if encoded is None:
        return stored
    if encoded in ("c64", "c128"):
        # `real + 1j * imag` would turn an infinite part into NaN.
        return np.ascontiguousarray(stored).view(dtype_of(encoded))[..., 0]
    if encoded.startswith("f8"):
        return stored.view(dtype_of(encoded))
    return stored.astype(dtype_of(encoded))


def load(name: str) -> tuple[dict, dict[str, np.ndarray]]:
    """Loads a recorded suite: its JSON and its decoded arrays."""
    index = json.loads((FIXTURES / f"{name}.json").read_text())
    blob = (FIXTURES / f"{name}.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", blob[:8])
    arrays = {}
    for key, entry in json.loads(blob[8 : 8 + length]).items():
        if key == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        stored_dtype = dtype_of(_TENSOR_DTYPES[entry["dtype"]])
        stored = np.frombuffer(blob[8 + length + begin : 8 + length + end], stored_dtype).reshape(
            entry["shape"]
        )
        arrays[key] = decode(stored, index["encoded"].get(key))
    return index, arrays


def _as_list(outputs) -> list[np.ndarray]:
    """Converts one array or several to a list of NumPy arrays."""
    return [np.asarray(x) for x in _tuple(outputs)]


def draw(rng, like: np.ndarray) -> np.ndarray:
    """Returns normal random numbers with the shape and dtype of an array."""
    values = rng.normal(size=like.shape)
    if like.dtype.kind == "c":
        values = values + 1j * rng.normal(size=like.shape)
    return np.asarray(values).astype(like.dtype)


def _derivatives(name, compute, inputs, wrt):
    """Returns values, and derivatives by the operands `wrt` for random tangents and cotangents."""
    import jax

    def values_and_derivatives(inputs, tangents, cotangents):
        def function(*values):
            full = list(inputs)
            for position, value in zip(wrt, values):
                full[position] = value
            return _tuple(compute(*full))

        values = [inputs[position] for position in wrt]
        outputs, forward = jax.jvp(function, values, tangents)
        return outputs, forward, jax.vjp(function, *values)[1](cotangents)

    rng = np.random.default_rng(seed(name))
    tangents = [draw(rng, inputs[position]) for position in wrt]
    shapes = jax.eval_shape(lambda *xs: _tuple(compute(*xs)), *inputs)
    cotangents = tuple(draw(rng, np.empty(out.shape, out.dtype)) for out in shapes)
    outputs, forward, backward = jax.jit(values_and_derivatives)(inputs, tangents, cotangents)
    return _as_list(outputs), {
        "tangents": tangents,
        "jvp": _as_list(forward),
        "cotangents": list(cotangents),
        "vjp": _as_list(backward),
    }


def _tuple(outputs):
    return tuple(outputs) if isinstance(outputs, (list, tuple)) else (outputs,)


def _line_of(compute) -> str:
    """Returns the file and line of a case: of its function, or of the code that added it."""
    code = getattr(compute, "__code__", None)
    if code is not None and Path(code.co_filename).parent == Path(__file__).parent:
        return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


class Suite:
    """Cases with a common name. A `stride` above 1 selects one in `stride` cases by name."""

    # Turned on by `oxidax verify`: cases have a field `line`, and a case whose computation fails
    # is a line of `failures` instead of an error.
    is_for_verify = False

    def __init__(self, name: str, about: str, *, stride: int = 1, tolerance: dict | None = None):
        self.name, self.about, self.stride = name, about, stride
        self.tolerance = TOLERANCE | (tolerance or {})
        self.cases, self.arrays, self.encoded, self.extra = [], {}, {}, {}
        self._keys, self._names, self.failures = {}, set(), {}

    def case(self, name, op, inputs, compute, params=None, tolerance=None, wrt=None, **more):
        """Adds a case.

        `compute(*inputs)` returns one array or a list of arrays. `more` is added to the case's
        JSON. With `wrt`, the positions of differentiable operands, derivatives are recorded too,
        and `compute` must be traceable.
        """
        assert name not in self._names, f"two cases are named {name}"
        self._names.add(name)
        if seed(name) % self.stride:
            return
        inputs = [np.asarray(x) for x in inputs]
        if self.is_for_verify:
            more = more | {"line": _line_of(compute)}
        try:
            outputs, grad = self._compute(name, inputs, compute, wrt)
        except Exception as error:
            if not self.is_for_verify:
                raise
            self.failures[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            return
        entry = {"name": name, "op": op, "params": params or {}}
        number = len(self.cases)
        entry["inputs"] = [self._store(f"{number}i{i}", x) for i, x in enumerate(inputs)]
        entry["outputs"] = [self._store(f"{number}o{i}", x) for i, x in enumerate(outputs)]
        if grad is not None:
            stored = {
                role: [self._store(f"{number}{role[0]}{i}", x) for i, x in enumerate(grad[role])]
                for role in GRAD_ROLES
            }
            entry["grad"] = {"wrt": list(wrt)} | stored
        if tolerance is not None:
            entry["tolerance"] = tolerance
        self.cases.append(entry | more)

    def _compute(self, name, inputs, compute, wrt):
        """Returns the outputs, and the derivatives if `wrt` is given."""
        if wrt is None:
            return _as_list(compute(*inputs)), None
        return _derivatives(name, compute, inputs, wrt)

    def _store(self, key: str, array: np.ndarray) -> str:
        stored, encoded = _encode(array)
        content = (short(array.dtype), array.shape, stored.tobytes())
        if content in self._keys:
            return self._keys[content]
        self._keys[content] = key
        self.arrays[key] = stored
        if encoded:
            self.encoded[key] = encoded
        return key

    def write(self, folder: Path = FIXTURES):
        """Writes both files to a folder, and returns the size of the arrays' file.

        Equal results give equal files.
        """
        # Wide elements come first, so that arrays in a mapped file are aligned.
        order = sorted(self.arrays, key=lambda key: (-self.arrays[key].dtype.itemsize, key))
        header, offset = {}, 0
        for key in order:
            array = self.arrays[key]
            entry = {"dtype": _TENSOR_NAMES[short(array.dtype)], "shape": list(array.shape)}
            header[key] = entry | {"data_offsets": [offset, offset + array.nbytes]}
            offset += array.nbytes
        head = json.dumps(header, separators=(",", ":")).encode()
        head += b" " * (-len(head) % 8)
        blob = (
            struct.pack("<Q", len(head))
            + head
            + b"".join(self.arrays[key].tobytes() for key in order)
        )
        folder.mkdir(exist_ok=True)
        (folder / f"{self.name}.safetensors").write_bytes(blob)
        (folder / f"{self.name}.json").write_text(self._json())
        return len(blob)

    def _json(self) -> str:
        import jax

        top = {"suite": self.name, "about": self.about, "jax": jax.__version__, "x64": True}
        top |= {
            "tolerance": self.tolerance,
            "encoded": dict(sorted(self.encoded.items())),
        } | self.extra
        lines = [json.dumps(case, ensure_ascii=True) for case in self.cases]
        head = json.dumps(top, indent=1)
        return head[:-2] + ',\n "cases": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"

    def check(self) -> list[str]:
        """Compares the computed cases with the committed ones. Returns one line per difference."""
        index, recorded = load(self.name)
        cases = {case["name"]: case for case in index["cases"]}
        problems, exact, arrays = [], 0, 0
        if self.stride == 1 and set(cases) != self._names:
            problems.append(
                f"{self.name}: recorded cases differ from the script's: {set(cases) ^ self._names}"
            )
        for case in self.cases:
            old = cases.get(case["name"])
            label = f"{self.name}/{case['name']}"
            if old is None:
                problems.append(f"{label}: not recorded yet")
                continue
            for field in ("op", "params", "tolerance"):
                if json.loads(json.dumps(case.get(field))) != old.get(field):
                    problems.append(
                        f"{label}: {field} changed: {old.get(field)} -> {case.get(field)}"
                    )
            for role in ("inputs", "outputs", *GRAD_ROLES):
                keys_of = lambda c: (
                    c.get("grad", {}).get(role, []) if role in GRAD_ROLES else c[role]
                )
                if len(keys_of(case)) != len(keys_of(old)):
                    problems.append(
                        f"{label}: {len(keys_of(old))} {role} recorded, {len(keys_of(case))} now"
                    )
                    continue
                for new_key, old_key in zip(keys_of(case), keys_of(old)):
                    new = decode(self.arrays[new_key], self.encoded.get(new_key))
                    tolerance = (
                        case.get("tolerance") if role in ("outputs", "jvp", "vjp") else {"ulp": 0}
                    )
                    problem, is_equal = _differ(new, recorded[old_key], tolerance, self.tolerance)
                    arrays, exact = arrays + 1, exact + is_equal
                    if problem:
                        problems.append(f"{label}: {role} {old_key}: {problem}")
        print(
            f"{self.name}: {len(self.cases)} of {len(cases)} cases, "
            f"{exact} of {arrays} arrays equal bit for bit"
        )
        return problems


def _differ(new, old, tolerance, defaults) -> tuple[str | None, bool]:
    """Returns a description of the difference, if any, and true if both are equal bit for bit."""
    if new.dtype != old.dtype or new.shape != old.shape:
        return f"was {old.dtype}{old.shape}, is {new.dtype}{new.shape}", False
    if new.tobytes() == old.tobytes():
        return None, True
    name = short(new.dtype)
    bounds = tolerance if tolerance and "rtol" in tolerance else defaults.get(name)
    if bounds is None:
        return "values differ and the dtype is exact", False
    wide = np.complex128 if name.startswith("c") else np.float64
    a, b = new.astype(wide), old.astype(wide)
    if np.allclose(a, b, rtol=bounds["rtol"], atol=bounds["atol"], equal_nan=True):
        return None, False
    return f"largest difference {np.nanmax(np.abs(a - b))}, allowed {bounds}", False
