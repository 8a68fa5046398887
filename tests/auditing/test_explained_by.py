"""What a finding is said to explain, and what is new against a baseline, is so."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miscal.auditing.audit import Audit, audit
from miscal.auditing.gates import Gates, judge
from miscal.auditing.same_finding import same_finding
from miscal.report.codec import report_from
from miscal.report.findings import Finding, flat
from miscal.report.html.sections.score import verdict

pytestmark = pytest.mark.usefixtures("without_smooth_noise")


def table(n: int, seed: int, **off: float) -> dict[str, Any]:
    """Columns sport, season, country; `off` moves the logit in a sport, a season or a country, or everywhere."""
    rng = np.random.default_rng(seed)
    columns = {"sport": rng.choice(["mlb", "nba", "nfl", "nhl"], n), "season": rng.integers(2012, 2024, n),
               "country": rng.choice(list("abcdefgh"), n)}  # fmt: skip
    p = rng.beta(3, 3, n)
    logit = np.log(p / (1 - p)) * off.get("slope", 1.0) + off.get("everywhere", 0.0)
    for name, size in off.items():
        logit = logit + size * ((columns["sport"] == name) | (columns["country"] == name))
    return {"y": (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int), "p": p, **columns}


def audited(n: int = 12_000, seed: int = 0, effort: str = "normal", **off: float) -> Audit:
    return audit(table(n, seed, **off), outcome="y", probability="p", effort=effort)


def rows(found: Audit, finding: Finding, data: dict[str, Any]) -> np.ndarray:
    return found.rows_of(finding, {name: data[name] for name in finding.columns}) if finding.columns else np.ones(0)


@pytest.mark.parametrize(("effort", "seed"), [("quick", 0), ("normal", 1), ("deep", 2), ("normal", 3)])
def test_a_level_wrong_in_every_season_is_the_head(effort: str, seed: int) -> None:
    found = audited(seed=seed, effort=effort, nba=0.6)
    assert [finding.where for finding in found.findings] == ["sport nba"]


def test_explained_places_share_rows_err_alike_and_are_right_when_the_head_is() -> None:
    off = {"nba": 0.7, "a": -0.7, "c": 0.6}
    data = table(20_000, 3, **off)
    found = audit(data, outcome="y", probability="p")
    assert {"sport nba", "country a", "country c"} <= {finding.where for finding in found.findings}
    assert sum(len(finding.explained) for finding in found.findings) > 3
    for head in found.findings:
        if not head.columns:
            continue
        inside = rows(found, head, data)
        for place in head.explained:
            own = rows(found, place, data)
            assert (own & inside).sum() >= 0.5 * own.sum(), (head.where, place.where)
            assert head.gap * place.gap > 0
            after = np.where(inside, data["p"] - head.gap, data["p"])[own]
            noise = np.sqrt(np.sum(np.clip(after * (1 - after), 1e-3, 1)))
            assert abs(np.sum(after - data["y"][own])) < 5 * noise, (head.where, place.where)


def test_each_place_once_and_counts_are_counts() -> None:
    found = audited(20_000, 5, nba=0.7, everywhere=0.3)
    every = [finding.where for finding in flat(found.findings)]
    assert len(every) == len(set(every))
    document = report_from(found.document)
    assert (
        document.explained == sum(len(head.explained) for head in document.findings) == len(every) - len(found.findings)
    )


def test_the_whole_table_is_spoken_of_by_its_shape() -> None:
    found = audited(20_000, 7, slope=0.75)
    (whole,) = found.findings
    assert (whole.where, whole.form) == ("the whole table", "too extreme")
    assert "more observed than predicted" not in whole.sentence
    assert "more predicted than observed" not in whole.sentence
    assert "too extreme" in verdict(report_from(found.document)).sentence


def test_the_sign_of_a_mean_within_noise_does_not_make_two_findings() -> None:
    one, two = (audited(12_000, seed, slope=0.75).findings[0] for seed in (11, 12))
    flipped = Finding.from_dict({**two.to_dict(), "gap": -two.gap})
    assert same_finding(one, two)
    assert same_finding(one, flipped)
    assert not same_finding(one, Finding.from_dict({**two.to_dict(), "form": "too moderate"}))


@pytest.mark.slow
def test_an_unchanged_quarter_passes_and_a_changed_one_fails() -> None:
    off = {"nba": 0.35, "c": -0.3, "slope": 0.9}
    quarters = [audited(6_000, 100 + seed, **off) for seed in range(13)]
    failed = 0
    for before, after in pairwise(quarters):
        failed += not all(outcome.passed for outcome in judge(after.document, Gates(), before.document))
    assert failed <= 2  # at a true rate of 5% in 98 runs of 100
    changed = audited(6_000, 300, **off, a=0.9)
    lines = [outcome.line for outcome in judge(changed.document, Gates(), before.document) if not outcome.passed]
    assert any("ountry a" in line for line in lines)


def test_places_off_on_average_do_not_take_the_shape_of_the_whole_table_with_them(
    shared_data: Path, tmp_path: Path
) -> None:
    """A forest's scores of two decimals: three times the noise along the score, and no word of it in the headline."""
    from studies import audit_words

    found = audit(audit_words.forest(tmp_path), outcome="y", probability="score", effort="quick").findings
    assert ("the whole table", "too extreme") in {(finding.where, finding.form) for finding in found}
