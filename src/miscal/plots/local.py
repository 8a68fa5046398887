"""Figures by subpopulation (running totals, the worst in rank) and by neighbourhood (paper 002: a map, the worst)."""

import math
from collections.abc import Sequence
from textwrap import fill
from types import MappingProxyType
from typing import Any

import numpy as np

from miscal.metrics.neighbourhood import NeighbourhoodResult
from miscal.plots.along import Cumulative
from miscal.plots.base import DASHES, DOTS, INK, OVER, QUIET, SHADE, UNDER, Display, View, colours, short
from miscal.results import CumulativeCurve, Result, Table, p_text

FEWEST = 20  # rows of a bin that is drawn
MOST = 20_000  # points drawn of a bin


class LocalMapView(View):
    """Local gap of every row over two features, for the best and the worst bin of the score (paper 002, Figure 2).

    Beside each map: the distribution of the local error over the bin's rows, with the bin's own error as a line. Where
    the curve lies to the right of the line, gaps of both signs cancel in the bin's average. Of more features than two
    the first two are the axes.
    """

    needs = "two features"

    @classmethod
    def suits(cls, result: Result) -> bool:
        """Whether there are two features."""
        return isinstance(result, NeighbourhoodResult) and bool(result.local_map.features.shape[1] >= 2)

    def __init__(self, result: Any, most: int | None = None) -> None:
        super().__init__(result, most)
        local = self.local = result.local_map
        rows = np.bincount(local.cells)
        weight = np.bincount(local.cells, local.weight)
        off = np.bincount(local.cells, local.weight * local.residual)
        self.gaps = off / np.where(rows > 0, weight, np.nan)
        size = np.where(rows >= min(FEWEST, rows.max()), np.abs(self.gaps), np.nan)
        self.best, self.worst = np.nanargmin(size), np.nanargmax(size)

    def frame(self) -> Table:
        """The rows of the two bins: their bin, place, signed local gap."""
        local = self.local
        rows = np.flatnonzero(np.isin(local.cells, (self.best, self.worst)))
        which = np.where(local.cells[rows] == self.worst, "worst", "best")
        x, y = local.features[rows, :2].T
        return Table({"row": rows, "bin": which, "x": x, "y": y, "gap": local.gap[rows]})

    def draw_figure(self, **style: Any) -> None:
        """Draw both bins, or with `ax` the map of the worst bin alone."""
        drawn = self.frame()
        shown = np.unique(drawn["bin"])  # all scores in one bin: it is the worst
        axes = self.panels(shown.size, 2, (9.6, 4.1 * shown.size), width_ratios=(1.35, 1))
        for (left, right), which in zip(axes, shown, strict=True):
            self.ax_ = left
            self.draw(drawn, which, **style)
            self.ax_ = right
            self._distribution(np.abs(drawn["gap"][drawn["bin"] == which]), getattr(self, which))
        self.ax_ = axes[0, 0]
        points, label = self.ax_.collections[0], "Predicted minus observed around a row"
        self.draw_colour_bar(points, axes[:, 0], label, location="bottom", aspect=40)

    def draw(self, drawn: Table, which: str = "worst", **style: Any) -> None:
        """Draw the map of one bin."""
        cell = getattr(self, which)
        errors = np.abs(drawn["gap"])
        limit = max(1e-12 if self.of_means else 0.02, np.nanquantile(errors, 0.98))
        inside = drawn.take(drawn["bin"] == which)
        inside = inside.take(slice(None, None, max(1, inside.rows // MOST)))
        shown = inside.take(np.argsort(np.abs(inside["gap"]), kind="stable"))  # the largest gaps on top
        area = np.clip(9000 / max(shown.rows, 1), 3, 26)
        look = {"s": area, "linewidths": 0, "cmap": colours(), "vmin": -limit, "vmax": limit}
        self.ax_.scatter(shown["x"], shown["y"], c=shown["gap"], **look | style)
        low, high = self.local.edges[cell : cell + 2]
        average = self.format_mean(self.gaps[cell], "+")
        title = f"The {which} bin: scores {low:.2g} to {high:.2g}, on average {average} off"
        names = self.settings["columns"]
        if len(names) != self.local.features.shape[1] or self.settings["reduce"] is not None:
            names = ("Feature 1", "Feature 2")
        self.label_axes(*names[:2], title=title)

    def _distribution(self, error: np.ndarray, cell: int) -> None:
        ax, whole = self.ax_, abs(self.gaps[cell])
        ax.ecdf(error, color=INK, linewidth=1.5, label="Rows of the bin")
        averages = {"The bin's error": (whole, OVER, DASHES), "Average local": (error.mean(), UNDER, DOTS)}
        for label, (at, tint, dashes) in averages.items():
            ax.axvline(
                at, color=tint, linewidth=1.2, linestyle=dashes, label=f"{label} {self.format_mean(at)}"
            )
        ax.set(xlim=(0, None), ylim=(0, 1.02))
        names = "Local calibration error at most", "Share of the bin's rows"
        self.label_axes(*names, rates="xy", legend="lower right")


class WorstNeighbourhoods(View):
    """The worst neighbourhoods in words, each with its gap and simultaneous interval."""

    columns = (
        "label",
        "score_low",
        "score_high",
        "effective_rows",
        "gap",
        "gap_low",
        "gap_high",
        "p_adjusted",
    )
    size, a_row = (8.6, 1.4), 0.55

    def draw(self, drawn: Table, **style: Any) -> None:
        """Draw one line a neighbourhood, the worst on top; significant ones are filled."""
        names = []
        for label, low, high, rows, *_ in zip(*drawn.values(), strict=True):
            names.append(f"{fill(str(label), 58)}\nscores {low:.2g} to {high:.2g}, about {rows:,.0f} rows")
        *_, gap, gap_low, gap_high, p_value = drawn.values()
        tint = self.gap_colours(gap)
        filled = np.where(p_value <= 0.05, tint, "white")
        self.ax_.axvline(0, color=QUIET, linewidth=0.9)
        look = {"color": filled, "edgecolors": tint, "s": 36} | style
        self.draw_rows(names, gap, (gap_low, gap_high), tint, **look)
        across = "Predicted minus observed\n95% interval, simultaneous; filled: significant"
        self.label_axes(across, rates="x")
        self.ax_.spines["left"].set_visible(False)


class NeighbourhoodDisplay(Display):
    """By neighbourhood: a "map" of the local error over two features, or the "worst" neighbourhoods in words."""

    word = "neighbourhood"
    views = MappingProxyType({"map": LocalMapView, "worst": WorstNeighbourhoods})


class SubpopulationCumulative(Cumulative):
    """Cumulative differences of the full population and of the worst subpopulations, each with its noise band."""

    @property
    def curves(self) -> Sequence[CumulativeCurve]:
        """The curves, one per panel, each with its label."""
        return list(self.result.cumulative)

    def panel_text(self, label: str, kuiper: str) -> str:
        """Its rows, its error, also in standard deviations, and the p-value."""
        same = self.table["label"] == label
        rows, deviations, p_value = (
            self.table[name][same][0] for name in ("rows", "deviations", "p_adjusted")
        )
        text = f"{rows:,} rows · Kuiper {kuiper} = {deviations:.1f} sd"
        if math.isnan(p_value):
            return text
        return f"{text} · p {p_text(p_value, self.settings.get('draws'))}"


class WorstSubpopulations(View):
    """The worst subpopulations in rank, in standard deviations, beside what the largest of all would be by chance."""

    columns = ("label", "rows", "deviations", "gap", "interval_off", "p_adjusted")
    size, a_row, most = (8.2, 1.5), 0.42, 10

    def chosen(self) -> Any:
        """The first, which are the worst."""
        return slice(self.most)

    def draw(self, drawn: Table, **style: Any) -> None:
        """Draw a line a subpopulation."""
        ax = self.ax_
        mean, critical = self.result.null_mean, self.result.null_critical
        if not math.isnan(critical):
            ax.axvspan(0, critical, **SHADE | {"alpha": 0.55}, label="95% of the largest by chance")
            look = {"color": QUIET, "linewidth": 1, "linestyle": DOTS}
            ax.axvline(mean, **look, label="The largest by chance, on average")
        value = np.where(np.isfinite(drawn["deviations"]), drawn["deviations"], np.nan)
        names = [fill(short(label, 76), 44) for label in drawn["label"]]
        tint = self.gap_colours(drawn["interval_off"])
        places = self.draw_rows(names, value, (0, value), tint, **style)
        for x, y, rows, gap in zip(value, places, drawn["rows"], drawn["gap"], strict=True):
            ax.text(x, y, f"  {rows:,} rows, gap {self.format_mean(gap, '+')}", va="center", fontsize=8)
        ax.set_xlim(0, 1.48 * np.nanmax([1.0, critical, *value]))
        self.label_axes("Range of the cumulative differences, in standard deviations", legend="above")


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
    views = MappingProxyType({"cumulative": SubpopulationCumulative, "worst": WorstSubpopulations})
