"""oxidax's side in Python: fixtures, comparison, exported functions and checkpoints.

oxidax is a machine learning framework for Rust that follows JAX. This package needs NumPy; JAX is
needed where JAX computes, and imported only there.

| function | purpose |
| --- | --- |
| `record`, `Recording` | results of a JAX function as a fixture that tests in Rust read |
| `export`, `load` | functions of `jax.export`, both ways |
| `convert`, `load_checkpoint`, `save_checkpoint` | checkpoints, both ways |
| `verify` | what the installed JAX and oxidax compute, compared by the command `oxidax verify` |

The same from a shell: `python -m oxidax_compat --help`.
"""

from .checkpoints import load as load_checkpoint
from .checkpoints import save as save_checkpoint
from .conversion import convert, from_nnx, to_nnx
from .exported import Loaded, export, load
from .fixtures import Recording, record
from .safetensors import DamagedFile
from .verification import verify

__version__ = "0.1.0"
__all__ = [
    "DamagedFile",
    "Loaded",
    "Recording",
    "convert",
    "export",
    "from_nnx",
    "load",
    "load_checkpoint",
    "record",
    "save_checkpoint",
    "to_nnx",
    "verify",
]
