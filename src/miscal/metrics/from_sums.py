"""Results of a table that is not in memory: what `by_score`, `by_variable` and `by_field` say, from sums of all rows.

Cells are those of the sums, and their tests are as exact as in memory. What needs the order of the rows is read off a
fine grid of the key: a walk is exact at the borders of its cells, and the scores of a cell are taken for their mean.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from miscal.aggregate.in_memory import cumulative_range_of_sums
from miscal.aggregate.requests import SCORE, LevelCells, RangeCells, Request
from miscal.aggregate.streaming import add_up
from miscal.aggregate.summary import GRID
from miscal.aggregate.tally import Tally
from miscal.cells.coding import Nested
from miscal.cells.partitions import LevelPooling, Numbered, Ranges
from miscal.data.arrays import Array, Plain
from miscal.data.predictions import Predictions
from miscal.data.target import TargetData, select_target
from miscal.metrics.cell_evaluation import (
    KuiperTest,
    category_tests,
    draws_for,
    evaluate_tally,
    fine_edges,
    ordered_tests,
)
from miscal.metrics.field import FieldResult, field_result
from miscal.metrics.losses import IntervalEstimate, SlopeIntercept, isotonic_rates, ratio_within
from miscal.metrics.score import ScoreResult, score_result
from miscal.metrics.variable import VariableResult, variable_result
from miscal.results import CellResult, Estimate, Result
from miscal.stats.cell_sums import CellSums, effective_events
from miscal.stats.kuiper import kuiper_p_value
from miscal.stats.normal import half_width
from miscal.stats.null_model import (
    NULL_FROM_PREDICTIONS,
    NullModel,
    choose_null,
    outcome_sampling_null,
    weights_depend_on_outcome,
)


def noise_of_sums(cells: Tally, *, outcome_weights: bool, sampled: NullModel | None = None) -> NullModel:
    """Which null sums call for, and why in words; of outcomes that are no events a sample tells the usual noise.

    cells : sums of narrow cells of the score
    """
    if sampled is not None and not sampled.binary:
        return sampled
    return outcome_sampling_null(CellSums.of(cells)) if outcome_weights else NULL_FROM_PREDICTIONS


def recalibrated_scores(grid: Tally) -> Array:
    """The score of each cell of a grid after isotonic recalibration; empty cells lie between their neighbours."""
    filled = np.flatnonzero(grid.weight > 0)
    rates = isotonic_rates(grid.weight[filled], grid.observed[filled])
    return np.ascontiguousarray(np.interp(np.arange(grid.counts.size), filled, rates))


def score_from_sums(
    bins: Tally, grid: Tally, noise: NullModel, *, target: str, random_state: int
) -> ScoreResult:
    """Calibration by score, from its bins and a fine grid of the score."""
    evaluation = evaluate_tally(bins, noise, random_state=random_state)
    settings = evaluation.settings(bins.cells.count, target)
    kuiper = grid_kuiper_test(grid, noise, random_state)
    assert kuiper is not None
    combined = ordered_tests(evaluation, grid, kuiper.summary.p_value)
    filled = grid.take(np.flatnonzero(grid.weight > 0))
    rows = grid_rows(filled) if noise.binary else grid_means(filled, noise)
    result = score_result(evaluation, rows, kuiper, combined, settings)
    changed: Plain = {"from_grid": filled.cells.count}
    # Without any outcome the ratio is infinite, and has no interval.
    if not noise.binary and result.ratio is not None and math.isfinite(result.ratio.value):
        reach = half_width(math.sqrt(grid.residual2.sum())) / float(grid.observed.sum())
        changed["ratio"] = ratio_within(result.ratio.value, reach)
    elif noise.binary and grid.weighted:  # sums of a cell do not tell the variance of fits to its rows
        for name in SlopeIntercept.__annotations__:
            changed[name] = IntervalEstimate(getattr(result, name).value, math.nan, math.nan)
        assert result.smooth is not None
        changed |= {"smooth": Estimate(result.smooth.value), "certain": None}
    return replace(result, **changed)


def variable_from_sums(
    name: str,
    bins: Tally,
    grid: Tally | None,
    noise: NullModel,
    *,
    target: str,
    random_state: int,
    column_kind: str | None,
    integer: bool | None = None,
) -> VariableResult:
    """Calibration along a variable, from its ranges and a fine grid of it; without one nothing is said of a walk.

    Parameters
    ----------
    column_kind, integer
        As in `VariableResult`.
    """
    evaluation = evaluate_tally(bins, noise, random_state=random_state)
    settings = evaluation.settings(bins.cells.count, target)
    kuiper = grid_kuiper_test(grid, noise, random_state) if grid else None
    if grid and kuiper:
        combined = ordered_tests(evaluation, grid, kuiper.summary.p_value)
    else:
        combined = category_tests(evaluation)
    return variable_result(
        evaluation, [name], settings, kuiper, combined, column_kind=column_kind, integer=integer
    )


def field_from_sums(
    name: str, levels: Tally, noise: NullModel, *, target: str, random_state: int
) -> FieldResult:
    """Calibration by the levels of a field; what sets them apart from one another needs the rows and is left out."""
    cells: Any = levels.cells
    evaluation = evaluate_tally(
        levels, noise, random_state=random_state, draws=draws_for(cells.count), unordered=True
    )
    settings = {
        "column": name,
        "parent": None,
        "bins": None,
        "norm": "l1",
        "target": target,
        "random_state": random_state,
    }
    return field_result(evaluation, Nested(LevelPooling(np.empty(0, np.int64), cells)), settings)


def grid_rows(grid: Tally) -> TargetData:
    """Events and non-events of each cell at its mean score, as aggregated rows."""
    size = np.stack([grid.observed, grid.weight - grid.observed], axis=1)
    cell, is_non_event = np.nonzero(size > 0)
    mean = grid.mean_predicted[cell].clip(0.0, 1.0)
    observed, size = (is_non_event == 0).view(np.uint8), size[cell, is_non_event]
    if grid.weighted:
        return TargetData(mean, observed, weight=size)
    return TargetData(mean, observed, count=np.rint(size).astype(np.int64))


@dataclass(frozen=True, eq=False)
class CellMeans(TargetData):
    """The means of cells as rows, whose weight in variances is the sum of their rows' squared weights.

    Attributes
    ----------
    squared_weight : array
    """

    squared_weight: Array | None = None

    @cached_property
    def second(self) -> Array | None:
        """Weight of a cell in variances."""
        return self.squared_weight


def grid_means(grid: Tally, noise: NullModel) -> TargetData:
    """Predicted and observed mean of each cell, as one row; its weight squared is that of its rows."""
    return CellMeans(
        grid.mean_predicted, grid.mean_observed, grid.weight, units=noise.units, squared_weight=grid.weight2
    )


def grid_kuiper_test(grid: Tally, null_model: NullModel, random_state: int) -> KuiperTest | None:
    """Cumulative differences at the borders of a grid's cells, and their range against the null; None without rows."""
    cells: Any = grid.cells
    filled = np.flatnonzero(grid.counts[: cells.count - cells.missing])
    if not filled.size:
        return None
    known = grid.take(filled)
    whole = known.coarsen(np.zeros(filled.size), Numbered(1))
    running, first = np.cumsum(-known.events_off), cells.edges[filled[0]]
    differences = cumulative_range_of_sums(running, cells.edges[filled + 1], whole, filled.size, first)
    events = differences.events
    if not null_model.binary:
        events = float(whole.counts[0])
    elif grid.weighted:
        events = effective_events(CellSums.of(whole))[0]
    settings = null_model.test_settings(weighted=grid.weighted, random_state=random_state)
    squares, ties = whole.residual2[0], CellSums.of(known)
    summary = kuiper_p_value(differences, settings, events=events, residual2=squares, ties=ties)
    return KuiperTest(differences, summary)


def of_all_rows(sampled_result: Result, predictions: Predictions, source: Any, roles: Any) -> Result | None:
    """A result of a sample of rows, measured on all of them in its own cells; None where that needs the rows."""
    settings, binary = sampled_result.settings, predictions.response == "binary"
    name = settings.get("column", "")
    if not isinstance(sampled_result, CellResult) or settings["norm"] != "l1" or not isinstance(name, str):
        return None
    if settings.get("parent") is not None or (binary and settings["null"] == "residual"):
        return None
    target = settings["target"] if binary else "auto"
    target = int(target) if target.isdigit() else target
    compared, cells = select_target(predictions, target), sampled_result.tally.cells
    shown: Request = LevelCells(name)
    fine: Request | None = None
    if isinstance(cells, Ranges):
        scored = sampled_result.kind == "score"
        values = compared.predicted if scored else predictions.columns[name].values
        column = SCORE if scored else name
        shown, fine = RangeCells(column, cells.edges), RangeCells(column, fine_edges(compared, values, cells))
    score_grid: Request | None = None if roles.weight is None else RangeCells(SCORE, GRID)
    requests = [request for request in (shown, fine, score_grid) if request is not None]
    added = add_up(source, roles, target, requests)
    tallies = added.tallies
    sampled = None if binary else choose_null(compared, "residual")
    depends = weights_depend_on_outcome(added.weights)
    noise = noise_of_sums(tallies[requests[-1]], outcome_weights=depends, sampled=sampled)
    common: Plain = {"target": settings["target"], "random_state": settings["random_state"]}
    if sampled_result.kind == "field":
        return field_from_sums(name, tallies[shown], noise, **common)
    grid = None if fine is None else tallies[fine]
    if sampled_result.kind == "score":
        assert grid is not None
        return score_from_sums(tallies[shown], grid, noise, **common)
    assert isinstance(sampled_result, VariableResult)
    return variable_from_sums(
        name, tallies[shown], grid, noise, column_kind=sampled_result.column_kind, **common
    )
