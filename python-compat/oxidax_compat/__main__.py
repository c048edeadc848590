"""The command line: `python -m oxidax_compat record|verify|export|convert …`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__, conversion, exported, fixtures, verification
from .conversion import FORMATS
from .functions import __doc__ as _ARGUMENTS
from .functions import find_function, make_arguments
from .trees import flatten


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command, and returns its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["verify"]:
        # All options are those of the command `oxidax verify`.
        return _guarded(lambda: verification.verify(*given[1:]))
    options = _parser().parse_args(given)
    return _guarded(lambda: int(options.run(options) or 0))


def _guarded(run: object) -> int:
    assert callable(run)
    try:
        return int(run())
    except (OSError, ValueError, TypeError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="oxidax_compat", description="oxidax's side in Python.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = _command(commands, "record", "record a call of a JAX function as a fixture", _record)
    _add_function(one)
    one.add_argument("--out", type=Path, default=Path(), help="the folder; default: this one")
    one.add_argument("--name", help="the name of the fixture; default: the function's")
    one.add_argument("--gradients", action="store_true", help="record derivatives too")

    commands.add_parser("verify", help="run `oxidax verify` with this Python", add_help=False)

    one = _command(commands, "export", "export a function, or describe an exported one", _export)
    one.add_argument("function", help="module:function or file.py:function, or a file to describe")
    one.add_argument("--args", nargs="*", default=[], help="see `record --help`")
    one.add_argument("--out", type=Path, help="the file; default: NAME.jax_export")
    one.add_argument("--platforms", default="cpu", help="such as cpu,tpu,cuda")
    one.add_argument("--gradients", type=int, default=0, metavar="ORDER")

    one = _command(commands, "convert", "convert a checkpoint", _convert)
    one.add_argument("source", type=Path)
    one.add_argument("target", type=Path)
    one.add_argument("--from", dest="source_format", choices=FORMATS)
    one.add_argument("--to", dest="target_format", choices=FORMATS)

    one = _command(commands, "compute", "JAX's side of `oxidax verify`", _compute)
    one.add_argument("folder", type=Path)
    one.add_argument("--platform", default="cpu")
    one.add_argument("--suites", nargs="*", default=[])
    one.add_argument("--stride", type=int, default=1)
    one.add_argument("--function")
    one.add_argument("--args", nargs="*", default=[])
    one.add_argument("--gradients", action="store_true")
    one.add_argument("--x64", action="store_true", help="64-bit types in a function")
    return parser


def _command(commands: object, name: str, text: str, run: object) -> argparse.ArgumentParser:
    assert isinstance(commands, argparse._SubParsersAction)
    command = commands.add_parser(
        name, help=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.set_defaults(run=run)
    assert isinstance(command, argparse.ArgumentParser)
    return command


def _add_function(parser: argparse.ArgumentParser) -> None:
    parser.description = _ARGUMENTS
    parser.add_argument("function", help="module:function or file.py:function")
    parser.add_argument("--args", nargs="*", default=[], help="types, numbers, files, calls")


def _record(options: argparse.Namespace) -> None:
    function, arguments = find_function(options.function), make_arguments(options.args)
    paths = fixtures.record(
        function, *arguments, folder=options.out, name=options.name, gradients=options.gradients
    )
    print(f"wrote {paths[0]} and {paths[1]}")


def _export(options: argparse.Namespace) -> None:
    if ":" not in options.function:
        loaded = exported.load(options.function)
        print(loaded)
        print(f"platforms: {', '.join(loaded.platforms)}")
        print(f"gradients: {'yes' if loaded.has_gradients else 'no'}")
        return
    function, arguments = find_function(options.function), make_arguments(options.args)
    target = options.out or Path(f"{options.function.rpartition(':')[2]}.jax_export")
    data = exported.export(
        function,
        *arguments,
        path=target,
        platforms=options.platforms.split(","),
        gradients=options.gradients,
    )
    print(f"wrote {target}, {len(data):,} bytes: {exported.load(target)}")


def _convert(options: argparse.Namespace) -> None:
    tree = conversion.read(options.source, options.source_format)
    conversion.write(options.target, tree, options.target_format)
    print(f"wrote {options.target}, {len(flatten(tree))} arrays")


def _compute(options: argparse.Namespace) -> int:
    """Prints one line of JSON for each report; `oxidax verify` reads them."""
    verification.use_platform(options.platform, wide=bool(options.suites) or options.x64)
    options.folder.mkdir(parents=True, exist_ok=True)
    print(json.dumps({"versions": verification.versions()}), flush=True)
    if options.function is not None:
        function, arguments = find_function(options.function), make_arguments(options.args)
        report = verification.write_function(
            options.folder, function, arguments, gradients=options.gradients
        )
        print(json.dumps({"function": report["function"], "steps": len(report["steps"])}))
    for suite in verification.write_fixtures(options.folder, options.suites, options.stride):
        print(json.dumps(suite), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
