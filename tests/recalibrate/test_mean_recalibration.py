"""Repairs of means that are not probabilities: naive twins, what is refused, and what `choose` does with them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression, PoissonRegressor
from sklearn.metrics import mean_poisson_deviance, mean_squared_error
from sklearn.tree import DecisionTreeRegressor

import miscal
from miscal import MiscalError
from miscal.cli import main
from miscal.codes.recalibration import ChoiceReason
from miscal.recalibrate import (
    GroupWise,
    HistogramBinning,
    IsotonicCalibration,
    MeanScaling,
    MulticalibrationBoost,
    PlattScaling,
    Recalibrator,
    VariableTree,
    choose,
)
from miscal.recalibrate.out_of_core import fit_to
from studies import mean_repairs


@pytest.fixture(scope="module")
def claims():
    """Rates, counts, columns and exposures; region c has 1.6 times the claims that are predicted."""
    m, y, X, exposure, _ = mean_repairs.drawn("count", "region", 4000, 0)
    return m, y, X, exposure


# ------------------------------------------------------------------------------------------------- naive twins
def test_a_factor_is_observed_over_expected(claims):
    m, y, _, exposure = claims
    made = MeanScaling().fit(m, y, response="count", exposure=exposure)
    actual = sum(y.tolist())
    expected = sum(rate * years for rate, years in zip(m.tolist(), exposure.tolist(), strict=True))
    assert made.slope_ == pytest.approx(actual / expected)
    held = MeanScaling(prior=50).fit(m, y, response="count", exposure=exposure)
    assert held.slope_ == pytest.approx((actual + 50) / (expected + 50))


def test_a_power_is_a_poisson_regression_on_the_logarithm(claims):
    m, y, _, exposure = claims
    made = MeanScaling("power").fit(m, y, response="count", exposure=exposure)
    twin = PoissonRegressor(alpha=0.0, tol=1e-10, max_iter=1000)
    twin.fit(np.log(m)[:, None], y / exposure, sample_weight=exposure)
    assert made.slope_ == pytest.approx(twin.coef_[0], rel=1e-5)
    np.testing.assert_allclose(made.predict(m), twin.predict(np.log(m)[:, None]), rtol=1e-5)


def test_a_line_is_least_squares():
    rng = np.random.default_rng(0)
    m, weight = rng.normal(size=500), rng.uniform(0.1, 2, 500)
    y = 0.3 + 0.8 * m + rng.normal(size=500)
    made = MeanScaling("linear").fit(m, y, response="real", sample_weight=weight)
    twin = LinearRegression().fit(m[:, None], y, sample_weight=weight)
    np.testing.assert_allclose(made.predict(m), twin.predict(m[:, None]), rtol=1e-10, atol=1e-12)
    shift = MeanScaling("shift").fit(m, y, response="real", sample_weight=weight)
    assert shift.intercept_ == pytest.approx(np.average(y - m, weights=weight))


@pytest.mark.parametrize("response", ["count", "real"])
def test_isotonic_is_that_of_scikit_learn(response):
    rng = np.random.default_rng(1)
    m = rng.normal(size=800) if response == "real" else rng.gamma(2.0, 2.0, 800)
    exposure = rng.uniform(0.5, 2.0, 800)
    y = m + rng.normal(size=800) if response == "real" else rng.poisson((m + 0.5) * exposure)
    made = IsotonicCalibration(smooth=0).fit(m, y, response=response, exposure=exposure)
    twin = IsotonicRegression(out_of_bounds="clip").fit(m, y / exposure, sample_weight=exposure)
    asked = np.linspace(m.min() - 1, m.max() + 1, 200).clip(0 if response == "count" else None)
    np.testing.assert_allclose(made.predict(asked), twin.predict(asked), rtol=1e-9, atol=1e-9)


def test_counts_never_seen_are_given_half_an_event():
    m, y, exposure = [0.1, 0.2, 0.3, 0.9], [0, 0, 1, 2], [1.0, 1.0, 2.0, 1.0]
    made = IsotonicCalibration().fit(m, y, response="count", exposure=exposure)
    np.testing.assert_allclose(made.predict(m), [0.25, 0.25, 0.5, 2.0])
    none = MeanScaling().fit([0.5, 0.5], [0, 0], response="count", exposure=[4.0, 4.0])
    np.testing.assert_allclose(none.predict([0.5]), [0.5 * 0.5 / 4.0])


def test_groups_are_factors_drawn_to_that_of_all_rows(claims):
    m, y, X, exposure = claims
    made = GroupWise(MeanScaling(), columns=["region"]).fit(m, y, X, response="count", exposure=exposure)
    whole = y.sum() / (m * exposure).sum()
    for region in np.unique(X["region"]):
        here = X["region"] == region
        own, share = y[here].sum() / (m * exposure)[here].sum(), here.sum() / (here.sum() + made.strength_)
        expected = share * own + (1 - share) * whole
        np.testing.assert_allclose(made.predict([0.1], {"region": [region]}), [0.1 * expected])


def test_a_tree_cuts_by_the_ratio_and_its_leaves_are_factors(claims):
    m, y, X, exposure = claims
    made = VariableTree(columns=["age"], max_depth=2).fit(m, y, X, response="count", exposure=exposure)
    expected = m * exposure
    twin = DecisionTreeRegressor(max_depth=2, min_weight_fraction_leaf=0.1, random_state=0)
    leaf = twin.fit(X["age"][:, None], y / expected, sample_weight=expected).apply(X["age"][:, None])
    naive = np.empty(len(m))
    for each in np.unique(leaf):
        here = leaf == each
        naive[here] = m[here] * (y[here].sum() + 10) / (expected[here].sum() + 10)
    np.testing.assert_allclose(made.predict(m, X), naive)


@pytest.mark.parametrize("response", ["count", "real"])
def test_both_growers_of_trees_find_the_same_error(response):
    m, y, X, exposure, truth = mean_repairs.drawn(response, "age", 20_000, 3)
    for engine in ("lightgbm", "sklearn"):
        if engine == "lightgbm":
            pytest.importorskip("lightgbm")
        made = MulticalibrationBoost(rounds=2, engine=engine).fit(m, y, X, response=response, exposure=exposure)
        ratio, young = made.predict(m, X) / m, X["age"] < 30
        assert 1.3 < np.average(ratio[young]) < 1.7
        assert 0.9 < np.average(ratio[~young]) < 1.1


def test_losses_are_those_of_scikit_learn():
    m, y, X, exposure, _ = mean_repairs.drawn("count", "nothing", 500, 0)
    made = choose(m, y, X, response="count", exposure=exposure, candidates=[MeanScaling()])
    assert made.table["deviance"][0] == pytest.approx(mean_poisson_deviance(y / exposure, m, sample_weight=exposure))
    m, y, X, _, _ = mean_repairs.drawn("real", "nothing", 500, 0)
    made = choose(m, y, X, response="real", candidates=[MeanScaling()])
    assert made.table["deviance"][0] == pytest.approx(mean_squared_error(y, m))
    level = X["region"]
    gaps = [np.sum((m - y)[level == each]) for each in np.unique(level)]
    assert made.table["by region"][0] == pytest.approx(np.abs(gaps).sum() / 500)
    assert made.table["ratio"][0] == pytest.approx(y.mean() / m.mean())


# ----------------------------------------------------------------------------------------------------- choosing
def test_a_planted_region_is_repaired_and_the_repair_ships():
    m, y, X, exposure, _ = mean_repairs.drawn("count", "region", 10_000, 1)
    made = choose(m, y, X, response="count", exposure=exposure, cv=3)
    assert made.name == "GroupWise(region)"
    assert made.choice.reason == ChoiceReason.LOWEST_LOSS
    assert made.choice.loss == "deviance"
    again = Recalibrator.from_json(made.to_json())
    np.testing.assert_array_equal(again.predict(m, X), made.predict(m, X))
    assert "recalibrated" not in made.to_sql("rate")
    row = {name: values[0] for name, values in X.items()}
    assert again.apply_one(m[0], row) == pytest.approx((made.predict(m, X)[0],))


def test_calibrated_means_are_left_alone():
    touched = [mean_repairs.chosen(response, "nothing", seed).name for response, seed in (("count", 1), ("real", 2))]
    assert touched == ["Identity"] * 2


def test_a_repair_holds_on_fresh_rows():
    for response in ("count", "real"):
        name, gain, most = mean_repairs.saved(response, "spread", 1)
        assert name != "Identity"
        assert 0.3 * most < gain <= 1.05 * most


def test_one_factor_is_enough_where_one_factor_is_wrong():
    m, y, _, exposure, _ = mean_repairs.drawn("count", "nothing", 4000, 5)
    made = choose(m / 2, y, response="count", exposure=exposure)
    assert made.name == "MeanScaling"
    assert made.keeps_ranking
    assert repr(made) == f"MeanScaling() fitted on 4,000 rows: factor {made.slope_:.3g}"


def test_weights_and_clusters_count():
    m, y, X, exposure, _ = mean_repairs.drawn("count", "region", 3000, 2)
    cluster = np.arange(3000) // 3
    weight = np.where(X["region"] == "c", 0.0, 1.0)
    made = choose(m, y, X, response="count", exposure=exposure, cluster=cluster, sample_weight=weight, cv=2)
    assert made.n_rows_ == int(weight.sum())
    assert made.name == "Identity"


def test_nothing_can_be_chosen_from_few_rows():
    made = choose([1.0, 2.0] * 30, [0, 0] * 29 + [0, 1], response="count")
    assert made.name == "Identity"
    choice = made.choice
    assert (choice.reason, choice.rows, choice.rows_outside_mode) == (ChoiceReason.TOO_FEW_ROWS, 60, 1)
    np.testing.assert_array_equal(made.predict([1.5]), [1.5])


def test_an_amount_that_decides_alone_does_not():
    """One amount of a million among small ones moves every mean that it enters, and no repair rests on it."""
    m, y, X, _, _ = mean_repairs.drawn("real", "nothing", 3000, 4)
    y[0] = 1e7
    assert choose(m, y, X, response="real").name == "Identity"


# ------------------------------------------------------------------------------------------------ files and pages
def test_a_repair_is_judged_place_by_place_on_unseen_rows():
    m, y, X, exposure, _ = mean_repairs.drawn("count", "region", 16_000, 1)
    fit, test = np.arange(8000), np.arange(8000, 16_000)
    names = {name: values[fit] for name, values in X.items()}
    made = GroupWise(MeanScaling(), columns=["region"])
    made.fit(m[fit], y[fit], names, response="count", exposure=exposure[fit])
    columns = {name: values[test] for name, values in X.items()}
    unseen = miscal.Predictions(y[test], m[test], response="count", exposure=exposure[test], columns=columns)
    record = miscal.repair(unseen, made, effort="quick")
    (place,) = [place for place in record.places if place["where"] == "region c"]
    assert place["verdict"] == "gone"
    here = X["region"][test] == "c"
    share = exposure[test][here] / exposure[test][here].sum()
    assert place["before"]["gap"] == pytest.approx(
        share @ m[test][here] - y[test][here].sum() / exposure[test][here].sum()
    )
    after = made.predict(m[test], columns)
    assert place["after"]["predicted"] == pytest.approx(share @ after[here])
    low, high = place["after"]["interval"]
    assert low < place["after"]["gap"] < high < 0.1
    assert record.about["deviance_change"]["value"] < 0
    assert "points" not in repr(record)


@pytest.mark.parametrize("response", ["count", "real"])
def test_the_command_repairs_a_table_of_means(response, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    m, y, X, exposure, _ = mean_repairs.drawn(response, "spread", 6000, 1)
    years = {} if exposure is None else {"years": exposure}
    pq.write_table(pa.table({"happened": y, "expected": m, **years, **X}), "t.parquet")
    given = ["--outcome", "happened", "--prediction", "expected", "--response", response, "--effort", "quick"]
    given += ["--exposure", "years"] if years else []
    done = CliRunner().invoke(main, ["recalibrate", "t.parquet", *given])
    assert done.exit_code == 0, done.output
    assert "miscal apply t-repair.json FILE --prediction expected" in done.output
    model = Recalibrator.from_json((tmp_path / "t-repair.json").read_text())
    table = pq.read_table("t-repaired.parquet")
    np.testing.assert_array_equal(table["recalibrated"].to_numpy(), model.predict(m, X))
    again = CliRunner().invoke(main, ["apply", "t-repair.json", "t.parquet", "--prediction", "expected"])
    assert again.exit_code == 0, again.output
    np.testing.assert_array_equal(pq.read_table("t-recalibrated.parquet")["recalibrated"], table["recalibrated"])
    page = (tmp_path / "t-repair.html").read_text()
    assert "The deviance changes by" in page
    assert "Log loss" not in page


# ------------------------------------------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PlattScaling().fit([1.0, 2.0], [1, 3], response="count"), "fits no outcome that is count"),
        (lambda: MeanScaling().fit([0.1, 0.2], [0, 1]), "fits no outcome that is binary"),
        (lambda: MeanScaling().fit([0.1, 0.2], [0, 1], response="counts"), "'binary', 'real', 'count'"),
        (lambda: MeanScaling().fit([0.1, 0.2], [0, 1], exposure=[1, 1]), "exposure"),
        (lambda: MeanScaling().fit([-0.1, 0.2], [0, 1], response="count"), "must not be negative"),
        (lambda: MeanScaling().fit([0.1, 0.2], [0, 0.5], response="count"), "whole numbers"),
        (lambda: MeanScaling("linear").fit([0.1, 0.2], [0, 1], response="count"), "must stay above 0"),
        (lambda: MeanScaling("factor").fit([-0.1, 0.2], [0, 1], response="real"), "at least 0 for a factor"),
        (lambda: fitted().predict_proba([0.1]), r"predict\(\)"),
        (lambda: fitted().predict([-0.1]), "'prediction' must not be negative"),
        (lambda: fitted().to_onnx(), "this repairs means"),
        (lambda: fit_to(MeanScaling(), {"y": [0, 1], "p": [1, 2]}, outcome="y", probability="p"), "to probabilities"),
        (lambda: HistogramBinning().fit([0.1, 0.8], [0, 1]).predict([0.1]), r"predict_proba\(\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_words(call, message):
    with pytest.raises(MiscalError, match=message):
        call()


def fitted():
    return MeanScaling().fit([0.1, 0.2, 0.4], [0, 1, 2], response="count")
