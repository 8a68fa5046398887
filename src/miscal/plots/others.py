"""Figures of results beside the six words: the periods of an audit, and all classes at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.plots.base import BAND, INK, OVER, QUIET, UNDER, View, labelled
from miscal.results import Table

MOST_CLASSES = 25
NAMED = 12  # periods named under the axis
CHANGED = ("worse", "better", "moved")


class Classes(View):
    """Error of each class, the largest first, with its noise floor; beyond noise in colour."""

    def frame(self) -> Table:
        """The classes drawn: at most 25, the most significant and then the largest errors first."""
        table = self.result.table
        order = np.lexsort((-table["error"], table["p_adjusted"]))[:MOST_CLASSES]
        return Table({name: table[name] for name in ("class", "error", "noise_floor", "p_adjusted")}).take(order)

    def plot(self, ax: Any = None, *, level: float = 0.05, **style: Any) -> Classes:
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
        labelled(ax, "Calibration error of the class against the rest", legend="lower right")
        more = self.result.table.rows - drawn.rows
        if more > 0:
            ax.set_title(f"{more} more classes are not shown", fontsize=9, color=QUIET, loc="left")
        return self


class Periods(View):
    """Predicted minus observed of every period with its simultaneous interval; steps that changed are named.

    The band is where noise alone keeps each period 95 times in 100. Rows without a date are left out.
    """

    def frame(self) -> Table:
        """Period, gap with its interval, the band of noise, the adjusted p-value and what became of it."""
        table = self.result.table
        names = ("label", "gap", "gap_low", "gap_high", "p_adjusted", "verdict")
        drawn = {name: table[name] for name in names}
        drawn |= {"noise_low": table["predicted"] - table["band_high"]}
        drawn |= {"noise_high": table["predicted"] - table["band_low"]}
        return Table(drawn).take(table["verdict"] != "no date")

    def plot(self, ax: Any = None, **style: Any) -> Periods:
        """Draw the gaps in time."""
        ax = self._start(ax, (7.0, 3.8))
        drawn = self.frame()
        place = np.arange(drawn.rows)
        ax.fill_between(place, drawn["noise_low"], drawn["noise_high"], color=BAND, linewidth=0, label="Noise alone")
        ax.axhline(0, color=QUIET, linewidth=0.8)
        ax.plot(place, drawn["gap"], color=QUIET, linewidth=1)
        real = np.nan_to_num(drawn["p_adjusted"], nan=1.0) <= float(self.result.settings.get("level", 0.05))
        groups = ((~real, QUIET, "Within noise"), (real & (drawn["gap"] > 0), OVER, "Predicted too high"),
                  (real & (drawn["gap"] < 0), UNDER, "Predicted too low"))  # fmt: skip
        for chosen, colour, words in groups:
            if chosen.any():
                gap = drawn["gap"][chosen]
                ends = np.abs(np.stack([gap - drawn["gap_low"][chosen], drawn["gap_high"][chosen] - gap]))
                options = {"fmt": "o", "markersize": 5, "color": colour, "label": words} | style
                ax.errorbar(place[chosen], gap, ends, **options)
        for i in np.flatnonzero(np.isin(drawn["verdict"].astype(str), CHANGED)):
            ax.annotate(str(drawn["verdict"][i]), (i, drawn["gap_high"][i]), (0, 4), textcoords="offset points",
                        ha="center", fontsize=8, color=INK)  # fmt: skip
        some = place[:: max(1, -(-drawn.rows // NAMED))]
        ax.set_xticks(some, [str(drawn["label"][i]) for i in some])
        labelled(ax, "", "Predicted minus observed", percent="y", legend="best")
        ax.set_title(self.result.name, loc="left", fontsize=10, color=INK)
        return self
