"""Trees: the paths of leaves, trees as one vector, prefixes, and transposed trees.

Values are numbered in the order in which the leaves are built, so that a wrong order shows.
"""

import dataclasses
import json

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from .names import DTYPES, short
from .suite import FIXTURES


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Linear:
    weight: jax.Array
    bias: jax.Array | None
    name: str = dataclasses.field(metadata={"static": True})


def _numbered():
    """Returns a function that makes arrays with consecutive numbers."""
    made = 0

    def array(shape, dtype=jnp.float32):
        nonlocal made
        size = 1
        for axis in shape:
            size *= axis
        value = jnp.arange(made, made + size).reshape(shape).astype(dtype)
        made += size
        return value

    return array


def _trees():
    n = _numbered()
    yield "nested", {"layers": [(n((2, 2)), n((2,))), (n((3,)), n(()))], "head": n((2,))}
    n = _numbered()
    yield "number_keys", {10: n((2,)), 2: n((1,)), 33: (n((1,)),)}
    n = _numbered()
    yield "quotes", {"it's": n((1,)), 'a"b': n((1,)), "a.b[0]": n((1,)), "tab\t\\": n((1,))}
    n = _numbered()
    layers = [Linear(n((2, 3)), n((3,)), "a"), Linear(n((3,)), None, "b")]
    yield "dataclass", (layers, {"head": Linear(n((2,)), n((1,)), "c")})
    n = _numbered()
    yield "leaf", n((2, 3))
    yield "empty", ()
    for names in ["bf16 f32", "bf16 f16", "i32 bf16", "i32 f32 bf16", "u8 i32", "f32 c64"]:
        n = _numbered()
        yield f"dtypes {names}", [n((2,), DTYPES[name]) for name in names.split()]
    # A weakly typed leaf counts as any other of its dtype.
    yield "weak", [jnp.zeros((2,), jnp.bfloat16), jnp.asarray(1.0)]


def _numbers(x):
    x = x.astype(jnp.complex64)
    return [[float(c.real), float(c.imag)] for c in x.reshape(-1)]


def _case(name, tree):
    flat, unravel = ravel_pytree(tree)
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    back = jax.tree.leaves(unravel(flat))
    case = {
        "name": name,
        "keystr": [jax.tree_util.keystr(path) for path in paths],
        "simple": [jax.tree_util.keystr(path, simple=True, separator="/") for path in paths],
        "dtype": short(flat.dtype),
        "flat": _numbers(flat),
        "back": [short(leaf.dtype) for leaf in back],
    }
    # The vector of another dtype.
    try:
        case["other"] = [short(x.dtype) for x in jax.tree.leaves(unravel(flat.astype(jnp.float16)))]
    except TypeError:
        case["other"] = None
    return case


def text() -> str:
    """Returns the suite as JSON."""
    with jax.enable_x64(False):
        cases = [_case(*case) for case in _trees()]
    lines = ",\n  ".join(json.dumps(case) for case in cases)
    return f'{{\n "jax": {json.dumps(jax.__version__)},\n "cases": [\n  {lines}\n ]\n}}\n'


def record():
    """Writes `trees.json`."""
    (FIXTURES / "trees.json").write_text(text())


def check() -> list[str]:
    """Compares the file with a new one. Paths and numbers are exact."""
    same = (FIXTURES / "trees.json").read_text() == text()
    print(f"trees: {'equal' if same else 'DIFFERENT'}")
    return [] if same else ["trees: the paths or vectors changed"]
