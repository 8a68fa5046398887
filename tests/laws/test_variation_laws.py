"""Laws of the variation error: order, weights, merging, relabelling, threads, perfection."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import miscal
from miscal import metrics
from miscal.kernels.threads import over_blocks
from miscal.metrics import rank_sums as ranks
from miscal.metrics.rank_sums import NAMED, measure_of, rank_sums, ranked

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")

ERRORS: dict[str, Callable[..., float]] = {
    **{name: (lambda *a, n=name, **k: metrics.variation_calibration_error(*a, variation=n, **k)) for name in NAMED},
    "given_edges": lambda *a, **k: metrics.variation_calibration_error(*a, bins=[0, 0.3, 0.4, 1], **k),
    "callable": lambda *a, **k: metrics.variation_calibration_error(
        *a, variation=lambda r: r[:, 0] - r[:, -1], range=(0, 1), **k
    ),
    "uncertainty": metrics.uncertainty_calibration_error,
}


@st.composite
def batches(
    draw: st.DrawFn, ties: bool = True, least: int = 1, fewest: int = 2
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    classes, rows = draw(st.integers(fewest, 12)), draw(st.integers(least, 200))
    p = rng.dirichlet(np.full(classes, draw(st.sampled_from([0.2, 1.0, 5.0]))), rows)
    if ties and draw(st.booleans()):
        p = rng.multinomial(8, np.full(classes, 1 / classes), rows) / 8
    return rng.integers(0, classes, rows), p, rng.integers(1, 6, rows).astype(float)


@pytest.mark.parametrize("name", ERRORS)
@given(batch=batches(), seed=st.integers(0, 999))
def test_row_order_changes_no_bit(name, batch, seed):
    y, p, w = batch
    order = np.random.default_rng(seed).permutation(y.size)
    assert ERRORS[name](y, p) == ERRORS[name](y[order], p[order])
    assert ERRORS[name](y, p, sample_weight=w) == ERRORS[name](y[order], p[order], sample_weight=w[order])


@pytest.mark.parametrize("name", ERRORS)
@given(batch=batches())
def test_whole_weights_are_repetition(name, batch):
    y, p, w = batch
    rows = np.repeat(np.arange(y.size), w.astype(int))
    assert ERRORS[name](y, p, sample_weight=w) == ERRORS[name](y[rows], p[rows])


@pytest.mark.parametrize("name", ERRORS)
@given(batch=batches())
def test_the_scale_of_weights_and_rows_of_weight_zero_do_not_matter(name, batch):
    y, p, w = batch
    plain = ERRORS[name](y, p, sample_weight=w)
    assert abs(plain - ERRORS[name](y, p, sample_weight=0.37 * w)) <= 1e-11
    more = np.concatenate([w, np.zeros(y.size)])
    assert plain == ERRORS[name](np.tile(y, 2), np.tile(p, (2, 1)), sample_weight=more)


@pytest.mark.parametrize("name", ERRORS)
@given(batch=batches(ties=False, fewest=3), seed=st.integers(0, 999))
def test_renumbering_the_classes_changes_no_bit(name, batch, seed):
    """Of two classes only P(class 1) is kept, so 1 - p rounds: three and more."""
    y, p, w = batch
    new = np.random.default_rng(seed).permutation(p.shape[1])
    renamed = np.empty_like(p)
    renamed[:, new] = p
    assert ERRORS[name](y, p, sample_weight=w) == ERRORS[name](new[y], renamed, sample_weight=w)


def test_renumbering_matters_where_ranks_tie():
    """Two equal probabilities: the lower class number has the first rank."""
    p = [[0.5, 0.5]]
    assert metrics.variation_calibration_error([0], p, variation="confidence") == 0.5
    assert metrics.variation_calibration_error([1], p, variation="confidence") == 0.5
    gaps = [
        miscal.by_variation(miscal.Predictions([label], [0.5]), variation="confidence").table["gap"][0]
        for label in (0, 1)
    ]
    assert gaps == [-0.5, 0.5]


@pytest.mark.parametrize("name", ["entropy", "confidence"])
@given(batch=batches(least=2), weighted=st.sampled_from(["no", "whole", "real"]))
def test_sums_add(name, batch, weighted):
    """Sums of blocks of a few rows are those of all rows."""
    y, p, w = batch
    weight = {"no": None, "whole": w, "real": w * 0.3}[weighted]
    rows = ranked(miscal.Predictions(y, p, weight=weight), measure_of(name), 10, "uniform", None)
    whole = rank_sums(rows)
    with mock.patch.object(ranks, "over_blocks", lambda count, work: over_blocks(count, work, 2)):
        added = rank_sums(rows)
    for field in ("weight", "rows", "size", "predicted", "observed", "mean_variation", "first_rank_gap"):
        one, two = getattr(whole, field), getattr(added, field)
        same = np.array_equal(one, two, equal_nan=True)
        assert same if weighted != "real" else np.allclose(one, two, rtol=1e-12, atol=1e-14, equal_nan=True)


@pytest.mark.parametrize("name", ERRORS)
@given(y=st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_certain_and_right_has_no_error(name, y):
    assert ERRORS[name](y, np.eye(4)[y]) == 0.0


def test_threads_and_blocks_change_no_bit(monkeypatch):
    rng = np.random.default_rng(0)
    n = (1 << 18) + 12_345  # more than one block
    p = rng.dirichlet(np.ones(3), n)
    y = rng.integers(0, 3, n)
    found = set()
    for threads in ("1", "2"):
        monkeypatch.setenv("MISCAL_THREADS", threads)
        found.add(metrics.variation_calibration_error(y, p))
        found.add(metrics.variation_calibration_error(y[::-1].copy(), p[::-1].copy()))
    assert len(found) == 1


@given(batch=batches())
def test_two_classes_in_any_shape(batch):
    _, p, _ = batch
    score = p[:, 0]
    y = (score > 0.4).astype(int)
    one = metrics.variation_calibration_error(y, score)
    assert one == metrics.variation_calibration_error(y, np.stack([1 - score, score], axis=1))


def test_the_laws_can_fail():
    """A twin that keeps the first of tied ranks in row order, or drops the last row, breaks the laws' equalities."""
    rng = np.random.default_rng(1)
    p, y = rng.dirichlet(np.ones(3), 20), rng.integers(0, 3, 20)
    broken = lambda y, p: metrics.variation_calibration_error(y[:-1], p[:-1])
    assert broken(y, p) != broken(y[::-1], p[::-1])
