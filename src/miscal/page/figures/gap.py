"""The small figures: a finding's predicted and happened on one line, and a bar against its noise floor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from miscal.page import words
from miscal.page.figures import axes, marks
from miscal.page.figures.marks import Figure
from miscal.page.figures.scales import Scale, nice
from miscal.page.figures.score import tip, way
from miscal.page.markup import Safe, ellipsis, tag
from miscal.page.reading import cells, items
from miscal.page.words import finite


def gap_card(finding: Mapping[str, Any], domain: tuple[float, float] | None = None) -> Figure:
    """Draw predicted (ring) and happened (dot) on one axis, the gap between them as a bar, its interval as a whisker.

    `finding` has predicted, observed, gap and interval (of the gap). The whisker lies around what happened: predicted
    minus the gap's bounds. `domain` makes several cards share an axis.
    """
    predicted, observed = finite(finding.get("predicted")), finite(finding.get("observed"))
    low, high = [finite(end) for end in [*items(finding.get("interval")), None, None][:2]]
    title = f"{ellipsis(finding.get('where', ''), 100)}: predicted and happened"
    if math.isnan(predicted) or math.isnan(observed):
        return Figure("gap", title, "There is nothing to draw.", Safe(""))
    whisker = (max(predicted - high, 0.0), min(predicted - low, 1.0))
    x = Scale(*(domain or card_domain([finding])), 10.0, 310.0)
    within = finding.get("real") is False or low <= 0 <= high
    class_ = "noise" if within else "over" if predicted > observed else "under"
    a, b, y = x.at(predicted), x.at(observed), 32.0
    drawn = [
        *[marks.segment(x.at(t), 20, x.at(t), 44, "grid") for t in x.ticks(70.0)],
        marks.bar(min(a, b), y - 3.5, abs(a - b), 7, f"between {class_}"),
        *(
            [marks.segment(x.at(whisker[0]), y, x.at(whisker[1]), y, f"whisker {class_}")]
            if whisker[0] == whisker[0]
            else []
        ),
        marks.point(a, y, "ring", f"{words.percent(predicted)} predicted", 5.5),
        marks.point(b, y, class_, f"{words.percent(observed)} happened", 5.5),
        *_names(a, b),
        axes.bottom(x, 44.0, "", axes.rates, 70.0),
    ]
    rates = f"{words.percent(predicted)} predicted, {words.percent(observed)} happened"
    description = f"{rates}, gap {words.points(predicted - observed)}."
    svg = marks.drawing("gap", title, description, 320, 66, *drawn)
    table: dict[str, list[object]] = {
        key: [finding.get(key)]
        for key in ("where", "rows", "weight", "predicted", "observed", "gap", "events_off", "p_value")
    }
    table |= {"gap_low": [_or_none(low)], "gap_high": [_or_none(high)]}
    return Figure("gap", title, description, svg, table)


def gap_by_score(result: Mapping[str, Any], level: float = 0.05) -> Figure:
    """Draw the gap of each bin of the score as a bar: up is predicted too high, down too low."""
    bins = cells(result)
    title = "Predicted minus happened, from the lowest scores to the highest"
    if not len(bins) or not np.isfinite(bins.gap).any():
        return Figure("gap", title, "There is nothing to draw.", Safe(""))
    gaps = np.nan_to_num(bins.gap)
    y = Scale(*nice(min(float(gaps.min()), 0.0), max(float(gaps.max()), 0.0)), 84.0, 18.0)
    edges = np.linspace(44.0, 310.0, len(bins) + 1)
    beyond = bins.beyond(level)
    drawn = [axes.left(y, 44.0, 310.0, spacing=30.0)]
    for i, gap in enumerate(gaps.tolist()):
        ends = sorted((y.at(0.0), y.at(gap)))
        class_ = f"column {way(gap, bool(beyond[i]))}"
        drawn.append(
            marks.bar(edges[i] + 1, ends[0], edges[i + 1] - edges[i] - 2, max(ends[1] - ends[0], 0.6), class_,
                      tip(bins, i, "score "))
        )  # fmt: skip
    drawn += [
        marks.segment(44.0, y.at(0.0), 310.0, y.at(0.0), "zero"),
        marks.text(44, 10, "Predicted minus happened, by score", "tick"),
        marks.text(44, 100, "lowest scores", "tick"),
        marks.text(310, 100, "highest", "tick", "end"),
    ]
    description = f"{len(bins)} bins of the score, {int(beyond.sum())} of them beyond noise."
    return Figure("gap", title, description, marks.drawing("gap", title, description, 320, 106, *drawn))


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


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


def card_domain(findings: list[Mapping[str, Any]]) -> tuple[float, float]:
    """A range of rates that holds every finding's predicted, happened and interval."""
    ends: list[float] = []
    for finding in findings:
        predicted = finite(finding.get("predicted"))
        bounds = [predicted - finite(end) for end in items(finding.get("interval"))[:2]]
        ends += [
            min(max(v, 0.0), 1.0) for v in (predicted, finite(finding.get("observed")), *bounds) if not math.isnan(v)
        ]
    if not ends:
        return 0.0, 1.0
    low, high = nice(min(ends), max(ends))
    return max(low, 0.0), min(high, 1.0)


def strength_bar(value: float, floor: float, most: float) -> Safe:
    """A bar as long as the value, with a tick where noise alone would put it: for a table's cell."""
    if math.isnan(value) or not most > 0:
        return Safe("")
    scale = Scale(0.0, most, 0.0, 84.0)
    beyond = not math.isnan(floor) and value > floor
    drawn = [marks.bar(0, 3, max(scale.at(value), 1.0), 6, "between accent" if beyond else "between noise")]
    if not math.isnan(floor):
        drawn.append(marks.segment(scale.at(floor), 0, scale.at(floor), 12, "floor"))
    return tag("svg", drawn, viewBox="0 0 86 12", class_="strength", aria_hidden="true")
