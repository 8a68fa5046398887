"""Results have typed fields, and `extra` is a view of them under the names that programs know."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest

import miscal
from miscal.data.target import select_target
from miscal.metrics.cell_evaluation import WorstCell
from miscal.metrics.field import CommonShift, measure_field
from miscal.metrics.score import CertainPredictions, measure_score
from miscal.metrics.subpopulation import DescribedSubpopulation
from miscal.metrics.variable import measure_variable
from miscal.results import COMMON, Estimate, Histogram, Result
from miscal.stats.null_model import choose_null


@pytest.fixture(scope="module")
def predictions():
    rng = np.random.default_rng(3)
    score = rng.beta(2, 3, 1500).round(2)
    columns = {"age": rng.integers(20, 80, 1500), "state": rng.choice(["CA", "NV", "TX"], 1500)}
    return miscal.Predictions(rng.random(1500) < score, score, columns=columns)


@pytest.fixture(scope="module")
def results(predictions):
    synthetic = miscal.datasets.calibrated_classes(600)
    classes = miscal.Predictions(synthetic.y_true, synthetic.y_prob)
    return {
        "score": miscal.by_score(predictions),
        "variable": miscal.by_variable(predictions, "age"),
        "field": miscal.by_field(predictions, ["state", "age"], bins=4),
        "neighbourhood": miscal.by_neighbourhood(predictions, ["age", "state"], simulations=19),
        "subpopulation": miscal.by_subpopulation(predictions, subpopulations=20, simulations=19),
        "variation": miscal.by_variation(classes),
        "class": miscal.by_class(classes),
    }


def test_each_kind_has_a_class_of_its_own(results):
    assert {kind: result.kind for kind, result in results.items()} == {kind: kind for kind in results}
    assert len({type(result) for result in results.values()}) == len(results)
    for result in results.values():
        with pytest.raises(FrozenInstanceError):
            result.value = 0.0


def test_records_are_typed_and_their_view_is_plain(results):
    score, variable, field = results["score"], results["variable"], results["field"]
    assert isinstance(score.kuiper, Estimate)
    assert isinstance(score.certain, CertainPredictions)
    assert isinstance(score.histogram, Histogram)
    assert isinstance(variable.worst, WorstCell)
    assert isinstance(field.differences, CommonShift)
    assert isinstance(results["subpopulation"].worst[0], DescribedSubpopulation)
    assert score.extra["kuiper"] == score.kuiper.value
    assert score.extra["kuiper_noise"]["p_value"] == score.kuiper.p_value
    assert score.extra["slope"] == {"value": score.slope.value, "interval": [score.slope.low, score.slope.high]}
    assert score.extra["certain"]["without_slope"] == score.certain.without_slope
    assert variable.extra["range"] == variable.kuiper_range
    assert variable.extra["worst"] == {
        "where": variable.worst.where,
        "gap": variable.worst.gap,
        "cell": variable.worst.cell,
    }
    assert results["neighbourhood"].extra["map"] is results["neighbourhood"].local_map


def test_the_view_has_every_field_that_is_not_none_and_nothing_else(results):
    inside = {"kuiper_from", "kuiper_to"}  # of `kuiper_noise`
    further = {"tests", "p_least", "kuiper_noise", "smooth_noise"}
    for result in results.values():
        declared = {
            one.metadata.get("key", one.name)
            for one in fields(result)
            if one.name not in (*COMMON, *inside) and getattr(result, one.name) is not None
        }
        assert declared == set(result.extra) - further
        with pytest.raises(TypeError):
            result.extra["value"] = 1.0


def test_results_keep_their_fields_through_pickle_and_json(results):
    for result in results.values():
        again = pickle.loads(pickle.dumps(result))  # our own
        assert type(again) is type(result)
        np.testing.assert_equal(again.to_dict(), result.to_dict())
        assert set(result.to_dict()) == {*COMMON, "extra"} - {"tests", "p_resolution"}
        assert isinstance(again, Result)


def test_an_absent_field_is_absent_in_the_view(results):
    short = replace(results["variable"], curve=None, density=None)
    assert "curve" in results["variable"].extra
    assert not {"curve", "density"} & set(short.extra)


@pytest.mark.parametrize("null", ["bernoulli", "residual"])
def test_target_data_at_hand_give_the_same_results(predictions, null):
    data = select_target(predictions, "auto")
    null_model = choose_null(data, null)
    columns = [predictions.columns["age"]]
    score, variable = measure_score(data, null_model), measure_variable(data, null_model, columns)
    np.testing.assert_equal(score.to_dict(), miscal.by_score(predictions, null=null).to_dict())
    np.testing.assert_equal(
        variable.to_dict()["table"], miscal.by_variable(predictions, "age", null=null).to_dict()["table"]
    )
    assert variable.p_value == miscal.by_variable(predictions, "age", null=null).p_value


def test_levels_at_hand_give_the_same_result(predictions):
    from miscal.cells.coding import nested_levels

    data = select_target(predictions, "auto")
    settings = {"column": "state", "parent": None, "bins": None}
    levels = nested_levels([predictions.columns["state"]])
    result = measure_field(data, choose_null(data, "bernoulli"), levels, settings)
    np.testing.assert_equal(result.to_dict(), miscal.by_field(predictions, "state").to_dict())
