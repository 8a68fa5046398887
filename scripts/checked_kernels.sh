#!/usr/bin/env bash
# Build the kernels twice more beside the usual ones, into .venv-checked, and run their tests on each build: with every
# place in every array checked, and under the address sanitiser where the compiler has one.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
python=.venv-checked/bin/python
# What is about the usual builds is left out; the fuzz brings what no kernel test thinks of.
tests=(tests/kernels tests/unit/test_fuzz.py --ignore tests/kernels/test_build.py)

# An environment that sees the packages of .venv, but not the miscal that is installed there.
[ -x "$python" ] || .venv/bin/python -m venv --without-pip .venv-checked
packages() { "$1" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])'; }
packages .venv/bin/python >"$(packages "$python")/shared.pth"

build() {
    local folder=$1
    shift
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall \
        --config-settings=build-dir="build/$folder" "${@/#/--config-settings=setup-args=}" .
}

build checked -Dchecked=true -Dthis_processor=true
"$python" -m pytest -q -p no:cacheprovider "${tests[@]}"

sanitiser=$(gcc -print-file-name=libasan.so 2>/dev/null || true)
if [ -e "$sanitiser" ]; then
    build sanitised -Db_sanitize=address -Db_lundef=false -Dthis_processor=true
    # Python itself keeps memory until it ends, which would be called a leak.
    ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$sanitiser" "$python" -m pytest -q -p no:cacheprovider "${tests[@]}"
else
    echo "no address sanitiser on this machine: gcc's libasan is missing"
fi
