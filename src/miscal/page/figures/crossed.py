"""Running totals, in which Kuiper's range can be seen, and maps of the gap over two columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from miscal.page import words
from miscal.page.entries import REACH, Entry, Grid, Walk, listed
from miscal.page.figures import axes, marks
from miscal.page.figures.marks import Figure
from miscal.page.figures.scales import Scale, known, nice
from miscal.page.markup import Safe

_LEFT, _RIGHT, _SIDE, _TOP, _BOTTOM = 54.0, 404.0, 466.0, 24.0, 364.0
_SIZE = (480.0, 406.0)
_TITLE = "Running total of predicted minus happened"
_STEPS = (2.0, 3.0, 4.0)  # standard errors from which a cell is shaded more


class _Unit(NamedTuple):
    """What heights are counted in."""

    label: str
    of: str
    ticks: axes.Writer
    write: Callable[[object], str]


_SHARE = _Unit("Predicted minus happened, so far (share of the rows)", "all rows", axes.rates, words.percent)
_DEVIATIONS = _Unit(
    "Predicted minus happened, so far (deviations of noise)", "noise's standard deviation", axes.numbers, words.number
)


def cumulative(walk: Walk | None, reach: tuple[float, float] | None = None) -> Figure:
    """Draw the running total of predicted minus happened over rows ordered by score; its range is Kuiper's.

    A rising stretch is over-predicted, a falling one under-predicted.

    reach : draw in standard deviations of noise, from one to the other, so that several figures can be compared
    """
    if walk is None:
        return marks.drawn("cumulative", _TITLE, "There is no running total in this audit.", _SIZE, [])
    walk = _thinned(walk)
    columns = {"share_of_rows": walk.share, "score": walk.score, "running_total": walk.total}
    columns |= {"noise_low": walk.low, "noise_high": walk.high}
    table = listed({name: column for name, column in columns.items() if np.isfinite(column).any()})
    unit = _SHARE
    if reach is not None and walk.deviation > 0:
        unit, walk = _DEVIATIONS, _scaled(walk)
    else:
        shaded = known(walk.low, walk.high, walk.top, walk.bottom)
        reach = float(shaded.min()), float(shaded.max())
    x, y = Scale(0.0, 1.0, _LEFT, _RIGHT), Scale(*nice(*reach), _BOTTOM, _TOP)
    drawn = [
        axes.left(y, _LEFT, _RIGHT, unit.ticks),
        marks.text(_LEFT, 12, unit.label, "label"),
        marks.band(x(walk.share), y(walk.low), y(walk.high)),
        marks.segment(x.start, y.at(0.0), x.end, y.at(0.0), "zero"),
        marks.line(x(walk.share), y(walk.total), "walk"),
        *_bracket(walk, x, y, unit),
        *_stops(walk, x, y, unit),
        axes.bottom(x, _BOTTOM, "Rows ordered from the lowest score to the highest"),
    ]
    description = (
        f"The running total moves between {unit.write(walk.bottom)} and {unit.write(walk.top)} of {unit.of} and "
        f"ends at {unit.write(walk.total[-1])}. Its range, {unit.write(walk.size)}, is the Kuiper range."
    )
    return marks.drawn("cumulative", _TITLE, description, _SIZE, drawn, table)


def deviation_reach(walks: Sequence[Walk]) -> tuple[float, float] | None:
    """The lowest and highest point of several running totals in standard deviations of their noise."""
    ends = [end / walk.deviation for walk in walks if walk.deviation > 0 for end in (walk.bottom, walk.top)]
    return (round(min(*ends, -REACH), 9), round(max(*ends, REACH), 9)) if ends else None


def _thinned(walk: Walk) -> Walk:
    """The points that can be seen."""
    keep = marks.thinned(walk.total)
    return replace(walk, **{key: getattr(walk, key)[keep] for key in ("share", "total", "score", "low", "high")})


def _scaled(walk: Walk) -> Walk:
    """The same in standard deviations of noise."""
    return replace(walk, **{key: getattr(walk, key) / walk.deviation for key in ("total", "low", "high", "size")})


def _bracket(walk: Walk, x: Scale, y: Scale, unit: _Unit) -> list[Safe]:
    """The bracket at the right that shows the range, with dotted lines from the two extremes."""
    side = x.end + 10
    peak = float(walk.share[int(walk.total.argmax())]) if walk.top > 0 else 0.0
    trough = float(walk.share[int(walk.total.argmin())]) if walk.bottom < 0 else 0.0
    top, bottom = y.at(walk.top), y.at(walk.bottom)
    return [
        marks.segment(x.at(peak), top, side, top, "dotted"),
        marks.segment(x.at(trough), bottom, side, bottom, "dotted"),
        marks.segment(side, top, side, bottom, "bracket"),
        marks.segment(side - 4, top, side + 4, top, "bracket"),
        marks.segment(side - 4, bottom, side + 4, bottom, "bracket"),
        marks.text(side + 8, (top + bottom) / 2 - 4, "range", "tick"),
        marks.text(side + 8, (top + bottom) / 2 + 10, unit.write(walk.size), "tick strong"),
    ]


def _stops(walk: Walk, x: Scale, y: Scale, unit: _Unit) -> list[Safe]:
    """Invisible points along the line, so that hovering reads the running total."""
    stops = np.unique(np.linspace(0, len(walk.share) - 1, 40).astype(np.intp))
    return [
        marks.point(x.at(walk.share[i]), y.at(walk.total[i]), "ghost", _stop(walk, int(i), unit), 3.5) for i in stops
    ]


def _stop(walk: Walk, i: int, unit: _Unit) -> str:
    score, total = walk.score[i], walk.total[i]
    upto = f" (up to {words.percent(score)})" if np.isfinite(score) else ""
    more = "more predicted than happened" if total >= 0 else "more happened than predicted"
    size = f"{unit.write(abs(total))} {'of all rows' if unit is _SHARE else 'deviations'}"
    return f"Lowest {words.percent(walk.share[i], 2)} of scores{upto}\n{size} {more}"


def neighbourhood(result: Entry) -> Figure:
    """Draw a plane of two columns, each cell shaded by the gap of the rows around it, in standard errors."""
    title, grid = "Map of the gap", result.grid
    if grid is None:
        return marks.drawn("neighbourhood", title, "There is no map in this audit.", _SIZE, [])
    one, two = [*result.columns, "x", "y"][:2]
    across, up = Scale(grid.x[0], grid.x[-1], _LEFT, _SIDE), Scale(grid.y[0], grid.y[-1], _BOTTOM, _TOP)
    filled = list(zip(*np.nonzero(grid.rows > 0), strict=True))
    drawn = [_heat(grid, i, j, across, up, (one, two)) for i, j in filled]
    drawn += [
        axes.left(up, _LEFT, _LEFT, axes.numbers),
        axes.bottom(across, _BOTTOM, one[:40], axes.numbers),
        marks.text(_LEFT, 12, two, "label", limit=40),
    ]
    row, column = np.nonzero(grid.rows > 0)
    table = {f"{one} from": grid.x[column], f"{two} from": grid.y[row], "rows": grid.rows[row, column],
             "gap": grid.gap[row, column], "standard errors": grid.deviations[row, column]}  # fmt: skip
    description = f"The gap around each place of {one} (across) and {two} (up)."
    return marks.drawn("neighbourhood", title, description, _SIZE, drawn, listed(table))


def _heat(grid: Grid, i: int, j: int, across: Scale, up: Scale, names: tuple[str, str]) -> Safe:
    """One cell of the map."""
    (left, right), (low, high) = across(grid.x[j : j + 2]), up(grid.y[i : i + 2])
    place = (
        f"{names[0]} {grid.x[j]:.3g} to {grid.x[j + 1]:.3g}, {names[1]} {grid.y[i]:.3g} to {grid.y[i + 1]:.3g}\n"
        f"{words.points(grid.gap[i, j])}, {words.count(grid.rows[i, j])} rows"
    )
    return marks.bar(left, high, right - left, low - high, _shade(grid.deviations[i, j]), place)


def _shade(deviations: float) -> str:
    if not np.isfinite(deviations):
        return "heat none"
    step = sum(abs(deviations) >= limit for limit in _STEPS)
    return f"heat {'over' if deviations > 0 else 'under'}-{step}" if step else "heat within"
