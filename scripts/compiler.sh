#!/usr/bin/env bash
# A C compiler and Python's headers, which the kernels are built with: install them when root on Debian, else say it.
set -euo pipefail
python=$1

headers() {
    "$python" -c 'import pathlib, sys, sysconfig
sys.exit(not (pathlib.Path(sysconfig.get_paths()["include"]) / "Python.h").exists())'
}

missing=()
command -v "${CC:-cc}" >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null || missing+=(gcc libc6-dev)
headers || missing+=(python3-dev)
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    if apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" && headers; then
        exit 0
    fi
fi
echo "miscal compiles its inner loops and needs a C compiler and Python's headers." >&2
echo "Not installed: ${missing[*]}. As root on Debian: apt-get install ${missing[*]}" >&2
exit 1
