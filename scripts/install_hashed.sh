#!/usr/bin/env bash
# Install requirements/NAME.lock with hashes: install_hashed.sh PYTHON NAME. A lock with torch in it holds the CPU build for
# Python 3.11 on Linux. Elsewhere, or where no index at hand has that build, the versions of NAME.txt are installed without
# hashes, and it is said; a file with another hash is never installed.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 name=$2
pip=("$python" -m pip install --disable-pip-version-check)
here=$("$python" -c 'import platform, sys; print(*sys.version_info[:2], sys.platform, platform.machine())')

if [ "$here" = "3 11 linux x86_64" ]; then
    said=$("${pip[@]}" --require-hashes -r "requirements/$name.lock" 2>&1) && exit 0
    case $said in *"DO NOT MATCH THE HASHES"*)
        echo "$said" >&2
        exit 1
        ;;
    esac
    echo "$said" | tail -3 >&2
fi
echo "requirements/$name.lock has no build for this machine: its versions are installed without hashes" >&2
"${pip[@]}" -r "requirements/$name.txt"
