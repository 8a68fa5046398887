"""Figures by score: the reliability diagram, and the cumulative differences whose range is Kuiper's error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from miscal.plots.base import BAND, INK, OVER, QUIET, UNDER, WALK_X, WALK_Y, Display, View, labelled
from miscal.results import Table


class Reliability(View):
    """Observed rate against predicted probability, with the band in which calibrated predictions would lie.

    The bars beneath show where the scores are. Axes are logit where scores crowd near 0 or 1.
    """

    def frame(self) -> Table:
        """Bins with predicted, observed and the consistency band."""
        table = self.result.table
        names = ("predicted", "observed", "band_low", "band_high", "gap_low", "gap_high", "rows")
        return Table({name: table[name][table["rows"] > 0] for name in names})

    def plot(self, ax: Any = None, *, name: str | None = None, color: str = UNDER, **style: Any) -> Reliability:
        """Draw the diagram; a second call on the same axes overlays another result."""
        first = ax is None
        ax = self._start(ax)
        drawn = self.frame()
        predicted, observed = drawn["predicted"], drawn["observed"]
        if first or not ax.lines:
            ax.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle=(0, (4, 3)), label="Perfectly calibrated")
            ax.fill_between(
                predicted,
                drawn["band_low"],
                drawn["band_high"],
                color=BAND,
                alpha=0.8,
                linewidth=0,
                label="95% noise band",
            )
        low = np.maximum(predicted - drawn["gap_high"], 0.0)
        high = np.minimum(predicted - drawn["gap_low"], 1.0)
        ax.vlines(predicted, low, high, color=color, linewidth=1, alpha=0.5)
        ax.plot(predicted, observed, "o-", color=color, markersize=4, linewidth=1.2, label=name or "Observed", **style)
        self._scores(ax)
        self._axes(ax, drawn)
        return self

    def _scores(self, ax: Any) -> None:
        """Bars of how many rows have each score, in the lowest tenth of the axes."""
        histogram = self.result.extra["histogram"]
        rows, edges = np.asarray(histogram["rows"]), np.asarray(histogram["edges"])
        if self.result.extra["axis"] == "logit":
            return
        height = 0.1 * rows / rows.max()
        ax.bar(edges[:-1], height, width=np.diff(edges), align="edge", color=QUIET, alpha=0.35, linewidth=0, zorder=0)

    def _axes(self, ax: Any, drawn: Table) -> None:
        if self.result.extra["axis"] == "logit":
            edge = max(1e-6, 0.5 * min(drawn["predicted"].min(), max(drawn["observed"].min(), 1e-6)))
            for scale, limit in ((ax.set_xscale, ax.set_xlim), (ax.set_yscale, ax.set_ylim)):
                scale("logit")
                limit(edge, min(1 - 1e-6, max(0.5, 1.5 * drawn["predicted"].max())))
        else:
            ax.set_xlim(0, 1)
            ax.set_ylim(0, 1)
            ax.set_aspect("equal")
        percent = "" if self.result.extra["axis"] == "logit" else "xy"
        labelled(ax, "Mean predicted probability", "Fraction of events", percent=percent, legend="upper left")


class Cumulative(View):
    """Running total of predicted minus observed in the order of the score; its range is Kuiper's calibration error.

    A rising stretch is over-predicted, a falling one under-predicted; the slope is the local gap.
    """

    def frame(self) -> Table:
        """Share of rows, score, running total and the half-width of its noise band."""
        walk = self.result.extra["cumulative"]
        return Table({name: walk[name] for name in ("x", "score", "y", "band")})

    def plot(self, ax: Any = None, *, color: str = INK, **style: Any) -> Cumulative:
        """Draw the walk, its band and its range."""
        ax = self._start(ax, (6.4, 4.2))
        drawn = self.frame()
        x, y, band = drawn["x"], drawn["y"], drawn["band"]
        ax.fill_between(x, -band, band, color=BAND, alpha=0.8, linewidth=0, label="95% noise band, pointwise")
        ax.axhline(0, color=QUIET, linewidth=0.8)
        ax.plot(x, y, color=color, linewidth=1.4, **style)
        top, bottom = max(0.0, float(y.max())), min(0.0, float(y.min()))
        for level, tint in ((top, OVER), (bottom, UNDER)):
            ax.axhline(level, color=tint, linewidth=0.9, linestyle=(0, (3, 3)))
        ax.annotate("", xy=(1.02, top), xytext=(1.02, bottom), arrowprops={"arrowstyle": "<->", "color": INK})
        ax.text(1.035, (top + bottom) / 2, f"Kuiper\n{top - bottom:.2%}", va="center", fontsize=9, color=INK)
        ax.set_xlim(0, 1.16)
        ax.set_xticks(np.linspace(0, 1, 6))
        labelled(ax, WALK_X, WALK_Y, percent="xy", legend="best")
        return self


class ScoreDisplay(Display):
    """By score: "reliability" (observed against predicted) or "cumulative" (the walk whose range is Kuiper's error).

    Examples
    --------
    >>> import numpy as np, miscal
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> display = miscal.plots.ScoreDisplay(miscal.by_score(miscal.Predictions(rng.random(1000) < p, p)))
    >>> display.frame()["predicted"].size
    15
    """

    word = "score"
    views: ClassVar[Mapping[str, type[View]]] = {"reliability": Reliability, "cumulative": Cumulative}
    pools = False
