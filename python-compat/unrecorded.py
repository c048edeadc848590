"""Lists functions that oxidax has, but that no module of the recorder of fixtures uses.

`unrecorded.py` prints them, and fails if there are any. A table of `python-compat/names` can state
exceptions: `unrecorded` has names under the reasons why they are not recorded. Needs no package.
"""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "crates" / "cli" / "src" / "jax_names.tsv"
RECORDER = ROOT / "python-compat" / "recorder"
# Namespaces of numerical functions.
NUMERICAL = re.compile(r"jax\.(numpy|lax|nn|scipy)\b|jax\.experimental\.sparse$|optax\b")


def used_names() -> set[str]:
    """Returns the identifiers in the recorder's modules.

    In modules that call `getattr`, these include strings.
    """
    used = set()
    for path in RECORDER.glob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        has_getattr = any(isinstance(node, ast.Name) and node.id == "getattr" for node in nodes)
        for node in nodes:
            if isinstance(node, ast.Attribute):
                used.add(node.attr)
            elif isinstance(node, ast.Name):
                used.add(node.id)
            elif isinstance(node, ast.alias):
                used.add(node.name)
            elif has_getattr and isinstance(node, ast.Constant) and isinstance(node.value, str):
                used.add(node.value)
    return used


def exceptions() -> dict[str, set[str]]:
    """Returns the names that are not recorded for a stated reason, by namespace."""
    found = {}
    for path in sorted((ROOT / "python-compat" / "names").glob("*.toml")):
        for namespace, table in tomllib.loads(path.read_text()).items():
            found[namespace] = {
                name for names in table.get("unrecorded", {}).values() for name in names
            }
    return found


def unrecorded() -> list[str]:
    """Returns the functions without a recorded case, and exceptions that are none."""
    used, excepted, problems = used_names(), exceptions(), []
    seen = {namespace: set() for namespace in excepted}
    for line in ROWS.read_text().splitlines():
        namespace, name, state, *_ = line.split("\t")
        if state != "there" or not NUMERICAL.match(namespace):
            continue
        is_used = all(part in used for part in name.split("."))
        if name in excepted[namespace]:
            seen[namespace].add(name)
            if is_used:
                problems.append(f"{namespace}.{name}: an exception, but the recorder uses it")
        elif not is_used:
            problems.append(f"{namespace}.{name}: no module of the recorder uses it")
    for namespace, names in excepted.items():
        for name in sorted(names - seen[namespace]):
            problems.append(f"{namespace}.{name}: an exception, but not a name that is there")
    return problems


def main() -> int:
    """Prints the list."""
    problems = unrecorded()
    print("\n".join(problems) or "every function is recorded")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
