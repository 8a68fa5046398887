"""Figures along the rows and along time: running totals, in which Kuiper's range can be seen, maps, and periods."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from miscal.page import marks, words
from miscal.page.entries import REACH, Cells, Entry, Grid, Walk
from miscal.page.json import Floats, floats
from miscal.page.marks import Chart, Figure, Scale, nice
from miscal.page.markup import ellipsis

_LEFT, _FLOOR = 54.0, 364.0
_SIZE = (480.0, 406.0)
_STEPS = (2.0, 3.0, 4.0)  # standard errors from which a cell is shaded more
_APART = 44.0  # pixels between the words of two changes
MANY = 60  # periods from which on a line is drawn, and dots beyond noise alone
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
    ends = nice(walk.low, walk.high, walk.total, zero=True)
    if reach is not None and walk.deviation > 0:
        scaled = {key: getattr(walk, key) / walk.deviation for key in ("total", "low", "high", "size")}
        ticks, write, unit, walk = marks.numbers, words.number, _DEVIATIONS, replace(walk, **scaled)
        ends = nice(reach)
    chart = Chart(Scale(0.0, 1.0, _LEFT, 404.0), Scale(*ends, _FLOOR, 24.0))
    chart.left(f"Predicted minus happened, so far ({unit[0]})", ticks)
    chart.band(walk.share, walk.low, walk.high)
    chart.level(0.0)
    chart.line(walk.share, walk.total, "walk")
    _bracket(chart, walk, write(walk.size))
    _stops(chart, walk, write, unit[2])
    chart.bottom("Rows ordered from the lowest score to the highest", marks.shares)
    description = (
        f"The running total moves between {write(walk.bottom)} and {write(walk.top)} of {unit[1]} and "
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
        said = f"Lowest {words.share(share)} of scores{upto}\n{write(abs(total))}{of} {more}"
        chart.point(share, total, "ghost", said, 3.5)


def neighbourhood(grid: Grid, columns: Sequence[str]) -> Figure:
    """Draw a plane of two columns, each cell shaded by the gap of the rows around it, in standard errors."""
    one, two = [*columns, "x", "y"][:2]
    chart = Chart(Scale(grid.x[0], grid.x[-1], _LEFT, 466.0), Scale(grid.y[0], grid.y[-1], _FLOOR, 24.0))
    chart.left(ellipsis(two, 40), marks.numbers)
    row, column = np.nonzero(grid.rows > 0)
    for i, j in zip(row.tolist(), column.tolist(), strict=True):
        _heat(chart, grid, i, j, (one, two))
    chart.bottom(one[:40], marks.numbers)
    table = {f"{one} from": grid.x[column].tolist(), f"{two} from": grid.y[row].tolist()}
    planes = {"rows": grid.rows, "gap": grid.gap, "standard errors": grid.deviations}
    table |= {key: plane[row, column].tolist() for key, plane in planes.items()}
    description = f"The gap around each place of {one} (across) and {two} (up)."
    return Figure("neighbourhood", "Map of the gap", description, _SIZE, chart.marks, table)


def _heat(chart: Chart, grid: Grid, i: int, j: int, names: tuple[str, str]) -> None:
    """One cell of the map."""
    x, y, deviations = grid.x[j : j + 2], grid.y[i : i + 2], grid.deviations[i, j]
    place = ", ".join(f"{name} {a:.3g} to {b:.3g}" for name, (a, b) in zip(names, (x, y), strict=True))
    said = f"{place}\n{words.points(grid.gap[i, j])}, {words.count(grid.rows[i, j])} rows"
    step = sum(abs(deviations) >= limit for limit in _STEPS)
    shade = f"{'over' if deviations > 0 else 'under'}-{step}" if step else "within"
    shade = f"heat {shade if np.isfinite(deviations) else 'none'}"
    (left, right), (low, high) = chart.x(x), chart.y(y)
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
    _signs(chart, periods, [result.table["verdict"][i] for i in drawn], floats(result.table["change"])[drawn])
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
        if verdicts[i] in _SIGNS and all(abs(x - other) >= _APART for other in named):
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
    if not len(periods):
        return Figure("periods", title, "No period has rows.", size)
    description = f"{words.plural(len(periods), result.every)}, {int(periods.beyond(level).sum())} beyond noise."
    left = sum(verdict != "no date" for verdict in result.table["verdict"]) - len(periods)
    note = f"{words.plural(left, result.every)} of few rows {'is' if left == 1 else 'are'} in the table, not drawn."
    return Figure("periods", title, description, size, chart.marks, table, note if left else "")
