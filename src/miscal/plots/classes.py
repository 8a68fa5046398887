"""The errors of all classes beside what noise alone would show."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.plots.base import INK, OVER, QUIET, Display
from miscal.results import Table

MOST = 25


class ClassDisplay(Display):
    """Error of each class, the largest first, with its noise floor; beyond noise in colour."""

    def frame(self) -> Table:
        """The classes drawn: at most 25, the most significant and then the largest errors first."""
        table = self.result.table
        order = np.lexsort((-table["error"], table["p_adjusted"]))[:MOST]
        return Table({name: table[name] for name in ("class", "error", "noise_floor", "p_adjusted")}).take(order)

    def plot(self, ax: Any = None, *, level: float = 0.05, **style: Any) -> ClassDisplay:
        """Draw a line a class from its noise floor to its error."""
        drawn = self.frame()
        at = np.arange(drawn.rows)[::-1]
        ax = self._start(ax, (6.0, 1.2 + 0.24 * drawn.rows))
        colours = [OVER if p <= level else QUIET for p in drawn["p_adjusted"]]
        ax.hlines(at, drawn["noise_floor"], drawn["error"], color=colours, linewidth=1.2)
        ax.plot(drawn["noise_floor"], at, "|", color=INK, markersize=8, label="Noise floor", **style)
        ax.scatter(drawn["error"], at, color=colours, s=22, zorder=3, label="Error (in colour: beyond noise)")
        ax.set_yticks(at, list(drawn["class"]), fontsize=8)
        ax.set_xlim(left=0)
        ax.set_xlabel("Calibration error of the class against the rest", color=INK)
        more = self.result.table.rows - drawn.rows
        if more > 0:
            ax.set_title(f"{more} more classes are not shown", fontsize=9, color=QUIET, loc="left")
        ax.legend(frameon=False, fontsize=9, loc="lower right")
        return self
