#!/usr/bin/env bash
# Trains the diffusion model on the digits of examples/mlp and draws samples. Checks that the
# held-out loss falls and that a classifier recognizes the drawn digits.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Selects the whole workspace, as `cargo xtask ci` does. Fewer packages would enable other features,
# for which cargo would build the library again.
cargo build --workspace --bin diffusion
example=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/diffusion
# Disables the compile cache, like `.cargo/config.toml` for programs that cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/diffusion
mkdir -p "$folder"
# Deletes the output of earlier runs, so that the checks below read only this run's.
rm -f "$folder"/*
"$example" --out "$folder/digits.png" | tee "$folder/output.txt"
awk '
    /^held out/ { loss = $4 }
    /^recognized/ { fraction = $2 }
    END {
        if (!(loss > 0 && loss < 0.12 && fraction > 0.90)) {
            print "diffusion: held-out loss " loss ", recognized " fraction > "/dev/stderr"
            exit 1
        }
    }' "$folder/output.txt"
# Checks width and height in the PNG header: 10 images of 8 pixels, enlarged by 4, are 320 pixels.
[ "$(od -An -tx1 -j16 -N8 "$folder/digits.png" | tr -d ' \n')" = 0000014000000140 ]
