"""Figures of gaps: the reliability diagram, a finding's two rates on one line, the gap along the score, and repairs."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from miscal.auditing.findings import Finding
from miscal.page import marks, words
from miscal.page.entries import Entry
from miscal.page.marks import Chart, Figure, Kind, Scale, both, nice, way
from miscal.page.markup import Safe, ellipsis, tag
from miscal.page.records import Mended


def _square(score: Entry) -> Chart:
    """Two equal axes that hold everything drawn; of log-odds where the result says so."""
    bins = score.cells
    inside = np.concatenate([bins.predicted, bins.observed])
    inside = inside[(inside > 0) & (inside < 1)]
    kind: Kind = "linear"
    low, high = nice(bins.predicted, bins.observed, bins.band_low, bins.band_high)
    if score.extra.get("axis") == "logit" and len(inside):
        odds = inside / (1 - inside)
        kind, low, high = "logit", 1 / (1 + 1.8 / odds.min()), 1 / (1 + 1 / (1.8 * odds.max()))
    return Chart(Scale(low, high, 54.0, 466.0, kind), Scale(low, high, 318.0, 24.0, kind))


def reliability(score: Entry, level: float = 0.05) -> Figure:
    """Draw how often it happened against how often it was predicted, by bin of the score.

    The band is that of a calibrated model. The histogram beneath is that of the audit, or of the bins where there is
    none and on a scale of log-odds, which would stretch it. Its bars have the area of their rows.
    """
    bins, chart = score.cells, _square(score)
    chart.left("Happened")
    chart.band(bins.predicted, bins.band_low, bins.band_high)
    chart.span((chart.x.low, chart.y.low), (chart.x.high, chart.y.high), "diagonal")
    chart.say(66, 46, "▲ happened more than predicted", "hint under")
    chart.say(458, 304, "happened less than predicted ▼", "hint over", "end")
    chart.line(bins.predicted, bins.observed, "thin")
    chart.dots(bins, level, (bins.predicted, bins.observed), what="Score ", radius=4.5)
    edges, rows = score.histogram
    low, high = edges[:-1], edges[1:]
    if chart.x.kind == "logit" or not len(rows):
        low, high, rows = bins.low, bins.high, bins.size
    wide = chart.x(high) - chart.x(low)
    chart.bars(low, high, np.where(wide > 0.25, rows / np.maximum(wide, 0.25), 0.0), 382.0, 52.0)
    kind = chart.x.kind
    chart.bottom("Predicted" + (" (log-odds scale)" if kind == "logit" else ""), y=382.0)
    description = f"{bins.said('bin', level)} On the diagonal of the {kind} axes as much happened as was predicted."
    title = "Happened against predicted, by score"
    return Figure("reliability", title, description, (480.0, 424.0), chart.marks, bins.table())


def _rates(chart: Chart, row: float, predicted: float, observed: float, class_: str, ends: tuple[float, float]) -> None:
    """Predicted (ring) and happened (dot) on one line, the gap between them as a bar, and the interval of the gap.

    The interval lies around what happened: predicted minus the gap's bounds.
    """
    a, b, y = chart.x.at(predicted), chart.x.at(observed), chart.y.at(row)
    chart.marks.append(marks.bar(min(a, b), y - 3.5, abs(a - b), 7, f"between {class_}"))
    chart.span((predicted - ends[1], row), (predicted - ends[0], row), f"whisker {class_}")
    chart.point(predicted, row, "ring", f"{words.percent(predicted)} predicted", 5.5)
    chart.point(observed, row, class_, f"{words.percent(observed)} happened", 5.5)


def gap_card(finding: Finding, domain: tuple[float, float] | None = None) -> Figure:
    """Draw the two rates of a finding; `domain` makes several cards share an axis."""
    predicted, observed, (low, high) = finding.predicted, finding.observed, finding.interval
    title = f"{ellipsis(finding.where, 100)}: predicted and happened"
    if math.isnan(predicted) or math.isnan(observed):
        return Figure("gap", title, "There is nothing to draw.", (320, 66))
    chart = Chart(Scale(*(domain or card_domain([finding])), 10.0, 310.0), Scale(0.0, 1.0, 20.0, 44.0))
    chart.rows(marks.rates, 70.0)
    class_ = way(predicted - observed, finding.real and not low <= 0 <= high)
    _rates(chart, 0.5, predicted, observed, class_, finding.interval)
    # The words over the two marks are pushed outward, so that they never touch one another.
    (left, first), (right, second) = sorted([(chart.x.at(predicted), "predicted"), (chart.x.at(observed), "happened")])
    middle = min(max((left + right) / 2, 66.0), 254.0)
    chart.say(max(min(left, middle - 32), 34.0), 15, first, "tick", "middle")
    chart.say(min(max(right, middle + 32), 286.0), 15, second, "tick", "middle")
    description = f"{both(predicted, observed)}, gap {words.points(predicted - observed)}."
    return Figure("gap", title, description, (320, 66), chart.marks)


def range_card(finding: Finding) -> Figure:
    """Draw the two rates of each of the two ranges of scores that disagree, the upper first."""
    ranges = sorted(finding.score_ranges, key=lambda one: -one.low)
    bottom = 22.0 + 34.0 * len(ranges)
    x = Scale(*nice([(one.predicted, one.observed) for one in ranges], zero=False), 10.0, 310.0)
    chart = Chart(x, Scale(0.0, len(ranges), 22.0, bottom))
    chart.rows(marks.rates, 70.0)
    for row, one in enumerate(ranges):
        chart.say(10, 26 + 34 * row, f"{one.words}: {both(one.predicted, one.observed)}", "hint")
        class_ = "over" if one.events_off >= 0 else "under"
        _rates(chart, row + 0.5, one.predicted, one.observed, class_, (math.nan, math.nan))
    title = f"{ellipsis(finding.where, 100)}: two ranges of its scores, predicted and happened"
    return Figure("gap", title, f"{finding.shape}.", (320, bottom + 22), chart.marks)


def card_domain(findings: Iterable[Finding]) -> tuple[float, float]:
    """A range of rates that holds every finding's predicted, happened and interval."""
    every = [(one.predicted, one.observed, *(one.predicted - end for end in one.interval)) for one in findings]
    return nice(every if words.means() else np.clip(every, 0.0, 1.0), zero=False)


def gap_by_score(score: Entry, level: float = 0.05) -> Figure:
    """Draw the gap of each bin of the score from zero: up is predicted too high, down too low."""
    bins = score.cells
    title, size = "Predicted minus happened, from the lowest scores to the highest", (320, 106)
    chart = Chart(Scale(0.0, len(bins), 44.0, 310.0), Scale(*nice(bins.gap, zero=True), 84.0, 21.0))
    chart.left("Predicted minus happened, by score", spacing=30.0)
    chart.level(0.0)
    middle = np.arange(len(bins)) + 0.5
    stems = (middle, np.zeros(len(bins))), (middle, bins.gap)
    chart.dots(bins, level, (middle, bins.gap), stems, "score ", 3.8)
    chart.say(44, 100, "lowest scores")
    chart.say(310, 100, "highest", "tick", "end")
    return Figure("gap", title, bins.said("bin", level), size, chart.marks)


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
    return sorted(places, key=lambda place: (*words.LEFT_FIRST, place.verdict).index(place.verdict))


def gap_pairs(places: Sequence[Mended]) -> Figure:
    """Draw each place's gap before (ring) and after (dot, with its simultaneous interval) on one axis through zero."""
    shown = [place for place in places if not math.isnan(place.before.gap) or not math.isnan(place.after.gap)]
    shown = left_first(shown)[:15]
    bottom = 36.0 + 23.0 * len(shown)
    title, size = "Predicted minus happened, before and after the repair", (720.0, bottom + 26)
    gaps = np.array([(place.before.gap, place.after.gap) for place in shown])
    ends = np.array([place.after.interval for place in shown])
    limit = 1.5 * float(np.nanmax(np.abs(gaps), initial=1e-6))  # every gap, and intervals up to half as far again
    x = Scale(*nice(gaps, ends[np.abs(ends) <= limit], zero=True), 280.0, 640.0)
    chart = Chart(x, Scale(0.0, len(shown), 36.0, bottom))
    chart.rows(marks.signed, 64.0)
    chart.upright(0.0)
    chart.say(282, 16, "○ before\u2003● after (grey: within noise), with its interval")
    for row, place in enumerate(shown):
        _pair(chart, row + 0.5, place)
    verdicts = [place.verdict for place in places]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in ("gone", "smaller", "new"))
    note = f"{len(shown)} of {len(places):,} places." if len(shown) < len(places) else ""
    table: dict[str, list[object]] = {key: [getattr(p, key) for p in places] for key in ("where", "kind", "verdict")}
    for when in ("before", "after"):
        table |= {f"{key}_{when}": [getattr(getattr(p, when), key) for p in places] for key in ("gap", "p_value")}
    return Figure("repair", title, f"{counts}, of {len(places)} places.", size, chart.marks, table, note)


def _pair(chart: Chart, row: float, place: Mended) -> None:
    before, after, (low, high) = place.before.gap, place.after.gap, place.after.interval
    class_, y = way(after, not low <= 0.0 <= high), chart.y.at(row)
    chart.say(268, y + 4, ellipsis(place.where, 36), "tick", "end")
    chart.span((before, row), (after, row), "tie")
    chart.span((low, row), (high, row), f"whisker {class_}")
    chart.point(before, row, "ring", f"before: {words.points(before)}", 4.5)
    chart.point(after, row, class_, f"after: {words.points(after)}", 4.5)
    chart.say(652, y + 4, place.verdict)
