#!/usr/bin/env bash
# Fetches all-MiniLM-L6-v2 (84 MB) below the target folder, looks for the nearest lines of four, and compares the vectors of the recorded
# sentences with those that `transformers` computed from the same weights.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The whole workspace is selected, as `cargo xtask ci` does: fewer packages have other features, with
# which the library would be built again.
cargo build --workspace --bin bert
example=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/bert
# As `.cargo/config.toml` sets it for what cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/minilm
mkdir -p "$folder"
examples/bert/weights.sh "$folder/weights"

# What an earlier run left must not pass for this one's.
rm -f "$folder"/{lines,output,compared}.txt
cat > "$folder/lines.txt" <<'END'
Stock markets fell sharply on Monday.
I forgot my login credentials.
The recipe takes two eggs and some flour.

A feline rests upon a rug.
END
"$example" --weights "$folder/weights" --file "$folder/lines.txt" --nearest 1 \
    "How do I reset my password?" "The cat sits on the mat." | tee "$folder/output.txt"
for line in "I forgot my login credentials." "A feline rests upon a rug."; do
    grep -q "^  *0\.[0-9]*  $line\$" "$folder/output.txt" || { echo "bert: \"$line\" is not found" >&2; exit 1; }
done
OXIDAX_BERT_WEIGHTS="$folder/weights" cargo test --workspace --bin bert -- \
    --ignored --exact tests::recorded::on_cpu::vectors_of_the_published_model_are_those_of_transformers | tee "$folder/compared.txt"
# A name that no test has would pass too.
grep -q '^test result: ok. 1 passed' "$folder/compared.txt"
