#!/usr/bin/env bash
# Trains the baby GPT for 200 steps, with the layers written out and in a loop, and lets it write. Both runs must see the same losses, and
# know by then which characters follow each other. A run that is stopped by a signal and called again must end with the same bytes. Runs on a
# mesh must see the losses of one device.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The whole workspace is selected, as `cargo xtask ci` does: fewer packages have other features, with
# which the library would be built again.
cargo build --workspace --bin gpt2
example=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/gpt2
# As `.cargo/config.toml` sets it for what cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/gpt2
mkdir -p "$folder"

run() {
    "$example" "$@"
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
resumable=("$example" train --steps 200 --out "$folder/resumed" --run "$folder/run"
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

# On eight CPU devices each loss must be that of one device, whether layers are cut or all parameters.
short=(train --steps 20 --warmup 2 --held-out 5 --log-every 10 --width 64 --out "$folder/short")
run "${short[@]}" --losses "$folder/one.txt"
export OXIDAX_CPU_DEVICES=8
run "${short[@]}" --losses "$folder/layers.txt" --mesh data=2,model=4 | tee "$folder/mesh.log"
grep -q 'c_fc.weight.*p!\[None, "model"\]' "$folder/mesh.log"
run "${short[@]}" --losses "$folder/fsdp.txt" --mesh data=4,model=2 --fsdp --scan
printf '%s\n' '# the head and the embedding alone' '*wte.weight - model' > "$folder/rules.txt"
run "${short[@]}" --losses "$folder/rules.losses" --mesh data=2,model=4 --shardings "$folder/rules.txt"
for losses in layers.txt fsdp.txt rules.losses; do
    paste "$folder/one.txt" "$folder/$losses" | awk -v name="$losses" '
        { apart = $1 / $2 - 1; if (apart < 0) apart = -apart; if (apart > most) most = apart }
        END { if (NR != 20 || most > 1e-5) { print "gpt2: " name ": " NR " losses, " most " apart" > "/dev/stderr"; exit 1 } }'
done
