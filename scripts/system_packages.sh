#!/usr/bin/env bash
# Chromium for the page's tests and a Java runtime for Spark's: install what is missing when root on Debian, else say it.
set -euo pipefail

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
