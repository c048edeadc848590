#!/usr/bin/env bash
# Runs all exercises for a few steps. They only have to run: no figure passes or fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The whole workspace is selected, as `cargo xtask ci` does: fewer packages have other features, with
# which the library would be built again.
cargo build --workspace --bin exercises
example=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/exercises
# As `.cargo/config.toml` sets it for what cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")

run() {
    "$example" "$@"
}
run platforms --platform cpu --steps 3
run pipeline --steps 4 --batch 256 --file "$folder/exercises.tfrecord" | tee "$folder/exercises.txt"
rm "$folder/exercises.tfrecord"
# A table of two sources and three depths, under a line of names.
[ "$(wc -l < "$folder/exercises.txt")" = 7 ]
run devices --steps 2 --smallest 8 --largest 32 | tee "$folder/exercises.txt"
# Three sizes between a line of names and one that says where more stops paying.
[ "$(wc -l < "$folder/exercises.txt")" = 5 ]
