"""The glossary of `docs/concepts.md`, read as entries: names, calls, and the pages that they link to."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "concepts.md"

GLOSSARY = re.compile(r"^```\{glossary\}\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"(?<!\})`([^`]+)`")
PUBLIC = re.compile(r"\b(metrics|plots|recalibrate|miscal)\.\w")
LINK = re.compile(r"\]\(([\w/-]+\.md)\)")
REFERENCE = re.compile(r"\{py:(?:func|class)\}`[^<`]*<([\w.]+)>`")


class Entry(NamedTuple):
    """One entry of the glossary."""

    names: tuple[str, ...]
    text: str

    @property
    def calls(self) -> list[str]:
        """Code of the entry that names a function or a class of miscal."""
        return [code for code in CODE.findall(self.text) if PUBLIC.search(code)]

    @property
    def pages(self) -> list[Path]:
        """Pages of the documentation that the entry links to."""
        return [DOCS / page for page in LINK.findall(self.text)]

    @property
    def references(self) -> list[str]:
        """Public names that the entry links to in the reference."""
        return REFERENCE.findall(self.text)

    @property
    def has_function(self) -> bool:
        """Whether miscal computes what the entry describes."""
        return not self.text.startswith("No function")


def entries() -> list[Entry]:
    """Every entry of the glossary, in its order."""
    blocks = GLOSSARY.findall(PAGE.read_text(encoding="utf-8"))
    pieces = [piece for block in blocks for piece in block.strip("\n").split("\n\n")]
    return [entry_of(piece.splitlines()) for piece in pieces]


def entry_of(lines: list[str]) -> Entry:
    """The entry that the lines of one piece of a glossary write."""
    names = tuple(line for line in lines if not line.startswith(" "))
    return Entry(names, " ".join(line.strip() for line in lines if line.startswith(" ")))


def described(name: str) -> str:
    """The docstring of a public name such as `miscal.metrics.brier_score`."""
    module, _, attribute = name.rpartition(".")
    return inspect.getdoc(getattr(importlib.import_module(module), attribute)) or ""
