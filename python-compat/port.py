"""Writes a JAX function as a file that `oxidax port` turns into Rust.

    python port.py models.py:gpt2_block --args models.py:example_args -o gpt2_block.json
    python port.py package.module:loss --args "(jnp.ones((3, 4)), jnp.zeros(3))" -o loss.json

The file has the jaxpr with its types and constants, names and trees of arguments, and source lines.
The arguments and JAX's results are stored beside it, as safetensors, for the test of the Rust
program.
"""

import argparse
import importlib
import importlib.util
import inspect
import json
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np  # for expressions of --args

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import port_calls
import port_json
import port_sources

FORMAT, VERSION = "oxidax-port", 1


def load(path):
    """Imports a module by its name, or by the path of its file."""
    if not path.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        return importlib.import_module(path)
    path = os.path.abspath(path)
    name = os.path.splitext(os.path.basename(path))[0]
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == path:
        return sys.modules[name]
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def lookup(reference):
    """The object `module:name` and its module."""
    module_name, _, name = reference.rpartition(":")
    if not module_name:
        raise SystemExit(f"error: `{reference}` is not MODULE:NAME, such as models.py:loss")
    module, value = load(module_name), None
    value = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise SystemExit(f"error: {module_name} has no `{name}`")
        value = getattr(value, part)
    return value, module


def original(function):
    """A function without interception and jit."""
    function = getattr(function, "oxidax_original", function)
    return function


def trace(function, args, name=None, root=None, modules=(), interception=None):
    """Traces a function at example arguments.

    Returns the contents of the JSON file, and the arrays of the safetensors file.
    """
    interception = interception or port_calls.Interception()
    function = original(function)
    # Random numbers of oxidax are those of JAX since 0.5, where this is the default.
    jax.config.update("jax_threefry_partitionable", True)
    args = [jax.tree_util.tree_map(port_calls.as_array, arg, is_leaf=None) if not callable(arg)
            else arg for arg in args]
    split = port_calls.Split(list(args))
    results, reason = {}, None

    def flat(*dynamic):
        out = function(*split.merge(dynamic))
        results["tree"] = port_calls.LeafNumbers().tree(out)
        results["split"] = port_calls.Split(out)
        return results["split"].dynamic

    for module in modules:
        interception.wrap_module(module)
    for level in range(3):
        try:
            with interception.tracing(level):
                flat.__name__ = getattr(function, "__name__", "function")
                closed = jax.make_jaxpr(flat)(*split.dynamic)
                calls = interception.calls
            break
        except NotImplementedError as error:
            # A transform that was not intercepted met an equation that it has no rule for.
            reason = f"{type(error).__name__}: {error}"
    else:
        raise SystemExit(f"error: {name}: JAX cannot trace the function: {reason}")
    encoder = port_json.Encoder(root or os.getcwd())
    body = encoder.closed(closed)
    numbers = port_calls.LeafNumbers()
    names = port_calls.parameter_names(function, len(args))
    params = [[param, numbers.tree(arg)] for param, arg in zip(names, args)]
    code = getattr(inspect.unwrap(function), "__code__", None)
    contents = {
        "format": FORMAT, "version": VERSION, "jax": jax.__version__,
        "name": name or getattr(function, "__name__", "function"),
        "module": function.__module__, "doc": port_calls.first_line(function),
        "kept": port_calls.LEVELS[level], "params": params, "result": results["tree"],
        "calls": calls, "body": body,
    }
    if code is not None and os.path.exists(code.co_filename):
        file = port_sources.shown(code.co_filename, encoder.lines.root)
        contents["source"] = {"file": file, "line": code.co_firstlineno}
    contents["vars"] = encoder.vars
    contents["lines"] = encoder.lines.table
    contents["consts"] = encoder.consts
    tensors = dict(encoder.tensors)
    # JAX keeps traces, and those with intercepted calls cannot be compiled.
    jax.clear_caches()
    outs = jax.tree_util.tree_leaves(jax.jit(lambda *dynamic: flat(*dynamic))(*split.dynamic))
    for prefix, leaves in (("in", split.dynamic), ("out", outs)):
        for index, leaf in enumerate(leaves):
            is_key = str(getattr(leaf, "dtype", "")).startswith("key<")
            tensors[f"{prefix}.{index}"] = jax.random.key_data(leaf) if is_key else leaf
    contents["inputs"] = [port_json.type_of(leaf) for leaf in split.dynamic]
    contents["outputs"] = [port_json.type_of(leaf) for leaf in outs]
    return contents, tensors


def write(contents, tensors, path):
    """Writes both files."""
    stem = path[:-5] if path.endswith(".json") else path
    contents["tensors"] = os.path.basename(stem) + ".safetensors"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(contents, file, separators=(",", ":"), allow_nan=False)
        file.write("\n")
    port_json.write_safetensors(stem + ".safetensors", tensors)


def examples(text, module):
    """Example arguments: `module:function`, or an expression over jax, jnp, np and the module."""
    scope = {"jax": jax, "jnp": jnp, "np": np, **vars(module)}
    head, _, name = text.rpartition(":")
    is_module = head.endswith(".py") or head.replace(".", "").isidentifier()
    if head and name.isidentifier() and is_module:
        found, _ = lookup(text)
        args = found() if callable(found) else found
    else:
        args = eval(text, scope)
        args = args() if callable(args) else args
    return list(args) if isinstance(args, (tuple, list)) else [args]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("function", help="MODULE:FUNCTION or FILE.py:FUNCTION")
    parser.add_argument("--args", required=True,
                        help="example arguments: an expression, or MODULE:FUNCTION returning them")
    parser.add_argument("-o", "--output", help="the JSON file [default: FUNCTION.json]")
    arguments = parser.parse_args()
    interception = port_calls.Interception()
    interception.install()
    function, module = lookup(arguments.function)
    args = examples(arguments.args, module)
    name = arguments.function.rpartition(":")[2].rpartition(".")[2]
    root = os.path.dirname(os.path.abspath(getattr(module, "__file__", None) or os.getcwd()))
    contents, tensors = trace(function, args, name, root, [module], interception)
    path = arguments.output or f"{name}.json"
    write(contents, tensors, path)
    print(f"wrote {path} and {contents['tensors']}; next: oxidax port {path} -o FOLDER")


if __name__ == "__main__":
    main()
