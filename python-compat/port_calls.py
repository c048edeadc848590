"""Keeps calls of functions, `grad`, `value_and_grad` and `vmap` visible in a jaxpr.

`jax.make_jaxpr` inlines plain Python functions, and replaces derivatives by their operations. While
`Interception` is active, functions of user modules and some functions of JAX are traced as
calls whose arguments and results have their trees, and derivatives and maps as one equation.
"""

import contextlib
import functools
import inspect
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np

import port_json
import port_sources

try:
    from jax.extend.core import Primitive
except ImportError:
    from jax.core import Primitive

# Functions that JAX inlines, by module, with the parameters that are arrays.
LIBRARY = {
    "jax.nn": ["softmax", "log_softmax", "logsumexp", "gelu", "standardize", "one_hot", "glu",
               "dot_product_attention", "relu", "silu", "swish", "softplus", "elu", "leaky_relu",
               "log_sigmoid", "sigmoid", "celu", "selu", "relu6", "hard_tanh", "soft_sign"],
    "jax.scipy.special": ["logsumexp"],
}
LEVELS = ("calls, derivatives and maps", "calls of functions", "nothing")


def is_array(leaf):
    """Tells arrays, which are traced, from other leaves of arguments."""
    return isinstance(leaf, (jax.Array, np.ndarray, np.generic, jax.core.Tracer))


class Split:
    """Arguments of a call: arrays, and everything else as it is."""

    def __init__(self, args):
        self.leaves, self.structure = jax.tree_util.tree_flatten(args)
        self.dynamic = [leaf for leaf in self.leaves if is_array(leaf)]

    def merge(self, dynamic):
        dynamic = iter(dynamic)
        leaves = [next(dynamic) if is_array(leaf) else leaf for leaf in self.leaves]
        return jax.tree_util.tree_unflatten(self.structure, leaves)


class LeafNumbers:
    """Numbers the array leaves of trees in the order of flattening."""

    def __init__(self):
        self.next = 0

    def tree(self, value):
        return port_json.tree(value, self.leaf)

    def leaf(self, value):
        if not is_array(value):
            # A function has no form in Rust: the call is traced with it.
            plain = isinstance(value, (bool, int, float, str))
            name = getattr(value, "__name__", None) or type(value).__name__
            entry = {"static": repr(value)[:60] if plain else name}
            if plain:
                is_number = not isinstance(value, (bool, str))
                entry["value"] = port_json.number(value) if is_number else value
            return entry
        self.next += 1
        return {"leaf": self.next - 1}


class Interception:
    """Replaces functions while a program is traced, and describes the calls that were seen."""

    def __init__(self):
        self.calls = []
        self.level = None
        self.originals = {}
        self.grad_primitive = transform_primitive("oxidax_grad")
        self.vmap_primitive = transform_primitive("oxidax_vmap")

    def install(self):
        """Replaces functions of JAX. Call it before the user's module is imported."""
        for name in ("grad", "value_and_grad"):
            setattr(jax, name, self.derivative(getattr(jax, name), name == "value_and_grad"))
        jax.vmap = self.vectorized(jax.vmap)
        for module_name, names in LIBRARY.items():
            module = sys.modules.get(module_name) or __import__(module_name, fromlist=["x"])
            for name in names:
                if hasattr(module, name):
                    setattr(module, name, self.call(getattr(module, name), library=True))

    def wrap_module(self, module):
        """Replaces the functions that a user's module defines, by name."""
        for name, value in list(vars(module).items()):
            inner = getattr(value, "__wrapped__", value)
            is_jitted = type(value).__name__ == "PjitFunction"
            if is_jitted:
                value = inner
            if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
                if not hasattr(value, "oxidax_original"):
                    setattr(module, name, self.call(value))

    @contextlib.contextmanager
    def tracing(self, level):
        """Intercepts calls at this level: an index of `LEVELS`."""
        self.level, self.calls = level, []
        try:
            yield
        finally:
            self.level = None

    def call(self, function, library=False):
        """Traces calls of a function as calls."""

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            if self.level is None or self.level > 1:
                return function(*args, **kwargs)
            try:
                bound = inspect.signature(function).bind(*args, **kwargs)
            except (TypeError, ValueError):
                return function(*args, **kwargs)
            split = Split((list(bound.args), dict(bound.kwargs)))
            if not any(isinstance(leaf, jax.core.Tracer) for leaf in split.dynamic):
                return function(*args, **kwargs)
            numbers, number = LeafNumbers(), len(self.calls)
            # Leaves are numbered in the order in which JAX flattens: keywords are sorted.
            keywords = sorted(bound.kwargs)
            if library:
                # Described, and not passed: some defaults are markers.
                bound.apply_defaults()
            order = [name for name in bound.arguments if name not in keywords] + keywords
            entry = {"name": function.__name__, "library": library,
                     "params": [[name, numbers.tree(bound.arguments[name])] for name in order
                                if name in bound.arguments]}
            entry["doc"] = first_line(function) if not library else ""
            self.calls.append(entry)
            results = {}

            def traced(*dynamic):
                call_args, call_kwargs = split.merge(dynamic)
                if library:
                    level, self.level = self.level, 2
                try:
                    out = function(*call_args, **call_kwargs)
                finally:
                    if library:
                        self.level = level
                results["split"] = Split(out)
                if "result" not in entry:
                    entry["result"] = LeafNumbers().tree(out)
                    # Under a transform, such as `vmap`, the call is traced with other types.
                    entry["inputs"] = [port_json.type_of(leaf) for leaf in dynamic]
                    entry["outputs"] = [port_json.type_of(leaf) for leaf in
                                        results["split"].dynamic]
                return results["split"].dynamic

            traced.__name__ = traced.__qualname__ = f"{function.__name__}__port{number}"
            out = jax.jit(traced)(*split.dynamic)
            return results["split"].merge(out)

        wrapper.oxidax_original = function
        return wrapper

    def derivative(self, transform, with_value):
        """Traces `grad` and `value_and_grad` as one equation."""

        @functools.wraps(transform)
        def wrapper(function, argnums=0, has_aux=False, **options):
            plain = transform(function, argnums=argnums, has_aux=has_aux, **options)
            if not called_by_user():
                return plain

            @functools.wraps(function)
            def derivative(*args, **kwargs):
                numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
                if self.level != 0 or any(options.values()) or kwargs:
                    return plain(*args, **kwargs)
                numbers = tuple(number % len(args) for number in numbers)
                args = [jax.tree_util.tree_map(as_array, arg) if index in numbers else arg
                        for index, arg in enumerate(args)]
                return self.bound(
                    self.grad_primitive, function, plain, args, args,
                    argnums=numbers, value=with_value, aux=has_aux)

            return derivative

        return wrapper

    def bound(self, primitive, function, plain, args, traced, **params):
        """Binds a transform of a function as one equation on `args`. `plain` is the transformed
        function, and `traced` has the arguments with which the function itself is traced."""
        out = plain_structure(plain, args, self)
        jaxpr, consts, tree = self.inner(function, traced)
        counts = LeafNumbers()
        described = Described({
            "trees": [counts.tree(arg) for arg in args], "result": tree,
            "names": parameter_names(function, len(args))})
        flat, structure = jax.tree_util.tree_flatten(out)
        results = primitive.bind(
            *consts, *Split(list(args)).dynamic, jaxpr=jaxpr,
            avals=Hidden([leaf.aval for leaf in flat]), described=described,
            n_consts=len(consts), **params)
        return jax.tree_util.tree_unflatten(structure, results)

    def vectorized(self, transform):
        """Traces `vmap` as one equation."""

        @functools.wraps(transform)
        def wrapper(function, in_axes=0, out_axes=0, **options):
            plain = transform(function, in_axes=in_axes, out_axes=out_axes, **options)
            if not called_by_user():
                return plain

            @functools.wraps(function)
            def mapped(*args, **kwargs):
                is_list = isinstance(in_axes, (tuple, list))
                tuple_axes = in_axes if is_list else [in_axes] * len(args)
                simple = all(axis is None or axis == 0 for axis in tuple_axes)
                usual = simple and out_axes == 0 and not any(options.values())
                if self.level != 0 or not usual or kwargs or len(tuple_axes) != len(args):
                    return plain(*args, **kwargs)
                one = [arg if axis is None else
                       jax.tree_util.tree_map(lambda leaf: slice_of(leaf, axis), arg)
                       for arg, axis in zip(args, tuple_axes)]
                return self.bound(
                    self.vmap_primitive, function, plain, args, one,
                    in_axes=tuple(tuple_axes), out_axes=out_axes)

            return mapped

        return wrapper

    def inner(self, function, args):
        """The jaxpr of a function at these arguments, the arrays that it captures, and the tree of
        its result."""
        split, results = Split(list(args)), {}

        def traced(*dynamic):
            out = function(*split.merge(dynamic))
            results["tree"] = LeafNumbers().tree(out)
            return Split(out).dynamic

        traced.__name__ = getattr(function, "__name__", "function")
        examples = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if hasattr(leaf, "shape") else leaf
                    for leaf in split.dynamic]
        closed = jax.make_jaxpr(traced)(*examples)
        return closed.jaxpr, list(closed.consts), results["tree"]


def called_by_user():
    """Tells user code from JAX's as the caller of a transform."""
    return port_sources.is_users(sys._getframe(2).f_code.co_filename)


def slice_of(leaf, axis):
    """An abstract example of an array."""
    shape = list(np.shape(leaf))
    del shape[axis]
    return AbstractExample(shape, leaf.dtype)


class AbstractExample(np.ndarray):
    """An array without elements that matter: only its type is used."""

    def __new__(cls, shape, dtype):
        if str(dtype).startswith("key<"):
            raise TypeError("vmap over typed keys is traced by JAX")
        return np.zeros(shape, dtype).view(cls)


class Hidden:
    """A parameter that is not written."""

    def __init__(self, value):
        self.value = value


class Described(Hidden):
    """A parameter that is written as it is, without a hash."""


def as_array(leaf):
    """Numbers that are differentiated become arrays."""
    return leaf if is_array(leaf) else jnp.asarray(leaf)


def plain_structure(plain, args, interception):
    """The types of the results of the transform itself, from a trace without interception."""
    split = Split(list(args))
    level, interception.level = interception.level, None
    count = len(interception.calls)
    found = {}

    def traced(*dynamic):
        out = plain(*split.merge(dynamic))
        found["leaves"] = [leaf for leaf in jax.tree_util.tree_leaves(out)]
        return out

    try:
        out = jax.eval_shape(traced, *split.dynamic)
    finally:
        interception.level = level
        del interception.calls[count:]
    leaves = jax.tree_util.tree_leaves(out)
    avals = [jax.core.ShapedArray(leaf.shape, leaf.dtype) for leaf in leaves]
    holders = [types.SimpleNamespace(aval=aval) for aval in avals]
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(out), holders)


def transform_primitive(name):
    """A primitive whose results have the types in `avals`."""
    primitive = Primitive(name)
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda *_, avals, **__: list(avals.value))
    return primitive


def parameter_names(function, count):
    """The names of a function's first parameters."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    return [names[index] if index < len(names) else f"x{index}" for index in range(count)]


def first_line(function):
    """The first paragraph of a documentation string, on one line."""
    text = inspect.getdoc(function) or ""
    if getattr(function, "__doc__", None) is None:
        return ""
    return " ".join(text.split("\n\n")[0].split())
