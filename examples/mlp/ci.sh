#!/usr/bin/env bash
# Trains the example on the whole of Fashion-MNIST and compares the run with JAX's: the first 100 losses
# to 1e-4 of each, and the final test accuracy. Three epochs, 1404 steps: about two minutes on two cores,
# beside compiling.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The whole workspace is selected, as `cargo xtask ci` does: fewer packages have other features, with
# which the library would be built again.
cargo build --workspace --bin mlp
example=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/mlp
# As `.cargo/config.toml` sets it for what cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"

data=$(examples/fashion_mnist.sh)
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/fashion-mnist

# What an earlier run left must not pass for this one's.
rm -f "$folder/losses.txt" "$folder/output.txt"
"$example" --data "$data" \
    --losses "$folder/losses.txt" --checkpoint "$folder/mlp.safetensors" | tee "$folder/output.txt"
OXIDAX_FASHION_RUN="$folder" cargo test --workspace --test cpu -- \
    --ignored --exact parity::mlp::on_cpu::a_run_on_fashion_mnist_is_that_of_jax | tee "$folder/compared.txt"
# A name that no test has would pass too.
grep -q '^test result: ok. 1 passed' "$folder/compared.txt"
