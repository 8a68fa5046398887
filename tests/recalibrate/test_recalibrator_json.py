"""JSON that is not ours is refused with a MiscalError and nothing else, whatever it holds."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone

from miscal.data.errors import MiscalError
from miscal.recalibrate import (
    AugmentedBeta,
    BetaCalibration,
    HistogramBinning,
    KernelCalibration,
    LocalRecalibration,
    MulticalibrationBoost,
    PlattScaling,
    Recalibrator,
    StructuredScaling,
    VariableTree,
)
from miscal.recalibrate.probability_arrays import as_two_columns, normalise_rows
from miscal.recalibrate.serialization import LATER_PARAMETERS
from tests.laws.recalibrators import every, keeping, skip_without_its_library

SMALL = {  # in place of examples whose documents are long
    "LocalRecalibration": LocalRecalibration(columns=["v"], bins=3),
    "MulticalibrationBoost": MulticalibrationBoost(rounds=1, leaves=2),
    "VariableTree": VariableTree(max_depth=2),
}
KINDS = [SMALL.get(type(made).__name__, made) for made in keeping("json", every())]
KINDS += [StructuredScaling("matrix"), AugmentedBeta(degree=2), KernelCalibration(base="platt")]


def fitted(made, classes=2):
    skip_without_its_library(made)
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(classes), 300)
    y = (p.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1)
    X = {"v": np.where(rng.random(300) < 0.1, np.nan, rng.normal(size=300)), "w": rng.choice(["a", "b", None], 300)}
    return clone(made).fit(p, y, X), p, X


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "3",
        '"BetaCalibration"',
        "{}",
        '{"schema": "miscal.recalibrator/2"}',
        '{"schema": "miscal.recalibrator/1"}',
        '{"schema": "miscal.recalibrator/1", "class": "os.system", "params": {}, "state": null}',
        '{"schema": "miscal.recalibrator/1", "class": "Recalibrator", "params": {"x": 1}, "state": null}',
        '{"schema": "miscal.recalibrator/1", "class": ["Identity"], "params": {}, "state": null}',
        '{"schema": "miscal.recalibrator/1", "class": "Identity", "params": {}, "state": null, "more": 1}',
        '{"schema": "miscal.recalibrator/1", "class": "Identity", "class": "Identity", "params": {}, "state": null}',
        '{"schema": "miscal.recalibrator/1", "class": "Identity", "params": [], "state": null}',
        '{"schema": "miscal.recalibrator/1", "class": "Identity", "params": {}, "state": []}',
        '{"schema": "miscal.recalibrator/1", "class": "PlattScaling", "params": {}, "state": null}',
        '{"schema": "miscal.recalibrator/1", "class": "PlattScaling", "params": {"on": "x", "l2": 0}, "state": null}',
        '{"schema": "miscal.recalibrator/1", "class": "PlattScaling", "params": {"on": [], "l2": 0}, "state": null}',
        '{"schema": "miscal.recalibrator/1", "class": "PlattScaling", "params": {"on": "logit", "l2": NaN}}',
        '{"schema": "miscal.recalibrator/1", "class": "Identity", "params": {}, "state": {"n_rows_": Infinity}}',
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 10_000,
        "\x00",
        b"\xff\xfe\xfa",
        None,
        7,
        {"schema": "miscal.recalibrator/1"},
    ],
    ids=lambda text: repr(text)[:60],
)
def test_text_that_is_not_ours(text):
    with pytest.raises(MiscalError):
        Recalibrator.from_json(text)


@pytest.mark.parametrize("text", ["[1]", "3", "null", '"words"'])
def test_json_that_is_no_object_is_refused_in_our_words(text):
    with pytest.raises(MiscalError, match=r"^the saved model is not a model written by .*; it holds no JSON object\.$"):
        Recalibrator.from_json(text)


def test_nesting_has_an_end():
    inner = json.loads(VariableTree().to_json())
    inner.pop("schema")
    document = inner
    for _ in range(50):
        document = {**json.loads(json.dumps(inner)), "params": {**inner["params"], "leaf": document}}
    with pytest.raises(MiscalError):
        Recalibrator.from_json(json.dumps({"schema": "miscal.recalibrator/1", **document}))


def test_another_class_is_refused():
    text = fitted(PlattScaling())[0].to_json()
    with pytest.raises(MiscalError, match="holds a PlattScaling, not a BetaCalibration"):
        BetaCalibration.from_json(text)


WRONG = [
    None,
    True,
    "x",
    -7,
    10**400,
    1e308,
    [],
    [[]],
    [1.0],
    [[1.0, 2.0], [3.0]],
    [[["deep"]]],
    {},
    {"class": "Identity", "params": {}, "state": None},
    [float(i) for i in range(200)],
    ["a", "a"],
]


def places(value, path=()):
    """Every place of a document at which another value could stand."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for i in range(min(len(value), 3)):
            yield from places(value[i], (*path, i))


def faults(document, classes):
    """Places and wrong values: every value at the first place of a field, one or another at its further places.

    Parameters know nothing of classes: with three of them one or another value is tried, with two every one was. So of
    maps inside others: by themselves every one was.
    """
    seen = set()
    for number, path in enumerate(list(places(document))[1:]):
        field = tuple("each" if isinstance(step, int) else step for step in path)
        inside = sum(step in ("params", "state") for step in path) > 1
        known = field in seen or inside or (classes > 2 and "params" in path)
        yield from ((path, value) for value in ([WRONG[number % len(WRONG)]] if known else WRONG))
        seen.add(field)


def replaced(document, path, value):
    """The text of the document with another value in one place; the document stays as it was."""
    here = document
    for step in path[:-1]:
        here = here[step]
    before, here[path[-1]] = here[path[-1]], value
    text = json.dumps(document)
    here[path[-1]] = before
    return text


@pytest.mark.parametrize("made", KINDS, ids=repr)
@pytest.mark.parametrize("classes", [2, 3])
def test_every_wrong_value_is_refused_or_harmless(made, classes):
    """A changed document is refused, or it predicts probabilities; never another exception, never a wrong shape."""
    if classes == 3 and made.binary_only:
        with pytest.raises(MiscalError, match="two classes"):
            fitted(made, classes)
        return
    good, p, X = fitted(made, classes)
    document = json.loads(good.to_json())
    tried = refused = 0
    for path, value in faults(document, classes):
        tried += 1
        try:
            out = Recalibrator.from_json(replaced(document, path, value)).predict_proba(p, X)
        except MiscalError:
            refused += 1
            continue
        assert out.shape[0] == 300
        assert np.isfinite(out).all()
        assert (out >= 0).all()
        assert (out <= 1 + 1e-12).all()
    assert json.loads(good.to_json()) == document
    assert refused > tried / 2


@pytest.mark.parametrize("made", KINDS, ids=repr)
def test_every_missing_or_added_field_is_refused(made):
    document = json.loads(fitted(made)[0].to_json())
    for part in (document, document["params"], document["state"]):
        for name in [each for each in part if each not in LATER_PARAMETERS]:  # what an older version's files lack
            value = part.pop(name)
            with pytest.raises(MiscalError):
                Recalibrator.from_json(json.dumps(document))
            part[name] = value
        part["more"] = 1
        with pytest.raises(MiscalError):
            Recalibrator.from_json(json.dumps(document))
        del part["more"]
    assert Recalibrator.from_json(json.dumps(document)).is_fitted()


@pytest.mark.parametrize("name", ["cuts_", "ranges_"])
def test_numbers_too_large_for_a_float_are_refused(name):
    """JSON may write 1e999, which reads as infinity."""
    document = json.loads(fitted(VariableTree(max_depth=2))[0].to_json())
    document["state"][name][0][0] = "HERE"
    with pytest.raises(MiscalError, match=name):
        Recalibrator.from_json(json.dumps(document).replace('"HERE"', "1e999"))


def test_parameters_that_are_not_data_are_refused():
    with pytest.raises(MiscalError, match="'bins'"):
        HistogramBinning(bins=object()).to_json()


def test_classes_keep_their_type():
    p, y = np.array([0.2, 0.4, 0.6, 0.7]), np.array([0, 1, 0, 1])
    for labels in (y, y == 1):
        made = PlattScaling().fit(p, labels)
        again = PlattScaling.from_json(made.to_json())
        assert again.classes_.dtype == made.classes_.dtype
        assert again.classes_.tolist() == made.classes_.tolist()


def test_a_class_of_another_module_does_not_take_the_place_of_ours():
    """A user's own PlattScaling is written under its module's name, and ours stays ours."""
    text = fitted(PlattScaling())[0].to_json()
    ours = PlattScaling

    class Mine(Recalibrator):
        """Halves every probability."""

        def _fit(self, sample):
            pass

        def _map(self, probability):
            return (
                as_two_columns(probability / 2)
                if probability.ndim == 1
                else normalise_rows(probability.copy(), probability)
            )

    Mine.__name__ = "PlattScaling"
    theirs = type("PlattScaling", (Mine,), {"__module__": "theirs.models", "__qualname__": "PlattScaling"})
    assert type(Recalibrator.from_json(text)) is ours
    made = theirs().fit([0.2, 0.8], [0, 1])
    document = json.loads(made.to_json())
    assert document["class"] == "theirs.models.PlattScaling"
    again = Recalibrator.from_json(made.to_json())
    assert type(again) is theirs
    assert again.predict_proba([0.5])[0, 1] == 0.25
    with pytest.raises(MiscalError, match="not a PlattScaling"):
        theirs.from_json(text)
    with pytest.raises(MiscalError, match=r"it holds a theirs\.models\.PlattScaling, not a PlattScaling"):
        ours.from_json(made.to_json())


@pytest.mark.parametrize(
    "name",
    ["Recalibrator", "ColumnRecalibrator", "miscal.recalibrate.by_columns.base.ColumnRecalibrator", "choose"],
)
def test_what_is_no_recalibrator_is_refused(name):
    document = {"schema": "miscal.recalibrator/1", "class": name, "params": {}, "state": None}
    with pytest.raises(MiscalError, match="there is no recalibrator"):
        Recalibrator.from_json(json.dumps(document))
