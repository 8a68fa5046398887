"""Figures by variation: reliability of the variation, of the uncertainty, and predicted against observed ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from miscal.data.errors import refusal
from miscal.plots.base import BAND, INK, QUIET, SERIES, UNDER, Display, View, labelled
from miscal.results import Table

WORDS = {
    "entropy": "entropy",
    "confidence": "confidence",
    "variation_ratio": "variation ratio",
    "qualitative_variation": "qualitative variation",
}
MOST_RANKS = 12


class Reliability(View):
    """Observed against predicted variation, with the band in which calibrated predictions would lie."""

    def frame(self) -> Table:
        """Filled bins with predicted and observed variation and the noise band."""
        table = self.result.table
        names = ("predicted", "observed", "band_low", "band_high", "rows")
        return Table({name: table[name][table["rows"] > 0] for name in names})

    def plot(self, ax: Any = None, *, name: str | None = None, color: str = UNDER, **style: Any) -> Reliability:
        """Draw the diagram; a second call on the same axes overlays another result."""
        measure = WORDS.get(self.result.settings["variation"], self.result.settings["variation"])
        ax = self._start(ax)
        drawn = self.frame()
        label = name or f"Observed, error {self.result.value:.2g}"
        _reliability(ax, drawn, drawn["predicted"], drawn["observed"], label, color, style)
        observed = "Accuracy" if measure == "confidence" else f"Observed {measure}"
        labelled(ax, f"Predicted {measure}", observed, legend="upper left")
        return self


class Uncertainty(View):
    """Error rate against mean entropy: the bins of the uncertainty calibration error.

    The band is where the error rates of calibrated predictions would lie. It is not on the diagonal: that error is not
    0 for calibrated predictions.
    """

    def frame(self) -> Table:
        """Filled bins with mean entropy, error rate and the noise band."""
        table = self.result.extra.get("uncertainty")
        if table is None:
            raise refusal(
                "needs a result by entropy", where="kind='uncertainty'", got=str(self.result.settings["variation"])
            )
        return Table({column: values[table["rows"] > 0] for column, values in table.items()})

    def plot(self, ax: Any = None, *, name: str | None = None, color: str = UNDER, **style: Any) -> Uncertainty:
        """Draw the diagram."""
        drawn = self.frame()
        ax = self._start(ax)
        label = name or f"Observed, error {self.result.extra['uncertainty_error']:.2g}"
        _reliability(ax, drawn, drawn["uncertainty"], drawn["error"], label, color, style)
        labelled(ax, "Mean entropy", "Error rate", legend="upper left")
        return self


def _reliability(
    ax: Any, drawn: Table, predicted: np.ndarray, observed: np.ndarray, label: str, color: str, style: dict[str, Any]
) -> None:
    """Points, their noise band and the diagonal, in a square from 0 to 1."""
    if not ax.lines:
        ax.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle=(0, (4, 3)), label="Predicted = observed")
        low, high = drawn["band_low"], drawn["band_high"]
        ax.fill_between(predicted, low, high, color=BAND, alpha=0.8, linewidth=0, label="95% noise band")
        # With many rows the band is thinner than a line: its ends keep it visible.
        ax.vlines(predicted, low, high, color=QUIET, linewidth=4, alpha=0.5)
    ax.plot(predicted, observed, "o-", color=color, markersize=4, linewidth=1.2, label=label, **style)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_aspect("equal")


class Ranks(View):
    """How often the class that occurred had each rank, beside the probability that was predicted for that rank."""

    def frame(self) -> Table:
        """Rank, predicted and observed share over all rows."""
        predicted, observed = (np.asarray(self.result.extra[f"{word}_ranks"]) for word in ("predicted", "observed"))
        return _ranks(predicted, observed)

    def bin_frame(self, cell: int) -> Table:
        """The same within one bin of variation."""
        table = self.result.table
        return _ranks(table["predicted_ranks"][cell], table["observed_ranks"][cell])

    def plot(self, ax: Any = None, *, cell: int | None = None, **style: Any) -> Ranks:
        """Draw the two distributions, of all rows or of one bin."""
        ax = self._start(ax, (6.0, 4.0))
        drawn = self.frame() if cell is None else self.bin_frame(cell)
        shown = min(drawn.rows, MOST_RANKS)
        at = np.arange(shown)
        ax.bar(at - 0.2, drawn["predicted"][:shown], 0.36, color=BAND, label="Predicted", **style)
        ax.bar(at + 0.2, drawn["observed"][:shown], 0.36, color=SERIES[0], label="Observed", **style)
        ax.set_xticks(at, [str(rank + 1) for rank in at])
        more = f" (of {drawn.rows})" if drawn.rows > shown else ""
        labelled(ax, f"Rank of the class that occurred{more}", "Share of rows", percent="y", legend="best")
        if cell is not None:
            measure = WORDS.get(self.result.settings["variation"], "variation")
            ax.set_title(f"{measure} in {self.result.table['label'][cell]}", fontsize=9, color=INK)
        return self


def _ranks(predicted: np.ndarray, observed: np.ndarray) -> Table:
    return Table({"rank": np.arange(1, predicted.size + 1), "predicted": predicted, "observed": observed})


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
    views: ClassVar[Mapping[str, type[View]]] = {"variation": Reliability, "uncertainty": Uncertainty, "ranks": Ranks}
    pools = False
