"""Figures of a column, of running totals and of time: ranges, levels, funnels, walks, maps and periods."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from miscal.page import marks, words
from miscal.page.entries import REACH, Cells, Entry, Walk
from miscal.page.json import Floats, floats
from miscal.page.marks import Chart, Figure, Scale, fitted, nice
from miscal.page.markup import ellipsis

_WIDTH, _FLOOR = 360.0, 204.0
_NAMES = 100.0  # of the chart with a row a level


def variable(result: Entry, level: float = 0.05) -> Figure:
    """Draw happened (dots with intervals) against predicted (line) by range of a variable.

    Ranges are drawn equally wide, because equal-support ranges of a skewed variable would otherwise be invisible; the
    edges are written under the axis, over it stand bars of the share of rows.
    """
    ranges, column, curve = result.cells, result.column, result.curve
    low, high = ranges.observed_interval()
    smooth = np.clip(curve.get("observed", np.empty(0)), *((-np.inf, np.inf) if words.means() else (0.0, 1.0)))
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
    return Figure("variable", title, ranges.said("range", level), (_WIDTH, 226.0), chart.marks, ranges.table())


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
    filled = np.isfinite(ranges.low) & np.isfinite(ranges.high)
    if not filled.any() or result.integer:
        return middles, [ellipsis(label.replace(" to ", "–"), 12) for label in ranges.label]
    known = np.flatnonzero(filled)
    named = [_edge(result, edge) for edge in (*ranges.low[known], ranges.high[known[-1]])]
    return np.concatenate([known, [known[-1] + 1], middles[~filled]]), named + ["missing"] * int((~filled).sum())


def _edge(result: Entry, value: float) -> str:
    """An edge as the axis writes it: large numbers shortened."""
    if result.is_date:
        return result.write_edge(value)
    return marks.numbers(float(f"{value:.3g}")) if abs(value) >= 1e4 else words.edge(value).replace("-", words.MINUS)


def field_levels(result: Entry, level: float = 0.05) -> Figure:
    """Draw the gaps of the ten levels that stand out most, with simultaneous intervals, as rows of one chart.

    The levels shown are those with the largest lower bound of events off; the figure says how many there are.
    """
    every, column = result.cells, result.column
    chosen = np.argsort(-every.strength(), kind="stable")[:10]
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
    said = every.said("level", level)
    return Figure("field", title, said, (_WIDTH, bottom + 24), chart.marks, every.table(), note)


def field_funnel(result: Entry, level: float = 0.05) -> Figure:
    """Draw every level's gap against its number of rows: noise narrows like a funnel as levels grow.

    Past 600 levels all those beyond noise and the largest of the others are drawn; the figure says so. The funnel is
    as wide as the levels' own 95% bands are, for their size, an aid to the eye: colours come from their own tests.
    """
    every = result.cells
    size = np.where(np.isnan(every.rows), every.weight, every.rows)
    usable = np.flatnonzero(np.isfinite(every.gap) & (size > 0))
    title, frame = f"{result.column}: predicted minus happened against size", (_WIDTH, 236.0)
    if not len(usable):
        return Figure("funnel", title, "No level has rows.", frame)
    order = np.lexsort((-size[usable], ~every.beyond(level)[usable]))[:600]
    drawn, sizes = every.take(usable[order][::-1]), size[usable[order][::-1]]
    x = Scale(max(sizes.min() / 1.5, 0.5), sizes.max() * 1.5, 52.0, 348.0, "log")
    beyond, gaps = drawn.beyond(level), np.abs(drawn.gap)
    furthest = float(gaps[beyond].max(initial=0.0))  # nearly all levels, and all that are beyond noise
    reach = max(float(np.quantile(gaps, 0.98)) * 1.1, furthest * 1.05, 1e-6)
    chart = Chart(x, Scale(*nice(-reach, reach), 196.0, 22.0))
    chart.left("Predicted minus happened", marks.signed, 36.0)
    rows = np.geomspace(x.low, x.high, 60)
    wide = 0.5 * (drawn.band_high - drawn.band_low) * np.sqrt(sizes)
    half = np.median(wide[np.isfinite(wide)] if np.isfinite(wide).any() else 0.0) / np.sqrt(rows)
    chart.band(rows, -half, half)
    chart.level(0.0)
    chart.dots(drawn, level, (sizes, drawn.gap), radius=3.2 if len(drawn) < 150 else 2.0)
    _callouts(chart, drawn, np.flatnonzero(beyond), sizes)
    chart.bottom("Rows of the level", marks.numbers, 48.0)
    said = f"{len(drawn):,} of {len(every):,} levels drawn, all that are beyond noise first."
    note = said if len(drawn) < len(every) else ""
    return Figure("funnel", title, every.said("level", level), frame, chart.marks, note=note)


def _callouts(chart: Chart, levels: Cells, chosen: np.ndarray, size: Floats) -> None:
    """Names beside the three strongest levels, each tied to its point: further from zero, with room, and apart."""
    strongest = chosen[np.argsort(-levels.strength()[chosen], kind="stable")][:3]
    used = {1.0: np.inf, -1.0: np.inf}
    for i in strongest[np.argsort(np.abs(levels.gap[strongest]), kind="stable")]:
        x, y, up = chart.x.at(size[i]), chart.y.at(levels.gap[i]), float(np.sign(levels.gap[i]))
        used[up] = min(up * y - 10, used[up] - 14)
        side, anchor = (12, None) if x < (chart.x.start + chart.x.end) / 2 else (-12, "end")
        chart.marks.append(marks.segment(x, y, x + side, up * used[up], "tie"))
        chart.say(x + side, up * used[up] + 4, fitted(levels.label[i], 130.0, 11.5), "callout", anchor)


_LEFT, _FOOT = 54.0, 364.0
_SIZE = (480.0, 406.0)
MANY = 60  # periods from which on a line is drawn, and dots beyond noise alone
FEW = 0.02  # of the rows of the largest period: too few to be drawn among so many
_SIGNS = {"worse": "worse", "better": "better", "moved": "turned"}


def cumulative(walk: Walk, reach: tuple[float, float] | None = None) -> Figure:
    """Draw the running total of predicted minus happened over rows ordered by score; its range is Kuiper's.

    A rising stretch is over-predicted, a falling one under-predicted.

    reach : draw in standard deviations of noise, from one to the other, so that several figures can be compared
    """
    columns = {"share_of_rows": walk.share, "score": walk.score, "running_total": walk.total}
    columns |= {"noise_low": walk.low, "noise_high": walk.high}
    table = {name: column.tolist() for name, column in columns.items() if np.isfinite(column).any()}
    ticks, write, unit = marks.rates, words.percent, "on average" if words.means() else "of all rows"
    ends = nice(walk.low, walk.high, walk.total, zero=True)
    if reach is not None and walk.deviation > 0:
        scaled = {key: getattr(walk, key) / walk.deviation for key in ("total", "low", "high", "size")}
        ticks, write, unit, walk = marks.numbers, words.number, "deviations of noise", replace(walk, **scaled)
        ends = nice(reach)
    chart = Chart(Scale(0.0, 1.0, _LEFT, 404.0), Scale(*ends, _FOOT, 24.0))
    chart.left(f"Predicted minus happened, so far ({unit})", ticks)
    chart.band(walk.share, walk.low, walk.high)
    chart.level(0.0)
    chart.line(walk.share, walk.total, "walk")
    _bracket(chart, walk, write(walk.size))
    _stops(chart, walk, write, unit)
    chart.bottom("Rows ordered from the lowest score to the highest", marks.shares)
    description = (
        f"The running total moves between {write(walk.bottom)} and {write(walk.top)} {unit} and "
        f"ends at {write(walk.total[-1])}. Its range, {write(walk.size)}, is the Kuiper range."
    )
    return Figure("cumulative", "Running total of predicted minus happened", description, _SIZE, chart.marks, table)


def deviation_reach(walks: Sequence[Walk]) -> tuple[float, float] | None:
    """The lowest and highest point of several running totals in standard deviations of their noise."""
    ends = [end / walk.deviation for walk in walks if walk.deviation > 0 for end in (walk.bottom, walk.top)]
    return (round(min(*ends, -REACH), 9), round(max(*ends, REACH), 9)) if ends else None


def _bracket(chart: Chart, walk: Walk, size: str) -> None:
    """The bracket at the right that shows the range, between dotted lines at the two extremes."""
    side, (top, bottom) = chart.x.end + 10, chart.y([walk.top, walk.bottom])
    chart.marks.append(marks.segment(side, top, side, bottom, "bracket"))
    for value, at in ((walk.top, top), (walk.bottom, bottom)):
        chart.level(value, "dotted")
        chart.marks.append(marks.segment(side - 4, at, side + 4, at, "bracket"))
    chart.say(side + 8, (top + bottom) / 2 - 4, "range")
    chart.say(side + 8, (top + bottom) / 2 + 10, size, "tick strong")


def _stops(chart: Chart, walk: Walk, write: Callable[[object], str], of: str) -> None:
    """Invisible points along the line, so that hovering reads the running total."""
    for i in np.unique(np.linspace(0, len(walk.share) - 1, 40).astype(np.intp)):
        share, score, total = walk.share[i], walk.score[i], walk.total[i]
        upto = f" (up to {words.percent(score)})" if np.isfinite(score) else ""
        more = "more predicted than happened" if total >= 0 else "more happened than predicted"
        said = f"Lowest {marks.shares(float(f'{share:.2g}'))} of scores{upto}\n{write(abs(total))} {of} {more}"
        chart.point(share, total, "ghost", said, 3.5)


def neighbourhood(grid: Mapping[str, Floats], columns: Sequence[str]) -> Figure:
    """Draw a plane of two columns, each cell shaded by the gap of the rows around it, in standard errors."""
    one, two = [*columns, "x", "y"][:2]
    x, y = grid["x"], grid["y"]
    chart = Chart(Scale(x[0], x[-1], _LEFT, 466.0), Scale(y[0], y[-1], _FOOT, 24.0))
    chart.left(ellipsis(two, 40), marks.numbers)
    row, column = np.nonzero(grid["rows"] > 0)
    for i, j in zip(row.tolist(), column.tolist(), strict=True):
        _heat(chart, grid, i, j, (one, two))
    chart.bottom(one[:40], marks.numbers)
    table = {f"{one} from": x[column].tolist(), f"{two} from": y[row].tolist()}
    named = {"rows": "rows", "gap": "gap", "standard errors": "deviations"}
    table |= {name: grid[key][row, column].tolist() for name, key in named.items()}
    description = f"The gap around each place of {one} (across) and {two} (up)."
    return Figure("neighbourhood", "Map of the gap", description, _SIZE, chart.marks, table)


def _heat(chart: Chart, grid: Mapping[str, Floats], i: int, j: int, names: tuple[str, str]) -> None:
    """One cell of the map."""
    x, y, deviations = grid["x"][j : j + 2], grid["y"][i : i + 2], grid["deviations"][i, j]
    place = ", ".join(f"{name} {a:.3g} to {b:.3g}" for name, (a, b) in zip(names, (x, y), strict=True))
    said = f"{place}\n{words.points(grid['gap'][i, j])}, {words.count(grid['rows'][i, j])} rows"
    step = sum(abs(deviations) >= limit for limit in (2.0, 3.0, 4.0))  # standard errors from which it is shaded more
    shade = f"{'over' if deviations > 0 else 'under'}-{step}" if step else "within"
    (left, right), (low, high) = chart.x(x), chart.y(y)
    shade = f"heat {shade if np.isfinite(deviations) else 'none'}"
    chart.marks.append(marks.bar(left, high, right - left, low - high, shade, said))


def period_rates(result: Entry, level: float = 0.05) -> Figure:
    """Draw predicted (thick line) and happened (dots with intervals on a thin line) of every period."""
    periods, _ = _periods(result)
    low, high = periods.observed_interval()
    chart = _in_time(periods, nice(periods.predicted, periods.observed, low, high))
    chart.left("Predicted (thick line) and happened (thin line, dots)")
    chart.line(_at(periods), periods.predicted, "predicted")
    _dots(chart, periods, level, periods.observed, low, high)
    return _figure(result, "predicted and happened", periods, level, chart, {})


def period_gaps(result: Entry, level: float = 0.05) -> Figure:
    """Draw the gap of every period with its interval, over the band that noise alone keeps to, and name the changes."""
    periods, drawn = _periods(result)
    # The band is that of what happens if the predictions are right; in terms of the gap it is turned over.
    low, high = periods.predicted - periods.band_high, periods.predicted - periods.band_low
    chart = _in_time(periods, nice(periods.gap, periods.gap_low, periods.gap_high, low, high, zero=True))
    chart.left("Predicted minus happened", marks.signed)
    chart.band(_at(periods), low, high)
    chart.level(0.0)
    _dots(chart, periods, level, periods.gap, periods.gap_low, periods.gap_high)
    _signs(chart, periods, [str(result.table["verdict"][i]) for i in drawn], floats(result.table["change"])[drawn])
    table = {name: values for name, values in result.table.items() if name != "method"}
    return _figure(result, "predicted minus happened", periods, level, chart, table)


def _at(periods: Cells) -> np.ndarray:
    """Where each period stands: in the middle of its own room."""
    return np.arange(len(periods)) + 0.5


def _dots(chart: Chart, periods: Cells, level: float, values: Floats, low: Floats, high: Floats) -> None:
    """A line through the values and a dot with its interval a period; of many, dots of those beyond noise alone."""
    chart.line(_at(periods), values, "smooth")
    many = len(periods) > MANY
    chosen = np.flatnonzero(periods.beyond(level) | (not many))
    x = _at(periods)[chosen]
    ends = (x, low[chosen]), (x, high[chosen])
    chart.dots(periods.take(chosen), level, (x, values[chosen]), ends, radius=2.6 if many else 4.0)


def _signs(chart: Chart, periods: Cells, verdicts: list[str], changes: Floats) -> None:
    """The word of every step that changed above its dot, the largest changes first; none over another."""
    tops = chart.y(np.fmax(periods.gap, periods.gap_high))
    named: list[float] = []
    for i in np.argsort(-np.nan_to_num(np.abs(changes)), kind="stable"):
        x = chart.x.at(i + 0.5)
        if verdicts[i] in _SIGNS and all(abs(x - other) >= 44.0 for other in named):  # pixels
            named.append(x)
            chart.say(x, tops[i] - 7, _SIGNS[verdicts[i]], "callout", "middle")


def _periods(result: Entry) -> tuple[Cells, NDArray[np.intp]]:
    """The periods that are drawn, named as people write them, and which they are: rows without a date are left out.

    Where there are very many, those of few rows would hide the others behind their noise, and so would all intervals.
    """
    chosen = np.flatnonzero([verdict != "no date" for verdict in result.table["verdict"]])
    rows = np.nan_to_num(result.cells.rows[chosen])
    chosen = chosen[rows >= FEW * rows.max()] if len(chosen) > MANY else chosen
    periods = result.cells.take(chosen)
    periods = replace(periods, label=[words.period_words(label) for label in periods.label])
    if len(periods) > MANY:
        unknown = np.full(len(periods), np.nan)
        periods = replace(periods, gap_low=unknown, gap_high=unknown)
    return periods, chosen


def _in_time(periods: Cells, ends: tuple[float, float]) -> Chart:
    """A chart of periods; under it as many of their names as fit, and each year with the first of its own."""
    chart = Chart(Scale(0.0, max(len(periods), 1), _LEFT, 470.0), Scale(*ends, 232.0, 26.0))
    chart.marks.append(marks.segment(_LEFT, 232.0, 470.0, 232.0, "axis"))
    parts = [label.rsplit(" ", 1) for label in periods.label]  # "1 July" and the year, or a label of one word
    short = [" ".join(word[:3] for word in head.split()) if year else head[:10] for head, *year in parts]
    years = {year: i + 0.5 for i, (_, *rest) in reversed(list(enumerate(parts))) for year in rest}
    chart.names(_at(periods), short, 251.0)
    chart.names(sorted(years.values()), sorted(years, key=lambda year: years[year]), 269.0)
    return chart


def _figure(
    result: Entry, what: str, periods: Cells, level: float, chart: Chart, table: dict[str, list[object]]
) -> Figure:
    title, size = f"{ellipsis(result.extra.get('column', ''), 80)}: {what}, by {result.every}", (480.0, 274.0)
    left = sum(verdict != "no date" for verdict in result.table["verdict"]) - len(periods)
    note = f"{words.plural(left, result.every)} of few rows {'is' if left == 1 else 'are'} in the table, not drawn."
    return Figure("periods", title, periods.said(result.every, level), size, chart.marks, table, note if left else "")
