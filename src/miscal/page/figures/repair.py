"""Gaps before and after a repair, one row a place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from miscal.page import words
from miscal.page.figures import axes, marks
from miscal.page.figures.marks import Figure
from miscal.page.figures.scales import Scale, nice
from miscal.page.markup import Safe
from miscal.page.reading import items, mapping
from miscal.page.words import finite

_WIDTH, _NAMES, _LEFT, _RIGHT, _TOP, _ROW = 720.0, 268.0, 280.0, 640.0, 36.0, 23.0


def gap_pairs(places: Sequence[Mapping[str, Any]], most: int = 15) -> Figure:
    """Draw each place's gap before (ring) and after (dot, with its simultaneous interval) on one axis through zero."""
    shown = [place for place in places if not np.isnan(_gap(place, "before")) or not np.isnan(_gap(place, "after"))]
    shown = left_first(shown)[:most]
    title = "Predicted minus happened, before and after the repair"
    if not shown:
        return Figure("repair", title, "No place was wrong beyond noise.", Safe(""))
    x = Scale(*_reach(shown), _LEFT, _RIGHT)
    bottom = _TOP + _ROW * len(shown)
    drawn = [
        *[marks.segment(x.at(t), _TOP, x.at(t), bottom, "grid") for t in x.ticks(64.0)],
        marks.segment(x.at(0.0), _TOP - 6, x.at(0.0), bottom, "zero"),
        *_legend(),
    ]
    for row, place in enumerate(shown):
        drawn += _pair(place, _TOP + _ROW * (row + 0.5), x)
    drawn.append(axes.bottom(x, bottom, "", axes.signed, 64.0))
    counts = {verdict: sum(p.get("verdict") == verdict for p in places) for verdict in ("gone", "smaller", "new")}
    description = ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + f", of {len(places)} places."
    note = f"{len(shown)} of {len(places):,} places." if len(shown) < len(places) else ""
    table: dict[str, list[object]] = {key: [place.get(key) for place in places] for key in ("where", "kind", "verdict")}
    for when in ("before", "after"):
        table |= {
            f"{key}_{when}": [mapping(place.get(when)).get(key) for place in places] for key in ("gap", "p_value")
        }
    svg = marks.drawing("repair", title, description, _WIDTH, bottom + 26, *drawn)
    return Figure("repair", title, description, svg, table, note)


def left_first(places: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What a repair leaves or makes before what it mends, so that a short list does not hide it."""
    order = {verdict: i for i, verdict in enumerate(("new", "larger", "remaining", "smaller", "gone"))}
    return sorted(places, key=lambda place: order.get(str(place.get("verdict")), 0))


def _gap(place: Mapping[str, Any], when: str) -> float:
    return finite(mapping(place.get(when)).get("gap"))


def _legend() -> list[Safe]:
    return [
        marks.point(_LEFT + 6, 12, "ring", radius=4.5),
        marks.text(_LEFT + 16, 16, "before", "tick"),
        marks.point(_LEFT + 76, 12, "noise", radius=4.5),
        marks.text(_LEFT + 86, 16, "after (grey: within noise), with its interval", "tick"),
    ]


def _reach(shown: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Zero and every gap, and intervals up to half as far again."""
    gaps = [g for place in shown for g in (_gap(place, "before"), _gap(place, "after")) if not np.isnan(g)]
    ends = [finite(end) for place in shown for end in items(mapping(place.get("after")).get("interval"))]
    limit = 1.5 * max(max(map(abs, gaps), default=0.0), 1e-6)
    every = [0.0, *gaps, *(end for end in ends if abs(end) <= limit)]
    return nice(min(every), max(every))


def _pair(place: Mapping[str, Any], y: float, x: Scale) -> list[Safe]:
    before, after = _gap(place, "before"), _gap(place, "after")
    low, high = [finite(end) for end in [*items(mapping(place.get("after")).get("interval")), None, None][:2]]
    class_ = "noise" if low <= 0.0 <= high else "over" if after > 0 else "under"
    drawn = [marks.text(_NAMES, y + 4, place.get("where", ""), "tick", "end", limit=36)]
    if not np.isnan(before) and not np.isnan(after):
        drawn.append(marks.segment(x.at(before), y, x.at(after), y, "tie"))
    if not np.isnan(low) and not np.isnan(high):
        drawn.append(marks.segment(x.at(low), y, x.at(high), y, f"whisker {class_}"))
    if not np.isnan(before):
        drawn.append(marks.point(x.at(before), y, "ring", f"before: {words.points(before)}", 4.5))
    if not np.isnan(after):
        drawn.append(marks.point(x.at(after), y, class_, f"after: {words.points(after)}", 4.5))
    drawn.append(marks.text(_RIGHT + 12, y + 4, place.get("verdict", ""), "tick"))
    return drawn
