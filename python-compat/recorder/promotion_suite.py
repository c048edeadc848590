"""The promotion table: the result dtype of every pair of dtypes, weakly typed or not.

A star marks a weak type: `f32*` is the type of a Python scalar if the default dtype is `float32`.
`table` is recorded with 64-bit types on. `table_32` is recorded with them off, where the default
float is f32, and shows results of 32-bit defaults such as `i32` with `f32*`.
"""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import dtypes as jax_dtypes
from jax._src.lax import lax as jax_lax

from .names import DTYPES, short
from .suite import FIXTURES

_WIDE = {"i64", "u64", "f64", "c128"}
_REDUCTIONS = {
    "sum": jnp.sum,
    "prod": jnp.prod,
    "mean": jnp.mean,
    "var": jnp.var,
    "max": jnp.max,
    "argmax": jnp.argmax,
}


def _kinds(names):
    return [(name, weak) for name in names for weak in (False, True)]


def _label(dtype, weak) -> str:
    return short(dtype) + ("*" if weak else "")


@functools.cache
def _value(name, weak):
    """Returns an array of a dtype, weakly typed or not.

    JAX's public constructors create weakly typed arrays only in the default widths.
    """
    return jax_lax._convert_element_type(np.zeros((2,), np.bool_), DTYPES[name], weak_type=weak)


def _pair(lhs, rhs):
    try:
        dtype, weak = jax_dtypes.lattice_result_type(_value(*lhs), _value(*rhs))
    except jax.dtypes.TypePromotionError:
        return None
    return _label(dtype, weak)


def _table(names):
    kinds = _kinds(names)
    return {_label(DTYPES[n], w): [_pair((n, w), other) for other in kinds] for n, w in kinds}


def _unary(function, names):
    """Returns the label of the result for each dtype, `None` if JAX refuses the operand."""
    row = {}
    for name, weak in _kinds(names):
        try:
            out = jax.eval_shape(function, _value(name, weak))
            row[_label(DTYPES[name], weak)] = _label(out.dtype, out.weak_type)
        except (TypeError, ValueError, NotImplementedError):
            row[_label(DTYPES[name], weak)] = None
    return row


def _division(names):
    """Returns the results of true division, `x / x`, which converts integers to floats."""
    return _unary(lambda x: jnp.divide(x, x), names)


def text() -> str:
    """Returns the content of the file."""
    wide = list(DTYPES)
    narrow = [name for name in wide if name not in _WIDE]
    plain = [name for name in wide if not name.startswith("f8") and name not in ("i4", "u4")]
    parts = {"suite": "promotion", "jax": jax.__version__}
    for suffix, names, x64 in (("", wide, True), ("_32", narrow, False)):
        with jax.enable_x64(x64):
            usual = [name for name in names if name in plain]
            parts[f"columns{suffix}"] = [_label(DTYPES[n], w) for n, w in _kinds(names)]
            parts[f"table{suffix}"] = _table(names)
            parts[f"true_divide{suffix}"] = _division(usual)
            parts[f"sin{suffix}"] = _unary(jnp.sin, usual)
            for name, function in _REDUCTIONS.items():
                # Complex numbers have no argmax, but JAX raises the error only at compilation.
                named = [n for n in usual if n[0] != "c"] if name == "argmax" else usual
                parts[f"{name}{suffix}"] = _unary(function, named)
    lines = []
    for key, value in parts.items():
        if isinstance(value, dict) and key.startswith("table"):
            rows = ",\n  ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            lines.append(f" {json.dumps(key)}: {{\n  {rows}\n }}")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def record():
    """Writes `promotion.json`."""
    (FIXTURES / "promotion.json").write_text(text())


def check() -> list[str]:
    """Compares the file with a new one. The table is exact, so any difference is a problem."""
    same = (FIXTURES / "promotion.json").read_text() == text()
    print(f"promotion: {'equal' if same else 'DIFFERENT'}")
    return [] if same else ["promotion: the table changed"]
