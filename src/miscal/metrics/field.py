"""Calibration by the levels of a field (paper 003): errors (equations 3 to 5), and the result with its noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.carriers.tally import Tally
from miscal.data.errors import refusal, warn
from miscal.data.predictions import Predictions
from miscal.engines.memory import mean_tally
from miscal.metrics.arrays import Given, Norm, aggregate, norm_power
from miscal.metrics.field_levels import Differences, Shrunken, level_differences, shrink
from miscal.metrics.pooled import DRAWS, Pooled, pooled, worst_cell
from miscal.metrics.score.binned import Bins
from miscal.pairs import Pair, pair
from miscal.pooling.bins import edges_for
from miscal.pooling.cells import LevelPooling, Numbered
from miscal.pooling.columns import Nested, field_pooling, named_columns, nested_levels
from miscal.results import Result, Table


def field_calibration_error(
    y_true: Any,
    y_prob: Any,
    field: Any,
    *,
    bins: Bins | None = None,
    norm: Norm = "l1",
    target: str | int = "auto",
    sample_weight: Any = None,
) -> float:
    r"""Average gap between predicted probability and observed frequency over the levels of a field (Field-ECE).

    .. math:: \frac{1}{W}\sum_z \Big|\sum_{i \in z} w_i (y_i - p_i)\Big|

    Every level counts, however rare, and missing values are a level of their own. With many levels most of the value
    is noise: `miscal.by_field` says how much.

    Parameters
    ----------
    y_true : (n,) booleans, 0/1, or class numbers 0..K-1
    y_prob : (n,) probability of class 1, (n, 2), or (n, K) with rows that sum to 1
    field : (n,) values of any kind, or several fields to cross
        A list of scalars is one field, a list of arrays (or a frame) is crossed: combinations that occur are levels.
        Small whole numbers are used as they are, without being sorted or hashed.
    bins : number of equal-support ranges, or edges, into which numeric fields are cut; None: each number is a level
    norm : "l1", "l2" (root of the weighted mean square), "max", or any p >= 1
    target : "auto", "positive", "top" (confidence against correctness), or a class against the rest
    sample_weight : (n,) sampling weights; rows of weight 0 are ignored

    Examples
    --------
    >>> from miscal.metrics import field_calibration_error
    >>> round(field_calibration_error([0, 1, 1, 1], [0.1, 0.8, 0.9, 0.6], ["a", "a", "b", "b"]), 6)
    0.15
    >>> round(field_calibration_error([0, 1], [0.1, 0.8], [["a", "a"], [1, 2]]), 6)
    0.15
    """
    norm_power(norm)
    tally = _level_tally(y_true, y_prob, field, bins, target, sample_weight)
    return float(aggregate(tally.gap, tally.weight, norm))


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
) -> float:
    r"""Average gap relative to the observed frequency, over the levels of a field (Field-RCE).

    .. math:: \frac{1}{W}\sum_z W_z\,\frac{|\sum_{i\in z} w_i(y_i-p_i)|}{\sum_{i\in z} w_i(y_i+\varepsilon)}

    The epsilon stands inside the sum, as in the paper: a level without events has :math:`\varepsilon W_z` beneath the
    line and can weigh heavily. With ``zero="drop"`` levels without events leave both sums, and epsilon is 0.

    Parameters
    ----------
    epsilon : above 0; used with ``zero="epsilon"`` alone
    zero : "epsilon" or "drop"
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
    norm_power(norm)
    _check_zero(epsilon, zero)
    tally = _level_tally(y_true, y_prob, field, bins, target, sample_weight)
    return relative_error(tally, epsilon, zero, norm)


def relative_error(tally: Tally, epsilon: float, zero: str, norm: Norm) -> float:
    """Field-RCE of a tally of levels."""
    events, weight, off = tally.observed, tally.weight, np.abs(tally.events_off)
    counted = weight > 0 if zero == "epsilon" else events > 0
    if not counted.any():
        warn("no level of the field has an event, so that zero='drop' leaves nothing to average")
        return float("nan")
    below = events[counted] + (epsilon * weight[counted] if zero == "epsilon" else 0.0)
    return float(aggregate(off[counted] / below, weight[counted], norm))


def _check_zero(epsilon: float, zero: str) -> None:
    if zero not in ("epsilon", "drop"):
        raise refusal("must be 'epsilon' or 'drop'", where="'zero'", got=f"it is {zero!r}")
    fine = isinstance(epsilon, (int, float, np.number)) and not isinstance(epsilon, bool)
    if not fine or not (np.isfinite(epsilon) and epsilon > 0):
        hint = "zero='drop' leaves out the levels without events and needs no epsilon"
        raise refusal("must be a number above 0", where="'epsilon'", got=f"it is {epsilon!r}", hint=hint)


def _level_tally(
    y_true: Any, y_prob: Any, field: Any, bins: Bins | None, target: str | int, sample_weight: Any
) -> Tally:
    given = Given(y_true, y_prob, sample_weight)
    return mean_tally(given.pair(target), given_levels(given, field, bins))


def given_levels(given: Given, field: Any, bins: Bins | None = None) -> LevelPooling:
    """Levels of the rows that were given a weight."""
    pooling = field_pooling(field, bins)
    codes = given.kept_rows(pooling.level_codes, "'field'")
    return LevelPooling(codes, pooling.cells)


@dataclass(frozen=True)
class LeftClosed:
    """Rows pooled by left-closed bins of the prediction; the last bin holds its upper edge too."""

    values: np.ndarray
    edges: np.ndarray

    @property
    def cells(self) -> Numbered:
        return Numbered(self.edges.size - 1)

    def codes(self, start: int, stop: int) -> np.ndarray:
        return np.searchsorted(self.edges[1:-1], self.values[start:stop], side="right")


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
    given = Given(y_true, y_prob, sample_weight)
    return probability_error(given.pair(target), bins, norm)


def probability_error(pair: Pair, bins: Bins, norm: Norm) -> float:
    """Prob-ECE of a pair."""
    norm_power(norm)
    edges = edges_for(pair.predicted, bins, "uniform", low=0.0, high=1.0)
    tally = mean_tally(pair, LeftClosed(pair.predicted, edges))
    return float(aggregate(tally.gap, tally.weight, norm))


MOST_VALUES = 20_000_000  # cells times draws: with very many levels the aggregate hardly varies, and fewer draws do
LEAST_DRAWS = 199


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
) -> Result:
    """Calibration by the levels of a field, every level tested; several fields are crossed.

    Each distinct value is a level, missing is one, none is dropped or lumped; crossed fields have the combinations that
    occur. The table has for each level rows, events, predicted, observed, ratio, gap with its simultaneous interval,
    p-value (exact where rows are few) and Holm's; and

    - shrunken, shrunken_low, shrunken_high: the gap drawn towards its parent's (or that of all rows) by as much as its
      noise asks for (empirical Bayes), and the 95% interval of each by itself. Order levels by it: a level of 12 rows
      does not head the list by luck;
    - difference, difference_p, difference_adjusted: what is left of the gap once all predictions are shifted in
      log-odds by one number so that their total is right. It sets a level apart from the others, not from zero.

    `extra` holds noise_share (the noise floor as a share of the value), shrunken_value (the error of the shrunken
    gaps), spread (standard deviation between levels, in log-odds, beyond noise; then between parents, ...) and
    differences (the error after the common shift, its floor and p-value: do levels differ at all?).

    Parameters
    ----------
    field : name of a column, or several to cross
    parent : name of the column the field is nested in; several from the outermost to the nearest, such as
        ["country", "advertiser"]. A level is then its place in the hierarchy, "Acme > summer sale".
    bins : ranges into which numeric columns are cut; None: each number is a level
    norm, target, null, random_state : see `by_score`

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
    compared = pair(p, target)
    levels = _levels(p, field, parent, bins)
    draws = draws_for(levels.pooling.cells.count)
    found = pooled(compared, levels.pooling, norm=norm, null=null, random_state=random_state, draws=draws)
    apart = None
    if np.count_nonzero(found.tally.counts) > 1:
        apart = level_differences(compared, levels.pooling, found, norm=norm, draws=draws, random_state=random_state)
    settings = {
        "column": _plain(field), "parent": None if parent is None else _plain(parent),
        "bins": bins if bins is None or isinstance(bins, int) else [float(edge) for edge in bins], "norm": norm,
        "target": compared.target, "random_state": random_state,
    }  # fmt: skip
    return field_result(found, levels, settings, apart)


def _plain(names: str | Sequence[str]) -> str | list[str]:
    return names if isinstance(names, str) else list(names)


def draws_for(cells: int) -> int:
    """How many draws so many levels get."""
    return int(np.clip(MOST_VALUES // max(cells, 1), LEAST_DRAWS, DRAWS))


def field_result(
    found: Pooled, levels: Nested, settings: Mapping[str, Any], apart: Differences | None = None
) -> Result:
    """The record of the levels; `apart`, what sets them apart from one another, needs the rows."""
    shrunken = _shrunken(found, levels, apart)
    field = settings["column"]
    used = {"levels": found.table.rows, "null": found.noise.null, "draws": found.summary.draws}
    return found.result(
        f"Calibration by {field if isinstance(field, str) else ' and '.join(field)}",
        "field",
        {**settings, **used},
        _extra(field, found, levels, shrunken, apart),
        method=found.method + _noise_words(found),
        table=_table(found, levels, shrunken, apart),
    )


def _levels(
    p: Predictions, field: str | Sequence[str], parent: str | Sequence[str] | None, bins: Bins | None
) -> Nested:
    own = named_columns(p.columns, field)
    if not own:
        raise refusal("must name at least one column", where="'field'", got="it is empty")
    above = [] if parent is None else named_columns(p.columns, parent)
    names = [column.name for column in [*above, *own]]
    if len(set(names)) < len(names):
        raise refusal("must name different columns", where="'field' and 'parent'", got=f"they name {', '.join(names)}")
    return nested_levels(own, above, bins)


def _shrunken(found: Pooled, levels: Nested, apart: Differences | None) -> Shrunken:
    """Gaps drawn towards their parents': what all levels share is taken off first, so that the rest is small."""
    sums, rows = (found.tally, found.rows) if apart is None else (apart.sums, apart.rows)
    noise = sums.residual2
    if rows is not None and rows.cluster is not None:
        from miscal.inference.residual import cluster_blocks

        noise = cluster_blocks(rows).squares()
    made = shrink(sums, noise, levels.ancestors)
    shared = found.tally.mean_predicted - sums.mean_predicted
    return replace(made, gap=made.gap + shared, low=made.low + shared, high=made.high + shared)


def _noise_words(found: Pooled) -> str:
    share = _noise_share(found)
    if math.isnan(share):
        return ""
    return f" Calibrated predictions would show {share:.0%} of the value." if share < 1 else " All of it may be noise."


def _noise_share(found: Pooled) -> float:
    value, floor = found.summary.value, found.summary.noise_floor
    return min(1.0, floor / value) if value > 0 else math.nan


def _table(found: Pooled, levels: Nested, shrunken: Shrunken, apart: Differences | None) -> Table:
    nothing = np.full(found.table.rows, np.nan)
    columns: dict[str, Any] = dict(found.table)
    if levels.names:
        columns["parent"] = list(levels.names[0])
    columns |= {
        "events": found.tally.observed,
        "shrunken": shrunken.gap,
        "shrunken_low": shrunken.low,
        "shrunken_high": shrunken.high,
        "difference": nothing if apart is None else apart.gap,
        "difference_p": nothing if apart is None else apart.p_value,
        "difference_adjusted": nothing if apart is None else apart.adjusted,
    }
    return Table(columns)


def _extra(
    field: str | Sequence[str], found: Pooled, levels: Nested, shrunken: Shrunken, apart: Differences | None
) -> Mapping[str, Any]:
    weight = found.tally.weight
    size = np.where(weight > 0, np.abs(shrunken.gap), 0.0)
    extra: dict[str, Any] = {
        "tally": found.tally,
        "worst": worst_cell(found),
        "column": field,
        "noise_share": _noise_share(found),
        "shrunken_value": float(size @ weight / weight.sum()),
        "spread": list(shrunken.spreads),
    }
    if apart is not None:
        extra["differences"] = {
            "shift": apart.shift,
            "value": apart.summary.value,
            "noise_floor": apart.summary.noise_floor,
            "p_value": apart.summary.p_value,
        }
    if levels.parts:
        extra["parts"] = [list(part) for part in levels.parts]
    return extra
