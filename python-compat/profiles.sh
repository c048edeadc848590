#!/bin/sh
# Opens a profile with XProf and Perfetto, and captures one of a program that runs: `./profiles.sh
# DIR TARGET` runs profile_files.py on DIR, and profile_capture.py on the binaries in TARGET.
# Creates `.venv-profiles` if it is missing or was made from another requirements-profiles.txt.
# Requires CPython 3.11 on Linux x86-64: the interpreter in the variable PYTHON, else `python3.11`
# or `python3`.
set -eu
folder=$(realpath "$1") target=$(realpath "$2")
cd "$(dirname "$0")"
. ./venv.sh
if make_venv .venv-profiles requirements-profiles.txt; then
    cp requirements-profiles.txt .venv-profiles/installed
fi
# XProf frees text of its monitor with another allocator than the one that CI preloads.
unset LD_PRELOAD
.venv-profiles/bin/python profile_files.py "$folder"
exec .venv-profiles/bin/python profile_capture.py "$target"
