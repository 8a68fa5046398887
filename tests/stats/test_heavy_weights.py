"""Weights of a heavy tail, so that a few rows are most of the sum: tests keep their size, from rows and from sums."""

from __future__ import annotations

import numpy as np
import pytest

import miscal
from miscal.stats.cell_sums import CellSums, CellTestSettings
from miscal.stats.combined_test import QuadraticTest, combine_tests, draw_tests
from miscal.stats.kuiper import cumulative_ranges


def drawn(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = np.sort(rng.beta(1, 3, rows))
    return p, rng.random(rows) < p, np.exp(2.0 * rng.normal(size=rows))


def test_sums_of_heavy_weights() -> None:
    found = []
    for seed in range(300):
        p, y, w = drawn(seed, 3000)
        passed = np.cumsum(w * w * p * (1 - p))
        cell = np.unique(np.minimum(200 * passed / passed[-1], 199).astype(int), return_inverse=True)[1]
        columns = (np.ones(p.size), w, w * w, w * p, w * y, w * w * p * (1 - p), (w * (y - p)) ** 2)
        sums = CellSums(*(np.bincount(cell, values) for values in columns))
        tests = {"total": QuadraticTest.of(sums, np.ones((1, sums.rows.size))), "walk": cumulative_ranges}
        found.append(combine_tests([*tests], draw_tests(sums, tests, CellTestSettings(weighted=True), 199)).p_value)
    assert np.sum(np.array(found) <= 0.05) <= 28  # 12% before, 36 of 300; P(more than 28) at 7% is 5%


@pytest.mark.usefixtures("without_smooth_noise")
@pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")
def test_rows_of_heavy_weights_are_drawn_one_by_one() -> None:
    alarms = 0
    for seed in range(50):
        p, y, w = drawn(seed, 3000)
        alarms += miscal.by_score(miscal.Predictions(y.astype(int), p, weight=w)).p_value <= 0.05
    assert alarms <= 6
