#!/usr/bin/env bash
# Runs all exercises for a few steps. Checks that they finish, not their measurements.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Selects the whole workspace, as `cargo xtask ci` does. Fewer packages would enable other features,
# for which cargo would build the library again.
cargo build --workspace --bin exercises
example=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/exercises
# Disables the compile cache, like `.cargo/config.toml` for programs that cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")

run() {
    "$example" "$@"
}
OXIDAX_CPU_DEVICES=2 run devices --platform cpu --steps 3 --batch 64 | tee "$folder/exercises.txt"
# A header line and a row for each device.
[ "$(grep -cE "^cpu:[01] " "$folder/exercises.txt")" = 2 ]
run pipeline --steps 4 --file "$folder/exercises.tfrecord" | tee "$folder/exercises.txt"
rm "$folder/exercises.tfrecord"
# A header line and a table of two sources and three depths.
[ "$(wc -l < "$folder/exercises.txt")" = 7 ]
run parallel --steps 2 --smallest 8 --largest 4096 --cpu-memory 0.02 | tee "$folder/exercises.txt"
# The last batch does not fit.
tail -n 1 "$folder/exercises.txt" | grep -qE "^ +[0-9]+  out of memory here: 0"
rm -rf "$folder/exercises-profile"
run profile --warm-up 0 --steps 4 --batch 64 --folder "$folder/exercises-profile" |
    tee "$folder/exercises.txt"
# The table has the step, and `xtask ci` opens the files with XProf.
grep -qE "dispatch train_step  .*profile.rs:" "$folder/exercises.txt"
# The shares beside their targets, and the time of a step by line.
[ "$(grep -cE "^(compiling, of the run|waiting for data, of the steps) .*%  < " \
    "$folder/exercises.txt")" = 2 ]
grep -qE "^train_step: .* of it by line" "$folder/exercises.txt"
rm "$folder/exercises.txt"
