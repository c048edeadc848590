#!/usr/bin/env bash
# Checks the types of this example, without XLA's C++ library: with `DOCS_RS`, the build script of
# xla-rs only writes its bindings, for which it needs libclang. That comes from PyPI.
set -euo pipefail
cd "$(dirname "$0")"

packages=target/libclang
if [ ! -d "$packages/clang" ]; then
    python3 -m pip install --quiet --no-deps --require-hashes --target "$packages" \
        --requirement requirements.txt
fi
LIBCLANG_PATH="$PWD/$packages/clang/native" \
    BINDGEN_EXTRA_CLANG_ARGS="-I$(cc -print-file-name=include)" \
    DOCS_RS=1 cargo check --locked --quiet
