"""Print the words of prose that the project's table of terms replaces, and the counts of them that may only fall.

python scripts/lint_prose.py                    every term that was found: where it stands, and what to write
python scripts/lint_prose.py README.md docs     the same of some files and folders
python scripts/lint_prose.py --counts           the counts alone, by kind of text
python scripts/lint_prose.py --lower-counts     write the counts that fell to tests/scripts/prose_counts.json

Four kinds of text are read: templates (the sentences of the report, the help texts and `miscal.words`), strings of the
library that hold more than one word (messages and sentences made in code), docstrings, and documentation in Markdown.
Code within them is left out: fenced blocks, spans in backquotes, lines of examples. A new term is one line of `TERMS`.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "src" / "miscal"
COMMITTED = ROOT / "tests" / "scripts" / "prose_counts.json"
DOCUMENTATION = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs")
TEMPLATES, STRINGS, DOCSTRINGS, DOCS = "templates", "strings", "docstrings", "documentation"

#: What to look for, and what to write instead.
TERMS = {
    r"happen(?:ed|s)?": "observed (rates, events); actual (counts, amounts)",
    r"(?<!in )(?<!in the )(?<!decimal )(?<!take )(?<!takes )places?": "segment",
    r"(?:beyond|within) (?:the )?noise": "significant, not significant",
    r"noise alone|alone would show": "expected by chance, expected for a calibrated model",
    r"off by|off beyond|(?:is|are|was|were) off|furthest off": "miscalibrated; a gap of",
    r"too timid|not extreme enough": "too moderate",
    r"repair(?:s|ed|ing)?|mend(?:s|ed|ing)?|put(?:s|ting)? right": "recalibrate, correct",
    r"running totals?|walks?": "cumulative differences",
    r"conjunctions?": "intersection",
    r"beyond the score": "after global recalibration",
    r"errs?|suspects?|nearly tells?": "has errors, is screened in, is redundant with",
    r"set aside|sets aside": "excluded",
    r"look(?:s|ed|ing)? at": "tested, not tested",
    r"clean": "no significant gap",
    r"tall(?:y|ies|ied)": "summary file; sums per cell",
    r"(?:the|a|its|this|whole) page": "report",
    r"ceilings?": "memory limit",
    r"refus(?:e|es|ed|al|als|ing)": "reject; error",
    r"certainties|said (?:0|1|30|100)%": "probabilities of exactly 0 or 1",
    r"(?<!llm )judg(?:e|es|ed|ing)": "test; LLM judge for language models",
    r"\d points": "pp",
    r"(?:value|row|column|probability|line|dot|number|record) an? (?:row|class|level|column|cell|cluster|day)": "per",
    r"(?:is|are) none|are no": "not",
}
_FOUND = {re.compile(rf"(?<![\w/.-])(?:{term})(?![\w-])", re.IGNORECASE): use for term, use in TERMS.items()}
_CODE = re.compile(r"`[^`]*`|\]\([^)]*\)|https?://\S+")
_FENCE = re.compile(r"^\s*(```|~~~)")


class Text(NamedTuple):
    """One piece of prose.

    Attributes
    ----------
    kind : str
        Template, string, docstring or documentation.
    path : Path
        The file that it stands in.
    line : int
        The line at which it begins.
    text : str
        The text, code included.
    """

    kind: str
    path: Path
    line: int
    text: str


class Found(NamedTuple):
    """A term that was found, the line that it stands in, and what to write instead."""

    kind: str
    path: Path
    line: int
    term: str
    use: str


def python_texts(path: Path) -> Iterator[Text]:
    """The docstrings of a module, and its strings of several words; the strings of `miscal.words` are templates."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(
            node, clean=False
        ):
            first = node.body[0]
            assert isinstance(first, ast.Expr)
            assert isinstance(first.value, ast.Constant)
            docstrings.add(first.value)
    kind = TEMPLATES if path.parent.name == "words" else STRINGS
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node in docstrings:
                yield Text(DOCSTRINGS, path, node.lineno, without_examples(node.value))
            elif " " in node.value.strip():
                yield Text(kind, path, node.lineno, node.value)


def without_examples(text: str) -> str:
    """A docstring with its examples, and what they print, left empty."""
    lines, in_example = [], False
    for line in text.splitlines():
        in_example = bool(line.strip()) and (in_example or line.lstrip().startswith(">>>"))
        lines.append("" if in_example else line)
    return "\n".join(lines)


def toml_texts(path: Path) -> Iterator[Text]:
    """The strings of a file of templates, each with the line of its key."""
    content = path.read_text(encoding="utf-8")
    tomllib.loads(content)
    for number, line in enumerate(content.splitlines(), 1):
        for value in re.findall(r'"((?:[^"\\]|\\.)*)"', line.partition("=")[2]):
            if " " in value.strip():
                yield Text(TEMPLATES, path, number, value)


def markdown_texts(path: Path) -> Iterator[Text]:
    """The lines of a document outside of its fenced blocks."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield Text(DOCS, path, number, line)


READERS = {".py": python_texts, ".toml": toml_texts, ".md": markdown_texts}


def files(names: list[str]) -> Iterator[Path]:
    """The files of some names and folders, or all that are read."""
    roots = [ROOT / name for name in names] or [LIBRARY, *(ROOT / name for name in DOCUMENTATION)]
    for root in roots:
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            built = "_build" in path.parts or "generated" in path.parts
            if path.suffix in READERS and path.is_file() and not built:
                yield path


def find(text: Text) -> Iterator[Found]:
    """The terms in one text, code left out."""
    for offset, line in enumerate(_CODE.sub(lambda span: " " * len(span[0]), text.text).splitlines()):
        for pattern, use in _FOUND.items():
            for match in pattern.finditer(line):
                yield Found(text.kind, text.path, text.line + offset, match[0], use)


def found_in(paths: Iterator[Path]) -> list[Found]:
    """The terms in some files."""
    return [found for path in paths for text in READERS[path.suffix](path) for found in find(text)]


def counts(found: list[Found]) -> dict[str, int]:
    """How many terms were found in each kind of text."""
    kinds = [entry.kind for entry in found]
    return {kind: kinds.count(kind) for kind in (TEMPLATES, STRINGS, DOCSTRINGS, DOCS)}


def main(arguments: list[str]) -> None:
    """Print what was found, or the counts, or write those that fell."""
    options = [word for word in arguments if word.startswith("--")]
    found = found_in(files([word for word in arguments if not word.startswith("--")]))
    current = counts(found)
    if not options:
        for entry in found:
            print(f"{entry.path.relative_to(ROOT)}:{entry.line}: {entry.term!r}: write {entry.use}")
    if "--lower-counts" in options:
        committed = json.loads(COMMITTED.read_text(encoding="utf-8"))
        lowered = {kind: min(count, committed.get(kind, count)) for kind, count in current.items()}
        COMMITTED.write_text(json.dumps(lowered, indent=1) + "\n", encoding="utf-8")
    print(", ".join(f"{kind} {count}" for kind, count in current.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
