"""Access to the recorder: `recorder/` in a clone of oxidax, else `oxidax_compat.recorder`.

It records oxidax's own fixtures, and its `Suite` writes those of users.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

_NAME = "oxidax_compat.recorder"


def recorder(module: str) -> Any:
    """Imports a module of the recorder by its name: `suite`, `ops_suite`.

    Raises `ImportError` if it cannot be imported, for example because JAX is not installed.
    """
    if importlib.util.find_spec(_NAME) is None:
        folder = Path(__file__).resolve().parent.parent / "recorder"
        spec = importlib.util.spec_from_file_location(
            _NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        if spec is None or spec.loader is None or not (folder / "suite.py").is_file():
            raise ImportError(f"the recorder is neither installed nor in {folder}")
        package = importlib.util.module_from_spec(spec)
        sys.modules[_NAME] = package
        spec.loader.exec_module(package)
    return importlib.import_module(f"{_NAME}.{module}")
