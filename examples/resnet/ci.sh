#!/usr/bin/env bash
# Compares a step of ResNet-50 with Flax's; then ResNet-18 learns Fashion-MNIST at 32x32 from 3840 images, and must know 75 % of 1000 test images
# afterwards, also when it is loaded from its checkpoint. With a number it trains by another seed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The whole workspace is selected, as `cargo xtask ci` does: fewer packages have other features, with
# which the library would be built again.
cargo build --workspace --bin resnet
example=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/resnet
# As `.cargo/config.toml` sets it for what cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"

data=$(examples/fashion_mnist.sh)
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/resnet
mkdir -p "$folder"
# What an earlier run left must not pass for this one's.
rm -rf "$folder"/*

# A name that no test has would pass too.
cargo test --workspace --bin resnet -- --ignored --exact \
    tests::recorded::on_cpu::a_step_of_resnet_50_is_that_of_flax | tee "$folder/compared.txt"
grep -q '^test result: ok. 1 passed' "$folder/compared.txt"

run() {
    "$example" --data "$data" --out "$folder/run" --test-images 1000 "$@"
}
run --steps 120 --batch 32 --learning-rate 0.02 --zero-init --no-augment --seed "${1:-0}" | tee "$folder/log"
# What was saved is what was trained.
run --eval | tee "$folder/eval.log"
diff <(grep '^test' "$folder/log") <(grep '^test' "$folder/eval.log")
awk '/^test accuracy/ { found = $3 } END { if (!(found > 0.75)) { print "resnet: test accuracy " found > "/dev/stderr"; exit 1 } }' "$folder/log"
grep -q 'the bottleneck is' "$folder/log"
