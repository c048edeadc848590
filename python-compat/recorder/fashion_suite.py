"""Training of a 784-1024-1024-10 perceptron on Fashion-MNIST, like the suite `mlp`.

Records the first 100 losses, and mean loss and test accuracy of each of three epochs. Recording
downloads the Debian package `dataset-fashion-mnist` with `apt-get download`, or reads the folder in
the variable FASHION_MNIST. A check skips this suite.
"""

import functools
import os
import subprocess
import tempfile
from pathlib import Path

from . import mlp_suite, training
from .suite import Suite


@functools.cache
def _data():
    if "FASHION_MNIST" in os.environ:
        return training.idx(Path(os.environ["FASHION_MNIST"]))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "download", "dataset-fashion-mnist"], cwd=folder, check=True)
        (package,) = Path(folder).glob("*.deb")
        subprocess.run(["dpkg", "-x", package, f"{folder}/tree"], check=True)
        return training.idx(Path(folder) / "tree/usr/share/datasets/fashion-mnist")


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite: one run for each activation."""
    suite = Suite("fashion", __doc__.strip(), stride=stride)
    for activation in mlp_suite.CHECKED:
        mlp_suite.case(
            suite, f"fashion_{activation}", _data, [784, 1024, 1024, 10], activation, 128, 3
        )
    return suite
