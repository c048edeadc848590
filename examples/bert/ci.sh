#!/usr/bin/env bash
# Searches four lines for the nearest one to each of two queries, and compares the embeddings of
# recorded sentences with those that `transformers` computed from the same weights. Downloads
# all-MiniLM-L6-v2 (84 MB) into the target folder if it is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Selects the whole workspace, as `cargo xtask ci` does. Fewer packages would enable other features,
# for which cargo would build the library again.
cargo build --workspace --bin bert
example=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/bert
# Disables the compile cache, like `.cargo/config.toml` for programs that cargo runs.
export OXIDAX_CACHE_MAX_BYTES="${OXIDAX_CACHE_MAX_BYTES:-0}"
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/minilm
mkdir -p "$folder"
examples/bert/weights.sh "$folder/weights"

# Deletes the output of earlier runs, so that the checks below read only this run's.
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
    grep -q "^  *0\.[0-9]*  $line\$" "$folder/output.txt" || {
        echo "bert: \"$line\" is not among the results" >&2
        exit 1
    }
done
test=recorded::on_cpu::vectors_of_the_published_model_match_transformers
OXIDAX_BERT_WEIGHTS="$folder/weights" cargo test --workspace --test bert -- \
    --ignored --exact "$test" | tee "$folder/compared.txt"
# `cargo test` also succeeds if no test has this name.
grep -q '^test result: ok. 1 passed' "$folder/compared.txt"
