"""Saved audits: pages without the data, and what is no saved audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import miscal
from miscal.cli import main


def _table(seed: int, rows: int = 3000) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    region = rng.choice(["north", "south", "east"] if seed else ["north", "south"], rows)
    score = rng.uniform(0.1, 0.9, rows)
    truth = np.clip(score + 0.15 * (region == "south"), 0, 1)
    return {"y": rng.random(rows) < truth, "p": score, "region": region, "age": rng.integers(18, 80, rows)}


def test_saved_audits_are_shown_from_the_command_line(tmp_path: Path) -> None:
    files = [str(tmp_path / f"{name}.miscal") for name in ("June", "July")]
    for seed, file in enumerate(files):
        miscal.audit(_table(seed), outcome="y", probability="p").save(file)
    out = ["--out", str(tmp_path / "a.html"), "--save", str(tmp_path / "again.miscal")]
    done = CliRunner().invoke(main, ["report", files[0], *out])
    assert done.exit_code == 0, done.output
    again = CliRunner().invoke(main, ["report", str(tmp_path / "again.miscal"), "--out", str(tmp_path / "b.html")])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "a.html").read_text() == (tmp_path / "b.html").read_text()
    shown = CliRunner().invoke(main, ["report", files[1], "--baseline", files[0], "--out", str(tmp_path / "c.html")])
    assert "Compared with the baseline" in shown.output
    hiding = ["--suppress-below", "500", "--out", str(tmp_path / "d.html")]
    hidden = CliRunner().invoke(main, ["report", files[0], *hiding])
    assert hidden.exit_code == 0
    several = CliRunner().invoke(main, ["report", *files, "--out", str(tmp_path / "e.html")])
    assert several.exit_code == 2
    assert not (tmp_path / "e.html").exists()


def test_a_stream_and_memory_name_probabilities_alike(tmp_path: Path) -> None:
    import pandas as pd

    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(3), 900)
    frame = pd.DataFrame({f"p{k}": p[:, k] for k in range(3)} | {"y": [rng.choice(3, p=row) for row in p], "w": 1.5})
    frame["g"] = rng.choice(list("ab"), 900)
    frame.to_parquet(tmp_path / "t.parquet")
    named: Any = {"outcome": "y", "weight": "w", "effort": "quick"}
    for probability in (["p0", "p1", "p2"], {0: "p0", 1: "p1", 2: "p2"}):
        inside = miscal.audit(frame, probability=probability, **named)
        streamed = miscal.audit(tmp_path / "t.parquet", probability=probability, memory="600MB", **named)
        assert inside.document["data"]["probability"] == streamed.document["data"]["probability"] == "p0, p1, p2"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.csv", "a,b\n1,2\n", "its first bytes are those of something else"),
        ("x.json", "{}", "its first bytes are those of something else"),
        ("x.miscal", "", "its first bytes are those of something else"),
    ],
)
def test_what_is_no_saved_audit_is_one_line_that_says_what_one_is(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    file = tmp_path / name
    file.write_text(content)
    done = CliRunner().invoke(main, ["report", str(file), "--out", str(tmp_path / "a.html")])
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert f"'{file}' is not a saved audit; {said}." in done.output
    assert "`miscal audit TABLE --save FILE`" in done.output
    assert "pickle" not in done.output
    absent = CliRunner().invoke(main, ["report", str(tmp_path / "none.miscal"), "--out", str(tmp_path / "a.html")])
    assert "does not exist" in absent.output
