"""Figures along the rows and along time: running totals, in which Kuiper's range can be seen, maps, and periods."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from miscal.page import marks, words
from miscal.page.entries import REACH, Cells, Entry, Grid, Walk
from miscal.page.gap_figures import way
from miscal.page.json import Floats, floats
from miscal.page.marks import At, Figure, Scale, known, nice, placed, rate_ends
from miscal.page.markup import Safe, ellipsis

_LEFT, _RIGHT, _SIDE, _TOP, _BOTTOM = 54.0, 404.0, 466.0, 24.0, 364.0
_SIZE = (480.0, 406.0)
_TITLE = "Running total of predicted minus happened"
_STEPS = (2.0, 3.0, 4.0)  # standard errors from which a cell is shaded more
_PERIODS_SIZE, _END, _CEILING, _FLOOR = (480.0, 274.0), 470.0, 30.0, 232.0
_DOTS, _LINES = "Predicted (line) and happened (dots)", "Predicted (thick line) and happened (thin line)"
_MOST_SIGNS = 6
MANY = 60  # periods from which on lines are drawn in place of dots
FEW = 0.02  # of the rows of the largest period: too few to be drawn among so many
_SIGNS = {"worse": "worse", "better": "better", "moved": "turned"}
# What heights are counted in, of what they are a part, and how one is said.
_SHARE = ("share of the rows", "all rows", " of all rows")
_MEAN = ("mean over all rows", "a mean", " on average")
_DEVIATIONS = ("deviations of noise", "noise's standard deviation", " deviations")


def cumulative(walk: Walk, reach: tuple[float, float] | None = None) -> Figure:
    """Draw the running total of predicted minus happened over rows ordered by score; its range is Kuiper's.

    A rising stretch is over-predicted, a falling one under-predicted.

    reach : draw in standard deviations of noise, from one to the other, so that several figures can be compared
    """
    columns = {"share_of_rows": walk.share, "score": walk.score, "running_total": walk.total}
    columns |= {"noise_low": walk.low, "noise_high": walk.high}
    table = {name: column.tolist() for name, column in columns.items() if np.isfinite(column).any()}
    ticks, write, unit = marks.rates, words.percent, _MEAN if words.means() else _SHARE
    if reach is not None and walk.deviation > 0:
        scaled = {key: getattr(walk, key) / walk.deviation for key in ("total", "low", "high", "size")}
        ticks, write, unit, walk = marks.numbers, words.number, _DEVIATIONS, replace(walk, **scaled)
    else:
        shaded = known(walk.low, walk.high, walk.top, walk.bottom)
        reach = float(shaded.min()), float(shaded.max())
    x, y = Scale(0.0, 1.0, _LEFT, _RIGHT), Scale(*nice(*reach), _BOTTOM, _TOP)
    drawn = [
        marks.left(y, _LEFT, _RIGHT, ticks),
        marks.text(_LEFT, 12, f"Predicted minus happened, so far ({unit[0]})", "label"),
        marks.band(x(walk.share), y(walk.low), y(walk.high)),
        marks.segment(x.start, y.at(0.0), x.end, y.at(0.0), "zero"),
        marks.line(x(walk.share), y(walk.total), "walk"),
        *_bracket(walk, x, y, write(walk.size)),
        *_stops(walk, x, y, write, unit[2]),
        marks.bottom(x, _BOTTOM, "Rows ordered from the lowest score to the highest", marks.shares),
    ]
    description = (
        f"The running total moves between {write(walk.bottom)} and {write(walk.top)} of {unit[1]} and "
        f"ends at {write(walk.total[-1])}. Its range, {write(walk.size)}, is the Kuiper range."
    )
    return Figure("cumulative", _TITLE, description, _SIZE, drawn, table)


def deviation_reach(walks: Sequence[Walk]) -> tuple[float, float] | None:
    """The lowest and highest point of several running totals in standard deviations of their noise."""
    ends = [end / walk.deviation for walk in walks if walk.deviation > 0 for end in (walk.bottom, walk.top)]
    return (round(min(*ends, -REACH), 9), round(max(*ends, REACH), 9)) if ends else None


def _bracket(walk: Walk, x: Scale, y: Scale, size: str) -> list[Safe]:
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
        marks.text(side + 8, (top + bottom) / 2 + 10, size, "tick strong"),
    ]


def _stops(walk: Walk, x: Scale, y: Scale, write: Callable[[object], str], of: str) -> list[Safe]:
    """Invisible points along the line, so that hovering reads the running total."""
    drawn = []
    for i in np.unique(np.linspace(0, len(walk.share) - 1, 40).astype(np.intp)):
        share, score, total = walk.share[i], walk.score[i], walk.total[i]
        upto = f" (up to {words.percent(score)})" if np.isfinite(score) else ""
        more = "more predicted than happened" if total >= 0 else "more happened than predicted"
        said = f"Lowest {words.share(share)} of scores{upto}\n{write(abs(total))}{of} {more}"
        drawn.append(marks.point(x.at(share), y.at(total), "ghost", said, 3.5))
    return drawn


def neighbourhood(grid: Grid, columns: Sequence[str]) -> Figure:
    """Draw a plane of two columns, each cell shaded by the gap of the rows around it, in standard errors."""
    one, two = [*columns, "x", "y"][:2]
    across, up = Scale(grid.x[0], grid.x[-1], _LEFT, _SIDE), Scale(grid.y[0], grid.y[-1], _BOTTOM, _TOP)
    row, column = np.nonzero(grid.rows > 0)
    drawn = [_heat(grid, i, j, across, up, (one, two)) for i, j in zip(row.tolist(), column.tolist(), strict=True)]
    drawn += [
        marks.left(up, _LEFT, _LEFT, marks.numbers),
        marks.bottom(across, _BOTTOM, one[:40], marks.numbers),
        marks.text(_LEFT, 12, two, "label", limit=40),
    ]
    table = {f"{one} from": grid.x[column].tolist(), f"{two} from": grid.y[row].tolist()}
    planes = {"rows": grid.rows, "gap": grid.gap, "standard errors": grid.deviations}
    table |= {key: plane[row, column].tolist() for key, plane in planes.items()}
    description = f"The gap around each place of {one} (across) and {two} (up)."
    return Figure("neighbourhood", "Map of the gap", description, _SIZE, drawn, table)


def _heat(grid: Grid, i: int, j: int, across: Scale, up: Scale, names: tuple[str, str]) -> Safe:
    """One cell of the map."""
    (left, right), (low, high) = across(grid.x[j : j + 2]), up(grid.y[i : i + 2])
    place = (
        f"{names[0]} {grid.x[j]:.3g} to {grid.x[j + 1]:.3g}, {names[1]} {grid.y[i]:.3g} to {grid.y[i + 1]:.3g}\n"
        f"{words.points(grid.gap[i, j])}, {words.count(grid.rows[i, j])} rows"
    )
    deviations = grid.deviations[i, j]
    step = sum(abs(deviations) >= limit for limit in _STEPS)
    shade = f"{'over' if deviations > 0 else 'under'}-{step}" if step else "within"
    shade = f"heat {shade if np.isfinite(deviations) else 'none'}"
    return marks.bar(left, high, right - left, low - high, shade, place)


def period_rates(result: Entry, level: float = 0.05) -> Figure:
    """Draw predicted (line) and happened (dots with intervals, a line where there are many) of every period."""
    periods, note, many, x, beyond = _drawn(result, level)
    low, high = periods.observed_interval()
    y = Scale(*rate_ends(periods.predicted, periods.observed, *([] if many else [low, high])), _FLOOR, _CEILING)
    shapes = [
        marks.left(y, _LEFT, _END),
        marks.text(_LEFT, 12, _LINES if many else _DOTS, "label"),
        marks.line(x, y(periods.observed), "smooth") if many else Safe(""),
        marks.line(x, y(periods.predicted), "predicted"),
    ]
    for i in () if many else range(len(periods)):
        shapes += _dot(periods, i, x[i], y, periods.observed[i], (low[i], high[i]), beyond[i])
    return _figure(result, "predicted and happened", periods, beyond, shapes, {}, note)


def period_gaps(result: Entry, level: float = 0.05) -> Figure:
    """Draw the gap of every period with its interval, over the band that noise alone keeps to, and name the changes."""
    periods, note, many, x, beyond = _drawn(result, level)
    # The band is that of what happens if the predictions are right; in terms of the gap it is turned over.
    low, high = periods.predicted - periods.band_high, periods.predicted - periods.band_low
    ends = known(periods.gap, *([] if many else [periods.gap_low, periods.gap_high]), low, high, 0.0)
    y = Scale(*nice(float(ends.min()), float(ends.max())), _FLOOR, _CEILING)
    shapes = [
        marks.left(y, _LEFT, _END, marks.signed),
        marks.text(_LEFT, 12, "Predicted minus happened", "label"),
        marks.band(x, y(low), y(high)),
        marks.segment(_LEFT, y.at(0.0), _END, y.at(0.0), "zero"),
        marks.line(x, y(periods.gap), "smooth"),
    ]
    for i in range(len(periods)):
        reach = (math.nan, math.nan) if many else (periods.gap_low[i], periods.gap_high[i])
        if not many or beyond[i] or i % max(1, len(periods) // MANY) == 0:
            shapes += _dot(periods, i, x[i], y, periods.gap[i], reach, beyond[i])
    shapes += _signs(result, periods, x, y)
    table = {name: values for name, values in result.table.items() if name != "method"}
    return _figure(result, "predicted minus happened", periods, beyond, shapes, table, note)


def _figure(result: Entry, what: str, periods: Cells, beyond: np.ndarray, shapes: list[Safe], *behind: Any) -> Figure:
    title = f"{ellipsis(result.extra.get('column', ''), 80)}: {what}, by {result.every}"
    if not len(periods):
        return Figure("periods", title, "No period has rows.", _PERIODS_SIZE)
    description = f"{words.plural(len(periods), result.every)}, {int(beyond.sum())} beyond noise."
    shapes += _bottom(periods.label, _across(len(periods)))
    return Figure("periods", title, description, _PERIODS_SIZE, shapes, *behind)


def _drawn(result: Entry, level: float) -> tuple[Cells, str, bool, Floats, np.ndarray]:
    """The periods in time that are drawn, and a word on those that are not; rows without a date are left out.

    Where there are very many, those of few rows would hide the others behind their noise. Also whether there are many,
    where each stands, and which are beyond noise.
    """
    chosen = np.flatnonzero([verdict != "no date" for verdict in result.table["verdict"]])
    rows = np.nan_to_num(result.cells.rows[chosen])
    large = chosen[rows >= FEW * rows.max()] if len(chosen) > MANY else chosen
    periods, left = result.cells.take(large), len(chosen) - len(large)
    said = f"{words.plural(left, result.every)} of few rows {'is' if left == 1 else 'are'} in the table, not drawn."
    many = len(periods)
    return periods, said if left else "", many > MANY, _across(many), periods.beyond(level)


def _across(many: int) -> Floats:
    return np.asarray(_LEFT + (_END - _LEFT) / max(many, 1) * (np.arange(many) + 0.5))


def _dot(
    periods: Cells, i: int, x: float, y: Scale, value: float, ends: tuple[float, float], beyond: bool
) -> list[Safe]:
    if not np.isfinite(value):
        return []
    class_ = way(periods.gap[i], beyond)
    whisker = marks.segment(x, y.at(ends[0]), x, y.at(ends[1]), f"whisker {class_}")
    said = (
        f"{words.period_words(periods.label[i])}\n{words.percent(periods.predicted[i])} predicted, "
        f"{words.percent(periods.observed[i])} happened\n{words.count(periods.rows[i])} rows, gap "
        f"{words.points(periods.gap[i])}\n{words.p_value(periods.p_value[i], 'adjusted p')}"
    )
    if len(periods) > MANY and not beyond:
        class_ = "ghost"  # there to be hovered over
    return [whisker, marks.point(x, y.at(value), class_, said, 4.0 if len(periods) < 40 else 2.6)]


def _signs(result: Entry, periods: Cells, x: Floats, y: Scale) -> list[Safe]:
    """The word of every step that changed, above or below its dot, the largest changes first; none over another."""
    sizes = np.nan_to_num(np.abs(floats(result.table["change"])))
    became = dict(zip(result.cells.label, zip(result.table["verdict"], sizes, strict=True), strict=True))
    steps = [(i, *became[label]) for i, label in enumerate(periods.label) if became[label][0] in words.CHANGED]
    wanted: list[tuple[str, list[At]]] = []
    for i, verdict, _ in sorted(steps, key=lambda step: -step[2])[:_MOST_SIGNS]:
        top = y.at(float(np.nanmax([periods.gap[i], periods.gap_high[i]]))) - 7
        bottom = y.at(float(np.nanmin([periods.gap[i], periods.gap_low[i]]))) + 15
        wanted.append((_SIGNS[verdict], [(float(x[i]), top, "middle"), (float(x[i]), bottom, "middle")]))
    found = zip(wanted, placed(wanted, (_LEFT, 16.0, _END + 8, _FLOOR - 2)), strict=True)
    return [marks.text(at[0], at[1], word, "callout", at[2]) for (word, _), at in found if at is not None]


def _bottom(labels: list[str], x: Floats) -> list[Safe]:
    """Names of the periods under the axis: the year with the first of them, as many as fit."""
    step = max(1, int(np.ceil(60.0 / max(float(x[1] - x[0]), 1e-9)))) if len(x) > 1 else 1
    drawn = [marks.segment(_LEFT, _FLOOR, _END, _FLOOR, "axis")]
    year = ""
    for i in range(0, len(labels), step):
        parts = words.period_words(labels[i]).split(" ")
        drawn.append(marks.segment(x[i], _FLOOR, x[i], _FLOOR + 4, "axis"))
        short = " ".join([*parts[:-2], parts[-2][:3]]) if len(parts) > 1 else labels[i][:10]
        drawn.append(marks.text(x[i], _FLOOR + 19, short, "tick", "middle"))
        if len(parts) > 1 and parts[-1] != year:
            year = parts[-1]
            drawn.append(marks.text(x[i], _FLOOR + 37, year, "tick", "middle"))
    return drawn
