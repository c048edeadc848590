#!/usr/bin/env bash
# Runs every recipe with each of its models on eight CPU devices for 20 steps. Checks that the loss
# falls and that the program contains the intended collectives. The example itself compares the
# losses with those of one device.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Selects the whole workspace, as `cargo xtask ci` does. Fewer packages would enable other features,
# for which cargo would build the library again.
cargo build --workspace --bin parallel
example=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/parallel
# Disables the compile cache, like `.cargo/config.toml` for programs that cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"
log=$(realpath -m "${CARGO_TARGET_DIR:-target}")/parallel.log

check() { # collectives recipe [option…]
    local expected=$1
    shift
    "$example" "$@" --steps 20 | tee "$log"
    grep -qE "^collectives    $expected$" "$log" || {
        echo "parallel: $*: the collectives are not $expected" >&2
        exit 1
    }
    awk -v run="$*" '
        /^ +[0-9]+ / { if ($1 == 0) first = $2; last = $2 }
        END {
            if (!(last < 0.95 * first)) {
                print "parallel: " run ": loss " first " to " last > "/dev/stderr"
                exit 1
            }
        }' "$log"
}
all_reduce='[0-9]+ all-reduce'
for model in mlp gpt; do
    check "$all_reduce" data --model "$model"
    check "$all_reduce, [0-9]+ all-gather" fsdp --model "$model"
    check "$all_reduce" tensor --model "$model"
    check "$all_reduce" data-tensor --model "$model"
    check "$all_reduce, [0-9]+ collective-permute" pipeline --model "$model"
done
check "$all_reduce, [0-9]+ collective-permute" sequence
check "$all_reduce, [0-9]+ all-to-all" experts
