"""The Python of the how-tos about means runs as it stands, and what they promise is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from miscal.recalibrate import choose
from studies import mean_repairs

ROOT = Path(__file__).parents[2]


def blocks(name: str) -> str:
    """All lines of Python of a page."""
    text = (ROOT / "docs" / "how-to" / f"{name}.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))


@pytest.mark.parametrize(("name", "said"), [("means", "GroupWise(region)"), ("judges", "topic")])
def test_the_lines_of_a_page_run(name, said, tmp_path, monkeypatch, capsys):
    pd = pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    m, y, X, exposure, _ = mean_repairs.drawn("count", "region", 10_000, 1)
    pd.DataFrame({"claims": y, "expected": m, "years": exposure, **X}).to_parquet("claims.parquet")
    exec(compile(blocks(name), f"{name}.md", "exec"), {})
    assert said in capsys.readouterr().out


def test_the_table_of_candidates_is_what_is_tried():
    m, y, X, exposure, _ = mean_repairs.drawn("count", "nothing", 300, 0)
    page = (ROOT / "docs" / "how-to" / "means.md").read_text(encoding="utf-8")
    for response, given in (("count", exposure), ("real", None)):
        made = choose(m, y, X, response=response, exposure=given, cv=2)
        for each in made.table["name"]:
            assert f"| `{re.sub(r'[(].*', '', each)}" in page, each
