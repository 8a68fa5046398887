"""The figure of a variable: happened and predicted by range, with the share of rows beneath."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from miscal.page.figures import axes, marks
from miscal.page.figures.marks import Figure
from miscal.page.figures.scales import Scale, nice
from miscal.page.figures.score import tip, way
from miscal.page.markup import Safe, ellipsis
from miscal.page.reading import Cells, cells, column_name, edge_writer, floats, is_integer, mapping

_WIDTH, _LEFT, _RIGHT = 360.0, 46.0, 352.0
_TOP, _FLOOR, _SHARE = 20.0, 168.0, 204.0


def variable(result: Mapping[str, Any], level: float = 0.05) -> Figure:
    """Draw happened (dots with intervals) against predicted (line) by range of a variable.

    `result["table"]` has low and high (the ranges' edges; both NaN for missing values), predicted, observed, rows and,
    if known, gap_low and gap_high. Ranges are drawn equally wide, because equal-support ranges of a skewed variable
    would otherwise be invisible; the edges are written under the axis.
    """
    ranges = cells(result)
    column = column_name(result)
    many = max(len(ranges), 1)
    edges = np.linspace(_LEFT + 4, _RIGHT, many + 1)
    middle = (edges[:-1] + edges[1:]) / 2
    low, high = _observed_interval(ranges)
    curve = _smooth(result)
    y = Scale(*_domain(ranges, low, high, curve), _FLOOR, _TOP)
    beyond = ranges.beyond(level)
    drawn = [
        axes.left(y, _LEFT, _RIGHT, spacing=36.0),
        marks.text(_LEFT, 10, f"Happened ({'dots, smooth curve' if curve else 'dots'}), predicted (steps)", "label"),
    ]
    drawn += _curve(curve, ranges, edges, y, shift=0.5 if is_integer(result) else 0.0)
    if len(ranges):
        drawn.append(marks.step(edges, y(ranges.predicted), "predicted"))
    for i in range(len(ranges)):
        if not np.isfinite(ranges.observed[i]):
            continue
        class_ = way(ranges.gap[i], bool(beyond[i]))
        if np.isfinite(low[i]) and np.isfinite(high[i]):
            drawn.append(marks.segment(middle[i], y.at(low[i]), middle[i], y.at(high[i]), f"whisker {class_}"))
        drawn.append(marks.point(middle[i], y.at(ranges.observed[i]), class_, tip(ranges, i, f"{column} "), 3.8))
    drawn += [
        *_shares(ranges, edges),
        *_edge_labels(ranges, edges, _edges(result), whole=is_integer(result)),
        marks.segment(_LEFT, _SHARE, _RIGHT, _SHARE, "axis"),
    ]
    title = f"{column}: happened and predicted, by range"
    description = f"{len(ranges)} ranges, {int(beyond.sum())} of them beyond noise."
    svg = marks.drawing("variable", title, description, _WIDTH, 226.0, *drawn)
    return Figure("variable", title, description, svg, ranges.table())


def _smooth(result: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The smooth curve of what happened with its band; empty where the audit has none."""
    given = mapping(mapping(result.get("extra")).get("curve"))
    names = ("value", "observed", "observed_low", "observed_high")
    curve = {name: floats(given.get(name)) for name in names}
    return curve if len({len(v) for v in curve.values()}) == 1 and len(curve["value"]) > 1 else {}


def _curve(
    curve: dict[str, np.ndarray[Any, Any]], ranges: Cells, edges: np.ndarray[Any, Any], y: Scale, *, shift: float
) -> list[Safe]:
    """The curve and its band on the axis of equally wide ranges: each value stands where its range puts it."""
    known = np.flatnonzero(np.isfinite(ranges.low) & np.isfinite(ranges.high) & (ranges.high > ranges.low))
    if not curve or not len(known):
        return []
    starts = np.append(ranges.low[known], ranges.high[known[-1]]) + 0.0
    starts[0] -= 2 * shift  # the lowest whole number belongs to the first range
    x = np.interp(curve["value"] - shift, starts, np.append(edges[known], edges[known[-1] + 1]))
    low, high = (np.clip(curve[name], y.low, y.high) for name in ("observed_low", "observed_high"))
    return [
        marks.band(x, y(low), y(high)),
        marks.line(x, y(np.clip(curve["observed"], y.low, y.high)), "smooth"),
    ]


def _observed_interval(ranges: Cells) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The interval of the gap, drawn around what happened: predicted minus the gap's bounds."""
    return np.maximum(ranges.predicted - ranges.gap_high, 0.0), np.minimum(ranges.predicted - ranges.gap_low, 1.0)


def _domain(
    ranges: Cells, low: np.ndarray[Any, Any], high: np.ndarray[Any, Any], curve: dict[str, np.ndarray[Any, Any]]
) -> tuple[float, float]:
    smooth = np.clip(curve.get("observed", np.empty(0)), 0.0, 1.0)
    drawn = np.concatenate([ranges.predicted, ranges.observed, low, high, smooth])
    drawn = drawn[np.isfinite(drawn)]
    if not len(drawn):
        return 0.0, 1.0
    least, most = float(drawn.min()), float(drawn.max())
    return nice(0.0 if least < most / 2 else least, most)


def _shares(ranges: Cells, edges: np.ndarray[Any, Any]) -> list[Safe]:
    """Bars of the share of rows, from the bottom axis up."""
    size = np.nan_to_num(np.where(np.isnan(ranges.weight), ranges.rows, ranges.weight))
    if not len(size) or size.max() <= 0:
        return []
    height = size / size.max() * (_SHARE - _FLOOR - 8)
    gap = min(2.0, (edges[1] - edges[0]) * 0.15)
    return [
        marks.bar(edges[i] + gap / 2, _SHARE - height[i], edges[i + 1] - edges[i] - gap, height[i], "share")
        for i in range(len(size))
    ]


def _edge_labels(
    ranges: Cells, edges: np.ndarray[Any, Any], write: Callable[[float], str], *, whole: bool
) -> list[Safe]:
    """The ranges' edges under the axis, as many as fit without touching; a last range of missing values says so."""
    known = np.flatnonzero(np.isfinite(ranges.low) & np.isfinite(ranges.high))
    if not len(known) or whole:
        return _names(ranges, edges)
    labels = [(edges[i], write(ranges.low[i])) for i in known] + [(edges[known[-1] + 1], write(ranges.high[known[-1]]))]
    missing = [i for i in range(len(ranges)) if i not in set(known.tolist())]
    labels += [((edges[i] + edges[i + 1]) / 2, "missing") for i in missing]
    return _fitting(labels)


def _fitting(labels: list[tuple[float, str]]) -> list[Safe]:
    """The labels that fit: the last one stands, the others join from the left while they touch none."""
    distinct = [labels[i] for i in range(len(labels)) if i == 0 or labels[i][1] != labels[i - 1][1]]
    placed = [(min(x, _RIGHT - 3.2 * len(word)), word) for x, word in distinct]
    kept = placed[-1:]
    for x, word in placed[:-1]:
        if all(abs(x - other) >= 3.4 * (len(word) + len(beside)) + 8 for other, beside in kept):
            kept.append((x, word))
    return [marks.text(x, _SHARE + 16, word, "tick", "middle") for x, word in kept]


def _names(ranges: Cells, edges: np.ndarray[Any, Any]) -> list[Safe]:
    """The ranges' own words under their middles, for whole numbers and for ranges without edges."""
    middles = (edges[:-1] + edges[1:]) / 2
    words = [ellipsis(label.replace(" to ", "–"), 12) for label in ranges.label]
    return _fitting([(float(x), word) for x, word in zip(middles, words, strict=False)])


def _edges(result: Mapping[str, Any]) -> Callable[[float], str]:
    """How the axis writes an edge: dates as they are, large numbers shortened."""
    date = mapping(result.get("extra")).get("column_kind") == "date"
    return edge_writer(result) if date else _edge


def _edge(value: float) -> str:
    if abs(value) < 1e-300:
        return "0"
    return axes.numbers([float(f"{value:.3g}")])[0] if abs(value) >= 1e4 else axes.plain(float(f"{value:.4g}"))
