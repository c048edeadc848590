"""Writes `docs/jax-names.md`: the public names of JAX and their counterparts in oxidax.

`names.py --check` compares the committed page with a newly generated one. Requires JAX. A test
checks the page against the sources without JAX.
"""

import argparse
import importlib
import re
import sys
import textwrap
import types
from pathlib import Path

from names_of_jax import LEFT_OUT, OTHER, REFUSED

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "jax-names.md"
ARRAYS = ["ops", "primitives", "control_flow", "transforms"]
# Folders of `src` that contain the counterparts of each module of JAX, in the order of the search.
MODULES = {
    "jax.numpy": ARRAYS,
    "jax.lax": ["parallel", "primitives", "control_flow", "ops", "core"],
    "jax.nn": ["ops", "primitives", "nn"],
    "jax.random": ["random"],
    "jax.scipy.special": ["ops/special", "primitives", "ops"],
    "jax.scipy.stats": ["ops/stats"],
    "jax.numpy.linalg": ["ops/linalg", "ops/linalg.rs"],
    "jax.numpy.fft": ["ops/fft", "ops/fft.rs"],
    "jax.profiler": ["profile"],
}
# Prefix of the paths to a module's functions.
PREFIX = {
    "jax.random": "random::",
    "jax.scipy.stats": "stats::",
    "jax.numpy.linalg": "linalg::",
    "jax.numpy.fft": "fft::",
    "jax.profiler": "profile::",
    "jax.scipy.special": "special::",
}
ABOUT = """\
# JAX's names

Does oxidax have a function that JAX has, and under which name? Paths are relative to
`use oxidax::prelude::*;`. [for-jax-users.md](for-jax-users.md) explains differences in behaviour.

`python-compat/names.py` writes this page. A percentage is the share of names with a counterpart,
under JAX's name or another one. It excludes deprecated names, Python objects and names for
particular devices; these are listed as left out.
"""


def sources(folder: str) -> list[Path]:
    """Returns the Rust files of a folder of `src`, or the single file."""
    path = ROOT / "src" / folder
    return sorted(path.rglob("*.rs")) if path.is_dir() else [path] if path.exists() else []


def functions(folder: str) -> dict[str, Path]:
    """Returns the public functions (without methods) and types of a folder, with their files."""
    files = {}
    for path in sources(folder):
        text = path.read_text().split("#[cfg(test)]")[0]
        for name in re.findall(r"^pub (?:const )?(?:fn|struct|enum|trait) (\w+)", text, re.M):
            files.setdefault(name, path)
    return files


def methods() -> set[str]:
    """Returns the public methods of `Array`, including those that macros generate."""
    names = set()
    for path in [*sources("ops"), *sources("core/array")]:
        text = path.read_text()
        for block in re.findall(r"^impl Array \{(.*?)^\}", text, re.M | re.S):
            names |= set(re.findall(r"^    pub fn (\w+)", block, re.M))
        for block in re.findall(r"^(?:unary|compare)!\((.*?)^\);", text, re.M | re.S):
            names |= set(re.findall(r"^    (\w+)(?: = \w+)?;", block, re.M))
    return names


def distribution_methods() -> dict[str, str]:
    """Returns the methods of distributions by name in `jax.scipy.stats`, from doc aliases."""
    methods = {}
    for path in sources("ops/stats"):
        owner = ""
        for line in path.read_text().splitlines():
            if match := re.match(r"(?:impl|derived_methods! {) ?(\w+)", line):
                owner = match[1]
            if match := re.search(r'"jax\.scipy\.stats\.(\w+\.(\w+))"', line):
                methods[match[1]] = f"stats::{owner}::{match[2]}"
    return methods


def path_of(module: str, name: str, file: Path) -> str:
    """Returns the path of a function relative to the prelude."""
    prefix = PREFIX.get(module, "")
    if prefix == "special::" and "special" not in file.parts[-2]:
        prefix = ""
    return prefix + name


def public_names(module: str) -> list[str]:
    """Returns JAX's public names.

    For `jax.scipy.stats`, includes the functions of its distributions. Omits primitives (`…_p`),
    which are objects and not functions.
    """
    loaded = importlib.import_module(module)
    names = []
    for name in dir(loaded):
        value = getattr(loaded, name)
        if name.startswith("_") or (module == "jax.lax" and name.endswith("_p")):
            continue
        if not isinstance(value, types.ModuleType):
            names.append(name)
        elif module == "jax.scipy.stats":
            names += [f"{name}.{inner}" for inner in dir(value) if not inner.startswith("_")]
    return names


def section(module: str) -> str:
    """Returns the page's section on a module."""
    left_out = {
        name: reason for reason, names in LEFT_OUT.get(module, {}).items() for name in names.split()
    }
    candidates = [(folder, functions(folder)) for folder in MODULES[module]]
    array_methods = methods() if module in ("jax.numpy", "jax.lax", "jax.nn") else set()
    same_name, other_name, missing = [], {}, []
    distributions = distribution_methods()
    refused = REFUSED.get(module, {})
    listed = set(left_out) | set(refused) | set(OTHER.get(module, {}))
    names = public_names(module)
    unknown = listed - set(names)
    if unknown:
        sys.exit(f"names_of_jax.py lists {sorted(unknown)}, which {module} does not have")
    for name in names:
        if name in left_out or name in refused:
            continue
        parts = name.split(".")
        if len(parts) == 2:
            if name in distributions:
                other_name[name] = distributions[name]
            else:
                missing.append(name)
            continue
        counterpart = OTHER.get(module, {}).get(name)
        file = next((files[name] for _, files in candidates if name in files), None)
        exists = (
            counterpart is None
            or counterpart.startswith(("std::", "DType", "i"))
            or is_defined(counterpart)
        )
        if file is not None and (counterpart is None or counterpart == name):
            same_name.append(path_of(module, name, file))
        elif counterpart is not None and exists:
            other_name[name] = counterpart
        elif name in array_methods:
            same_name.append(f"Array::{name}")
        else:
            missing.append(name)
    covered, total = (
        len(same_name) + len(other_name),
        len(same_name) + len(other_name) + len(refused) + len(missing),
    )
    percentage = 100 * covered / total if total else 100.0
    lines = [f"## `{module}`", "", f"{covered} of {total} names are there: {percentage:.1f} %.", ""]
    lines += paragraph("Under the same name", same_name)
    if other_name:
        lines += [
            "| JAX | oxidax |",
            "|---|---|",
            *(
                f"| `{name}` | `{counterpart}` |"
                for name, counterpart in sorted(other_name.items())
            ),
            "",
        ]
    for name, reason in sorted(refused.items()):
        lines += [f"- Refused: `{name}`: {reason}."]
    lines += [""] if refused else []
    lines += paragraph("Not yet", missing)
    by_reason = {}
    for name, reason in left_out.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in sorted(by_reason.items()):
        lines += paragraph(f"Left out ({reason})", names)
    return "\n".join(lines)


def is_defined(path: str) -> bool:
    """Returns true if the sources define the last segment of a path."""
    last = path.split("::")[-1]
    pattern = re.compile(
        rf"pub (?:const )?(?:fn|struct|enum|trait|mod) {last}\b"
        rf"|^    {last}(?: = \w+)?;|^    {last},$|macro_rules! {last}\b",
        re.M,
    )
    return any(pattern.search(path.read_text()) for path in sources("."))


def paragraph(title: str, names: list[str]) -> list[str]:
    """Formats a title and names as a wrapped paragraph."""
    if not names:
        return []
    text = f"{title}: " + ", ".join(f"`{name}`" for name in sorted(names)) + "."
    return [*textwrap.wrap(text, 98, break_long_words=False, break_on_hyphens=False), ""]


def main() -> int:
    """Writes the page, or compares it with the committed one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="compare the page instead of writing it"
    )
    args = parser.parse_args()
    page = ABOUT + "\n" + "\n".join(section(module) for module in MODULES).rstrip() + "\n"
    if args.check:
        is_current = PAGE.exists() and PAGE.read_text() == page
        print(
            "docs/jax-names.md is up to date"
            if is_current
            else "docs/jax-names.md is stale: run python-compat/names.py"
        )
        return 0 if is_current else 1
    PAGE.write_text(page)
    for module, percentage in re.findall(r"## `([\w.]+)`\n\n.*?: ([\d.]+) %", page):
        print(f"{module}: {percentage} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
