"""Every benchmark in one run, one table: `make bench`, or `python benchmarks/run.py [--quick] [NAME ...]`.

A benchmark is a file here with a function `rows(quick) -> list of dict`; a new one needs no entry anywhere. Each runs
in a process of its own in the same environment, so that none inherits another's memory or warm caches.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

HERE = Path(__file__).parent


def names() -> list[str]:
    """Files here that offer rows for the table."""
    return sorted(path.stem for path in HERE.glob("*.py") if "\ndef rows(quick" in path.read_text(encoding="utf-8"))


def one(name: str, quick: bool, answer: Path) -> None:
    """Run one benchmark and leave its rows as JSON."""
    module = importlib.import_module(name)
    rows = module.rows(quick=quick)
    answer.write_text(json.dumps(rows))
    if rows and not quick:  # none where a machine has not what is measured: what another left stays
        harness.write(name, rows, getattr(module, "table", None))


def main(arguments: list[str]) -> int:
    quick = "--quick" in arguments
    if arguments[:1] == ["--one"]:
        one(arguments[1], quick, Path(arguments[2]))
        return 0
    chosen = [name for name in arguments if not name.startswith("--")] or names()
    found, failed = [], []
    before = harness.machine()["load"]
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            answer = Path(folder) / f"{name}.json"
            command = [sys.executable, str(HERE / "run.py"), "--one", name, str(answer), *["--quick"] * quick]
            if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0 and answer.exists():
                found += [{"benchmark": name, **row} for row in json.loads(answer.read_text())]
            else:
                failed.append(name)
    print(f"load before {before}, after {harness.machine()['load']}; CPU seconds of one thread\n")
    print(harness.table(found))
    growth = harness.growth(found)
    if growth:
        print("\nGrowth of time with rows: " + ", ".join(f"{g['operation']} {g['exponent']:.2f}" for g in growth))
    if not quick:
        print(f"\n{harness.write('all', found, load_before=before).relative_to(Path.cwd())}")
    for name in failed:
        print(f"{name} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
