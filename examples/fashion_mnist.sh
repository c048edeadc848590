#!/usr/bin/env bash
# Prints the folder of Fashion-MNIST's idx files. They are Debian's package `dataset-fashion-mnist` (30 MiB), unpacked below the target
# folder when they are not there yet, without being installed: no root is needed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

package=dataset-fashion-mnist
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/fashion-mnist
mkdir -p "$folder"

if [ ! -f "$folder/unpacked" ]; then
    echo "fetching Debian's $package into $folder" >&2
    rm -rf "$folder/tree" "$folder/$package"_*.deb
    if ! (cd "$folder" && apt-get download -qq "$package" >&2); then
        echo "fashion_mnist: apt-get does not know $package; run \`apt-get update\` as root, on a Debian machine" >&2
        exit 1
    fi
    dpkg -x "$folder/$package"_*.deb "$folder/tree"
    touch "$folder/unpacked"
fi
echo "$folder/tree/usr/share/datasets/fashion-mnist"
