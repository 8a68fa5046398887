"""Predictions of any mean: what comes in, and what is refused at the door."""

import numpy as np
import pytest

import miscal
from miscal.data.responses import Units
from miscal.data.target import select_target

TABLE = {"claims": [0, 3, 1], "rate": [0.5, 1.0, 2.0], "years": [1.0, 2.0, 0.5], "region": ["a", "b", "a"]}


def test_a_count_with_exposure_becomes_a_rate_whose_weight_is_the_exposure():
    p = miscal.read(TABLE, outcome="claims", prediction="rate", response="count", exposure="years")
    assert p.outcome.tolist() == [0.0, 1.5, 2.0]
    assert p.probability.tolist() == TABLE["rate"]
    compared = select_target(p)
    assert compared.weight.tolist() == TABLE["years"]
    total = float(np.sum(compared.weight * compared.observed)) * p.units.scale
    assert total == 4.0
    assert list(p.columns) == ["region"]


@pytest.mark.parametrize(
    ("y", "prediction", "options", "words"),
    [
        ([0.0, np.nan], [1.0, 2.0], {"response": "real"}, "missing; row 1"),
        ([0.0, 1.0], [1.0, np.inf], {"response": "real"}, "finite"),
        ([0, -1], [1.0, 2.0], {"response": "count"}, "whole numbers, 0 or more; row 1 has -1"),
        ([0, 1.5], [1.0, 2.0], {"response": "count"}, "amounts"),
        ([0, 1], [1.0, -2.0], {"response": "count"}, "not be negative"),
        ([0, 1], [1.0, 2.0], {"response": "count", "exposure": [1.0, 0.0]}, "above 0"),
        ([0, 1], [1.0, 2.0], {"response": "count", "exposure": [1.0, -1.0]}, "above 0"),
        ([0, 1], [0.1, 0.2], {"exposure": [1.0, 1.0]}, "needs response"),
        ([0, 1, 2], [0.1, 0.2, 0.3], {}, "counts, amounts or shares[?] say response='count' or response='real'"),
        ([0.0, 0.4, 0.6], [0.1, 0.2, 0.3], {}, "say response='count' or response='real'"),
        ([0, 1], [0.1, 0.2], {"response": "real", "positive": 1}, "needs response='binary'"),
        ([0, 1], [0.1, 0.2], {"response": "real", "count": [1, 1]}, "needs response='binary'"),
        ([0, 1], [[0.1, 0.9], [0.2, 0.8]], {"response": "real"}, "one-dimensional"),
        ([0, 1], [0.1, 0.2], {"response": "reel"}, "'real'"),
    ],
)
def test_what_cannot_be_a_mean_is_refused(y, prediction, options, words):
    with pytest.raises(miscal.MiscalError, match=words):
        miscal.Predictions(y, prediction, **options)


def test_a_column_of_predictions_is_named_once():
    with pytest.raises(miscal.MiscalError, match="'prediction' cannot go with 'probability'"):
        miscal.read(TABLE, outcome="claims", prediction="rate", probability="rate", response="count")


def test_an_exposure_needs_a_count_or_an_amount():
    for measure in (miscal.read, miscal.audit, miscal.by_score):
        with pytest.raises(miscal.MiscalError, match="column 'years' needs response='count'"):
            measure(TABLE, outcome="claims", prediction="rate", exposure="years")


def test_a_power_of_two_changes_no_digit():
    y, prediction = np.array([0.1, 7.3, 2.2]), np.array([0.3, 4.1, 2.9])
    for scale in (1.0, 8.0, 2.0**-40):
        p = miscal.Predictions(scale * y, scale * prediction, response="real")
        assert np.array_equal(select_target(p).predicted, prediction / 8.0)
        assert np.array_equal(p.units.back(select_target(p).observed), scale * y)
    assert miscal.Predictions([0, 1], [0.2, 0.9], response="real").units == Units()


def test_some_rows_and_other_predictions_keep_what_they_are():
    p = miscal.Predictions([0, 3, 1], [0.5, 1.0, 2.0], response="count", exposure=[1.0, 2.0, 0.5])
    assert p.take([2, 1]).exposure.tolist() == [0.5, 2.0]
    assert p.take([0]).units == p.units
    assert p.with_probability([9.0, 1.0, 1.0]).units.scale == 16.0
    assert "exposure" in repr(p)
