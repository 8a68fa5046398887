"""Calibration along a variable (paper 000)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from miscal.data.predictions import Predictions
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
    extra: dict[str, Any] = {"tally": found.tally, "worst": worst_cell(found), "column": variable}
    p_value, least, method = found.summary.p_value, p_floor(found.summary), found.method
    if len(columns) == 1 and not columns[0].nominal:
        p_value, least, walk_method, place = _along(compared, columns[0].values, found, random_state)
        extra |= place | {"column_kind": columns[0].kind, "integer": columns[0].integer}
        method = f"{found.noise.reason} p-value: walk along the variable ({walk_method})."
        if curve and not np.isnan(columns[0].values).all():
            smooth = curve_of(compared, columns[0].values, {"grid": CURVE_POINTS, "random_state": random_state})
            extra["curve"] = smooth.frame()
            extra["density"] = density_of(columns[0].values, compared, integer=columns[0].integer)
    plain = bins if isinstance(bins, int) else [float(edge) for edge in bins]
    names = [variable] if isinstance(variable, str) else list(variable)
    settings = {"column": variable if isinstance(variable, str) else names}
    settings |= found.settings(plain, strategy, norm, compared.target, random_state)
    name = f"Calibration by {' and '.join(names)}"
    return found.result(name, "variable", settings, extra, p_value=p_value, method=method, least=least)


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


def _along(
    compared: Pair, values: np.ndarray, found: Pooled, random_state: int
) -> tuple[float, float, str, dict[str, Any]]:
    """P-value of the walk along a variable, its bound, how it was found, and the range in which the walk moves most."""
    known = ~np.isnan(values)
    if not known.any():
        return float(found.adjusted[-1]), math.nan, "all values are missing", {}
    rows = compared if known.all() else compared.take(np.flatnonzero(known))
    key = np.ascontiguousarray(values[known], dtype=np.float64)
    walked, summary = walk_summary(rows, key, noise=found.noise, random_state=random_state)
    p_value, least = summary.p_value, p_floor(summary)
    if not known.all() and isinstance(found.tally.cells, Ranges):
        p_value, least = with_missing(summary, float(found.tests.p_value[-1]))
    ends = sorted(walked.first if math.isnan(end) else end for end in (walked.highest_at, walked.lowest_at))
    place = {"kuiper": walked.range, "kuiper_noise_floor": summary.noise_floor, "range": ends}
    return p_value, least, summary.method, place
