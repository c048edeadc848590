#!/usr/bin/env bash
# Runs all steps of the course, each of which compares its kernel with the plain function.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Selects the whole workspace, as `cargo xtask ci` does. Fewer packages would enable other features,
# for which cargo would build the library again.
cargo build --workspace --bin kernels
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# Disables the compile cache, like `.cargo/config.toml` for programs that cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"

"$folder/debug/kernels" | tee "$folder/kernels.txt"
# A header line, six steps, and the greatest difference.
[ "$(grep -cE "^[1-6] .* [0-9.]+e-?[0-9]+$" "$folder/kernels.txt")" = 6 ]
grep -qE "^difference at most " "$folder/kernels.txt"
# One step alone.
[ "$("$folder/debug/kernels" 3 | grep -cE "^[1-6] ")" = 1 ]
rm "$folder/kernels.txt"
