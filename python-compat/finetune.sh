#!/bin/sh
# Fine-tunes models of Hugging Face and Flax with the binary `finetune` in the folder TARGET, and
# evaluates them in JAX: `./finetune.sh DIR TARGET`. Uses the environment that `./ci.sh` makes.
set -eu
# Files of earlier versions would be compared too.
rm -rf "$1"
mkdir -p "$1"
folder=$(realpath "$1") target=$(realpath "$2")
cd "$(dirname "$0")"
"$target/finetune" "$folder"
exec .venv/bin/python finetune_check.py "$folder"
