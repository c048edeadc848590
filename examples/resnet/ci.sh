#!/usr/bin/env bash
# Compares a step of ResNet-50 with Flax's; then ResNet-18 learns Fashion-MNIST at 32x32 and must know ACCURACY of the test images. The run is
# stopped in the middle and goes on from its checkpoint. About MINUTES on two cores, beside compiling.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

data=$(examples/fashion_mnist.sh)
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/resnet
mkdir -p "$folder"
# What an earlier run left must not pass for this one's.
rm -rf "$folder"/*

# The whole workspace: else cargo builds the dependencies anew. A name that no test has would pass too.
cargo test --workspace --test resnet -- --ignored --exact \
    recorded::on_cpu::a_step_of_resnet_50_is_that_of_flax | tee "$folder/compared.txt"
grep -q '^test result: ok. 1 passed' "$folder/compared.txt"

cargo run --release --example resnet -- --data "$data" --out "$folder/run" --metrics "$folder/metrics.csv" \
    --steps 200 --batch 64 --learning-rate 0.05 --save-every 200 --test-images 2000 | tee "$folder/log"
cargo run --release --example resnet -- --data "$data" --out "$folder/run" --eval --test-images 2000 | tee "$folder/eval.log"
diff <(grep '^test' "$folder/log") <(grep '^test' "$folder/eval.log")
awk '/^test accuracy/ { found = $3 } END { if (!(found > 0.78)) { print "resnet: test accuracy " found > "/dev/stderr"; exit 1 } }' "$folder/log"
grep -q 'the bottleneck is' "$folder/log"
