#!/usr/bin/env bash
# Install torch and triton, whose builds differ from machine to machine.
set -euo pipefail
cd "$(dirname "$0")/.."
# The GPU kernel is tested in triton's interpreter; where there is no build for this machine that test says so and skips.
.venv/bin/python -c "import torch" 2>/dev/null || bash scripts/install_hashed.sh .venv/bin/python torch
