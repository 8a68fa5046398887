"""Laws that every score metric keeps: order, weights, scale of weights, perfection, containers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from random import Random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import miscal
from miscal import metrics
from miscal.metrics import METRICS
from tests.laws.batches import Batch, batches
from tests.laws.test_metric_laws import takes

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")

PLAIN = {
    name: line
    for name, line in METRICS.items()
    if takes(name) == ["y_true", "y_prob"] and line.perfect == 0.0 and line.home in ("score_errors", "losses")
}
EXACT: dict[str, Callable[..., float]] = {
    **{name: getattr(metrics, name) for name, line in PLAIN.items() if line.exact},
    "expected_l2": lambda *a, **k: metrics.expected_calibration_error(*a, norm="l2", **k),
    "expected_p3": lambda *a, **k: metrics.expected_calibration_error(*a, norm=3, **k),
    "given_edges": lambda *a, **k: metrics.expected_calibration_error(*a, bins=[0, 0.2, 0.9, 1], **k),
    "by_true_label": lambda *a, **k: metrics.classwise_calibration_error(*a, definition="true-label", **k),
    "top_label": lambda *a, **k: metrics.expected_calibration_error(*a, target="top", **k),
}
CLOSE: dict[str, Callable[..., float]] = {
    **{name: getattr(metrics, name) for name, line in PLAIN.items() if not line.exact},
    "miscalibration": lambda *a, **k: metrics.score_decomposition(*a, **k).miscalibration,
    "discrimination": lambda *a, **k: metrics.score_decomposition(*a, **k).discrimination,
}
ALL = {**EXACT, **CLOSE}
ERRORS = [name for name in ALL if name not in ("discrimination",)]


def same(one: float, two: float, bound: float = 1e-9) -> bool:
    return one == two or (math.isnan(one) and math.isnan(two)) or abs(one - two) <= bound * max(1.0, abs(one))


def weighted(metric: Callable[..., float], batch: Batch) -> float:
    return metric(batch.y, batch.p, sample_weight=batch.w)


def broken(law: Callable[[Callable[..., float]], bool], names: Iterable[str]) -> list[str]:
    """The metrics that do not keep a law; all are asked with one batch, because drawing it is what takes long."""
    return [name for name in names if not law(ALL[name])]


def shuffled(batch: Batch, random: Random) -> Batch:
    order = np.arange(batch.y.size)
    random.shuffle(order)  # type: ignore[arg-type]
    return batch.take(order)


@given(batch=batches(), random=st.randoms(use_true_random=False))
def test_row_order_changes_no_bit(batch: Batch, random: Random) -> None:
    mixed = shuffled(batch, random)
    assert not broken(lambda metric: metric(batch.y, batch.p) == metric(mixed.y, mixed.p), EXACT)
    assert not broken(lambda metric: weighted(metric, batch) == weighted(metric, mixed), EXACT)


@given(batch=batches(), random=st.randoms(use_true_random=False))
def test_row_order_changes_only_rounding(batch: Batch, random: Random) -> None:
    mixed = shuffled(batch, random)
    assert not broken(lambda metric: same(weighted(metric, batch), weighted(metric, mixed), 1e-7), CLOSE)


@given(batch=batches())
def test_whole_weights_are_repetition(batch: Batch) -> None:
    again = batch.repeated()
    assert not broken(lambda metric: weighted(metric, batch) == metric(again.y, again.p), EXACT)
    assert not broken(lambda metric: same(weighted(metric, batch), metric(again.y, again.p), 1e-7), CLOSE)


@given(batch=batches())
def test_the_scale_of_weights_does_not_matter(batch: Batch) -> None:
    scaled = Batch(batch.y, batch.p, 0.37 * batch.w)
    names = [name for name in ALL if name not in METRICS or "scale" not in METRICS[name].exempt]
    assert not broken(lambda metric: same(weighted(metric, batch), weighted(metric, scaled), 1e-7), names)


@given(batch=batches())
def test_rows_of_weight_zero_are_ignored(batch: Batch) -> None:
    zeros = batch + Batch(1 - batch.y, batch.p[::-1].copy(), np.zeros(batch.y.size))
    assert not broken(lambda metric: same(weighted(metric, batch), weighted(metric, zeros), 1e-7), ALL)


@given(y=st.lists(st.integers(0, 1), min_size=1, max_size=40))
def test_perfect_predictions_have_no_error(y: list[int]) -> None:
    assert not broken(lambda metric: metric(y, [float(v) for v in y]) == 0.0, ERRORS)


@pytest.mark.parametrize("name", ["kuiper_calibration_error", "classwise_calibration_error"])
@given(batch=batches(least=4, most=40))
def test_swapping_event_and_non_event_changes_nothing(name: str, batch: Batch) -> None:
    """Kuiper and bins that are symmetric about 1/2: 1 - p must not round, so scores are multiples of 1/16."""
    p = np.round(batch.p * 16) / 16
    p = np.clip(p + 1 / 64, 0, 1)  # off the bins' edges, where right-closed bins are not symmetric
    assert same(ALL[name](batch.y, p), ALL[name](1 - batch.y, 1 - p), 1e-12)


@pytest.mark.parametrize("name", ALL)
def test_containers_give_the_same_number(name: str) -> None:
    rng = np.random.default_rng(1)
    p = np.round(rng.random(200), 3)
    y = (rng.random(200) < p).astype(int)
    expected = ALL[name](y, p)
    for container in (list, pd.Series, pl.Series, pa.array):
        assert ALL[name](container(y), container(p)) == expected
    assert ALL[name](y, np.stack([1 - p, p], axis=1)) == expected or name in ("top_label",)


@pytest.mark.parametrize("name", EXACT)
def test_the_laws_can_fail(name: str) -> None:
    """A metric that looks at the first row only breaks the law of row order: the law is able to see it."""
    y, p = np.array([0, 1, 1]), np.array([0.2, 0.9, 0.4])
    first = lambda y, p: ALL[name](y[:2], p[:2])
    assert first(y, p) != first(y[::-1], p[::-1])


@pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")
@pytest.mark.parametrize("seed", range(8))
def test_tied_scores_have_the_quantile_bins_of_scikit_learn(seed):
    """Where the lowest score fills a bin it is not thrown together with the next: gaps of both would cancel."""
    from sklearn.calibration import calibration_curve

    rng = np.random.default_rng(seed)
    levels = np.sort(rng.random(rng.integers(2, 6)))
    p = levels[np.minimum(rng.geometric(0.5, 400) - 1, levels.size - 1)]
    y = rng.integers(0, 2, 400)
    found = miscal.by_score(miscal.Predictions(y, p), bins=10).table
    observed, predicted = calibration_curve(y, p, strategy="quantile", n_bins=10)
    assert np.allclose(found["predicted"], predicted)
    assert np.allclose(found["observed"], observed)


@pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")
def test_two_scores_that_are_each_the_wrong_way_round_do_not_cancel():
    found = miscal.audit({"y": [0, 1] * 100, "p": [0.9, 0.1] * 100}, outcome="y", probability="p")
    assert found.score["expected"] == pytest.approx(0.9)


@pytest.mark.parametrize("score", [1e-7, 1e-8, 1e-30, 1e-300])
def test_an_error_too_small_to_be_smoothed_is_itself(score):
    assert metrics.smooth_calibration_error([0], [score]) == pytest.approx(score, rel=1e-12)
