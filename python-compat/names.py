"""Writes `docs/jax-names.md`: the public names of JAX and their counterparts in oxidax.

`names.py --check` compares the page with a new one. Needs JAX. A test checks the page against the
sources without JAX.
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
# JAX's module, and the folders of `src` in which its functions are looked for, in this order.
MODULES = {
    "jax.numpy": ARRAYS, "jax.lax": ["parallel", "primitives", "control_flow", "ops", "core"], "jax.nn": ["ops", "primitives"], "jax.random": ["random"],
    "jax.scipy.special": ["ops/special", "primitives", "ops"], "jax.scipy.stats": ["ops/stats"], "jax.numpy.linalg": ["ops/linalg", "ops/linalg.rs"],
    "jax.numpy.fft": ["ops/fft", "ops/fft.rs"],
}  # fmt: skip
# How a function of these modules is written.
PREFIX = {
    "jax.random": "random::", "jax.scipy.stats": "stats::", "jax.numpy.linalg": "linalg::", "jax.numpy.fft": "fft::",
    "jax.scipy.special": "special::",
}  # fmt: skip
ABOUT = """\
# JAX's names

Does oxidax have a function that JAX has, and under which name? Paths are relative to
`use oxidax::prelude::*;`. [for-jax-users.md](for-jax-users.md) explains differences in behaviour.

`python-compat/names.py` writes this page. A percentage is the share of names with a counterpart,
under JAX's name or another one. It excludes deprecated names, Python objects and names for
particular devices; these are listed as left out.
"""


def sources(folder: str) -> list[Path]:
    """The Rust files of a folder of `src`, or the one file."""
    path = ROOT / "src" / folder
    return sorted(path.rglob("*.rs")) if path.is_dir() else [path] if path.exists() else []


def functions(folder: str) -> dict[str, Path]:
    """Public functions of a folder that are no methods, and public types."""
    found = {}
    for path in sources(folder):
        text = path.read_text().split("#[cfg(test)]")[0]
        for name in re.findall(r"^pub (?:const )?(?:fn|struct|enum|trait) (\w+)", text, re.M):
            found.setdefault(name, path)
    return found


def methods() -> set[str]:
    """Public methods of `Array`, those that macros write included."""
    found = set()
    for path in [*sources("ops"), *sources("core/array")]:
        text = path.read_text()
        for block in re.findall(r"^impl Array \{(.*?)^\}", text, re.M | re.S):
            found |= set(re.findall(r"^    pub fn (\w+)", block, re.M))
        for block in re.findall(r"^(?:unary|compare)!\((.*?)^\);", text, re.M | re.S):
            found |= set(re.findall(r"^    (\w+)(?: = \w+)?;", block, re.M))
    return found


def distribution_methods() -> dict[str, str]:
    """Methods of distributions by their name in `jax.scipy.stats`, from the aliases in the sources."""
    methods = {}
    for path in sources("ops/stats"):
        owner = ""
        for line in path.read_text().splitlines():
            if match := re.match(r"(?:impl|derived_methods! {) ?(\w+)", line):
                owner = match[1]
            if match := re.search(r'"jax\.scipy\.stats\.(\w+\.(\w+))"', line):
                methods[match[1]] = f"stats::{owner}::{match[2]}"
    return methods


def path_of(module: str, name: str, where: Path) -> str:
    """How the function is written."""
    prefix = PREFIX.get(module, "")
    if prefix == "special::" and "special" not in where.parts[-2]:
        prefix = ""
    return prefix + name


def public(module: str) -> list[str]:
    """JAX's public names; of `jax.scipy.stats` also the functions of its distributions. Primitives (`…_p`) are objects, not functions."""
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
    """The module's part of the page."""
    left_out = {name: reason for reason, names in LEFT_OUT.get(module, {}).items() for name in names.split()}
    found = [(folder, functions(folder)) for folder in MODULES[module]]
    of_array = methods() if module in ("jax.numpy", "jax.lax", "jax.nn") else set()
    same, other, missing = [], {}, []
    distributions = distribution_methods()
    refused = REFUSED.get(module, {})
    stale = set(left_out) | set(refused) | set(OTHER.get(module, {}))
    names = public(module)
    unknown = stale - set(names)
    if unknown:
        sys.exit(f"names_of_jax.py speaks of {sorted(unknown)}, which are not in {module}")
    for name in names:
        if name in left_out or name in refused:
            continue
        inner = name.split(".")
        if len(inner) == 2:
            if name in distributions:
                other[name] = distributions[name]
            else:
                missing.append(name)
            continue
        written = OTHER.get(module, {}).get(name)
        place = next((where[name] for _, where in found if name in where), None)
        exists = written is None or written.startswith(("std::", "DType", "i")) or known(written)
        if place is not None and (written is None or written == name):
            same.append(path_of(module, name, place))
        elif written is not None and exists:
            other[name] = written
        elif name in of_array:
            same.append(f"Array::{name}")
        else:
            missing.append(name)
    there, counted = len(same) + len(other), len(same) + len(other) + len(refused) + len(missing)
    share = 100 * there / counted if counted else 100.0
    lines = [f"## `{module}`", "", f"{there} of {counted} names are there: {share:.1f} %.", ""]
    lines += paragraph("Under the same name", same)
    if other:
        lines += ["| JAX | oxidax |", "|---|---|", *(f"| `{name}` | `{written}` |" for name, written in sorted(other.items())), ""]
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


def known(path: str) -> bool:
    """Whether the last part of a path is defined somewhere in the sources."""
    last = path.split("::")[-1]
    pattern = re.compile(rf"pub (?:const )?(?:fn|struct|enum|trait|mod) {last}\b|^    {last}(?: = \w+)?;|^    {last},$|macro_rules! {last}\b", re.M)
    return any(pattern.search(path.read_text()) for path in sources("."))


def paragraph(title: str, names: list[str]) -> list[str]:
    """Formats a title and names as a wrapped paragraph."""
    if not names:
        return []
    text = f"{title}: " + ", ".join(f"`{name}`" for name in sorted(names)) + "."
    return [*textwrap.wrap(text, 98, break_long_words=False, break_on_hyphens=False), ""]


def main() -> int:
    """Writes the page, or compares it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    args = parser.parse_args()
    page = ABOUT + "\n" + "\n".join(section(module) for module in MODULES).rstrip() + "\n"
    if args.check:
        same = PAGE.exists() and PAGE.read_text() == page
        print("docs/jax-names.md is up to date" if same else "docs/jax-names.md is stale: run python-compat/names.py")
        return 0 if same else 1
    PAGE.write_text(page)
    for module, share in re.findall(r"## `([\w.]+)`\n\n.*?: ([\d.]+) %", page):
        print(f"{module}: {share} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
