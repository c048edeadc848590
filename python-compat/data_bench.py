"""Measures tf.data and grain on the pipeline of `benches/data.rs`.

    python -m venv DIR && DIR/bin/pip install grain==0.2.18 tensorflow-cpu==2.21.0
    OXIDAX_BENCH_PYTHON=DIR/bin/python cargo bench --bench data

With `--serve`, reads one JSON request per line from standard input and answers each with a line of
numbers: the seconds of one pass over the files. The list is empty if the library is not installed.
"""

import glob
import json
import os
import sys
import time

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

BATCH = 128
BUFFER = 10_000
PIXELS = 784

try:
    import tensorflow as tf
except ImportError:
    tf = None
try:
    import grain
    from grain import experimental
except ImportError:
    grain = None
# grain cannot parse `tf.train.Example`, so its users call TensorFlow's protocol buffers.
EXAMPLE = tf.train.Example if tf else None


def tf_data_pipeline(files, work):
    """Returns the pipeline in tf.data, as its performance guide recommends."""
    records = tf.data.Dataset.from_tensor_slices(files).interleave(
        tf.data.TFRecordDataset, cycle_length=4, block_length=16
    )
    if work == "read":
        # Counts inside tf.data, because passing each record to Python takes longer than reading it.
        return [records.reduce(np.int64(0), lambda count, _: count + 1).numpy()]
    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }

    def decode_batch(batch):
        parsed = tf.io.parse_example(batch, features)
        images = tf.io.decode_raw(parsed["image"], tf.uint8, fixed_length=PIXELS)
        return tf.cast(images, tf.float32) / 255.0, tf.cast(parsed["label"], tf.int32)

    def decode(record):
        parsed = tf.io.parse_single_example(record, features)
        image = tf.ensure_shape(tf.io.decode_raw(parsed["image"], tf.uint8), [PIXELS])
        return tf.cast(image, tf.float32) / 255.0, tf.cast(parsed["label"], tf.int32)

    shuffled = records.shuffle(BUFFER, seed=1)
    if work == "batch_first":
        batches = shuffled.batch(BATCH, drop_remainder=True).map(decode_batch, tf.data.AUTOTUNE)
    else:
        batches = shuffled.map(decode, tf.data.AUTOTUNE).batch(BATCH, drop_remainder=True)
    return batches.prefetch(2)


def grain_pipeline(files, work):
    """Returns the pipeline in grain, in one process. Worker processes would need more cores."""
    records = experimental.InterleaveIterDataset(
        [experimental.TFRecordIterDataset(path) for path in files], cycle_length=4
    )
    if work == "read":
        return records

    def decode(record):
        feature = EXAMPLE.FromString(record).features.feature
        image = np.frombuffer(feature["image"].bytes_list.value[0], np.uint8)
        return image.astype(np.float32) / 255.0, np.int32(feature["label"].int64_list.value[0])

    shuffled = experimental.WindowShuffleIterDataset(records, window_size=BUFFER, seed=1)
    batches = shuffled.map(decode).batch(BATCH, drop_remainder=True)
    return experimental.ThreadPrefetchIterDataset(batches, prefetch_buffer_size=2)


def seconds(make, files, work):
    """Returns the duration of one pass."""
    start = time.perf_counter()
    count = sum(1 for _ in make(files, work))
    assert count > 0
    return time.perf_counter() - start


def serve():
    """Answers requests until standard input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        files = sorted(glob.glob(request["files"]))
        work = request["work"]
        answer = []
        if request["with"] == "tf.data" and tf:
            answer = [seconds(tf_data_pipeline, files, work)]
        if request["with"] == "grain" and grain and (EXAMPLE or work == "read"):
            answer = [seconds(grain_pipeline, files, work)]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
