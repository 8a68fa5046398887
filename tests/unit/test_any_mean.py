"""Audits of any mean: false alarms, planted places, one row that decides, parts, gates, pages, periods, comparison."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import miscal
from miscal.auditing.audit import Audit
from miscal.auditing.gates import Gates, judge
from miscal.plots import ScoreDisplay
from studies import any_mean
from studies.harness import alarm_limit
from tests.commands import run
from tests.trials import too_often

CLAIMS = {"outcome": "claims", "prediction": "rate", "response": "count", "exposure": "years"}
FLAGS = ["--outcome", "claims", "--prediction", "rate", "--response", "count", "--exposure", "years"]


def table(rows=24_000, seed=3, planted="region"):
    p = any_mean.made("claims", seed, rows, planted)
    claims = np.rint(p.outcome * p.exposure).astype(int)
    found = {name: p.columns[name] for name in ("age", "region", "income", "sex")}
    kept = {name: np.array(each.levels)[each.values] if each.nominal else each.values for name, each in found.items()}
    return pa.table({"claims": claims, "rate": p.probability, "years": p.exposure, **kept})


@pytest.fixture(scope="module")
def audited():
    return miscal.audit(table(), **CLAIMS)


@pytest.mark.parametrize("world", any_mean.WORLDS)
@pytest.mark.parametrize("word", ["score", "variable", "field", "subpopulation"])
def test_calibrated_counts_and_amounts_seldom_alarm(world, word):
    sets = 40

    def alarms(seed):
        return {word: any_mean.WORDS[word](any_mean.made(world, 500 + seed, 600)).p_value <= 0.05}

    assert not too_often(alarms, sets, alarm_limit(sets, 0.05))


def test_a_quiet_level_is_no_finding():
    """Without the usual noise as a floor, levels that had no large amount look certain: 27 of 100 data sets alarm."""
    sets = 40
    found = [any_mean.WORDS["field"](any_mean.made("amounts", 900 + seed)).table["p_adjusted"] for seed in range(sets)]
    assert sum(np.nanmin(each) <= 0.05 for each in found) <= alarm_limit(sets, 0.05)


def test_a_planted_region_is_first_and_said_in_its_units(audited):
    first = audited.findings[0]
    assert first.real
    assert first.levels == ("R3",)
    said = r"Region R3: 0\.1\d+ predicted, 0\.2\d+ observed, \d+ more claims observed than predicted.*A/E (1\.\d+)\."
    found = re.match(said, str(first))
    assert found is not None
    assert float(found[1]) == pytest.approx(first.observed / first.predicted, abs=0.005)
    assert first.events_off == pytest.approx(first.gap * first.weight)


def test_a_planted_age_range_of_amounts_is_first():
    found = miscal.audit(any_mean.made("amounts", 2, 12_000, "age")).findings
    assert any_mean._is_planted(found[0], "age")
    assert found[0].real


def amounts(extra, largest, rows=300):
    """Amounts of six regions, one of which is `extra` higher and has one amount that is `largest`."""
    rng = np.random.default_rng(0)
    region = rng.choice(list("abcdef"), rows)
    y = 300 * rng.gamma(1.0, 1.0, rows)
    y[region == "b"] += extra
    y[np.flatnonzero(region == "b")[0]] = largest
    return miscal.Predictions(y, np.full(rows, y.mean()), response="real", columns={"region": region})


def test_one_row_that_decides_is_said_and_is_not_real():
    found = miscal.audit(amounts(108.0, 1_500.0), effort="quick")
    assert [(one.where, one.real) for one in found.findings] == [("region b", False)]
    assert "Not significant without its largest row (349 predicted, 1,500 observed): one row decides." in str(
        found.findings[0]
    )
    assert any("one row decides" in note for note in found.document["notes"])
    assert found.findings[0].decided[1] == 1_500.0


def test_a_place_that_is_off_without_its_largest_row_is_real():
    found = miscal.audit(amounts(150.0, 1_500.0), effort="quick").findings
    assert [(one.where, one.real, one.decided) for one in found] == [("region b", True, ())]


def test_an_amount_of_a_million_makes_no_finding_and_is_said():
    found = miscal.audit(amounts(0.0, 1e6), effort="quick")
    assert not [one for one in found.findings if one.real]
    assert any("1,000,000 observed) makes more than half of the variance" in note for note in found.document["notes"])


def test_a_range_beside_an_amount_of_a_million_is_not_off_because_the_score_was_put_right():
    rng = np.random.default_rng(5)
    p = rng.uniform(100.0, 102.0, 100_000)
    y = rng.gamma(2.0, p / 2.0)
    y[17] = 1e6
    columns = {"x": rng.normal(size=p.size), "f": rng.choice(list("abcdef"), p.size), "z": rng.normal(size=p.size)}
    found = miscal.audit(miscal.Predictions(y, p, response="real", columns=columns), effort="quick")
    assert not [one for one in found.findings if one.real]


def test_parts_say_what_memory_says(tmp_path, monkeypatch):
    """The same finding and levels beyond memory, the largest row found by a pass of its own."""
    from miscal.auditing import audit as auditing

    path = tmp_path / "claims.parquet"
    pq.write_table(table(30_000), path, row_group_size=5_000)
    whole = miscal.audit(path, effort="quick", **CLAIMS)
    monkeypatch.setattr(auditing, "rows_that_fit", lambda *_: 12_000)
    parts = miscal.audit(path, memory="1GB", effort="quick", **CLAIMS)
    assert parts.document["settings"]["sample"]["of"] == 30_000
    one, two = whole.findings[0], parts.findings[0]
    assert (one.where, one.rows, one.real) == (two.where, two.rows, two.real)
    for name in ("predicted", "observed", "gap", "events_off", "weight"):
        assert getattr(two, name) == pytest.approx(getattr(one, name), rel=1e-9)
    fields = [
        next(result for result in each.results if result.settings.get("column") == "region") for each in (whole, parts)
    ]
    np.testing.assert_allclose(fields[0].table["gap"], fields[1].table["gap"], rtol=1e-9, atol=1e-12)


def test_one_row_decides_in_parts_too(tmp_path, monkeypatch):
    from miscal.auditing import audit as auditing

    monkeypatch.setattr(auditing, "rows_that_fit", lambda *_: 250)
    decided = []
    for extra in range(90, 126, 6):  # where it is depends on the noise that the sample shows
        p, path = amounts(float(extra), 1_500.0), tmp_path / f"{extra}.parquet"
        levels = np.array(p.columns["region"].levels)[p.columns["region"].values]
        pq.write_table(pa.table({"y": p.outcome, "p": p.probability, "region": levels}), path, row_group_size=100)
        found = miscal.audit(path, outcome="y", prediction="p", response="real", memory="1GB", effort="quick")
        assert found.document["settings"]["sample"]["of"] == 300
        decided += [one for one in found.findings if one.decided]
    assert {(one.where, one.real, one.decided[1]) for one in decided} == {("region b", False, 1_500.0)}


def test_words_of_tables_take_a_prediction():
    data = table(2_000)
    one = miscal.by_field(data, "region", **CLAIMS)
    two = miscal.by_field(miscal.read(data, **CLAIMS), "region")
    assert one.value == two.value
    with pytest.raises(miscal.MiscalError, match="cannot go with 'probability'"):
        miscal.by_field(data, "region", probability="rate", **CLAIMS)


def test_the_page_has_no_word_of_events(audited, tmp_path):
    audited.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    body = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", " ", body.split('id="words"')[0])
    assert "probabilit" not in text.lower()
    assert "log-odds" not in text
    assert not re.search(r"\d% (predicted|observed)", text)
    assert "356 more claims" not in text or "observed than predicted" in text
    assert "--prediction rate --response count --exposure years" in text
    assert "actual over expected" in page
    for said in (audited.to_markdown(), repr(audited)):
        assert "% predicted" not in said
        assert "points" not in said


def test_json_says_the_response_and_is_read_back(audited, tmp_path):
    audited.to_json(tmp_path / "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["data"]["response"] == "count"
    assert document["data"]["exposure"] == "years"
    assert {"slope", "brier", "auc", "log_loss"}.isdisjoint(document["score"])
    assert document["score"]["ratio"] == pytest.approx(document["score"]["predicted"] / document["score"]["observed"])
    audited.save(tmp_path / "a.audit")
    again = Audit.load(tmp_path / "a.audit")
    assert str(again.findings[0]) == str(audited.findings[0])


def test_gates_of_ratios(audited):
    ratio = audited.document["score"]["observed"] / audited.document["score"]["predicted"]
    failed, passed = (judge(audited.document, Gates(max_ratio_off=limit))[0] for limit in (0.01, 0.5))
    assert not failed.passed
    assert passed.passed
    assert f"{ratio:.2f}" in failed.line


def test_the_command_line(tmp_path):
    path = tmp_path / "claims.parquet"
    pq.write_table(table(4_000), path)
    done = run("check", path, *FLAGS, "--max-ratio-off", "0.001", "--max-gap", "3")
    assert done.exit_code == 1
    assert "failed max-ratio-off: O/E, observed over expected, over all rows is" in done.output
    done = run("audit", path, *FLAGS, "--probability", "rate")
    assert done.exit_code == 2
    done = run("audit", path, *FLAGS, "--effort", "quick", "--out", tmp_path / "report.html")
    assert done.exit_code == 0, done.output
    assert "more claims observed than predicted" in done.output or "No significant miscal" in done.output
    assert (tmp_path / "report.html").exists()


def test_periods_and_comparisons_are_in_units():
    data = table(8_000, planted="")
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + rng.integers(0, 180, 8_000)
    late = np.asarray(days >= np.datetime64("2024-04-01"))
    more = np.asarray(data["claims"]) + rng.poisson(np.asarray(data["rate"]) * np.asarray(data["years"]) * 1.5 * late)
    before = miscal.audit(data.append_column("day", pa.array(days)), time="day", effort="quick", **CLAIMS)
    worse = data.set_column(0, "claims", pa.array(more)).append_column("day", pa.array(days))
    after = miscal.audit(worse, time="day", effort="quick", **CLAIMS)
    periods = next(result for result in after.results if result.kind == "period")
    step = list(periods.table["label"]).index("2024-04")
    assert periods.table["verdict"][step] == "worse"
    assert " pp" not in periods.table["words"][step]
    assert re.search(r"0\.\d+ predicted and 0\.\d+ observed before", periods.table["words"][step])
    assert periods.table["observed"][step] > 1.5 * periods.table["predicted"][step]
    compared = before.compare(after)
    assert "the whole table" in compared.worse
    own = compared.table.take(compared.table["where"] == "the whole table")
    assert own["gap_after"][0] == pytest.approx(after.document["score"]["gap"], rel=1e-6)
    assert "points" not in repr(compared)


@pytest.mark.parametrize("refused", [miscal.by_variation, miscal.by_class, lambda p: miscal.audit(p, target="top")])
def test_what_needs_events_is_refused(refused):
    with pytest.raises(miscal.MiscalError, match=r"needs (events or )?classes"):
        refused(any_mean.made("claims", 0, 200))


def test_clusters_widen_the_noise():
    """Policies of one household err together: a household is one draw, not ten."""
    alarms = {"rows": 0, "households": 0}
    for seed in range(25):
        rng = np.random.default_rng(seed)
        house = np.repeat(np.arange(60), 10)
        shared = rng.gamma(0.5, 2.0, 60)[house]
        columns = {"region": np.array(list("abc"))[np.arange(60) % 3][house]}
        y = rng.poisson(0.8 * shared)
        for name, cluster in (("rows", None), ("households", house)):
            p = miscal.Predictions(y, np.full(600, 0.8), response="count", cluster=cluster, columns=columns)
            alarms[name] += miscal.by_field(p, "region").p_value <= 0.05
    assert alarms["rows"] > 10
    assert alarms["households"] <= alarm_limit(25, 0.05)


def test_figures_of_means_have_no_percent():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    p = any_mean.made("claims", 1, 1_500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for result in (miscal.by_score(p), miscal.by_variable(p, "age"), miscal.by_field(p, "region")):
            drawn = result.plot()
            drawn.figure_.canvas.draw()
            ticks = [label.get_text() for label in (*drawn.ax_.get_xticklabels(), *drawn.ax_.get_yticklabels())]
            assert not [text for text in ticks if "%" in text]
            matplotlib.pyplot.close(drawn.figure_)
        claims = p.outcome * p.exposure
        made = ScoreDisplay.from_predictions(claims, p.probability, response="real", exposure=p.exposure)
        assert made.result.value == pytest.approx(miscal.by_score(p).value)


def test_simulated_neighbourhoods_are_as_wide_as_they_are_judged() -> None:
    """A neighbourhood that was quiet by chance is judged by what is usual; its draws must vary as much."""
    rng = np.random.default_rng(0)
    group = np.repeat(["quiet", "loud"], 400)
    residual = np.where(group == "quiet", 0.1, 10.0) * rng.choice([-1.0, 1.0], 800)
    p = miscal.Predictions(50.0 + residual, np.full(800, 50.0), response="real", columns={"group": group})
    found = miscal.by_neighbourhood(p, ["group"], kernel="group", simulations=999, random_state=0)
    # The larger of two normals is beyond 2.24 in 5%; where one of them hardly moved it was 1.96.
    assert found.extra["critical"] > 2.12


def test_a_mean_is_measured_on_all_rows_of_a_table_that_does_not_fit(tmp_path, monkeypatch) -> None:
    rng = np.random.default_rng(0)
    p = rng.lognormal(2.0, 0.5, 20_000)
    table = pa.table({"y": p * rng.lognormal(-0.125, 0.5, p.size), "p": p})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=5_000)
    named = {"outcome": "y", "prediction": "p", "response": "real"}
    (whole,) = miscal.measure(tmp_path / "t.parquet", miscal.Score(), **named)
    monkeypatch.setattr("miscal.aggregate.sample.rows_that_fit", lambda *_: 2_000)
    (parts,) = miscal.measure(tmp_path / "t.parquet", miscal.Score(), **named)
    assert parts.table["rows"].sum() == whole.table["rows"].sum() == 20_000
    assert parts.extra["predicted"] == pytest.approx(whole.extra["predicted"], rel=1e-9)


def test_a_column_may_be_called_score():
    """Its ranges were taken for those of the prediction: their edges were moved into its units."""
    rng = np.random.default_rng(0)
    expected, column = rng.gamma(2.0, 100.0, 2_000), rng.normal(size=2_000)
    happened = rng.gamma(2.0, expected / 2.0)
    found = {}
    for name in ("age", "score"):
        rows = miscal.Predictions(happened, expected, response="real", columns={name: column})
        made = miscal.by_variable(rows, name)
        audited = miscal.audit(rows).document["sections"]["variable"][0]["table"]
        found[name] = made.p_value, made.noise_floor, list(made.table["low"]), list(made.table["label"]), audited["low"]
    assert found["age"] == found["score"]
