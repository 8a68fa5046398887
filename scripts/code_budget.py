"""Keep files and functions small: count lines of code, without docstrings, comments and blank lines.

A file has at most 300 lines of code and a function at most 40. Whoever needs more splits the thing, or names it in
EXCEPTIONS with the reason.

    python scripts/code_budget.py [FOLDER ...]      # src/miscal when none is given
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FILE_LIMIT = 300
FUNCTION_LIMIT = 40
ROOT = Path(__file__).resolve().parents[1]

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


def code_lines(source: str, tree: ast.Module) -> set[int]:
    """The numbers of the lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - _docstring_lines(tree)


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


def sizes(source: str) -> tuple[int, dict[str, int]]:
    """Lines of code of a file, and of each function: its body, without signature and decorators."""
    tree = ast.parse(source)
    lines = code_lines(source, tree)
    bodies = {}
    for name, function in _functions(tree):
        first = function.body[0].lineno
        bodies[name] = sum(first <= line <= (function.end_lineno or first) for line in lines)
    return len(lines), bodies


def _limit(place: str, usual: int) -> int:
    return EXCEPTIONS.get(place, (usual, ""))[0]


def excesses(folder: Path) -> list[Excess]:
    """Everything below a folder that breaks the budget."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.as_posix()
        total, functions = sizes(path.read_text(encoding="utf-8"))
        places = [(name, total, FILE_LIMIT)]
        places += [(f"{name}::{function}", lines, FUNCTION_LIMIT) for function, lines in functions.items()]
        found += [
            Excess(place, lines, _limit(place, usual)) for place, lines, usual in places if lines > _limit(place, usual)
        ]
    return found


def main(arguments: list[str]) -> int:
    """Print what breaks the budget; the exit status says whether anything does."""
    folders = [Path(argument).resolve() for argument in arguments] or [ROOT / "src" / "miscal"]
    found = [excess for folder in folders for excess in excesses(folder)]
    for excess in found:
        print(f"{excess.place}: {excess.lines} lines of code, at most {excess.limit}")
    if not found:
        print("code budget kept")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
