#!/usr/bin/env bash
# Trains the baby GPT for 200 steps, with the layers written out and in a loop, and lets it write. Both runs must see the same losses, and
# know by then which characters follow each other. A run that is stopped by a signal and called again must end with the same bytes.
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
rm -rf "$folder/run"
resumable=("$(dirname "$folder")/release/examples/gpt2" train --steps 200 --out "$folder/resumed" --run "$folder/run"
    --save-every 50 --log-every 20 --held-out 20)
"${resumable[@]}" > "$folder/stopped.log" &
until grep --quiet ^step "$folder/stopped.log" || ! kill -0 $!; do sleep 0.1; done
# A script's `&` has the process ignore Ctrl-C; this is what a cloud sends.
kill -TERM $!
wait $!
"${resumable[@]}" > "$folder/resumed.log"
grep ^stopped "$folder/stopped.log"
grep ^resumed "$folder/resumed.log"
cmp "$folder"/{unrolled,resumed}/model.safetensors
test -s "$folder/run/metrics.csv"
run sample --weights "$folder/unrolled" --prompt "HAMLET." --tokens 150 --top-k 20
