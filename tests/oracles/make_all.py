"""Compute every oracle's answers again: `make oracles`. The inputs stay as they are unless inputs.json is removed."""

from __future__ import annotations

import importlib
import sys

from frozen import HERE


def main():
    names = sorted(path.stem for path in HERE.glob("make_*.py"))
    names = [name for name in names if name not in {"make_all", "make_inputs"}]
    if not (HERE / "inputs.json").exists():
        names.insert(0, "make_inputs")
    for name in names:
        importlib.import_module(name).main()
        print(name, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
