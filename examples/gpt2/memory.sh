#!/usr/bin/env bash
# A randomly filled GPT-2 of 124M parameters is saved in Hugging Face's layout, loaded again, and takes a training step (forward, backward,
# AdamW) on one window of 1024 tokens; the process may hold 6 GB at most. Linux only: the peak is the kernel's own count.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/gpt2-124m
most=6.0

run() {
    cargo run --release -p gpt2 -- train "$@"
}
rm -rf "$folder"
run --size gpt2 --steps 0 --out "$folder/random" --block 1024
run --weights "$folder/random" --steps 1 --warmup 0 --block 1024 --batch 1 --log-every 1 --held-out 0 \
    --out "$folder/stepped" "$@" | tee "$folder/output.txt"
peak=$(sed -n 's/^memory *\([0-9.]*\) GB at most$/\1/p' "$folder/output.txt")
if ! awk -v peak="${peak:?the example prints it}" -v most=$most 'BEGIN { exit !(peak < most) }'; then
    echo "gpt2: $peak GB at most, $most GB are allowed" >&2
    exit 1
fi
