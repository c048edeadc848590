"""The figures of the programs in `research`, which `examples/research` has in Rust.

Random numbers are not stored: both sides draw them from the same keys.
"""

import importlib
import sys
from pathlib import Path

import jax
import numpy as np

from .suite import Suite

FOLDER = Path(__file__).resolve().parents[1] / "research"
TOLERANCE = {"rtol": 1e-5, "atol": 0.0}


def program(name):
    """Imports a program. Programs are scripts, so their folder is not a package."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return importlib.import_module(name)


def losses_and_figure(name, dtype=np.float32):
    """Returns the losses of all steps and the final figure."""
    module = program(name)
    with jax.enable_x64(dtype == np.float64):
        losses, figure = module.train(module.STEPS)
    return [np.array(losses, dtype), dtype(figure)]


def blockwise_attention(dtype):
    """Returns the losses of all steps with products in a dtype, and the last accuracy."""
    module = program("blockwise_attention")
    with jax.enable_x64(False):
        losses, accuracy = module.train(module.STEPS, {"bf16": "bfloat16", "f32": "float32"}[dtype])
    return [np.array(losses, np.float32), np.float32(accuracy)]


def first_gradients():
    """Returns the loss of the first batch in bf16, and the norm of each gradient."""
    module = program("blockwise_attention")
    with jax.enable_x64(False):
        params, batch = module.init(jax.random.key(0)), module.batch(jax.random.key(0))
        loss = lambda params: module.loss(jax.numpy.bfloat16, params, *batch)
        options = {"xla_allow_excess_precision": False}
        grad = jax.jit(jax.value_and_grad(loss, has_aux=True), compiler_options=options)
        (value, _), grads = grad(params)
    names = ("q", "k", "v", "o", "up", "down")
    layers = [layer[name] for layer in grads["layers"] for name in names]
    leaves = [grads["keys"], grads["values"], grads["out"], *layers]
    norms = [np.linalg.norm(np.asarray(leaf, np.float64)) for leaf in leaves]
    return [np.float32(value), np.array(norms)]


def maml():
    """Returns the losses of all steps."""
    module = program("maml")
    with jax.enable_x64(False):
        return [np.array(module.train(module.STEPS), np.float32)]


def hmc():
    """Returns the positions of every tenth sample, the mean effects, and the acceptance rate."""
    positions, schools, rate = program("hmc").run()
    return [np.asarray(positions[:, ::10]), np.asarray(schools), np.array(rate)]


def ppo():
    """Returns the losses of the first updates and the lengths of episodes.

    Later ones depend on rounding: the policy's training is chaotic.
    """
    losses, lengths = zip(*program("ppo").train(20))
    return [np.array(losses), np.array(lengths, np.float32)]


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite."""
    suite = Suite("research", __doc__.strip(), stride=stride)

    def case(name, compute, names, **params):
        suite.case(name, "program", [], compute, params, TOLERANCE, output_names=names)

    figures = {"neural_ode": "unseen", "graph_net": "error", "own_optimizer": "accuracy"}
    for name, figure in figures.items():
        compute = lambda name=name: losses_and_figure(name)
        case(name, compute, ["losses", figure], dtype="f32")
    for dtype in ("bf16", "f32"):
        compute = lambda dtype=dtype: blockwise_attention(dtype)
        case(f"blockwise_attention_{dtype}", compute, ["losses", "accuracy"], dtype="f32")
    case("blockwise_attention_gradients", first_gradients, ["loss", "norms"], dtype="f32")
    figures = {"kalman": "frequency", "implicit_layer": "unseen", "pinn": "velocity"}
    for name, figure in figures.items():
        compute = lambda name=name: losses_and_figure(name, np.float64)
        case(name, compute, ["losses", figure], dtype="f64")
    case("maml", maml, ["losses"], dtype="f32")
    case("hmc", hmc, ["positions", "schools", "rate"], dtype="f64")
    case("ppo", ppo, ["losses", "lengths"], dtype="f64")
    return suite
