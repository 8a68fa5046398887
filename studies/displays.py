"""Figures that only the studies draw: comparisons of several models, recalibrations and candidates."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal import Result
from miscal.data.errors import refusal
from miscal.plots.base import INK, OVER, QUIET, SERIES, View, percent_axis, pyplot
from miscal.results import Table, p_text

MOST_COLUMNS = 6  # whose errors are drawn beside the losses of candidates


class RepairedSubpopulationsDisplay(View):
    """Multi-calibration error of several predictions of the same rows, such as before and after a repair.

    The bar is the error, the tick what calibrated predictions would show on average, the line the 95% interval.
    """

    size, a_row = (6.8, 1.3), 0.5

    def __init__(self, results: dict[str, Result]) -> None:
        super().__init__(next(iter(results.values())))
        self.results = dict(results)

    def frame(self) -> Table:
        """Name, error, floor, interval and p-value of each."""
        found = list(self.results.values())
        return Table(
            {
                "label": list(self.results),
                "value": [result.value for result in found],
                "noise_floor": [result.noise_floor for result in found],
                "low": [result.interval[0] for result in found],
                "high": [result.interval[1] for result in found],
                "p_value": [result.p_value for result in found],
            }
        )

    def draw(self, drawn: Table) -> None:
        """Draw a bar each."""
        ax = self.ax_
        place = np.arange(drawn.rows)
        ax.barh(place, drawn["value"], height=0.56, color=SERIES[0], alpha=0.85)
        ax.hlines(place, drawn["low"], drawn["high"], color=INK, linewidth=1, label="95% interval")
        floor = drawn["noise_floor"]
        ax.vlines(floor, place - 0.34, place + 0.34, color=OVER, linewidth=2.2, label="If calibrated, on average")
        top = float(np.nanmax(np.concatenate([drawn["value"], drawn["high"]])))
        for k in range(drawn.rows):
            draws = list(self.results.values())[k].settings.get("draws")
            end = max(drawn["value"][k], np.nan_to_num(drawn["high"][k]))
            words = f"{drawn['value'][k]:.4f}" + (
                f", p {p_text(drawn['p_value'][k], draws)}" if drawn["p_value"][k] >= 0 else ""
            )
            ax.text(end + 0.015 * top, k, words, va="center", fontsize=8.5, color=INK)
        ax.set_yticks(place, list(drawn["label"]), fontsize=9)
        ax.invert_yaxis()
        ax.set_xlim(0, 1.32 * top)
        ax.set_xlabel("Multi-calibration error", color=INK)
        ax.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


class ChoiceDisplay:
    """What `choose` compared: log loss against doing nothing with its interval, and the error by each audited column.

    Parameters
    ----------
    chosen : recalibrator that `choose` returned
    """

    ax_: Any
    figure_: Any

    def __init__(self, chosen: Any) -> None:
        if getattr(chosen, "table", None) is None or "log_loss_difference" not in chosen.table:
            what = "must be a recalibrator that choose returned, with at least one candidate"
            raise refusal(what, where="'chosen'", got=f"it is {type(chosen).__name__}")
        self.chosen = chosen

    def frame(self) -> Table:
        """Exactly what is drawn: candidates with a finite log loss, in the order tried."""
        table = self.chosen.table
        names = ["name", "log_loss_difference", "difference_low", "difference_high"]
        names += [name for name in table if name.startswith("by ")][:MOST_COLUMNS]
        return Table({name: table[name] for name in names}).take(np.isfinite(table["log_loss_difference"]))

    def plot(self, axes: Any = None) -> ChoiceDisplay:
        """Draw one or two panels; `axes` are as many axes, new ones by default."""
        drawn = self.frame()
        columns = [name for name in drawn if name.startswith("by ")]
        panels = 2 if columns else 1
        if axes is None:
            size = (4.8 * panels + 1.4, 1.4 + 0.3 * drawn.rows)
            axes = pyplot().subplots(1, panels, figsize=size, layout="constrained", sharey=True, squeeze=False)[1][0]
        axes = np.atleast_1d(np.asarray(axes, dtype=object))
        at = np.arange(drawn.rows)[::-1]
        self._losses(axes[0], drawn, at)
        for colour, name in zip(SERIES, columns, strict=False):
            axes[1].plot(drawn[name], at, "o", color=colour, markersize=5, label=name)
        if columns:
            percent_axis(axes[1].xaxis)
            axes[1].set_xlabel("Error by the audited columns, unseen rows", color=INK)
            axes[1].set_xlim(left=0)
            axes[1].legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
        for ax in axes:
            ax.grid(axis="y", color="#eceff2", linewidth=0.8)
            ax.set_axisbelow(True)
            for side in ("top", "right"):
                ax.spines[side].set_visible(False)
        self.ax_, self.figure_ = axes[0], axes[0].figure
        return self

    def _losses(self, ax: Any, drawn: Table, at: np.ndarray) -> None:
        winner = drawn["name"] == self.chosen.name
        colours = [OVER if one else QUIET for one in winner]
        ax.axvline(0.0, color=INK, linewidth=0.8)
        ax.hlines(at, drawn["difference_low"], drawn["difference_high"], color=colours, linewidth=1.6)
        ax.scatter(drawn["log_loss_difference"], at, color=colours, s=26, zorder=3)
        ax.set_yticks(at, list(drawn["name"]), fontsize=8)
        for label, one in zip(ax.get_yticklabels(), winner, strict=True):
            label.set_fontweight("bold" if one else "normal")
        ax.set_xlabel("Log loss against doing nothing, unseen rows (95%)", color=INK)
        left_out = self.chosen.table.rows - drawn.rows
        if left_out:
            ax.set_title(f"not drawn: {left_out} that ruled out what happened", fontsize=8, color=QUIET, loc="left")
