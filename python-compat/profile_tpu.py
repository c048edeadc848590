"""Opens the profile of a compilation for a TPU with XProf's memory viewer and graph viewer, and
checks that both show the program.

Usage: python profile_tpu.py DIR

DIR is the folder in which the test `compilation_for_a_tpu_is_in_the_profile` leaves its profile;
`cargo xtask tpu` runs it. `./profiles.sh` installs the packages.
"""

import json
import pathlib
import shutil
import sys
import tempfile

from xprof.convert import raw_to_tool_data

# The test compiles tanh(x @ x) for f32[256,256].
ARGUMENT_MIB = 0.25


def check(is_true, message):
    if not is_true:
        sys.exit(f"profile_tpu: {message}")


def main():
    run = max(pathlib.Path(sys.argv[1]).glob("plugins/profile/*"))
    with tempfile.TemporaryDirectory() as folder:
        # XProf writes files beside those that it reads.
        [space] = run.glob("*.xplane.pb")
        space = shutil.copy(space, folder)

        def open_tool(tool, options):
            return raw_to_tool_data.xspace_to_tool_data([space], tool, options)[0]

        # It lists the tools that have data, and writes each program as NAME.hlo_proto.pb.
        tools = raw_to_tool_data.xspace_to_tool_names([space])
        check({"memory_viewer", "graph_viewer"} <= set(tools), f"the tools are {tools}")
        programs = pathlib.Path(folder).glob("*.hlo_proto.pb")
        # The test compiles the same function twice.
        name = min(programs).name.removesuffix(".hlo_proto.pb")
        memory = json.loads(open_tool("memory_viewer", {"module_name": name}))
        graph = {"module_name": name, "type": "long_txt", "node_name": "", "graph_width": 1}
        text = open_tool("graph_viewer", {"module_name": name, "graph_viewer_options": graph})
    [argument] = [entry for entry in memory["maxHeap"] if entry["opCode"] == "parameter"]
    check(argument["logicalBufferSizeMib"] == ARGUMENT_MIB, f"the argument is {argument}")
    text = text.decode()
    for part in ("HloModule", "ENTRY", "tanh"):
        check(part in text, f"no {part} in {text}")
    print(f"{run}: XProf shows the memory and the graph of {name}")


main()
