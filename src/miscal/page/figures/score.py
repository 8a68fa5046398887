"""Figures of the score: the reliability diagram with its histogram."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miscal.page import words
from miscal.page.figures import axes, marks
from miscal.page.figures.marks import Figure
from miscal.page.figures.scales import Scale, nice
from miscal.page.markup import Safe, ellipsis
from miscal.page.reading import Cells, cells, floats, mapping

_WIDTH, _LEFT, _RIGHT = 480.0, 54.0, 466.0
Result = Mapping[str, Any]


def way(gap: float, beyond: bool) -> str:
    """The class that colours a mark: over-predicted, under-predicted, or within noise."""
    return "noise" if not beyond or not np.isfinite(gap) else "over" if gap > 0 else "under"


def crowded(bins: Cells) -> bool:
    """Whether the scores crowd near 0 or 1 (a median below 8% or above 92%), so that only logit axes show them."""
    known = np.isfinite(bins.predicted)
    if not known.any():
        return False
    weight = np.nan_to_num(np.where(np.isnan(bins.weight), bins.rows, bins.weight), nan=1.0)[known]
    order = np.argsort(bins.predicted[known], kind="stable")
    running = np.cumsum(weight[order])
    middle = bins.predicted[known][order][np.searchsorted(running, running[-1] / 2)]
    return bool(middle < 0.08 or middle > 0.92)


def _domain(bins: Cells, logit: bool) -> tuple[float, float]:
    """The range both axes share: everything drawn, and round ends on the linear scale."""
    drawn = np.concatenate([bins.predicted, bins.observed, bins.band_low, bins.band_high])
    drawn = drawn[np.isfinite(drawn)]
    if not len(drawn):
        return 0.0, 1.0
    if logit:
        inside = np.concatenate([bins.predicted, bins.observed])
        inside = inside[(inside > 0) & (inside < 1)]
        if len(inside):
            odds = np.array([inside.min(), inside.max()]) / (1 - np.array([inside.min(), inside.max()]))
            odds *= [1 / 1.8, 1.8]
            return float(odds[0] / (1 + odds[0])), float(odds[1] / (1 + odds[1]))
    low, high = float(drawn.min()), float(drawn.max())
    if high - low > 0.55:
        return 0.0, 1.0
    return max(nice(min(low, 0.0) if low < high / 2 else low, high)[0], 0.0), min(nice(low, high)[1], 1.0)


def reliability(result: Result, level: float = 0.05) -> Figure:
    """Draw how often it happened against how often it was predicted, by bin of the score.

    `result["table"]` has predicted, observed and rows (or weight); band_low and band_high draw the consistency band,
    low and high (the bins' edges) the histogram beneath; `extra["histogram"]` = {edges, rows} draws a finer one.
    Axes are logit when the scores crowd near 0 or 1, or when `extra["axis"]` says "logit".
    """
    bins = cells(result)
    wanted = mapping(result.get("extra")).get("axis")
    logit = crowded(bins) if wanted is None else wanted == "logit"
    low, high = _domain(bins, logit)
    kind = "logit" if logit else "linear"
    x = Scale(low, high, _LEFT, _RIGHT, "logit" if logit else "linear")
    y = Scale(low, high, 318.0, 24.0, "logit" if logit else "linear")
    beyond = bins.beyond(level)
    drawn = [
        axes.left(y, _LEFT, _RIGHT),
        marks.text(_LEFT, 12, "Happened", "label"),
        marks.band(x(bins.predicted), y(bins.band_low), y(bins.band_high)),
        marks.segment(x.at(low), y.at(low), x.at(high), y.at(high), "diagonal"),
        marks.text(_LEFT + 12, 46, "▲ happened more than predicted", "hint under"),
        marks.text(_RIGHT - 8, 304, "happened less than predicted ▼", "hint over", "end"),
        marks.line(x(bins.predicted), y(bins.observed), "thin"),
        *_points(bins, x, y, beyond),
        *_histogram(result, bins, x, 330.0, 382.0),
        axes.bottom(x, 382.0, "Predicted" + (" (log-odds scale)" if logit else "")),
    ]
    off = int(beyond.sum())
    title = "Happened against predicted, by score"
    description = (
        f"{len(bins)} bins of the score on {kind} axes; {off} of them lie beyond noise. "
        "On the diagonal as much happened as was predicted."
    )
    return _figure("reliability", title, description, 424.0, drawn, bins)


def _figure(name: str, title: str, description: str, height: float, drawn: list[Safe], bins: Cells) -> Figure:
    svg = marks.drawing(name, title, description, _WIDTH, height, *drawn)
    return Figure(name, title, description, svg, bins.table())


def _points(bins: Cells, x: Scale, y: Scale, beyond: NDArray[np.bool_]) -> list[Safe]:
    across, up = x(bins.predicted), y(bins.observed)
    return [
        marks.point(across[i], up[i], way(bins.gap[i], bool(beyond[i])), tip(bins, i), 4.5)
        for i in range(len(bins))
        if np.isfinite(across[i]) and np.isfinite(up[i])
    ]


def tip(bins: Cells, i: int, what: str = "Score ") -> str:
    """What a cell's tooltip says."""
    head = f"{ellipsis(what + bins.label[i], 90)}\n" if bins.label[i] else ""
    lines = f"{words.percent(bins.predicted[i])} predicted, {words.percent(bins.observed[i])} happened"
    size = bins.rows[i] if np.isfinite(bins.rows[i]) else bins.weight[i]
    return f"{head}{lines}\n{words.count(size)} rows" + (
        f"\ngap {words.points(bins.gap[i])}" if np.isfinite(bins.gap[i]) else ""
    )


def _histogram(result: Result, bins: Cells, x: Scale, top: float, bottom: float) -> list[Safe]:
    """Bars whose area is the share of rows, on whatever scale the axis has."""
    given = mapping(mapping(result.get("extra")).get("histogram"))
    edges, rows = floats(given.get("edges")), floats(given.get("rows"))
    size = np.where(np.isnan(bins.weight), bins.rows, bins.weight)
    coarse = np.nanmax(x(bins.high) - x(bins.low), initial=0.0)
    # Equal-width edges may be coarser than the bins themselves where a logit axis stretches them.
    if len(edges) == len(rows) + 1 and len(rows) and (coarse == 0 or np.diff(x(edges)).max() <= coarse):
        return histogram_bars(edges[:-1], edges[1:], rows, x, top, bottom)
    return histogram_bars(bins.low, bins.high, size, x, top, bottom)


def histogram_bars(
    low: NDArray[np.float64], high: NDArray[np.float64], rows: NDArray[np.float64], x: Scale, top: float, bottom: float
) -> list[Safe]:
    """One bar a bin, as wide as the bin and of area proportional to its rows."""
    start, stop = x(low), x(high)
    width = stop - start
    shown = np.isfinite(width) & (width > 0.25) & np.isfinite(rows)
    if not shown.any() or not np.nansum(rows) > 0:
        return []
    density = np.where(shown, rows / np.where(shown, width, 1.0), 0.0)
    height = density / density.max() * (bottom - top) if density.max() > 0 else density
    total = float(np.nansum(rows))
    return [
        marks.bar(
            start[i],
            bottom - height[i],
            max(width[i] - 0.6, 0.4),
            height[i],
            "share",
            f"Score {low[i]:.3g} to {high[i]:.3g}\n{words.count(rows[i])} rows, {words.percent(rows[i] / total, 2)}",
        )
        for i in np.flatnonzero(shown)
    ]


def histogram(result: Result) -> Figure:
    """Draw the distribution of the score alone: bars of the bins' share of rows."""
    bins = cells(result)
    logit = crowded(bins)
    low, high = _domain(bins, logit)
    x = Scale(low, high, _LEFT, _RIGHT, "logit" if logit else "linear")
    drawn = [*_histogram(result, bins, x, 12.0, 120.0), axes.bottom(x, 120.0, "Predicted")]
    return _figure("histogram", "How the scores are spread", f"Shares of rows in {len(bins)} bins.", 162.0, drawn, bins)
