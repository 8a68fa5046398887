"""Figures of a column: happened and predicted by range, the gaps of its levels, and the funnel of all levels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from miscal.page import marks, words
from miscal.page.entries import Cells, Entry
from miscal.page.gap_figures import tip, way
from miscal.page.json import Floats
from miscal.page.marks import At, Figure, Scale, fitted, known, nice, placed, rate_ends
from miscal.page.markup import Safe, ellipsis

_WIDTH, _LEFT, _RIGHT = 360.0, 46.0, 352.0
_TOP, _FLOOR, _SHARE = 20.0, 168.0, 204.0
_NAMES, _ROWS_LEFT, _ROWS_RIGHT, _ROW = 100.0, 112.0, 348.0, 21.0  # of the chart with a row a level
_ROOM = 112.0  # that a hint beside the zero line needs, on a phone as well
_FUNNEL_LEFT, _FUNNEL_FLOOR = 52.0, 196.0
_MOST_POINTS = 600
_CALLOUTS, _NAMED = 6, 3  # levels tried, and named, in the funnel


def variable(result: Entry, level: float = 0.05) -> Figure:
    """Draw happened (dots with intervals) against predicted (line) by range of a variable.

    Ranges are drawn equally wide, because equal-support ranges of a skewed variable would otherwise be invisible; the
    edges are written under the axis.
    """
    ranges, column, curve = result.cells, result.column, result.curve
    edges = np.linspace(_LEFT + 4, _RIGHT, max(len(ranges), 1) + 1)
    middle = (edges[:-1] + edges[1:]) / 2
    low, high = ranges.observed_interval()
    smooth = curve.get("observed", np.empty(0))
    smooth = smooth if words.means() else np.clip(smooth, 0.0, 1.0)
    y = Scale(*rate_ends(ranges.predicted, ranges.observed, low, high, smooth), _FLOOR, _TOP)
    beyond = ranges.beyond(level)
    drawn = [
        marks.left(y, _LEFT, _RIGHT, spacing=36.0),
        marks.text(_LEFT, 10, f"Happened ({'dots, smooth curve' if curve else 'dots'}), predicted (steps)", "label"),
        *_curve(result, edges, y),
        marks.line(np.repeat(edges[: len(ranges) + 1], 2)[1:-1], np.repeat(y(ranges.predicted), 2), "predicted"),
    ]
    for i in np.flatnonzero(np.isfinite(ranges.observed)).tolist():
        class_ = way(ranges.gap[i], beyond[i])
        drawn.append(marks.segment(middle[i], y.at(low[i]), middle[i], y.at(high[i]), f"whisker {class_}"))
        drawn.append(marks.point(middle[i], y.at(ranges.observed[i]), class_, tip(ranges, i, f"{column} "), 3.8))
    drawn += [
        *_shares(ranges, edges),
        *_edge_labels(result, edges),
        marks.segment(_LEFT, _SHARE, _RIGHT, _SHARE, "axis"),
    ]
    title = f"{column}: happened and predicted, by range"
    description = f"{len(ranges)} ranges, {int(beyond.sum())} of them beyond noise."
    return Figure("variable", title, description, (_WIDTH, 226.0), drawn, ranges.table())


def _curve(result: Entry, edges: Floats, y: Scale) -> list[Safe]:
    """The curve and its band on the axis of equally wide ranges: each value stands where its range puts it."""
    curve, ranges, shift = result.curve, result.cells, 0.5 if result.integer else 0.0
    filled = np.flatnonzero(ranges.high > ranges.low)
    if not curve or not len(filled):
        return []
    starts = np.append(ranges.low[filled], ranges.high[filled[-1]]) + 0.0
    starts[0] -= 2 * shift  # the lowest whole number belongs to the first range
    x = np.interp(curve["value"] - shift, starts, np.append(edges[filled], edges[filled[-1] + 1]))
    low, high, middle = (y(curve[name]) for name in ("observed_low", "observed_high", "observed"))
    return [marks.band(x, low, high), marks.line(x, middle, "smooth")]


def _shares(ranges: Cells, edges: Floats) -> list[Safe]:
    """Bars of the share of rows, from the bottom axis up."""
    size = np.nan_to_num(ranges.size)
    if not len(size) or size.max() <= 0:
        return []
    height = size / size.max() * (_SHARE - _FLOOR - 8)
    gap = min(2.0, (edges[1] - edges[0]) * 0.15)
    return [
        marks.bar(edges[i] + gap / 2, _SHARE - height[i], edges[i + 1] - edges[i] - gap, height[i], "share")
        for i in range(len(size))
    ]


def _edge_labels(result: Entry, edges: Floats) -> list[Safe]:
    """The ranges' edges under the axis, as many as fit without touching; a last range of missing values says so.

    Ranges of whole numbers, and those without edges, have their own words under their middles.
    """
    ranges, middles = result.cells, (edges[:-1] + edges[1:]) / 2
    write: Callable[[float], str] = result.write_edge if result.is_date else _edge
    filled = np.isfinite(ranges.low) & np.isfinite(ranges.high)
    if not filled.any() or result.integer:
        named = [ellipsis(label.replace(" to ", "–"), 12) for label in ranges.label]
        return _fitting(list(zip(middles.tolist(), named, strict=False)))
    last = int(np.flatnonzero(filled)[-1])
    labels = [(edges[i], write(ranges.low[i])) for i in np.flatnonzero(filled)]
    labels += [(edges[last + 1], write(ranges.high[last]))]
    labels += [(middles[i], "missing") for i in np.flatnonzero(~filled)]
    return _fitting(labels)


def _fitting(labels: list[tuple[float, str]]) -> list[Safe]:
    """The labels that fit: the last one stands, the others join from the left while they touch none."""
    distinct = [labels[i] for i in range(len(labels)) if i == 0 or labels[i][1] != labels[i - 1][1]]
    moved = [(min(x, _RIGHT - 3.2 * len(word)), word) for x, word in distinct]
    kept = moved[-1:]
    for x, word in moved[:-1]:
        if all(abs(x - other) >= 3.4 * (len(word) + len(beside)) + 8 for other, beside in kept):
            kept.append((x, word))
    return [marks.text(x, _SHARE + 16, word, "tick", "middle") for x, word in kept]


def _edge(value: float) -> str:
    """An edge as the axis writes it: large numbers shortened."""
    if abs(value) < 1e-300:
        return "0"
    return marks.numbers(float(f"{value:.3g}")) if abs(value) >= 1e4 else marks.plain(float(f"{value:.4g}"))


def field_levels(result: Entry, level: float = 0.05, most: int = 10) -> Figure:
    """Draw the gaps of the levels that stand out most, with simultaneous intervals, as rows of one chart.

    The levels shown are those with the largest lower bound of events off; the figure says how many there are.
    """
    every, column = result.cells, result.column
    chosen = np.argsort(-every.strength(), kind="stable")[:most]
    shown = every.take(chosen[np.argsort(-every.gap[chosen], kind="stable")])
    x = Scale(*_reach(shown), _ROWS_LEFT, _ROWS_RIGHT)
    beyond = shown.beyond(level)
    bottom = 18 + _ROW * len(shown)
    zero = x.at(0.0)
    drawn = [
        *marks.upright(x, 18, bottom, 58.0),
        marks.segment(zero, 14, zero, bottom, "zero"),
        marks.text(zero - 8, 10, "◀ happened more", "hint under", "end") if zero > _ROOM else Safe(""),
        marks.text(zero + 8, 10, "predicted more ▶", "hint over") if zero < _WIDTH - _ROOM else Safe(""),
    ]
    for i, (low, gap, high) in enumerate(zip(shown.gap_low, shown.gap, shown.gap_high, strict=True)):
        y, class_ = 18 + _ROW * (i + 0.5), way(gap, beyond[i])
        drawn.append(marks.text(_NAMES, y + 4, fitted(shown.label[i], _NAMES), "tick", "end"))
        drawn.append(marks.segment(x.at(low), y, x.at(high), y, f"whisker {class_}"))
        drawn.append(marks.point(x.at(gap), y, class_, tip(shown, i, f"{column} "), 4.2))
    drawn.append(marks.bottom(x, bottom, "", marks.signed, 58.0))
    title = f"{column}: predicted minus happened, by level"
    note = f"{len(shown)} of {len(every):,} levels: those furthest from agreement." if len(shown) < len(every) else ""
    said = _levels_said(every, level)
    return Figure("field", title, said, (_WIDTH, bottom + 24), drawn, every.table(), note)


def _levels_said(levels: Cells, level: float) -> str:
    return f"{words.plural(len(levels), 'level')}, {int(levels.beyond(level).sum())} beyond noise."


def _reach(levels: Cells) -> tuple[float, float]:
    """A range that holds zero and every gap with its interval, huge ones cut off at three times the largest gap."""
    limit = max(3 * float(np.abs(known(levels.gap)).max(initial=0.0)), 1e-6)
    ends = known(levels.gap, levels.gap_low, levels.gap_high, 0.0)
    return nice(float(max(ends.min(), -limit)), float(min(ends.max(), limit)))


def field_funnel(result: Entry, level: float = 0.05) -> Figure:
    """Draw every level's gap against its number of rows: noise narrows like a funnel as levels grow.

    Past 600 levels all those beyond noise and the largest of the others are drawn; the figure says so. The funnel is
    the 95% range of noise at the field's overall rate, an aid to the eye: colours come from the levels' own tests.
    """
    every = result.cells
    beyond = every.beyond(level)
    size = np.where(np.isnan(every.rows), every.weight, every.rows)
    usable = np.flatnonzero(np.isfinite(every.gap) & (size > 0))
    ranked = usable[np.lexsort((-size[usable], ~beyond[usable]))][:_MOST_POINTS]
    title, frame = f"{result.column}: predicted minus happened against size", (_WIDTH, 236.0)
    if not len(ranked):
        return Figure("funnel", title, "No level has rows.", frame)
    sizes, gaps = size[ranked], every.gap[ranked]
    x = Scale(max(sizes.min() / 1.5, 0.5), sizes.max() * 1.5, _FUNNEL_LEFT, _ROWS_RIGHT, "log")
    furthest = float(np.abs(gaps[beyond[ranked]]).max(initial=0.0))  # nearly all levels, and all that are beyond noise
    reach = max(float(np.quantile(np.abs(gaps), 0.98)) * 1.1, furthest * 1.05, 1e-6)
    y = Scale(*nice(-reach, reach), _FUNNEL_FLOOR, 22.0)
    radius = 3.2 if len(ranked) < 150 else 2.0
    drawn = [
        marks.left(y, _FUNNEL_LEFT, _ROWS_RIGHT, marks.signed, 36.0),
        marks.text(_FUNNEL_LEFT, 10, "Predicted minus happened", "label"),
        _funnel(every, size, x, y),
        marks.segment(x.start, y.at(0.0), x.end, y.at(0.0), "zero"),
        *(
            marks.point(x.at(size[i]), y.at(every.gap[i]), way(every.gap[i], beyond[i]), tip(every, i, ""), radius)
            for i in ranked[::-1].tolist()
        ),
        *_callouts(every, ranked[beyond[ranked]][:24], size, x, y),
        marks.bottom(x, _FUNNEL_FLOOR, "Rows of the level", marks.numbers, 48.0),
    ]
    drawn_ones = f"{len(ranked):,} of {len(every):,} levels drawn, all that are beyond noise first."
    note = drawn_ones if len(ranked) < len(every) else ""
    return Figure("funnel", title, _levels_said(every, level), frame, drawn, note=note)


def _funnel(levels: Cells, size: Floats, x: Scale, y: Scale) -> Safe:
    weight = np.nan_to_num(size)
    rate = float(np.nansum(levels.predicted * weight) / weight.sum()) if weight.sum() > 0 else 0.0
    rows = np.geomspace(x.low, x.high, 60)
    half = 1.96 * np.sqrt(max(rate * (1 - rate), 0.0) / rows)
    if words.means():  # as wide as the levels' own bands are, for their size
        wide = marks.known(0.5 * (levels.band_high - levels.band_low) * np.sqrt(size))
        half = (float(np.median(wide)) if wide.size else 0.0) / np.sqrt(rows)
    return marks.band(x(rows), y(-half), y(half))


def _callouts(levels: Cells, chosen: np.ndarray, size: Floats, x: Scale, y: Scale) -> list[Safe]:
    """Names beside the strongest levels, each tied to its point; one that finds no free place is left out."""
    points = {int(i): (x.at(size[i]), y.at(levels.gap[i])) for i in chosen}
    strongest = chosen[np.argsort(-levels.strength()[chosen], kind="stable")][:_CALLOUTS].tolist()
    wanted: list[tuple[str, list[At]]] = []
    for i in strongest:
        across, height = points[i]
        sides = (1, -1) if across < (x.start + x.end) / 2 else (-1, 1)
        shifts = [(shift, side) for shift in (0, -14, 14, -28, 28, -42, 42) for side in sides]
        places = [(across + 14 * side, height + 4 + up, "start" if side > 0 else "end") for up, side in shifts]
        wanted.append((fitted(levels.label[i], 130.0, 11.5), places))
    taken = [(across - 4, height - 4, across + 4, height + 4) for across, height in points.values()]
    found = placed(wanted, (x.start, y.end - 8, x.end + 12, y.start), taken)
    drawn: list[Safe] = []
    named = [(name, points[i], at) for i, (name, _), at in zip(strongest, wanted, found, strict=True) if at is not None]
    for name, (across, height), (left, line, anchor) in named[:_NAMED]:
        reach = 12 if anchor == "start" else -12
        drawn.append(marks.segment(across, height, across + reach, line - 4, "tie"))
        drawn.append(marks.text(left, line, name, "callout", anchor))
    return drawn
