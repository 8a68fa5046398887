#!/usr/bin/env bash
# Build .venv-peers: the libraries that benchmarks compare with, and miscal itself, so that both run in one process.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv-peers/bin/python

[ -x "$python" ] || "${PYTHON:-python3}" -m venv .venv-peers
install=("$python" -m pip install --quiet --disable-pip-version-check)
# First and by its version: a bare `torch` would bring gigabytes of packages for graphics cards.
"$python" -c "import torch" 2>/dev/null || "${install[@]}" torch==2.13.0
"${install[@]}" -r requirements/peers.txt
"${install[@]}" --editable .
