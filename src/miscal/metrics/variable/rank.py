"""Variables ranked by how miscalibrated predictions are along them."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.data.columns import Column
from miscal.data.errors import refusal
from miscal.engines.memory import mean_tally
from miscal.inference.adjust import holm
from miscal.metrics.arrays import Given
from miscal.metrics.pooled import choose_null, pooled, walk_summary
from miscal.metrics.score.binned import tally_error
from miscal.metrics.variable.curve import curve_of
from miscal.metrics.variable.error import variable_columns
from miscal.pairs import Pair
from miscal.pooling.columns import range_pooling
from miscal.results import Table


def rank_variables(
    y_true: Any,
    y_prob: Any,
    frame: Any,
    *,
    bins: int = 10,
    target: str | int = "auto",
    worst: str = "curve",
    sample_weight: Any = None,
    random_state: int = 0,
) -> Table:
    """Rank the columns of a frame by their variable-based calibration error (paper 000, Table 1).

    Parameters
    ----------
    frame : frame of any library, dict of columns, or (n, d) matrix
    worst : "curve", the worst point of the smooth curve (the paper's v*), or "range", the worst range's middle: quicker

    Returns
    -------
    Table
        name, error, worst_value, worst_gap, p_value; the largest error first. P-values are those of the walk along the
        column (of the levels' aggregate for nominal columns), Holm-adjusted over the columns.

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
    if worst not in ("curve", "range"):
        raise refusal("must be 'curve' or 'range'", where="'worst'", got=f"it is {worst!r}")
    given = Given(y_true, y_prob, sample_weight)
    pair = given.pair(target)
    found = [_row(given.column(each), pair, bins, worst, random_state) for each in variable_columns(frame)]
    names = ("name", "error", "worst_value", "worst_gap", "p_value")
    table = {name: [row[place] for row in found] for place, name in enumerate(names)}
    table["p_value"] = holm(np.array(table["p_value"], dtype=float)).tolist()
    if any(isinstance(value, str) for value in table["worst_value"]):
        table["worst_value"] = [str(value) for value in table["worst_value"]]
    return Table(table).sort("error", descending=True)


def _row(each: Column, pair: Pair, bins: int, worst: str, random_state: int) -> tuple[Any, ...]:
    pooling = range_pooling(each, bins, weight=pair.weight, count=pair.count, separate_common=False)
    if each.nominal or np.isnan(each.values).all():
        found = pooled(pair, pooling, random_state=random_state)
        place = int(np.nanargmax(np.abs(found.tally.gap)))
        label = pooling.cells.labels()[place]
        return each.name, found.summary.value, label, float(found.tally.gap[place]), found.summary.p_value
    tally = mean_tally(pair, pooling)
    error = tally_error(tally, "l1")
    if worst == "curve":
        curve = curve_of(pair, each.values, {"random_state": random_state})
        return each.name, error, curve.worst_value, curve.worst_gap, curve.p_value
    known = np.flatnonzero(~np.isnan(each.values))
    rows = pair.take(known) if known.size < each.values.size else pair
    key = np.ascontiguousarray(each.values[known], dtype=np.float64)
    _, summary = walk_summary(rows, key, noise=choose_null(rows, "bernoulli"), random_state=random_state, locate=False)
    place = int(np.nanargmax(np.abs(tally.gap)))
    return each.name, error, _middle(pooling, place), float(tally.gap[place]), summary.p_value


def _middle(pooling: Any, place: int) -> float:
    edges = pooling.cells.edges
    return float("nan") if place >= edges.size - 1 else float(0.5 * (edges[place] + edges[place + 1]))
