"""The parts of the variation kernels: the logarithm, the sorting network, tiles that are not full, many classes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from miscal.kernels.logistic import score_pass
from miscal.kernels.variation import CONFIDENCE, ENTROPY, QUALITATIVE, VARIATION_RATIO, rank_rows, sorting_network


def _logarithms(values):
    """Read off the gradient of a fit that starts from 0: half the feature of a row, which is the logarithm."""
    start = np.zeros(1), np.ones(1), np.zeros(2)
    rows = values[:, None]
    return np.array([2 * score_pass(row, np.zeros(1), np.empty(0), 2, 1e-300, 1.0, *start)[1, 1] for row in rows])


def test_the_logarithm_is_good_to_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.random(20_000), np.exp(rng.uniform(-31, 0, 20_000)), [1.0, 0.5, 1e-13, 1 - 2**-53]])
    exact = np.array([math.log(value) for value in values])
    assert np.all(np.abs(_logarithms(values) - exact) <= 2 * np.spacing(np.maximum(np.abs(exact), 1.0)))
    assert _logarithms(np.array([1.0]))[0] == 0.0


@pytest.mark.parametrize("size", range(2, 12))
def test_the_network_sorts_all_zeros_and_ones(size):
    """Enough for any input, by the zero-one principle."""
    rows = np.array(list(itertools.product([0, 1], repeat=size)))
    for first, second in sorting_network(size):
        a, b = rows[:, first].copy(), rows[:, second].copy()
        rows[:, first], rows[:, second] = np.maximum(a, b), np.minimum(a, b)
    assert (np.diff(rows, axis=1) <= 0).all()


def _ranked(p, y, kind):
    rows, classes = p.shape
    ranked, rank, value = np.empty((rows, classes)), np.empty(rows, np.int64), np.empty(rows)
    place, counts = np.empty(rows, np.int32), np.zeros((1, classes))
    nothing = np.empty(0), counts, np.empty((0, 0, 2), np.int64), np.empty((0, 0))
    rank_rows(p, y, kind, sorting_network(classes), np.array([0.0, 1.0]), value, ranked, rank, place, *nothing)
    np.testing.assert_array_equal(counts[0], np.bincount(rank, minlength=classes))
    return ranked, rank, value


@pytest.mark.parametrize("classes", [2, 3, 33, 100, 257])
@pytest.mark.parametrize("rows", [1, 63, 64, 65, 200])
def test_rows_are_ranked_as_numpy_ranks_them(classes, rows):
    rng = np.random.default_rng([classes, rows])
    p = rng.multinomial(3 * classes, np.full(classes, 1 / classes), rows) / (3 * classes)  # many ties
    y = rng.integers(0, classes, rows)
    order = np.argsort(-p, axis=1, kind="stable")
    expected = (order == y[:, None]).argmax(axis=1)
    ranked, rank, value = _ranked(p, y, QUALITATIVE)
    np.testing.assert_array_equal(rank, expected)
    np.testing.assert_array_equal(ranked, np.take_along_axis(p, order, 1))
    scale = classes / (classes - 1)
    np.testing.assert_allclose(value, np.clip(scale * (1 - (p**2).sum(axis=1)), 0, 1), rtol=0, atol=1e-14)
    value = _ranked(p, y, VARIATION_RATIO)[2]
    np.testing.assert_allclose(value, np.minimum(scale * (1 - p.max(axis=1)), 1), rtol=0, atol=1e-15)
    value = _ranked(p, y, CONFIDENCE)[2]
    np.testing.assert_array_equal(value, p.max(axis=1))
    value = _ranked(p, y, ENTROPY)[2]
    plain = -(p * np.log(np.where(p > 0, p, 1))).sum(axis=1) / np.log(classes)
    np.testing.assert_allclose(value, plain, rtol=0, atol=1e-13)
    assert ((value >= 0) & (value <= 1)).all()
