#!/usr/bin/env bash
# Build .venv-peers: the libraries that benchmarks compare with, and miscal itself, so that both run in one process.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv-peers/bin/python

[ -x "$python" ] || "${PYTHON:-python3}" -m venv .venv-peers
bash scripts/install_hashed.sh "$python" peers
PATH="$PWD/.venv-peers/bin:$PATH" "$python" -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable .
