#!/usr/bin/env bash
# Runs all exercises for a few steps. They only have to run: no figure passes or fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")

run() {
    cargo run --release -p exercises -- "$@"
}
run platforms --platform cpu --steps 3
run pipeline --steps 4 --batch 256 --file "$folder/exercises.tfrecord" | tee "$folder/exercises.txt"
rm "$folder/exercises.tfrecord"
# A table of two sources and three depths, under a line of names.
[ "$(wc -l < "$folder/exercises.txt")" = 7 ]
run devices --steps 2 --smallest 8 --largest 32 | tee "$folder/exercises.txt"
# Three sizes between a line of names and one that says where more stops paying.
[ "$(wc -l < "$folder/exercises.txt")" = 5 ]
