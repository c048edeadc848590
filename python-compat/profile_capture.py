"""Captures profiles of a program that trains, with XProf's own client and with `oxidax profile
capture`, and checks that both have its steps.

Usage: python profile_capture.py TARGET

TARGET is the folder of the binaries `gpt2` and `oxidax`. `./profiles.sh` installs the packages.
"""

import pathlib
import subprocess
import sys
import tempfile
import threading

from profile_files import of_perfetto, of_trace_viewer
from xprof.convert import _pywrap_profiler_plugin as profiler

# Long enough for some steps of the small model on a busy machine.
MILLISECONDS = 2000


def check(is_true, message):
    if not is_true:
        sys.exit(f"profile_capture: {message}")


def started(program):
    """Returns the address of the program's server, once it trains."""
    address = None
    for line in program.stdout:
        if line.startswith("profiles"):
            address = line.split()[-1]
        if line.startswith("step"):
            return address
    sys.exit("profile_capture: the program ended before its second log line")


def capture(address, oxidax, folder):
    """Returns the profiles of XProf's client and of ours."""
    profiler.trace(address, f"{folder}/xprof", "", True, MILLISECONDS, 1, {})
    command = [oxidax, "profile", "capture", address, "--seconds", "2", "--dir", f"{folder}/ours"]
    print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="")
    report = profiler.monitor(address, MILLISECONDS, 1, True)
    check("dispatch train_step" in report and "UTC" in report, f"monitor: {report}")
    return [next(pathlib.Path(folder, run).rglob("*.xplane.pb")) for run in ("xprof", "ours")]


def check_events(name, events):
    """Checks that the training is there: its steps, its calls and their lines."""
    lines = {event[3]: event[4] for event in events}
    steps = [event for event in lines if event.startswith("train ")]
    check(len(steps) >= 3, f"{name}: {len(steps)} steps")
    for event in ("call train_step", "dispatch train_step", *steps):
        source = lines.get(event)
        check(source and "run.rs:" in source, f"{name}: {event} has the line {source}")


def main():
    target = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        command = [target / "gpt2", "train", "--steps", "1000000", "--layers", "1", "--width", "32"]
        command += ["--log-every", "1", "--profile-port", "0", "--out", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            try:
                address = started(program)
                # Reads on, so that the program never waits to write.
                threading.Thread(target=program.stdout.read, daemon=True).start()
                paths = capture(address, target / "oxidax", folder)
            finally:
                program.kill()
        perfetto = paths[1].with_name(paths[1].name.replace("xplane.pb", "perfetto_trace.pb"))
        for path, events in [*((path, of_trace_viewer(path)) for path in paths),
                             (perfetto, of_perfetto(perfetto))]:
            check_events(path.name, events)
            print(f"{path.name}: captured, {len(events)} events")


main()
