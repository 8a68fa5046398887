"""Audits of parts merged: tallies add, the rest is kept by part and labelled; pages without the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import miscal
from miscal.cli import main
from miscal.data.errors import MiscalError
from miscal.page.html import to_html
from miscal.page.json import plain


def _table(seed: int, rows: int = 3000) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    region = rng.choice(["north", "south", "east"] if seed else ["north", "south"], rows)
    score = rng.uniform(0.1, 0.9, rows)
    truth = np.clip(score + 0.15 * (region == "south"), 0, 1)
    return {"y": rng.random(rows) < truth, "p": score, "region": region, "age": rng.integers(18, 80, rows)}


@pytest.fixture(scope="module")
def parts() -> dict[str, miscal.Audit]:
    return {
        name: miscal.audit(_table(seed), outcome="y", probability="p") for seed, name in enumerate(("June", "July"))
    }


@pytest.fixture(scope="module")
def merged(parts: dict[str, miscal.Audit]) -> miscal.Audit:
    return miscal.Audit.merge(parts)


def test_fields_add_by_the_names_of_their_levels(merged: miscal.Audit) -> None:
    both = {name: np.concatenate([_table(0)[name], _table(1)[name]]) for name in ("y", "p", "region")}
    region = merged.document["sections"]["field"][0]
    table = region["table"]
    for level in ("north", "south", "east"):
        inside = both["region"] == level
        place = list(table["label"] if "label" in table else table["level"]).index(level)
        assert table["rows"][place] == inside.sum()
        assert table["gap"][place] == pytest.approx(both["p"][inside].mean() - both["y"][inside].mean(), abs=1e-12)
    assert merged.document["data"]["rows"] == 6000
    assert merged.score["predicted"] == pytest.approx(both["p"].mean())
    assert merged.score["observed"] == pytest.approx(both["y"].mean())


def test_what_does_not_add_is_kept_by_part_and_labelled(merged: miscal.Audit, parts: dict[str, miscal.Audit]) -> None:
    sections = merged.document["sections"]
    assert [entry["settings"]["part"] for entry in sections["subpopulation"]] == ["June", "July"]
    assert {entry["name"].split(":")[0] for entry in sections["score"]} == {"June", "July"}
    real = {f"{label}: {f.where}" for label, part in parts.items() for f in part.findings if f.real and not f.parent}
    kept = {f.where for f in merged.findings if f.real and not f.parent}
    assert kept
    assert kept <= real
    assert "June: region south" in kept
    page = to_html(plain(merged.document))
    assert "June" in page.split('id="subpopulations"')[1].split("</section>")[0]


def test_p_values_of_parts_pay_for_their_number(merged: miscal.Audit, parts: dict[str, miscal.Audit]) -> None:
    before = {f"June: {f.where}": f.p_value for f in parts["June"].findings}
    after = {f.where: f.p_value for f in merged.findings}
    assert all(after[where] == min(1.0, 2 * p) for where, p in before.items())


def test_merged_audits_are_saved_and_shown_from_the_command_line(
    parts: dict[str, miscal.Audit], tmp_path: Path
) -> None:
    for name, part in parts.items():
        part.save(tmp_path / f"{name}.miscal")
    files = [str(tmp_path / f"{name}.miscal") for name in parts]
    out = ["--out", str(tmp_path / "a.html"), "--save", str(tmp_path / "both.miscal")]
    done = CliRunner().invoke(main, ["page", *files, *out])
    assert done.exit_code == 0, done.output
    again = CliRunner().invoke(main, ["page", str(tmp_path / "both.miscal"), "--out", str(tmp_path / "b.html")])
    assert again.exit_code == 0, again.output
    assert (tmp_path / "a.html").read_text() == (tmp_path / "b.html").read_text()
    shown = CliRunner().invoke(main, ["page", files[1], "--baseline", files[0], "--out", str(tmp_path / "c.html")])
    assert "Against the baseline" in shown.output
    hidden = CliRunner().invoke(main, ["page", files[0], "--suppress-below", "500", "--out", str(tmp_path / "d.html")])
    assert hidden.exit_code == 0


def test_audits_that_cannot_be_merged_are_refused(parts: dict[str, miscal.Audit], tmp_path: Path) -> None:
    with pytest.raises(MiscalError, match="two audits"):
        miscal.Audit.merge({"June": parts["June"]})
    with pytest.raises(MiscalError, match="no tallies"):
        miscal.Audit.merge({"June": parts["June"], "July": parts["July"].suppressed(5)})
    table = _table(0)
    other = miscal.audit({"z": table["y"], "p": table["p"], "region": table["region"]}, outcome="z", probability="p")
    with pytest.raises(MiscalError, match="same outcome"):
        miscal.Audit.merge({"a": parts["June"], "b": other})


def test_files_of_one_name_in_two_folders_are_two_parts(parts: dict[str, miscal.Audit], tmp_path: Path) -> None:
    files = []
    for name, part in parts.items():
        (tmp_path / name).mkdir()
        part.save(tmp_path / name / "audit.miscal")
        files.append(str(tmp_path / name / "audit.miscal"))
    saved = tmp_path / "new folder" / "both.miscal"
    done = CliRunner().invoke(main, ["page", *files, "--out", str(tmp_path / "a.html"), "--save", str(saved)])
    assert done.exit_code == 0, done.output
    assert miscal.Audit.load(saved).document["data"]["parts"].keys() == set(files)
    twice = CliRunner().invoke(main, ["page", files[0], files[0], "--out", str(tmp_path / "b.html")])
    assert twice.exit_code == 2
    assert "given twice" in twice.output
    assert not (tmp_path / "b.html").exists()


def test_clusters_are_not_forgotten() -> None:
    made = {}
    for seed, name in enumerate(("June", "July")):
        rng = np.random.default_rng(seed)
        who = np.repeat(np.arange(150), 20)
        p, shift = rng.uniform(0.2, 0.8, 3000), rng.normal(0, 1.5, 150)[who]
        y = rng.random(3000) < 1 / (1 + (1 - p) / p * np.exp(-shift))
        rows = {"y": y, "p": p, "who": who, "region": rng.choice(["north", "south"], 3000)}
        made[name] = miscal.audit(rows, outcome="y", probability="p", cluster="who", by=["region"], effort="quick")
    merged = miscal.Audit.merge(made)
    assert [entry["settings"]["part"] for entry in merged.document["sections"]["field"]] == ["June", "July"]
    halves = [np.ptp(a.score["details"]["gap"]["interval"]) / 2 for a in made.values()]
    assert np.ptp(merged.score["details"]["gap"]["interval"]) / 2 == pytest.approx(np.hypot(*halves) / 2, rel=1e-9)


def test_the_same_rows_are_not_merged_twice(parts: dict[str, miscal.Audit]) -> None:
    with pytest.raises(MiscalError, match="no rows in common"):
        miscal.Audit.merge({"June": parts["June"], "once more": parts["June"]})


def test_parts_about_other_probabilities_are_refused() -> None:
    other = _table(1)
    other["q"] = other.pop("p")
    parts = {
        "old": miscal.audit(_table(0), outcome="y", probability="p", effort="quick"),
        "new": miscal.audit(other, outcome="y", probability="q", effort="quick"),
    }
    with pytest.raises(MiscalError) as refused:
        miscal.Audit.merge(parts)
    text = str(refused.value)
    assert "must be about the same probability column" in text  # what
    assert text.startswith("the audits to merge")  # where
    assert "'old' is about 'p' and 'new' about 'q'" in text  # got
    assert "compare two models with" in text  # do


def test_parts_of_a_stream_and_of_memory_name_probabilities_alike(tmp_path: Path) -> None:
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
        ("x.csv", "a,b\n1,2\n", "it looks like a table"),
        ("x.json", "{}", "it looks like JSON"),
        ("x.miscal", "", "its first bytes are those of something else"),
    ],
)
def test_what_is_no_saved_audit_is_one_line_that_says_what_one_is(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    file = tmp_path / name
    file.write_text(content)
    done = CliRunner().invoke(main, ["page", str(file), "--out", str(tmp_path / "a.html")])
    assert done.exit_code == 2
    assert done.output.count("\n") == 1
    assert f"'{file}' is not a saved audit; {said}." in done.output
    assert "`miscal audit TABLE --save FILE`" in done.output
    assert "pickle" not in done.output
    absent = CliRunner().invoke(main, ["page", str(tmp_path / "none.miscal"), "--out", str(tmp_path / "a.html")])
    assert "does not exist" in absent.output
