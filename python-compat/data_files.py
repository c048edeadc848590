"""Writes the files that tests/cpu/data reads, with NumPy, TensorFlow and safetensors.

    python -m venv DIR
    DIR/bin/pip install numpy==2.4.6 tensorflow-cpu==2.21.0 safetensors==0.8.0
    DIR/bin/python python-compat/data_files.py

The tests can compute every array: its elements count up from 0.
"""

import pathlib

import numpy as np
import tensorflow as tf
from numpy.lib import format as npy
from safetensors.numpy import save_file

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "files"


def counting(dtype, *shape, order="C"):
    return np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape), dtype=dtype, order=order)


def write_npy(name, array, version=None):
    with open(FOLDER / name, "wb") as file:
        npy.write_array(file, array, version=version)


def main():
    write_npy("f32.npy", counting("<f4", 3, 4))
    write_npy("fortran.npy", counting("<i4", 2, 3, 4, order="F"))
    write_npy("big_endian.npy", counting(">i8", 5))
    write_npy("big_complex.npy", counting(">c8", 2) * (1 + 2j))
    write_npy("version2.npy", counting("<u2", 4), version=(2, 0))
    write_npy("version3.npy", counting("<f8", 2, 2), version=(3, 0))
    write_npy("scalar.npy", np.float16(1.5))
    write_npy("bool.npy", np.array([True, False, True]))
    write_npy("empty.npy", counting("<f4", 0, 3))
    write_npy("text.npy", np.array(["a", "bc"]))
    np.savez(FOLDER / "stored.npz", x=counting("f4", 2, 3), y=counting("i8", 2))
    np.savez_compressed(FOLDER / "deflated.npz", x=counting("f4", 2, 3), y=counting("i8", 2))
    save_file({"x": counting("f4", 2, 3), "y": counting("i8", 2)}, FOLDER / "two.safetensors")

    def example(number):
        def bytes_list(*values):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))

        return tf.train.Example(
            features=tf.train.Features(
                feature={
                    "raw": bytes_list(counting("<u2", 2, 2).tobytes()),
                    "words": bytes_list(b"a", b"bc"),
                    "floats": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5, number])),
                    "ints": tf.train.Feature(int64_list=tf.train.Int64List(value=[number, -1])),
                }
            )
        ).SerializeToString(deterministic=True)

    for name, compression in [("examples.tfrecord", ""), ("examples.tfrecord.gz", "GZIP")]:
        with tf.io.TFRecordWriter(str(FOLDER / name), compression) as writer:
            for number in range(3):
                writer.write(example(number))

    # Left half red, right half blue.
    image = np.zeros((8, 16, 3), np.uint8)
    image[:, :8, 0] = 255
    image[:, 8:, 2] = 255
    (FOLDER / "halves.png").write_bytes(tf.io.encode_png(image).numpy())
    (FOLDER / "halves.jpg").write_bytes(tf.io.encode_jpeg(image, quality=100).numpy())
    (FOLDER / "grey.png").write_bytes(tf.io.encode_png(np.full((2, 2, 1), 7, np.uint8)).numpy())


if __name__ == "__main__":
    main()
