"""Figures by subpopulation: cumulative differences, and the worst in rank."""

from __future__ import annotations

import math
from collections.abc import Mapping
from textwrap import shorten, wrap
from typing import Any, ClassVar

import numpy as np

from miscal.plots.base import BAND, INK, OVER, QUIET, SERIES, UNDER, WALK_X, WALK_Y, Display, View, labelled, pyplot
from miscal.results import Result, Table

DASHES = (0, (3, 3))


class Cumulative(View):
    """Cumulative differences of the full population and of the worst subpopulations, each with its noise band.

    A rising stretch is over-predicted, a falling one under-predicted. The range of a curve, between the dashed lines,
    is the subpopulation's Kuiper error.
    """

    def frame(self) -> Table:
        """One row a point: label, share of rows, score, running total and half-width of its band."""
        curves = self.result.extra["cumulative"]
        names = ("x", "score", "y", "band")
        columns: dict[str, Any] = {name: np.concatenate([curve[name] for curve in curves]) for name in names}
        labels = np.concatenate([np.full(len(curve["x"]), curve["label"], dtype=object) for curve in curves])
        return Table({"label": labels, **columns})

    def plot(self, ax: Any = None, **style: Any) -> Cumulative:
        """Draw a panel a subpopulation; on given axes, only the curves, over one another."""
        curves = self.result.extra["cumulative"]
        if ax is not None:
            self._start(ax)
            for curve, color in zip(curves, SERIES, strict=False):
                ax.plot(curve["x"], curve["y"], color=color, linewidth=1.3, label=_cut(curve["label"], 40), **style)
            ax.axhline(0, color=QUIET, linewidth=0.8)
            self._axes(ax)
            ax.legend(frameon=False, fontsize=8)
            return self
        count = len(curves)
        wide = min(count, 2)
        figure, panels = pyplot().subplots(
            -(-count // wide), wide, figsize=(4.8 * wide, 3.5 * -(-count // wide)), layout="constrained", squeeze=False
        )
        for panel, curve in zip(panels.flat, curves, strict=False):
            self._start(panel)
            self._panel(panel, curve, style)
        for panel in list(panels.flat)[count:]:
            panel.set_visible(False)
        self.ax_, self.figure_ = panels[0, 0], figure
        self.axes_ = panels
        return self

    def _panel(self, ax: Any, curve: dict[str, Any], style: dict[str, Any]) -> None:
        x, y, band = (np.asarray(curve[name]) for name in ("x", "y", "band"))
        ax.fill_between(x, -band, band, color=BAND, alpha=0.8, linewidth=0)
        ax.axhline(0, color=QUIET, linewidth=0.8)
        ax.plot(x, y, color=INK, linewidth=1.4, **style)
        top, bottom = max(0.0, float(y.max())), min(0.0, float(y.min()))
        for level, tint in ((top, OVER), (bottom, UNDER)):
            ax.axhline(level, color=tint, linewidth=0.9, linestyle=DASHES)
        found = self.result.table
        row = int(np.flatnonzero(found["label"] == curve["label"])[0])
        ax.set_title("\n".join(wrap(_cut(curve["label"], 90), 46)), fontsize=10, color=INK, loc="left")
        text = f"{found['rows'][row]:,} rows · Kuiper {top - bottom:.2%} = {found['deviations'][row]:.1f} sd"
        if not math.isnan(found["p_adjusted"][row]):
            text += f" · p {_p(found['p_adjusted'][row], self.result.settings.get('draws'))}"
        ax.text(0.02, 0.02, text, transform=ax.transAxes, fontsize=8, color=INK, va="bottom")
        room = 0.12 * max(top - bottom, 2 * float(band.max()))
        ax.set_ylim(min(bottom, -float(band.max())) - 1.6 * room, max(top, float(band.max())) + room)
        self._axes(ax)

    def _axes(self, ax: Any) -> None:
        ax.set_xlim(0, 1)
        labelled(ax, WALK_X, WALK_Y, percent="xy")


class Worst(View):
    """The worst subpopulations in rank, in standard deviations, beside what the largest of all would be by chance."""

    def __init__(self, result: Result, count: int = 10) -> None:
        super().__init__(result)
        self.count = count

    def frame(self) -> Table:
        """Label, rows, deviations, gap and adjusted p-value of the worst."""
        names = ("label", "rows", "deviations", "gap", "interval_off", "p_adjusted")
        table = self.result.table
        return Table({name: table[name][: self.count] for name in names})

    def plot(self, ax: Any = None, **style: Any) -> Worst:
        """Draw a line a subpopulation."""
        drawn = self.frame()
        ax = self._start(ax, (8.2, 0.42 * drawn.rows + 1.5))
        place = np.arange(drawn.rows)
        mean, critical = self.result.extra["null_mean"], self.result.extra["null_critical"]
        if not math.isnan(critical):
            ax.axvspan(0, critical, color=BAND, alpha=0.55, linewidth=0, label="95% of the largest by chance")
            ax.axvline(mean, color=QUIET, linewidth=1, linestyle=DASHES, label="The largest by chance, on average")
        value = np.where(np.isfinite(drawn["deviations"]), drawn["deviations"], np.nan)
        tint = [OVER if off > 0 else UNDER for off in drawn["interval_off"]]
        ax.hlines(place, 0, value, color=tint, linewidth=1.6)
        ax.scatter(value, place, color=tint, s=36, zorder=3, **style)
        top = float(np.nanmax([np.nanmax(value, initial=1.0), np.nan_to_num(critical)]))
        for k in range(drawn.rows):
            words = f"{drawn['rows'][k]:,} rows, gap {100 * drawn['gap'][k]:+.1f} points"
            ax.text(value[k] + 0.025 * top, k, words, va="center", fontsize=8, color=INK)
        ax.set_yticks(place, ["\n".join(wrap(_cut(label, 76), 44)) for label in drawn["label"]], fontsize=8)
        ax.invert_yaxis()
        ax.set_xlim(0, 1.48 * top)
        ax.set_xlabel("Range of the cumulative differences, in standard deviations", color=INK)
        colours = [("More predicted than happened", OVER), ("Fewer predicted than happened", UNDER)]
        for words, color in colours:
            ax.plot([], [], "o-", color=color, label=words)
        ax.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, borderaxespad=0.2)
        return self


def _cut(text: str, width: int) -> str:
    return shorten(text, width, placeholder=" ...").replace("$", r"\$")  # matplotlib would read a formula


def _p(value: float, draws: Any) -> str:
    if draws and value <= 1.0 / (1.0 + draws):
        return f"≤ {value:.2g}"
    return f"= {value:.2g}" if value >= 1e-4 else "< 0.0001"


class SubpopulationDisplay(Display):
    """By subpopulation: "cumulative" (differences of the worst, a panel each) or "worst" (in rank, beside chance).

    Examples
    --------
    >>> import numpy as np, miscal
    >>> rng = np.random.default_rng(0)
    >>> score, age = rng.random(500), rng.integers(20, 60, 500)
    >>> p = miscal.Predictions(rng.random(500) < score, score, columns={"age": age})
    >>> result = miscal.by_subpopulation(p, subpopulations=10, simulations=19)
    >>> sorted(miscal.plots.SubpopulationDisplay(result).frame())
    ['band', 'label', 'score', 'x', 'y']
    """

    word = "subpopulation"
    views: ClassVar[Mapping[str, type[View]]] = {"cumulative": Cumulative, "worst": Worst}
