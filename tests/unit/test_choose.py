"""Choosing a recalibrator: do no harm, use only what is allowed, say why."""

from __future__ import annotations

import numpy as np
import pytest

from miscal.data.errors import MiscalError
from miscal.recalibrate import (
    AugmentedLogistic,
    BetaCalibration,
    HistogramBinning,
    IsotonicCalibration,
    PlattScaling,
    choose,
)


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
    touched = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = rng.beta(2, 3, 600)
        y = (rng.random(600) < p).astype(int)
        found = choose(p, y, candidates={"platt": PlattScaling(), "beta": BetaCalibration()}, random_state=seed)
        touched += found.name != "Identity"
    assert touched <= 6


def test_a_bent_score_is_mended(rng: np.random.Generator) -> None:
    p = rng.beta(2, 3, 4000)
    y = (rng.random(4000) < p**2).astype(int)
    found = choose(p, y, candidates={"platt": PlattScaling(), "beta": BetaCalibration()})
    assert found.name in ("platt", "beta")
    assert found.table["log_loss_difference"].min() < 0
    assert found.keeps_ranking
    assert "lowers the log loss on unseen rows" in found.reason
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
    assert "too few rows" in found.reason


def test_a_candidate_that_is_certain_and_wrong_cannot_win(rng: np.random.Generator) -> None:
    p = np.round(rng.random(800), 3)
    y = (rng.random(800) < p).astype(int)
    found = choose(p, y, candidates={"isotonic": IsotonicCalibration(), "narrow": HistogramBinning(bins=400)})
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
    from miscal.plots import ChoiceDisplay

    p, y, X = groups
    found = choose(p, y, X, by=["race"], candidates={**SMALL, "narrow": HistogramBinning(bins=4000)})
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
