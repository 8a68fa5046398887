"""Figures of a column and of time: ranges, categories, funnels, cumulative differences, maps and periods."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from miscal.report import wording
from miscal.report.html import marks
from miscal.report.html.marks import MANY, Chart, Figure, Points, Scale, Writer, nice, tip, way
from miscal.report.html.markup import ellipsis
from miscal.report.result_tables import CumulativeDifferences, ResultView
from miscal.report.values import Ends, Floats, floats
from miscal.stats.normal import NORMAL_95

_WIDTH = 360.0
_CARD = (_WIDTH, 226.0)
_LEFT, _FOOT = 54.0, 364.0
_SIZE, _WIDE = (480.0, 406.0), (480.0, 274.0)
FEW = 0.02  # of the rows of the largest period: too few to be drawn among so many


def _by_range(result: ResultView, ends: Ends, size: Ends, label: str, write: Writer) -> Chart:
    """The axes of a figure by range, over bars of the share of rows, with the ranges under them.

    Ranges are drawn equally wide, because equal-support ranges of a skewed variable would otherwise be invisible.
    """
    cells, (width, height) = result.cells, size
    left = np.arange(len(cells))
    floor = height - 22
    chart = Chart(Scale(0.0, max(len(cells), 1), 52.0, width - 8), Scale(*ends, floor - 36, 20.0))
    chart.left(label, write)
    chart.bars(left, left + 1, cells.size, floor, 28.0)
    chart.stroke(46.0, floor, width - 8, floor, "axis")
    chart.names(left + 0.5, [ellipsis(label, 24) for label in cells.label], floor + 16)
    return chart


def _dots(chart: Chart, result: ResultView, values: Floats, low: Floats, high: Floats) -> None:
    """One dot per range or period with its interval, and a line through periods; of many, the significant dots."""
    cells = result.cells
    middle = np.arange(len(result.cells)) + 0.5
    if result.every != "range":
        chart.line(middle, values, "smooth")
    shown = np.flatnonzero(cells.beyond | (len(cells) <= MANY))
    at = (middle[shown], values[shown])
    ends = (low[shown], high[shown])
    chart.dots(cells.take(shown), at, ends, f"{result.column} ")


def _turned(predicted: Floats, low: Floats, high: Floats) -> Points:
    """Bounds of the gap turned into bounds of the observed rate, and the other way round."""
    return predicted - high, predicted - low


def variable(result: ResultView, size: Ends = _CARD) -> Figure:
    """Draw observed (dots with intervals) against predicted (steps) by range of a variable, or by period."""
    ranges, curve, unit = result.cells, result.curve, result.every
    predicted, observed, smooth = ranges.predicted, ranges.observed, curve.get("observed", np.empty(0))
    low, high = _turned(predicted, ranges.gap_low, ranges.gap_high)
    if not wording.means():
        low, high, smooth = np.maximum(low, 0.0), np.minimum(high, 1.0), np.clip(smooth, 0.0, 1.0)
    ends = nice(predicted, observed, low, high, smooth)
    line = ", line" if curve or unit != "range" else ""
    label = f"Observed (dots{line}), predicted (steps)"
    chart = _by_range(result, ends, size, label, marks.rates)
    _curve(chart, result)
    steps = np.repeat(np.arange(len(ranges) + 1), 2)[1:-1]
    chart.line(steps, np.repeat(predicted, 2), "predicted")
    _dots(chart, result, observed, low, high)
    title = f"{result.column}: observed and predicted, by {unit}"
    return Figure("variable", title, ranges.summary(unit), size, chart.marks, ranges.table())


def _gaps(result: ResultView) -> Figure:
    """Draw the gap of every range or period with its interval, over the band expected for a calibrated model.

    Steps from one period to the next that changed significantly are labelled above it.
    """
    cells = result.cells
    shown = cells.gap, cells.gap_low, cells.gap_high
    # The band is that of the observed rate of a calibrated model; in terms of the gap it is reversed.
    low, high = _turned(cells.predicted, cells.band_low, cells.band_high)
    ends = nice(*shown, low, high, 0.0)
    chart = _by_range(result, ends, _WIDE, f"Predicted minus observed{wording.gap_unit()}", marks.signed)
    chart.band(np.arange(len(cells)) + 0.5, low, high)
    chart.level(0.0)
    _dots(chart, result, *shown)
    verdicts = result.table["verdict"]
    changed = [i for i, verdict in enumerate(verdicts) if verdict in wording.CHANGED]
    labelled = [verdicts[i].replace("moved", "changed direction") for i in changed]
    chart.names(np.add(changed, 0.5), labelled, 33.0)
    title = f"{result.column}: predicted minus observed, by {result.every}"
    return Figure("periods", title, cells.summary(result.every), _WIDE, chart.marks)


def periods(result: ResultView) -> tuple[Figure, Figure]:
    """Draw observed and predicted of every period, and the gap, with the data of all of them.

    Rows without a date are left out. Where there are very many periods, small ones and all intervals are left out too:
    they would hide the others.
    """
    all_periods, rows = result.table, floats(result.table["rows"])
    is_drawn = np.array([verdict != "no date" for verdict in all_periods["verdict"]])
    n_dated = is_drawn.sum()
    if n_dated > MANY:
        is_drawn &= rows >= FEW * np.nanmax(rows)
    table = all_periods.take(np.flatnonzero(is_drawn).tolist())
    table["label"] = [wording.period_words(label) for label in table["label"]]
    if table.rows > MANY:
        table["gap_low"] = table["gap_high"] = [None] * table.rows
    drawn = replace(result, table=table)
    n_small = n_dated - table.rows
    small = wording.plural(n_small, result.every)
    note = (
        f"{small} of few rows {'is' if n_small == 1 else 'are'} in the table, not drawn." if n_small else ""
    )
    rates = replace(variable(drawn, _WIDE), name="periods", table={}, note=note)
    return rates, replace(_gaps(drawn), table={**all_periods}, note=note)


def _curve(chart: Chart, result: ResultView) -> None:
    """The curve and its band on the axis of equally wide ranges: each value stands where its range puts it."""
    curve, low, high = result.curve, result.cells.low, result.cells.high
    filled = np.flatnonzero(high > low)
    shift = 0.5 if result.extra.get("integer") else 0.0
    if not curve or not len(filled):
        return
    starts = np.append(low[filled], high[filled[-1]]) + 0.0
    starts[0] -= 2 * shift  # the lowest whole number belongs to the first range
    x = np.interp(curve["value"] - shift, starts, np.append(filled, filled[-1] + 1))
    chart.band(x, curve["observed_low"], curve["observed_high"])
    chart.line(x, curve["observed"], "smooth")


def field_levels(result: ResultView) -> Figure:
    """Draw the gaps of the ten categories that stand out most, with simultaneous intervals, as rows of one chart.

    The categories shown are those with the largest lower bound of events off; the figure says how many there are.
    """
    cells = result.cells
    strongest = np.argsort(-cells.strength(), kind="stable")[:10]
    shown = cells.take(strongest[np.argsort(-cells.gap[strongest], kind="stable")])
    gap, low, high, n_shown = shown.gap, shown.gap_low, shown.gap_high, len(shown)
    # Huge intervals are cut off at three times the largest gap.
    limit = 3 * np.nanmax(np.abs(gap), initial=0.0)
    ends = nice(0.0, gap, np.clip([low, high], -limit, limit))
    bottom = 18 + 21.0 * n_shown
    chart = Chart(Scale(*ends, 124.0, 348.0), Scale(0.0, max(n_shown, 1), 18.0, bottom))
    chart.rows([ellipsis(label, 11) for label in shown.label], marks.signed_points)
    chart.say(104, 10, "◀ more observed", "hint under")
    chart.say(348, 10, "more predicted ▶", "hint over", "end")
    for i, significant in enumerate(shown.beyond):
        tips = "", tip(shown, i, f"{result.column} ")
        chart.pair(i, math.nan, gap[i], (low[i], high[i]), way(gap[i], significant), tips)
    title = f"{result.column}: predicted minus observed, by category"
    note = (
        f"{n_shown} of {len(cells):,} categories: those with the largest gaps."
        if n_shown < len(cells)
        else ""
    )
    frame = (_WIDTH, bottom + 24)
    return Figure(
        "field", title, cells.summary("category", "categories"), frame, chart.marks, cells.table(), note
    )


def field_funnel(result: ResultView) -> Figure:
    """Draw the gap of every category against its number of rows, over the funnel expected for a calibrated model.

    With more than 600 categories the significant ones and the largest of the others are drawn, and the figure says so.
    The funnel is as wide as the 95% bands of the categories at their size, as an aid to the eye: the colours come from
    the test of each category.
    """
    cells = result.cells
    order = np.lexsort((-cells.rows, ~cells.beyond))
    usable = np.isfinite(cells.gap) & (cells.rows > 0)
    drawn = cells.take(order[usable[order]][:600])
    title, frame = f"{result.column}: predicted minus observed against size", (_WIDTH, 236.0)
    if not len(drawn):
        return Figure("funnel", title, "No category has rows.", frame)
    gaps, significant = np.abs(drawn.gap), drawn.beyond
    # Nearly all, and all that are significant.
    reach = 1.05 * max(np.quantile(gaps, 0.98), gaps[significant].max(initial=1e-6))
    sizes = np.log10(drawn.rows)
    ticks = [math.log10(times) + power for times in (1, 5, 2) for power in range(12)]
    low = sizes.min() - 0.2
    high = sizes.max() + 0.2
    chart = Chart(Scale(low, high, 52.0, 348.0, ticks), Scale(*nice(-reach, reach), 196.0, 22.0))
    chart.left(f"Predicted minus observed{wording.gap_unit()}", marks.signed)
    across = np.linspace(low, high, 60)
    wide = 0.5 * (drawn.band_high - drawn.band_low) * np.sqrt(drawn.rows)
    known = wide[np.isfinite(wide)]
    half = (np.median(known) if len(known) else 0.0) / np.sqrt(10**across)
    chart.band(across, -half, half)
    chart.level(0.0)
    labelled = np.roll(
        np.lexsort((-gaps, ~significant))[:7], -1
    )  # the largest gap last, whose name is always drawn
    away = np.where(drawn.gap > 0, -7.0, 15.0)
    labels = [ellipsis(drawn.label[i], 16) for i in labelled]
    chart.names(sizes[labelled], labels, (chart.y(drawn.gap) + away)[labelled], "callout")
    chart.dots(drawn, (sizes, drawn.gap))
    chart.bottom("Rows of the category", lambda tick: marks.numbers(float(f"{10**tick:.2g}")))
    note = f"{len(drawn):,} of {len(cells):,} categories drawn, the significant ones first."
    note = note if len(drawn) < len(cells) else ""
    return Figure("funnel", title, cells.summary("category", "categories"), frame, chart.marks, note=note)


def cumulative(differences: CumulativeDifferences, reach: Ends | None = None) -> Figure:
    """Draw the cumulative differences, predicted minus observed, over rows ordered by score.

    The line rises over scores that are over-predicted and falls over those that are under-predicted. Its range is the
    Kuiper statistic.

    Parameters
    ----------
    differences : CumulativeDifferences
        The cumulative differences, in the unit of the gap.
    reach : tuple of float, optional
        Draw in standard errors, on an axis with these ends, so that several figures can be compared.
    """
    table = differences.table()
    ends = nice(-differences.band, differences.band, differences.total, 0.0)
    ticks, write, unit = marks.differences, wording.error, "mean" if wording.means() else "pp"
    if reach is not None and differences.deviation > 0:
        ticks, write, unit = marks.numbers, _standard_errors, "standard errors"
        differences, ends = differences.in_deviations(), reach
    chart = Chart(Scale(0.0, 1.0, _LEFT, 404.0), Scale(*ends, _FOOT, 24.0))
    chart.left(f"Cumulative predicted minus observed ({unit})", ticks)
    chart.band(differences.share, -differences.band, differences.band)
    chart.level(0.0)
    chart.line(differences.share, differences.total, "differences")
    # The bracket at the right shows the range, between dotted lines at the two extremes.
    highest = differences.total.max(initial=0.0)
    lowest = differences.total.min(initial=0.0)
    side = chart.x.end + 10
    top, bottom = chart.y([highest, lowest])
    middle = (top + bottom) / 2
    chart.level(highest, "dotted")
    chart.level(lowest, "dotted")
    chart.stroke(side, top, side, bottom, "bracket")
    chart.say(side + 8, middle - 4, "range")
    chart.say(side + 8, middle + 10, write(differences.size), "tick strong")
    # Invisible points, whose tooltips give the cumulative difference.
    hovered = np.unique(np.linspace(0, len(differences.share) - 1, 40).astype(np.intp))
    for share, total in zip(differences.share[hovered], differences.total[hovered], strict=True):
        tooltip = f"Lowest {marks.shares(round(share, 3))} of scores\n{write(total)} predicted minus observed"
        chart.point(share, total, "ghost", tooltip)
    chart.bottom("Rows ordered from the lowest score to the highest", marks.shares)
    description = (
        f"The cumulative differences range from {write(lowest)} to {write(highest)} and "
        f"end at {write(differences.total[-1])}. Their range, {write(differences.size)}, is the Kuiper statistic."
    )
    title = "Cumulative differences: predicted minus observed"
    return Figure("cumulative", title, description, _SIZE, chart.marks, table)


def _standard_errors(value: object) -> str:
    return f"{wording.number(value)} standard errors"


def deviation_reach(lines: Sequence[CumulativeDifferences]) -> Ends:
    """The ends of an axis that holds several lines of cumulative differences, in standard errors."""
    totals = [differences.in_deviations().total for differences in lines if differences.deviation > 0]
    return nice(-NORMAL_95, NORMAL_95, *totals)


def neighbourhood(result: ResultView) -> Figure:
    """Draw a plane of two columns, each cell shaded by the gap of the rows around it, in standard errors."""
    grid = result.grid
    x_name, y_name = [*result.columns, "x", "y"][:2]
    x, y = grid["x"], grid["y"]
    chart = Chart(Scale(x[0], x[-1], _LEFT, 466.0), Scale(y[0], y[-1], _FOOT, 24.0))
    chart.left(ellipsis(y_name, 40), marks.numbers)
    filled = row, column = np.nonzero(grid["rows"] > 0)
    cells = {key: grid[key][filled].tolist() for key in ("rows", "gap", "deviations")}
    table = {f"{x_name} from": x[column].tolist(), f"{y_name} from": y[row].tolist(), **cells}
    for i, j, rows, gap, deviations in zip(*filled, *cells.values(), strict=True):
        left, right = chart.x(x[j : j + 2])
        low, high = chart.y(y[i : i + 2])
        cell = f"{x_name} {x[j]:.3g} to {x[j + 1]:.3g}, {y_name} {y[i]:.3g} to {y[i + 1]:.3g}"
        tooltip = f"{cell}\n{wording.points(gap)}, {wording.rows(rows)}"
        chart.bar(left, high, right - left, low - high, f"heat {_shade(deviations)}", tooltip)
    chart.bottom(ellipsis(x_name, 40), marks.numbers)
    description = f"The local gap at each point of {x_name} (horizontal) and {y_name} (vertical)."
    return Figure("neighbourhood", "Map of the local gap", description, _SIZE, chart.marks, table)


def _shade(deviations: float) -> str:
    """The class of a cell of the map; from 2, 3 and 4 standard errors on it is shaded more."""
    step = min(int(abs(np.nan_to_num(deviations))) - 1, 3)
    if step < 1:
        return "within" if np.isfinite(deviations) else "none"
    return f"{'over' if deviations > 0 else 'under'}-{step}"
