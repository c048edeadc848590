"""Training of the example `mlp` on its digits.

Records the first 100 losses, and mean loss and test accuracy of each epoch. 64-bit types are off,
as in the example. The initial weights are drawn from `key(0)` and not stored. Two results help to
locate differences: `weight_corner` holds the first four rows and columns of each layer, and `order`
the first 16 rows of epochs 0 and 1.

`losses_f64` are the losses if every step is computed in float64 from the same weights. They differ
from `losses` by rounding, which Adam amplifies. With gelu the relative difference is 1e-5, so that
all 100 losses can be compared within 1e-4. With relu it is 3e-4 on the digits and 6e-2 on
Fashion-MNIST, because rounding that switches a unit on or off changes the gradient. Only
`checked_losses` can be compared there.
"""

import jax
import numpy as np

from . import training
from .suite import Suite

OUTPUTS = ["losses", "epoch_loss", "accuracy", "weight_corner", "order", "losses_f64"]
CHECKED = {"gelu": 100, "relu": 10}
TOLERANCE = {"rtol": 1e-4, "atol": 0.0}
# Number of losses that are compared.
_LIMIT = 100


def run(data, sizes, activation, batch, epochs):
    """Returns the arrays in the order of `OUTPUTS`."""
    with jax.enable_x64(False):
        initial, losses, accuracies = training.train(data, sizes, activation, batch, epochs)
        orders = np.stack([training.order(epoch, len(data[0]))[:16] for epoch in (0, 1)]).astype(
            np.int32
        )
    _, wide, _ = training.train(data, sizes, activation, batch, epochs, _LIMIT, np.float64)
    epoch_loss = losses.reshape(epochs, -1).mean(axis=1, dtype=np.float64)
    corners = np.stack([layer["weight"][:4, :4] for layer in initial])
    difference = np.abs(losses[:_LIMIT] / wide - 1).max()
    print(
        f"{sizes} {activation}: float32 and float64 differ by {difference:.1e}, "
        f"accuracy {accuracies[-1]:.4f}"
    )
    return [losses[:_LIMIT], epoch_loss, accuracies, corners, orders, wide]


def case(suite, name, data, sizes, activation, batch, epochs):
    """Adds one run. `data` is called only if the case is in the sample."""
    params = {
        "sizes": sizes,
        "activation": activation,
        "batch": batch,
        "epochs": epochs,
        "checked_losses": CHECKED[activation],
        "optimizer": {
            "name": "adamw",
            "learning_rate": 1e-3,
            "b1": 0.9,
            "b2": 0.999,
            "eps": 1e-8,
            "weight_decay": 1e-4,
        },
    }
    outputs = lambda: run(data(), sizes, activation, batch, epochs)
    suite.case(name, "train", [], outputs, params, TOLERANCE, output_names=OUTPUTS)


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite: one run on the digits for each activation."""
    suite = Suite("mlp", __doc__.strip(), stride=stride)
    for activation in CHECKED:
        case(suite, f"digits_{activation}", training.digits, [64, 128, 64, 10], activation, 64, 20)
    return suite
