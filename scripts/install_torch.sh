#!/usr/bin/env bash
# Install torch, which no lock can hold: its builds differ from machine to machine.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
wanted=2.13.0

"$python" -c "import torch" 2>/dev/null && exit 0
"$python" -m pip install --disable-pip-version-check "torch==$wanted" ||
    "$python" -m pip install --disable-pip-version-check torch
