"""Reads the event files of a training run with TensorBoard's own reader and compares them with the
run's metrics.csv: every number of the table, and nothing else.

Usage: python event_files.py RUN
"""

import csv
import math
import pathlib
import sys

from tensorboard.backend.event_processing import event_accumulator


def of_table(path):
    """Returns the numbers of a table as {(name, step): value}."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {
        (name, int(row["step"])): float(row[name])
        for row in rows
        for name in row
        if name not in ("step", "seconds") and row[name] != ""
    }


def of_events(folder):
    """Returns the scalars that TensorBoard shows for a folder as {(name, step): value}."""
    accumulator = event_accumulator.EventAccumulator(
        str(folder), size_guidance={event_accumulator.TENSORS: 0, event_accumulator.SCALARS: 0}
    )
    accumulator.Reload()
    scalars, repeated = {}, []
    for name in accumulator.Tags()["scalars"]:
        for event in accumulator.Scalars(name):
            if (name, event.step) in scalars:
                repeated.append((name, event.step))
            scalars[name, event.step] = event.value
    if repeated:
        sys.exit(f"{folder}: TensorBoard shows several values for {repeated[:5]}")
    return scalars


def main():
    run = pathlib.Path(sys.argv[1])
    table, events = of_table(run / "metrics.csv"), of_events(run)
    if not table or table.keys() != events.keys():
        difference = sorted(table.keys() ^ events.keys())
        counts = f"{len(table)} numbers, {len(events)} scalars"
        sys.exit(f"{run}: {counts}, not in both: {difference[:5]}")
    for key, value in table.items():
        # Event files hold 32-bit floats.
        if not math.isclose(value, events[key], rel_tol=1e-6):
            sys.exit(f"{run}: {key} is {value} in metrics.csv and {events[key]} in the event files")
    names = sorted({name for name, _ in events})
    print(f"{run}: TensorBoard reads {len(events)} scalars: {', '.join(names)}")


if __name__ == "__main__":
    main()
