"""Checkpoints of oxidax: files whose names are leaf paths, and the folders of training runs.

`save` writes what `oxidax::checkpoint::load` and `open` read. `load` reads what
`oxidax::checkpoint::save` and `Folder::save` write, and models in several files with an index.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from . import safetensors
from .dtypes import aval
from .safetensors import Array, DamagedFile
from .trees import as_array, flatten, map_leaves, nest

_FORMAT = "oxidax checkpoint"
_VERSIONS = (1, 2)
_INDEX = "model.safetensors.index.json"
# The name of an array that is not in a tree, as in oxidax.
_SINGLE_LEAF = "array"


def save(path: str | os.PathLike[str], tree: Any) -> list[str]:
    """Writes the leaves of a tree under their paths, and returns the paths.

    The tree may have dicts, lists, tuples, `NamedTuple`s and dataclasses, with arrays of NumPy or
    JAX, or numbers. An array that is not in a tree has the name `array`.

    >>> save("model.safetensors", {"layers": [{"weight": numpy.ones((2, 3), "f")}]})
    ['layers[0].weight']
    """
    leaves = {path or _SINGLE_LEAF: as_array(leaf, path) for path, leaf in flatten(tree)}
    safetensors.save(path, leaves)
    return list(leaves)


def load(path: str | os.PathLike[str], template: Any = None) -> Any:
    """Returns the tree of a checkpoint: dicts and lists, or the template's types if there is one.

    The path is a file, an index of files, a folder with either, a step of a training run, or the
    folder of a run, of which the last step is read. Arrays that were saved as shards are joined.
    Without a template, a checkpoint with one array of the name `array` is that array.

    Raises `FileNotFoundError`, `DamagedFile`, or `ValueError` with all differences from the
    template. Checksums of arrays are not compared; oxidax compares them when it restores.
    """
    arrays = load_arrays(path)
    if template is None:
        return arrays[_SINGLE_LEAF] if list(arrays) == [_SINGLE_LEAF] else nest(arrays)
    return fill(template, arrays)


def fill(template: Any, arrays: dict[str, Array]) -> Any:
    """Returns the template with the arrays that are named by its leaf paths.

    Raises `ValueError` with every missing or additional name and every other type.
    """
    wanted = {path or _SINGLE_LEAF: leaf for path, leaf in flatten(template)}
    problems = [f"missing: {path}" for path in wanted if path not in arrays]
    problems += [f"not a leaf of the template: {name}" for name in arrays if name not in wanted]
    for path, leaf in wanted.items():
        if path not in arrays:
            continue
        expected, found = _type_of(leaf, path), aval(arrays[path])
        if expected != found:
            problems.append(f"{path}: stored {found}, the template has {expected}")
    if problems:
        raise ValueError("the checkpoint does not match:\n  " + "\n  ".join(sorted(problems)))
    names = iter(list(wanted))
    return map_leaves(lambda _: arrays[next(names)], template)


def _type_of(leaf: Any, path: str) -> str:
    """Returns the type of an array, or of a description of one, such as `ShapeDtypeStruct`."""
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return aval(leaf)
    return aval(as_array(leaf, path))


def load_arrays(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Returns the arrays of a checkpoint by their names, without building a tree."""
    given = Path(path)
    if given.is_dir():
        return _load_folder(given)
    if given.name.endswith(".index.json"):
        return _load_index(given)
    return safetensors.load(given)


def steps(folder: str | os.PathLike[str]) -> list[int]:
    """Returns the steps in the folder of a training run, in order."""
    found = []
    for entry in Path(folder).iterdir():
        number = entry.name.removeprefix("step-")
        if number != entry.name and number.isdigit() and (entry / "manifest.jsonl").is_file():
            found.append(int(number))
    return sorted(found)


def _load_folder(folder: Path) -> dict[str, Array]:
    if (folder / "manifest.jsonl").is_file():
        return _load_step(folder)
    if (folder / "model.safetensors").is_file():
        return safetensors.load(folder / "model.safetensors")
    if (folder / _INDEX).is_file():
        return _load_index(folder / _INDEX)
    found = steps(folder)
    if not found:
        raise FileNotFoundError(
            f"{folder}: no step-…/manifest.jsonl, no model.safetensors and no {_INDEX}"
        )
    last = next(entry for entry in folder.iterdir() if _is_step(entry.name, found[-1]))
    return _load_step(last)


def _is_step(name: str, step: int) -> bool:
    number = name.removeprefix("step-")
    return number != name and number.isdigit() and int(number) == step


def _inside(folder: Path, name: Any, origin: Path) -> Path:
    """Returns the path of a file in the folder. Names of files outside are refused."""
    if not isinstance(name, str) or Path(name).name != name or name in ("", ".", ".."):
        raise DamagedFile(f"{origin}: it names the file {name!r}, which is not in the folder")
    return folder / name


def _load_index(index: Path) -> dict[str, Array]:
    try:
        names = json.loads(index.read_bytes())["weight_map"]
        files = {_inside(index.parent, file, index) for file in names.values()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, DamagedFile):
            raise
        raise DamagedFile(f"{index}: {error}") from error
    arrays: dict[str, Array] = {}
    for file in sorted(files):
        arrays |= {n: a for n, a in safetensors.load(file).items() if names.get(n) == file.name}
    missing = sorted(set(names) - set(arrays))
    if missing:
        raise DamagedFile(f"{index}: its files do not have {', '.join(missing[:5])}")
    return arrays


def read_manifest(step: Path) -> dict[str, Any]:
    """Returns the manifest of a step: its number, files, notes, and arrays saved as shards."""
    path = step / "manifest.jsonl"
    try:
        manifest = json.loads(path.read_bytes().split(b"\n", 1)[0])
        form, version = manifest["format"], manifest["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"{path}: {error}") from error
    if form != _FORMAT or version not in _VERSIONS:
        raise DamagedFile(f"{path}: format {form!r}, version {version}; {_VERSIONS} are read here")
    assert isinstance(manifest, dict)
    return manifest


def _load_step(step: Path) -> dict[str, Array]:
    manifest, origin = read_manifest(step), step / "manifest.jsonl"
    stored: dict[str, Array] = {}
    try:
        for file in manifest["files"]:
            stored |= safetensors.load(_inside(step, file["name"], origin))
        sharded = manifest.get("pieces", {})
        joined = {name: _join(name, shards, stored) for name, shards in sharded.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(f"{origin}: {error!r}") from error
    shards_of = {shard for shards in sharded.values() for shard in shards["pieces"]}
    whole = {name: array for name, array in stored.items() if name not in shards_of}
    return whole | joined


def _join(name: str, entry: dict[str, Any], stored: dict[str, Array]) -> Array:
    """Returns an array that was saved as its distinct shards."""
    starts = entry["pieces"]
    if not starts:
        raise DamagedFile(f"`{name}` has no shards")
    shards = {shard: stored[shard] for shard in starts}
    shape = [int(size) for size in entry["shape"]]
    covered = sum(shard.size for shard in shards.values())
    if covered != int(np.prod(shape, dtype=object)):
        raise DamagedFile(f"the shards of `{name}` have {covered} elements, its shape is {shape}")
    whole = np.empty(shape, next(iter(shards.values())).dtype)
    for shard, start in starts.items():
        values = shards[shard]
        if len(start) != len(shape) or values.ndim != len(shape):
            raise DamagedFile(f"shard `{shard}` starts at {start} in the shape {shape}")
        spans = tuple(slice(at, at + size) for at, size in zip(start, values.shape))
        if whole[spans].shape != values.shape:
            raise DamagedFile(f"shard `{shard}` ends outside of the shape {shape}")
        whole[spans] = values
    return whole
