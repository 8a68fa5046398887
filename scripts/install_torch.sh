#!/usr/bin/env bash
# Install torch and triton, which no lock can hold: their builds differ from machine to machine.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
wanted=2.13.0
pip=("$python" -m pip install --disable-pip-version-check)

"$python" -c "import torch" 2>/dev/null || "${pip[@]}" "torch==$wanted" || "${pip[@]}" torch
# The GPU kernel is tested in triton's interpreter; where there is no build for this machine that test says so and skips.
"$python" -c "import triton" 2>/dev/null || "${pip[@]}" "triton==3.9.0" ||
    echo "triton is not to be had on this machine: the test of the GPU kernel will be skipped"
