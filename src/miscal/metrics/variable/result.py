"""Calibration along a variable (paper 000)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from miscal.carriers.walk import Walk
from miscal.data.predictions import Predictions
from miscal.inference.aggregates import NullSummary
from miscal.metrics.norms import Norm
from miscal.metrics.pooled import Pooled, p_floor, pooled, walk_summary, with_missing, worst_cell
from miscal.metrics.variable.curve import curve_of
from miscal.pairs import Pair, pair
from miscal.pooling.cells import Ranges
from miscal.pooling.columns import crossed, named_columns, range_pooling
from miscal.results import Result

CURVE_POINTS = 100
BARS = 40


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
) -> Result:
    """Calibration along a variable: the error over its ranges, with a p-value from the walk ordered by the variable.

    Missing values are a range of their own. The p-value is that of Kuiper's walk along the variable (ties pooled);
    where values are missing it is combined with the missing range's own by Bonferroni. Several variables are crossed,
    and the p-value is then the aggregate's. With `curve` the smooth curves of observed, predicted and gap are kept too
    (`extra["curve"]`), for the plot; leave them out to save their time.

    Examples
    --------
    >>> import numpy as np, miscal
    >>> rng = np.random.default_rng(0)
    >>> age = rng.integers(20, 80, 5000)
    >>> p = miscal.Predictions(rng.random(5000) < 0.3 + 0.006 * (age - 50), np.full(5000, 0.3), columns={"age": age})
    >>> miscal.by_variable(p, "age").p_value < 0.01
    True
    """
    compared = pair(p, target)
    columns = named_columns(p.columns, variable)
    pools = [range_pooling(c, bins, strategy, weight=compared.weight, count=compared.count) for c in columns]
    found = pooled(compared, crossed(pools), norm=norm, null=null, random_state=random_state)
    plain = bins if isinstance(bins, int) else [float(edge) for edge in bins]
    settings = found.settings(plain, strategy, norm, compared.target, random_state)
    if len(columns) != 1 or columns[0].nominal:
        return variable_result(found, [column.name for column in columns], settings)
    extra: dict[str, Any] = {"column_kind": columns[0].kind, "integer": columns[0].integer}
    values = columns[0].values
    known = ~np.isnan(values)
    if not known.any():
        made = variable_result(found, [columns[0].name], settings, extra)
        words = f"{found.noise.reason} p-value: that of the missing values, there are no others."
        return replace(made, p_value=float(found.adjusted[-1]), method=words)
    rows = compared if known.all() else compared.take(np.flatnonzero(known))
    key = np.ascontiguousarray(values[known], dtype=np.float64)
    along = walk_summary(rows, key, noise=found.noise, random_state=random_state)
    if curve:
        smooth = curve_of(compared, values, {"grid": CURVE_POINTS, "random_state": random_state})
        extra |= {"curve": smooth.frame(), "density": density_of(values, compared, integer=columns[0].integer)}
    return variable_result(found, [columns[0].name], settings, extra, along)


def variable_result(
    found: Pooled,
    names: Sequence[str],
    settings: Mapping[str, Any],
    extra: Mapping[str, Any] | None = None,
    along: tuple[Walk, NullSummary] | None = None,
) -> Result:
    """The record of the ranges; of one variable with the walk along it and how its range compares with noise."""
    column = names[0] if len(names) == 1 else list(names)
    more = {"tally": found.tally, "worst": worst_cell(found), "column": column, **(extra or {})}
    p_value, least, method = found.summary.p_value, p_floor(found.summary), found.method
    if along is not None:
        p_value, least, words, place = _along(*along, found)
        more |= place
        method = f"{found.noise.reason} p-value: walk along the variable ({words})."
    name = f"Calibration by {' and '.join(names)}"
    settings = {"column": column, **settings}
    return found.result(name, "variable", settings, more, p_value=p_value, method=method, least=least)


def density_of(values: np.ndarray, compared: Pair, *, integer: bool) -> dict[str, list[float]]:
    """Share of weight in equally wide bars over the middle 98% of the values: what the plot shows beneath."""
    known = ~np.isnan(values)
    low, high = np.quantile(values[known], [0.01, 0.99])
    weight = None if compared.first is None else compared.first[known]
    bars: int | np.ndarray = BARS
    if integer and high - low < 2 * BARS:  # a bar a value: wider bars would hold now one value, now two
        bars = np.arange(low - 0.5, high + 1.0)
    span = (low, high) if high > low else None
    rows, edges = np.histogram(values[known], bins=bars, range=span, weights=weight)
    return {"edges": edges.tolist(), "rows": rows.astype(float).tolist()}


def _along(walked: Walk, summary: NullSummary, found: Pooled) -> tuple[float, float, str, dict[str, Any]]:
    """P-value of the walk along a variable, its bound, how it was found, and the range in which the walk moves most."""
    p_value, least = summary.p_value, p_floor(summary)
    if isinstance(found.tally.cells, Ranges) and found.tally.cells.missing:
        p_value, least = with_missing(summary, float(found.tests.p_value[-1]))
    ends = sorted(walked.first if math.isnan(end) else end for end in (walked.highest_at, walked.lowest_at))
    place = {"kuiper": walked.range, "kuiper_noise_floor": summary.noise_floor, "range": ends}
    return p_value, least, summary.method, place
