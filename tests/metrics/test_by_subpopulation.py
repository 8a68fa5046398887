"""The search over subpopulations: what it finds, what it says, and that its p-value holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

import miscal
from miscal import Conjunctions, MiscalError, MiscalWarning, Predictions, by_subpopulation
from miscal.aggregate.subpopulations import ordered, search_lists
from miscal.cells.subpopulations import Definition
from miscal.codes.inference import Method
from miscal.data.target import TargetData, select_target
from miscal.kernels.subpopulation import VARIANCE
from miscal.metrics import multicalibration_error
from miscal.stats.cell_sums import seed_of
from miscal.stats.maxima import bonferroni_null, raise_quiet_variances
from miscal.stats.null_draws import ResidualDraws
from miscal.stats.null_model import choose_null
from studies.simulated import clustered
from tests.trials import too_often

LIMIT = 2e-4  # chance that a right p-value fails one of these tests


def columns_of(rng, n):
    return {
        "age": rng.integers(18, 90, n),
        "income": rng.lognormal(10, 0.5, n).round(2),
        "state": rng.choice(["CA", "NV", "TX", "NY", "WA"], n),
        "member": rng.random(n) < 0.5,
    }


def predictions(rng, n=2000, *, shift=0.0, ties=False, rate=None, **more):
    columns = columns_of(rng, n)
    score = rng.beta(0.8, 1.6, n) if rate is None else rng.beta(0.5, 0.5 / rate, n)
    score = np.clip(np.round(score, 1), 0.05, 0.95) if ties else score
    inside = (columns["age"] < 50) & (columns["state"] == "CA")
    truth = np.where(inside, np.clip(score + shift, 0, 1), score)
    return Predictions((rng.random(n) < truth).astype(int), score, columns=columns, **more), inside


def test_the_planted_subpopulation_is_found_and_said(rng):
    p, inside = predictions(rng, 6000, shift=0.2)
    result = by_subpopulation(p, subpopulations=Conjunctions(depth=2, ranges=3), simulations=199)
    text = result.sentence()
    assert result.p_value == 1 / 200
    assert "state = CA" in result.table["label"][0]
    assert "age <" in result.table["label"][0]
    assert "significant (p <= 0.005)" in text
    assert "fewer predicted than observed" in text
    assert result.extra["worst"][0]["label"] in text
    paths = by_subpopulation(p, subpopulations=300, simulations=199)
    assert paths.p_value == 1 / 200


def test_calibrated_says_so(rng):
    p, _ = predictions(rng)
    result = by_subpopulation(p, subpopulations=100, simulations=199)
    assert result.p_value > 0.05
    assert result.sentence().startswith("No subpopulation is significantly miscalibrated.")
    assert result.interval[0] == 0.0


def test_value_is_the_metric(rng):
    p, _ = predictions(rng, 800)
    result = by_subpopulation(p, subpopulations=100, simulations=19, min_information=0)
    metric = multicalibration_error(p.outcome, p.probability, p.columns, subpopulations=100)
    assert result.value == metric
    assert result.table["scaled"].max() == metric
    assert result.table["label"][np.flatnonzero(result.table["rows"] == 800)[0]] == "full population"


RESPONSES = {
    "binary": {},
    "weights": {"weight": "any"},
    "weights that depend on the outcome": {"weight": "outcome"},
    "real": {"response": "real"},
    "real, some below 0": {"response": "real", "low": -30.0},
    "real, weights": {"response": "real", "weight": "any"},
    "real, exposure": {"response": "real", "exposure": True},
    "count": {"response": "count"},
    "count, exposure": {"response": "count", "exposure": True},
    "count, exposure and weights": {"response": "count", "exposure": True, "weight": "any"},
    "real, clusters": {"response": "real", "cluster": True},
}


@pytest.mark.parametrize("variance", ["residual", "corrected", "paper"])
@pytest.mark.parametrize("kind", RESPONSES)
def test_value_is_the_metric_for_every_response(kind, variance):
    """One M: bit for bit, with the same options."""
    how, rng, n = RESPONSES[kind], np.random.default_rng([*kind.encode()]), 1500
    columns, response = columns_of(rng, n), how.get("response", "binary")
    exposure = rng.uniform(0.2, 3.0, n) if how.get("exposure") else None
    if response == "binary":
        score = rng.beta(0.8, 1.6, n)
        outcome = (rng.random(n) < score).astype(int)
    else:
        score = rng.gamma(2.0, 1.0, n)
        mean = score if exposure is None else score * exposure
        outcome = rng.poisson(mean) if response == "count" else mean * rng.lognormal(-0.5, 1.0, n)
    if "low" in how:
        score, outcome = score + how["low"], outcome + how["low"]
    weight = {"any": rng.lognormal(size=n), "outcome": np.where(outcome > 0, 1.0, 20.0)}.get(how.get("weight"))
    cluster = np.arange(n) // 5 if how.get("cluster") else None
    told = {"weight": weight, "exposure": exposure, "cluster": cluster, "response": response}
    options = {"subpopulations": 60, "min_size": 12, "min_information": 1.5, "variance": variance}
    p = Predictions(outcome, score, columns=columns, **told)
    result = by_subpopulation(p, simulations=19, **options)
    metric = multicalibration_error(
        outcome, score, columns, sample_weight=weight, exposure=exposure, response=response, **options
    )
    assert result.value == metric == result.table["scaled"].max()
    assert 0 < result.p_value <= 1


def test_variance_changes_what_is_not_known_from_the_predictions_alone(rng):
    n = 1500
    score = rng.gamma(2.0, 10.0, n)
    p = Predictions(score * rng.lognormal(-0.5, 1.0, n), score, response="real", columns=columns_of(rng, n))
    values = {
        by_subpopulation(p, subpopulations=60, simulations=0, variance=variance).value
        for variance in ("residual", "corrected")
    }
    assert len(values) == 2
    binary, _ = predictions(rng, 1000)
    same = {
        by_subpopulation(binary, subpopulations=60, simulations=0, variance=variance).value
        for variance in ("residual", "corrected", "paper")
    }
    assert len(same) == 1


def test_rows_that_stand_for_several_are_as_noisy_as_the_several(rng):
    """Where weights depend on the outcome, so that the variance is that of the residuals."""
    n = 400
    count, score = rng.integers(1, 6, n), rng.beta(0.8, 1.6, n)
    outcome = (rng.random(n) < score).astype(np.uint8)
    weight = np.where(outcome == 1, 1.0, 20.0)
    again = np.repeat(np.arange(n), count)
    mask = rng.random(n) < 0.3

    def variances(compared, chosen):
        rows = ordered(compared)
        found = search_lists(rows, [(np.flatnonzero(chosen[rows.order]).astype(np.int32), Definition())])
        return raise_quiet_variances(rows, found, choose_null(compared, "bernoulli").residual_variance)[0][:, VARIANCE]

    together = variances(TargetData(score, outcome, weight, count), mask)
    apart = variances(TargetData(score[again], outcome[again], weight[again]), mask[again])
    np.testing.assert_allclose(together, apart, rtol=1e-12)


def test_table_columns_are_consistent(rng):
    p, _ = predictions(rng, 3000, shift=0.3)
    result = by_subpopulation(p, subpopulations=50, simulations=19)
    table = result.table
    np.testing.assert_allclose(table["gap"], table["predicted"] - table["observed"], atol=1e-12)
    np.testing.assert_allclose(table["deviations"] * table["deviation"], table["kuiper"], rtol=1e-12)
    np.testing.assert_allclose(table["expected"], 1.5957691216 * table["deviation"], rtol=1e-9)
    score, outcome = p.probability, p.outcome
    from miscal.cells.parse import rows_where

    for row in result.extra["worst"]:
        mask = (
            np.ones(3000, bool) if row["definition"] == "full population" else rows_where(row["definition"], p.columns)
        )
        assert mask.sum() == row["rows"]
        between = mask & (score > row["score_low"]) & (score <= row["score_high"])
        if row["score_low"] == score.min():
            between |= mask & (score == row["score_low"])
        off = float(np.sum(score[between] - outcome[between]))
        np.testing.assert_allclose(off, row["interval_off"], atol=1e-9)


def test_simulated_maximum_is_the_metric_of_simulated_outcomes(rng):
    """A draw's maximum is what the metric gives for that draw's outcomes."""
    p, _ = predictions(rng, 500, ties=True)
    result = by_subpopulation(p, subpopulations=40, simulations=20, min_information=0)
    compared = select_target(p)
    rows = ordered(compared)
    steps = ResidualDraws.of(compared.take(rows.order), False, seed_of(0)).block(0, 20)
    score = np.abs(rows.signed)
    values = []
    columns = p.columns.take(rows.order)
    for b in range(20):
        drawn = np.round(steps[:, b] + score).astype(int)
        values.append(multicalibration_error(drawn, score, columns, subpopulations=40))
    reached = sum(value >= result.value * (1 - 1e-12) for value in values)
    assert result.p_value == (1 + reached) / 21
    np.testing.assert_allclose(result.noise_floor, np.mean(values), rtol=1e-12)


def alarms_seldom(make):
    """At 5% at most as often as the binomial of 40 tables has it."""

    def alarms(seed):
        return {"p": by_subpopulation(make(seed), simulations=99, subpopulations=60).p_value <= 0.05}

    return not too_often(alarms, 40, int(binom.isf(LIMIT, 40, 0.05)))


@pytest.mark.parametrize("kind", ["plain", "ties", "weights", "rare", "counts"])
def test_false_alarms(kind):
    def make(seed):
        rng = np.random.default_rng([seed, 7])
        if kind == "rare":
            return predictions(rng, 4000, rate=0.01)[0]
        if kind == "counts":
            n = 300
            trials, score = rng.integers(1, 9, n), rng.beta(0.8, 1.6, n)
            return Predictions(rng.binomial(trials, score), score, count=trials, columns=columns_of(rng, n))
        weight = rng.lognormal(size=800) if kind == "weights" else None
        return predictions(rng, 800, ties=kind == "ties", weight=weight)[0]

    assert alarms_seldom(make)


def skewed(seed, *, count, shift=0.0):
    """Claims, or amounts, of which a quarter may have a larger mean than is predicted."""
    rng = np.random.default_rng([seed, 11])
    n = 1500
    columns = columns_of(rng, n)
    score = rng.gamma(2.0, 0.1 if count else 50.0, n)
    inside = (columns["age"] < 54) & columns["member"]
    mean = np.where(inside, (1.0 + shift) * score, score)
    outcome = rng.poisson(mean) if count else mean * rng.lognormal(-0.5, 1.0, n)
    return Predictions(outcome, score, response="count" if count else "real", columns=columns)


@pytest.mark.parametrize("variance", ["residual", "corrected"])
@pytest.mark.parametrize("count", [True, False])
def test_false_alarms_of_means(count, variance):
    def alarms(seed):
        result = by_subpopulation(skewed(seed, count=count), simulations=99, subpopulations=60, variance=variance)
        return {"p": result.p_value <= 0.05}

    assert not too_often(alarms, 40, int(binom.isf(LIMIT, 40, 0.05)))


def test_differences_of_neighbours_hide_what_residuals_show():
    """Ten tables of amounts with a planted error: found by nearly all with the one and by few with the other."""
    found = {
        variance: sum(
            by_subpopulation(
                skewed(seed, count=False, shift=0.6), subpopulations=60, simulations=99, variance=variance
            ).p_value
            <= 0.05
            for seed in range(10)
        )
        for variance in ("residual", "paper")
    }
    assert found["residual"] >= 8 > 4 >= found["paper"]


def test_equal_neighbours_leave_no_p_value():
    """Where eq. 6 is 0 the error is infinite, whatever the predictions are: nothing can be tested."""
    rng = np.random.default_rng(3)
    outcome = rng.poisson(np.full(2000, 0.1))
    p = Predictions(outcome, np.full(2000, 0.1), response="count", columns={"a": rng.random(2000)})
    quiet = np.flatnonzero(outcome == 0)[:30]
    with pytest.warns(MiscalWarning, match="neighbouring residuals"):
        result = by_subpopulation(p, subpopulations=[quiet], simulations=99, variance="paper")
    assert result.value == math.inf
    assert math.isnan(result.p_value)
    assert by_subpopulation(p, subpopulations=[quiet], simulations=99).p_value > 0.05


def test_false_alarms_of_clusters():
    """Five rows a patient, whose outcomes are drawn together. Treated as independent rows it alarms far too often."""

    def make(seed, cluster=True):
        data = clustered(1500, random_state=seed)
        columns = dict(data.columns)
        return Predictions(data.y_true, data.y_prob, cluster=data.cluster if cluster else None, columns=columns)

    assert alarms_seldom(make)
    result = by_subpopulation(make(0), subpopulations=20, simulations=19)
    assert "outcomes drawn by cluster" in result.method
    assert "flip" not in result.method


def test_bonferroni_is_near_the_simulation(rng):
    p, _ = predictions(rng, 20_000)
    result = by_subpopulation(p, subpopulations=300, simulations=199)
    rows = ordered(select_target(p))
    from miscal.metrics.subpopulation_errors import SubpopulationRequest
    from miscal.stats.maxima import scaled_errors

    found = SubpopulationRequest(p.columns, list(p.columns), p.rows, None, None, 10, 5.0, 0).search(rows, 300)
    values = scaled_errors(found.stats)
    noise = bonferroni_null(found.stats, values)
    unit = result.extra["deviation"]
    assert 0.97 < noise.summary.quantile / unit / result.extra["null_critical"] < 1.25
    assert noise.summary.p_value >= result.p_value * 0.6
    assert noise.summary.noise_floor / unit > result.extra["null_mean"] * 0.97
    assert noise.summary.method is Method.BONFERRONI


def test_too_many_rows_go_to_bonferroni(rng):
    p, _ = predictions(rng, 3000, shift=0.3)
    result = by_subpopulation(p, subpopulations=300, simulations=70_000)
    assert "Bonferroni" in result.method
    assert result.p_value < 0.01
    assert result.noise_floor > 0


def test_the_floor_of_information_lists_what_is_too_small(rng):
    p, _ = predictions(rng, 3000, rate=0.01)
    result = by_subpopulation(p, subpopulations=200, simulations=19)
    small = result.extra["too_small"]
    assert small.rows == result.settings["too_small"] > 0
    assert (small["information"] < 5).all()
    inside = result.table["label"] != "full population"
    assert (result.table["information"][inside] >= 5).all()
    assert "too small to test" in result.method


def test_low_prevalence_weights_have_no_p_value(rng):
    p, _ = predictions(rng, 1000)
    result = by_subpopulation(p, subpopulations=20, emphasis="low_prevalence")
    assert math.isnan(result.p_value)
    assert math.isnan(result.noise_floor)
    assert "depend on the outcomes" in result.method
    assert "depend on the outcomes" in result.sentence()


@pytest.mark.parametrize("emphasis", ["proportional", "proportional_sum", "inverse_score"])
def test_proportional_weights_keep_their_p_value(rng, emphasis):
    p, _ = predictions(rng, 1000, ties=True)
    result = by_subpopulation(p, subpopulations=20, simulations=99, emphasis=emphasis)
    assert 0.01 <= result.p_value <= 1


def test_an_unknown_emphasis_is_refused(rng):
    p, _ = predictions(rng, 100)
    with pytest.raises(MiscalError, match="'proportional'"):
        by_subpopulation(p, subpopulations=[], emphasis="x")


def test_no_simulations(rng):
    p, _ = predictions(rng, 500)
    assert math.isnan(by_subpopulation(p, subpopulations=20, simulations=0).p_value)


def test_order_of_rows_changes_nothing(rng):
    p, _ = predictions(rng, 1200)
    order = rng.permutation(1200)
    one = by_subpopulation(p, subpopulations=80, simulations=99)
    other = by_subpopulation(p.take(order), subpopulations=80, simulations=99)
    assert one.value == other.value
    assert one.p_value == other.p_value
    assert one.table["label"].tolist() == other.table["label"].tolist()


def test_given_masks_names_and_expressions(rng):
    p, inside = predictions(rng, 2000, shift=0.3)
    given = {"planted": inside, "by rule": "age < 50 and state = CA", "all": np.arange(2000), "others": ~inside}
    result = by_subpopulation(p, subpopulations=given, simulations=99)
    assert sorted(result.table["label"]) == ["full population", "others", "planted"]  # equal ones are merged
    assert result.table["label"][0] == "planted"


def test_spec_and_measure(rng):
    p, _ = predictions(rng, 500)
    spec = miscal.Subpopulation(["age", "state"], subpopulations=20, simulations=19)
    measured = miscal.measure(p, spec)[0]
    direct = by_subpopulation(p, ["age", "state"], subpopulations=20, simulations=19)
    assert measured.value == direct.value
    assert measured.p_value == direct.p_value


def test_result_is_plain_and_pickles(rng):
    import json
    import pickle

    p, _ = predictions(rng, 500)
    result = by_subpopulation(p, subpopulations=20, simulations=19)
    assert pickle.loads(pickle.dumps(result)).sentence() == result.sentence()
    document = json.loads(json.dumps(result.to_dict()))
    assert document["kind"] == "subpopulation"
    assert document["extra"]["worst"][0]["rows"] > 0
    assert result.sentence() in repr(result)


def test_the_text_alone_says_which_and_why(rng):
    """Read without the code: where, how many rows, how far off, against what, and how sure."""
    p, _ = predictions(rng, 6000, shift=0.25)
    result = by_subpopulation(p, subpopulations=Conjunctions(2), simulations=199)
    worst, text = result.extra["worst"][0], result.sentence()
    assert text.startswith(
        f"The worst of {result.settings['tested']} subpopulations is {worst['label']} ({worst['rows']:,} rows; "
    )
    assert f"{100 * worst['predicted']:.3g}% predicted, {100 * worst['observed']:.3g}% observed" in text
    assert f"{-worst['interval_off']:,.0f} fewer predicted than observed" in text
    assert f"pass {result.extra['null_critical']:.1f} once in 20 times: significant (p <= 0.005)" in text
    assert "would be found" not in text
    assert "state = CA" in worst["label"]


def test_a_search_that_found_nothing_says_what_it_could_have_found(rng):
    result = by_subpopulation(predictions(rng, 2000)[0], subpopulations=50, simulations=99)
    least = result.extra["worst"][0]["detectable"]
    assert result.p_value > 0.05
    assert result.sentence().endswith(f"a Kuiper error of {least:.3g} would be found 4 times in 5.")
    assert least == pytest.approx((result.extra["null_critical"] + 0.84) * result.table["deviation"][0])


def test_heavy_weights_leave_little_to_judge_and_that_is_said(rng):
    """The floor of INFERENCE: Σw²p(1-p) over the largest squared weight, so one heavy row counts as one row."""
    n = 3000
    score = rng.beta(0.8, 1.6, n)
    weight = rng.lognormal(0, 1.5, n)
    p = Predictions(rng.random(n) < score, score, weight=weight, columns=columns_of(rng, n))
    result = by_subpopulation(p, subpopulations=40, simulations=99)
    assert result.settings["tested"] == 1
    assert result.sentence().startswith("Only the full population could be tested: ")
    assert f"{result.settings['too_small']:,} more were too small to test" in result.method
    assert "a lower min_information tests more" in result.method
    information = float(np.sum(weight**2 * score * (1 - score)) / weight.max() ** 2)
    np.testing.assert_allclose(result.extra["full"]["information"], information, rtol=1e-12)
    assert information < 5
    assert by_subpopulation(p, subpopulations=40, simulations=99, min_information=0.5).settings["tested"] > 5


def test_every_level_counts_however_rare(rng):
    n = 4000
    score = rng.beta(0.8, 1.6, n)
    state = rng.choice([*"abcdefgh", None], n, p=[0.3, 0.25, 0.15, 0.1, 0.05, 0.05, 0.04, 0.03, 0.03])
    p = Predictions(rng.random(n) < score, score, columns={"state": state})
    all_levels = by_subpopulation(p, subpopulations=Conjunctions(1), simulations=0)
    every = {"full population", "state is missing", *(f"state = {level}" for level in "abcdefgh")}
    assert set(all_levels.table["label"]) == every


@pytest.mark.filterwarnings("ignore:.*single class")
@pytest.mark.parametrize("asked", [20, Conjunctions(2)])
def test_so_little_that_only_the_full_population_is_left(rng, asked):
    one = Predictions([1], [0.4], columns={"a": [1.0], "b": ["x"]})
    assert by_subpopulation(one, subpopulations=asked, simulations=19).settings["tested"] == 1
    p, _ = predictions(rng, 50)
    assert by_subpopulation(p, subpopulations=asked, simulations=19, min_size=51).settings["tested"] == 1
    nominal = Predictions(rng.random(300) < 0.4, np.full(300, 0.4), columns={"s": rng.choice(list("abc"), 300)})
    assert by_subpopulation(nominal, subpopulations=asked, simulations=19).settings["tested"] > 3


def test_unusual_columns(rng):
    n = 400
    score = rng.random(n)
    outcome = (rng.random(n) < score).astype(int)
    columns = {
        "constant": np.ones(n),
        "empty": np.full(n, np.nan),
        "day": np.datetime64("2026-01-01") + rng.integers(0, 300, n),
        "two words": rng.choice(["a, b", "c and d", '"q"', None], n),
    }
    p = Predictions(outcome, score, columns=columns)
    result = by_subpopulation(p, subpopulations=30, simulations=19)
    assert result.settings["tested"] > 5
    assert not any("constant" in label or "empty" in label for label in result.table["label"])
    from miscal.cells.parse import rows_where

    for row in result.extra["worst"]:
        if row["definition"] != "full population" and '"' not in str(columns["two words"]):
            assert rows_where(row["definition"], p.columns).sum() == row["rows"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": "agee"}, "did you mean 'age'"),
        ({"simulations": -1}, "at least 0"),
        ({"simulations": 1.5}, "whole number"),
        ({"null": "x"}, "'bernoulli' or 'residual'"),
        ({"subpopulations": Conjunctions(depth=0)}, "at least 1"),
        ({"columns": []}, "needs columns"),
        ({"subpopulations": 3.5}, "must be a number of subpopulations"),
    ],
)
def test_refusals(rng, options, words):
    p, _ = predictions(rng, 100)
    with pytest.raises(MiscalError, match=words):
        by_subpopulation(p, **options)


def test_contradicted_certainty(rng):
    p = Predictions([0, 1, 1, 0, 1, 0], [0.0, 0.0, 1.0, 0.5, 0.4, 0.6], columns={"a": [1, 1, 1, 2, 2, 2]})
    with pytest.warns(MiscalWarning, match="infinite"):
        result = by_subpopulation(p, subpopulations=["a = 1"], min_information=0, simulations=99)
    assert result.value == math.inf
    assert result.p_value == 0.01
