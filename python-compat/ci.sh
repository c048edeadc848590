#!/bin/sh
# Recomputes a sample of the fixtures with the pinned JAX and compares it with the committed files.
# Creates `.venv` if it is missing or was made from another requirements.txt. Requires CPython 3.11:
# the interpreter in the variable PYTHON, else `python3.11` or `python3`.
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-}
for candidate in python3.11 python3; do
    if [ -z "$python" ] &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
        python=$candidate
    fi
done
if [ -z "$python" ]; then
    echo "python-compat: the wheels in requirements.txt require CPython 3.11." \
        "Set PYTHON to such an interpreter." >&2
    exit 1
fi
if [ ! -f .venv/installed ] || ! cmp -s requirements.txt .venv/installed; then
    rm -rf .venv
    "$python" -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
        --only-binary :all: --no-compile --no-deps -r requirements.txt
    cp requirements.txt .venv/installed
fi
.venv/bin/python names.py --check
.venv/bin/python device_meshes.py --check
exec .venv/bin/python record.py --check
