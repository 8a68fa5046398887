"""The choice among recalibrators: what each saves on unseen rows, and the errors left by the audited columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.plots.base import INK, OVER, QUIET, SERIES, pyplot
from miscal.results import Table

MOST_COLUMNS = 6


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
            from miscal.plots.base import percent_axis

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
