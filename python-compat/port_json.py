"""Jaxprs as JSON: types, parameters, constants and trees in a form without Python objects."""

import dataclasses
import enum
import json

import jax
import numpy as np

import port_sources

SHORT = {
    "bool": "bool", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64", "complex64": "c64", "complex128": "c128", "float0": "bool",
}
INLINE = 256
# Parameters without a meaning for the values of a program on one device.
IGNORED = {
    "accuracy", "avals", "bwd", "compiler_options_kvs", "ctx_mesh", "donated_invars", "fwd",
    "fwd_jaxpr_thunk", "in_layouts", "in_shardings", "inline", "jvp", "jvp_fun", "jvp_jaxpr_fun",
    "jvp_jaxpr_thunk", "keep_unused", "linear", "out_layouts", "out_sharding", "out_shardings",
    "out_trees", "resource_env", "sharding", "symbolic_zeros", "_split_transpose", "impl",
    "indices_are_sorted", "unique_indices", "callee_vmem", "update_consts", "out_dtype",
}


def dtype_name(dtype):
    """The short name of a dtype; `key` for typed PRNG keys."""
    name = np.dtype(dtype).name if not str(dtype).startswith("key<") else str(dtype)
    if name.startswith("key<"):
        if name != "key<fry>":
            raise ValueError(f"{name}: only threefry keys can be ported; use jax.random.key")
        return "key"
    return SHORT.get(name, name)


def number(value):
    """A Python number that JSON can hold: NaN and infinities are strings."""
    if isinstance(value, (complex, np.complexfloating)):
        return [number(value.real), number(value.imag)]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    value = float(value)
    if value != value:
        return "nan"
    return value if abs(value) != float("inf") else ("inf" if value > 0 else "-inf")


class Encoder:
    """Encodes one traced function; arrays that are too large for JSON go to `tensors`."""

    def __init__(self, root):
        self.lines = port_sources.Lines(root)
        self.vars = []
        self.index = {}
        self.consts = []
        self.tensors = {}

    def var(self, var):
        if var not in self.index:
            self.index[var] = len(self.vars)
            self.vars.append(self.aval(var.aval))
        return self.index[var]

    def aval(self, aval):
        dtype = getattr(aval, "dtype", None)
        if dtype is None:
            return {"dtype": str(aval), "shape": []}
        out = {"dtype": dtype_name(dtype), "shape": [int(size) for size in aval.shape]}
        if getattr(aval, "weak_type", False):
            out["weak"] = True
        return out

    def atom(self, atom):
        if not hasattr(atom, "val"):
            return self.var(atom)
        value = np.asarray(atom.val)
        if value.ndim > 0:
            return {"const": self.const(value)}
        out = {"value": number(value[()]), "dtype": dtype_name(atom.aval.dtype)}
        if getattr(atom.aval, "weak_type", False):
            out["weak"] = True
        return out

    def const(self, value):
        """The index of a constant array."""
        if hasattr(value, "dtype") and str(value.dtype).startswith("key<"):
            dtype_name(value.dtype)
            value = np.asarray(jax.random.key_data(value))
            entry = {"dtype": "key", "shape": [int(size) for size in value.shape]}
        else:
            value = np.asarray(value)
            entry = {"dtype": dtype_name(value.dtype), "shape": list(value.shape)}
        if value.size <= INLINE:
            flat = value.reshape(-1)
            if entry["dtype"] in ("bf16", "f16"):
                flat = flat.astype(np.float32)
            entry["values"] = [number(item) for item in flat]
        else:
            name = f"const.{len(self.consts)}"
            entry["tensor"] = name
            self.tensors[name] = value
        self.consts.append(entry)
        return len(self.consts) - 1

    def closed(self, jaxpr):
        """A jaxpr with its constants."""
        consts = list(getattr(jaxpr, "consts", ()))
        inner = getattr(jaxpr, "jaxpr", jaxpr)
        out = self.jaxpr(inner)
        out["consts"] = [[self.var(var), self.const(value)]
                         for var, value in zip(inner.constvars, consts)]
        return out

    def jaxpr(self, jaxpr):
        out = {"ins": [self.var(var) for var in jaxpr.invars]}
        if jaxpr.constvars:
            out["captures"] = [self.var(var) for var in jaxpr.constvars]
        info = getattr(jaxpr, "debug_info", None)
        source = getattr(info, "func_src_info", None) or ""
        if " at " in source:
            name, place = source.split(" at ", 1)
            path, _, line = place.rpartition(":")
            out["function"] = name.strip()
            out["library"] = port_sources.is_library(path)
            if port_sources.is_users(path) and line.isdigit():
                out["unpacked"] = port_sources.unpacked(path, name.strip(), int(line))
        names = getattr(info, "arg_names", None)
        if names is not None:
            out["arg_names"] = [None if name is None else str(name) for name in names]
        out["eqns"] = [self.eqn(eqn) for eqn in jaxpr.eqns]
        out["outs"] = [self.atom(atom) for atom in jaxpr.outvars]
        return out

    def eqn(self, eqn):
        params = {name: self.param(value) for name, value in eqn.params.items()
                  if name not in IGNORED}
        if eqn.primitive.name.startswith("scatter"):
            # The name of the primitive states how updates are combined.
            params.pop("update_jaxpr", None)
        outs = [None if type(var).__name__ == "DropVar" else self.var(var) for var in eqn.outvars]
        avals = [self.aval(var.aval) for var in eqn.outvars]
        out = {"prim": eqn.primitive.name, "ins": [self.atom(atom) for atom in eqn.invars],
               "outs": outs, "avals": avals, "params": params}
        line = self.lines.of(eqn)
        if line is not None:
            out["line"] = line
        return out

    def param(self, value):
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, enum.Enum):
            return value.name
        if isinstance(value, (int, float, complex, np.number, np.bool_)):
            return number(value)
        if isinstance(value, np.dtype) or str(value).startswith("key<"):
            return {"dtype": dtype_name(value)}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"dtype": dtype_name(value)}
        if hasattr(value, "eqns"):
            return {"jaxpr": self.closed(value)}
        if hasattr(value, "jaxpr") and hasattr(value, "consts"):
            return {"jaxpr": self.closed(value)}
        if hasattr(value, "_fields"):
            return {name: self.param(getattr(value, name)) for name in value._fields}
        if isinstance(value, (tuple, list)):
            return [self.param(item) for item in value]
        if isinstance(value, dict):
            return {str(name): self.param(item) for name, item in value.items()}
        if isinstance(value, (np.ndarray, jax.Array)) and np.asarray(value).ndim == 0:
            return number(np.asarray(value)[()])
        if isinstance(value, (np.ndarray, jax.Array)):
            return {"const": self.const(value)}
        if type(value).__name__ == "Described":
            return value.value
        if type(value).__name__ == "Hidden":
            return None
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = dataclasses.fields(value)
            return {field.name: self.param(getattr(value, field.name)) for field in fields}
        # Enums of the compiler, such as FftType in older versions, are not Python's.
        name = getattr(value, "name", None)
        return name if isinstance(name, str) else {"opaque": type(value).__name__}


def type_of(leaf):
    """The dtype and shape of an array."""
    leaf = leaf if hasattr(leaf, "dtype") else np.asarray(leaf)
    return {"dtype": dtype_name(leaf.dtype), "shape": [int(size) for size in leaf.shape]}


def tree(value, leaf):
    """The structure of an argument. `leaf` maps a leaf to its entry."""
    if value is None:
        return {"none": True}
    is_child = lambda other: other is not value
    children = jax.tree_util.tree_flatten_with_path(value, is_leaf=is_child)[0]
    if len(children) == 1 and children[0][0] == ():
        return leaf(value)
    items = [tree(child, leaf) for _, child in children]
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return {"tuple": items}
    if isinstance(value, list):
        return {"list": items}
    keys = []
    for path, _ in children:
        key = path[0] if path else ""
        for attribute in ("key", "name", "idx"):
            if hasattr(key, attribute):
                key = getattr(key, attribute)
                break
        keys.append(str(key))
    fields = [[key, item] for key, item in zip(keys, items)]
    if isinstance(value, dict):
        return {"dict": fields}
    return {"struct": type(value).__name__, "fields": fields}


def write_safetensors(path, tensors):
    """Writes arrays in the safetensors format."""
    names = {"bool": "BOOL", "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64", "i8": "I8",
             "i16": "I16", "i32": "I32", "i64": "I64", "u8": "U8", "u16": "U16", "u32": "U32",
             "u64": "U64", "c64": "C64"}
    header, parts, offset = {}, [], 0
    for name, value in tensors.items():
        value = np.asarray(value)
        data = np.ascontiguousarray(value).tobytes()
        header[name] = {"dtype": names[dtype_name(value.dtype)], "shape": list(value.shape),
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(parts))
