#!/usr/bin/env bash
# Install one hashed lock into .venv, then compile the kernels and install miscal itself, editable. uv when it can be
# had, else pip. The build folder stays: what has not changed is not compiled again.
set -euo pipefail
cd "$(dirname "$0")/.."
lock=$1
python=.venv/bin/python
# To try miscal out, one build of the kernels will do; the tests compare both.
case $lock in
*demo*) built=(build-dir=build/demo setup-args=-Dthis_processor=true) ;;
*) built=(build-dir=build/editable) ;;
esac

bash scripts/compiler.sh "$python"

own_pip() {
    "$python" -m pip --version >/dev/null 2>&1 || "$python" -m ensurepip --upgrade >/dev/null
}

# To put pip into an environment takes longer than to fetch uv with the pip of the Python that it was made with.
fetch_uv() {
    local base=("$("$python" -c 'import sys; print(sys._base_executable)')" -m pip --python "$python")
    "${base[@]}" install --quiet --disable-pip-version-check uv 2>/dev/null && return
    own_pip && "$python" -m pip install --quiet --disable-pip-version-check uv
}

with_uv() {
    [ -x .venv/bin/uv ] || fetch_uv || return 1
    .venv/bin/uv pip install --python "$python" --require-hashes -r "$lock"
}

with_pip() {
    own_pip
    "$python" -m pip install --disable-pip-version-check --require-hashes -r "$lock"
}

case $lock in *demo*) ;; *) own_pip ;; esac # which the other scripts call
with_uv || { echo "uv could not install $lock; using pip"; with_pip; }
echo "Compiling the kernels: half a minute, once ..."
export PATH="$PWD/.venv/bin:$PATH"
if [ -x .venv/bin/uv ]; then
    install=(.venv/bin/uv pip install --python "$python" --reinstall)
else
    install=("$python" -m pip install --disable-pip-version-check)
fi
"${install[@]}" --quiet --no-deps --no-build-isolation "${built[@]/#/--config-settings=}" --editable .
