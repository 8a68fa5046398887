"""Each stage of an audit takes frozen values and returns new ones: candidates, evidence, judgements, explanations."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass

import numpy as np
import pytest

import miscal
from miscal.auditing.options import AuditOptions
from miscal.auditing.search import candidates, evidence, explain, judge, search_context, target_search, tested_segments
from miscal.auditing.search.coded_columns import fine_coding
from miscal.auditing.search.collect import search_target
from miscal.auditing.search.crossings import search_pairs
from miscal.auditing.search.segment_tests import attach_profiles
from miscal.data.target import select_target


@pytest.fixture(scope="module")
def search() -> target_search.TargetSearch:
    random = np.random.default_rng(8)
    n = 20_000
    p, age = random.beta(2.0, 5.0, n), random.normal(45.0, 12.0, n)
    region = random.choice(["north", "south", "east"], n)
    truth = np.clip(p + 0.12 * ((age > 60) & (region == "south")) - 0.08 * (region == "north"), 0.0, 1.0)
    columns = {"age": age, "region": region, "group": random.choice(["a", "b"], n)}
    predictions = miscal.Predictions(random.random(n) < truth, p, columns=columns)
    target_data = select_target(predictions)
    coded = [fine_coding(column) for column in predictions.columns.values()]
    options = AuditOptions()
    return search_pairs(search_target(predictions, target_data, coded, "auto", "", options), options)


def written(value: object, depth: int = 6) -> object:
    """Everything that a value holds, as text that can be compared."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, dict):
        return [(repr(key), written(item, depth - 1)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [written(item, depth - 1) for item in value]
    if is_dataclass(value) and depth:
        return [(field.name, written(getattr(value, field.name), depth - 1)) for field in fields(value)]
    return repr(value) if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__


def test_judging_and_explaining_change_nothing_that_they_are_given(search):
    before = written(search)
    (target,) = judge.judge([search], 0.05)
    assert written(search) == before
    judged = written(target)
    first, second = explain.explain(target), explain.explain(target)
    assert written(target) == judged
    assert first.listed
    assert written(first) == written(second)
    assert {"region", "age"} & {name for entry in first.listed for name in entry.segment.segment.names}


def test_evidence_and_judgement_belong_to_their_candidate(search):
    (target,) = judge.judge([search], 0.05)
    assert len(target.segments) > 3
    for tested in target.segments:
        assert tested.id == tested.candidate.id == tested.evidence.candidate_id == tested.judgement.candidate_id
        assert tested.weight == pytest.approx(tested.members.size)
        raw = target.context.raw
        error = np.sum(raw.predicted[tested.members] - raw.observed[tested.members])
        assert tested.error == pytest.approx(error, abs=1e-6)
        assert tested.profile.raw.off.sum() == pytest.approx(error, abs=1e-6)


def test_profiles_come_back_in_the_order_of_their_segments(search):
    (target,) = judge.judge([search], 0.05)
    mixed = [*target.segments[::2], *target.segments[1::2]]
    attached = attach_profiles([one.with_profile(None) for one in mixed], target.context)
    assert [one.id for one in attached] == [one.id for one in mixed]
    for one, again in zip(mixed, attached, strict=True):
        assert np.array_equal(one.profile.raw.off, again.profile.raw.off)


def test_the_types_of_every_stage_are_frozen(search):
    modules = (candidates, evidence, judge, search_context, target_search, tested_segments, explain)
    types = [
        value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and is_dataclass(value) and value.__module__ == module.__name__
        if not name.startswith("_")
    ]
    assert len(types) >= 12
    assert [one.__name__ for one in types if not one.__dataclass_params__.frozen] == []
    (target,) = judge.judge([search], 0.05)
    with pytest.raises(FrozenInstanceError):
        target.segments[0].judgement.adjusted_p = 0.0
