#!/usr/bin/env bash
# Measures the memory of a training step (forward, backward, AdamW) of GPT-2 with 124M parameters on
# one window of 1024 tokens, and fails above 6 GB. The weights are random; they are saved in Hugging
# Face's layout and loaded again. Linux only, since the kernel reports the peak.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/gpt2-124m
limit=6.0

run() {
    cargo run --release -p gpt2 -- train "$@"
}
rm -rf "$folder"
run --size gpt2 --steps 0 --out "$folder/random" --block 1024
run --weights "$folder/random" --steps 1 --warmup 0 --block 1024 --batch 1 --log-every 1 \
    --held-out 0 --out "$folder/stepped" "$@" | tee "$folder/output.txt"
peak=$(sed -n 's/^memory *\([0-9.]*\) GB at peak$/\1/p' "$folder/output.txt")
peak=${peak:?the output lacks the peak memory}
if ! awk -v peak="$peak" -v limit=$limit 'BEGIN { exit !(peak < limit) }'; then
    echo "gpt2: the peak is $peak GB, the limit $limit GB" >&2
    exit 1
fi
