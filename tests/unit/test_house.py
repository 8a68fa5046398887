"""Counts of the library that may only fall, each seen to rise on a few lines; and how lines are counted."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from scripts.house import (
    COMMITTED,
    LIBRARY,
    any_annotations,
    counts,
    extra_reads,
    lowered,
    mass,
    prose_comparisons,
    sizes,
)


@pytest.fixture(scope="module")
def current() -> dict[str, int]:
    return counts(LIBRARY)


@pytest.fixture(scope="module")
def committed() -> dict[str, int]:
    return json.loads(COMMITTED.read_text(encoding="utf-8"))


def test_no_count_has_risen(current: dict[str, int], committed: dict[str, int]):
    assert set(current) == set(committed)
    rose = {name: f"{count}, at most {committed[name]}" for name, count in current.items() if count > committed[name]}
    assert rose == {}


def test_counts_that_fell_are_committed(current: dict[str, int], committed: dict[str, int]):
    fell = {name: count for name, count in current.items() if count < committed[name]}
    assert fell == {}, "run `python scripts/house.py --lower-counts`: the counts fell, and may not rise again"


def test_only_counts_that_fell_are_written():
    assert lowered({"a": 3, "b": 3, "gone": 1}, {"a": 2, "b": 4, "new": 5}) == {"a": 2, "b": 3, "new": 5}


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def f(a: Any, *b: list[Any], c: int = 0) -> dict[str, Any]: ...", 3),
        ("x: Any = 1", 1),
        ("x: typing.Any = 1", 1),
        ("def f(a: 'dict[str, Any]'): ...", 1),
        ("from typing import Any\nx = cast(Any, y)", 0),
    ],
)
def test_any_is_counted_in_annotations(source: str, count: int):
    assert any_annotations(ast.parse(source)) == count


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("result.extra['slope']", 1),
        ("extra['slope']['low']", 1),
        ("self.result.extra.get('slope', {})", 1),
        ("extra['slope'] = 1", 0),
        ("table['slope'] + settings.get('slope')", 0),
    ],
)
def test_reads_of_extra_are_counted(source: str, count: int):
    assert extra_reads(ast.parse(source)) == count


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("if method == 'exact': pass", 1),
        ("if result.method != 'exact': pass", 1),
        ("ok = 'too small' in note", 1),
        ("ok = finding.reason in ('a', 'b')", 1),
        ("ok = str(note).startswith('too small')", 1),
        ("ok = step['verdict'] == 'moved'", 1),
        ("match verdict:\n    case 'same': pass", 1),
        ("ok = kind == 'exact' or method is None or method == other", 0),
        ("ok = name.startswith('method')", 0),
    ],
)
def test_comparisons_of_prose_are_counted(source: str, count: int):
    assert prose_comparisons(ast.parse(source)) == count


def test_names_in_several_modules_are_counted(tmp_path: Path):
    (tmp_path / "a.py").write_text("class Map: ...\nclass Once: ...\nGRID = 1\nLOW, HIGH = 0, 1\nT = int\nname = 1\n")
    (tmp_path / "b.py").write_text("class Map:\n    class Once: ...\nGRID: int = 2\nHIGH = 3\nT = str\nname = 2\n")
    repeats = counts(tmp_path)
    assert repeats["class names in several modules"] == 1
    assert repeats["constants of one name in several modules"] == 2


def test_docstrings_comments_and_blank_lines_do_not_count():
    lines = ['"""Module."""', "", "class A:", '    """Class."""', "    def f(self):", '        """Text."""']
    lines += ["        # why", '        return """', '    two lines"""', ""]
    size = sizes("\n".join(lines))
    assert size.lines == 4  # class, def, and the two lines of the returned string
    assert size.tokens == 3 + 6 + 2  # class A: def f(self): return, and the string
    assert size.functions == {"A.f": 2}


def test_a_folder_is_the_sum_of_its_files(tmp_path: Path):
    (tmp_path / "a.py").write_text("a = 1\n\n# why\n")
    (tmp_path / "b.py").write_text("a = 1\nb = a + 2\n")
    (tmp_path / "c.pxd").write_text("# header\ncdef int f()\n")
    assert mass(tmp_path) == {".": (3, 4, 3, 11)}
