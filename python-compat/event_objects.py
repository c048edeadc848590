"""Reads the events of a folder or an S3 address with TensorBoard's own reader: the scalar of each
step must be the step.

Usage: python event_objects.py FOLDER COUNT
"""

import sys

from tensorboard.backend.event_processing import event_accumulator


def main():
    folder, count = sys.argv[1], int(sys.argv[2])
    accumulator = event_accumulator.EventAccumulator(
        folder, size_guidance={event_accumulator.TENSORS: 0, event_accumulator.SCALARS: 0}
    )
    accumulator.Reload()
    [name] = accumulator.Tags()["scalars"]
    events = [(event.step, event.value) for event in accumulator.Scalars(name)]
    expected = [(step, float(step)) for step in range(count)]
    if events != expected:
        differing = [pair for pair in zip(events, expected) if pair[0] != pair[1]]
        sys.exit(f"{folder}: {len(events)} events of {count}; first differences: {differing[:3]}")
    print(f"{folder}: TensorBoard reads {count} scalars")


if __name__ == "__main__":
    main()
