"""The reliability diagram with its histogram, and what all figures of cells share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from miscal.page import words
from miscal.page.entries import Cells, Entry
from miscal.page.figures import axes, marks
from miscal.page.figures.marks import Figure
from miscal.page.figures.scales import Kind, Scale, known, nice
from miscal.page.markup import Safe, ellipsis

_WIDTH, _LEFT, _RIGHT = 480.0, 54.0, 466.0


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


def crowded(bins: Cells) -> bool:
    """Whether the scores crowd near 0 or 1 (a median below 8% or above 92%), so that only logit axes show them."""
    filled = np.isfinite(bins.predicted)
    if not filled.any():
        return False
    weight = np.nan_to_num(bins.size, nan=1.0)[filled]
    order = np.argsort(bins.predicted[filled], kind="stable")
    running = np.cumsum(weight[order])
    middle = bins.predicted[filled][order][np.searchsorted(running, running[-1] / 2)]
    return bool(middle < 0.08 or middle > 0.92)


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
    if high - low > 0.55:
        return 0.0, 1.0
    return max(nice(min(low, 0.0) if low < high / 2 else low, high)[0], 0.0), min(nice(low, high)[1], 1.0)


def reliability(score: Entry, level: float = 0.05) -> Figure:
    """Draw how often it happened against how often it was predicted, by bin of the score.

    The band is that of a calibrated model. The histogram beneath is that of the audit, or of the bins where those are
    finer. Axes are logit when the scores crowd near 0 or 1, or when `extra["axis"]` says "logit".
    """
    bins = score.cells
    wanted = score.extra.get("axis")
    kind: Kind = "logit" if wanted == "logit" or (wanted is None and crowded(bins)) else "linear"
    low, high = _domain(bins, kind == "logit")
    x, y = Scale(low, high, _LEFT, _RIGHT, kind), Scale(low, high, 318.0, 24.0, kind)
    beyond = bins.beyond(level)
    across, up = x(bins.predicted), y(bins.observed)
    drawn = [
        axes.left(y, _LEFT, _RIGHT),
        marks.text(_LEFT, 12, "Happened", "label"),
        marks.band(across, y(bins.band_low), y(bins.band_high)),
        marks.segment(x.at(low), y.at(low), x.at(high), y.at(high), "diagonal"),
        marks.text(_LEFT + 12, 46, "▲ happened more than predicted", "hint under"),
        marks.text(_RIGHT - 8, 304, "happened less than predicted ▼", "hint over", "end"),
        marks.line(across, up, "thin"),
        *(marks.point(across[i], up[i], way(bins.gap[i], beyond[i]), tip(bins, i), 4.5) for i in range(len(bins))),
        *_histogram(score, x, 330.0, 382.0),
        axes.bottom(x, 382.0, "Predicted" + (" (log-odds scale)" if kind == "logit" else "")),
    ]
    description = (
        f"{len(bins)} bins of the score on {kind} axes; {int(beyond.sum())} of them lie beyond noise. "
        "On the diagonal as much happened as was predicted."
    )
    title = "Happened against predicted, by score"
    return marks.drawn("reliability", title, description, (_WIDTH, 424.0), drawn, bins.table())


def _histogram(score: Entry, x: Scale, top: float, bottom: float) -> list[Safe]:
    """Bars whose area is the share of rows, on whatever scale the axis has."""
    bins, (edges, rows) = score.cells, score.histogram
    coarse = np.nanmax(x(bins.high) - x(bins.low), initial=0.0)
    # Equal-width edges may be coarser than the bins themselves where a logit axis stretches them.
    if len(rows) and (coarse == 0 or np.diff(x(edges)).max() <= coarse):
        return _bars(edges[:-1], edges[1:], rows, x, top, bottom)
    return _bars(bins.low, bins.high, bins.size, x, top, bottom)


def _bars(
    low: NDArray[np.float64], high: NDArray[np.float64], rows: NDArray[np.float64], x: Scale, top: float, bottom: float
) -> list[Safe]:
    """One bar a bin, as wide as the bin and of area proportional to its rows."""
    start, width, total = x(low), x(high) - x(low), float(np.nansum(rows))
    shown = np.isfinite(width) & (width > 0.25) & np.isfinite(rows)
    if not shown.any() or not total > 0:
        return []
    density = np.where(shown, rows / np.where(shown, width, 1.0), 0.0)
    height = density / density.max() * (bottom - top) if density.max() > 0 else density
    made = []
    for i in np.flatnonzero(shown):
        share = f"{words.count(rows[i])} rows, {words.percent(rows[i] / total, 2)}"
        said = f"Score {low[i]:.3g} to {high[i]:.3g}\n{share}"
        made.append(marks.bar(start[i], bottom - height[i], max(width[i] - 0.6, 0.4), height[i], "share", said))
    return made
