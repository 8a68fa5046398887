"""Figures of gaps: the reliability diagram, a finding's two rates on one line, the gap along the score, and repairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from miscal.auditing.findings import Finding
from miscal.page import marks, words
from miscal.page.entries import Cells, Entry
from miscal.page.json import Floats
from miscal.page.marks import Figure, Kind, Scale, known, nice
from miscal.page.markup import Safe, ellipsis, tag
from miscal.page.records import Mended

_PAIRS_WIDTH, _NAMES, _LEFT, _RIGHT, _TOP, _ROW = 720.0, 268.0, 280.0, 640.0, 36.0, 23.0
_SQUARE_LEFT, _SQUARE_RIGHT = 54.0, 466.0


def way(gap: float, beyond: bool) -> str:
    """The class that colours a mark: over-predicted, under-predicted, or within noise."""
    return "noise" if not beyond or not np.isfinite(gap) else "over" if gap > 0 else "under"


def tip(bins: Cells, i: int, what: str = "Score ") -> str:
    """What a cell's tooltip says."""
    head = f"{ellipsis(what + bins.label[i], 90)}\n" if bins.label[i] else ""
    lines = f"{words.percent(bins.predicted[i])} predicted, {words.percent(bins.observed[i])} happened"
    size = bins.rows[i] if np.isfinite(bins.rows[i]) else bins.weight[i]
    gap = f"\ngap {words.points(bins.gap[i])}" if np.isfinite(bins.gap[i]) else ""
    return f"{head}{lines}\n{words.count(size)} rows{gap}"


def _domain(bins: Cells, logit: bool) -> tuple[float, float]:
    """The range both axes share: everything drawn, and round ends on the linear scale."""
    drawn = known(bins.predicted, bins.observed, bins.band_low, bins.band_high)
    if not len(drawn):
        return 0.0, 1.0
    inside = known(bins.predicted, bins.observed)
    inside = inside[(inside > 0) & (inside < 1)]
    if logit and len(inside):
        ends = np.array([inside.min(), inside.max()])
        odds = ends / (1 - ends) * [1 / 1.8, 1.8]
        return float(odds[0] / (1 + odds[0])), float(odds[1] / (1 + odds[1]))
    low, high = float(drawn.min()), float(drawn.max())
    if words.means():
        return nice(min(low, 0.0) if low < high / 2 else low, high)
    if high - low > 0.55:
        return 0.0, 1.0
    return max(nice(min(low, 0.0) if low < high / 2 else low, high)[0], 0.0), min(nice(low, high)[1], 1.0)


def reliability(score: Entry, level: float = 0.05) -> Figure:
    """Draw how often it happened against how often it was predicted, by bin of the score.

    The band is that of a calibrated model. The histogram beneath is that of the audit, or of the bins where those are
    finer. Axes are logit where the result says so, because its scores crowd near 0 or 1.
    """
    bins = score.cells
    kind: Kind = "logit" if score.extra.get("axis") == "logit" else "linear"
    low, high = _domain(bins, kind == "logit")
    x, y = Scale(low, high, _SQUARE_LEFT, _SQUARE_RIGHT, kind), Scale(low, high, 318.0, 24.0, kind)
    beyond = bins.beyond(level)
    across, up = x(bins.predicted), y(bins.observed)
    drawn = [
        marks.left(y, _SQUARE_LEFT, _SQUARE_RIGHT),
        marks.text(_SQUARE_LEFT, 12, "Happened", "label"),
        marks.band(across, y(bins.band_low), y(bins.band_high)),
        marks.segment(x.at(low), y.at(low), x.at(high), y.at(high), "diagonal"),
        marks.text(_SQUARE_LEFT + 12, 46, "▲ happened more than predicted", "hint under"),
        marks.text(_SQUARE_RIGHT - 8, 304, "happened less than predicted ▼", "hint over", "end"),
        marks.line(across, up, "thin"),
        *(marks.point(across[i], up[i], way(bins.gap[i], beyond[i]), tip(bins, i), 4.5) for i in range(len(bins))),
        *_histogram(score, x, 330.0, 382.0),
        marks.bottom(x, 382.0, "Predicted" + (" (log-odds scale)" if kind == "logit" else "")),
    ]
    description = (
        f"{len(bins)} bins of the score on {kind} axes; {int(beyond.sum())} of them lie beyond noise. "
        "On the diagonal as much happened as was predicted."
    )
    title = "Happened against predicted, by score"
    return Figure("reliability", title, description, (480.0, 424.0), drawn, bins.table())


def _histogram(score: Entry, x: Scale, top: float, bottom: float) -> list[Safe]:
    """Bars whose area is the share of rows, on whatever scale the axis has."""
    bins, (edges, rows) = score.cells, score.histogram
    coarse = np.nanmax(x(bins.high) - x(bins.low), initial=0.0)
    # Equal-width edges may be coarser than the bins themselves where a logit axis stretches them.
    if len(rows) and (coarse == 0 or np.diff(x(edges)).max() <= coarse):
        return _bars(edges[:-1], edges[1:], rows, x, top, bottom)
    return _bars(bins.low, bins.high, bins.size, x, top, bottom)


def _bars(low: Floats, high: Floats, rows: Floats, x: Scale, top: float, bottom: float) -> list[Safe]:
    """One bar a bin, as wide as the bin and of area proportional to its rows."""
    start, width, total = x(low), x(high) - x(low), float(np.nansum(rows))
    shown = np.isfinite(width) & (width > 0.25) & np.isfinite(rows)
    if not shown.any() or not total > 0:
        return []
    density = np.where(shown, rows / np.where(shown, width, 1.0), 0.0)
    height = density / density.max() * (bottom - top) if density.max() > 0 else density
    made = []
    for i in np.flatnonzero(shown):
        share = f"{words.count(rows[i])} rows, {words.share(rows[i] / total)}"
        said = f"Score {low[i]:.3g} to {high[i]:.3g}\n{share}"
        made.append(marks.bar(start[i], bottom - height[i], max(width[i] - 0.6, 0.4), height[i], "share", said))
    return made


def gap_card(finding: Finding, domain: tuple[float, float] | None = None) -> Figure:
    """Draw predicted (ring) and happened (dot) on one axis, the gap between them as a bar, its interval as a whisker.

    The whisker lies around what happened: predicted minus the gap's bounds. `domain` makes several cards share an axis.
    """
    predicted, observed, (low, high) = finding.predicted, finding.observed, finding.interval
    title = f"{ellipsis(finding.where, 100)}: predicted and happened"
    if math.isnan(predicted) or math.isnan(observed):
        return Figure("gap", title, "There is nothing to draw.", (320, 66))
    x = Scale(*(domain or card_domain([finding])), 10.0, 310.0)
    class_ = way(predicted - observed, finding.real and not low <= 0 <= high)
    a, b, y = x.at(predicted), x.at(observed), 32.0
    drawn = [
        *marks.upright(x, 20, 44, 70.0),
        marks.bar(min(a, b), y - 3.5, abs(a - b), 7, f"between {class_}"),
        marks.segment(x.at(predicted - high), y, x.at(predicted - low), y, f"whisker {class_}"),
        marks.point(a, y, "ring", f"{words.percent(predicted)} predicted", 5.5),
        marks.point(b, y, class_, f"{words.percent(observed)} happened", 5.5),
        *_names(a, b),
        marks.bottom(x, 44.0, "", marks.rates, 70.0),
    ]
    rates = f"{words.percent(predicted)} predicted, {words.percent(observed)} happened"
    description = f"{rates}, gap {words.points(predicted - observed)}."
    return Figure("gap", title, description, (320, 66), drawn)


def range_card(finding: Finding) -> Figure:
    """Draw predicted (ring) and happened (dot) of the two ranges of scores that disagree, the upper first."""
    ranges = sorted(finding.score_ranges, key=lambda one: -one.low)
    rates = [rate for one in ranges for rate in (one.predicted, one.observed)]
    x = Scale(*nice(min(rates), max(rates)), 10.0, 310.0)
    bottom = 22.0 + 34.0 * len(ranges)
    drawn = [*marks.upright(x, 20, bottom, 70.0)]
    for line, one in enumerate(ranges):
        a, b, y = x.at(one.predicted), x.at(one.observed), 38.0 + 34.0 * line
        class_ = "over" if one.events_off >= 0 else "under"
        said = f"{words.percent(one.predicted)} predicted, {words.percent(one.observed)} happened"
        drawn += [
            marks.text(10, y - 12, f"{one.words}: {said}", "hint"),
            marks.bar(min(a, b), y - 3.5, abs(a - b), 7, f"between {class_}"),
            marks.point(a, y, "ring", f"{words.percent(one.predicted)} predicted", 5.5),
            marks.point(b, y, class_, f"{words.percent(one.observed)} happened", 5.5),
        ]
    drawn.append(marks.bottom(x, bottom, "", marks.rates, 70.0))
    title = f"{ellipsis(finding.where, 100)}: two ranges of its scores, predicted and happened"
    return Figure("gap", title, f"{finding.shape}.", (320, bottom + 22), drawn)


def _names(predicted: float, observed: float) -> list[Safe]:
    """The words over the two marks, pushed outward so that they never touch one another."""
    first, second = ("predicted", "happened") if predicted <= observed else ("happened", "predicted")
    left, right = min(predicted, observed), max(predicted, observed)
    if right - left < 64:
        centre = (left + right) / 2
        left, right = centre - 32, centre + 32
    shift = max(0.0, 34 - left) - max(0.0, right - 286)
    left, right = (left + shift, right + shift) if right - left < 220 else (max(left, 34), min(right, 286))
    return [marks.text(left, 15, first, "tick", "middle"), marks.text(right, 15, second, "tick", "middle")]


def card_domain(findings: Iterable[Finding]) -> tuple[float, float]:
    """A range of rates that holds every finding's predicted, happened and interval."""
    least, most = (-math.inf, math.inf) if words.means() else (0.0, 1.0)
    ends = [
        min(max(rate, least), most)
        for finding in findings
        for rate in (finding.predicted, finding.observed, *(finding.predicted - end for end in finding.interval))
        if not math.isnan(rate)
    ]
    if not ends:
        return 0.0, 1.0
    low, high = nice(min(ends), max(ends))
    return max(low, least), min(high, most)


def gap_by_score(score: Entry, level: float = 0.05) -> Figure:
    """Draw the gap of each bin of the score as a bar: up is predicted too high, down too low."""
    bins = score.cells
    title, size = "Predicted minus happened, from the lowest scores to the highest", (320, 106)
    if not np.isfinite(bins.gap).any():
        return Figure("gap", title, "There is nothing to draw.", size)
    gaps = np.nan_to_num(bins.gap)
    y = Scale(*nice(min(float(gaps.min()), 0.0), max(float(gaps.max()), 0.0)), 84.0, 18.0)
    edges = np.linspace(44.0, 310.0, len(bins) + 1)
    beyond = bins.beyond(level)
    drawn = [marks.left(y, 44.0, 310.0, spacing=30.0)]
    for i, gap in enumerate(gaps.tolist()):
        top, bottom = sorted((y.at(0.0), y.at(gap)))
        box = edges[i] + 1, top, edges[i + 1] - edges[i] - 2, max(bottom - top, 0.6)
        drawn.append(marks.bar(*box, f"column {way(gap, beyond[i])}", tip(bins, i, "score ")))
    drawn += [
        marks.segment(44.0, y.at(0.0), 310.0, y.at(0.0), "zero"),
        marks.text(44, 10, "Predicted minus happened, by score", "tick"),
        marks.text(44, 100, "lowest scores", "tick"),
        marks.text(310, 100, "highest", "tick", "end"),
    ]
    description = f"{len(bins)} bins of the score, {int(beyond.sum())} of them beyond noise."
    return Figure("gap", title, description, size, drawn)


def strength_bar(value: float, floor: float, most: float) -> Safe:
    """A bar as long as the value, with a tick where noise alone would put it: for a table's cell."""
    if math.isnan(value) or not most > 0:
        return Safe("")
    scale = Scale(0.0, most, 0.0, 84.0)
    drawn = [
        marks.bar(0, 3, max(scale.at(value), 1.0), 6, "between accent" if value > floor else "between noise"),
        marks.segment(scale.at(floor), 0, scale.at(floor), 12, "floor"),
    ]
    return tag("svg", drawn, viewBox="0 0 86 12", class_="strength", aria_hidden="true")


def left_first(places: Iterable[Mended]) -> list[Mended]:
    """What a repair leaves or makes before what it mends, so that a short list does not hide it."""
    order = {verdict: i for i, verdict in enumerate(words.LEFT_FIRST)}
    return sorted(places, key=lambda place: order.get(place.verdict, 0))


def gap_pairs(places: Sequence[Mended], most: int = 15) -> Figure:
    """Draw each place's gap before (ring) and after (dot, with its simultaneous interval) on one axis through zero."""
    shown = [place for place in places if not math.isnan(place.before.gap) or not math.isnan(place.after.gap)]
    shown = left_first(shown)[:most]
    bottom = _TOP + _ROW * len(shown)
    title, size = "Predicted minus happened, before and after the repair", (_PAIRS_WIDTH, bottom + 26)
    if not shown:
        return Figure("repair", title, "No place was wrong beyond noise.", size)
    gaps = [gap for place in shown for gap in (place.before.gap, place.after.gap) if not math.isnan(gap)]
    limit = 1.5 * max(*map(abs, gaps), 1e-6)  # zero and every gap, and intervals up to half as far again
    every = [0.0, *gaps, *(end for place in shown for end in place.after.interval if abs(end) <= limit)]
    x = Scale(*nice(min(every), max(every)), _LEFT, _RIGHT)
    drawn = [
        *marks.upright(x, _TOP, bottom, 64.0),
        marks.segment(x.at(0.0), _TOP - 6, x.at(0.0), bottom, "zero"),
        marks.point(_LEFT + 6, 12, "ring", radius=4.5),
        marks.text(_LEFT + 16, 16, "before", "tick"),
        marks.point(_LEFT + 76, 12, "noise", radius=4.5),
        marks.text(_LEFT + 86, 16, "after (grey: within noise), with its interval", "tick"),
    ]
    for row, place in enumerate(shown):
        drawn += _pair(place, _TOP + _ROW * (row + 0.5), x)
    drawn.append(marks.bottom(x, bottom, "", marks.signed, 64.0))
    verdicts = [place.verdict for place in places]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in ("gone", "smaller", "new"))
    note = f"{len(shown)} of {len(places):,} places." if len(shown) < len(places) else ""
    table: dict[str, list[object]] = {
        key: [getattr(place, key) for place in places] for key in ("where", "kind", "verdict")
    }
    for when in ("before", "after"):
        table |= {f"{key}_{when}": [getattr(getattr(p, when), key) for p in places] for key in ("gap", "p_value")}
    return Figure("repair", title, f"{counts}, of {len(places)} places.", size, drawn, table, note)


def _pair(place: Mended, y: float, x: Scale) -> list[Safe]:
    before, after, (low, high) = place.before.gap, place.after.gap, place.after.interval
    class_ = "noise" if low <= 0.0 <= high else "over" if after > 0 else "under"
    return [
        marks.text(_NAMES, y + 4, place.where, "tick", "end", limit=36),
        marks.segment(x.at(before), y, x.at(after), y, "tie"),
        marks.segment(x.at(low), y, x.at(high), y, f"whisker {class_}"),
        marks.point(x.at(before), y, "ring", f"before: {words.points(before)}", 4.5),
        marks.point(x.at(after), y, class_, f"after: {words.points(after)}", 4.5),
        marks.text(_RIGHT + 12, y + 4, place.verdict, "tick"),
    ]
