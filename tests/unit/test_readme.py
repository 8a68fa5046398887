"""The README's table of speed is what the committed benchmarks say."""

from __future__ import annotations

from pathlib import Path

from scripts.speed_table import START, STOP, inserted, table

README = Path(__file__).parent.parent.parent / "README.md"


def test_the_table_of_speed_comes_from_the_committed_results():
    text = README.read_text(encoding="utf-8")
    assert inserted(text) == text
    between = text.split(START)[1].split(STOP)[0].strip()
    assert between == table()
    assert len(between.splitlines()) > 3
