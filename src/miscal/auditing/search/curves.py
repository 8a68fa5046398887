"""The smooth curve of what happened along a variable, with its band, where the page's figure draws it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from miscal.data.columns import Column
from miscal.data.errors import MiscalError
from miscal.metrics.curves import curve_of
from miscal.metrics.variable import density_of
from miscal.pairs import Pair
from miscal.results import Result

MOST_ROWS = 100_000  # a curve of sixty points is not read more finely than this many rows show it
POINTS, LEAST_POINTS = 58, 12  # of a curve; with fewer the ranges say it all
SPAN = 0.3  # of the rows in a window: three of ten ranges, so that the curve can follow the dots
LEAST_ROWS = 100


def curve_rows(rows: int, random_state: int) -> np.ndarray | None:
    """The rows that the curves are drawn from: all of them (None), or a sample that all columns share."""
    if rows <= MOST_ROWS:
        return None
    return np.sort(np.random.default_rng(random_state).choice(rows, MOST_ROWS, replace=False))


def with_curve(result: Result, compared: Pair, column: Column, chosen: np.ndarray | None) -> Result:
    """The result with `extra["curve"]`, and `extra["curve_rows"]` where not all rows were used."""
    values = column.values if chosen is None else column.values[chosen]
    known = np.flatnonzero(~np.isnan(values))
    if known.size < LEAST_ROWS:
        return result
    grid = curve_grid(values[known])
    if not grid.size:
        return result
    rows = known if chosen is None else chosen[known]
    taken = compared if rows.size == compared.rows else compared.take(rows)
    seed = int(result.settings["random_state"])
    try:
        smooth = curve_of(taken, values[known], {"grid": grid, "span": SPAN, "random_state": seed})
    except MiscalError:  # values that cannot carry a curve: the ranges stay
        return result
    said = {} if chosen is None else {"curve_rows": int(known.size)}
    density = density_of(values[known], taken, integer=column.integer)
    return replace(result, extra={**result.extra, "curve": smooth.frame(), "density": density, **said})


def curve_grid(values: np.ndarray) -> np.ndarray:
    """Points where the rows are, from the 2.5% to the 97.5% quantile; none where few values are different.

    >>> curve_grid(np.repeat([1.0, 2.0, 3.0], 100)).size
    0
    """
    points = np.unique(np.quantile(values, np.linspace(0.025, 0.975, POINTS)))
    return points if points.size >= LEAST_POINTS else np.empty(0)
