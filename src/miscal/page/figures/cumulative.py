"""The running total of predicted minus happened, in which Kuiper's range can be seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from miscal.page import words
from miscal.page.figures import axes, marks
from miscal.page.figures.marks import Figure
from miscal.page.figures.scales import Scale, nice
from miscal.page.markup import Safe
from miscal.page.reading import floats, items, mapping
from miscal.page.words import finite

_WIDTH, _LEFT, _RIGHT = 480.0, 54.0, 404.0
_TITLE = "Running total of predicted minus happened"


REACH = 1.96  # deviations that the band reaches at the end of a walk


class _Unit(NamedTuple):
    """What heights are counted in."""

    label: str
    of: str
    ticks: Callable[[Sequence[float]], list[str]]
    write: Callable[[object], str]


_SHARE = _Unit("Predicted minus happened, so far (share of the rows)", "all rows", axes.rates, words.percent)
_DEVIATIONS = _Unit(
    "Predicted minus happened, so far (deviations of noise)", "noise's standard deviation", axes.numbers, words.number
)


@dataclass(frozen=True)
class _Walk:
    """The points drawn; `size` is the exact range, which a thinned walk may not quite reach."""

    share: NDArray[np.float64]
    total: NDArray[np.float64]
    score: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    size: float

    @property
    def deviation(self) -> float:
        """Standard deviation of noise at the end of the walk; NaN where there is no band."""
        return float(self.high[-1] - self.low[-1]) / (2 * REACH)

    def scaled(self) -> _Walk:
        """The same in standard deviations of noise."""
        unit = self.deviation
        parts = (self.total / unit, self.score, self.low / unit, self.high / unit, self.size / unit)
        return _Walk(self.share, *parts)

    @property
    def top(self) -> float:
        return max(float(self.total.max()), 0.0)

    @property
    def bottom(self) -> float:
        return min(float(self.total.min()), 0.0)


def cumulative(result: Mapping[str, Any], reach: tuple[float, float] | None = None) -> Figure:
    """Draw the running total of predicted minus happened over rows ordered by score; its range is Kuiper's.

    `extra["cumulative"]` has x (share of weight up to here, 0 to 1), y (running sum of w(p - y) over the total weight,
    from 0), and if known score (the score at x) and band_low, band_high (or band, a half-width) for the null;
    `extra["kuiper"]` the exact range. A rising stretch is over-predicted, a falling one under-predicted.

    reach : draw in standard deviations of noise, from one to the other, so that several figures can be compared
    """
    walk = _read(mapping(result.get("extra")))
    if walk is None:
        return Figure("cumulative", _TITLE, "There is no running total in this audit.", Safe(""))
    table = _table(walk)
    unit = _SHARE if reach is None or not walk.deviation > 0 else _DEVIATIONS
    if unit is _DEVIATIONS:
        walk = walk.scaled()
    shaded = np.concatenate([walk.low, walk.high, [walk.top, walk.bottom]])
    shaded = shaded[np.isfinite(shaded)]
    ends = nice(*reach) if reach and unit is _DEVIATIONS else nice(float(shaded.min()), float(shaded.max()))
    x = Scale(0.0, 1.0, _LEFT, _RIGHT)
    y = Scale(*ends, 364.0, 24.0)
    drawn = [
        axes.left(y, _LEFT, _RIGHT, unit.ticks),
        marks.text(_LEFT, 12, unit.label, "label"),
        marks.band(x(walk.share), y(walk.low), y(walk.high)),
        marks.segment(x.start, y.at(0.0), x.end, y.at(0.0), "zero"),
        marks.line(x(walk.share), y(walk.total), "walk"),
        *_bracket(walk, x, y, unit),
        *_stops(walk, x, y, unit),
        axes.bottom(x, 364.0, "Rows ordered from the lowest score to the highest"),
    ]
    description = (
        f"The running total moves between {unit.write(walk.bottom)} and {unit.write(walk.top)} of {unit.of} and "
        f"ends at {unit.write(walk.total[-1])}. Its range, {unit.write(walk.size)}, is the Kuiper range."
    )
    return Figure("cumulative", _TITLE, description, _drawing(description, drawn), table)


def deviation_reach(curves: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """The lowest and highest point of several running totals in standard deviations of their noise.

    >>> deviation_reach([{"x": [0, 1], "y": [0, 0.2], "band": [0, 0.098]}])
    (-1.96, 4.0)
    """
    walks = [walk for curve in curves if (walk := _read({"cumulative": curve})) is not None and walk.deviation > 0]
    if not walks:
        return None
    ends = np.concatenate([[w.bottom / w.deviation, w.top / w.deviation] for w in walks] + [[-REACH, REACH]])
    return float(ends.min().round(9)), float(ends.max().round(9))


def _drawing(description: str, drawn: list[Safe]) -> Safe:
    return marks.drawing("cumulative", _TITLE, description, _WIDTH, 406.0, *drawn)


def has_cumulative(result: Mapping[str, Any]) -> bool:
    """Whether a result carries a running total."""
    return bool(items(mapping(mapping(result.get("extra")).get("cumulative")).get("x")))


def _read(extra: Mapping[str, Any]) -> _Walk | None:
    """The walk with the points that are numbers, thinned to what can be seen; None where there is none."""
    given = mapping(extra.get("cumulative"))
    share, total = floats(given.get("x")), floats(given.get("y"))
    if len(share) != len(total):
        return None
    half = _as_long(floats(given.get("band")), len(share))
    low, high = (_as_long(floats(given.get(key)), len(share)) for key in ("band_low", "band_high"))
    low, high = np.where(np.isnan(low), -half, low), np.where(np.isnan(high), half, high)
    known = np.flatnonzero(np.isfinite(share) & np.isfinite(total))
    if not len(known):
        return None
    size = finite(extra.get("kuiper"))
    if math.isnan(size):
        size = max(float(total[known].max()), 0.0) - min(float(total[known].min()), 0.0)
    keep = known[marks.thinned(total[known])]
    score = _as_long(floats(given.get("score")), len(share))
    return _Walk(share[keep], total[keep], score[keep], low[keep], high[keep], size)


def _as_long(values: NDArray[np.float64], many: int) -> NDArray[np.float64]:
    return values if len(values) == many else np.full(many, np.nan)


def _table(walk: _Walk) -> dict[str, list[object]]:
    columns = {"share_of_rows": walk.share, "score": walk.score, "running_total": walk.total}
    columns |= {"noise_low": walk.low, "noise_high": walk.high}
    return {
        key: [float(value) if np.isfinite(value) else None for value in column]
        for key, column in columns.items()
        if np.isfinite(column).any()
    }


def _bracket(walk: _Walk, x: Scale, y: Scale, unit: _Unit) -> list[Safe]:
    """The bracket at the right that shows the range, with dotted lines from the two extremes."""
    side = x.end + 10
    peak = float(walk.share[int(walk.total.argmax())]) if walk.top > 0 else 0.0
    trough = float(walk.share[int(walk.total.argmin())]) if walk.bottom < 0 else 0.0
    top, bottom = y.at(walk.top), y.at(walk.bottom)
    return [
        marks.segment(x.at(peak), top, side, top, "dotted"),
        marks.segment(x.at(trough), bottom, side, bottom, "dotted"),
        marks.segment(side, top, side, bottom, "bracket"),
        marks.segment(side - 4, top, side + 4, top, "bracket"),
        marks.segment(side - 4, bottom, side + 4, bottom, "bracket"),
        marks.text(side + 8, (top + bottom) / 2 - 4, "range", "tick"),
        marks.text(side + 8, (top + bottom) / 2 + 10, unit.write(walk.size), "tick strong"),
    ]


def _stops(walk: _Walk, x: Scale, y: Scale, unit: _Unit) -> list[Safe]:
    """Invisible points along the line, so that hovering reads the running total."""
    stops = np.unique(np.linspace(0, len(walk.share) - 1, 40).astype(np.intp))
    return [
        marks.point(x.at(walk.share[i]), y.at(walk.total[i]), "ghost", _stop(walk, int(i), unit), 3.5) for i in stops
    ]


def _stop(walk: _Walk, i: int, unit: _Unit) -> str:
    score, total = walk.score[i], walk.total[i]
    upto = f" (up to {words.percent(score)})" if np.isfinite(score) else ""
    more = "more predicted than happened" if total >= 0 else "more happened than predicted"
    size = f"{unit.write(abs(total))} {'of all rows' if unit is _SHARE else 'deviations'}"
    return f"Lowest {words.percent(walk.share[i], 2)} of scores{upto}\n{size} {more}"
