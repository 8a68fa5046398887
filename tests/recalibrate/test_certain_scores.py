"""No repair rules out what it has not seen: half an event, penalised leaves, certainties pulled in."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone

from miscal.recalibrate import (
    AugmentedLogistic,
    BetaCalibration,
    Blend,
    GroupWise,
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    LocalRecalibration,
    MulticalibrationBoost,
    PlattScaling,
    Recalibrator,
    TemperatureScaling,
    VariableTree,
    choose,
)
from studies.certainties import calibrated, excess


@pytest.mark.parametrize(("classes", "most"), [(2, 0.1), (3, 0.25)])
def test_small_leaves_of_a_tree_give_no_certainties(classes: int, most: float) -> None:
    """50 rows, leaves of 5: without the penalty the mean is 5.1 for two classes and 1.6 for three."""
    grown = [excess(VariableTree(columns=["v", "w"]), 50, seed, classes) for seed in range(20)]
    assert np.mean(grown) < most


@pytest.mark.parametrize(
    "made",
    [
        HistogramBinning(bins=40),
        IsotonicCalibration(),
        LocalRecalibration(bandwidth=0.05, bins=10, columns=["v", "w"]),
        LocalRecalibration(kernel="group", columns=["g"]),
        GroupWise(HistogramBinning(bins=20), columns=["g"], min_rows=5, pooling=False),
        GroupWise(IsotonicCalibration(), columns=["g"], min_rows=5),
        GroupWise(PlattScaling(), columns=["g"], min_rows=3, pooling=False),
    ],
    ids=repr,
)
@pytest.mark.parametrize("weight", [None, 1e-6])
def test_what_was_not_seen_is_not_ruled_out(made: Recalibrator, weight: float | None) -> None:
    assert all(np.isfinite(excess(made, 60, seed)) for seed in range(10))
    p, y, X = calibrated(200, 3)
    given = None if weight is None else np.full(200, weight)
    out = clone(made).fit(p, y, X, given).predict_proba(p, X)
    assert out.min() > 0
    if weight is not None:  # shares in place of counts
        np.testing.assert_allclose(out, clone(made).fit(p, y, X).predict_proba(p, X), atol=1e-9)


def test_half_an_event_and_none() -> None:
    p, y = np.repeat([0.1, 0.9], [9, 4]), np.repeat([0, 1], [9, 4])
    for made in (HistogramBinning(bins=2), IsotonicCalibration()):
        np.testing.assert_allclose(made.fit(p, y).predict_proba([0.1, 0.9])[:, 1], [0.5 / 10, 1 - 0.5 / 5], atol=1e-15)
        assert made.set_params(smooth=0).fit(p, y).predict_proba([0.1, 0.9])[:, 1].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("level", [0.0, 1e-7])
@pytest.mark.parametrize(
    "made",
    [
        PlattScaling(), BetaCalibration(), TemperatureScaling(), AugmentedLogistic(), MulticalibrationBoost(),
        VariableTree(), GroupWise(PlattScaling(), columns=["g"]), IsotonicCalibration(),
        Blend([Identity(), PlattScaling()]),
    ],
    ids=repr,
)  # fmt: skip
def test_certainties_that_were_wrong_are_pulled_in(made: Recalibrator, level: float) -> None:
    """300 rows said 0 (or 1e-7) beside 10,000 calibrated ones, and 5 happened; the same at the other end."""
    p, y, X = calibrated(10_300, 0)
    p[:300], y[:300] = level, np.arange(300) < 5
    for score, outcome in ((p, y), (1 - p, 1 - y)):
        fitted = clone(made).fit(score, outcome, X)
        out = fitted.predict_proba(score, X)[:300]
        said = out[:, 1].sum() if score is p else out[:, 0].sum()
        assert 2.0 < said < 12.0, said
        one = {name: values[0].item() for name, values in X.items()}
        np.testing.assert_allclose(fitted.apply_one(float(score[0]), one), out[0], atol=1e-12)
        again = Recalibrator.from_json(fitted.to_json())
        np.testing.assert_array_equal(again.predict_proba(score, X)[:300], out)


def test_certainties_that_held_move_less_than_the_next_score() -> None:
    p, y, _ = calibrated(5000, 1)
    p = np.clip(p, 0.001, 0.999)
    p[:300], y[:300] = 0.0, 0
    made = PlattScaling().fit(p, y)
    low, high = made.clip_range_
    assert 0 < low <= 0.001
    assert high == 1.0
    assert 0 < made.predict_proba([0.0])[0, 1] <= made.predict_proba([0.001])[0, 1]
    assert not hasattr(PlattScaling(keep_certain=True).fit(p, y), "clip_range_")
    assert not hasattr(PlattScaling().fit(p[300:], y[300:]), "clip_range_")


def test_calibrated_scores_are_hardly_ever_held() -> None:
    held = [hasattr(PlattScaling().fit(*calibrated(2000, seed)[:2]), "clip_range_") for seed in range(200)]
    assert sum(held) <= 2


def test_choose_pulls_certainties_in() -> None:
    p, y, X = calibrated(6300, 2)
    p[:300], y[:300] = 0.0, np.arange(300) < 9
    found = choose(p, y, X, candidates=[PlattScaling(), AugmentedLogistic()])
    assert found.name != "Identity"
    assert found.predict_proba(p, X)[:300, 1].sum() > 3


def test_an_infinite_bandwidth_and_older_files_can_be_read() -> None:
    p, y, X = calibrated(100, 4)
    made = LocalRecalibration(bandwidth=np.inf, columns=["v"]).fit(p, y, X)
    text = made.to_json()
    again = Recalibrator.from_json(text)
    assert again.bandwidth == np.inf
    np.testing.assert_array_equal(again.predict_proba(p, X), made.predict_proba(p, X))
    old = json.loads(HistogramBinning().fit(p, y).to_json())
    del old["params"]["smooth"], old["params"]["keep_certain"]
    assert Recalibrator.from_json(json.dumps(old)).smooth == 0.5


def test_a_bin_that_nobody_is_in_keeps_the_score() -> None:
    made = HistogramBinning(bins=10).fit(np.array([0.05, 0.07, 0.95, 0.93]), [0, 1, 1, 1])
    np.testing.assert_array_equal(made.predict_proba([0.31, 0.58])[:, 1], [0.31, 0.58])
