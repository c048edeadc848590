#!/bin/sh
# Opens a profile with XProf and Perfetto: `./profiles.sh DIR` runs profile_files.py. Creates
# `.venv-profiles` if it is missing or was made from another requirements-profiles.txt. Requires
# CPython 3.11 on Linux x86-64: the interpreter in the variable PYTHON, else `python3.11` or
# `python3`.
set -eu
folder=$(realpath "$1")
cd "$(dirname "$0")"
python=${PYTHON:-}
for candidate in python3.11 python3; do
    if [ -z "$python" ] &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
        python=$candidate
    fi
done
if [ -z "$python" ]; then
    echo "python-compat: the wheels in requirements-profiles.txt require CPython 3.11." \
        "Set PYTHON to such an interpreter." >&2
    exit 1
fi
if [ ! -f .venv-profiles/installed ] ||
    ! cmp -s requirements-profiles.txt .venv-profiles/installed; then
    rm -rf .venv-profiles
    "$python" -m venv .venv-profiles
    .venv-profiles/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
        --only-binary :all: --no-compile --no-deps -r requirements-profiles.txt
    cp requirements-profiles.txt .venv-profiles/installed
fi
exec .venv-profiles/bin/python profile_files.py "$folder"
