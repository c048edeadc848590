#!/bin/sh
# Recomputes a sample of the fixtures with the pinned JAX and compares it with what is committed. Makes `.venv` when it is missing or
# older than requirements.txt. Needs CPython 3.11, `python3.11` or `python3`, or the interpreter that PYTHON names.
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-}
for candidate in python3.11 python3; do
    if [ -z "$python" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
        python=$candidate
    fi
done
if [ -z "$python" ]; then
    echo "python-compat: CPython 3.11 is needed (the wheels in requirements.txt are for it); set PYTHON to one" >&2
    exit 1
fi
if [ ! -f .venv/installed ] || ! cmp -s requirements.txt .venv/installed; then
    rm -rf .venv
    "$python" -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: --no-deps -r requirements.txt
    cp requirements.txt .venv/installed
fi
.venv/bin/python names.py --check
exec .venv/bin/python record.py --check
