"""Ranking of findings, shrunken sizes, and rows that were left out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from miscal.data.errors import MiscalError
from miscal.inference.adjust import adjusted_z
from miscal.inference.aggregates import aggregate_null, pooled_error
from miscal.inference.cells import cell_p_values
from miscal.inference.nulls import FlipDraws, MatchedDraws, NormalDraws, RowDraws, cell_draws
from miscal.inference.ranking import events_bound, rank_cells, shrunken_gap
from miscal.inference.sums import Sums, rows_of_cells, sums_of_rows


def planted(seed, columns=6, levels=8, size=20_000, sigmas=8.0):
    """Columns of random levels; level 3 of column 2 is over-predicted by `sigmas` standard errors."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, levels, (columns, size)) + levels * np.arange(columns)[:, None]
    p = generator.beta(2, 6, size)
    inside = codes[2] == 2 * levels + 3
    off = sigmas * math.sqrt((p * (1 - p))[inside].sum()) / inside.sum()
    y = (generator.random(size) < np.clip(p - off * inside, 0, 1)).astype(float)
    whole = columns * levels
    everything = np.vstack([codes, np.full(size, whole)])
    rows = rows_of_cells(everything.ravel(), whole + 1, np.tile(p, columns + 1), np.tile(y, columns + 1))
    return everything, sums_of_rows(rows), 2 * levels + 3


def overlaps(codes, cells):
    def overlap(cell):
        inside = (codes == cell).any(axis=0)
        return np.bincount(codes[:, inside].ravel(), minlength=cells).astype(float)

    return overlap


def test_a_planted_cell_is_found_first_and_explains_the_whole():
    first = explained = shown = 0
    sets = 40
    for seed in range(sets):
        codes, sums, cell = planted(seed)
        cells = sums.rows.size
        ranked = rank_cells(sums, overlaps(codes, cells), weighted=False, tests=cells)
        first += ranked[0].cell == cell
        whole_seen = events_bound(sums, weighted=False, tests=cells)[-1] > 0
        shown += whole_seen
        explained += whole_seen and (cells - 1) in ranked[0].explains
    assert first >= binom.ppf(1e-6, sets, 0.95)
    assert explained >= binom.ppf(1e-6, max(shown, 1), 0.95)


def test_calibrated_cells_are_not_ranked():
    alarms = 0
    for seed in range(60):
        codes, sums, _ = planted(seed, size=4000, sigmas=0.0)
        alarms += bool(rank_cells(sums, overlaps(codes, sums.rows.size), weighted=False, tests=sums.rows.size))
    assert alarms <= binom.isf(1e-6, 60, 0.05)


def test_disjoint_cells_are_ranked_by_their_bound_and_explain_nothing():
    size = np.full(4, 1000.0)
    predicted = np.array([200.0, 300.0, 250.0, 200.0])
    sums = Sums(size, size, size, predicted, np.array([200.0, 200.0, 400.0, 90.0]), 0.2 * size, 0.2 * size)
    ranked = rank_cells(sums, lambda cell: np.where(np.arange(4) == cell, 1000.0, 0.0), weighted=False, tests=4)
    assert [item.cell for item in ranked] == [2, 3, 1]
    assert all(item.explains == [] for item in ranked)
    assert [item.bound for item in ranked] == sorted((item.bound for item in ranked), reverse=True)
    assert len(rank_cells(sums, lambda cell: np.zeros(4), weighted=False, tests=4, most=2)) == 2
    with pytest.raises(MiscalError, match="'most'"):
        rank_cells(sums, lambda cell: np.zeros(4), weighted=False, tests=4, most=0)


def test_shrunken_gaps_solve_their_equation_and_never_grow():
    tests = 50
    critical = adjusted_z(tests)
    z = np.array([-9.0, -critical - 0.2, -1.0, 0.0, 2.0, critical + 0.01, 4.5, 30.0, 1e9])
    m = shrunken_gap(z, np.ones(z.size), tests)
    picked = np.abs(z) > critical
    assert np.array_equal(m[~picked], z[~picked])
    assert (np.abs(m) <= np.abs(z) + 1e-9).all()
    assert (m * z >= 0).all()
    conditional = 2 * np.abs(m[picked]) - np.abs(z[picked])
    for value, shrunk in zip(np.abs(z[picked])[:-1], conditional[:-1], strict=True):
        density = norm.pdf(critical - shrunk) - norm.pdf(critical + shrunk)
        expected = shrunk + density / (norm.cdf(shrunk - critical) + norm.cdf(-shrunk - critical))
        assert expected == pytest.approx(value, abs=1e-6) or shrunk < 1e-9


@pytest.mark.parametrize("tests", [1, 100, 10_000])
@pytest.mark.parametrize("true", [2.0, 3.0, 4.0, 5.0, 6.5])
def test_shrinking_removes_much_of_the_winners_curse(tests, true):
    z = true + np.random.default_rng(71).normal(size=400_000)
    picked = z[z > adjusted_z(tests)]
    raw = picked.mean() - true
    left = shrunken_gap(picked, np.ones(picked.size), tests).mean() - true
    assert abs(left) <= max(0.6 * raw, 0.2)


# ------------------------------------------------------------------------------------------- rows left out
def partly():
    generator = np.random.default_rng(1)
    p = generator.beta(2, 4, 900)
    codes = np.where(np.arange(900) < 100, 0, 1)
    y = (generator.random(900) < p).astype(float)
    full = rows_of_cells(codes, 2, p, y)
    part = rows_of_cells(np.where(codes == 0, 0, -1), 2, p, y)
    return sums_of_rows(full), full, part


def test_cells_whose_rows_were_left_out_are_judged_by_their_sums():
    sums, _, part = partly()
    for null in ("bernoulli", "residual"):
        mixed = cell_p_values(sums, weighted=False, null=null, rows=part).p_value
        bare = cell_p_values(sums, weighted=False, null=null).p_value
        assert mixed[1] == bare[1]
        assert not np.isnan(mixed).any()


def test_draws_use_rows_only_when_all_are_there_and_affordable():
    sums, full, part = partly()
    assert isinstance(cell_draws(sums, weighted=False, rows=full), MatchedDraws)
    assert isinstance(cell_draws(sums, weighted=True, rows=full), RowDraws)
    assert isinstance(cell_draws(sums, weighted=True, rows=part), MatchedDraws)
    assert isinstance(cell_draws(sums, weighted=True, rows=full, draws=10**6), MatchedDraws)
    assert isinstance(cell_draws(sums, weighted=False, null="residual", rows=full), FlipDraws)
    assert isinstance(cell_draws(sums, weighted=False, null="residual", rows=part), NormalDraws)
    assert isinstance(cell_draws(sums, weighted=False, null="residual", rows=full, draws=10**6), NormalDraws)
    found = aggregate_null(sums, pooled_error(1.0), weighted=False, null="residual", rows=part, draws=99)
    assert found.method == "residuals"
    with pytest.raises(MiscalError, match="'null'"):
        cell_draws(sums, weighted=False, null="other")
