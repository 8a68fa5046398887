"""Neighbourhoods of a deep audit: the plane of each pair of numeric columns, searched by a kernel."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np

from miscal.auditing.search.groups import sums_of
from miscal.auditing.search.looking import Looked, Say, suspicion
from miscal.auditing.search.places import Place
from miscal.auditing.search.ranges import best_boxes
from miscal.data.predictions import Predictions
from miscal.metrics.neighbourhood.result import by_neighbourhood
from miscal.pooling.condition import Condition, Conjunction
from miscal.results import Result

FAMILY = "neighbourhoods"
BANDWIDTH = 0.3  # in standard deviations, times the two dimensions
MOST_PAIRS = 15
GRID = 24
RANGES = 20  # of each variable, to describe the neighbourhood as a box
PLACES = 1000  # boxes in a plane that do not share most of their rows, roughly: what having searched it costs
MOST_ROWS = 200_000
SEVERAL = 3  # pairs for which 999 simulations can be significant; more pairs get more
WHOLE_SCORE = (0.0, 1.0)


def look_at_neighbourhoods(predictions: Predictions, looked: Looked, level: float, random_state: int, say: Say) -> None:
    """Test the plane of every pair of numbers, the most suspect ones first; pairs left out are counted."""
    numeric = [
        (suspicion(result, group), column) for column, result, group in looked.columns if column.kind == "numeric"
    ]
    pairs = sorted(combinations(numeric, 2), key=lambda two: (min(two[0][0], two[1][0]), two[0][0] + two[1][0]))
    if not pairs or predictions.rows > MOST_ROWS:
        return
    draws = 999 * max(1, math.ceil(len(pairs) / SEVERAL))
    found: list[tuple[float, Result, Place]] = []
    for (_, one), (_, two) in pairs[:MOST_PAIRS]:
        say(f"neighbourhoods of {one.name} and {two.name}")
        result = by_neighbourhood(
            predictions, [one.name, two.name], bins=WHOLE_SCORE, bandwidth=BANDWIDTH, simulations=draws,
            target=looked.target, random_state=random_state,
        )  # fmt: skip
        if result.table.rows and not math.isnan(result.p_value):
            place = _place(predictions, looked, (one.name, two.name))
            place.p_value = min(1.0, result.p_value * len(pairs))
            found.append((result.p_value, _mapped(predictions, (one.name, two.name), result), place))
    looked.searched[FAMILY] = len(pairs), [place for _, _, place in found]
    looked.further += [result for p, result, _ in sorted(found, key=lambda item: item[0])[:3] if p <= level]


def _mapped(predictions: Predictions, names: tuple[str, str], result: Result) -> Result:
    """The result with its map as a grid: mean gap and standard errors of the rows in each cell of the plane."""
    values = [predictions.columns[name].values for name in names]
    local = result.extra["map"]
    ends = [[float(end) for end in np.nanquantile(column, [0.01, 0.99])] for column in values]
    edges = [np.linspace(low, high, GRID + 1) for low, high in ends]
    if any(e[0] >= e[-1] for e in edges):
        return result
    cell = [np.digitize(v, e[1:-1]) for v, e in zip(values, edges, strict=True)]
    known = ~(np.isnan(values[0]) | np.isnan(values[1]))
    code = (cell[1] * GRID + cell[0])[known]
    gap, error = np.nan_to_num(local.gap[known]), local.error[known]
    rows = np.bincount(code, minlength=GRID * GRID).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(code, gap, GRID * GRID) / rows
        size = np.bincount(code, np.nan_to_num(gap / error), GRID * GRID) / rows
    grid = {"x": edges[0], "y": edges[1], "gap": mean, "deviations": size, "rows": rows}
    shaped = {name: v.reshape(GRID, GRID).tolist() if v.size == GRID * GRID else v.tolist() for name, v in grid.items()}
    return replace(result, extra={**result.extra, "grid": shaped})


def _place(predictions: Predictions, looked: Looked, names: tuple[str, str]) -> Place:
    """The box of the plane that stands out most, among all boxes of twenty by twenty ranges."""
    values = [predictions.columns[name].values for name in names]
    rows, known = looked.rows, np.flatnonzero(~(np.isnan(values[0]) | np.isnan(values[1])))
    cuts = [np.unique(np.quantile(v[known], np.linspace(0.0, 1.0, RANGES + 1)[1:-1])) for v in values]
    codes = [np.searchsorted(cut, v[known]) for cut, v in zip(cuts, values, strict=True)]
    residual = rows.beyond.predicted[known] - rows.beyond.observed[known]
    noise = rows.beyond.predicted[known] * (1.0 - rows.beyond.predicted[known])
    if rows.weight is not None:
        residual, noise = residual * rows.weight[known], noise * rows.weight[known] ** 2
    shape = (cuts[0].size + 1, cuts[1].size + 1)
    cell = codes[0] * shape[1] + codes[1]
    off, spread = (np.bincount(cell, each, shape[0] * shape[1]).reshape(shape) for each in (residual, noise))
    best = best_boxes(
        np.asarray(off, float), np.asarray(spread, float), (True, True), shape, float(spread.sum()), beyond=True
    )
    box = best[0].box if best else ((0, shape[0] - 1), (0, shape[1] - 1))
    inside = [(code >= first) & (code <= last) for code, (first, last) in zip(codes, box, strict=True)]
    members = known[inside[0] & inside[1]]
    ends = [(float(v[members].min()), float(v[members].max())) for v in values]
    raw, beyond = sums_of(rows.raw, members), sums_of(rows.beyond, members)
    words = " and ".join(f"{name} {low:.3g} to {high:.3g}" for name, (low, high) in zip(names, ends, strict=True))
    place = Place(None, (), math.nan, 0.0, FAMILY, raw, beyond, PLACES, members, "neighbourhood", words)
    place.columns, place.levels = names, tuple(f"{low:.3g} to {high:.3g}" for low, high in ends)
    place.condition = Conjunction(
        tuple(
            Condition(name, "numeric", float(np.nextafter(low, -np.inf)), high)
            for name, (low, high) in zip(names, ends, strict=True)
        )
    )
    return place
