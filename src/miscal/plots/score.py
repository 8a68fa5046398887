"""Figures by score and by variation: reliability diagrams, the running total whose range is Kuiper's error, ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from miscal.data.errors import refusal
from miscal.plots.base import BAND, INK, QUIET, SERIES, UNDER, Display, View, square
from miscal.results import Table

WORDS = {"variation_ratio": "variation ratio", "qualitative_variation": "qualitative variation"}
MOST_RANKS = 12


class Reliability(View):
    """Observed rate against predicted probability, with the band in which calibrated predictions would lie.

    The bars beneath show where the scores are. Axes are logit where scores crowd near 0 or 1.
    """

    columns = ("predicted", "observed", "band_low", "band_high", "gap_low", "gap_high", "rows")

    def draw(self, ax: Any, drawn: Table, *, name: str | None = None, color: str = UNDER, **style: Any) -> None:
        """Draw the diagram; a second call on the same axes overlays another result."""
        predicted, observed = drawn["predicted"], drawn["observed"]
        line = {"color": color, "label": name or "Observed"} | style
        square(ax, drawn, ("predicted", "observed"), "Perfectly calibrated", self._ends(drawn), **line)
        low, high = predicted - drawn["gap_high"], predicted - drawn["gap_low"]
        low, high = (low, high) if self.means else (np.maximum(low, 0.0), np.minimum(high, 1.0))
        ax.vlines(predicted, low, high, color=color, linewidth=1, alpha=0.5)
        logit = self.result.extra["axis"] == "logit"
        if logit:
            edge = max(1e-6, 0.5 * min(predicted.min(), max(observed.min(), 1e-6)))
            limits = edge, min(1 - 1e-6, max(0.5, 1.5 * predicted.max()))
            ax.set(xscale="logit", yscale="logit", xlim=limits, ylim=limits, aspect="auto")
        else:
            self._scores(ax)
        percent = "" if logit else "xy"
        names = "Mean predicted probability", "Fraction of events"
        names = ("Mean predicted", "Mean observed") if self.means else names
        self.labelled(ax, *names, percent=percent, legend="upper left")

    def _ends(self, drawn: Table) -> tuple[float, float]:
        """What the axes hold: all probabilities, or the means that are drawn."""
        if not self.means:
            return 0.0, 1.0
        every = np.concatenate([drawn[name] for name in ("predicted", "observed", "band_low", "band_high")])
        low, high = float(np.nanmin(every)), float(np.nanmax(every))
        pad = 0.05 * (high - low)
        return min(low - pad, 0.0) if low < 0.5 * high else low - pad, high + pad

    def _scores(self, ax: Any) -> None:
        """Bars of how many rows have each score, in the lowest tenth of the axes."""
        rows, edges = (np.asarray(self.result.extra["histogram"][name]) for name in ("rows", "edges"))
        bottom, top = ax.get_ylim()
        height = 0.1 * (top - bottom) * rows / rows.max()
        bars: Any = {"width": np.diff(edges), "bottom": bottom, "align": "edge", "linewidth": 0, "zorder": 0}
        ax.bar(edges[:-1], height, color=QUIET, alpha=0.35, **bars)


class Cumulative(View, size=(6.4, 4.2)):
    """Running total of predicted minus observed in the order of the score; its range is Kuiper's calibration error.

    A rising stretch is over-predicted, a falling one under-predicted; the slope is the local gap.
    """

    def frame(self) -> Table:
        """Share of rows, score, running total and the half-width of its noise band."""
        return Table({name: self.result.extra["cumulative"][name] for name in ("x", "score", "y", "band")})

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw the walk, its band and its range."""
        top, bottom = self.walk(drawn, **style)
        ax.annotate("", xy=(1.02, top), xytext=(1.02, bottom), arrowprops={"arrowstyle": "<->", "color": INK})
        ax.text(1.035, (top + bottom) / 2, f"Kuiper\n{self.said(top - bottom)}", va="center", fontsize=9, color=INK)
        self.walk_axes(ax, "best")
        ax.set(xlim=(0, 1.16), xticks=np.linspace(0, 1, 6))


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


class Variation(View):
    """Observed against predicted variation, with the band in which calibrated predictions would lie."""

    columns = ("predicted", "observed", "band_low", "band_high", "rows")
    axes = ("predicted", "observed")

    def words(self) -> tuple[str, str]:
        """What the axes show."""
        measure = _measure(self)
        return f"Predicted {measure}", "Accuracy" if measure == "confidence" else f"Observed {measure}"

    def error(self) -> float:
        """The number that the diagram shows."""
        return self.result.value

    def draw(self, ax: Any, drawn: Table, *, name: str | None = None, color: str = UNDER, **style: Any) -> None:
        """Draw the diagram; a second call on the same axes overlays another result."""
        if not ax.lines:  # with many rows the band is thinner than a line: its ends keep it visible
            ax.vlines(drawn[self.axes[0]], drawn["band_low"], drawn["band_high"], color=QUIET, linewidth=4, alpha=0.5)
        line = {"color": color, "label": name or f"Observed, error {self.error():.2g}"} | style
        square(ax, drawn, self.axes, "Predicted = observed", **line)
        self.labelled(ax, *self.words(), legend="upper left")


class Uncertainty(Variation):
    """Error rate against mean entropy: the bins of the uncertainty calibration error.

    The band is where the error rates of calibrated predictions would lie. It is not on the diagonal: that error is not
    0 for calibrated predictions.
    """

    axes = ("uncertainty", "error")

    def words(self) -> tuple[str, str]:
        """What the axes show."""
        return "Mean entropy", "Error rate"

    def error(self) -> float:
        """The number that the diagram shows."""
        return float(self.result.extra["uncertainty_error"])

    def frame(self) -> Table:
        """Filled bins with mean entropy, error rate and the noise band."""
        table = self.result.extra.get("uncertainty")
        if table is None:
            got = str(self.result.settings["variation"])
            raise refusal("needs a result by entropy", where="kind='uncertainty'", got=got)
        return Table({column: values[table["rows"] > 0] for column, values in table.items()})


def _measure(view: View) -> str:
    measure = str(view.result.settings["variation"])
    return WORDS.get(measure, measure)


class Ranks(View, size=(6.0, 4.0)):
    """How often the class that occurred had each rank, beside the probability that was predicted for that rank."""

    def frame(self, cell: int | None = None) -> Table:
        """Rank, predicted and observed share, over all rows or within one bin of variation."""
        held, at = (self.result.extra, ...) if cell is None else (self.result.table, cell)
        shares = {word: np.asarray(held[f"{word}_ranks"])[at] for word in ("predicted", "observed")}
        return Table({"rank": np.arange(1, shares["predicted"].size + 1), **shares})

    def draw(self, ax: Any, drawn: Table, *, cell: int | None = None, **style: Any) -> None:
        """Draw the two distributions, of all rows or of one bin."""
        drawn = drawn if cell is None else self.frame(cell)
        shown = min(drawn.rows, MOST_RANKS)
        at = np.arange(shown)
        ax.bar(at - 0.2, drawn["predicted"][:shown], 0.36, color=BAND, label="Predicted", **style)
        ax.bar(at + 0.2, drawn["observed"][:shown], 0.36, color=SERIES[0], label="Observed", **style)
        ax.set_xticks(at, [str(rank + 1) for rank in at])
        more = f" (of {drawn.rows})" if drawn.rows > shown else ""
        self.labelled(ax, f"Rank of the class that occurred{more}", "Share of rows", percent="y", legend="best")
        if cell is not None:
            ax.set_title(f"{_measure(self)} in {self.result.table['label'][cell]}", fontsize=9, color=INK)


class VariationDisplay(Display):
    """By variation: "variation" (observed against predicted), "uncertainty" (error rate against entropy) or "ranks".

    Examples
    --------
    >>> import miscal
    >>> data = miscal.datasets.calibrated_classes(2000)
    >>> result = miscal.by_variation(miscal.Predictions(data.y_true, data.y_prob))
    >>> miscal.plots.VariationDisplay(result).frame()["predicted"].size
    10
    """

    word = "variation"
    views: ClassVar[Mapping[str, type[View]]] = {"variation": Variation, "uncertainty": Uncertainty, "ranks": Ranks}
    pools = False
