"""Print how large the house is: files and lines of code by folder, and how far three flows walk through it.

python scripts/house.py            the tree as it stands
python scripts/house.py --json     the same as JSON, for the table in docs/house.md

A line of code is one that is not blank, not a comment and not part of a docstring. A flow is traced call by call: how
many modules and functions of the library it enters, and how often the next call lies in another folder than the last.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1] / "src" / "miscal"
SKIPPED = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(path: Path) -> int:
    """Lines that hold code."""
    text = path.read_text(encoding="utf-8")
    described: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            first = node.body[0]
            described.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SKIPPED:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - described)


def header_lines(path: Path) -> int:
    """Lines that hold code in a header of the kernels, which only Cython can read."""
    text = re.sub(r'(?<=\n)\s+""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return sum(bool(line.split("#")[0].strip()) for line in text.splitlines())


def mass(root: Path = ROOT) -> dict[str, tuple[int, int]]:
    """Files and lines of code of each folder."""
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path in sorted([*root.rglob("*.py"), *root.rglob("*.pxd")]):
        folder = str(path.parent.relative_to(root))
        files[folder] += 1
        lines[folder] += code_lines(path) if path.suffix == ".py" else header_lines(path)
    return {folder: (files[folder], lines[folder]) for folder in sorted(files)}


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
        if not path.startswith(str(ROOT)):
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


def main() -> None:
    found = mass()
    with tempfile.TemporaryDirectory() as folder:
        walked = {name: traced(flow) for name, flow in flows(Path(folder)).items()}
    numbers = {name: [one.modules, len(one.functions), one.changes] for name, one in walked.items()}
    if "--json" in sys.argv:
        print(json.dumps({"folders": found, "flows": numbers}, indent=1))
        return
    width = max(map(len, found))
    for name, (files, lines) in found.items():
        print(f"{name:{width}} {files:5} {lines:7,}")
    print(f"{'all':{width}} {sum(f for f, _ in found.values()):5} {sum(n for _, n in found.values()):7,}")
    for name, (modules, functions, changes) in numbers.items():
        print(f"{name}: {modules} modules, {functions} functions, {changes:,} changes of folder")


if __name__ == "__main__":
    main()
