"""One audit: what is found, what explains it, what is clean, and what stays when it is saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import miscal
from miscal.auditing.audit import Audit, audit
from miscal.data.errors import MiscalError
from miscal.report.codec import plain
from miscal.report.findings import Finding
from studies.simulated import clustered, distorted


def table(n: int = 4000, seed: int = 0, gap: float = 0.0, level: str = "NY") -> dict[str, np.ndarray]:
    """Calibrated predictions but for one state, with an identifier and a constant."""
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 4, n)
    state = rng.choice(["CA", "NY", "TX", "WA"], n)
    truth = np.where(state == level, np.clip(p - gap, 0, 1), p)
    return {
        "y": (rng.random(n) < truth).astype(int),
        "p": p,
        "state": state,
        "hour": rng.integers(0, 24, n),
        "size": rng.lognormal(0, 1, n),
        "row_id": np.arange(n),
        "year": np.full(n, 2013),
    }


@pytest.fixture(scope="module")
def found() -> Audit:
    return audit(table(gap=0.15), outcome="y", probability="p")


def test_the_planted_level_is_first_and_explains_the_rest(found: Audit) -> None:
    first = found.findings[0]
    assert (first.where, first.kind, first.code) == ("state NY", "field", "MC301")
    assert first.real
    assert first.specific
    assert first.parent is None
    assert first.gap == pytest.approx(0.14, abs=0.04)
    assert 0 < first.interval[0] < first.gap < first.interval[1]
    assert first.events_off == pytest.approx(first.gap * first.rows)
    places = {finding.where for finding in found.findings}
    assert all(finding.parent in places for finding in found.findings if finding.parent)
    assert [f.where for f in found.findings if f.real and not f.parent] == ["state NY"]


def test_a_finding_speaks_in_words(found: Audit) -> None:
    text = str(found.findings[0])
    assert text.startswith("State NY: ")
    assert "more predicted than observed (" in text
    assert "at least" in text
    assert text.endswith("Significant (adjusted p ≤ 0.001).")
    assert "excess" not in text


def test_clean_columns_have_no_finding_and_no_small_p_value(found: Audit) -> None:
    names = {entry["where"] for entry in found.clean}
    assert "state" not in names
    assert names <= {"hour", "size"}
    for entry in found.clean:
        assert entry["p_value"] > 0.05
        assert 0 < entry["detectable"] < 0.5


def test_identifiers_and_constants_are_set_aside_and_said(found: Audit) -> None:
    said = {entry["where"]: entry["reason"] for entry in found.too_small}
    assert said["row_id"].startswith("an identifier")
    assert said["year"] == "constant"


def test_a_score_wrong_everywhere_is_one_general_finding() -> None:
    data = distorted(5000, slope=0.6, intercept=-0.4, random_state=3)
    found = audit(data.predictions())
    heads = [finding for finding in found.findings if finding.real and not finding.parent]
    assert [finding.where for finding in heads] == ["the whole table"]
    assert not heads[0].specific
    assert all(not finding.specific for finding in found.findings)


def test_a_range_of_a_variable_is_one_finding() -> None:
    data = miscal.datasets.planted(8000, place="variable", gap=0.15, random_state=1)
    first = audit(data.predictions(), effort="quick").findings[0]
    assert first.kind == "variable"
    assert first.columns == ("age",)
    low, _, high = first.levels[0].partition(" to ")
    assert abs(int(low) - 50) <= 4
    assert abs(int(high) - 59) <= 4


def test_a_pair_and_its_rows_are_found_again() -> None:
    data = miscal.datasets.planted(8000, place="pair", gap=0.25, random_state=1)
    predictions = data.predictions()
    found = audit(predictions)
    assert found.findings[0].where == "region East and product plus"
    assert found.findings[0].kind == "subpopulation"
    assert (found.rows_of(found.findings[0], predictions) == data.planted).all()


def test_the_same_seed_gives_the_same_document() -> None:
    one, two = (audit(table(1500, gap=0.2), outcome="y", probability="p", random_state=5) for _ in range(2))
    assert plain(one.document) == plain(two.document)


def test_what_is_saved_is_loaded_and_rendered_without_rows(found: Audit, tmp_path: Path) -> None:
    found.save(tmp_path / "audit.miscal")
    again = Audit.load(tmp_path / "audit.miscal")
    assert plain(again.document) == plain(found.document)
    assert [str(finding) for finding in again.findings] == [str(finding) for finding in found.findings]
    assert plain(again.carriers["field:state"]) == plain(found.carriers["field:state"])
    again.to_html(tmp_path / "page.html")
    found.to_html(tmp_path / "first.html")
    assert (tmp_path / "page.html").read_text() == (tmp_path / "first.html").read_text()
    (tmp_path / "broken").write_bytes(b"no")
    with pytest.raises(MiscalError, match="broken"):
        Audit.load(tmp_path / "broken")


def test_the_json_keeps_the_contract(found: Audit, tmp_path: Path) -> None:
    found.to_json(tmp_path / "audit.json")
    document = json.loads((tmp_path / "audit.json").read_text())
    assert document["schema"] == "miscal.audit/1"
    assert {"rows", "weight", "outcome", "probability", "fingerprint"} <= set(document["data"])
    assert {"expected", "kuiper", "smooth", "slope"} <= set(document["score"])
    wanted = {
        "code", "kind", "where", "columns", "levels", "rows", "weight", "predicted", "observed", "gap", "interval",
        "events_off", "p_value", "real", "specific", "parent",
    }  # fmt: skip
    assert all(wanted <= set(finding) for finding in document["findings"])


def test_two_models_on_the_same_rows_are_compared_in_pairs() -> None:
    data = table(gap=0.2)
    better = {**data, "p": np.where(data["state"] == "NY", np.clip(data["p"] - 0.2, 0.001, 1), data["p"])}
    one, two = (audit(d, outcome="y", probability="p", effort="quick") for d in (data, better))
    change = one.compare(two)
    assert change.paired
    assert "state NY" in change.better
    assert not change.worse
    assert "state NY" in change.gone
    assert two.compare(one).worse == change.better
    other = audit(table(seed=9), outcome="y", probability="p", effort="quick")
    assert not one.compare(other).paired
    assert "state NY" in one.compare(other).better


def test_small_cells_are_kept_out_of_everything(tmp_path: Path) -> None:
    data = table(1200)
    data["state"] = data["state"].astype(object)
    data["state"][:7] = "rare"
    plain_audit = audit(data, outcome="y", probability="p", effort="quick")
    hidden = audit(data, outcome="y", probability="p", effort="quick", suppress_below=20)
    field = next(r for r in hidden.document["sections"]["field"] if r["settings"]["column"] == "state")
    shown = [rows for rows in field["table"]["rows"] if rows is not None]
    assert min(shown) >= 20
    assert field["table"]["rows"].count(None) == 2, "one cell alone could be found by subtraction"
    assert not hidden.carriers
    hidden.to_html(tmp_path / "page.html")
    full = next(r for r in plain_audit.document["sections"]["field"] if r["settings"]["column"] == "state")
    rare = full["table"]["label"].index("rare")
    assert full["table"]["rows"][rare] == 7
    secret = f"{full['table']['predicted'][rare]:.6g}"
    assert secret not in (tmp_path / "page.html").read_text()
    with pytest.raises(MiscalError, match="suppress_below"):
        hidden.suppressed(-1)


def test_a_date_is_looked_at_by_month() -> None:
    rng = np.random.default_rng(0)
    n = 6000
    day = np.datetime64("2023-01-01") + rng.integers(0, 365, n)
    p = rng.beta(2, 4, n)
    may = day.astype("M8[M]") == np.datetime64("2023-05")
    data = {"y": (rng.random(n) < np.where(may, p * 0.4, p)).astype(int), "p": p, "day": day}
    found = audit(data, outcome="y", probability="p", effort="quick")
    first = found.findings[0]
    assert first.columns == ("day",)
    assert "2023-05" in first.where or "2023-04-2" in first.where
    variable = found.document["sections"]["variable"][0]
    assert len(variable["table"]["rows"]) == 12
    assert sum(variable["table"]["rows"]) == n


def test_every_class_is_looked_at() -> None:
    rng = np.random.default_rng(1)
    n = 3000
    p = rng.dirichlet([3, 2, 2], n)
    group = rng.choice(["a", "b"], n)
    shifted = np.where((group == "b")[:, None], p[:, [1, 0, 2]], p)
    y = (shifted.cumsum(1) < rng.random((n, 1))).sum(1)
    names = np.array(["cat", "dog", "fox"])
    data = miscal.Predictions(names[y], p, columns={"group": group}, classes=names.tolist())
    found = audit(data)
    assert [r["name"] for r in found.document["sections"]["score"]][1:] == [
        f"Calibration by score, class {name}" for name in ("cat", "dog", "fox")
    ]
    wheres = {finding.where for finding in found.findings if finding.real}
    assert "group b (class cat)" in wheres
    assert "group b (class fox)" not in wheres


def test_groups_are_compared_with_the_rest(found: Audit) -> None:
    field = next(r for r in found.document["sections"]["field"] if r["settings"]["column"] == "state")
    table_ = field["extra"]["differences"]
    place = table_["level"].index("NY")
    assert table_["low"][place] > 0
    assert table_["difference"][place] == pytest.approx(table_["gap"][place] - table_["gap_rest"][place])
    assert all(low < 0 for level, low in zip(table_["level"], table_["low"], strict=True) if level != "NY")


def test_clusters_widen_the_noise() -> None:
    data = clustered(6000, rows_each=10, correlation=0.9, random_state=2)
    found = audit(data.predictions(), effort="quick")
    assert not [finding.where for finding in found.findings if finding.real]


def test_progress_names_what_is_looked_at() -> None:
    seen: list[tuple[str, int, int]] = []
    audit(table(600), outcome="y", probability="p", progress=lambda *step: seen.append(step))
    assert {"score", "state", "hour", "size"} <= {what for what, _, _ in seen}
    assert all(done <= total for _, done, total in seen)
    assert seen[-1][1] == seen[-1][2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"effort": "lazy"}, "effort"),
        ({"level": 2.0}, "level"),
        ({"by": ["stat"]}, "did you mean 'state'"),
        ({"probability": "score"}, "has no column 'score'"),
    ],
)
def test_wrong_parameters_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MiscalError, match=message):
        audit(table(50), **{"outcome": "y", "probability": "p", **options})


def test_ten_thousand_levels_and_hostile_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    n = 20_000
    names = np.array([f"</script><b>{i}" if i % 2 else f'=cmd|"{i}" 🦊' for i in range(9_000)])
    data = {
        "y": rng.integers(0, 2, n),
        "p": np.full(n, 0.5),
        "<img src=x onerror=alert(1)>": names[rng.integers(0, 9_000, n)],
    }
    found = audit(data, outcome="y", probability="p", effort="quick")
    found.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert len(page) < 1_500_000
    assert "<img src=x" not in page
    assert "</script><b>" not in page
    assert any("too few rows" in entry["reason"] for entry in found.too_small)


def test_three_hundred_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    n = 300
    columns = {f"column {i}": rng.choice(["a", "b"], n) for i in range(300)}
    found = audit(
        {"y": rng.integers(0, 2, n), "p": np.full(n, 0.5), **columns}, outcome="y", probability="p", effort="quick"
    )
    found.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 1_500_000
    assert len(found.clean) > 250


def test_a_finding_survives_json() -> None:
    made = Finding("MC301", "field", "x", ("a",), ("b",), 3, 3.0, 0.5, 0.2, 0.3, (0.1, 0.5), 0.9, 0.01, True, True)
    assert Finding.from_dict(json.loads(json.dumps(plain(made.to_dict())))) == made


def test_a_score_that_is_too_extreme_is_said_so() -> None:
    data = distorted(4000, slope=0.6, intercept=-0.14, random_state=1)
    found = audit(data.predictions(), effort="quick")
    assert [f.where for f in found.findings if f.real and not f.parent] == ["the whole table"]
    text = found.to_markdown()
    assert text.startswith("# No significant gap overall, but the scores are too extreme"), text.splitlines()[0]
    assert "Expected calibration error (ECE): 7.11 pp" in text
