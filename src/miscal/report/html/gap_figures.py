"""Figures of gaps: reliability diagram, the two rates of a finding on one line, gaps before and after recalibration."""

import math
from collections.abc import Sequence

import numpy as np

from miscal.report import wording
from miscal.report.findings import Finding, ScoreRange
from miscal.report.html import marks
from miscal.report.html.marks import Chart, Figure, Scale, both, nice, way
from miscal.report.html.markup import ellipsis
from miscal.report.model import SegmentRepair
from miscal.report.result_tables import ResultView
from miscal.report.values import Floats

# Rates that ticks stand at.
ROUND = [0.5, *(times * 10.0**-power for times in (1, 5, 2) for power in range(1, 10))]


def _log_odds(rates: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(rates) - np.log1p(-rates)


def _of_log_odds(tick: float) -> str:
    return marks.rates(1 / (1 + math.exp(-tick)))


def reliability(score: ResultView) -> Figure:
    """Draw the observed rate against the predicted rate, by bin of the score: a reliability diagram.

    Both axes are log-odds where the result says so. The band is that of a calibrated model. The area of the bars
    beneath is proportional to the rows of each bin.
    """
    bins, title = score.cells, "Reliability diagram: observed against predicted"
    drawn = [bins.predicted, bins.observed, bins.band_low, bins.band_high, bins.low, bins.high]
    kind, write, label, ticks = "linear", marks.rates, "Predicted", []
    if score.extra.get("axis") == "logit":
        kind, write, label = "logit", _of_log_odds, "Predicted (log-odds scale)"
        drawn = [_log_odds(rates) for rates in drawn]
        ticks = [tick * side for tick in _log_odds(np.array(ROUND)).tolist() for side in (1, -1)]
    predicted, observed, band_low, band_high, low, high = drawn
    ends = nice(*drawn[:4])
    chart = Chart(Scale(*ends, 54.0, 466.0, ticks), Scale(*ends, 318.0, 24.0, ticks))
    chart.left("Observed", write)
    chart.band(predicted, band_low, band_high)
    chart.span(ends, ends, "diagonal")
    chart.say(66, 46, "▲ more observed than predicted", "hint under")
    chart.say(458, 304, "fewer observed than predicted ▼", "hint over", "end")
    chart.line(predicted, observed, "thin")
    chart.dots(bins, (predicted, observed), what="Score ")
    wide = chart.x(high) - chart.x(low)
    density = np.where(wide > 0.25, bins.size / np.maximum(wide, 0.25), 0.0)
    chart.bars(low, high, density, 382.0, 52.0)
    chart.bottom(label, write, y=382.0)
    description = (
        f"{bins.summary('bin')} On the diagonal ({kind} axes) the observed rate equals the predicted rate."
    )
    return Figure("reliability", title, description, (480.0, 424.0), chart.marks, bins.table())


def gap_card(finding: Finding) -> Figure:
    """Draw the two rates of a finding, or those of its two ranges of scores that disagree, the upper range first.

    The interval is drawn around the observed rate: predicted minus the bounds of the gap.
    """
    two = "two ranges of scores, " if finding.score_ranges else ""
    title = f"{ellipsis(finding.where, 100)}: {two}predicted and observed"
    predicted, observed, (low, high) = finding.predicted, finding.observed, finding.interval
    if math.isnan(predicted + observed):
        return Figure("gap", title, "There is nothing to draw.", (320.0, 66.0))
    ranges = sorted(finding.score_ranges, key=lambda score_range: -score_range.low)
    lines: Sequence[Finding | ScoreRange] = ranges or [finding]
    around = (math.nan, math.nan) if ranges else (predicted - high, predicted - low)
    significant = bool(ranges) or (finding.real and not low <= 0 <= high)
    bottom = 22.0 + 34.0 * len(lines)
    shown = around if wording.means() else np.clip(around, 0.0, 1.0)
    ends = nice([(line.predicted, line.observed) for line in lines], shown)
    chart = Chart(Scale(*ends, 10.0, 310.0), Scale(0.0, len(lines), 22.0, bottom))
    chart.rows((), marks.rates)
    for row, line in enumerate(lines):
        ring, dot = line.predicted, line.observed
        label = "○ predicted\u2003● observed"
        if isinstance(line, ScoreRange):
            label = f"{line.words}: {both(ring, dot)}"
        chart.say(14.0, 24.0 + 34.0 * row, label, "hint")
        tips = f"{wording.percent(ring)} predicted", f"{wording.percent(dot)} observed"
        chart.pair(row, ring, dot, around, way(ring - dot, significant), tips)
    description = finding.shape or f"{both(predicted, observed)}, gap {wording.points(predicted - observed)}"
    return Figure("gap", title, f"{description}.", (320.0, bottom + 22), chart.marks)


def gap_pairs(segments: Sequence[SegmentRepair]) -> Figure:
    """Draw the gap of each segment before (ring) and after (dot, with its simultaneous interval) on one axis."""
    known = (s for s in segments if not np.isnan(np.fmax(s.before.gap, s.after.gap)))
    # Unresolved and new segments first, so that a short list does not hide them.
    shown = sorted(known, key=lambda s: (*wording.LEFT_FIRST, s.verdict).index(s.verdict))[:15]
    bottom = 36.0 + 34.0 * len(shown)
    ends = nice([(segment.before.gap, segment.after.gap) for segment in shown], 0.0)
    chart = Chart(Scale(*ends, 16.0, 464.0), Scale(0.0, len(shown), 36.0, bottom))
    chart.rows((), marks.signed_points)
    chart.say(16, 16, "○ before\u2003● after, with 95% CI (grey: not significant)")
    for row, segment in enumerate(shown):
        before, after, (low, high) = segment.before.gap, segment.after.gap, segment.after.interval
        tips = f"before: {wording.points(before)}", f"after: {wording.points(after)}"
        chart.pair(row, before, after, (low, high), way(after, not low <= 0.0 <= high), tips)
        resolution = wording.RESOLUTION.get(segment.verdict, segment.verdict)
        chart.say(16, chart.y(row) + 9, f"{ellipsis(segment.where, 46)}: {resolution}")
    note = f"{len(shown)} of {len(segments):,} segments." if len(shown) < len(segments) else ""
    title = "Predicted minus observed, before and after recalibration"
    description = wording.became([segment.verdict for segment in segments])
    return Figure("repair", title, description, (480.0, bottom + 26), chart.marks, note=note)
