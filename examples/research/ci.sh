#!/usr/bin/env bash
# Runs the research programs with their charts and checks their figures. The tests of this package
# compare them with JAX.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Selects the whole workspace, as `cargo xtask ci` does. Fewer packages would enable other features,
# for which cargo would build the library again.
cargo build --workspace --bins
programs=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug
# Disables the compile cache, like `.cargo/config.toml` for programs that cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/research
mkdir -p "$folder"
# Deletes the output of earlier runs, so that the checks below read only this run's.
rm -f "$folder"/*

check() { # PROGRAM LINE FIELD CONDITION: the field of the last such line, x, satisfies it
    "$programs/$1" --chart "$folder/$1.svg" | tee "$folder/$1.txt"
    grep -q '^</svg>$' "$folder/$1.svg"
    awk -v name="$1" "/^$2/ { x = \$$3 } END {
        if (!($4)) { print \"research: \" name \": \" x > \"/dev/stderr\"; exit 1 }
    }" "$folder/$1.txt"
}
check neural_ode 'new paths' 3 'x > 0 && x < 0.005'
check maml 'last 50 steps' 4 'x > 0 && x < 1.5'
check hmc accepted 2 'x > 0.9 && x < 1'
check ppo 'last 10' 6 'x > 200'
check graph_net 'error' 5 'x > 0 && x < 0.15'
check implicit_layer unseen 2 'x > 0 && x < 0.03'
check pinn velocity 2 'x > -0.55 && x < -0.4'
check kalman frequency 2 'x > 0.45 && x < 0.55'
check blockwise_attention accuracy 2 'x > 0.9'
check own_optimizer accuracy 2 'x > 0.95'
