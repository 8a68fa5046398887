"""Calibration along a variable (paper 000): the error over its ranges, the result with its noise, variables ranked."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from miscal.aggregate.in_memory import mean_tally, quantile_tally
from miscal.aggregate.tally import Tally
from miscal.cells.coding import crossed, named_columns, range_pooling
from miscal.cells.partitions import Pooling
from miscal.cells.ranges import Bins, edges_for, ends_of, numbered
from miscal.codes.inference import MethodNote
from miscal.data.arrays import Array, Plain
from miscal.data.columns import Column
from miscal.data.predictions import Predictions
from miscal.data.target import TargetData, select_target
from miscal.kernels.sorting import distinct_up_to
from miscal.metrics.cell_evaluation import (
    CellEvaluation,
    KuiperTest,
    WorstCell,
    category_tests,
    evaluate_cells,
    fine_grid,
    kuiper_test,
    ordered_tests,
    worst_of,
)
from miscal.metrics.curves import curve_of
from miscal.metrics.inputs import MetricInput, Norm, also_of_tables, variable_columns
from miscal.metrics.score_errors import quick_bins, tally_error
from miscal.results import CellResult, Histogram, Table
from miscal.stats.combined_test import CombinedTest
from miscal.stats.multiplicity import holm
from miscal.stats.null_model import NullModel, choose_null
from miscal.words import sentence


def variable_calibration_error(
    y_true: Any,
    y_prob: Any,
    variable: Any,
    *,
    bins: Bins = 10,
    strategy: str = "quantile",
    range: tuple[float, float] | None = None,  # noqa: A002
    norm: Norm = "l1",
    target: str | int = "auto",
    correct: Any = None,
    sample_weight: Any = None,
    response: str = "binary",
) -> float:
    r"""Average gap between predicted and observed over ranges of a variable (VECE; paper 000, eq. 7).

    .. math:: \sum_b \tfrac{W_b}{W}\,\big|\bar p_b - \bar y_b\big|, \qquad b \text{ a range of } v

    Parameters
    ----------
    y_true, y_prob, target, correct, sample_weight
        As in `expected_calibration_error`; the paper uses ``target="top"``.
    variable : array-like of shape (n,) or (n, d)
        Numbers, dates, booleans or categories; of several columns the ranges are crossed.
        Missing values are a range of their own. Levels are cells as they are.
    bins : int or array-like, default=10
        Number of ranges of each column, or their increasing edges.
        Where there are no more distinct values than bins, each is a range.
    strategy : {"quantile", "uniform"}, default="quantile"
        Ranges of equal support (equal edges are merged, ties are never split), or of equal width over `range`.
    range : (float, float), default=None
        Ends of uniform ranges; the variable's smallest and largest value by default.
    norm : {"l1", "l2", "max"} or float, default="l1"
        How gaps are averaged: "l2" is the root of the weighted mean square; a number is any p of at least 1.
    response : {"binary", "real", "count"}, default="binary"
        "real" where outcomes and predictions are any numbers, "count" where they are counts and their means.

    Examples
    --------
    >>> from miscal.metrics import variable_calibration_error
    >>> variable_calibration_error([1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5], [20, 30, 40, 50], bins=2)
    0.5
    """
    inputs = MetricInput(y_true, y_prob, sample_weight, response)
    data = inputs.pair(target, correct)
    columns = [inputs.column(column) for column in variable_columns(variable)]
    first, values = columns[0], columns[0].values
    quick = quick_bins(data, bins, strategy) if len(columns) == 1 and not first.nominal else 0
    if quick and distinct_up_to(values, quick + 1) > quick and not first.missing.any():
        values = np.ascontiguousarray(values, float)
        return tally_error(quantile_tally(data, values, quick), norm)
    parts = [_ranges(column, data, bins, strategy, range) for column in columns]
    return tally_error(mean_tally(data, crossed(parts)), norm) * inputs.scale


def _ranges(
    column: Column,
    data: TargetData,
    bins: Bins,
    strategy: str = "quantile",
    span: tuple[float, float] | None = None,
) -> Pooling:
    """The ranges of a column, of equal width over `span` where that is given."""
    if span is not None and strategy == "uniform" and numbered(bins) and not column.nominal:
        low, high = ends_of(span)
        bins = edges_for(column.values, bins, strategy, low=low, high=high)
    return range_pooling(column, bins, strategy, weight=data.weight, count=data.count, separate_common=False)


CURVE_POINTS = 100
BARS = 40


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class VariableResult(CellResult):
    """Calibration along a variable, or over the crossed ranges of several.

    Attributes
    ----------
    column : str or list of str
        Name of the variable, or of those that are crossed.
    worst : WorstCell
    column_kind : str or None
        Kind of the column; None where several are crossed or the column is categorical.
    integer : bool or None
        Whether the column holds whole numbers only.
    kuiper, kuiper_noise_floor, kuiper_p_value : float or None
        Kuiper's statistic of the cumulative differences along the variable; None where there is no order.
    kuiper_range : list of float or None
        The two values between which the cumulative differences change most.
    curve : Table or None
        Smooth curves of observed, predicted and gap along the variable.
    density : Histogram or None
        Weight in equally wide bars over the middle 98% of the values.
    curve_rows : int or None
        How many rows the curve was fitted to, where not to all.
    fine : Tally or None
        Sums of narrow ranges, by which audits of different data are compared.
    """

    kind: str = "variable"
    column: str | list[str]
    worst: WorstCell
    column_kind: str | None = None
    integer: bool | None = None
    kuiper: float | None = None
    kuiper_noise_floor: float | None = None
    kuiper_p_value: float | None = None
    kuiper_range: list[float] | None = field(default=None, metadata={"key": "range"})
    curve: Table | None = None
    density: Histogram | None = None
    curve_rows: int | None = None
    fine: Tally | None = None


@also_of_tables
def by_variable(
    p: Predictions,
    variable: str | Sequence[str],
    *,
    bins: int | Sequence[float] = 10,
    strategy: str = "quantile",
    norm: Norm = "l1",
    target: str | int = "auto",
    null: str = "bernoulli",
    random_state: int = 0,
    curve: bool = True,
) -> VariableResult:
    """Calibration along a variable: the error over its ranges, with a p-value from several tests along it.

    Missing values are a range of their own. The p-value is that of five tests together (`result.tests` has each by
    itself): the total, a trend, a bend and a smooth curve along the variable, and the largest range, missing values
    among them. Several variables are crossed; the tests are then those of `by_field`. With
    `curve` the smooth curves of observed, predicted and gap are kept too (`result.curve`), for the plot; leave them
    out to save their time.

    Examples
    --------
    >>> import numpy as np, miscal
    >>> rng = np.random.default_rng(0)
    >>> age = rng.integers(20, 80, 5000)
    >>> p = miscal.Predictions(
    ...     rng.random(5000) < 0.3 + 0.006 * (age - 50), np.full(5000, 0.3), columns={"age": age}
    ... )
    >>> miscal.by_variable(p, "age").p_value < 0.01
    True
    """
    data = select_target(p, target)
    options: Plain = {"bins": bins, "strategy": strategy, "norm": norm, "random_state": random_state}
    return measure_variable(
        data, choose_null(data, null), named_columns(p.columns, variable), curve=curve, **options
    )


def measure_variable(
    data: TargetData,
    null_model: NullModel,
    columns: Sequence[Column],
    *,
    bins: int | Sequence[float] = 10,
    strategy: str = "quantile",
    norm: Norm = "l1",
    random_state: int = 0,
    curve: bool = True,
) -> VariableResult:
    """`by_variable` of target data that are at hand, with their null model.

    Parameters
    ----------
    data : TargetData
    null_model : NullModel
        What `choose_null` gives for the data.
    columns : sequence of Column
        The variable, or several to cross, of the same rows.
    bins, strategy, norm, random_state, curve
        As in `by_variable`.
    """
    parts = [
        range_pooling(column, bins, strategy, weight=data.weight, count=data.count) for column in columns
    ]
    evaluation = evaluate_cells(data, crossed(parts), null_model, norm=norm, random_state=random_state)
    settings = evaluation.settings(bins, data.label, strategy, norm)
    names = [column.name for column in columns]
    if len(columns) != 1 or columns[0].nominal:
        return variable_result(evaluation, names, settings, combined=category_tests(evaluation))
    column, values = columns[0], columns[0].values
    column_type: Plain = {"column_kind": column.kind, "integer": column.whole}
    known = ~np.isnan(values)
    if not known.any():
        result = variable_result(evaluation, names, settings, **column_type)
        method = f"{sentence(null_model.reason)} {sentence(MethodNote.MISSING_ONLY)}"
        return replace(result, p_value=float(evaluation.p_adjusted[-1]), method=method)
    rows = data if known.all() else data.take(np.flatnonzero(known))
    key = np.ascontiguousarray(values[known], float)
    kuiper = kuiper_test(rows, key, null_model, random_state)
    grid = fine_grid(evaluation, data, values)
    combined = ordered_tests(evaluation, grid, kuiper.summary.p_value, (data, values))
    result = variable_result(evaluation, names, settings, kuiper, combined, **column_type)
    if not curve:
        return result
    smooth = curve_of(data, values, grid=CURVE_POINTS, random_state=random_state)
    density = density_of(values, data, integer=column.whole)
    return replace(result, curve=smooth.frame(), density=density)


def variable_result(
    evaluation: CellEvaluation,
    names: Sequence[str],
    settings: Mapping[str, Any],
    kuiper: KuiperTest | None = None,
    combined: CombinedTest | None = None,
    *,
    column_kind: str | None = None,
    integer: bool | None = None,
) -> VariableResult:
    """The record of the ranges.

    Parameters
    ----------
    evaluation : CellEvaluation
        The ranges, or the cells where several variables are crossed.
    names : sequence of str
        Names of the variables.
    settings : mapping of str to object
    kuiper : KuiperTest, optional
        Along the variable, where there is one.
    combined : CombinedTest, optional
    column_kind, integer
        As in `VariableResult`.
    """
    column = names[0] if len(names) == 1 else list(names)
    kuiper_fields: Plain = {}
    words = ""
    if kuiper is not None:
        walk, summary = kuiper.walk, kuiper.summary
        ends, scale = (walk.highest_at, walk.lowest_at), evaluation.null_model.units.scale
        kuiper_fields = {
            "kuiper": walk.range * scale,
            "kuiper_noise_floor": summary.noise_floor * scale,
            "kuiper_range": sorted(walk.smallest_key if math.isnan(end) else end for end in ends),
            "kuiper_p_value": summary.p_value,
        }
        words = sentence(MethodNote.WALK, method=sentence(summary.method))
    title = f"Calibration by {' and '.join(names)}"
    return VariableResult(
        **evaluation.common_fields(title, {"column": column, **settings}, combined=combined, words=words),
        **kuiper_fields,
        worst=worst_of(evaluation),
        column=column,
        column_kind=column_kind,
        integer=integer,
    )


def density_of(values: Array, data: TargetData, *, integer: bool) -> Histogram:
    """Share of weight in equally wide bars over the middle 98% of the values: what the plot shows beneath."""
    known = ~np.isnan(values)
    weight, values = data.all_weights[0][known], values[known]
    with np.errstate(over="ignore", invalid="ignore"):  # of values as far apart as numbers get
        low, high = np.quantile(values, [0.01, 0.99]).tolist()
    if not (low + (high - low) / BARS > low and high - low < np.inf):  # no room for bars between the two
        return Histogram([low, high], [float(weight.sum())])
    # A bar a value: wider bars would hold now one value, now two.
    one_each = integer and high - low < 2 * BARS
    bars: Any = np.arange(low - 0.5, high + 1.0) if one_each else BARS
    rows, edges = np.histogram(values, bins=bars, range=(low, high), weights=weight)
    return Histogram(edges.tolist(), rows.astype(float).tolist())


def rank_variables(
    y_true: Any,
    y_prob: Any,
    frame: Any,
    *,
    bins: int = 10,
    target: str | int = "auto",
    sample_weight: Any = None,
    random_state: int = 0,
) -> Table:
    """Rank the columns of a frame by their variable-based calibration error (paper 000, Table 1).

    Parameters
    ----------
    frame : frame, dict of arrays, or array of shape (n, d)
        The columns that are ranked.

    Returns
    -------
    Table
        name, error, worst_value, worst_gap, p_value; the largest error first. The worst value is where the smooth
        curve's gap is largest (the paper's v*). P-values are those of the walk along the column (of the levels'
        aggregate for nominal columns), Holm-adjusted over the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.metrics import rank_variables
    >>> rng = np.random.default_rng(0)
    >>> frame = {"noise": rng.random(3000), "age": rng.uniform(20, 80, 3000)}
    >>> table = rank_variables(rng.random(3000) < frame["age"] / 100, np.full(3000, 0.5), frame)
    >>> table["name"].tolist()
    ['age', 'noise']
    """
    inputs = MetricInput(y_true, y_prob, sample_weight)
    data = inputs.pair(target)
    ranked = [_ranked(inputs.column(column), data, bins, random_state) for column in variable_columns(frame)]
    names = ("name", "error", "worst_value", "worst_gap", "p_value")
    table = Table({name: [values[place] for values in ranked] for place, name in enumerate(names)})
    table["p_value"] = holm(table["p_value"])
    return table.sort("error", descending=True)


def _ranked(column: Column, data: TargetData, bins: int, random_state: int) -> tuple[Any, ...]:
    """Name, error, worst value, gap there and p-value of one column."""
    partition = _ranges(column, data, bins)
    if column.missing.all() or column.nominal:
        evaluation = evaluate_cells(
            data, partition, choose_null(data, "bernoulli"), random_state=random_state
        )
        gap, summary = evaluation.tally.gap, evaluation.summary
        worst = np.nanargmax(np.abs(gap))
        return column.name, summary.value, partition.cells.labels()[worst], gap[worst], summary.p_value
    error = tally_error(mean_tally(data, partition), "l1")
    curve = curve_of(data, column.values, random_state=random_state)
    return column.name, error, curve.worst_value, curve.worst_gap, curve.p_value
