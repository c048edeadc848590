#!/usr/bin/env bash
# Trains the baby GPT for 200 steps, with unrolled layers and with a scan over layers, and samples
# text. Checks that:
# - both runs have the same losses, and the held-out loss falls below 2.7;
# - a run that a signal stopped and that is started again writes the same bytes;
# - runs on a mesh have the losses of one device.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Selects the whole workspace, as `cargo xtask ci` does. Fewer packages would enable other features,
# for which cargo would build the library again.
cargo build --workspace --bin gpt2
example=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/gpt2
# Disables the compile cache, like `.cargo/config.toml` for programs that cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/gpt2
mkdir -p "$folder"

run() {
    "$example" "$@"
}
# Checks that two files contain COUNT losses each, equal up to a relative TOLERANCE.
compare_losses() { # FILE FILE COUNT TOLERANCE
    paste "$1" "$2" | awk -v name="${2##*/}" -v count="$3" -v tolerance="$4" '
        {
            difference = $1 / $2 - 1
            if (difference < 0) difference = -difference
            if (difference > largest) largest = difference
        }
        END {
            if (NR != count || largest > tolerance) {
                print "gpt2: " name ": " NR " losses, largest relative difference " largest \
                    > "/dev/stderr"
                exit 1
            }
        }'
}
# Deletes the output of earlier runs, so that the checks below read only this run's.
rm -rf "$folder"/{unrolled,scanned}*
run train --steps 200 --out "$folder/unrolled" --losses "$folder/unrolled.txt" |
    tee "$folder/unrolled.log"
run train --steps 200 --out "$folder/scanned" --losses "$folder/scanned.txt" --scan --held-out 20
compare_losses "$folder/unrolled.txt" "$folder/scanned.txt" 200 1e-3
awk '
    /^held out/ { loss = $3 }
    END { if (!(loss < 2.7)) { print "gpt2: held-out loss " loss > "/dev/stderr"; exit 1 } }
    ' "$folder/unrolled.log"
rm -rf "$folder/run"
resumable=("$example" train --steps 200 --out "$folder/resumed" --run "$folder/run"
    --save-every 50 --log-every 20 --held-out 20)
"${resumable[@]}" > "$folder/stopped.log" &
until grep --quiet ^step "$folder/stopped.log" || ! kill -0 $!; do sleep 0.1; done
# SIGTERM, because a process that a script starts with `&` ignores SIGINT. Clouds send SIGTERM too.
kill -TERM $!
wait $!
"${resumable[@]}" > "$folder/resumed.log"
grep ^stopped "$folder/stopped.log"
grep ^resumed "$folder/resumed.log"
cmp "$folder"/{unrolled,resumed}/model.safetensors
test -s "$folder/run/metrics.csv"
run sample --weights "$folder/unrolled" --prompt "HAMLET." --tokens 150 --top-k 20

# On eight CPU devices the losses must be those of one device, with tensor parallelism, with fully
# sharded parameters and with sharding rules from a file.
short=(train --steps 20 --warmup 2 --held-out 5 --log-every 10 --width 64 --out "$folder/short")
run "${short[@]}" --losses "$folder/one.txt"
export OXIDAX_CPU_DEVICES=8
run "${short[@]}" --losses "$folder/layers.txt" --mesh data=2,model=4 | tee "$folder/mesh.log"
grep -q 'c_fc.weight.*p!\[None, "model"\]' "$folder/mesh.log"
run "${short[@]}" --losses "$folder/fsdp.txt" --mesh data=4,model=2 --fsdp --scan
printf '%s\n' '# only the head and the embedding' '*wte.weight - model' > "$folder/rules.txt"
run "${short[@]}" --losses "$folder/rules.losses" --mesh data=2,model=4 \
    --shardings "$folder/rules.txt"
for losses in layers.txt fsdp.txt rules.losses; do
    compare_losses "$folder/one.txt" "$folder/$losses" 20 1e-5
done
