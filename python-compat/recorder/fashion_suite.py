"""The 784-1024-1024-10 perceptron on the whole of Fashion-MNIST: first 100 losses, mean loss and test accuracy of three epochs.

As the suite `mlp` otherwise. Recording fetches the Debian package `dataset-fashion-mnist` with `apt-get download`, or reads the folder
that FASHION_MNIST names; a check leaves this suite out.
"""

import os
import subprocess
import tempfile
from pathlib import Path

from . import mlp_suite, training
from .suite import Suite


def _data():
    if "FASHION_MNIST" in os.environ:
        return training.idx(Path(os.environ["FASHION_MNIST"]))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "download", "dataset-fashion-mnist"], cwd=folder, check=True)
        (package,) = Path(folder).glob("*.deb")
        subprocess.run(["dpkg", "-x", package, f"{folder}/tree"], check=True)
        return training.idx(Path(folder) / "tree/usr/share/datasets/fashion-mnist")


def build(stride: int, quick: bool) -> Suite:
    """One case."""
    suite = Suite("fashion", __doc__.strip(), stride=stride)
    sizes, batch, epochs = [784, 1024, 1024, 10], 128, 3
    outputs = lambda: mlp_suite.run(_data(), sizes, batch, epochs, 100 if quick else None)
    params = mlp_suite.params(sizes, batch, epochs)
    suite.case("fashion", "train", [], outputs, params, mlp_suite.TOLERANCE, output_names=mlp_suite.OUTPUTS)
    return suite
