"""The promotion table: what two operands of any dtypes, weakly typed or not, become.

A star marks a weak type: `f32*` is what a Python scalar of default dtype `float32` is. `table` is recorded with 64-bit types on;
`table_32` with them off, where the default float is f32: the row for oxidax' own 32-bit defaults (`i32` with `f32*`).
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
_REDUCTIONS = {"sum": jnp.sum, "prod": jnp.prod, "mean": jnp.mean, "var": jnp.var, "max": jnp.max, "argmax": jnp.argmax}


def _kinds(names):
    return [(name, weak) for name in names for weak in (False, True)]


def _label(dtype, weak) -> str:
    return short(dtype) + ("*" if weak else "")


@functools.cache
def _value(name, weak):
    """An array of that dtype and weakness; the public constructors make weak ones of the default widths only."""
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
    """The result's label for each dtype, `None` where JAX refuses the operand."""
    row = {}
    for name, weak in _kinds(names):
        try:
            out = jax.eval_shape(function, _value(name, weak))
            row[_label(DTYPES[name], weak)] = _label(out.dtype, out.weak_type)
        except (TypeError, ValueError, NotImplementedError):
            row[_label(DTYPES[name], weak)] = None
    return row


def _division(names):
    """True division takes integers to floats: `x / x`."""
    return _unary(lambda x: jnp.divide(x, x), names)


def text() -> str:
    """The whole file."""
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
                # Complex numbers have no argmax; JAX notices only when it compiles one.
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
    """The table is exact: any difference is a problem."""
    same = (FIXTURES / "promotion.json").read_text() == text()
    print(f"promotion: {'equal' if same else 'DIFFERENT'}")
    return [] if same else ["promotion: the table changed"]
