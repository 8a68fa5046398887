#!/usr/bin/env bash
# Resolve pyproject.toml into requirements/*.lock: hashes, no addresses, one file for every platform and Python. Those of
# torch and of the peers, which bring it, are for Python 3.11 on Linux alone: its builds differ from machine to machine.
set -euo pipefail
cd "$(dirname "$0")/.."

resolve() {
    uv pip compile --quiet --python-version 3.11 --generate-hashes --no-annotate \
        --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" "$@"
}
here=(--python-platform x86_64-manylinux_2_28 ${PIP_FIND_LINKS:+--find-links "$PIP_FIND_LINKS"})

resolve pyproject.toml --universal --group build --output-file requirements/demo.lock
resolve pyproject.toml --universal --extra plot --extra boost --extra spark --extra onnx --group build --group dev \
    --constraint requirements/demo.lock --output-file requirements/dev.lock
resolve requirements/torch.txt "${here[@]}" --constraint requirements/dev.lock --output-file requirements/torch.lock
resolve pyproject.toml requirements/peers.txt --group build "${here[@]}" --constraint requirements/torch.lock \
    --output-file requirements/peers.lock
