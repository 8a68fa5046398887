"""Terms that the table of terms replaces: each kind of text is read, and their counts may only fall."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.lint_prose import COMMITTED, DOCS, DOCSTRINGS, READERS, STRINGS, TEMPLATES, counts, files, find, found_in


def terms(path: Path, content: str) -> list[tuple[str, int, str]]:
    """Kind, line and term of what is found in a file of some content."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return [(found.kind, found.line, found.term) for text in READERS[path.suffix](path) for found in find(text)]


def test_no_count_has_risen():
    committed = json.loads(COMMITTED.read_text(encoding="utf-8"))
    current = counts(found_in(files([])))
    assert set(current) == set(committed)
    assert {kind: count for kind, count in current.items() if count > committed[kind]} == {}


def test_templates_of_the_report_and_the_help_texts_hold_none():
    written = ["src/miscal/report/prose.toml", "src/miscal/report/glossary.toml", "src/miscal/cli/options.toml"]
    assert found_in(files(written)) == []


def test_docstrings_and_strings_are_told_apart(tmp_path: Path):
    source = '"""What happened.\n\n    >>> "nothing happened"\n    \'nothing happened\'\n\nBeyond noise."""\n'
    source += 'x = "it happened here", "happened"\n'
    found = terms(tmp_path / "module.py", source)
    assert sorted(found) == [(DOCSTRINGS, 1, "happened"), (DOCSTRINGS, 6, "Beyond noise"), (STRINGS, 7, "happened")]


def test_strings_of_words_and_tables_are_templates(tmp_path: Path):
    assert terms(tmp_path / "words" / "notes.py", 'x = "the whole page"') == [(TEMPLATES, 1, "whole page")]
    content = '[a]\nplace = "one place"\nhelp = { text = "A tally." }\n'
    assert terms(tmp_path / "prose.toml", content) == [(TEMPLATES, 2, "place"), (TEMPLATES, 3, "tally")]


def test_code_in_documents_is_left_out(tmp_path: Path):
    content = "A `place` in [place](place.md).\n```\nplace\n```\nOff by 2 points.\n"
    assert [term for _, _, term in terms(tmp_path / "a.md", content)] == ["place", "Off by", "2 points"]
    assert terms(tmp_path / "a.md", "judged")[0][0] == DOCS


@pytest.mark.parametrize(
    "text", ["In place of the mean, 2 decimal places.", "An LLM judge.", "cleaned", "walk-forward", "misplace"]
)
def test_words_that_only_look_alike_are_left_alone(tmp_path: Path, text: str):
    assert terms(tmp_path / "a.md", text) == []
