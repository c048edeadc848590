"""Captures profiles of a program that trains, with XProf's own client and with `oxidax profile
capture`, and checks that both have its steps.

Usage: python profile_capture.py TARGET

TARGET is the folder of the binaries `gpt2` and `oxidax`. `./profiles.sh` installs the packages.
"""

import pathlib
import subprocess
import sys
import tempfile

from xprof.convert import _pywrap_profiler_plugin as profiler
from xprof.convert import raw_to_tool_data

# Long enough for some steps of the small model.
MILLISECONDS = 1000


def check(is_true, message):
    if not is_true:
        sys.exit(f"profile_capture: {message}")


def names(path):
    """Returns the names in XProf's trace viewer."""
    data, _ = raw_to_tool_data.xspace_to_tool_data([str(path)], "trace_viewer", {})
    return data if isinstance(data, str) else data.decode()


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
    command = [oxidax, "profile", "capture", address, "--seconds", "1", "--dir", f"{folder}/ours"]
    print(subprocess.run(command, check=True, capture_output=True, text=True).stdout, end="")
    report = profiler.monitor(address, 200, 1, True)
    check("dispatch train_step" in report and "UTC" in report, f"monitor: {report}")
    return [next(pathlib.Path(folder, run).rglob("*.xplane.pb")) for run in ("xprof", "ours")]


def main():
    target = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        command = [target / "gpt2", "train", "--steps", "1000000", "--layers", "1", "--width", "32"]
        command += ["--log-every", "1", "--profile-port", "0", "--out", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            try:
                paths = capture(started(program), target / "oxidax", folder)
            finally:
                program.kill()
        for path in paths:
            viewer = names(path)
            for text in ("train_step", "train ", "run.rs"):
                check(text in viewer, f"{path.name}: the trace viewer does not show {text!r}")
            print(f"{path.name}: captured, {path.stat().st_size} bytes")


main()
