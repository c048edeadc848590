#!/usr/bin/env bash
# Trains the baby GPT for 200 steps, with the layers written out and in a loop, and lets it write. Both runs must see the same losses, and
# know by then which characters follow each other.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/gpt2
mkdir -p "$folder"

run() {
    cargo run --release --example gpt2 -- "$@"
}
# What an earlier run left must not pass for this one's.
rm -rf "$folder"/{unrolled,scanned}*
run train --steps 200 --out "$folder/unrolled" --losses "$folder/unrolled.txt" | tee "$folder/unrolled.log"
run train --steps 200 --out "$folder/scanned" --losses "$folder/scanned.txt" --scan --held-out 20
paste "$folder/unrolled.txt" "$folder/scanned.txt" | awk '
    { apart = $1 / $2 - 1; if (apart < 0) apart = -apart; if (apart > most) most = apart }
    END { if (NR != 200 || most > 1e-3) { print "gpt2: " NR " losses, " most " apart" > "/dev/stderr"; exit 1 } }'
awk '/^held out/ { loss = $3 } END { if (!(loss < 2.7)) { print "gpt2: held-out loss " loss > "/dev/stderr"; exit 1 } }' \
    "$folder/unrolled.log"
run sample --weights "$folder/unrolled" --prompt "HAMLET." --tokens 150 --top-k 20
