"""The contract that every recalibrator keeps: shapes, policies for poor data, refusals, copies."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import miscal.recalibrate as package
from miscal.data.errors import MiscalError, MiscalWarning
from miscal.recalibrate import (
    AugmentedBeta,
    AugmentedLogistic,
    BetaCalibration,
    Blend,
    DirichletCalibration,
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    PlattScaling,
    Recalibrator,
    ScalingBinning,
    StructuredScaling,
    TemperatureScaling,
    VariableTree,
    VectorScaling,
)
from tests.laws.recalibrators import breaks, every, skip_without_its_library

VARIANTS = [
    PlattScaling(on="probability", l2=1.0),
    StructuredScaling("matrix"),
    HistogramBinning(bins=5, strategy="quantile"),
    HistogramBinning(bins=[0.0, 0.3, 1.0]),
    BetaCalibration(constraint="none", l2=1.0),
    DirichletCalibration(reference=False, intercept_l2=0.1),
    VariableTree(leaf=PlattScaling(l2=1.0), max_depth=2, min_leaf=20),
    AugmentedLogistic(degree=2),
    AugmentedBeta(l2=1.0),
]
ALL = every() + VARIANTS
CASES = pytest.mark.parametrize("made", ALL, ids=repr)


# What fits an intercept, or rates, meets the observed rate where all scores are equal.
MEETING_THE_RATE = (
    PlattScaling, VectorScaling, HistogramBinning, IsotonicCalibration, BetaCalibration, ScalingBinning,
    DirichletCalibration, AugmentedLogistic, AugmentedBeta,
)  # fmt: skip
# Curves that a perfect separation drives to infinity, unless there is a penalty: they stop, and warn.
WITHOUT_END = (
    PlattScaling, TemperatureScaling, VectorScaling, StructuredScaling, BetaCalibration, ScalingBinning,
    AugmentedLogistic, AugmentedBeta,
)  # fmt: skip


def cases_of(*classes):
    """All of them with each number of classes that they are for."""
    both = [(made, k) for made in ALL for k in classes if k == 2 or not made.binary_only]
    return pytest.mark.parametrize(("made", "classes"), both, ids=repr)


@pytest.fixture(autouse=True)
def _library(request):
    """The network needs torch, which is an extra."""
    if "made" in request.fixturenames:
        skip_without_its_library(request.getfixturevalue("made"))


def rows(classes, size=400, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), size)
    y = (p.cumsum(axis=1) < rng.random((size, 1))).sum(axis=1)
    X = {"v": rng.normal(size=size), "level": rng.choice(["a", "b", "c"], size)}
    return (p[:, 1] if classes == 2 else p), y, X


@cases_of(2, 3, 5)
def test_predictions_are_rows_that_sum_to_one(made, classes):
    p, y, X = rows(classes)
    out = clone(made).fit(p, y, X).predict_proba(p, X)
    assert out.shape == (400, classes)
    assert out.dtype == np.float64
    assert (out >= 0).all()
    np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-12)


@CASES
def test_two_columns_are_the_second(made):
    p, y, X = rows(2)
    wide = np.stack([1 - p, p], axis=1)
    one, two = clone(made).fit(p, y, X), clone(made).fit(wide, y, X)
    np.testing.assert_array_equal(one.predict_proba(p, X), two.predict_proba(wide, X))


@cases_of(2, 4)
def test_json_pickle_and_clone(made, classes):
    p, y, X = rows(classes)
    fitted = clone(made).fit(p, y, X)
    expected = fitted.predict_proba(p, X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(p, X), expected)
    fresh = clone(fitted)
    assert not fresh.is_fitted()
    if breaks("json", made):
        return
    for text in (fitted.to_json(), fitted.to_json().encode()):
        again = type(fitted).from_json(text)
        np.testing.assert_array_equal(again.predict_proba(p, X), expected)
        assert again.to_json() == fitted.to_json()
        assert repr(again) == repr(fitted)
        assert again.keeps_ranking == fitted.keeps_ranking
    assert type(Recalibrator.from_json(fitted.to_json())) is type(fitted)
    assert Recalibrator.from_json(fresh.to_json()).to_json() == fresh.to_json()


@CASES
def test_one_class_leaves_probabilities_alone(made):
    p, _, X = rows(2, 50)
    with pytest.warns(MiscalWarning):
        fitted = clone(made).fit(p, np.zeros(50, dtype=int), X)
    np.testing.assert_array_equal(fitted.predict_proba(p, X), np.stack([1 - p, p], axis=1))
    assert fitted.keeps_ranking
    assert "one class" in repr(fitted)
    if breaks("json", made):
        return
    again = Recalibrator.from_json(fitted.to_json())
    np.testing.assert_array_equal(again.predict_proba(p, X), fitted.predict_proba(p, X))


@cases_of(2, 3)
@pytest.mark.filterwarnings("ignore::miscal.data.errors.MiscalWarning")
def test_twenty_rows_and_certain_probabilities(made, classes):
    p, y, X = rows(classes, 20, seed=3)
    if classes == 2:
        p[:4] = [0.0, 1.0, 0.0, 1.0]
        y[:4] = [0, 1, 1, 0]
    else:
        p[:3] = np.eye(3)
        y[:3] = [1, 1, 2]
    out = clone(made).fit(p, y, X).predict_proba(p, X)
    assert np.isfinite(out).all()
    np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-12)


@CASES
@pytest.mark.parametrize("level", [0.0, 0.3, 1.0])
@pytest.mark.filterwarnings("ignore::miscal.data.errors.MiscalWarning")
def test_equal_scores_give_a_constant(made, level):
    rng = np.random.default_rng(0)
    y = np.arange(100) % 4 == 0
    X = {"v": np.zeros(100), "level": rng.choice(["a"], 100)}
    out = clone(made).fit(np.full(100, level), y, X).predict_proba(np.full(5, level), {k: v[:5] for k, v in X.items()})
    assert np.isfinite(out).all()
    assert (out == out[0]).all()
    if isinstance(made, MEETING_THE_RATE) and getattr(made, "l2", 0) == 0:
        np.testing.assert_allclose(out[0, 1], 0.25, atol=1e-9)


@CASES
def test_separable_classes_stay_finite(made):
    p = np.linspace(0.01, 0.99, 60)
    y = (p > 0.5).astype(int)
    X = {"v": np.tile([0.0, 1.0, 2.0], 20), "level": np.tile(["a", "b"], 30)}
    if isinstance(made, WITHOUT_END) and getattr(made, "l2", 0.0) == 0.0:
        with pytest.warns(MiscalWarning, match=r"separated|beyond every bound"):
            fitted = clone(made).fit(p, y, X)
    else:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MiscalWarning)
            fitted = clone(made).fit(p, y, X)
    out = fitted.predict_proba(p, X)
    assert np.isfinite(out).all()
    if isinstance(made, (*WITHOUT_END, Identity, IsotonicCalibration, DirichletCalibration)) and not hasattr(
        made, "on"
    ):
        assert ((out[:, 1] > 0.5) == (y == 1)).all()


@CASES
def test_rows_of_weight_zero_are_ignored(made):
    p, y, X = rows(2, 300)
    weight = np.ones(300)
    weight[::3] = 0.0
    kept = weight > 0
    part = {name: values[kept] for name, values in X.items()}
    one = clone(made).fit(p, y, X, sample_weight=weight)
    two = clone(made).fit(p[kept], y[kept], part, sample_weight=weight[kept])
    np.testing.assert_allclose(one.predict_proba(p, X), two.predict_proba(p, X), atol=1e-12)
    assert one.n_rows_ == 200


@cases_of(4)
@pytest.mark.filterwarnings("ignore::miscal.data.errors.MiscalWarning")
def test_a_class_that_does_not_occur(made, classes):
    p, y, X = rows(classes)
    seen = y != 2
    part = {name: values[seen] for name, values in X.items()}
    out = clone(made).fit(p[seen], y[seen], part).predict_proba(p, X)
    assert np.isfinite(out).all()
    np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-12)


def test_one_against_the_rest_keeps_a_class_that_does_not_occur():
    p, y, _ = rows(4)
    seen = y != 2
    made = BetaCalibration().fit(p[seen], y[seen])
    assert [each.identity_ for each in made.per_class_] == [False, False, True, False]
    other = BetaCalibration().fit(p[seen][:, 0], y[seen] == 0).predict_proba(p[:, 0])[:, 1]
    out = made.predict_proba(p)
    np.testing.assert_allclose(out[:, 2] / out[:, 0], p[:, 2] / other, rtol=1e-9)


@CASES
def test_no_rows_to_predict(made):
    p, y, X = rows(2)
    nothing = {name: values[:0] for name, values in X.items()}
    assert clone(made).fit(p, y, X).predict_proba(p[:0], nothing).shape == (0, 2)


def test_labels_of_any_kind():
    p, y, _ = rows(2)
    assert BetaCalibration().fit(p, y == 1).classes_.tolist() in ([False, True], [0, 1])
    assert BetaCalibration().fit(p.tolist(), y.tolist()).classes_.tolist() == [0, 1]


def test_refitting_forgets():
    p, y, _ = rows(2)
    made = BetaCalibration().fit(*rows(4)[:2])
    made.fit(p, y)
    assert made.predict_proba(p).shape == (400, 2)
    with pytest.raises(MiscalError):
        made.fit(p, np.full(400, 7))
    assert not made.is_fitted()


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (PlattScaling(on="logits"), "on"),
        (PlattScaling(l2=-1), "l2"),
        (PlattScaling(l2=float("nan")), "l2"),
        (PlattScaling(l2="1"), "l2"),
        (BetaCalibration(constraint="negative"), "constraint"),
        (BetaCalibration(clip=0.0), "clip"),
        (BetaCalibration(clip=0.9), "clip"),
        (HistogramBinning(bins=0), "bins"),
        (HistogramBinning(bins=2.5), "bins"),
        (HistogramBinning(bins=[0.5, 0.1]), "bins"),
        (HistogramBinning(bins="ten"), "bins"),
        (HistogramBinning(strategy="even"), "strategy"),
        (IsotonicCalibration(out_of_bounds="raise"), "out_of_bounds"),
        (ScalingBinning(bins=True), "bins"),
        (ScalingBinning(renormalise=1), "renormalise"),
        (DirichletCalibration(l2=-1e-9), "l2"),
        (DirichletCalibration(intercept_l2="x"), "intercept_l2"),
        (DirichletCalibration(reference=None), "reference"),
        (VariableTree(max_depth=0), "max_depth"),
        (VariableTree(min_leaf=0.0), "min_leaf"),
        (VariableTree(min_leaf=0.7), "min_leaf"),
        (VariableTree(leaf="beta"), "leaf"),
        (VariableTree(leaf=VariableTree()), "leaf"),
        (VariableTree(columns=1.5), "columns"),
        (VariableTree(columns=[]), "columns"),
        (VariableTree(random_state=-1), "random_state"),
        (AugmentedLogistic(degree=0), "degree"),
        (AugmentedLogistic(on="odds"), "on"),
        (AugmentedBeta(constraint=None), "constraint"),
    ],
    ids=repr,
)
def test_wrong_parameters_are_named(made, name):
    p, y, X = rows(2)
    with pytest.raises(MiscalError, match=f"'{name}'"):
        made.fit(p, y, X)


@CASES
def test_wrong_inputs_are_refused(made):
    p, y, X = rows(2)
    with pytest.raises(MiscalError, match="not fitted"):
        clone(made).predict_proba(p)
    for bad in ([1.2] * 400, [np.nan] * 400, ["a"] * 400, np.ones((400, 3)), np.ones((4, 4, 4)), None):
        with pytest.raises(MiscalError):
            clone(made).fit(bad, y, X)
    with pytest.raises(MiscalError):
        clone(made).fit(p, y[:-1], X)
    with pytest.raises(MiscalError):
        clone(made).fit(p, y, X, sample_weight=-np.ones(400))
    with pytest.raises(MiscalError):
        clone(made).fit([], [], X)
    fitted = clone(made).fit(p, y, X)
    with pytest.raises(MiscalError, match="classes"):
        fitted.predict_proba(np.full((400, 4), 0.25), X)


def test_isotonic_holds_what_lies_outside():
    made = IsotonicCalibration(out_of_bounds="clip").fit([0.2, 0.5, 0.8], [0, 1, 1])
    np.testing.assert_array_equal(made.predict_proba([0.1, 0.9]), made.predict_proba([0.2, 0.8]))


@pytest.mark.parametrize(
    ("made", "promised"),
    [
        (Identity(), True),
        (PlattScaling(), False),
        (TemperatureScaling(), True),
        (VectorScaling(), False),
        (StructuredScaling(), False),
        (Blend([Identity(), TemperatureScaling()]), True),
        (Blend([Identity(), VectorScaling()]), False),
        (HistogramBinning(), False),
        (IsotonicCalibration(), True),
        (BetaCalibration(), True),
        (BetaCalibration(constraint="none"), False),
        (ScalingBinning(), False),
        (DirichletCalibration(), False),
        (VariableTree(), False),
        (AugmentedLogistic(), False),
        (AugmentedBeta(), False),
    ],
    ids=repr,
)
def test_what_is_promised_of_the_ranking(made, promised):
    assert made.keeps_ranking is promised


def test_ranking_is_told_after_fitting():
    p, y, _ = rows(2)
    assert PlattScaling().fit(p, y).keeps_ranking
    assert not PlattScaling().fit(p, 1 - y).keeps_ranking
    assert not BetaCalibration(constraint="none").fit(p, 1 - y).keeps_ranking
    assert BetaCalibration().fit(p, 1 - y).keeps_ranking
    assert not BetaCalibration().fit(*rows(3)[:2]).keeps_ranking


def test_empty_bins_leave_probabilities_alone():
    made = HistogramBinning(bins=10).fit([0.05, 0.15, 0.95, 0.92], [0, 1, 1, 0])
    np.testing.assert_array_equal(made.predict_proba([0.5, 0.94])[:, 1], [0.5, 0.5])
    np.testing.assert_array_equal(made.predict_proba([0.55])[:, 1], [0.55])


def test_rows_mapped_to_nothing_keep_their_own():
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.1, 0.7]] * 4)
    y = np.array([1, 2, 0] * 4)
    made = HistogramBinning(bins=2).fit(p, y)
    out = made.predict_proba(p)
    np.testing.assert_allclose(out.sum(axis=1), 1.0)
    lost = [[0.6, 0.3, 0.1]]
    for each in made.per_class_:
        each.values_ = np.zeros(2)
    np.testing.assert_allclose(made.predict_proba(lost), lost)


def test_the_list_of_names_is_true():
    for name in package.__all__:
        assert callable(getattr(package, name))
    assert dir(package) == package.__all__
    with pytest.raises(AttributeError, match="Nothing"):
        package.Nothing  # noqa: B018
