"""Writes `docs/jax-names.md`: the public names of JAX, Flax and Optax with their counterparts.

Also writes `crates/cli/src/jax_names.tsv`, the same rows for the command `oxidax jax`.
`names.py --check` compares both with the committed files. Requires JAX, Flax and Optax.

The names come from the installed packages, the API of oxidax from `docs/api*.txt`, which
`cargo xtask api --update` writes. A name has a counterpart of the same name in one of the modules
of `search`, or one with that name as `doc(alias)`, or the counterpart that a file of
`python-compat/names` states. Each of these files contains one table per namespace:

- `module`: the Python module with the names; without it, `names` lists them;
- `search`: modules of oxidax, relative to its root, in the order of the search;
- `other`: names with a counterpart of another name that `doc(alias)` does not give;
- `instead`: names without a counterpart, because Rust has another means;
- `lacks`: the options and behaviour that a counterpart lacks;
- `refused`: names that oxidax will not provide, each with the reason;
- `left_out`: names that do not count, under their reasons;
- `unrecorded`: functions without a recorded case, under the reasons: see `unrecorded.py`.
"""

import argparse
import importlib
import re
import sys
import textwrap
import tomllib
import types
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "jax-names.md"
ROWS = ROOT / "crates" / "cli" / "src" / "jax_names.tsv"
# Files of `python-compat/names`, with the title of their names.
AREAS = {
    "core": "JAX core",
    "scipy": "jax.scipy",
    "tools": "Sharding, custom rules and tools of JAX",
    "experimental": "jax.experimental",
    "pallas": "Pallas",
    "optax": "Optax",
    "flax": "Flax, Orbax and chex",
}
ABOUT = """\
# JAX's names

Does oxidax have a function that JAX, Flax or Optax has, and under which name? Paths are relative to
`use oxidax::prelude::*;` or to the crate `oxidax`; `oxidax_scipy` and `oxidax_optim` are crates.
`oxidax jax NAME` prints the entries of a name. [for-jax-users.md](for-jax-users.md) explains
differences in behaviour.

`python-compat/names.py` writes this page from the installed packages, from the API of oxidax and
from the aliases in its documentation. *There* counts names with a counterpart, or with another
means in Rust; *incomplete* are those that lack an option. Names that are left out are listed, but
not counted: aliases, deprecated names, types of Python objects.
"""
# States of a name.
THERE, INSTEAD, ABSENT, REFUSED, LEFT_OUT = "there", "instead", "not yet", "refused", "left out"


@dataclass
class Row:
    """A name of a namespace.

    `path` is the counterpart, if there is one. `note` is what the counterpart lacks, what Rust has
    instead, or a reason.
    """

    namespace: str
    name: str
    state: str
    path: str = ""
    note: str = ""


def api_paths() -> set[str]:
    """Returns the public paths of all published crates, without generic parameters."""
    paths = set()
    item = re.compile(
        r"^(?:#\[\w+\] )*pub (?:const |unsafe |async )*"
        r"(?:fn |struct |enum |trait |mod |use |macro |type |static )?([\w:]+!?)"
    )
    for file in sorted((ROOT / "docs").glob("api*.txt")):
        for line in file.read_text().splitlines():
            while "<" in line.split("(")[0]:
                shorter = re.sub(r"<[^<>]*>", "", line, count=1)
                if shorter == line:
                    break
                line = shorter
            if match := item.match(line):
                paths.add(match[1].strip(":!"))
    return paths


def aliases() -> dict[str, list[str]]:
    """Returns the documented items by alias: functions, types, or `Type::method`."""
    found: dict[str, list[str]] = {}
    for path in sorted([*(ROOT / "src").rglob("*.rs"), *(ROOT / "crates").glob("*/src/**/*.rs")]):
        owner, pending = "", []
        for line in path.read_text().splitlines():
            block = re.match(r"(?:impl|derived_methods! \{)(?:<.*?>)? ?(?:.* for )?(\w+)", line)
            if match := block:
                owner = match[1]
            elif match := re.match(r"pub (?:enum|trait) (\w+)", line):
                for alias in pending:
                    found.setdefault(alias, []).append(match[1])
                pending, owner = [], match[1]
            elif line.startswith("}"):
                owner = ""
            if match := re.match(r'    (\w+) = \w+\(.*\), "(jax\.scipy\.stats[^"]+)"', line):
                found.setdefault(match[2], []).append(f"{owner}::{match[1]}")
            elif "doc(alias" in line:
                pending += re.findall(r'"([^"]+)"', line)
                continue
            match = re.match(
                r"( *)(?:pub (?:const )?(?:fn|struct|mod|type) )?(\w+)(?: = \w+)?[;,({<: ]", line
            )
            is_item = match and not line.strip().startswith(("#", "//", '"', ")"))
            if pending and is_item and match[2] not in ("macro_rules", "pub", "use"):
                name = f"{owner}::{match[2]}" if match[1] and owner else match[2]
                for alias in pending:
                    found.setdefault(alias, []).append(name)
                pending = []
    return found


def shown(path: str) -> str:
    """Returns an API path relative to the prelude or to the crate `oxidax`."""
    return path.removeprefix("oxidax::").removeprefix("prelude::")


class Names:
    """The API of oxidax and its aliases."""

    def __init__(self) -> None:
        self.paths = api_paths()
        self.suffixes = {
            "::".join(path.split("::")[at:])
            for path in self.paths
            for at in range(path.count("::") + 1)
        }
        self.aliases = aliases()
        # Mistakes in the files of `python-compat/names`.
        self.problems: list[str] = []

    def has(self, path: str) -> bool:
        """Returns true if a counterpart exists, or belongs to the standard library."""
        return path.startswith("std::") or path.rstrip("!") in self.suffixes

    def find(self, search: list[str], name: str) -> str | None:
        """Returns the path of an item of this name in one of the modules.

        The name of a Python submodule does not count: `metrics.Welford` is `Welford`.
        """
        last = name.split(".")[-1]
        for prefix in search:
            path = f"{prefix if prefix.startswith('oxidax_') else 'oxidax::' + prefix}::{last}"
            if path in self.paths:
                return shown(path)
        return None

    def find_alias(self, search: list[str], namespace: str, name: str) -> str | None:
        """Returns the path of an item with this alias in one of the modules."""
        for alias in (f"{namespace}.{name}", f"{namespace.removeprefix('jax.')}.{name}", name):
            for item in self.aliases.get(alias, []):
                if path := self.find(search, item):
                    return path
        return None


def public_names(module: str) -> list[str]:
    """Returns the public names of a Python module, and of the distributions of `scipy.stats`.

    Omits modules and primitives (`…_p`), which are objects and not functions.
    """
    loaded = importlib.import_module(module)
    names = []
    for name in dir(loaded):
        value = getattr(loaded, name)
        if name.startswith("_") or name.endswith("_p"):
            continue
        if not isinstance(value, types.ModuleType):
            names.append(name)
        elif module == "jax.scipy.stats":
            names += [f"{name}.{inner}" for inner in dir(value) if not inner.startswith("_")]
    return names


def rows(ours: Names, namespace: str, table: dict) -> list[Row]:
    """Returns the rows of a namespace."""
    names = public_names(table["module"]) if "module" in table else table["names"]
    left_out = {
        name: reason for reason, listed in table.get("left_out", {}).items() for name in listed
    }
    stated = {key: table.get(key, {}) for key in ("other", "instead", "lacks", "refused")}
    listed = set(left_out).union(*stated.values())
    if unknown := listed - set(names):
        ours.problems.append(f"{namespace} does not have {sorted(unknown)}")
    found = []
    for name in names:
        lacks = stated["lacks"].get(name, "")
        if name in left_out:
            found.append(Row(namespace, name, LEFT_OUT, note=left_out[name]))
        elif name in stated["refused"]:
            found.append(Row(namespace, name, REFUSED, note=stated["refused"][name]))
        elif name in stated["instead"]:
            found.append(Row(namespace, name, INSTEAD, note=stated["instead"][name]))
        elif name in stated["other"]:
            path = stated["other"][name]
            if not ours.has(path):
                ours.problems.append(f"{namespace}.{name}: oxidax does not have `{path}`")
            found.append(Row(namespace, name, THERE, path, lacks))
        else:
            path = ours.find(table["search"], name)
            path = path or ours.find_alias(table["search"], namespace, name)
            if lacks and not path:
                ours.problems.append(f"{namespace}.{name} lacks options, but has no counterpart")
            found.append(Row(namespace, name, THERE if path else ABSENT, path or "", lacks))
    return found


def share(found: list[Row]) -> tuple[int, int, int]:
    """Returns the numbers of names that are there, that lack an option, and that count."""
    there = [row for row in found if row.state in (THERE, INSTEAD)]
    counted = [row for row in found if row.state != LEFT_OUT]
    return len(there), sum(bool(row.note) for row in there if row.state == THERE), len(counted)


def percent(part: int, whole: int) -> str:
    """Formats a share."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def section(namespace: str, found: list[Row]) -> str:
    """Returns the page's section on a namespace."""
    there, incomplete, counted = share(found)
    claim = f"{there} of {counted} names are there: {percent(there, counted)}."
    if not counted:
        claim = "No name counts."
    if incomplete:
        claim += f" {incomplete} of them {'is' if incomplete == 1 else 'are'} incomplete."
    lines = [f"### `{namespace}`", "", claim, ""]
    same, table = [], []
    for row in found:
        if row.state == THERE and not row.note and row.path.split("::")[-1] == row.name:
            same.append(row.path)
        elif row.state == THERE:
            table.append(f"| `{row.name}` | `{row.path}` | {row.note} |")
        elif row.state == INSTEAD:
            table.append(f"| `{row.name}` | {row.note} | |")
    lines += paragraph("Under the same name", same)
    if table:
        lines += ["| name | oxidax | lacks |", "|---|---|---|", *table, ""]
    refused = [row for row in found if row.state == REFUSED]
    for row in refused:
        text = f"- Refused: `{row.name}`: {row.note}."
        lines += textwrap.wrap(text, 98, subsequent_indent="  ", break_long_words=False)
    lines += [""] if refused else []
    lines += paragraph("Not yet", [row.name for row in found if row.state == ABSENT])
    reasons: dict[str, list[str]] = {}
    for row in found:
        if row.state == LEFT_OUT:
            reasons.setdefault(row.note, []).append(row.name)
    for reason, names in sorted(reasons.items()):
        lines += paragraph(f"Left out ({reason})", names)
    return "\n".join(lines)


def paragraph(title: str, names: list[str]) -> list[str]:
    """Formats a title and names as a wrapped paragraph."""
    if not names:
        return []
    text = f"{title}: " + ", ".join(f"`{name}`" for name in sorted(names)) + "."
    return [*textwrap.wrap(text, 98, break_long_words=False, break_on_hyphens=False), ""]


def generate() -> tuple[str, str]:
    """Returns the page and the rows of the command."""
    ours, summary, sections, lines = Names(), [], [], []
    for file, area in AREAS.items():
        tables = tomllib.loads((ROOT / "python-compat" / "names" / f"{file}.toml").read_text())
        by_namespace = {name: rows(ours, name, table) for name, table in tables.items()}
        of_area = [row for found in by_namespace.values() for row in found]
        there, incomplete, counted = share(of_area)
        summary.append(
            f"| [{area}](#{re.sub(r'[^a-z -]', '', area.lower()).replace(' ', '-')}) "
            f"| {counted} | {there} | {percent(there, counted)} | {incomplete} |"
        )
        sections.append(f"## {area}\n")
        sections += [section(name, found) for name, found in by_namespace.items()]
        lines += [
            "\t".join((row.namespace, row.name, row.state, row.path, row.note)) for row in of_area
        ]
    if ours.problems:
        sys.exit("python-compat/names:\n" + "\n".join(ours.problems))
    head = ["| names of | count | there | share | incomplete |", "|---|---:|---:|---:|---:|"]
    page = "\n".join([ABOUT, *head, *summary, "", *sections]).rstrip() + "\n"
    return page, "\n".join(lines) + "\n"


def main() -> int:
    """Writes the page and the rows, or compares them with the committed ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="compare the files instead of writing them"
    )
    args = parser.parse_args()
    page, lines = generate()
    for file, text in ((PAGE, page), (ROWS, lines)):
        if not args.check:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            print(f"{file.relative_to(ROOT)} is stale: run python-compat/names.py")
            return 1
    print("\n".join(line for line in page.splitlines() if line.startswith("| [")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
