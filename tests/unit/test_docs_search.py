"""The built documentation finds every name of the glossary, by the rules of its own search box."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.search_docs import Index, main
from tests.unit.glossary import DOCS, entries

NAMES = [name for entry in entries() for name in entry.names]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation, built for this test."""
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(folder / "doctrees"), str(DOCS), str(folder / "html")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


@pytest.mark.slow
def test_every_name_is_found_and_leads_to_its_entry(built: Path):
    index = Index(built)
    first = {name: index.search(name)[:1] for name in NAMES}
    assert [name for name, hits in first.items() if not hits] == []
    elsewhere = {name: hits[0].page for name, hits in first.items() if hits[0].page != "concepts"}
    assert elsewhere == {}
    page = (built / "concepts.html").read_text(encoding="utf-8")
    assert [name for name, hits in first.items() if f'id="{hits[0].anchor}"' not in page] == []


@pytest.mark.slow
def test_pages_of_an_entry_are_found_by_one_of_its_names(built: Path):
    index = Index(built)
    for entry in entries():
        found = {hit.page for name in entry.names for hit in index.search(name)}
        linked = {str(page.relative_to(DOCS).with_suffix("")) for page in entry.pages}
        assert linked <= found, entry.names


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A search index of two pages."""
    content = {
        "docnames": ["a", "b"], "alltitles": {"Kuiper statistic": [[0, None]]},
        "indexentries": {"o/e": [[1, "term-O-E", True]]}, "terms": {"calibr": [0, 1], "slope": 1, "kuiper": 0},
        "titleterms": {"kuiper": 0, "statist": 0},
    }  # fmt: skip
    (tmp_path / "_static").mkdir()
    (tmp_path / "searchindex.js").write_text(f"Search.setIndex({json.dumps(content)})")
    (tmp_path / "_static/language_data.js").write_text('const stopwords = new Set(["of", "the"]);')
    return tmp_path


@pytest.mark.parametrize(
    ("term", "pages"),
    [
        ("the slope of calibration", ["b"]),  # stop words are ignored, the others must all be on the page
        ("calibrated", ["a", "b"]),
        ("O/E", ["b"]),
        ("slop", ["b"]),
        ("Kuiper statistic", ["a"]),
        ("Kuiper slope", []),
        ("hosmer", []),
    ],
)
def test_a_term_is_searched_as_the_search_box_does(small: Path, term: str, pages: list[str]):
    assert sorted(hit.page for hit in Index(small).search(term)) == pages


def test_the_command_says_which_term_is_missing(small: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--built", str(small), "O/E"]) == 0
    assert main(["--built", str(small), "slope", "hosmer"]) == 1
    assert capsys.readouterr().out.splitlines()[1:] == ["slope: b (text)", "hosmer: not found"]
    assert main(["--built", str(small / "_static"), "slope"]) == 2
