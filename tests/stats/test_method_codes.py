"""Methods and reasons are codes: each has its words, and no answer depends on them."""

from collections.abc import Iterator
from enum import Enum

import numpy as np
import pytest

import miscal
from miscal import words
from miscal.codes import inference
from miscal.codes.inference import Method, MethodNote, NullReason
from miscal.words.inference import combined_tests

CODES = [
    code
    for enum in vars(inference).values()
    if isinstance(enum, type) and issubclass(enum, Enum) and enum.__module__ == inference.__name__
    for code in enum
]
FIELDS = dict.fromkeys(("sample", "rows", "tests", "events", "count", "centres", "draws", "exceedances"), 3)
FIELDS |= {"method": "exact", "reason": "too small", "features": "age"}


@pytest.mark.parametrize("code", CODES, ids=repr)
def test_every_code_has_words(code: Enum) -> None:
    text = words.sentence(code, **FIELDS)
    assert text
    assert "{" not in text


def test_reasons_and_notes_are_sentences() -> None:
    for code in (*NullReason, *MethodNote):
        text = words.sentence(code, **FIELDS)
        assert text[0].isupper() or text[0].isdigit() or text.startswith("p-value"), text
        assert text.endswith("."), text


def test_a_combined_test_names_all_its_parts() -> None:
    tests = [inference.PartialTest.TOTAL, inference.PartialTest.TREND, inference.PartialTest.BEND]
    assert combined_tests(tests, 999) == "p-value: total, trend and bend combined, on 999 common draws."


@pytest.fixture
def nonsense(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every template says the same."""
    words.load_templates()
    with monkeypatch.context() as patch:
        for key in list(words.TEMPLATES):
            patch.setitem(words.TEMPLATES, key, "few events nonsense")
        yield


def _numbers(result: miscal.Result) -> list[object]:
    columns = {name: values.tolist() for name, values in result.table.items()}
    return [result.value, result.noise_floor, result.p_value, result.interval, columns, result.extra.get("p_least")]


def _results() -> list[miscal.Result]:
    rng = np.random.default_rng(5)
    score = rng.beta(1.0, 8.0, 900)
    columns = {"age": rng.integers(20, 80, 900), "state": rng.choice(["CA", "NV", "TX"], 900)}
    plain = miscal.Predictions(rng.random(900) < score, score, columns=columns)
    clustered = miscal.Predictions(plain.outcome, score, columns=columns, cluster=np.arange(900) % 60)
    calls = [miscal.by_score, lambda p: miscal.by_field(p, "state"), lambda p: miscal.by_variable(p, "age")]
    calls += [lambda p: miscal.by_subpopulation(p, subpopulations=10, simulations=39)]
    calls += [lambda p: miscal.by_neighbourhood(p, ["age"], simulations=19), miscal.by_variation]
    return [call(data) for data in (plain, clustered) for call in calls]


def test_no_number_depends_on_the_words(nonsense: None) -> None:
    translated = _results()
    assert all("nonsense" in result.method for result in translated)
    with pytest.MonkeyPatch.context() as patch:
        for key, text in ORIGINAL.items():
            patch.setitem(words.TEMPLATES, key, text)
        plain = _results()
    assert not any("nonsense" in result.method for result in plain)
    assert list(map(repr, map(_numbers, translated))) == list(map(repr, map(_numbers, plain)))


ORIGINAL = dict(words.load_templates())


def test_a_simulated_p_value_is_known_by_its_code() -> None:
    assert [method for method in Method if method.simulated] == [
        Method.SIGN_FLIPS,
        Method.SIMULATION,
        Method.CLUSTER_DRAWS,
    ]
