"""Functions of `jax.export`: files for oxidax, and files that oxidax has written.

The files are what `jax.export`'s own `Exported.serialize` writes.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .trees import complete, flatten, like, map_leaves, plain

# Read by oxidax: `crates/jax-export` in its repository.
PLATFORMS = ("cpu", "tpu", "cuda", "rocm")
CALLING_CONVENTIONS = range(9, 11)
MAX_VJP_ORDER = 16


class UnsupportedExport(ValueError):
    """The exported function is one that oxidax does not read. The message lists the reasons."""


def export(
    function: Callable[..., Any],
    *arguments: Any,
    path: str | os.PathLike[str] | None = None,
    platforms: Sequence[str] = ("cpu",),
    gradients: int = 0,
) -> bytes:
    """Exports `function(*arguments)` for oxidax, and returns the bytes of the file.

    Arguments are trees of dicts, lists, tuples, `NamedTuple`s and dataclasses of arrays, or of
    descriptions such as `jax.ShapeDtypeStruct`. `NamedTuple`s and dataclasses become dicts in the
    file, since it has no classes. `gradients` is the number of times that the loaded function can
    be differentiated.

    Raises `UnsupportedExport` if oxidax does not read the result, and JAX's errors of tracing.

    >>> export(predict, params, x, path="predict.jax_export", platforms=["cpu", "tpu"])
    """
    jax, jax_export = _jax()
    if gradients not in range(MAX_VJP_ORDER + 1):
        raise ValueError(f"gradients={gradients}; an order from 0 to {MAX_VJP_ORDER} is exported")
    template = list(arguments)

    def on_plain_trees(*trees: Any) -> Any:
        return plain(function(*like(template, list(trees))))

    on_plain_trees.__name__ = getattr(function, "__name__", "function").replace("<lambda>", "f")
    with _wide_types(jax, [leaf for _, leaf in flatten(template)]):
        described = [plain(map_leaves(_described(jax), argument)) for argument in arguments]
        staged = jax_export.export(jax.jit(on_plain_trees), platforms=list(platforms))
        try:
            exported = staged(*described)
        except NotImplementedError as error:
            raise UnsupportedExport(f"JAX cannot export this function: {error}") from error
        problems = check(exported)
        if problems:
            raise UnsupportedExport("\n  ".join(["oxidax does not read this function:", *problems]))
        try:
            data = bytes(exported.serialize(vjp_order=gradients))
        except ImportError as error:
            raise ImportError(f"jax.export needs `flatbuffers`; install it ({error})") from error
    if path is not None:
        Path(path).write_bytes(data)
    return data


def check(exported: Any) -> list[str]:
    """Returns the reasons why oxidax cannot read an `Exported`; none if it can."""
    problems = []
    version = exported.calling_convention_version
    if version not in CALLING_CONVENTIONS:
        first, last = CALLING_CONVENTIONS.start, CALLING_CONVENTIONS.stop - 1
        problems.append(f"calling convention {version}; oxidax reads {first} to {last}")
    unknown = [platform for platform in exported.platforms if platform not in PLATFORMS]
    if unknown:
        problems.append(f"platforms {', '.join(unknown)}; oxidax has {', '.join(PLATFORMS)}")
    effects = [*exported.ordered_effects, *exported.unordered_effects]
    if effects:
        names = ", ".join(sorted({type(effect).__name__ for effect in effects}))
        problems.append(f"effects ({names}), such as printing or callbacks, cannot be exported")
    return problems


class Loaded:
    """A function that was loaded from a file. It takes and returns trees of NumPy arrays."""

    def __init__(self, exported: Any) -> None:
        """Wraps an `Exported` of `jax.export`."""
        self.exported = exported

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Computes the function with the installed JAX.

        Parts of a tree without arrays, such as static fields of oxidax, may be absent: a checkpoint
        does not have them.

        Raises `TypeError` if structure, shapes or dtypes are others than the file's.
        """
        jax, _ = _jax()
        with _wide_types(jax, self.exported.in_avals):
            args, kwargs = self._arguments(jax, arguments, keywords)
            return _numpy(jax, self.exported.call(*args, **kwargs))

    def vjp(self, *arguments: Any, **keywords: Any) -> tuple[Any, Callable[[Any], Any]]:
        """Returns the results, and a function from their cotangents to those of the arguments.

        Raises `ValueError` if the file has no derivatives.
        """
        jax, _ = _jax()
        self._expect_gradients()
        with _wide_types(jax, self.exported.in_avals):
            args, kwargs = self._arguments(jax, arguments, keywords)
            results, pullback = jax.vjp(lambda *a: self.exported.call(*a, **kwargs), *args)

        def pull(cotangents: Any) -> Any:
            with _wide_types(jax, self.exported.in_avals):
                return _numpy(jax, pullback(jax.tree.map(jax.numpy.asarray, cotangents)))

        return _numpy(jax, results), pull

    def grad(self, *arguments: Any, argnum: int = 0) -> Any:
        """Returns the gradient of a scalar result by one argument.

        Raises `ValueError` if the result is not a scalar, or the file has no derivatives.
        """
        jax, _ = _jax()
        results, pullback = self.vjp(*arguments)
        leaves = jax.tree.leaves(results)
        if len(leaves) != 1 or leaves[0].shape != ():
            types = ", ".join(aval.str_short() for aval in self.exported.out_avals)
            raise ValueError(f"a gradient is of one scalar; the results are {types}")
        ones = jax.tree.map(lambda leaf: jax.numpy.ones((), leaf.dtype), results)
        return pullback(ones)[argnum]

    @property
    def has_gradients(self) -> bool:
        """True if the file has derivatives."""
        return bool(self.exported.has_vjp())

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that the function was exported for."""
        return tuple(self.exported.platforms)

    def __repr__(self) -> str:
        inputs = ", ".join(aval.str_short() for aval in self.exported.in_avals)
        outputs = ", ".join(aval.str_short() for aval in self.exported.out_avals)
        return f"{self.exported.fun_name}({inputs}) -> {outputs}"

    def _expect_gradients(self) -> None:
        if not self.has_gradients:
            name = self.exported.fun_name
            raise ValueError(f"{name} was exported without derivatives; export it with them")

    def _arguments(self, jax: Any, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
        """Returns the arguments as plain trees of JAX arrays with the dtypes of the file."""
        trees = (tuple(plain(argument) for argument in args), plain(kwargs))
        expected = self.exported.in_avals
        numbered = jax.tree.unflatten(self.exported.in_tree, range(len(expected)))
        leaves, structure = jax.tree.flatten(complete(numbered, trees))
        if structure != self.exported.in_tree or len(leaves) != len(expected):
            problem = _mismatch(jax, numbered, trees)
            raise TypeError(f"{self.exported.fun_name} was called with other arguments: {problem}")
        arrays = []
        for leaf, aval in zip(leaves, expected):
            dtype = getattr(leaf, "dtype", aval.dtype)
            if dtype != aval.dtype:
                raise TypeError(f"an argument is {dtype}, the function takes {aval.str_short()}")
            arrays.append(jax.numpy.asarray(leaf, aval.dtype))
        args, kwargs = jax.tree.unflatten(structure, arrays)
        return list(args), dict(kwargs)


def load(path: str | os.PathLike[str]) -> Loaded:
    """Loads a function that oxidax or JAX has exported.

    Raises `FileNotFoundError`, and `ValueError` if the file is not one of `jax.export`.

    >>> predict = load("predict.jax_export")
    >>> predict({"weight": w, "bias": b}, x)
    """
    _, jax_export = _jax()
    data = Path(path).read_bytes()
    try:
        return Loaded(jax_export.deserialize(bytearray(data)))
    except ImportError as error:
        raise ImportError(f"jax.export needs `flatbuffers`; install it ({error})") from error
    except Exception as error:  # Damaged bytes are errors of flatbuffers, of many types.
        raise ValueError(f"{path} is not a function of jax.export: {error!r}") from error


def _jax() -> tuple[Any, Any]:
    try:
        return importlib.import_module("jax"), importlib.import_module("jax.export")
    except ImportError as error:
        raise ImportError(f"JAX 0.4.31 or later is needed; install `jax` ({error})") from error


def _described(jax: Any) -> Callable[[Any], Any]:
    """Returns the function from a leaf to its description; descriptions are unchanged."""

    def describe(leaf: Any) -> Any:
        if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
        array = jax.numpy.asarray(leaf)
        return jax.ShapeDtypeStruct(array.shape, array.dtype)

    return describe


def _mismatch(jax: Any, expected: Any, given: Any) -> str:
    """Names the leaves in which a call's arguments and keywords differ from the file's."""

    def leaves(tree: Any) -> list[str]:
        # A call is a pair: the arguments by their index, and the keywords by their names.
        pairs, _ = jax.tree_util.tree_flatten_with_path(tree)
        return [jax.tree_util.keystr(path[1:]) for path, _ in pairs]

    wanted, found = leaves(expected), leaves(given)
    missing = [f"{path} is missing" for path in wanted if path not in found]
    surplus = [f"{path} is not an argument" for path in found if path not in wanted]
    problems = [*missing, *surplus] or ["a list, a tuple or None stands where another one is"]
    more = f", and {len(problems) - 5} more" if len(problems) > 5 else ""
    return "; ".join(problems[:5]) + more


def _numpy(jax: Any, tree: Any) -> Any:
    import numpy as np

    return jax.tree.map(np.asarray, tree)


@contextlib.contextmanager
def _wide_types(jax: Any, leaves: Sequence[Any]) -> Iterator[None]:
    """Turns 64-bit types on while a function uses them; otherwise JAX would narrow them."""
    names = {str(getattr(leaf, "dtype", "")) for leaf in leaves}
    if names.isdisjoint({"float64", "int64", "uint64", "complex128"}):
        yield
        return
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)
