"""Changes of the gap between neighbouring cells, against a twin that adds row by row."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from scipy import stats

from miscal.data.target import TargetData
from miscal.stats.cell_sums import CellSums, CellTestSettings, rows_of_cells
from miscal.stats.changes import changes
from tests.reference_sums import sums_of_rows


def holm_by_hand(p_values: list[float]) -> list[float]:
    """Step down: the smallest times how many there are, the next times one less, never below the one before."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    made, worst = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        worst = max(worst, (len(p_values) - rank) * p_values[i])
        made[i] = min(1.0, worst)
    return made


def twin(
    cell: np.ndarray, p: np.ndarray, y: np.ndarray, weight: np.ndarray, cluster: np.ndarray, clustered: bool
) -> dict[str, list[float]]:
    """The formula of the docstring with loops: residuals added by cluster, variances by cell, covariances by hand."""
    cells = int(cell.max()) + 1
    sums: list[dict[int, float]] = [defaultdict(float) for _ in range(cells)]
    total, model, off = [0.0] * cells, [0.0] * cells, [0.0] * cells
    for c, p_, y_, w, g in zip(cell, p, y, weight, cluster, strict=True):
        sums[c][int(g)] += w * (y_ - p_)
        total[c] += w
        model[c] += w * w * p_ * (1 - p_)
        off[c] += w * (p_ - y_)
    noise = [max(sum(d * d for d in sums[c].values()), model[c]) for c in range(cells)]
    gap = [off[c] / total[c] for c in range(cells)]
    found: dict[str, list[float]] = {"change": [], "p": [], "size": []}
    for c in range(1, cells):
        both = sum(sums[c][g] * sums[c - 1].get(g, 0.0) for g in list(sums[c])) if clustered else 0.0
        own = noise[c] / total[c] ** 2 + noise[c - 1] / total[c - 1] ** 2
        shared = 2 * both / (total[c] * total[c - 1])
        freedom = min(len(sums[c]), len(sums[c - 1])) - 1
        differ = abs(gap[c] - gap[c - 1]) / math.sqrt(own - shared)
        mirror = abs(gap[c] + gap[c - 1]) / math.sqrt(own + shared)
        p_differ, p_mirror = (2 * stats.t.sf(value, freedom) for value in (differ, mirror))
        found["change"].append(gap[c] - gap[c - 1])
        found["p"].append(p_differ)
        found["size"].append(max(p_differ, p_mirror))
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_changes_agree_with_the_twin(weighted: bool, clustered: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, cells = 3000, 5
    cell = rng.integers(0, cells, n)
    p = rng.beta(2, 4, n)
    y = (rng.random(n) < np.clip(p + 0.05 * (cell - 2), 0, 1)).astype(float)
    weight = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    cluster = rng.integers(0, 400, n) if clustered else np.arange(n)
    rows = rows_of_cells(
        cell, cells, TargetData(p, y, weight=weight if weighted else None, cluster=cluster if clustered else None)
    )
    options: Any = {"null": "residual", "rows": rows} if clustered else {}
    made = changes(sums_of_rows(rows), CellTestSettings(weighted=weighted, **options))
    naive = twin(cell, p, y, weight, cluster, clustered)
    assert np.isnan(made.change[0])
    np.testing.assert_allclose(made.change[1:], naive["change"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(made.p_value[1:], naive["p"], rtol=1e-7)
    np.testing.assert_allclose(made.p_adjusted[1:], holm_by_hand(naive["p"]), rtol=1e-7)
    np.testing.assert_allclose(made.size_p_adjusted[1:], holm_by_hand(naive["size"]), rtol=1e-7)
    reach = (made.high - made.low)[1:] / 2
    np.testing.assert_allclose(made.low[1:] + reach, made.change[1:], rtol=1e-9, atol=1e-12)


def test_a_gap_that_only_turns_over_is_a_change_but_no_change_of_size() -> None:
    one = np.ones(2)
    y = np.array([160.0, 240.0])  # of 1,000 with 200 expected: gaps of +4 and -4 points
    from miscal.stats.cell_sums import CellSums

    found = changes(
        CellSums(1000 * one, 1000 * one, 1000 * one, 200 * one, y, 160 * one, 0.6 * y + 40), CellTestSettings()
    )
    assert found.p_adjusted[1] < 0.001
    assert found.size_p_adjusted[1] == pytest.approx(1.0)


def test_clusters_in_both_cells_are_not_counted_as_two() -> None:
    """The same patients twice: their own level cancels in the change, and adds up in the sum."""
    rng = np.random.default_rng(5)
    people = 400
    level = rng.normal(0, 0.25, people)
    cell = np.repeat([0, 1], people)
    cluster = np.tile(np.arange(people), 2)
    p = np.full(2 * people, 0.5)
    y = (rng.random(2 * people) < np.clip(0.5 + level[cluster], 0, 1)).astype(float)
    rows = rows_of_cells(cell, 2, TargetData(p, y, cluster=cluster))
    apart = rows_of_cells(cell, 2, TargetData(p, y, cluster=np.arange(2 * people)))
    paired, unpaired = (changes(sums_of_rows(r), CellTestSettings(null="residual", rows=r)) for r in (rows, apart))
    assert paired.high[1] - paired.low[1] < unpaired.high[1] - unpaired.low[1]


@pytest.mark.parametrize(("rate", "small"), [(0.001, True), (0.02, False)])
def test_too_few_events_are_not_compared(rate: float, small: bool) -> None:
    from miscal.stats.cell_sums import CellSums

    n = np.full(2, 1000.0)
    mean = n * rate
    found = changes(CellSums(n, n, n, mean, mean, mean * (1 - rate), mean), CellTestSettings())
    assert np.isnan(found.change[1]) == small


def test_a_bad_month_after_a_quiet_one_is_compared():
    """Three events expected and three happened, then ninety: the quiet month's noise is known from its predictions."""
    n, p, y = np.full(3, 3000.0), np.full(3, 3.0), np.array([3.0, 90.0, 92.0])
    found = changes(CellSums(n, n, n, p, y, p, np.maximum(y, p)), CellTestSettings())
    assert found.p_adjusted[1] < 1e-6
    assert found.p_adjusted[2] > 0.5
    few = changes(CellSums(n, n, n, p / 3, np.array([1.0, 2.0, 2.0]), p / 3, p / 3), CellTestSettings())
    assert np.isnan(few.p_value).all()
