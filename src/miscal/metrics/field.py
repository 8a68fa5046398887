"""Calibration by the levels of a field (paper 003): errors (equations 3 to 5), and the result with its noise.

What sets a level apart from the others: all predictions are shifted in log-odds by one number, such that they are right
in total, and each level is tested again.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.aggregate.in_memory import mean_tally, tally
from miscal.aggregate.tally import Tally
from miscal.cells.coding import Nested, field_pooling, named_columns, nested_levels
from miscal.cells.partitions import BinPooling, LevelPooling, Pooling, Ranges
from miscal.cells.ranges import Bins, edges_for
from miscal.data.arrays import Array, Plain
from miscal.data.checks import number, one_of
from miscal.data.errors import refusal, warn
from miscal.data.predictions import Predictions
from miscal.data.target import TargetData, select_target
from miscal.metrics.cell_evaluation import (
    CellEvaluation,
    WorstCell,
    category_tests,
    draws_for,
    evaluate_cells,
    evaluate_tally,
    worst_of,
)
from miscal.metrics.inputs import MetricInput, Norm, aggregate, also_of_tables, bins_asked
from miscal.metrics.losses import in_the_large
from miscal.metrics.score_errors import tally_error
from miscal.results import CellResult, Record, Table
from miscal.stats.null_model import NullModel, choose_null
from miscal.stats.shrinkage import shrink_level_gaps
from miscal.stats.sign_flip import cluster_blocks


def field_calibration_error(
    y_true: Any,
    y_prob: Any,
    field: Any,
    *,
    bins: Bins | None = None,
    norm: Norm = "l1",
    target: str | int = "auto",
    sample_weight: Any = None,
    response: str = "binary",
) -> float:
    r"""Average gap between predicted probability and observed frequency over the levels of a field (Field-ECE).

    .. math:: \frac{1}{W}\sum_z \Big|\sum_{i \in z} w_i (y_i - p_i)\Big|

    Every level counts, however rare, and missing values are a level of their own. With many levels most of the value
    is noise: `miscal.by_field` says how much.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: booleans, 0 and 1, or class numbers from 0 to K - 1.
    y_prob : array-like of shape (n,) or (n, K)
        Probability of class 1, or of each class; rows of several classes sum to 1.
    field : array-like of shape (n,), or several
        Categories of any kind, or several columns to cross.
        A list of scalars is one field, a list of arrays (or a frame) is crossed: combinations that occur are levels.
        Small whole numbers are used as they are, without being sorted or hashed.
    bins : int or array-like, default=None
        Number of ranges of equal support into which numeric columns are cut, or their edges; None: each number is a
        category.
    norm : {"l1", "l2", "max"} or float, default="l1"
        How gaps are averaged: "l2" is the root of the weighted mean square; a number is any p of at least 1.
    target : {"auto", "positive", "top"} or int or str, default="auto"
        The positive class, the most probable class (confidence against correctness), or a class against the rest.
    sample_weight : array-like of shape (n,), default=None
        Sampling weights; rows of weight 0 are ignored.
    response : {"binary", "real", "count"}, default="binary"
        "real" where outcomes and predictions are any numbers, "count" where they are counts and their means.

    Examples
    --------
    >>> from miscal.metrics import field_calibration_error
    >>> round(field_calibration_error([0, 1, 1, 1], [0.1, 0.8, 0.9, 0.6], ["a", "a", "b", "b"]), 6)
    0.15
    >>> round(field_calibration_error([0, 1], [0.1, 0.8], [["a", "a"], [1, 2]]), 6)
    0.15
    """
    inputs = MetricInput(y_true, y_prob, sample_weight, response)
    return tally_error(_level_tally(inputs, field, bins, target), norm) * inputs.scale


def field_relative_calibration_error(
    y_true: Any,
    y_prob: Any,
    field: Any,
    *,
    epsilon: float = 0.01,
    zero: str = "epsilon",
    bins: Bins | None = None,
    norm: Norm = "l1",
    target: str | int = "auto",
    sample_weight: Any = None,
    response: str = "binary",
) -> float:
    r"""Average gap relative to the observed frequency, over the levels of a field (Field-RCE).

    .. math:: \frac{1}{W}\sum_z W_z\,\frac{|\sum_{i\in z} w_i(y_i-p_i)|}{\sum_{i\in z} w_i(y_i+\varepsilon)}

    The epsilon stands inside the sum, as in the paper: a level without events has :math:`\varepsilon W_z` beneath the
    line and can weigh heavily. With ``zero="drop"`` levels without events leave both sums, and epsilon is 0.

    Parameters
    ----------
    epsilon : float, default=0.01
        Above 0; used with ``zero="epsilon"`` only.
    zero : {"epsilon", "drop"}, default="epsilon"
        What becomes of levels without events. NaN, with a warning, where "drop" leaves none.

    Notes
    -----
    The other parameters are those of `field_calibration_error`.

    Examples
    --------
    >>> from miscal.metrics import field_relative_calibration_error
    >>> y, p, z = [1, 0, 0, 0], [0.5, 0.25, 0.25, 0.25], ["a", "a", "b", "b"]
    >>> round(field_relative_calibration_error(y, p, z), 4)
    12.6225
    >>> field_relative_calibration_error(y, p, z, zero="drop")
    0.25
    """
    one_of("zero", zero, ("epsilon", "drop"))
    hint = "zero='drop' leaves out the levels without events, and needs none"
    number("epsilon", epsilon, 0.0, above=True, hint=hint)
    inputs = MetricInput(y_true, y_prob, sample_weight, response)
    if inputs.predictions.units.low:
        hint = "use field_calibration_error"
        raise refusal("must not be negative", "'y_true' and 'y_prob'", hint=hint)
    levels = _level_tally(inputs, field, bins, target)
    below = levels.observed + (epsilon / inputs.scale if zero == "epsilon" else 0.0) * levels.weight
    counted = below > 0
    if not counted.any():
        warn("no level of the field has an event, so that zero='drop' leaves nothing to average")
        return math.nan
    relative = np.abs(levels.events_off)[counted] / below[counted]
    return float(aggregate(relative, levels.weight[counted], norm))


def _level_tally(inputs: MetricInput, field: Any, bins: Bins | None, target: str | int) -> Tally:
    pooling = field_pooling(field, bins)
    codes = inputs.kept_rows(pooling.level_codes, "'field'")
    return mean_tally(inputs.pair(target), LevelPooling(codes, pooling.cells))


def probability_calibration_error(
    y_true: Any,
    y_prob: Any,
    *,
    bins: Bins = 15,
    norm: Norm = "l1",
    target: str | int = "auto",
    sample_weight: Any = None,
) -> float:
    """Average gap over left-closed bins of the probability (the paper's Prob-ECE), with p = 1 in the last bin.

    `expected_calibration_error` has right-closed bins; the two differ only where a probability equals an edge. The
    paper's bins cover [0, 1) and lose p = 1, which is kept here.

    Examples
    --------
    >>> from miscal.metrics import probability_calibration_error
    >>> round(probability_calibration_error([0, 1, 1], [0.1, 0.5, 1.0], bins=2), 6)
    0.2
    """
    data = MetricInput(y_true, y_prob, sample_weight).pair(target)
    edges = edges_for(data.predicted, bins, "uniform", low=0.0, high=1.0)
    edges[1:-1] = np.nextafter(edges[1:-1], -np.inf)  # right-closed at the number before is left-closed
    return tally_error(mean_tally(data, BinPooling(data.predicted, Ranges(edges))), norm)


LEVEL_COLUMNS = (
    "shrunken",
    "shrunken_low",
    "shrunken_high",
    "difference",
    "difference_p",
    "difference_adjusted",
)
MAX_SHIFT = 20.0  # in log-odds; a larger one comes from predictions that are all nearly 0 or 1


@dataclass(frozen=True)
class CommonShift(Record):
    """Whether levels differ: the error over them once one shift of all predictions has made their total right.

    Attributes
    ----------
    shift : float
        Added to the log-odds; of other means a factor, or a number that is added where some are negative.
    value, noise_floor, p_value : float
        Of the error after the shift.
    """

    shift: float
    value: float
    noise_floor: float
    p_value: float


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FieldResult(CellResult):
    """Calibration by the categories of a column, or by the combinations of several.

    Attributes
    ----------
    column : str or list of str
    worst : WorstCell
    noise_share : float
        The noise floor as a share of the value, 1 at most.
    shrunken_value : float
        The error of the shrunken gaps.
    spread : list of float
        Standard deviation of the gaps between levels in log-odds, chance excluded; then between their parents, ...
    differences : CommonShift or None
        The error after a common shift; None where there is a single level, or no shift makes the total right.
    parts : list of list or None
        Of crossed columns: the category of each column, one list per column with one entry per cell.
    """

    kind: str = "field"
    column: str | list[str]
    worst: WorstCell
    noise_share: float
    shrunken_value: float
    spread: list[float]
    differences: CommonShift | None = None
    parts: list[list[Any]] | None = None


@also_of_tables
def by_field(
    p: Predictions,
    field: str | Sequence[str],
    *,
    parent: str | Sequence[str] | None = None,
    bins: Bins | None = None,
    norm: Norm = "l1",
    target: str | int = "auto",
    null: str = "bernoulli",
    random_state: int = 0,
) -> FieldResult:
    """Calibration by the levels of a field, every level tested; several fields are crossed.

    The p-value is that of four tests together, the average error, chi-square, the largest level and the total
    (`result.tests` has each by itself). Each distinct value is a level, missing is one, none is dropped or lumped;
    crossed fields have the combinations that occur. The table has for each level rows, events, predicted, observed,
    ratio, gap with its simultaneous interval, p-value (exact where rows are few) and Holm's; and

    - shrunken, shrunken_low, shrunken_high: the gap drawn towards its parent's (or that of all rows) by as much as its
      noise asks for (empirical Bayes), and the 95% interval of each by itself. Order levels by it: a level of 12 rows
      does not head the list by chance;
    - difference, difference_p, difference_adjusted: what is left of the gap once all predictions are shifted in
      log-odds by one number so that their total is right. It sets a level apart from the others, not from zero.

    The result also has the numbers that `FieldResult` lists: the noise floor as a share of the value, the error of the
    shrunken gaps, the standard deviation between levels, and the error after a common shift.

    Parameters
    ----------
    field : str or sequence of str
        Name of a column, or several to cross.
    parent : str or sequence of str, default=None
        Name of the column that the field is nested in; several from the outermost to the nearest, such as
        ["country", "advertiser"]. A level is then its place in the hierarchy, "Acme > summer sale".
    bins : int or array-like, default=None
        Ranges into which numeric columns are cut; None: each number is a category.
    norm, target, null, random_state
        As in `by_score`.

    Examples
    --------
    >>> import numpy as np, miscal
    >>> rng = np.random.default_rng(0)
    >>> state = rng.choice(["CA", "NY", "TX"], 3000)
    >>> p = miscal.Predictions(
    ...     rng.random(3000) < np.where(state == "NY", 0.5, 0.3), np.full(3000, 0.3), columns={"state": state}
    ... )
    >>> miscal.by_field(p, "state").table.sort("p_adjusted")["label"][0]
    'NY'
    """
    data = select_target(p, target)
    levels = _levels(p, field, parent, bins)  # which rejects what cannot be bins
    settings = {
        "column": field if isinstance(field, str) else list(field),
        "parent": parent,
        "bins": bins_asked(bins),
    }
    options: Plain = {"norm": norm, "random_state": random_state}
    return measure_field(data, choose_null(data, null), levels, settings, **options)


def measure_field(
    data: TargetData,
    null_model: NullModel,
    levels: Nested,
    settings: Mapping[str, Any],
    *,
    norm: Norm = "l1",
    random_state: int = 0,
) -> FieldResult:
    """`by_field` of target data that are at hand, with their null model and the level of each row.

    Parameters
    ----------
    data : TargetData
    null_model : NullModel
        What `choose_null` gives for the data.
    levels : Nested
    settings : mapping of str to object
        "column", "parent" and "bins", by which the levels were made.
    norm, random_state
        As in `by_field`.
    """
    options: Plain = {
        "norm": norm, "random_state": random_state, "draws": draws_for(levels.pooling.cells.count),
    }  # fmt: skip
    evaluation = evaluate_cells(data, levels.pooling, null_model, unordered=True, **options)
    several = np.count_nonzero(evaluation.tally.counts) > 1
    shifted_cells = _shifted_cells(data, levels.pooling, evaluation, **options) if several else None
    used = {"norm": norm, "target": data.label, "random_state": random_state}
    return field_result(evaluation, levels, {**settings, **used}, shifted_cells)


@dataclass(frozen=True)
class ShiftedCells:
    """The levels after one shift of all predictions that makes their total right.

    Attributes
    ----------
    shift : float
    cells : CellEvaluation
    """

    shift: float
    cells: CellEvaluation


def field_result(
    evaluation: CellEvaluation,
    levels: Nested,
    settings: Mapping[str, Any],
    shifted_cells: ShiftedCells | None = None,
) -> FieldResult:
    """The record of the levels.

    Parameters
    ----------
    evaluation : CellEvaluation
    levels : Nested
    settings : mapping of str to object
    shifted_cells : ShiftedCells, optional
        Where the rows are at hand.
    """
    field, weight, units = settings["column"], evaluation.sums.weight, evaluation.null_model.units
    shrunken, spreads = _shrunken(evaluation, levels, shifted_cells)
    shrunken = shrunken * units.scale
    summary = evaluation.summary
    share = min(1.0, summary.noise_floor / summary.value) if summary.value > 0 else math.nan
    differences = [np.full(weight.size, np.nan)] * 3
    common_shift = None
    if shifted_cells is not None:
        moved = shifted_cells.cells
        differences = [moved.tally.gap * units.scale, moved.cell_p_values.p_value, moved.p_adjusted]
        value, floor = moved.summary.value * units.scale, moved.summary.noise_floor * units.scale
        common_shift = CommonShift(shifted_cells.shift, value, floor, moved.summary.p_value)
    columns = dict(evaluation.columns)
    if levels.parents:
        columns["parent"] = list(levels.parents)
    columns["events"] = evaluation.sums.observed * units.scale + units.low * weight
    columns |= zip(LEVEL_COLUMNS, [*shrunken, *differences], strict=True)
    words = "All of it may be noise." if share == 1.0 else ""
    if share < 1.0:
        words = f"Calibrated predictions would show {share:.0%} of the value."
    used = {"levels": weight.size, "null": evaluation.null_model.null, "draws": summary.draws}
    name = f"Calibration by {field if isinstance(field, str) else ' and '.join(field)}"
    common = evaluation.common_fields(
        name, {**settings, **used}, combined=category_tests(evaluation), words=words, table=Table(columns)
    )
    return FieldResult(
        **common,
        worst=worst_of(evaluation),
        column=field,
        noise_share=share,
        shrunken_value=float(aggregate(shrunken[0], weight)),
        spread=list(spreads),
        differences=common_shift,
        parts=[list(part) for part in levels.parts] if levels.parts else None,
    )


def _levels(
    p: Predictions, field: str | Sequence[str], parent: str | Sequence[str] | None, bins: Bins | None
) -> Nested:
    columns = named_columns(p.columns, field)
    if not columns:
        raise refusal("must name at least one column", "'field'", got="it is empty")
    parents = [] if parent is None else named_columns(p.columns, parent)
    names = [column.name for column in [*parents, *columns]]
    if len(set(names)) < len(names):
        got = f"they name {', '.join(names)}"
        raise refusal("must name different columns", "'field' and 'parent'", got=got)
    return nested_levels(columns, parents, bins)


def _shifted_cells(
    data: TargetData, partition: Pooling, evaluation: CellEvaluation, **options: Any
) -> ShiftedCells | None:
    """The levels after a common shift; None where no shift makes the total right.

    The shift is added to the log-odds; other means are multiplied by it, or it is added where some are negative. There
    is none where all outcomes are alike, or where all predictions are 0 or 1.
    """
    shift, move = (in_the_large(data).value, shifted) if data.binary else _mean_shift(data)
    if not abs(shift) < MAX_SHIFT:
        return None
    moved = tally(replace(data, predicted=move(data.predicted, shift)), partition)
    rows = evaluation.rows
    if rows is not None:
        rows = replace(rows, predicted=move(rows.predicted, shift))
    return ShiftedCells(shift, evaluate_tally(moved, evaluation.null_model, rows, **options))


def _mean_shift(data: TargetData) -> tuple[float, Callable[..., Array]]:
    """The shift that makes the total of other means right, and its operation: a factor, or a number that is added."""
    observed = np.average(data.observed, weights=data.mean_weight)
    predicted = np.average(data.predicted, weights=data.mean_weight)
    if data.units.low == 0.0 and predicted > 0.0:
        return observed / predicted, np.multiply
    return observed - predicted, np.add


def shifted(probability: Array, shift: float) -> Array:
    """Add a number to the log-odds: p·e^δ/(1 + p(e^δ - 1)).

    >>> shifted(np.array([0.0, 0.5, 1.0]), np.log(3)).round(6).tolist()
    [0.0, 0.75, 1.0]
    """
    factor = math.exp(-abs(shift))  # at most 1, so that nothing overflows
    event, non_event = probability, 1.0 - probability
    if shift >= 0:
        non_event = non_event * factor
    else:
        event = event * factor
    return event / (event + non_event)


def _shrunken(
    evaluation: CellEvaluation, levels: Nested, shifted_cells: ShiftedCells | None
) -> tuple[Array, tuple[float, ...]]:
    """As `shrink_level_gaps`: what all levels share is taken off first, so that the rest is small."""
    moved = evaluation if shifted_cells is None else shifted_cells.cells
    sums, rows = moved.sums, moved.rows
    variance = sums.residual2
    # Relative errors are alike, or where some values are negative errors themselves.
    if not evaluation.null_model.binary:
        variance = np.maximum(variance, sums.variance)
        alike = sums.predicted * sums.weight2 / np.maximum(sums.weight, 1e-300)
        sums = replace(sums, variance=alike if evaluation.null_model.units.low == 0.0 else sums.weight2)
    if rows is not None and rows.cluster is not None:
        variance = cluster_blocks(rows).squares()
    gaps, spreads = shrink_level_gaps(sums, variance, levels.ancestors)
    with np.errstate(divide="ignore", invalid="ignore"):
        common_gap = (evaluation.sums.predicted - moved.sums.predicted) / evaluation.sums.weight
    return gaps + common_gap, spreads
