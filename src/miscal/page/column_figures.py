"""Figures of a column: happened and predicted by range, the gaps of its levels, and the funnel of all levels."""

from collections.abc import Callable

import numpy as np

from miscal.page import marks, words
from miscal.page.entries import Cells, Entry
from miscal.page.json import Floats
from miscal.page.marks import Chart, Figure, Scale, fitted, nice
from miscal.page.markup import ellipsis

_WIDTH, _FLOOR = 360.0, 204.0
_NAMES = 100.0  # of the chart with a row a level
_MOST_POINTS = 600
_NAMED = 3  # levels in the funnel


def variable(result: Entry, level: float = 0.05) -> Figure:
    """Draw happened (dots with intervals) against predicted (line) by range of a variable.

    Ranges are drawn equally wide, because equal-support ranges of a skewed variable would otherwise be invisible; the
    edges are written under the axis, over it stand bars of the share of rows.
    """
    ranges, column, curve = result.cells, result.column, result.curve
    low, high = ranges.observed_interval()
    smooth = curve.get("observed", np.empty(0))
    smooth = smooth if words.means() else np.clip(smooth, 0.0, 1.0)
    y = Scale(*nice(ranges.predicted, ranges.observed, low, high, smooth), 168.0, 20.0)
    chart = Chart(Scale(0.0, max(len(ranges), 1), 50.0, 352.0), y)
    edges = np.arange(len(ranges) + 1)
    middle = edges[:-1] + 0.5
    chart.left(f"Happened ({'dots, smooth curve' if curve else 'dots'}), predicted (steps)", spacing=36.0)
    _curve(chart, result)
    chart.line(np.repeat(edges, 2)[1:-1], np.repeat(ranges.predicted, 2), "predicted")
    interval = (middle, low), (middle, high)
    chart.dots(ranges, level, (middle, ranges.observed), interval, f"{column} ", 3.8)
    chart.bars(edges[:-1], edges[1:], ranges.size, _FLOOR, 28.0)
    chart.marks.append(marks.segment(46.0, _FLOOR, 352.0, _FLOOR, "axis"))
    chart.names(*_edge_labels(result), _FLOOR + 16)
    title = f"{column}: happened and predicted, by range"
    description = f"{len(ranges)} ranges, {int(ranges.beyond(level).sum())} of them beyond noise."
    return Figure("variable", title, description, (_WIDTH, 226.0), chart.marks, ranges.table())


def _curve(chart: Chart, result: Entry) -> None:
    """The curve and its band on the axis of equally wide ranges: each value stands where its range puts it."""
    curve, ranges, shift = result.curve, result.cells, 0.5 if result.integer else 0.0
    filled = np.flatnonzero(ranges.high > ranges.low)
    if not curve or not len(filled):
        return
    starts = np.append(ranges.low[filled], ranges.high[filled[-1]]) + 0.0
    starts[0] -= 2 * shift  # the lowest whole number belongs to the first range
    x = np.interp(curve["value"] - shift, starts, np.append(filled, filled[-1] + 1))
    chart.band(x, curve["observed_low"], curve["observed_high"])
    chart.line(x, curve["observed"], "smooth")


def _edge_labels(result: Entry) -> tuple[np.ndarray, list[str]]:
    """What stands under the axis and where: the ranges' edges; of a last range of missing values, that it is one.

    Ranges of whole numbers, and those without edges, have their own words under their middles.
    """
    ranges, middles = result.cells, np.arange(len(result.cells)) + 0.5
    write: Callable[[float], str] = result.write_edge if result.is_date else _edge
    filled = np.isfinite(ranges.low) & np.isfinite(ranges.high)
    if not filled.any() or result.integer:
        return middles, [ellipsis(label.replace(" to ", "–"), 12) for label in ranges.label]
    known = np.flatnonzero(filled)
    named = [write(edge) for edge in (*ranges.low[known], ranges.high[known[-1]])]
    return np.concatenate([known, [known[-1] + 1], middles[~filled]]), named + ["missing"] * int((~filled).sum())


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
    # Huge intervals are cut off at three times the largest gap.
    limit = max(3 * float(np.nanmax(np.abs(shown.gap), initial=0.0)), 1e-6)
    x = Scale(*nice(np.clip([shown.gap, shown.gap_low, shown.gap_high], -limit, limit), zero=True), 112.0, 348.0)
    bottom = 18 + 21.0 * len(shown)
    chart = Chart(x, Scale(0.0, max(len(shown), 1), 18.0, bottom))
    chart.rows(marks.signed, 58.0)
    chart.upright(0.0)
    chart.say(104, 10, "◀ happened more", "hint under")
    chart.say(x.end, 10, "predicted more ▶", "hint over", "end")
    rows = np.arange(len(shown)) + 0.5
    for row, label in zip(rows.tolist(), shown.label, strict=True):
        chart.say(_NAMES, chart.y.at(row) + 4, fitted(label, _NAMES), "tick", "end")
    interval = (shown.gap_low, rows), (shown.gap_high, rows)
    chart.dots(shown, level, (shown.gap, rows), interval, f"{column} ", 4.2)
    title = f"{column}: predicted minus happened, by level"
    note = f"{len(shown)} of {len(every):,} levels: those furthest from agreement." if len(shown) < len(every) else ""
    return Figure("field", title, _said(every, level), (_WIDTH, bottom + 24), chart.marks, every.table(), note)


def _said(levels: Cells, level: float) -> str:
    return f"{words.plural(len(levels), 'level')}, {int(levels.beyond(level).sum())} beyond noise."


def field_funnel(result: Entry, level: float = 0.05) -> Figure:
    """Draw every level's gap against its number of rows: noise narrows like a funnel as levels grow.

    Past 600 levels all those beyond noise and the largest of the others are drawn; the figure says so. The funnel is
    the 95% range of noise at the field's overall rate, an aid to the eye: colours come from the levels' own tests.
    """
    every = result.cells
    size = np.where(np.isnan(every.rows), every.weight, every.rows)
    usable = np.flatnonzero(np.isfinite(every.gap) & (size > 0))
    title, frame = f"{result.column}: predicted minus happened against size", (_WIDTH, 236.0)
    if not len(usable):
        return Figure("funnel", title, "No level has rows.", frame)
    order = np.lexsort((-size[usable], ~every.beyond(level)[usable]))[:_MOST_POINTS]
    drawn, sizes = every.take(usable[order][::-1]), size[usable[order][::-1]]
    x = Scale(max(sizes.min() / 1.5, 0.5), sizes.max() * 1.5, 52.0, 348.0, "log")
    beyond, gaps = drawn.beyond(level), np.abs(drawn.gap)
    furthest = float(gaps[beyond].max(initial=0.0))  # nearly all levels, and all that are beyond noise
    reach = max(float(np.quantile(gaps, 0.98)) * 1.1, furthest * 1.05, 1e-6)
    chart = Chart(x, Scale(*nice(-reach, reach), 196.0, 22.0))
    chart.left("Predicted minus happened", marks.signed, 36.0)
    rows = np.geomspace(x.low, x.high, 60)
    half = _noise(every, size) / np.sqrt(rows)
    chart.band(rows, -half, half)
    chart.level(0.0)
    chart.dots(drawn, level, (sizes, drawn.gap), radius=3.2 if len(drawn) < 150 else 2.0)
    _callouts(chart, drawn, np.flatnonzero(beyond), sizes)
    chart.bottom("Rows of the level", marks.numbers, 48.0)
    said = f"{len(drawn):,} of {len(every):,} levels drawn, all that are beyond noise first."
    note = said if len(drawn) < len(every) else ""
    return Figure("funnel", title, _said(every, level), frame, chart.marks, note=note)


def _noise(levels: Cells, size: Floats) -> float:
    """Half the width of the funnel at one row."""
    if words.means():  # as wide as the levels' own bands are, for their size
        wide = 0.5 * (levels.band_high - levels.band_low) * np.sqrt(size)
        return float(np.median(wide[np.isfinite(wide)])) if np.isfinite(wide).any() else 0.0
    rate = float(np.nansum(levels.predicted * size) / np.nansum(size))
    return float(1.96 * np.sqrt(max(rate * (1 - rate), 0.0)))


def _callouts(chart: Chart, levels: Cells, chosen: np.ndarray, size: Floats) -> None:
    """Names beside the strongest levels, each tied to its point: further from zero, where there is room, and apart."""
    strongest = chosen[np.argsort(-levels.strength()[chosen], kind="stable")][:_NAMED]
    used = {1.0: np.inf, -1.0: np.inf}
    for i in strongest[np.argsort(np.abs(levels.gap[strongest]), kind="stable")]:
        x, y, up = chart.x.at(size[i]), chart.y.at(levels.gap[i]), float(np.sign(levels.gap[i]))
        used[up] = min(up * y - 10, used[up] - 14)
        side, anchor = (12, "start") if x < (chart.x.start + chart.x.end) / 2 else (-12, "end")
        chart.marks.append(marks.segment(x, y, x + side, up * used[up], "tie"))
        chart.say(x + side, up * used[up] + 4, fitted(levels.label[i], 130.0, 11.5), "callout", anchor)
