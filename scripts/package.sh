#!/usr/bin/env bash
# Build the sdist and the wheel; install each in an environment that holds nothing else; test it there from the files of
# the sdist alone, so that a file that was forgotten is missed.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
rm -rf dist && mkdir dist
.venv/bin/python -m build --outdir dist .
ls -l dist

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tar -xzf dist/*.tar.gz -C "$scratch"
unpacked=$(echo "$scratch"/miscal-*)
for made in "$root"/dist/*.whl "$root"/dist/*.tar.gz; do
    environment="$scratch/environment-${made##*.}"
    .venv/bin/python -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check "$made"
    du -sh "$environment"
    (cd "$scratch" && rm -rf miscal-demo && "$environment/bin/miscal" demo && test -s miscal-demo/report.html)
    "$environment/bin/pip" install --quiet --disable-pip-version-check "miscal[plot]" pytest pytest-xdist hypothesis pandas
    (cd "$unpacked" && "$environment/bin/python" -m pytest -q -p no:cacheprovider tests/kernels tests/cli/test_cli.py)
done
echo "dist/ holds an sdist and a wheel that install and work"
