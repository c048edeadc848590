"""One suite: its cases, the two files they are written to, and the comparison that `--check` makes.

A case is computed lazily, so that a check of a sample pays only for the sample. Arrays that are equal bit for bit are stored
once; the first case that needs them gives the key its name.
"""

import json
import struct
import zlib
from pathlib import Path

import numpy as np

from .names import dtype as dtype_of
from .names import short

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"

# How safetensors names the dtypes that it can state; the others travel as bytes, see `_encode`.
_TENSOR_NAMES = {
    "bool": "BOOL", "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64", "u8": "U8", "u16": "U16", "u32": "U32",
    "u64": "U64", "bf16": "BF16", "f16": "F16", "f32": "F32", "f64": "F64",
}  # fmt: skip
_TENSOR_DTYPES = {stored: name for name, stored in _TENSOR_NAMES.items()}

# Relative and absolute tolerance by dtype, for results that go through several roundings. A case may tighten or loosen it.
TOLERANCE = {
    "bf16": {"rtol": 1.6e-2, "atol": 1e-3},
    "f16": {"rtol": 2e-3, "atol": 1e-4},
    "f32": {"rtol": 2e-6, "atol": 1e-7},
    "f64": {"rtol": 1e-13, "atol": 1e-15},
    "c64": {"rtol": 4e-6, "atol": 1e-6},
    "c128": {"rtol": 2e-13, "atol": 1e-14},
}


# For results that no rounding touches.
EXACT = {"ulp": 0}
# What a case with derivatives records beside its outputs: see README.md.
GRAD_ROLES = ("tangents", "jvp", "cotangents", "vjp")


def seed(name: str) -> int:
    """A number that follows from a case's name alone, so that cases do not depend on their order."""
    return zlib.crc32(name.encode())


def _encode(array: np.ndarray) -> tuple[np.ndarray, str | None]:
    """What the file stores, and the dtype's name when the file itself cannot state it."""
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
    """The inverse of `_encode`."""
    if encoded is None:
        return stored
    if encoded in ("c64", "c128"):
        # Not `real + 1j * imag`, which makes NaN of an infinite part.
        return np.ascontiguousarray(stored).view(dtype_of(encoded))[..., 0]
    if encoded.startswith("f8"):
        return stored.view(dtype_of(encoded))
    return stored.astype(dtype_of(encoded))


def load(name: str) -> tuple[dict, dict[str, np.ndarray]]:
    """A recorded suite: its JSON, and its arrays decoded."""
    index = json.loads((FIXTURES / f"{name}.json").read_text())
    blob = (FIXTURES / f"{name}.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", blob[:8])
    arrays = {}
    for key, entry in json.loads(blob[8 : 8 + length]).items():
        if key == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        stored_dtype = dtype_of(_TENSOR_DTYPES[entry["dtype"]])
        stored = np.frombuffer(blob[8 + length + begin : 8 + length + end], stored_dtype).reshape(entry["shape"])
        arrays[key] = decode(stored, index["encoded"].get(key))
    return index, arrays


def _listed(outputs) -> list[np.ndarray]:
    """One array or several, as numpy arrays."""
    return [np.asarray(x) for x in _tuple(outputs)]


def draw(rng, like: np.ndarray) -> np.ndarray:
    """Normal numbers of an array's shape and dtype."""
    values = rng.normal(size=like.shape)
    if like.dtype.kind == "c":
        values = values + 1j * rng.normal(size=like.shape)
    return np.asarray(values).astype(like.dtype)


def _derivatives(name, compute, inputs, wrt):
    """Values, and the derivatives by the operands `wrt` along random tangents and against random cotangents."""
    import jax

    def values_and_derivatives(inputs, tangents, cotangents):
        def function(*chosen):
            full = list(inputs)
            for position, value in zip(wrt, chosen):
                full[position] = value
            return _tuple(compute(*full))

        chosen = [inputs[position] for position in wrt]
        outputs, forward = jax.jvp(function, chosen, tangents)
        return outputs, forward, jax.vjp(function, *chosen)[1](cotangents)

    rng = np.random.default_rng(seed(name))
    tangents = [draw(rng, inputs[position]) for position in wrt]
    shapes = jax.eval_shape(lambda *xs: _tuple(compute(*xs)), *inputs)
    cotangents = tuple(draw(rng, np.empty(out.shape, out.dtype)) for out in shapes)
    outputs, forward, backward = jax.jit(values_and_derivatives)(inputs, tangents, cotangents)
    return _listed(outputs), {
        "tangents": tangents,
        "jvp": _listed(forward),
        "cotangents": list(cotangents),
        "vjp": _listed(backward),
    }


def _tuple(outputs):
    return tuple(outputs) if isinstance(outputs, (list, tuple)) else (outputs,)


class Suite:
    """Cases under one name. `stride` above 1 keeps one case in so many, chosen by its name."""

    def __init__(self, name: str, about: str, *, stride: int = 1, tolerance: dict | None = None):
        self.name, self.about, self.stride = name, about, stride
        self.tolerance = TOLERANCE | (tolerance or {})
        self.cases, self.arrays, self.encoded, self.extra = [], {}, {}, {}
        self._keys, self._names = {}, set()

    def case(self, name, op, inputs, compute, params=None, tolerance=None, wrt=None, **more):
        """Adds a case. `compute(*inputs)` gives one array or a list of them; `more` joins the case's JSON as it is.

        With `wrt`, the positions of differentiable operands, `compute` must be traceable, and derivatives are recorded too.
        """
        assert name not in self._names, f"two cases are called {name}"
        self._names.add(name)
        if seed(name) % self.stride:
            return
        inputs = [np.asarray(x) for x in inputs]
        grad = None
        if wrt is None:
            outputs = _listed(compute(*inputs))
        else:
            outputs, grad = _derivatives(name, compute, inputs, wrt)
        entry = {"name": name, "op": op, "params": params or {}}
        entry["inputs"] = [self._store(f"{name}/in{i}", x) for i, x in enumerate(inputs)]
        entry["outputs"] = [self._store(f"{name}/out{i}", x) for i, x in enumerate(outputs)]
        if grad is not None:
            stored = {role: [self._store(f"{name}/{role}{i}", x) for i, x in enumerate(grad[role])] for role in GRAD_ROLES}
            entry["grad"] = {"wrt": list(wrt)} | stored
        if tolerance is not None:
            entry["tolerance"] = tolerance
        self.cases.append(entry | more)

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

    def write(self):
        """Writes both files; equal results give equal bytes."""
        # Wide elements first, then by name: every array is aligned to its element in a mapped file.
        order = sorted(self.arrays, key=lambda key: (-self.arrays[key].dtype.itemsize, key))
        header, offset = {}, 0
        for key in order:
            array = self.arrays[key]
            entry = {"dtype": _TENSOR_NAMES[short(array.dtype)], "shape": list(array.shape)}
            header[key] = entry | {"data_offsets": [offset, offset + array.nbytes]}
            offset += array.nbytes
        head = json.dumps(header, separators=(",", ":")).encode()
        head += b" " * (-len(head) % 8)
        blob = struct.pack("<Q", len(head)) + head + b"".join(self.arrays[key].tobytes() for key in order)
        FIXTURES.mkdir(exist_ok=True)
        (FIXTURES / f"{self.name}.safetensors").write_bytes(blob)
        (FIXTURES / f"{self.name}.json").write_text(self._json())
        return len(blob)

    def _json(self) -> str:
        import jax

        top = {"suite": self.name, "about": self.about, "jax": jax.__version__, "x64": True}
        top |= {"tolerance": self.tolerance, "encoded": dict(sorted(self.encoded.items()))} | self.extra
        lines = [json.dumps(case, ensure_ascii=True) for case in self.cases]
        head = json.dumps(top, indent=1)
        return head[:-2] + ',\n "cases": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"

    def check(self) -> list[str]:
        """Compares what was just computed with what is committed; one line for each difference."""
        index, recorded = load(self.name)
        cases = {case["name"]: case for case in index["cases"]}
        problems, exact, arrays = [], 0, 0
        if self.stride == 1 and set(cases) != self._names:
            problems.append(f"{self.name}: recorded cases differ from the script's: {set(cases) ^ self._names}")
        for case in self.cases:
            old = cases.get(case["name"])
            where = f"{self.name}/{case['name']}"
            if old is None:
                problems.append(f"{where}: not recorded yet")
                continue
            for field in ("op", "params", "tolerance"):
                if json.loads(json.dumps(case.get(field))) != old.get(field):
                    problems.append(f"{where}: {field} changed: {old.get(field)} -> {case.get(field)}")
            for role in ("inputs", "outputs", *GRAD_ROLES):
                of = lambda c: c.get("grad", {}).get(role, []) if role in GRAD_ROLES else c[role]
                if len(of(case)) != len(of(old)):
                    problems.append(f"{where}: {len(of(old))} {role} recorded, {len(of(case))} now")
                    continue
                for new_key, old_key in zip(of(case), of(old)):
                    new = decode(self.arrays[new_key], self.encoded.get(new_key))
                    tolerance = case.get("tolerance") if role in ("outputs", "jvp", "vjp") else {"ulp": 0}
                    problem, same = _differ(new, recorded[old_key], tolerance, self.tolerance)
                    arrays, exact = arrays + 1, exact + same
                    if problem:
                        problems.append(f"{where}: {role} {old_key}: {problem}")
        print(f"{self.name}: {len(self.cases)} of {len(cases)} cases, {exact} of {arrays} arrays equal bit for bit")
        return problems


def _differ(new, old, tolerance, defaults) -> tuple[str | None, bool]:
    """What is wrong, if anything, and whether both are equal bit for bit."""
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
