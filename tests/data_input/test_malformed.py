"""Whatever is wrong ends in a MiscalError that says where: never another exception, never a number."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest

from miscal.data.errors import MiscalError
from miscal.data.predictions import Predictions
from miscal.data.sources import read
from tests.data_input.malformed_cases import ARRAYS, TABLES, all_cases, chosen, good

EVERY = all_cases()
CASES = chosen(EVERY)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_malformed_input_is_refused_by_name_and_row(case, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(MiscalError) as caught:
            case.call(tmp_path)
    text = str(caught.value)
    for words in case.says:
        assert words in text, f"{words!r} is not in: {text}"


def test_no_kind_of_fault_dominates_the_table():
    kinds = Counter(case.kind for case in CASES)
    assert max(kinds.values()) <= 0.05 * len(CASES)
    assert len({str(case) for case in CASES}) == len(CASES)


def test_the_choice_holds_every_pair_of_what_all_cases_try():
    tried = set().union(*(case.pairs() for case in CASES))
    assert all(case.pairs() <= tried for case in EVERY)
    assert {case.kind for case in CASES} == {case.kind for case in EVERY}
    assert len(CASES) < len(EVERY) / 4


@pytest.mark.parametrize("container", TABLES)
def test_the_same_table_without_a_fault_is_accepted(container, tmp_path):
    # The control: what the cases above refuse is the fault, not the container.
    roles = {"weight": "w", "cluster": "c", "id": "i"}
    source = TABLES[container](good(), tmp_path)
    binary = read(source, outcome="y", probability="p", **roles)
    assert binary.outcome.tolist() == good()["y"]
    assert binary.probability.tolist() == good()["p"]
    assert binary.weight.tolist() == good()["w"]
    assert binary.columns["x"].values.tolist() == good()["x"]
    words = read(source, outcome="label", probability="p", positive="late")
    assert words.outcome.tolist() == [1 - y for y in good()["y"]]
    classes = read(source, outcome="animal", probability=["cat", "dog", "eel"])
    assert classes.outcome.tolist() == good()["class"]
    counted = read(source, outcome="y", probability="p", count="k")
    assert counted.count.sum() == sum(good()["k"])


@pytest.mark.parametrize("container", ARRAYS)
def test_the_same_arrays_without_a_fault_are_accepted(container):
    make = ARRAYS[container]
    made = {name: make(values) for name, values in good().items()}
    accepted = Predictions(
        made["y"], made["p"], weight=made["w"], cluster=made["c"], id=made["i"], columns={"x": made["x"]}
    )
    assert accepted.outcome.tolist() == good()["y"]
    assert accepted.probability.tolist() == good()["p"]
    assert accepted.cluster.tolist() == [i // 3 for i in range(12)]
