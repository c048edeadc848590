#!/usr/bin/env bash
# Trains the baby GPT on all of Shakespeare's works, with the three seeds that
# python-compat/gpt2_baby.py trains with JAX. Checks that the mean held-out losses differ by less
# than 0.02. Takes minutes on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/gpt2-baby
jax=$(sed -n 's/^ "mean": \([0-9.]*\)$/\1/p' python-compat/fixtures/gpt2_baby.json)
mkdir -p "$folder"
bash examples/gpt2/text.sh "$folder/shakespeare.txt"

sum=0
for seed in 1337 1338 1339; do
    cargo run --release -p gpt2 -- train --data "$folder/shakespeare.txt" --seed $seed \
        --eval-every 2000 --log-every 500 --out "$folder/$seed" "$@" | tee "$folder/$seed.log"
    sum=$(awk -v sum="$sum" '/^held out/ { print sum + $3 }' "$folder/$seed.log")
done
awk -v sum="$sum" -v jax="${jax:?gpt2_baby.json lacks the mean}" 'BEGIN {
    printf "mean held-out loss %.4f, in JAX %.4f\n", sum / 3, jax
    difference = sum / 3 - jax
    exit !(difference < 0.02 && difference > -0.02)
}'
