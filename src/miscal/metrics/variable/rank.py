"""Variables ranked by how miscalibrated predictions are along them."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.data.columns import Column
from miscal.engines.memory import mean_tally
from miscal.inference.adjust import holm
from miscal.metrics.arrays import Given
from miscal.metrics.pooled import pooled
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
    sample_weight: Any = None,
    random_state: int = 0,
) -> Table:
    """Rank the columns of a frame by their variable-based calibration error (paper 000, Table 1).

    Parameters
    ----------
    frame : frame of any library, dict of columns, or (n, d) matrix

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
    given = Given(y_true, y_prob, sample_weight)
    pair = given.pair(target)
    found = [_row(given.column(each), pair, bins, random_state) for each in variable_columns(frame)]
    names = ("name", "error", "worst_value", "worst_gap", "p_value")
    table = {name: [row[place] for row in found] for place, name in enumerate(names)}
    table["p_value"] = holm(np.array(table["p_value"], dtype=float)).tolist()
    if any(isinstance(value, str) for value in table["worst_value"]):
        table["worst_value"] = [str(value) for value in table["worst_value"]]
    return Table(table).sort("error", descending=True)


def _row(each: Column, pair: Pair, bins: int, random_state: int) -> tuple[Any, ...]:
    pooling = range_pooling(each, bins, weight=pair.weight, count=pair.count, separate_common=False)
    if each.nominal or np.isnan(each.values).all():
        found = pooled(pair, pooling, random_state=random_state)
        place = int(np.nanargmax(np.abs(found.tally.gap)))
        label = pooling.cells.labels()[place]
        return each.name, found.summary.value, label, float(found.tally.gap[place]), found.summary.p_value
    error = tally_error(mean_tally(pair, pooling), "l1")
    curve = curve_of(pair, each.values, {"random_state": random_state})
    return each.name, error, curve.worst_value, curve.worst_gap, curve.p_value
