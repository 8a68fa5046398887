"""Shrunken sizes, and rows that were left out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from miscal.inference.adjust import adjusted_z, shrunken_gap
from miscal.inference.aggregates import PooledError, aggregate_null
from miscal.inference.cells import cell_p_values
from miscal.inference.nulls import MatchedDraws, cell_draws
from miscal.inference.sums import rows_of_cells
from tests.cells import sums_of_rows


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
    assert cell_draws(sums, weighted=True, rows=full).kernel == "draw_rows"
    assert isinstance(cell_draws(sums, weighted=True, rows=part), MatchedDraws)
    assert isinstance(cell_draws(sums, weighted=True, rows=full, draws=10**6), MatchedDraws)
    assert cell_draws(sums, weighted=False, null="residual", rows=full).kernel == "draw_flips"
    assert cell_draws(sums, weighted=False, null="residual", rows=part).kernel == "draw_normal"
    assert cell_draws(sums, weighted=False, null="residual", rows=full, draws=10**6).kernel == "draw_normal"
    found = aggregate_null(sums, PooledError(1.0), weighted=False, null="residual", rows=part, draws=99)
    assert found.method == "residuals"
