"""Figures of a column, of running totals and of time: ranges, levels, funnels, walks, maps and periods."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from miscal.page import marks, words
from miscal.page.entries import REACH, Entry, Walk
from miscal.page.json import Floats, floats
from miscal.page.marks import MANY, Chart, Figure, Scale, Writer, nice, tip, way
from miscal.page.markup import ellipsis

_WIDTH = 360.0
_CARD = (_WIDTH, 226.0)
_LEFT, _FOOT = 54.0, 364.0
_SIZE, _WIDE = (480.0, 406.0), (480.0, 274.0)
FEW = 0.02  # of the rows of the largest period: too few to be drawn among so many


def _by_range(
    result: Entry, ends: tuple[float, float], size: tuple[float, float], label: str, write: Writer
) -> Chart:
    """The axes of a figure by range, over bars of the share of rows, with the ranges under them.

    Ranges are drawn equally wide, because equal-support ranges of a skewed variable would otherwise be invisible.
    """
    (width, height), many = size, len(result.cells)
    floor = height - 22
    chart = Chart(Scale(0.0, max(many, 1), 52.0, width - 8), Scale(*ends, floor - 36, 20.0))
    chart.left(label, write)
    edges = np.arange(many + 1)
    chart.bars(edges[:-1], edges[1:], result.cells.size, floor, 28.0)
    chart.stroke(46.0, floor, width - 8, floor, "axis")
    chart.names(edges[:-1] + 0.5, [ellipsis(label, 24) for label in result.cells.label], floor + 16)
    return chart


def _dots(chart: Chart, result: Entry, level: float, values: Floats, low: Floats, high: Floats) -> None:
    """A dot a range or period with its interval; a line through periods, and of many, dots beyond noise alone."""
    cells, middle = result.cells, np.arange(len(result.cells)) + 0.5
    if result.every != "range":
        chart.line(middle, values, "smooth")
    shown = np.flatnonzero(cells.beyond(level) | (len(cells) <= MANY))
    at, ends = (middle[shown], values[shown]), (low[shown], high[shown])
    chart.dots(cells.take(shown), level, at, ends, f"{result.column} ")


def variable(result: Entry, level: float = 0.05, size: tuple[float, float] = _CARD) -> Figure:
    """Draw happened (dots with intervals) against predicted (steps) by range of a variable, or by period."""
    ranges, curve = result.cells, result.curve
    # The interval of the gap, around what happened: predicted minus the gap's bounds.
    low, high = ranges.predicted - ranges.gap_high, ranges.predicted - ranges.gap_low
    smooth = curve.get("observed", np.empty(0))
    if not words.means():
        low, high, smooth = np.maximum(low, 0.0), np.minimum(high, 1.0), np.clip(smooth, 0.0, 1.0)
    ends = nice(ranges.predicted, ranges.observed, low, high, smooth)
    line = ", line" if curve or result.every != "range" else ""
    said = f"Happened (dots{line}), predicted (steps)"
    chart = _by_range(result, ends, size, said, marks.rates)
    _curve(chart, result)
    edges = np.arange(len(ranges) + 1)
    chart.line(np.repeat(edges, 2)[1:-1], np.repeat(ranges.predicted, 2), "predicted")
    _dots(chart, result, level, ranges.observed, low, high)
    title = f"{result.column}: happened and predicted, by {result.every}"
    return Figure("variable", title, ranges.said(result.every, level), size, chart.marks, ranges.table())


def gaps(result: Entry, level: float = 0.05, size: tuple[float, float] = _CARD) -> Figure:
    """Draw the gap of every range or period with its interval, over the band that noise alone keeps to.

    The steps from period to period that changed are named above it.
    """
    cells = result.cells
    # The band is that of what happens if the predictions are right; in terms of the gap it is turned over.
    low, high = cells.predicted - cells.band_high, cells.predicted - cells.band_low
    ends = nice(cells.gap, cells.gap_low, cells.gap_high, low, high, 0.0)
    chart = _by_range(result, ends, size, "Predicted minus happened", marks.signed)
    chart.band(np.arange(len(cells)) + 0.5, low, high)
    chart.level(0.0)
    _dots(chart, result, level, cells.gap, cells.gap_low, cells.gap_high)
    changed = {i + 0.5: str(word) for i, word in enumerate(result.table["verdict"]) if word in words.CHANGED}
    chart.names(list(changed), [word.replace("moved", "turned") for word in changed.values()], 33.0)
    title = f"{result.column}: predicted minus happened, by {result.every}"
    return Figure("gaps", title, cells.said(result.every, level), size, chart.marks)


def periods(result: Entry, level: float = 0.05) -> tuple[Figure, Figure]:
    """Draw happened and predicted of every period, and the gap, with the data of all of them.

    Rows without a date are left out. Where there are very many periods, those of few rows would hide the others behind
    their noise, and so would all intervals.
    """
    rows, every = floats(result.table["rows"]), result.every
    chosen = np.array([verdict != "no date" for verdict in result.table["verdict"]])
    dated = chosen.sum()
    if dated > MANY:
        chosen &= rows >= FEW * np.nanmax(rows)
    table = result.table.take(np.flatnonzero(chosen).tolist())
    table["label"] = [words.period_words(label) for label in table["label"]]
    if table.rows > MANY:
        table["gap_low"] = table["gap_high"] = [None] * table.rows
    drawn, left = replace(result, table=table), int(dated) - table.rows
    note = f"{words.plural(left, every)} of few rows {'is' if left == 1 else 'are'} in the table, not drawn."
    rates = replace(variable(drawn, level, _WIDE), name="periods", table={}, note=note if left else "")
    return rates, replace(
        gaps(drawn, level, _WIDE), name="periods", table=dict(result.table), note=rates.note
    )


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


def field_levels(result: Entry, level: float = 0.05) -> Figure:
    """Draw the gaps of the ten levels that stand out most, with simultaneous intervals, as rows of one chart.

    The levels shown are those with the largest lower bound of events off; the figure says how many there are.
    """
    every = result.cells
    chosen = np.argsort(-every.strength(), kind="stable")[:10]
    shown = every.take(chosen[np.argsort(-every.gap[chosen], kind="stable")])
    # Huge intervals are cut off at three times the largest gap.
    limit = 3 * np.nanmax(np.abs(shown.gap), initial=0.0)
    ends = nice(0.0, shown.gap, np.clip([shown.gap_low, shown.gap_high], -limit, limit))
    bottom = 18 + 21.0 * len(shown)
    chart = Chart(Scale(*ends, 124.0, 348.0), Scale(0.0, max(len(shown), 1), 18.0, bottom))
    chart.rows([ellipsis(label, 11) for label in shown.label], marks.signed)
    chart.say(104, 10, "◀ happened more", "hint under")
    chart.say(348, 10, "predicted more ▶", "hint over", "end")
    for i, beyond in enumerate(shown.beyond(level)):
        interval, tips = (shown.gap_low[i], shown.gap_high[i]), ("", tip(shown, i, f"{result.column} "))
        chart.pair(i, math.nan, shown.gap[i], interval, way(shown.gap[i], beyond), tips)
    title = f"{result.column}: predicted minus happened, by level"
    note = (
        f"{len(shown)} of {len(every):,} levels: those furthest from agreement."
        if len(shown) < len(every)
        else ""
    )
    said = every.said("level", level)
    return Figure("field", title, said, (_WIDTH, bottom + 24), chart.marks, every.table(), note)


def field_funnel(result: Entry, level: float = 0.05) -> Figure:
    """Draw every level's gap against its number of rows: noise narrows like a funnel as levels grow.

    Past 600 levels all those beyond noise and the largest of the others are drawn; the figure says so. The funnel is
    as wide as the levels' own 95% bands are, for their size, an aid to the eye: colours come from their own tests.
    """
    every = result.cells
    order = np.lexsort((-every.rows, ~every.beyond(level)))
    usable = np.isfinite(every.gap) & (every.rows > 0)
    drawn = every.take(order[usable[order]][:600])
    title, frame = f"{result.column}: predicted minus happened against size", (_WIDTH, 236.0)
    if not len(drawn):
        return Figure("funnel", title, "No level has rows.", frame)
    gaps = np.abs(drawn.gap)
    beyond = drawn.beyond(level)
    # Nearly all, and all beyond noise.
    reach = 1.05 * max(np.quantile(gaps, 0.98), gaps[beyond].max(initial=1e-6))
    sizes = np.log10(drawn.rows)
    ticks = [math.log10(times) + power for times in (1, 5, 2) for power in range(12)]
    x = Scale(sizes.min() - 0.2, sizes.max() + 0.2, 52.0, 348.0, ticks)
    chart = Chart(x, Scale(*nice(-reach, reach), 196.0, 22.0))
    chart.left("Predicted minus happened", marks.signed)
    across = np.linspace(x.low, x.high, 60)
    wide = 0.5 * (drawn.band_high - drawn.band_low) * np.sqrt(drawn.rows)
    half = np.median(wide[np.isfinite(wide)] if np.isfinite(wide).any() else 0.0) / np.sqrt(10**across)
    chart.band(across, -half, half)
    chart.level(0.0)
    named = np.roll(np.lexsort((-gaps, ~beyond))[:7], -1)  # the furthest out last, which stands in any case
    away = np.where(drawn.gap > 0, -7.0, 15.0)
    labels = [ellipsis(drawn.label[i], 16) for i in named]
    chart.names(sizes[named], labels, (chart.y(drawn.gap) + away)[named], "callout")
    chart.dots(drawn, level, (sizes, drawn.gap))
    chart.bottom("Rows of the level", _of_log)
    said = f"{len(drawn):,} of {len(every):,} levels drawn, all that are beyond noise first."
    note = said if len(drawn) < len(every) else ""
    return Figure("funnel", title, every.said("level", level), frame, chart.marks, note=note)


def _of_log(tick: float) -> str:
    return marks.numbers(float(f"{10**tick:.2g}"))


def cumulative(walk: Walk, reach: tuple[float, float] | None = None) -> Figure:
    """Draw the running total of predicted minus happened over rows ordered by score; its range is Kuiper's.

    A rising stretch is over-predicted, a falling one under-predicted.

    reach : draw in standard deviations of noise, on an axis with these ends, so that several figures can be compared
    """
    table, ends = walk.table(), nice(walk.low, walk.high, walk.total, 0.0)
    ticks, write, unit = marks.rates, words.percent, "on average" if words.means() else "of all rows"
    if reach is not None and walk.deviation > 0:
        ticks, write, unit = marks.numbers, words.number, "deviations of noise"
        walk, ends = walk.in_deviations(), reach
    chart = Chart(Scale(0.0, 1.0, _LEFT, 404.0), Scale(*ends, _FOOT, 24.0))
    chart.left(f"Predicted minus happened, so far ({unit})", ticks)
    chart.band(walk.share, walk.low, walk.high)
    chart.level(0.0)
    chart.line(walk.share, walk.total, "walk")
    # The bracket at the right shows the range, between dotted lines at the two extremes.
    side, (top, bottom) = chart.x.end + 10, chart.y([walk.top, walk.bottom])
    chart.level(walk.top, "dotted")
    chart.level(walk.bottom, "dotted")
    chart.stroke(side, top, side, bottom, "bracket")
    chart.say(side + 8, (top + bottom) / 2 - 4, "range")
    chart.say(side + 8, (top + bottom) / 2 + 10, write(walk.size), "tick strong")
    # So that hovering reads the total.
    for i in np.unique(np.linspace(0, len(walk.share) - 1, 40).astype(np.intp)):
        share, total = walk.share[i], walk.total[i]
        said = f"Lowest {marks.shares(round(share, 3))} of scores\n{write(total)} {unit}, predicted minus happened"
        chart.point(share, total, "ghost", said)
    chart.bottom("Rows ordered from the lowest score to the highest", marks.shares)
    description = (
        f"The running total moves between {write(walk.bottom)} and {write(walk.top)} {unit} and "
        f"ends at {write(walk.total[-1])}. Its range, {write(walk.size)}, is the Kuiper range."
    )
    return Figure(
        "cumulative", "Running total of predicted minus happened", description, _SIZE, chart.marks, table
    )


def deviation_reach(walks: Sequence[Walk]) -> tuple[float, float]:
    """The ends of an axis that holds several running totals in standard deviations of their noise."""
    totals = [walk.in_deviations().total for walk in walks if walk.deviation > 0]
    return nice(-REACH, REACH, *totals)


def neighbourhood(result: Entry) -> Figure:
    """Draw a plane of two columns, each cell shaded by the gap of the rows around it, in standard errors."""
    grid, (one, two) = result.grid, [*result.columns, "x", "y"][:2]
    x, y = grid["x"], grid["y"]
    chart = Chart(Scale(x[0], x[-1], _LEFT, 466.0), Scale(y[0], y[-1], _FOOT, 24.0))
    chart.left(ellipsis(two, 40), marks.numbers)
    row, column = np.nonzero(grid["rows"] > 0)
    table = {f"{one} from": x[column].tolist(), f"{two} from": y[row].tolist()}
    table |= {key: grid[key][row, column].tolist() for key in ("rows", "gap", "deviations")}
    for i, j, rows, gap, deviations in zip(row, column, *list(table.values())[2:], strict=True):
        place = f"{one} {x[j]:.3g} to {x[j + 1]:.3g}, {two} {y[i]:.3g} to {y[i + 1]:.3g}"
        said = f"{place}\n{words.points(gap)}, {words.count(rows)} rows"
        (left, right), (low, high) = chart.x(x[j : j + 2]), chart.y(y[i : i + 2])
        chart.bar(left, high, right - left, low - high, f"heat {_shade(deviations)}", said)
    chart.bottom(ellipsis(one, 40), marks.numbers)
    description = f"The gap around each place of {one} (across) and {two} (up)."
    return Figure("neighbourhood", "Map of the gap", description, _SIZE, chart.marks, table)


def _shade(deviations: float) -> str:
    """The class of a cell of the map; from 2, 3 and 4 standard errors on it is shaded more."""
    step = min(int(abs(np.nan_to_num(deviations))) - 1, 3)
    if step < 1:
        return "within" if np.isfinite(deviations) else "none"
    return f"{'over' if deviations > 0 else 'under'}-{step}"
