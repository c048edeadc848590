#!/usr/bin/env bash
# Compares a training step of ResNet-50 with Flax. Then trains ResNet-18 on 3840 images of
# Fashion-MNIST at 32x32, and checks that it classifies 75 % of 1000 test images correctly, also
# after loading its checkpoint. The optional argument is the random seed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Selects the whole workspace, as `cargo xtask ci` does. Fewer packages would enable other features,
# for which cargo would build the library again.
cargo build --workspace --bin resnet
example=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/resnet
# Disables the compile cache, like `.cargo/config.toml` for programs that cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"

data=$(examples/fashion_mnist.sh)
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/resnet
mkdir -p "$folder"
# Deletes the output of earlier runs, so that the checks below read only this run's.
rm -rf "$folder"/*

# `cargo test` also succeeds if no test has this name.
cargo test --workspace --bin resnet -- --ignored --exact \
    tests::recorded::on_cpu::a_step_of_resnet_50_matches_flax | tee "$folder/compared.txt"
grep -q '^test result: ok. 1 passed' "$folder/compared.txt"

run() {
    "$example" --data "$data" --out "$folder/run" --test-images 1000 "$@"
}
run --steps 120 --batch 32 --learning-rate 0.02 --zero-init --no-augment --seed "${1:-0}" |
    tee "$folder/log"
# The saved model has the accuracy of the trained one.
run --eval | tee "$folder/eval.log"
diff <(grep '^test' "$folder/log") <(grep '^test' "$folder/eval.log")
awk '
    /^test accuracy/ { accuracy = $3 }
    END {
        if (!(accuracy > 0.75)) {
            print "resnet: test accuracy " accuracy > "/dev/stderr"
            exit 1
        }
    }' "$folder/log"
grep -q 'the bottleneck is' "$folder/log"
