"""Choosing a recalibrator: do no harm, use only what is allowed, say why."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from miscal.codes.recalibration import ChoiceReason
from miscal.data.errors import MiscalError
from miscal.metrics import log_loss
from miscal.recalibrate import (
    AugmentedLogistic,
    BetaCalibration,
    Blend,
    HistogramBinning,
    IsotonicCalibration,
    PlattScaling,
    Recalibrator,
    choose,
)
from miscal.stats.isotonic import assign_folds
from tests.trials import too_often


@pytest.fixture
def groups(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Two groups of the same scores, one with 60% of the predicted events."""
    n = 6000
    p = rng.beta(2, 4, n)
    race = rng.choice(["a", "b"], n)
    proxy = np.where(race == "a", 0.0, 1.0) + 0.4 * rng.normal(size=n)
    y = (rng.random(n) < np.where(race == "a", 0.6 * p, p)).astype(int)
    return p, y, {"race": race, "proxy": proxy, "noise": rng.normal(size=n)}


SMALL = {"platt": PlattScaling(), "beta": BetaCalibration(), "augmented": AugmentedLogistic()}


def test_calibrated_probabilities_are_left_alone() -> None:
    """Identity wins ties: of 40 calibrated data sets at most 6 may be touched (the 99.9% point at a rate of 5%)."""

    def touched(seed: int) -> dict[str, bool]:
        rng = np.random.default_rng(seed)
        p = rng.beta(2, 3, 600)
        y = (rng.random(600) < p).astype(int)
        found = choose(p, y, candidates={"platt": PlattScaling(), "beta": BetaCalibration()}, random_state=seed)
        return {"touched": found.name != "Identity"}

    assert not too_often(touched, 40, 6)


def test_a_bent_score_is_mended(rng: np.random.Generator) -> None:
    p = rng.beta(2, 3, 4000)
    y = (rng.random(4000) < p**2).astype(int)
    found = choose(p, y, candidates={"platt": PlattScaling(), "beta": BetaCalibration()})
    assert found.name in ("platt", "beta")
    assert found.table["log_loss_difference"].min() < 0
    assert found.keeps_ranking
    assert found.choice.reason == ChoiceReason.LOWEST_LOSS
    assert found.choice.gain > 0
    assert found.predict_proba(p).shape == (4000, 2)


def test_only_allowed_columns_are_used_and_all_audited_ones_measured(
    groups: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]],
) -> None:
    p, y, X = groups
    free = choose(p, y, X, by=["race"], candidates=SMALL)
    blind = choose(p, y, X, by=["race"], allowed=["proxy", "noise"], candidates=SMALL)
    assert free.name == "augmented"
    assert "by race" in blind.table
    assert "by proxy" not in blind.table
    without = {name: values for name, values in X.items() if name != "race"}
    np.testing.assert_array_equal(blind.predict_proba(p, X), blind.predict_proba(p, without))
    before = blind.table["by race"][0]
    row = blind.table["name"].tolist().index(blind.name)
    assert blind.table["by race"][row] < before
    with pytest.raises(MiscalError, match="did you mean 'race'"):
        choose(p, y, X, allowed=["rase"], candidates=SMALL)


def test_too_few_rows_give_identity_with_the_reason() -> None:
    rng = np.random.default_rng(0)
    found = choose(rng.random(30), rng.integers(0, 2, 30))
    assert found.name == "Identity"
    assert found.choice.reason == ChoiceReason.TOO_FEW_ROWS
    assert found.choice.rows == 30


def test_a_candidate_that_is_certain_and_wrong_cannot_win(rng: np.random.Generator) -> None:
    p = np.round(rng.random(800), 3)
    y = (rng.random(800) < p).astype(int)
    found = choose(
        p, y, candidates={"isotonic": IsotonicCalibration(smooth=0), "narrow": HistogramBinning(400, smooth=0)}
    )
    assert found.name == "Identity"
    assert np.isinf(found.table["log_loss"]).any()


def test_weights_of_zero_are_ignored(rng: np.random.Generator) -> None:
    p = rng.beta(2, 3, 1000)
    y = (rng.random(1000) < p**2).astype(int)
    weight = np.where(np.arange(1000) < 800, 1.0, 0.0)
    options = {"candidates": {"platt": PlattScaling()}}
    one = choose(p, y, sample_weight=weight, **options)
    two = choose(p[:800], y[:800], **options)
    assert one.table["log_loss"].tolist() == pytest.approx(two.table["log_loss"].tolist(), abs=1e-12)


@pytest.mark.parametrize("wrong", ["best", [PlattScaling(), PlattScaling()], {"mine": object()}])
def test_wrong_candidates_are_refused(wrong: object) -> None:
    with pytest.raises(MiscalError, match="candidates"):
        choose([0.1, 0.9] * 50, [0, 1] * 50, candidates=wrong)


def test_the_plot_of_the_choice_draws_the_table(
    groups: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]],
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from studies.displays import ChoiceDisplay

    p, y, X = groups
    found = choose(p, y, X, by=["race"], candidates={**SMALL, "narrow": HistogramBinning(4000, smooth=0)})
    display = ChoiceDisplay(found).plot()
    drawn = display.frame()
    assert drawn["name"].tolist() == [
        "Identity",
        "platt",
        "beta",
        "augmented",
    ]  # the narrow one ruled out what happened
    bold = [label.get_text() for label in display.ax_.get_yticklabels() if label.get_fontweight() == "bold"]
    assert bold == [found.name]
    with pytest.raises(MiscalError, match="choose"):
        ChoiceDisplay(PlattScaling())


def test_rows_of_a_cluster_count_once(rng: np.random.Generator) -> None:
    """Each row five times over: without clusters the same evidence looks five times as strong."""
    p = np.repeat(rng.beta(2, 3, 400), 5)
    y = np.repeat((rng.random(400) < p[::5] ** 1.3).astype(int), 5)
    few = {"platt": PlattScaling()}
    wide = choose(p, y, candidates=few, cluster=np.arange(2000) // 5).table
    narrow = choose(p, y, candidates=few).table
    width = [float(t["difference_high"][1] - t["difference_low"][1]) for t in (wide, narrow)]
    assert width[0] / width[1] > 1.8  # about the root of 5
    with pytest.raises(MiscalError, match="cluster"):
        choose(p, y, candidates=few, cluster=[1, 2])


def test_the_blend_is_taken_where_it_helps_and_can_be_shipped(
    rng: np.random.Generator, groups: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]
) -> None:
    """Judged by weights of the other folds, refitted on all rows, explained by its shares, the same from JSON."""
    p, _, X = groups
    truth = np.where(X["race"] == "a", 0.6 * p, p) * (1.0 - 0.4 * (np.abs(X["noise"]) > 0.7)) + 0.1 * X["proxy"].clip(
        0, 1
    )
    y = (rng.random(6000) < truth).astype(int)
    found = choose(p, y, X, by=["race"])
    assert found.name == "Blend"
    assert isinstance(found, Blend)
    row = found.table["name"].tolist().index("Blend")
    singles = np.delete(found.table["log_loss"], row)
    assert found.table["log_loss"][row] <= singles[np.isfinite(singles)].min() + 0.001
    assert found.table["by race"][row] < 0.3 * found.table["by race"][0]
    assert sum(share for _, share in found.choice.weights) == pytest.approx(1.0)
    assert len(found.choice.weights) > 1
    assert found.choice.audited_error.after < 0.3 * found.choice.audited_error.before
    again = Recalibrator.from_json(found.to_json())
    np.testing.assert_array_equal(again.predict_proba(p, X), found.predict_proba(p, X))
    few = slice(0, 500)
    one, two = (choose(p[few], y[few], {name: values[few] for name, values in X.items()}) for _ in range(2))
    assert one.to_json() == two.to_json()


def test_the_p_value_holds_for_right_probabilities_and_is_small_for_wrong_ones() -> None:
    """(y - p) times the change of the logit over its standard error, that of two folds that judge each other."""
    chances = []
    for seed in range(200):
        rng = np.random.default_rng([seed, 1])
        p = rng.beta(2, 3, 400)
        y = (rng.random(400) < p).astype(int)
        found = choose(p, y, candidates={"platt": PlattScaling()}, cv=2, random_state=seed)
        chances.append(found.table["p_value"][1])
    assert 1 <= np.sum(np.array(chances) < 0.05) <= 21  # 22 of 200 at 5% have a chance of 0.05%
    rng = np.random.default_rng(0)
    p = rng.beta(2, 3, 2000)
    y = (rng.random(2000) < 0.85 * p).astype(int)
    found = choose(p, y, candidates={"platt": PlattScaling()}, cv=2)
    folds = assign_folds(2000, 2, random_state=0)
    moved = np.empty(2000)
    for fold in range(2):
        train = folds != fold
        moved[~train] = PlattScaling().fit(p[train], y[train]).predict_proba(p[~train])[:, 1]
    parts = (y - p) * (np.log(moved / (1 - moved)) - np.log(p / (1 - p)))
    assert found.table["p_value"][1] == pytest.approx(norm.sf(parts.sum() / np.sqrt(2 * parts @ parts)), rel=1e-9)
    assert found.name == "platt"
    # The gain is too small to be told from nothing by its own interval, but the scores are refuted.
    assert found.table["p_value"][1] < 1e-3


def test_several_classes_are_blended(rng: np.random.Generator) -> None:
    p = rng.dirichlet(np.ones(4), 2000)
    truth = p ** np.array([1.5, 1.0, 1.0, 0.7])
    truth /= truth.sum(axis=1, keepdims=True)
    y = (truth.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
    found = choose(p, y)
    assert "StructuredScaling(vector)" in found.table["name"].tolist()
    assert found.name != "Identity"
    assert log_loss(y, found.predict_proba(p)) < log_loss(y, p)


@pytest.mark.slow
def test_calibrated_probabilities_are_left_alone_by_all_candidates_and_their_blend() -> None:
    """At most 5% of calibrated data sets are touched: 4 or more of 8 would have a chance of 0.04%."""

    def touched(seed: int) -> dict[str, bool]:
        rng = np.random.default_rng([seed, 77])
        p = rng.beta(1.5, 3, 500)
        X = {"age": rng.integers(20, 80, 500).astype(float), "group": rng.choice(list("abcd"), 500)}
        found = choose(p, (rng.random(500) < p).astype(int), X, random_state=seed)
        return {"touched": found.name != "Identity"}

    assert not too_often(touched, 8, 3)


@pytest.mark.parametrize("cv", [1, 0, "five", 2.5, None])
def test_a_number_of_folds_that_leaves_no_row_out_is_refused(cv: object, rng: np.random.Generator) -> None:
    p = rng.beta(2, 3, 200)
    with pytest.raises(MiscalError, match="'cv' must be a whole number of at least 2"):
        choose(p, rng.random(200) < p**2, cv=cv)


def test_one_cluster_gives_identity_with_the_reason(rng: np.random.Generator) -> None:
    p = rng.beta(2, 3, 200)
    found = choose(p, rng.random(200) < p**2, cluster=np.zeros(200))
    assert found.name == "Identity"
    assert found.choice.reason == ChoiceReason.ONE_CLUSTER


def test_missing_labels_of_clusters_are_refused(rng: np.random.Generator) -> None:
    p = rng.beta(2, 3, 200)
    with pytest.raises(MiscalError, match="'cluster' must not be missing; row 0"):
        choose(p, rng.random(200) < p**2, cluster=[None, "a"] * 100)


def test_a_class_that_is_hardly_ever_seen_does_not_stop_the_others() -> None:
    """Six classes, one of them never seen: logits twice too large are still mended."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(1000, 6)) - 8.0 * (np.arange(6) == 5)
    right, sharp = (np.exp(k * logits) / np.exp(k * logits).sum(axis=1, keepdims=True) for k in (1.0, 2.0))
    y = (rng.random((1000, 1)) > right.cumsum(axis=1)).sum(axis=1)
    assert (y == 5).sum() < 2
    found = choose(sharp, y)
    assert found.name != "Identity"
    assert np.abs(found.predict_proba(sharp) - right).mean() < np.abs(sharp - right).mean() / 3
