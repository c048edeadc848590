"""Records the order in which `jax.make_mesh` arranges the devices of TPU slices, as coordinates.

Usage: python device_meshes.py [--check]
"""

import itertools
import json
import math
import pathlib
import sys

from jax.experimental import mesh_utils

PATH = pathlib.Path(__file__).parent / "fixtures" / "device_meshes.json"

# Name of the topology, kind as libtpu 0.0.51 reports it (v5p is `TPU v5`), sizes of
# the slice, devices of a chip, mesh shapes.
SLICES = [
    ("v3:2x2", "TPU v3", (2, 2, 1), 2, [(8,), (2, 4), (4, 2), (2, 2, 2)]),
    ("v4:2x2x1", "TPU v4", (2, 2, 1), 1, [(4,), (2, 2), (1, 4)]),
    ("v4:2x2x4", "TPU v4", (2, 2, 4), 1, [(16,), (4, 4), (1, 16)]),
    ("v4:4x4x4", "TPU v4", (4, 4, 4), 1, [(64,), (16, 4), (4, 16), (4, 4, 4), (8, 8), (32, 2)]),
    ("v5e:2x2", "TPU v5 lite", (2, 2, 1), 1, [(4,), (2, 2), (4, 1)]),
    ("v5e:4x2", "TPU v5 lite", (4, 2, 1), 1, [(8,), (4, 2), (2, 4), (2, 2, 2)]),
    ("v5e:4x4", "TPU v5 lite", (4, 4, 1), 1, [(16,), (4, 4), (2, 8), (8, 2), (2, 2, 4), (1, 16)]),
    ("v5e:4x8", "TPU v5 lite", (4, 8, 1), 1, [(32,), (8, 4), (4, 8), (2, 16), (2, 4, 4)]),
    ("v5e:8x8", "TPU v5 lite", (8, 8, 1), 1, [(64,), (8, 8), (4, 16), (2, 2, 16)]),
    ("v5p:2x2x2", "TPU v5", (2, 2, 2), 1, [(8,), (4, 2), (2, 2, 2)]),
    ("v5p:2x4x4", "TPU v5", (2, 4, 4), 1, [(32,), (2, 16), (8, 4), (2, 4, 4), (16, 2)]),
    ("v6e:4x2", "TPU v6 lite", (4, 2, 1), 1, [(8,), (2, 4)]),
    ("v6e:4x4", "TPU v6 lite", (4, 4, 1), 1, [(16,), (4, 4), (2, 8)]),
    ("7x:2x2x1", "TPU7x", (2, 2, 1), 2, [(8,), (4, 2), (2, 2, 2)]),
    ("7x:2x2x2", "TPU7x", (2, 2, 2), 2, [(16,), (8, 2), (2, 8)]),
    ("7x:2x2x4", "TPU7x", (2, 2, 4), 2, [(32,), (4, 8)]),
    ("7x:4x4x4", "TPU7x", (4, 4, 4), 2, [(128,), (4, 32), (16, 8), (64, 2)]),
]


class Device:
    """The attributes of a TPU that the order depends on."""

    platform = "tpu"
    process_index = 0
    slice_index = 0

    def __init__(self, number, kind, coords, core):
        self.id, self.device_kind, self.coords, self.core_on_chip = number, kind, coords, core

    def __repr__(self):
        return f"{self.device_kind} {self.coords} {self.core_on_chip}"


def order(kind, sizes, per_chip, shape):
    """Returns x, y, z and core of each device of the mesh, in row-major order."""
    x, y, z = sizes
    places = itertools.product(range(z), range(y), range(x), range(per_chip))
    devices = [
        Device(number, kind, (x, y, z), core) for number, (z, y, x, core) in enumerate(places)
    ]
    # `make_mesh` splits axes only on v5e, and is an error elsewhere.
    mesh = mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
    return [[*device.coords, device.core_on_chip] for device in mesh.flat]


def main():
    lines = []
    for name, kind, sizes, per_chip, shapes in SLICES:
        for shape in shapes:
            assert math.prod(shape) == math.prod(sizes) * per_chip, (name, shape)
            case = {"topology": name, "shape": shape, "order": order(kind, sizes, per_chip, shape)}
            lines.append(json.dumps(case))
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    if "--check" not in sys.argv[1:]:
        PATH.write_text(text, encoding="utf-8")
    elif PATH.read_text(encoding="utf-8") != text:
        sys.exit(f"{PATH} differs from JAX: run device_meshes.py")


if __name__ == "__main__":
    main()
