"""Shrunken sizes, and rows that were left out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from miscal.auditing.search.build_findings import selection_bias
from miscal.auditing.search.candidates import Candidate, RowMaskSegment
from miscal.auditing.search.cell_grids import sums_of_rows as segment_sums
from miscal.auditing.search.search_context import SearchContext
from miscal.auditing.search.tested_segments import TestedSegment, segment_with_sums
from miscal.codes.audit import Family, FindingKind
from miscal.codes.inference import Method, Null, NullReason
from miscal.data.target import TargetData
from miscal.stats.binomial import cell_p_values
from miscal.stats.cell_sums import CellTestSettings, rows_of_cells
from miscal.stats.metric_null import PooledError, aggregate_null
from miscal.stats.multiplicity import adjusted_z
from miscal.stats.null_draws import cell_draws
from miscal.stats.null_model import NullModel
from miscal.stats.shrinkage import selection_adjusted_gap
from tests.reference_sums import sums_of_rows


def test_shrunken_gaps_solve_their_equation_and_never_grow():
    critical = adjusted_z(50)
    z = np.array([-9.0, -critical - 0.2, -1.0, 0.0, 2.0, critical + 0.01, 4.5, 30.0, 1e9])
    m = selection_adjusted_gap(z, np.ones(z.size), np.full(z.size, critical))
    picked = np.abs(z) > critical
    assert np.array_equal(m[~picked], z[~picked])
    assert (np.abs(m) <= np.abs(z) + 1e-9).all()
    assert (m * z >= 0).all()
    conditional = (np.abs(m[picked]) - 0.4 * np.abs(z[picked])) / 0.6
    for value, shrunk in zip(np.abs(z[picked])[:-1], conditional[:-1], strict=True):
        expected = shrunk + norm.pdf(critical - shrunk) / norm.cdf(shrunk - critical)
        assert expected == pytest.approx(value, abs=1e-6) or shrunk < 1e-9


@pytest.mark.parametrize("tests", [1, 100, 10_000])
@pytest.mark.parametrize("true", [2.0, 3.0, 4.0, 5.0, 6.5])
def test_shrinking_removes_much_of_the_winners_curse(tests, true):
    z = true + np.random.default_rng(71).normal(size=60_000)
    critical = adjusted_z(tests)
    picked = z[z > critical]
    raw = picked.mean() - true
    left = selection_adjusted_gap(picked, np.ones(picked.size), np.full(picked.size, critical)).mean() - true
    assert abs(left) <= max(0.6 * raw, 0.2)


def whole_segment(
    p: np.ndarray, y: np.ndarray, cluster: np.ndarray | None = None
) -> tuple[SearchContext, TestedSegment]:
    pair = TargetData(p, y.astype(float), cluster=cluster)
    every = np.arange(p.size)
    sums = segment_sums(pair, every)
    null = Null.BERNOULLI if cluster is None else Null.RESIDUAL
    candidate = Candidate(RowMaskSegment(FindingKind.FIELD, every >= 0, ""), Family.COLUMNS)
    context = SearchContext(pair, pair, NullModel(null, NullReason.REQUESTED))
    return context, segment_with_sums(candidate, sums, sums, 0.0)


@pytest.mark.parametrize(("expected", "times", "tests"), [(1.0, 6.5, 100), (3.0, 4.5, 10_000), (60.0, 1.45, 100)])
def test_sizes_of_rare_events_that_were_under_predicted_are_right_on_average(expected, times, tests):
    random = np.random.default_rng(5)
    n = 2000
    p, said, raw = np.full(n, expected / n), [], []
    while len(said) < 150:
        context, segment = whole_segment(p, random.random(n) < times * p)
        gap = segment.error / n
        error, least = selection_bias(context, [segment], np.array([tests]), 0.05)
        if gap < 0 and context.p_value(segment.raw) <= 0.05 / tests:
            said.append(selection_adjusted_gap(gap, error, least)[0])
            raw.append(gap)
    true = expected * (1 - times) / n
    assert np.mean(raw) / true > 1.15
    assert 0.85 <= np.mean(said) / true <= 1.15


def test_sizes_of_few_clusters_are_right_on_average():
    random = np.random.default_rng(6)
    cluster = np.repeat(np.arange(20), 60)
    p, said = np.full(cluster.size, 0.3), []
    for _ in range(300):
        y = random.random(p.size) < np.clip(0.42 + 0.09 * random.normal(size=20), 0, 1)[cluster]
        context, segment = whole_segment(p, y, cluster)
        if context.exact_p(segment.members, 0.0) <= 0.05 / 30:
            said.append(
                selection_adjusted_gap(
                    segment.error / p.size, *selection_bias(context, [segment], np.array([30]), 0.05)
                )[0]
            )
    assert 60 < len(said) < 295
    assert np.mean(said) == pytest.approx(-0.12, rel=0.15)


# ------------------------------------------------------------------------------------------- rows left out
def partly():
    generator = np.random.default_rng(1)
    p = generator.beta(2, 4, 900)
    codes = np.where(np.arange(900) < 100, 0, 1)
    y = (generator.random(900) < p).astype(float)
    full = rows_of_cells(codes, 2, TargetData(p, y))
    part = rows_of_cells(np.where(codes == 0, 0, -1), 2, TargetData(p, y))
    return sums_of_rows(full), full, part


def test_cells_whose_rows_were_left_out_are_judged_by_their_sums():
    sums, _, part = partly()
    mixed = cell_p_values(sums, CellTestSettings(rows=part)).p_value
    bare = cell_p_values(sums, CellTestSettings()).p_value
    assert mixed[1] == bare[1]
    assert not np.isnan(mixed).any()


def test_draws_use_rows_only_when_all_are_there_and_affordable():
    sums, full, part = partly()
    drawn = CellTestSettings(weighted=True, rows=full)
    sampled, summed = cell_draws(sums, drawn).block(0, 9), cell_draws(sums, CellTestSettings(weighted=True)).block(0, 9)
    assert not np.array_equal(sampled, summed)
    assert np.array_equal(cell_draws(sums, CellTestSettings(weighted=True, rows=part)).block(0, 9), summed)
    assert np.array_equal(cell_draws(sums, drawn, draws=10**6).block(0, 9), summed)
    assert np.array_equal(
        cell_draws(sums, CellTestSettings(rows=full)).block(0, 9), cell_draws(sums, CellTestSettings()).block(0, 9)
    )
    flipped = CellTestSettings(null="residual", rows=full)
    assert cell_draws(sums, flipped).method is Method.SIGN_FLIPS
    assert cell_draws(sums, CellTestSettings(null="residual", rows=part)).method is Method.RESIDUALS
    assert cell_draws(sums, flipped, draws=10**6).method is Method.RESIDUALS
    found = aggregate_null(sums, PooledError(1.0, sums.weight), CellTestSettings(null="residual", rows=part), draws=99)
    assert found.method == "residuals"
