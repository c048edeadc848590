"""Traces the training of a small GPT-2, and checks that XProf and Perfetto list its scopes, steps
and lines alike, that the lines have at least 95 % of the steps' time, and that pprof's format has
the arrays in memory that the program prints.

Usage: python profile_gpt2.py TARGET

TARGET is the folder of the binary `gpt2`. `./profiles.sh` installs the packages.
"""

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from profile_files import HERE, NODE, check, opened

STEPS = 10
# The scopes of the host, which run.rs names, and those of the model and of the training step.
HOST_SCOPES = {"next batch", "dropout key", "read loss"}
# Equal layers are copies of one part of the program, with a number each.
PROGRAM_SCOPES = ["embed", "attn", "mlp", "head", "loss", "optimizer"]
LAYERS = 4
# The share of the steps' time that has a line.
BY_LINE = 0.95
BYTES = {"f32": 4, "i32": 4, "u32": 4, "bool": 1}


def train(target, folder):
    """Trains, and returns the folder of the profile and what the program printed."""
    command = [target / "gpt2", "train", "--steps", str(STEPS + 4), "--warmup", "2", "--held-out",
               "0", "--layers", str(LAYERS), "--out", f"{folder}/model", "--profile", folder,
               "--profile-steps", str(STEPS)]
    environment = {**os.environ, "OXIDAX_TRACK_ARRAYS": "1"}
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    [run] = pathlib.Path(folder).glob("plugins/profile/*")
    return run, output.stdout


def own_times(events):
    """Returns the events of a thread that are in steps, each with the time that it spends outside
    of the events in it, and its line or that of the event around it."""
    rows, around = [], []
    for event in sorted(events, key=lambda event: (event.start, -event.duration)):
        while around and around[-1][0].start + around[-1][0].duration <= event.start:
            around.pop()
        is_step = event.name.startswith("train ")
        if not around and not is_step:
            continue
        line = event.source
        if around:
            outer, row = around[-1]
            row["own"] -= event.duration
            line = line or (None if outer.name.startswith("train ") else row["line"])
        row = {"event": event, "own": event.duration, "line": line, "is_step": is_step}
        rows.append(row)
        around.append((event, row))
    return rows


def check_lines(events, profile, printed):
    """Computes the share of the steps' time that has a line from the events, and compares it with
    that of the file and of the program. Returns it."""
    operations, steps = profile["profile"]["operations"], profile["steps"]
    total = sum(operation["time"] for operation in operations)
    by_line = sum(o["time"] * sum(share for _, share in o["lines"]) for o in operations) / total
    rows = own_times(event for event in events if event.thread == "main")
    wall = sum(row["event"].duration for row in rows if row["is_step"]) / 1e9
    # Only the step of the training runs in these steps, so all waits are for it.
    names = ("dispatch train_step", "to_host", "wait")
    in_program = sum(row["own"] for row in rows if row["event"].name in names) / 1e9
    others = [row for row in rows if row["event"].name not in names and not row["is_step"]]
    known = sum(row["own"] for row in others if row["line"]) / 1e9 + in_program * by_line
    share = known / wall
    check(abs(steps["wall"] / wall - 1) < 1e-3, f"{wall} s in steps, in the file {steps['wall']} s")
    check(abs(steps["program"] / in_program - 1) < 1e-3, f"{in_program} s, {steps['program']} s")
    in_file = sum(line["program"] + line["host"] for line in steps["lines"] if line["line"])
    check(abs(in_file / wall - share) < 1e-3, f"{share} of the steps by line, {in_file / wall}")
    shown = re.search(r"^(\d+) steps of .* ms, ([\d.]+) % of their time by line", printed, re.M)
    check(shown and int(shown[1]) == STEPS, f"no table of {STEPS} steps:\n{printed}")
    check(abs(float(shown[2]) / 100 - share) < 1e-3, f"{share} of the steps by line: {shown[0]}")
    check(share >= BY_LINE, f"{share:.3f} of the steps by line:\n{printed}")
    lines = {f"{line['line']['file']}:{line['line']['line']}" for line in steps["lines"]
             if line["line"] and line["host"] > 0}
    listed = {row["line"] for row in others if row["line"] and row["own"] > 0}
    check(lines == listed, f"lines of the host: {lines}, in the trace {listed}")
    return share


def check_scopes(events, profile):
    """Checks the scopes of the host and of the program, and the lines of the operations."""
    for scope in HOST_SCOPES:
        found = [event for event in events if event.name == scope]
        check(len(found) == STEPS, f"{len(found)} scopes {scope} in {STEPS} steps")
        check(all("run.rs:" in event.source for event in found), f"the lines of {found}")
    operations = [event for event in events if event.thread.endswith("measured alone")]
    measured = [o for o in profile["profile"]["operations"] if o["time"] >= 1e-9]
    listed = {(event.name, event.scope or "", event.source or "") for event in operations}

    def lines(operation):
        lines = [(f"{line['file']}:{line['line']}", share) for line, share in operation["lines"]]
        if len(lines) == 1:
            return [lines[0][0]]
        return [f"{line} ({100 * share:.0f} %)" for line, share in lines]

    expected = {(o["name"], o["scope"]) for o in measured}
    check({row[:2] for row in listed} == expected, "operations differ from line_profile.json")
    # Where a share is halfway between two percents, Python and Rust may round it differently.
    sources = {name: re.sub(r" \(\d+ %\)", "", source) for name, _, source in listed}
    for operation in measured:
        source = re.sub(r" \(\d+ %\)", "", ", ".join(lines(operation)))
        check(sources[operation["name"]] == source, f"{operation}: {sources[operation['name']]}")
    scopes = {scope for _, scope, _ in listed if scope}
    for name in PROGRAM_SCOPES:
        check(any(re.search(rf"\b{name}\b", scope) for scope in scopes), f"no scope {name}")
    for layer in range(LAYERS):
        check(any(f"[{layer}]/jvp(mlp)" in scope for scope in scopes), f"no scope of layer {layer}")
    return scopes


def size(number):
    """Formats bytes as the program does."""
    for unit, shift, digits in ("GiB", 30, 2), ("MiB", 20, 1), ("KiB", 10, 1):
        if number >= 1 << shift:
            return f"{number / (1 << shift):.{digits}f} {unit}"
    return f"{number} B"


def check_memory(path, printed):
    """Compares a file of pprof, as an independent reader reads it, with the program's table.
    Returns the number of lines."""
    command = [NODE, HERE / ".venv-profiles" / "pprof" / "read.mjs", path]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    profile = json.loads(answer)
    types = [["allocations", "count"], ["space", "bytes"]]
    check(profile["types"] == types and profile["default"] == "space", f"{profile['types']}")
    lines = {}
    for sample in profile["samples"]:
        [[function, file, line, column]] = sample["position"]
        count, space = sample["values"]
        check(function == (f"{file}:{line}:{column}" if file else "oxidax itself"), function)
        check(sample["labels"]["device"] == "cpu:0", f"{sample}")
        dtype, sizes = re.fullmatch(r"(\w+)\[([\d,]*)\]", sample["labels"]["type"]).groups()
        elements = math.prod(int(axis) for axis in sizes.split(",") if axis)
        check(space == count * elements * BYTES[dtype], f"the bytes of {sample}")
        counts = lines.setdefault(function, [0, 0])
        lines[function] = [counts[0] + count, counts[1] + space]
    expected = {(line, str(count), size(space)) for line, (count, space) in lines.items()}
    row = r"^ *([\d.]+ [KMG]?i?B)  +(\d+)  (\S+:\d+:\d+|oxidax itself)  "
    table = {(line, count, shown) for shown, count, line in re.findall(row, printed, re.M)}
    check(table == expected and len(table) > 1, f"the program prints {table}, pprof {expected}")
    count, space = (sum(values) for values in zip(*lines.values()))
    header = f"{size(space)} in {count} arrays; {size(space)} on cpu:0"
    check(header in printed, f"not in the table: {header}")
    return len(table)


def main():
    target = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        run, printed = train(target, folder)
        events = opened(run)
        profile = json.loads((run / "line_profile.json").read_text())
        steps = [event for event in events if event.name.startswith("train ")]
        check(len(steps) == STEPS, f"{len(steps)} steps")
        check(all("run.rs:" in step.source for step in steps), f"the lines of {steps}")
        share = check_lines(events, profile, printed)
        scopes = check_scopes(events, profile)
        lines = check_memory(run / "memory.pb", printed)
    print(f"GPT-2: XProf and Perfetto list {len(steps)} steps, {len(HOST_SCOPES)} scopes of the "
          f"host and {len(scopes)} of the program; {100 * share:.1f} % of the time by line; pprof "
          f"has arrays of {lines} lines")


if __name__ == "__main__":
    main()
