"""Print how large the library is, how far three flows walk through it, and the counts that may only fall.

python scripts/house.py                   the tree as it stands
python scripts/house.py --json            the same as JSON
python scripts/house.py --lower-counts    write the counts that fell to tests/unit/house_counts.json; none is raised

A line of code is one that is not blank, not a comment and not part of a docstring; tokens are what Python reads in
it. Nothing fails on a size. A flow is traced call by call: how many modules and functions of the library it enters, and
how often the next call lies in another folder than the last.

The counts that may only fall are read from the syntax trees of `src/miscal`. `tests/unit/test_house.py` fails where one
is above the committed number.
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
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "src" / "miscal"
COMMITTED = ROOT / "tests" / "unit" / "house_counts.json"

_NOT_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(source: str, tree: ast.Module) -> Counter[int]:
    """The numbers of the lines that hold code, and how many tokens begin in each."""
    described = _docstring_lines(tree)
    lines: Counter[int] = Counter()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        first, last = token.start[0], token.end[0]
        if token.type in _NOT_CODE or first in described:
            continue
        lines.update(dict.fromkeys(range(first, last + 1), 0))
        lines[first] += 1
    return lines


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and node.body and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            lines.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return lines


def _functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{prefix}{child.name}."
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield inner[:-1], child
        yield from _functions(child, inner)


class Sizes(NamedTuple):
    """Lines and tokens of code of a file, and the lines of each function: its body, without its signature."""

    lines: int
    tokens: int
    functions: dict[str, int]


@cache  # a file is counted for its folder and for the lengths of functions
def sizes(source: str) -> Sizes:
    """How much code a file holds."""
    tree = ast.parse(source)
    lines = code_lines(source, tree)
    bodies = {}
    for name, function in _functions(tree):
        first = function.body[0].lineno
        bodies[name] = sum(first <= line <= (function.end_lineno or first) for line in lines)
    return Sizes(len(lines), lines.total(), bodies)


def header_lines(source: str) -> int:
    """Lines that hold code in a header of the kernels, which only Cython can read."""
    text = re.sub(r'(?<=\n)\s+""".*?"""', "", source, flags=re.DOTALL)
    return sum(bool(line.split("#")[0].strip()) for line in text.splitlines())


class Mass(NamedTuple):
    """Files of a folder, their lines of code, and the lines and tokens of those that are Python."""

    files: int
    lines: int
    python: int
    tokens: int


def mass(library: Path) -> dict[str, Mass]:
    """How large each folder of the library is."""
    masses: dict[str, Mass] = {}
    for path in sorted([*library.rglob("*.py"), *library.rglob("*.pxd")]):
        folder = str(path.parent.relative_to(library))
        source = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            size = sizes(source)
            added = Mass(1, size.lines, size.lines, size.tokens)
        else:
            added = Mass(1, header_lines(source), 0, 0)
        masses[folder] = Mass(*map(sum, zip(masses.get(folder, Mass(0, 0, 0, 0)), added, strict=True)))
    return masses


# ---------------------------------------------------------------------------------------- counts that may only fall
PROSE = frozenset(
    {"method", "reason", "words", "verdict", "note"}
)  # names of values that are meant to be read, not tested
COMPARED = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")


def counts(library: Path) -> dict[str, int]:
    """Each count that may only fall, of all modules below a folder."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(library.rglob("*.py"))}
    counters: Mapping[str, Callable[[ast.Module], int]] = {
        "uses of Any in annotations": any_annotations,
        "untyped reads of extra": extra_reads,
        "comparisons of prose with strings": prose_comparisons,
    }
    summed = {name: sum(map(counter, trees.values())) for name, counter in counters.items()}
    summed["class names in several modules"] = repeated(map(class_names, trees.values()))
    summed["constants of one name in several modules"] = repeated(map(constant_names, trees.values()))
    return summed


def any_annotations(tree: ast.Module) -> int:
    """How often `Any` stands in the annotation of a parameter, of what is returned or of a variable."""
    return sum(_named_any(node) for annotation in _annotations(tree) for node in ast.walk(annotation))


def _annotations(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            annotation = node.returns
        elif isinstance(node, ast.arg | ast.AnnAssign):
            annotation = node.annotation
        else:
            continue
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.parse(annotation.value, mode="eval").body
        if annotation is not None:
            yield annotation


def _named_any(node: ast.AST) -> bool:
    return (isinstance(node, ast.Name) and node.id == "Any") or (isinstance(node, ast.Attribute) and node.attr == "Any")


def extra_reads(tree: ast.Module) -> int:
    """How often a key of `extra` is read, as `extra[...]` or `extra.get(...)`."""
    return sum(_is_extra_read(node) for node in ast.walk(tree))


def _is_extra_read(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Load) and _name(node.value) == "extra"
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr == "get" and _name(called.value) == "extra"


def prose_comparisons(tree: ast.Module) -> int:
    """How often a method, reason, verdict, note or words are compared with a string that is written in the code."""
    return sum(_compares_prose(node) for node in ast.walk(tree))


def _compares_prose(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        asked = any(isinstance(operator, COMPARED) for operator in node.ops)
        return asked and any(map(_is_prose, sides)) and any(map(_is_text, sides))
    if isinstance(node, ast.Match):
        return _is_prose(node.subject) and any(map(_is_text, ast.walk(node)))
    called = node.func if isinstance(node, ast.Call) else None
    prefix = isinstance(called, ast.Attribute) and called.attr in ("startswith", "endswith")
    return prefix and _is_prose(called.value) and any(map(_is_text, node.args))


def _is_prose(node: ast.expr) -> bool:
    """Whether an expression is a name or an attribute of `PROSE`, or `str` of one, or the value at such a key."""
    if isinstance(node, ast.Call) and _name(node.func) == "str" and node.args:
        node = node.args[0]
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.slice.value in PROSE
    return _name(node) in PROSE


def _is_text(node: ast.AST) -> bool:
    """Whether an expression is a string, or a collection that holds one."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(map(_is_text, node.elts))
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _name(node: ast.expr) -> str:
    """The identifier of a name, the last one of an attribute, and nothing of other expressions."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def class_names(tree: ast.Module) -> set[str]:
    """Classes that a module defines, those inside others left out."""
    return {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def constant_names(tree: ast.Module) -> set[str]:
    """Names in capitals that a module assigns at its top."""
    targets: list[ast.expr] = []
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets += [part for target in node.targets for part in getattr(target, "elts", [target])]
        elif isinstance(node, ast.AnnAssign):
            targets.append(node.target)
    return {name for target in targets if CONSTANT.fullmatch(name := _name(target))}


def repeated(modules: Iterator[set[str]]) -> int:
    """How many names more than one module defines."""
    return sum(modules_with > 1 for modules_with in Counter(name for names in modules for name in names).values())


def lowered(committed: dict[str, int], current: dict[str, int]) -> dict[str, int]:
    """The committed counts, with those that fell at their present value."""
    return {name: min(count, committed.get(name, count)) for name, count in current.items()}


# --------------------------------------------------------------------------------------------------------- the flows


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
    trace = Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        flow()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return trace


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
    return sorted(lines for size in files for lines in size.functions.values())


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
        text, tokens_of = source.splitlines(), code_lines(source, ast.parse(source))
        every += len(tokens_of)
        fuller += sum(tokens > 25 for tokens in tokens_of.values())
        wider += sum(len(text[line - 1]) > 100 for line in tokens_of)
    return fuller / every, wider / every


def print_row(name: str, size: Mass, width: int) -> None:
    """Print files, lines, tokens, and tokens a line of Python."""
    print(f"{name:{width}} {size.files:5} {size.lines:7,} {size.tokens:8,} {size.tokens / max(size.python, 1):6.2f}")


def main() -> None:
    if "--lower-counts" in sys.argv:
        committed = json.loads(COMMITTED.read_text(encoding="utf-8"))
        COMMITTED.write_text(json.dumps(lowered(committed, counts(LIBRARY)), indent=1) + "\n", encoding="utf-8")
        return
    folders = mass(LIBRARY)
    with tempfile.TemporaryDirectory() as folder:
        traces = {name: traced(flow) for name, flow in flows(Path(folder)).items()}
    numbers = {name: [trace.modules, len(trace.functions), trace.changes] for name, trace in traces.items()}
    if "--json" in sys.argv:
        print(json.dumps({"folders": folders, "flows": numbers, "counts": counts(LIBRARY)}, indent=1))
        return
    width = max(map(len, folders))
    for name, size in folders.items():
        print_row(name, size, width)
    every = Mass(*map(sum, zip(*folders.values(), strict=True)))
    print_row("all", every, width)
    print(f"{statements():,} statements of {every.tokens / statements():.1f} tokens")
    fuller, wider = full_lines()
    print(f"{fuller:.1%} of lines hold more than 25 tokens, {wider:.1%} are wider than 100")
    lengths = function_lines()
    mean, high = sum(lengths) / len(lengths), lengths[int(0.95 * len(lengths))]
    print(f"{len(lengths):,} functions of {mean:.1f} lines on average, 19 in 20 of at most {high}")
    for name, (modules, functions, changes) in numbers.items():
        print(f"{name}: {modules} modules, {functions} functions, {changes:,} changes of folder")
    for name, count in counts(LIBRARY).items():
        print(f"{name}: {count:,}")


if __name__ == "__main__":
    main()
