#!/bin/sh
# Writes functions with the binary `exports` in the folder TARGET, and calls them in JAX:
# `./exports.sh DIR TARGET`. Uses the environment that `./ci.sh` makes.
set -eu
mkdir -p "$1"
folder=$(realpath "$1") target=$(realpath "$2")
cd "$(dirname "$0")"
# Files of earlier versions would be compared too.
rm -f "$folder"/*.jax_export "$folder"/*.json "$folder"/*.data
"$target/exports" "$folder"
exec .venv/bin/python export_check.py "$folder"
