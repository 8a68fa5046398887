"""Draws of the largest error over subpopulations, against walks summed row by row."""

import numpy as np
import pytest

from miscal.kernels.subpopulation import simulated_maxima


def _naive(key: np.ndarray, lists: list[np.ndarray], scale: np.ndarray, steps: np.ndarray) -> np.ndarray:
    widest = np.zeros(steps.shape[1])
    for rows, times in zip(lists, scale, strict=True):
        ends = np.append(key[rows][1:] != key[rows][:-1], True)  # within a block of ties there is no order
        sums = np.vstack([np.zeros(steps.shape[1]), np.cumsum(steps[rows], axis=0)[ends]])
        widest = np.maximum(widest, times * np.ptp(sums, axis=0))
    return widest


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize(("rate", "distinct"), [(0.5, 40), (0.01, 40), (0.01, 4000), (0.98, 40), (None, 4000)])
def test_walks_of_all_draws_are_those_summed_row_by_row(rate: float | None, distinct: int, times: int) -> None:
    """Rare events, hardly anything else, and signs flipped; few scores, so that most rows are tied, and many."""
    rng = np.random.default_rng(3)
    key = np.sort(rng.integers(1, distinct, 600) / distinct)
    if rate is None:
        steps = rng.choice([-1.0, 1.0], (600, 16)) * rng.random((600, 1))
    else:
        steps = (rng.random((600, 16)) < rate) - rate * rng.random((600, 1))
    steps[:50] = -steps[:50]  # rows at which all draws rise
    lists = [np.flatnonzero(rng.random(600) < share) for share in (1.1, 0.5, 0.05) * times]
    offsets, scale = np.cumsum([0, *map(len, lists)]), rng.random(len(lists))
    expected, maxima = _naive(key, lists, scale, steps), np.empty(16)
    simulated_maxima(key, np.concatenate(lists).astype(np.int32), offsets, scale, steps.copy(), maxima)
    np.testing.assert_allclose(maxima, expected, rtol=1e-12)
