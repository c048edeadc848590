#!/usr/bin/env bash
# Every recipe with every model it is for, on eight CPU devices: 20 steps must see the losses of one device (the
# example compares them), lower in the end, through the collectives that are meant.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The whole workspace is selected, as `cargo xtask ci` does: fewer packages have other features, with
# which the library would be built again.
cargo build --workspace --bin parallel
example=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/parallel
# As `.cargo/config.toml` sets it for what cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"
log=$(realpath -m "${CARGO_TARGET_DIR:-target}")/parallel.log

check() { # collectives recipe [option…]
    local wanted=$1
    shift
    "$example" "$@" --steps 20 | tee "$log"
    grep -qE "^collectives    $wanted$" "$log" || { echo "parallel: $* has other collectives" >&2; exit 1; }
    awk -v run="$*" '/^ +[0-9]+ / { if ($1 == 0) first = $2; last = $2 }
        END { if (!(last < 0.95 * first)) { print "parallel: " run ": " first " to " last > "/dev/stderr"; exit 1 } }' "$log"
}
sum='[0-9]+ all-reduce'
for model in mlp gpt; do
    check "$sum" data --model "$model"
    check "$sum, [0-9]+ all-gather" fsdp --model "$model"
    check "$sum" tensor --model "$model"
    check "$sum" data-tensor --model "$model"
    check "$sum, [0-9]+ collective-permute" pipeline --model "$model"
done
check "$sum, [0-9]+ collective-permute" sequence
check "$sum, [0-9]+ all-to-all" experts
