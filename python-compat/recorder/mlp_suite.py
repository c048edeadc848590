"""The example's training run on the digits beside it: first 100 losses, mean loss and test accuracy of each epoch.

Recorded with 64-bit types off, as the example runs. The initial weights are drawn from `key(0)`, not stored; `weight_corner` is the
first four columns of the first four rows of each layer, `order` the first 16 rows of epochs 0 and 1: to find out which part differs.
"""

import jax
import numpy as np

from . import training
from .suite import Suite

OUTPUTS = ["losses", "epoch_loss", "accuracy", "weight_corner", "order"]
# What float32 rounding does to the first 100 losses was measured by recording them again in float64: see README.md.
TOLERANCE = {"rtol": 1e-4, "atol": 0.0}


def run(data, sizes, batch, epochs, limit):
    """The outputs in the order of `OUTPUTS`; `limit` steps of the first epochs only when it is given."""
    with jax.enable_x64(False):
        initial, losses, accuracies = training.train(data, sizes, batch, epochs, limit)
        orders = np.stack([training.order(epoch, len(data[0]))[:16] for epoch in (0, 1)]).astype(np.int32)
    per_epoch = len(data[0]) // batch
    full = losses[: len(losses) // per_epoch * per_epoch].reshape(-1, per_epoch)
    corners = np.stack([layer["weight"][:4, :4] for layer in initial])
    return [losses[:100], full.mean(axis=1, dtype=np.float64), accuracies, corners, orders]


def params(sizes, batch, epochs):
    """What the run's JSON says of itself."""
    return {
        "sizes": sizes,
        "batch": batch,
        "epochs": epochs,
        "optimizer": {"name": "adamw", "learning_rate": 1e-3, "b1": 0.9, "b2": 0.999, "eps": 1e-8, "weight_decay": 1e-4},
    }


def build(stride: int, quick: bool) -> Suite:
    """One case; `quick` trains it whole as well, it takes seconds."""
    suite = Suite("mlp", __doc__.strip(), stride=stride)
    sizes, batch, epochs = [64, 128, 64, 10], 64, 20
    outputs = lambda: run(training.digits(), sizes, batch, epochs, None)
    suite.case("digits", "train", [], outputs, params(sizes, batch, epochs), TOLERANCE, output_names=OUTPUTS)
    return suite
