"""Keep files and functions small, and lines readable: count code, without docstrings, comments and blank lines.

A file has at most 300 lines of code and a function at most 40. Whoever needs more splits the thing, or names it in
EXCEPTIONS with the reason. The whole library has at most 24,500 lines in 200 files, 20 of them in a folder, and they
may not be bought by fuller lines: on average a line holds at most 11.4 words and signs (tokens).

    python scripts/code_budget.py [FOLDER ...]      # src/miscal when none is given
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

FILE_LIMIT = 300
FUNCTION_LIMIT = 40
LINES, FILES, FILES_IN_A_FOLDER, TOKENS_A_LINE = 24_500, 200, 20, 11.4  # of the library
ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "src" / "miscal"

# "path" or "path::function" below the root -> (limit, reason)
DECLARED = "a kernel declares the types of what it counts, a line each"
EXCEPTIONS: dict[str, tuple[int, str]] = {
    "src/miscal/kernels/simulate.py::draw_cells": (45, DECLARED),
}

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


class Excess(NamedTuple):
    """Something that is longer than it may be."""

    place: str
    lines: int
    limit: int


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


@cache  # files are counted by themselves and as parts of the whole
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
    found: dict[str, Mass] = {}
    for path in sorted([*library.rglob("*.py"), *library.rglob("*.pxd")]):
        folder = str(path.parent.relative_to(library))
        source = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            one = sizes(source)
            held = Mass(1, one.lines, one.lines, one.tokens)
        else:
            held = Mass(1, header_lines(source), 0, 0)
        found[folder] = Mass(*map(sum, zip(found.get(folder, Mass(0, 0, 0, 0)), held, strict=True)))
    return found


def whole(library: Path) -> list[str]:
    """What the library as a whole has too much of."""
    folders = mass(library)
    every = Mass(*map(sum, zip(*folders.values(), strict=True)))
    widest = max(folders, key=lambda name: folders[name].files)
    held = (
        ("lines of code", every.lines, LINES),
        ("files", every.files, FILES),
        (f"files in {widest}", folders[widest].files, FILES_IN_A_FOLDER),
        ("tokens a line", every.tokens / every.python, TOKENS_A_LINE),
    )
    return [f"the library: {number:,.6g} {what}, at most {limit:,}" for what, number, limit in held if number > limit]


def _limit(place: str, usual: int) -> int:
    return EXCEPTIONS.get(place, (usual, ""))[0]


def excesses(folder: Path) -> list[Excess]:
    """Everything below a folder that breaks the budget."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.as_posix()
        held = sizes(path.read_text(encoding="utf-8"))
        places = [(name, held.lines, FILE_LIMIT)]
        places += [(f"{name}::{function}", lines, FUNCTION_LIMIT) for function, lines in held.functions.items()]
        found += [
            Excess(place, lines, _limit(place, usual)) for place, lines, usual in places if lines > _limit(place, usual)
        ]
    return found


def main(arguments: list[str]) -> int:
    """Print what breaks the budget; the exit status says whether anything does."""
    folders = [Path(argument).resolve() for argument in arguments] or [LIBRARY]
    found = [f"{one.place}: {one.lines} lines of code, at most {one.limit}" for f in folders for one in excesses(f)]
    if LIBRARY in folders:
        found += whole(LIBRARY)
    for words in found:
        print(words)
    if not found:
        print("code budget kept")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
