"""Every study whose results are committed: `make studies`, or `python -m studies.run [--quick] [NAME ...]`.

A study is a script here that understands `--quick` and writes results/<its name>.json and .md. It takes hours in full.
Reproductions of published tables have a command of their own (`make reproduce`).
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from studies.needs import NOT_RUN

HERE = Path(__file__).parent
BLOCK = '\nif __name__ == "__main__":'
# Scripts that have a command of their own, are run in another environment, or start others.
OTHERS = ("run", "reproduce", "figures_", "peer_")


def names() -> list[str]:
    """Scripts here that are studies: each file with a `__main__` block, but for those of `OTHERS`."""
    scripts = [path.stem for path in HERE.glob("*.py") if BLOCK in path.read_text(encoding="utf-8")]
    return sorted(name for name in scripts if not name.startswith(OTHERS))


def run(scripts: list[str], arguments: list[str]) -> int:
    """Run scripts one after the other; the exit status is 1 when any failed.

    One that lacks what it needs (`studies/needs.py`) says so itself, and has not failed.
    """
    failed = []
    for name in scripts:
        start = time.perf_counter()
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"studies.{name}", *arguments]
        if subprocess.run(command, cwd=HERE.parent, check=False).returncode not in {0, NOT_RUN}:
            failed.append(name)
        print(f"== {name}: {time.perf_counter() - start:.0f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    chosen = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    sys.exit(run(chosen or names(), [argument for argument in sys.argv[1:] if argument.startswith("--")]))
