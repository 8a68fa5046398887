"""Laws that hold for every recalibrator on any data."""

from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import miscal.recalibrate as package
from miscal.data.errors import MiscalError, MiscalWarning
from miscal.recalibrate import (
    AugmentedBeta,
    AugmentedLogistic,
    BetaCalibration,
    GroupWise,
    HistogramBinning,
    IsotonicCalibration,
    LocalRecalibration,
    NeuralCalibration,
    PlattScaling,
    Recalibrator,
    ScalingBinning,
    StructuredScaling,
    VectorScaling,
)
from tests.laws.recalibrators import breaks, every, keeping, kinds, rows, skip_without_its_library

MAKERS = [
    *every(),
    PlattScaling(on="probability", l2=1.0),
    StructuredScaling("matrix", strength=0.1),
    BetaCalibration(constraint="none", l2=1.0),
    AugmentedLogistic(l2=0.5),
    GroupWise(PlattScaling(), min_rows=10, pooling=False),
]
EACH = pytest.mark.parametrize("made", MAKERS, ids=repr)


def keeping_law(law):
    return pytest.mark.parametrize("made", keeping(law, MAKERS), ids=repr)


def test_every_recalibrator_is_listed_and_can_be_read_again():
    assert {kind.__name__ for kind in kinds()} == set(package.kinds())


@st.composite
def samples(draw, classes=None):
    """Probabilities (often rounded, with exact 0 and 1), outcomes, a column, whole weights."""
    seed = draw(st.integers(0, 2**32 - 1))
    size = draw(st.integers(30, 120))
    digits = draw(st.sampled_from([1, 2, 15]))
    classes = draw(st.sampled_from([2, 2, 3])) if classes is None else classes
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), size)
    y = (p.cumsum(axis=1) < rng.random((size, 1))).sum(axis=1).clip(0, classes - 1)
    y[:classes] = np.arange(classes)
    p = p[:, 1].round(digits) if classes == 2 else p
    X = {"v": rng.integers(0, 9, size).astype(float), "level": rng.choice(["a", "b"], size)}
    return p, y, X, rng.integers(1, 4, size), rng


def fit(made, p, y, X, weight=None):
    skip_without_its_library(made)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MiscalWarning)
        return clone(made).fit(p, y, X, sample_weight=weight)


def taken(made, sample):
    """The sample as this one takes it: for two classes only, the first against the rest."""
    p, y, *rest = sample
    return (p[:, 0], (y == 0).astype(int), *rest) if made.binary_only and p.ndim == 2 else sample


def picked(X, rows):
    return {name: values[rows] for name, values in X.items()}


@keeping_law("repetition")
@settings(max_examples=10)
@given(samples())
def test_a_whole_weight_is_repetition(made, sample):
    p, y, X, weight, _ = taken(made, sample)
    again = np.repeat(np.arange(len(y)), weight)
    one = fit(made, p, y, X, weight.astype(float))
    two = fit(made, p[again], y[again], picked(X, again))
    np.testing.assert_allclose(one.predict_proba(p, X), two.predict_proba(p, X), atol=1e-7)


@given(samples(classes=2))
def test_for_isotonic_and_histogram_repetition_is_bit_for_bit(sample):
    p, y, X, weight, _ = sample
    again = np.repeat(np.arange(len(y)), weight)
    for made in (IsotonicCalibration(), HistogramBinning(bins=6)):
        one, two = fit(made, p, y, X, weight.astype(float)), fit(made, p[again], y[again], picked(X, again))
        np.testing.assert_array_equal(one.predict_proba(p), two.predict_proba(p))


@keeping_law("order")
@settings(max_examples=10)
@given(samples())
def test_the_order_of_rows_does_not_matter(made, sample):
    p, y, X, _, rng = taken(made, sample)
    order = rng.permutation(len(y))
    one, two = fit(made, p, y, X), fit(made, p[order], y[order], picked(X, order))
    np.testing.assert_allclose(one.predict_proba(p, X), two.predict_proba(p, X), atol=1e-7)


def assert_ranking_is_kept(fitted, p, X, rng):
    if p.ndim == 1:
        # Beta calibration puts exactly 0 and 1 at 1e-4 and 1 - 1e-4, so nothing else may lie beyond.
        grid = np.sort(np.concatenate([rng.uniform(1e-4, 1 - 1e-4, 50), [0.0, 1.0], p.round(3)]))
        with_x = {name: np.repeat(values[:1], len(grid)) for name, values in X.items()}
        assert (np.diff(fitted.predict_proba(grid, with_x)[:, 1]) >= -1e-15).all()
    else:
        for before, after in zip(p, fitted.predict_proba(p, X), strict=True):
            assert (np.diff(after[np.argsort(before)]) >= -1e-15).all()


@EACH
@settings(max_examples=10)
@given(samples())
def test_answers_are_probabilities_row_by_row_in_the_ranking_that_is_promised_and_survive_json(made, sample):
    """A row's answer does not depend on the rows beside it. One fit for all four laws: fitting is what takes long."""
    p, y, X, _, rng = taken(made, sample)
    fitted = fit(made, p, y, X)
    out = fitted.predict_proba(p, X)
    assert (out >= 0).all()
    np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-12)
    some = rng.permutation(len(y))[:7]
    np.testing.assert_allclose(out[some], fitted.predict_proba(p[some], picked(X, some)), atol=1e-14)
    if fitted.keeps_ranking:
        assert_ranking_is_kept(fitted, p, X, rng)
    if breaks("json", made):
        with pytest.raises(MiscalError, match="JSON"):
            fitted.to_json()
        return
    np.testing.assert_array_equal(Recalibrator.from_json(fitted.to_json()).predict_proba(p, X), out)


@given(samples(classes=2))
def test_histogram_binning_is_calibrated_on_its_own_rows(sample):
    p, y, _, weight, _ = sample
    made = HistogramBinning(bins=6, smooth=0).fit(p, y, sample_weight=weight.astype(float))
    out = made.predict_proba(p)[:, 1]
    place = np.searchsorted(np.arange(1, 6) / 6, p, side="left")
    gaps = np.bincount(place, weights=weight * (out - y))
    np.testing.assert_allclose(gaps, 0.0, atol=1e-10)


@given(samples(classes=2))
def test_isotonic_is_calibrated_on_its_own_rows(sample):
    """Among the rows of each value that it gives, the outcome's mean is that value."""
    p, y, _, _, _ = sample
    out = fit(IsotonicCalibration(smooth=0), p, y, None).predict_proba(p)[:, 1]
    for value in np.unique(out):
        assert abs(y[out == value].mean() - value) < 1e-12


@pytest.mark.parametrize("made", [PlattScaling(), BetaCalibration("none"), VectorScaling(), AugmentedBeta()], ids=repr)
@given(samples(classes=2))
def test_without_a_penalty_the_mean_is_met(made, sample):
    p, y, X, weight, _ = taken(made, sample)
    out = fit(made, p, y, X, weight.astype(float)).predict_proba(p, X)[:, 1]
    np.testing.assert_allclose(weight @ out, weight @ y, atol=1e-6 * weight.sum())


@pytest.mark.parametrize(
    "made", [m for m in keeping("calibrated", MAKERS) if not isinstance(m, PlattScaling) or m.on == "logit"], ids=repr
)
def test_calibrated_probabilities_are_left_alone_within_noise(made):
    """On 20,000 calibrated rows no map moves the middle of the scale by more than 0.06, about five standard errors."""
    rng = np.random.default_rng(7)
    p = rng.uniform(0.02, 0.98, 20_000)
    y = (rng.random(20_000) < p).astype(int)
    X = {"v": rng.normal(size=20_000), "level": rng.choice(["a", "b"], 20_000)}
    out = fit(made, p, y, X).predict_proba(p, X)[:, 1]
    binned = isinstance(made, (HistogramBinning, ScalingBinning, IsotonicCalibration, LocalRecalibration))
    assert np.abs(out - p).mean() < (0.08 if binned else 0.02)
    assert abs(out.mean() - p.mean()) < 0.015


@EACH
def test_the_number_of_threads_changes_no_bit(made, monkeypatch):
    rng = np.random.default_rng(3)
    size = 30_000
    p = rng.dirichlet(np.ones(3), size)
    y = (p.cumsum(axis=1) < rng.random((size, 1))).sum(axis=1)
    X = {"v": rng.normal(size=size), "level": rng.choice(["a", "b"], size)}
    p, y = taken(made, (p, y))
    monkeypatch.setenv("MISCAL_THREADS", "1")
    one = fit(made, p, y, X)
    monkeypatch.setenv("MISCAL_THREADS", "2")
    two = fit(made, p, y, X)
    if breaks("json", made):
        np.testing.assert_array_equal(one.predict_proba(p, X), two.predict_proba(p, X))
    else:
        assert one.to_json() == two.to_json()


@pytest.mark.parametrize("made", every(), ids=repr)
@pytest.mark.parametrize("classes", [2, 3])
def test_predicting_changes_nothing_and_threads_may_share_a_recalibrator(made, classes):
    skip_without_its_library(made)
    p, y, X = rows(classes)
    if made.binary_only and classes > 2:
        with pytest.raises(MiscalError, match="two classes"):
            fit(made, p, y, X)
        return
    fitted = fit(made, p, y, X)
    row = {name: values[0].item() for name, values in X.items()}
    alone = clone(made)
    alone.__dict__.update(pickle.loads(pickle.dumps(vars(fitted))))
    before, expected, one = pickle.dumps(vars(fitted)), alone.predict_proba(p, X), alone.apply_one(p[0], row)

    def work(_):
        return [(fitted.predict_proba(p, X), fitted.apply_one(p[0], row)) for _ in range(3)]

    with ThreadPoolExecutor(8) as pool:
        for answers in pool.map(work, range(8)):
            for table, single in answers:
                np.testing.assert_array_equal(table, expected)
                assert single == one
    assert pickle.dumps(vars(fitted)) == before


@EACH
def test_one_row_is_a_table_of_one_row(made):
    for classes in (2,) if made.binary_only else (2, 3):
        p, y, X = rows(classes)
        fitted = fit(made, p, y, X)
        for i in range(5):
            row = {name: values[i].item() for name, values in X.items()}
            np.testing.assert_allclose(
                fitted.apply_one(p[i].tolist(), row), fitted.predict_proba(p[i : i + 1], picked(X, [i]))[0], atol=1e-12
            )


@EACH
@pytest.mark.parametrize("write", ["to_sql", "to_onnx"])
def test_a_formula_is_there_or_refused_in_words(made, write):
    p, y, X = rows(2)
    fitted = fit(made, p, y, X)
    try:
        fitted.formula()
    except MiscalError:
        with pytest.raises(MiscalError, match="has no formula"):
            getattr(fitted, write)()
        return
    if isinstance(made, NeuralCalibration) and write == "to_sql":
        with pytest.raises(MiscalError, match="holds a network"):
            fitted.to_sql()
        return
    assert len(getattr(fitted, write)()) > 0
