"""Figures along time: what was predicted and what happened, and the gap against what noise alone does."""

from __future__ import annotations

import math

import numpy as np

from miscal.page import words
from miscal.page.entries import Cells, Entry
from miscal.page.figures import axes, marks
from miscal.page.figures.axes import At, placed
from miscal.page.figures.marks import Figure
from miscal.page.figures.scales import Scale, known, nice, rate_ends
from miscal.page.figures.score import way
from miscal.page.markup import Safe, ellipsis
from miscal.page.period_words import CHANGED, period_words
from miscal.page.reading import Floats, floats

_SIZE, _LEFT, _RIGHT, _TOP, _FLOOR = (480.0, 274.0), 54.0, 470.0, 30.0, 232.0
_DOTS, _LINES = "Predicted (line) and happened (dots)", "Predicted (thick line) and happened (thin line)"
_MOST_SIGNS = 6
MANY = 60  # periods from which on lines are drawn in place of dots
FEW = 0.02  # of the rows of the largest period: too few to be drawn among so many
_SIGNS = {"worse": "worse", "better": "better", "moved": "turned"}


def period_rates(result: Entry, level: float = 0.05) -> Figure:
    """Draw predicted (line) and happened (dots with intervals, a line where there are many) of every period."""
    periods, note = _drawn(result)
    many = len(periods) > MANY
    low, high = periods.observed_interval()
    y = Scale(*rate_ends(periods.predicted, periods.observed, *([] if many else [low, high])), _FLOOR, _TOP)
    x = _across(len(periods))
    shapes = [
        axes.left(y, _LEFT, _RIGHT),
        marks.text(_LEFT, 12, _LINES if many else _DOTS, "label"),
        marks.line(x, y(periods.observed), "smooth") if many else Safe(""),
        marks.line(x, y(periods.predicted), "predicted"),
    ]
    beyond = periods.beyond(level)
    for i in () if many else range(len(periods)):
        shapes += _dot(periods, i, x[i], y, periods.observed[i], (low[i], high[i]), beyond[i])
    return _figure(result, "predicted and happened", periods, level, shapes, note=note)


def period_gaps(result: Entry, level: float = 0.05) -> Figure:
    """Draw the gap of every period with its interval, over the band that noise alone keeps to, and name the changes."""
    periods, note = _drawn(result)
    many = len(periods) > MANY
    # The band is that of what happens if the predictions are right; in terms of the gap it is turned over.
    low, high = periods.predicted - periods.band_high, periods.predicted - periods.band_low
    ends = known(periods.gap, *([] if many else [periods.gap_low, periods.gap_high]), low, high, 0.0)
    y = Scale(*nice(float(ends.min()), float(ends.max())), _FLOOR, _TOP)
    x = _across(len(periods))
    shapes = [
        axes.left(y, _LEFT, _RIGHT, axes.signed),
        marks.text(_LEFT, 12, "Predicted minus happened", "label"),
        marks.band(x, y(low), y(high)),
        marks.segment(_LEFT, y.at(0.0), _RIGHT, y.at(0.0), "zero"),
        marks.line(x, y(periods.gap), "smooth"),
    ]
    beyond = periods.beyond(level)
    for i in range(len(periods)):
        reach = (math.nan, math.nan) if many else (periods.gap_low[i], periods.gap_high[i])
        if not many or beyond[i] or i % max(1, len(periods) // MANY) == 0:
            shapes += _dot(periods, i, x[i], y, periods.gap[i], reach, beyond[i])
    shapes += _signs(result, periods, x, y)
    table = {name: values for name, values in result.table.items() if name != "method"}
    return _figure(result, "predicted minus happened", periods, level, shapes, table, note)


def _figure(
    result: Entry,
    what: str,
    periods: Cells,
    level: float,
    shapes: list[Safe],
    table: dict[str, list[object]] | None = None,
    note: str = "",
) -> Figure:
    title = f"{ellipsis(result.extra.get('column', ''), 80)}: {what}, by {result.every}"
    if not len(periods):
        return marks.drawn("periods", title, "No period has rows.", _SIZE, [])
    description = f"{words.plural(len(periods), result.every)}, {int(periods.beyond(level).sum())} beyond noise."
    shapes += _bottom(periods.label, _across(len(periods)))
    return marks.drawn("periods", title, description, _SIZE, shapes, table, note)


def _drawn(result: Entry) -> tuple[Cells, str]:
    """The periods in time that are drawn, and a word on those that are not; rows without a date are left out.

    Where there are very many, those of few rows would hide the others behind their noise.
    """
    dated = np.array([verdict != "no date" for verdict in result.table["verdict"]], dtype=bool)
    chosen = np.flatnonzero(dated)
    if len(chosen) <= MANY:
        return result.cells.take(chosen), ""
    rows = np.nan_to_num(result.cells.rows[chosen])
    large = chosen[rows >= FEW * rows.max()]
    left = len(chosen) - len(large)
    said = f"{words.plural(left, result.every)} of few rows {'is' if left == 1 else 'are'} in the table, not drawn."
    return result.cells.take(large), said if left else ""


def _across(many: int) -> Floats:
    return np.asarray(_LEFT + (_RIGHT - _LEFT) / max(many, 1) * (np.arange(many) + 0.5))


def _dot(
    periods: Cells, i: int, x: float, y: Scale, value: float, ends: tuple[float, float], beyond: bool
) -> list[Safe]:
    if not np.isfinite(value):
        return []
    class_ = way(periods.gap[i], beyond)
    whisker = marks.segment(x, y.at(ends[0]), x, y.at(ends[1]), f"whisker {class_}")
    said = (
        f"{period_words(periods.label[i])}\n{words.percent(periods.predicted[i])} predicted, "
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
    steps = [(i, *became[label]) for i, label in enumerate(periods.label) if became[label][0] in CHANGED]
    wanted: list[tuple[str, list[At]]] = []
    for i, verdict, _ in sorted(steps, key=lambda step: -step[2])[:_MOST_SIGNS]:
        top = y.at(float(np.nanmax([periods.gap[i], periods.gap_high[i]]))) - 7
        bottom = y.at(float(np.nanmin([periods.gap[i], periods.gap_low[i]]))) + 15
        wanted.append((_SIGNS[verdict], [(float(x[i]), top, "middle"), (float(x[i]), bottom, "middle")]))
    found = zip(wanted, placed(wanted, (_LEFT, 16.0, _RIGHT + 8, _FLOOR - 2)), strict=True)
    return [marks.text(at[0], at[1], word, "callout", at[2]) for (word, _), at in found if at is not None]


def _bottom(labels: list[str], x: Floats) -> list[Safe]:
    """Names of the periods under the axis: the year with the first of them, as many as fit."""
    step = max(1, int(np.ceil(60.0 / max(float(x[1] - x[0]), 1e-9)))) if len(x) > 1 else 1
    drawn = [marks.segment(_LEFT, _FLOOR, _RIGHT, _FLOOR, "axis")]
    year = ""
    for i in range(0, len(labels), step):
        parts = period_words(labels[i]).split(" ")
        drawn.append(marks.segment(x[i], _FLOOR, x[i], _FLOOR + 4, "axis"))
        short = " ".join([*parts[:-2], parts[-2][:3]]) if len(parts) > 1 else labels[i][:10]
        drawn.append(marks.text(x[i], _FLOOR + 19, short, "tick", "middle"))
        if len(parts) > 1 and parts[-1] != year:
            year = parts[-1]
            drawn.append(marks.text(x[i], _FLOOR + 37, year, "tick", "middle"))
    return drawn
