#!/usr/bin/env bash
# Trains the diffusion model on the digits beside examples/mlp and lets it draw: it must have learnt what noise is, and what was asked for must
# be recognized in what it drew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The whole workspace is selected, as `cargo xtask ci` does: fewer packages have other features, with
# which the library would be built again.
cargo build --workspace --bin diffusion
example=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/diffusion
# As `.cargo/config.toml` sets it for what cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/diffusion
mkdir -p "$folder"
# What an earlier run left must not pass for this one's.
rm -f "$folder"/*
"$example" --out "$folder/digits.png" | tee "$folder/output.txt"
awk '/^held out/ { loss = $4 } /^recognized/ { share = $2 }
    END { if (!(loss > 0 && loss < 0.12 && share > 0.90)) { print "diffusion: held-out loss " loss ", recognized " share > "/dev/stderr"; exit 1 } }' \
    "$folder/output.txt"
# 10 rows and columns of 8 pixels, each four times as large: the numbers stand in the file's header.
[ "$(od -An -tx1 -j16 -N8 "$folder/digits.png" | tr -d ' \n')" = 0000014000000140 ]
