"""Figures of a field: the gaps of its levels with their intervals, and the funnel of all levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from miscal.page import words
from miscal.page.figures import axes, marks
from miscal.page.figures.labels import At, fitted, placed
from miscal.page.figures.marks import Figure
from miscal.page.figures.scales import Scale, nice
from miscal.page.figures.score import tip, way
from miscal.page.markup import Safe
from miscal.page.reading import Cells, cells, column_name

_WIDTH, _NAMES, _LEFT, _RIGHT = 360.0, 100.0, 112.0, 348.0
_ROW = 21.0
_ROOM = 112.0  # that a hint beside the zero line needs, on a phone as well
_MOST_POINTS = 600
_CALLOUTS, _NAMED = 6, 3  # levels tried, and named, in the funnel


def field_levels(result: Mapping[str, Any], level: float = 0.05, most: int = 10) -> Figure:
    """Draw the gaps of the levels that stand out most, with simultaneous intervals, as rows of one chart.

    `result["table"]` has level (or label), predicted, observed, rows and, if known, gap_low, gap_high, p_value. The
    levels shown are those with the largest lower bound of events off; the figure says how many there are.
    """
    every = cells(result)
    column = column_name(result)
    chosen = np.argsort(-every.strength(), kind="stable")[:most]
    shown = every.take(chosen[np.argsort(-every.gap[chosen], kind="stable")])
    x = Scale(*_reach(shown), _LEFT, _RIGHT)
    beyond = shown.beyond(level)
    bottom = 18 + _ROW * len(shown)
    drawn = [
        *[marks.segment(x.at(t), 18, x.at(t), bottom, "grid") for t in x.ticks(58.0)],
        marks.segment(x.at(0.0), 14, x.at(0.0), bottom, "zero"),
        marks.text(x.at(0.0) - 8, 10, "◀ happened more", "hint under", "end") if x.at(0.0) > _ROOM else Safe(""),
        marks.text(x.at(0.0) + 8, 10, "predicted more ▶", "hint over") if x.at(0.0) < _WIDTH - _ROOM else Safe(""),
    ]
    for i in range(len(shown)):
        drawn += _level(shown, i, 18 + _ROW * (i + 0.5), x, way(shown.gap[i], bool(beyond[i])), column)
    drawn.append(axes.bottom(x, bottom, "", axes.signed, 58.0))
    off = int(every.beyond(level).sum())
    title = f"{column}: predicted minus happened, by level"
    description = f"{words.plural(len(every), 'level')}, {off} beyond noise."
    note = f"{len(shown)} of {len(every):,} levels: those furthest from agreement." if len(shown) < len(every) else ""
    svg = marks.drawing("field", title, description, _WIDTH, bottom + 24, *drawn)
    return Figure("field", title, description, svg, every.table(), note)


def _reach(levels: Cells) -> tuple[float, float]:
    """A range that holds zero and every gap with its interval, huge ones cut off at three times the largest gap."""
    gaps = np.abs(levels.gap[np.isfinite(levels.gap)])
    most = float(gaps.max()) if len(gaps) else 0.0
    ends = np.concatenate([levels.gap, levels.gap_low, levels.gap_high, [0.0]])
    ends = ends[np.isfinite(ends)]
    limit = max(3 * most, 1e-6)
    return nice(float(max(ends.min(), -limit)), float(min(ends.max(), limit)))


def _level(levels: Cells, i: int, y: float, x: Scale, class_: str, column: str) -> list[Safe]:
    drawn = [marks.text(_NAMES, y + 4, fitted(levels.label[i], _NAMES), "tick", "end")]
    if not np.isfinite(levels.gap[i]):
        return drawn
    if np.isfinite(levels.gap_low[i]) and np.isfinite(levels.gap_high[i]):
        drawn.append(marks.segment(x.at(levels.gap_low[i]), y, x.at(levels.gap_high[i]), y, f"whisker {class_}"))
    drawn.append(marks.point(x.at(levels.gap[i]), y, class_, tip(levels, i, f"{column} "), 4.2))
    return drawn


def field_funnel(result: Mapping[str, Any], level: float = 0.05) -> Figure:
    """Draw every level's gap against its number of rows: noise narrows like a funnel as levels grow.

    Past 600 levels all those beyond noise and the largest of the others are drawn; the figure says so. The funnel is
    the 95% range of noise at the field's overall rate, an aid to the eye: colours come from the levels' own tests.
    """
    every = cells(result)
    column = column_name(result)
    beyond = every.beyond(level)
    size = np.where(np.isnan(every.rows), every.weight, every.rows)
    usable = np.flatnonzero(np.isfinite(every.gap) & (size > 0))
    ranked = usable[np.lexsort((-size[usable], ~beyond[usable]))][:_MOST_POINTS]
    title = f"{column}: predicted minus happened against size"
    if not len(ranked):
        return Figure("funnel", title, "No level has rows.", Safe(""))
    most = float(size[ranked].max())
    x = Scale(max(float(size[ranked].min()) / 1.5, 0.5), most * 1.5, 52.0, 348.0, "log")
    reach = _funnel_reach(every.gap[ranked], beyond[ranked])
    radius = 3.2 if len(ranked) < 150 else 2.0
    y = Scale(*nice(-reach, reach), 196.0, 22.0)
    drawn = [
        axes.left(y, 52.0, 348.0, axes.signed, 36.0),
        marks.text(52, 10, "Predicted minus happened", "label"),
        _funnel(every, size, x, y),
        marks.segment(x.start, y.at(0.0), x.end, y.at(0.0), "zero"),
        *[
            marks.point(
                x.at(size[i]), y.at(every.gap[i]), way(every.gap[i], bool(beyond[i])), tip(every, int(i), ""), radius
            )
            for i in ranked[::-1]
        ],
        *_callouts(every, ranked[beyond[ranked]][:24], size, x, y),
        axes.bottom(x, 196.0, "Rows of the level", axes.numbers, 48.0),
    ]
    description = f"{words.plural(len(every), 'level')}, {int(beyond.sum())} beyond noise."
    note = (
        f"{len(ranked):,} of {len(every):,} levels drawn, all that are beyond noise first."
        if len(ranked) < len(every)
        else ""
    )
    svg = marks.drawing("funnel", title, description, _WIDTH, 236.0, *drawn)
    return Figure("funnel", title, description, svg, every.table(), note)


def _funnel_reach(gaps: np.ndarray[Any, Any], beyond: np.ndarray[Any, Any]) -> float:
    """Half the height of the funnel: nearly all levels, and every one that is beyond noise."""
    most = float(np.quantile(np.abs(gaps), 0.98))
    return max(most * 1.1, float(np.abs(gaps[beyond]).max(initial=0.0)) * 1.05, 1e-6)


def _funnel(levels: Cells, size: np.ndarray[Any, Any], x: Scale, y: Scale) -> Safe:
    weight = np.nan_to_num(size)
    rate = float(np.nansum(levels.predicted * weight) / weight.sum()) if weight.sum() > 0 else 0.0
    rows = np.geomspace(x.low, x.high, 60)
    half = 1.96 * np.sqrt(max(rate * (1 - rate), 0.0) / rows)
    return marks.band(x(rows), y(-half), y(half))


def _callouts(
    levels: Cells, chosen: np.ndarray[Any, Any], size: np.ndarray[Any, Any], x: Scale, y: Scale
) -> list[Safe]:
    """Names beside the strongest levels, each tied to its point; one that finds no free place is left out."""
    strongest = chosen[np.argsort(-levels.strength()[chosen], kind="stable")][:_CALLOUTS]
    points = [(x.at(size[i]), y.at(levels.gap[i])) for i in strongest]
    names = [fitted(levels.label[i], 130.0, 11.5) for i in strongest]
    middle = (x.start + x.end) / 2
    wanted: list[tuple[str, list[At]]] = []
    for name, (across, height) in zip(names, points, strict=True):
        sides = (1, -1) if across < middle else (-1, 1)
        shifts = [(shift, side) for shift in (0, -14, 14, -28, 28, -42, 42) for side in sides]
        wanted.append(
            (name, [(across + 14 * side, height + 4 + up, "start" if side > 0 else "end") for up, side in shifts])
        )
    others = [(x.at(size[i]), y.at(levels.gap[i])) for i in chosen]
    taken = [(across - 4, height - 4, across + 4, height + 4) for across, height in others]
    drawn: list[Safe] = []
    found = zip(names, points, placed(wanted, (x.start, y.end - 8, x.end + 12, y.start), taken), strict=True)
    for name, (across, height), at in [entry for entry in found if entry[2] is not None][:_NAMED]:
        assert at is not None
        reach = 12 if at[2] == "start" else -12
        drawn += [
            marks.segment(across, height, across + reach, at[1] - 4, "tie"),
            marks.text(at[0], at[1], name, "callout", at[2]),
        ]
    return drawn
