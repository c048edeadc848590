#!/usr/bin/env bash
# Prints the folder of Fashion-MNIST's idx files. On first use, downloads Debian's package
# `dataset-fashion-mnist` (30 MiB) and unpacks it into the target folder. The package is not
# installed, so no root privileges are needed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

package=dataset-fashion-mnist
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/fashion-mnist
mkdir -p "$folder"

if [ ! -f "$folder/unpacked" ]; then
    echo "downloading Debian's $package to $folder" >&2
    rm -rf "$folder/tree" "$folder/$package"_*.deb
    if ! (cd "$folder" && apt-get download -qq "$package" >&2); then
        echo "fashion_mnist: apt-get cannot download $package." \
            "Run \`apt-get update\` as root, on Debian." >&2
        exit 1
    fi
    dpkg -x "$folder/$package"_*.deb "$folder/tree"
    touch "$folder/unpacked"
fi
echo "$folder/tree/usr/share/datasets/fashion-mnist"
