#!/bin/sh
# Tests the package `oxidax_compat` with the pinned JAX. Then recomputes a sample of the fixtures
# and compares it with the committed files.
# Creates `.venv` if it is missing or was made from another requirements.txt. Requires CPython 3.11:
# the interpreter in the variable PYTHON, else `python3.11` or `python3`.
set -eu
cd "$(dirname "$0")"
. ./venv.sh
if make_venv .venv requirements.txt; then
    cp requirements.txt .venv/installed
fi
JAX_PLATFORMS=cpu .venv/bin/python -m unittest discover -t . -s tests
.venv/bin/python names.py --check
.venv/bin/python device_meshes.py --check
.venv/bin/python port_functions.py --check
exec .venv/bin/python record.py --check
