#!/usr/bin/env bash
# Chromium for the page's tests and a Java runtime for Spark's: install what is missing when root on Debian, else say it.
# pyright for the test of types, where npm is at hand.
set -euo pipefail
cd "$(dirname "$0")/.."

pyright=.venv/pyright
if [ -d .venv ] && ! [ -x $pyright/node_modules/.bin/pyright ] && ! command -v pyright >/dev/null; then
    if ! { command -v npm && timeout 120 npm install --silent --no-audit --no-fund --prefix $pyright pyright; } >/dev/null 2>&1; then
        echo "Not installed: pyright (npm install pyright). The test that needs it is skipped." >&2
    fi
fi

missing=()
command -v chromium >/dev/null || missing+=(chromium)
command -v java >/dev/null || missing+=(openjdk-17-jre-headless)
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    if apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; then
        exit 0
    fi
fi
echo "Not installed: ${missing[*]}. The tests that need them are skipped; as root: apt-get install ${missing[*]}" >&2
