#!/usr/bin/env bash
# Trains the baby GPT on the whole text for the three seeds that python-compat/gpt2_baby.py trained in JAX. The means of the held-out
# losses must be within 0.02 of each other. Minutes on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/gpt2-baby
jax=$(sed -n 's/^ "mean": \([0-9.]*\)$/\1/p' python-compat/fixtures/gpt2_baby.json)
mkdir -p "$folder"
bash examples/gpt2/text.sh "$folder/shakespeare.txt"

sum=0
for seed in 1337 1338 1339; do
    cargo run --release -p gpt2 -- train --data "$folder/shakespeare.txt" --seed $seed --eval-every 2000 --log-every 500 \
        --out "$folder/$seed" "$@" | tee "$folder/$seed.log"
    sum=$(awk -v sum="$sum" '/^held out/ { print sum + $3 }' "$folder/$seed.log")
done
awk -v sum="$sum" -v jax="${jax:?the fixture has it}" 'BEGIN {
    printf "mean held-out loss %.4f, in JAX %.4f\n", sum / 3, jax
    apart = sum / 3 - jax
    exit !(apart < 0.02 && apart > -0.02)
}'
