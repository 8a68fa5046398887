"""Figures along time: what was predicted and what happened, and the gap against what noise alone does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from miscal.page import words
from miscal.page.figures import axes, marks
from miscal.page.figures.labels import At, placed
from miscal.page.figures.marks import Figure
from miscal.page.figures.scales import Scale, nice
from miscal.page.figures.score import way
from miscal.page.markup import Safe, ellipsis
from miscal.page.period_words import CHANGED, every_of, period_words
from miscal.page.reading import Cells, cells, floats, items, mapping

_WIDTH, _LEFT, _RIGHT, _TOP, _FLOOR = 480.0, 54.0, 470.0, 30.0, 232.0
_DOTS, _LINES = "Predicted (line) and happened (dots)", "Predicted (thick line) and happened (thin line)"
_MOST_SIGNS = 6
MANY = 60  # periods from which on lines are drawn in place of dots
FEW = 0.02  # of the rows of the largest period: too few to be drawn among so many
_SIGNS = {"worse": "worse", "better": "better", "moved": "turned"}


def period_rates(result: Mapping[str, Any], level: float = 0.05) -> Figure:
    """Draw predicted (line) and happened (dots with intervals, a line where there are many) of every period."""
    periods, note = _known(result)
    title = f"{_column(result)}: predicted and happened, by {every_of(result)}"
    if not len(periods):
        return Figure("periods", title, "No period has rows.", Safe(""))
    many = len(periods) > MANY
    low, high = np.maximum(periods.predicted - periods.gap_high, 0), np.minimum(periods.predicted - periods.gap_low, 1)
    drawn = np.concatenate([periods.predicted, periods.observed, *([] if many else [low, high])])
    drawn = drawn[np.isfinite(drawn)]
    least, most = (float(drawn.min()), float(drawn.max())) if drawn.size else (0.0, 1.0)
    y = Scale(*nice(0.0 if least < most / 2 else least, most), _FLOOR, _TOP)
    x = _across(len(periods))
    shapes = [
        axes.left(y, _LEFT, _RIGHT),
        marks.text(_LEFT, 12, _LINES if many else _DOTS, "label"),
        marks.line(x, y(periods.observed), "smooth") if many else Safe(""),
        marks.line(x, y(periods.predicted), "predicted"),
    ]  # fmt: skip
    beyond = periods.beyond(level)
    for i in () if many else range(len(periods)):
        shapes += _dot(periods, i, x[i], y, periods.observed[i], (low[i], high[i]), bool(beyond[i]))
    shapes += _bottom(periods.label, x)
    return _figure(result, title, shapes, int(beyond.sum()), len(periods), note=note)


def period_gaps(result: Mapping[str, Any], level: float = 0.05) -> Figure:
    """Draw the gap of every period with its interval, over the band that noise alone keeps to, and name the changes."""
    periods, note = _known(result)
    title = f"{_column(result)}: predicted minus happened, by {every_of(result)}"
    if not len(periods):
        return Figure("periods", title, "No period has rows.", Safe(""))
    many = len(periods) > MANY
    # The band is that of what happens if the predictions are right; in terms of the gap it is turned over.
    low, high = periods.predicted - periods.band_high, periods.predicted - periods.band_low
    whiskers = [] if many else [periods.gap_low, periods.gap_high]
    ends = np.concatenate([periods.gap, *whiskers, low, high, [0.0]])
    ends = ends[np.isfinite(ends)]
    y = Scale(*nice(float(ends.min()), float(ends.max())), _FLOOR, _TOP)
    x = _across(len(periods))
    known = np.isfinite(periods.gap)
    shapes = [
        axes.left(y, _LEFT, _RIGHT, axes.signed),
        marks.text(_LEFT, 12, "Predicted minus happened", "label"),
        marks.band(x, y(low), y(high)),
        marks.segment(_LEFT, y.at(0.0), _RIGHT, y.at(0.0), "zero"),
        marks.line(x[known], y(periods.gap[known]), "smooth"),
    ]
    beyond = periods.beyond(level)
    for i in range(len(periods)):
        reach = (math.nan, math.nan) if many else (periods.gap_low[i], periods.gap_high[i])
        if not many or beyond[i] or i % max(1, len(periods) // MANY) == 0:
            shapes += _dot(periods, i, x[i], y, periods.gap[i], reach, bool(beyond[i]))
    shapes += [*_signs(result, periods, x, y), *_bottom(periods.label, x)]
    return _figure(result, title, shapes, int(beyond.sum()), len(periods), table=_data(result), note=note)


def _figure(result: Mapping[str, Any], title: str, shapes: list[Safe], off: int, many: int, **beside: Any) -> Figure:
    description = f"{words.plural(many, every_of(result))}, {off} beyond noise."
    svg = marks.drawing("periods", title, description, _WIDTH, 274.0, *shapes)
    return Figure("periods", title, description, svg, **beside)


def _column(result: Mapping[str, Any]) -> str:
    return ellipsis(mapping(result.get("extra")).get("column", ""), 80)


def _known(result: Mapping[str, Any]) -> tuple[Cells, str]:
    """The periods in time that are drawn, and a word on those that are not; rows without a date are left out.

    Where there are very many, those of few rows would hide the others behind their noise.
    """
    every = cells(result)
    verdicts = items(mapping(result.get("table")).get("verdict"))
    chosen = np.array([i for i in range(len(every)) if verdicts[i : i + 1] != ["no date"]], dtype=np.intp)
    if len(chosen) <= MANY:
        return every.take(chosen), ""
    rows = np.nan_to_num(every.rows[chosen])
    large = chosen[rows >= FEW * rows.max()]
    left = len(chosen) - len(large)
    word = f"{words.plural(left, every_of(result))} of few rows" if left else ""
    return every.take(large), f"{word} {'is' if left == 1 else 'are'} in the table, not drawn." if left else ""


def _across(many: int) -> np.ndarray[Any, Any]:
    step = (_RIGHT - _LEFT) / many
    return np.asarray(_LEFT + step * (np.arange(many) + 0.5))


def _dot(
    periods: Cells, i: int, x: float, y: Scale, value: float, ends: tuple[float, float], beyond: bool
) -> list[Safe]:
    if not np.isfinite(value):
        return []
    class_ = way(periods.gap[i], beyond)
    drawn = []
    if np.isfinite(ends[0]) and np.isfinite(ends[1]):
        drawn.append(marks.segment(x, y.at(ends[0]), x, y.at(ends[1]), f"whisker {class_}"))
    said = (
        f"{period_words(periods.label[i])}\n{words.percent(periods.predicted[i])} predicted, "
        f"{words.percent(periods.observed[i])} happened\n{words.count(periods.rows[i])} rows, gap "
        f"{words.points(periods.gap[i])}\n{words.p_value(periods.p_value[i], 'adjusted p')}"
    )
    if len(periods) > MANY and not beyond:
        class_ = "ghost"  # there to be hovered over
    return [*drawn, marks.point(x, y.at(value), class_, said, 4.0 if len(periods) < 40 else 2.6)]


def _signs(result: Mapping[str, Any], periods: Cells, x: np.ndarray[Any, Any], y: Scale) -> list[Safe]:
    """The word of every step that changed, above or below its dot, the largest changes first; none over another."""
    table = mapping(result.get("table"))
    columns = zip(cells(result).label, items(table.get("verdict")), np.abs(floats(table.get("change"))), strict=False)
    became = {label: (str(verdict), change) for label, verdict, change in columns}
    verdicts, size = zip(*(became.get(label, ("", 0.0)) for label in periods.label), strict=True)
    chosen = [i for i in range(len(periods)) if verdicts[i] in CHANGED]
    chosen.sort(key=lambda i: -float(np.nan_to_num(size[i])))
    wanted: list[tuple[str, list[At]]] = []
    for i in chosen[:_MOST_SIGNS]:
        top = y.at(float(np.nanmax([periods.gap[i], periods.gap_high[i]]))) - 7
        bottom = y.at(float(np.nanmin([periods.gap[i], periods.gap_low[i]]))) + 15
        wanted.append((_SIGNS[verdicts[i]], [(float(x[i]), top, "middle"), (float(x[i]), bottom, "middle")]))
    limits = (_LEFT, 16.0, _RIGHT + 8, _FLOOR - 2)
    found = zip(wanted, placed(wanted, limits), strict=True)
    return [marks.text(at[0], at[1], word, "callout", at[2]) for (word, _), at in found if at is not None]


def _bottom(labels: list[str], x: np.ndarray[Any, Any]) -> list[Safe]:
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


def _data(result: Mapping[str, Any]) -> dict[str, list[object]]:
    """Everything that the table has, for the data behind the figure."""
    table = mapping(result.get("table"))
    return {str(name): list(items(values)) for name, values in table.items() if name != "method"}
