#!/bin/sh
# Recomputes a sample of the fixtures with the pinned JAX and compares it with the committed files.
# Creates `.venv` if it is missing or was made from another requirements.txt. Requires CPython 3.11:
# the interpreter in the variable PYTHON, else `python3.11` or `python3`.
set -eu
cd "$(dirname "$0")"
. ./venv.sh
if make_venv .venv requirements.txt; then
    cp requirements.txt .venv/installed
fi
.venv/bin/python names.py --check
.venv/bin/python device_meshes.py --check
.venv/bin/python port_functions.py --check
exec .venv/bin/python record.py --check
