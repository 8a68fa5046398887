#!/usr/bin/env bash
# Resolve pyproject.toml into requirements/*.lock: hashes, no addresses, one file for every platform and Python.
set -euo pipefail
cd "$(dirname "$0")/.."

resolve() {
    uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
        --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" "$@"
}

resolve --group build --output-file requirements/demo.lock
resolve --extra plot --extra boost --extra spark --extra onnx --group build --group dev \
    --constraint requirements/demo.lock --output-file requirements/dev.lock
