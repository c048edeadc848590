#!/usr/bin/env bash
# Trains the example on the whole of Fashion-MNIST and compares the run with JAX's: the first 100 losses
# to 1e-4 of each, and the final test accuracy. Three epochs, 1404 steps: about two minutes on two cores,
# beside compiling. The data are Debian's package `dataset-fashion-mnist` (30 MiB), unpacked below the
# target folder without being installed, so no root is needed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

package=dataset-fashion-mnist
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/fashion-mnist
data="$folder/tree/usr/share/datasets/fashion-mnist"
mkdir -p "$folder"

if [ ! -f "$folder/unpacked" ]; then
    echo "fetching Debian's $package into $folder"
    rm -rf "$folder/tree" "$folder/$package"_*.deb
    if ! (cd "$folder" && apt-get download -qq "$package"); then
        echo "mlp: apt-get does not know $package; run \`apt-get update\` as root, on a Debian machine" >&2
        exit 1
    fi
    dpkg -x "$folder/$package"_*.deb "$folder/tree"
    touch "$folder/unpacked"
fi

# What an earlier run left must not pass for this one's.
rm -f "$folder/losses.txt" "$folder/output.txt"
cargo run --release --example mlp -- --data "$data" \
    --losses "$folder/losses.txt" --checkpoint "$folder/mlp.safetensors" | tee "$folder/output.txt"
OXIDAX_FASHION_RUN="$folder" cargo test --workspace --test parity -- \
    --ignored --exact mlp::on_cpu::a_run_on_fashion_mnist_is_that_of_jax | tee "$folder/compared.txt"
# A name that no test has would pass too. (The whole workspace: else cargo builds the dependencies anew.)
grep -q '^test result: ok. 1 passed' "$folder/compared.txt"
