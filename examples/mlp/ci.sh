#!/usr/bin/env bash
# Trains the example on Fashion-MNIST and compares the run with JAX's: the first 100 losses within
# a relative difference of 1e-4, and the final test accuracy. The three epochs (1404 steps) take
# about two minutes on two cores, in addition to compilation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Selects the whole workspace, as `cargo xtask ci` does. Fewer packages would enable other features,
# for which cargo would build the library again.
cargo build --workspace --bin mlp
example=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/mlp
# Disables the compile cache, like `.cargo/config.toml` for programs that cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"

data=$(examples/fashion_mnist.sh)
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/fashion-mnist

# Deletes the output of earlier runs, so that the checks below read only this run's.
rm -f "$folder/losses.txt" "$folder/output.txt"
"$example" --data "$data" \
    --losses "$folder/losses.txt" --checkpoint "$folder/mlp.safetensors" | tee "$folder/output.txt"
test=mlp::on_cpu::a_run_on_fashion_mnist_matches_jax
OXIDAX_FASHION_RUN="$folder" cargo test --workspace --lib -- \
    --ignored --exact "$test" | tee "$folder/compared.txt"
# `cargo test` also succeeds if no test has this name.
grep -q '^test result: ok. 1 passed' "$folder/compared.txt"
