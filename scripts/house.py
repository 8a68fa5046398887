"""Print how large the house is: files, lines of code and tokens by folder, and how far three flows walk through it.

python scripts/house.py            the tree as it stands
python scripts/house.py --json     the same as JSON, for the table in docs/house.md

A line of code is one that is not blank, not a comment and not part of a docstring; tokens are what Python reads in
it. A flow is traced call by call: how many modules and functions of the library it enters, and how often the next call
lies in another folder than the last.
"""

from __future__ import annotations

import ast
import json
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from code_budget import LIBRARY, Mass, code_lines, mass, sizes


class Trace:
    """Which functions a flow enters, in order, with the folder of each."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str, int]] = set()
        self.changes = 0
        self.last = ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        path = code.co_filename
        if not path.startswith(str(LIBRARY)):
            return
        self.functions.add((path, code.co_qualname, code.co_firstlineno))
        folder = path[: path.rindex("/")]
        self.changes += folder != self.last
        self.last = folder

    @property
    def modules(self) -> int:
        return len({path for path, _, _ in self.functions})


def traced(flow: Callable[[], object]) -> Trace:
    """Run a flow twice and trace the second time, when everything is imported."""
    flow()
    found = Trace()
    threading.setprofile(found)
    sys.setprofile(found)
    try:
        flow()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return found


def flows(folder: Path) -> dict[str, Callable[[], object]]:
    """The three flows: one field, an audit of a loaded table, an audit with a ceiling of memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import miscal

    rng = np.random.default_rng(0)
    p = rng.beta(2, 5, 60_000)
    columns = {
        "age": rng.integers(18, 90, p.size), "income": rng.lognormal(10, 1, p.size),
        "state": np.array(["CA", "NV", "NY", "TX", "WA"])[rng.integers(0, 5, p.size)],
    }  # fmt: skip
    table = pa.table({"y": (rng.random(p.size) < p).astype(np.int8), "p": p, **columns})
    path = folder / "table.parquet"
    pq.write_table(table, path, row_group_size=20_000)
    few = miscal.Predictions(table["y"][:20_000], p[:20_000], columns={"state": columns["state"][:20_000]})
    named: dict[str, Any] = {"outcome": "y", "probability": "p"}
    return {
        "by_field, 20,000 rows": lambda: miscal.by_field(few, "state"),
        "audit, 60,000 rows, 3 columns": lambda: miscal.audit(path, **named),
        "audit --memory 1GB, the same": lambda: miscal.audit(path, memory="1GB", **named),
    }


def function_lines() -> list[int]:
    """Lines of every function's body, in order."""
    files = (sizes(path.read_text(encoding="utf-8")) for path in LIBRARY.rglob("*.py"))
    return sorted(lines for held in files for lines in held.functions.values())


def statements() -> int:
    """Statements of the library, other than definitions of functions and classes."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in LIBRARY.rglob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.stmt))
    return sum(not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in nodes)


def full_lines() -> tuple[float, float]:
    """The share of lines that hold more than 25 tokens, and of those wider than 100 signs."""
    fuller = wider = every = 0
    for path in LIBRARY.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        written, held = source.splitlines(), code_lines(source, ast.parse(source))
        every += len(held)
        fuller += sum(tokens > 25 for tokens in held.values())
        wider += sum(len(written[line - 1]) > 100 for line in held)
    return fuller / every, wider / every


def print_row(name: str, held: Mass, width: int) -> None:
    """Print files, lines, tokens, and tokens a line of Python."""
    print(f"{name:{width}} {held.files:5} {held.lines:7,} {held.tokens:8,} {held.tokens / max(held.python, 1):6.2f}")


def main() -> None:
    found = mass(LIBRARY)
    with tempfile.TemporaryDirectory() as folder:
        walked = {name: traced(flow) for name, flow in flows(Path(folder)).items()}
    numbers = {name: [one.modules, len(one.functions), one.changes] for name, one in walked.items()}
    if "--json" in sys.argv:
        print(json.dumps({"folders": found, "flows": numbers}, indent=1))
        return
    width = max(map(len, found))
    for name, held in found.items():
        print_row(name, held, width)
    every = Mass(*map(sum, zip(*found.values(), strict=True)))
    print_row("all", every, width)
    print(f"{statements():,} statements of {every.tokens / statements():.1f} tokens")
    fuller, wider = full_lines()
    print(f"{fuller:.1%} of lines hold more than 25 tokens, {wider:.1%} are wider than 100")
    lengths = function_lines()
    mean, high = sum(lengths) / len(lengths), lengths[int(0.95 * len(lengths))]
    print(f"{len(lengths):,} functions of {mean:.1f} lines on average, 19 in 20 of at most {high}")
    for name, (modules, functions, changes) in numbers.items():
        print(f"{name}: {modules} modules, {functions} functions, {changes:,} changes of folder")


if __name__ == "__main__":
    main()
