"""Figures by subpopulation (running totals, the worst in rank) and by neighbourhood (paper 002: a map, the worst)."""

import math
from collections.abc import Mapping, Sequence
from textwrap import fill
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from miscal.plots.along import Cumulative
from miscal.plots.base import BAND, DASHES, DOTS, INK, OVER, QUIET, UNDER, Display, View, colours, short
from miscal.results import Result, Table, p_text

FEWEST = 20  # rows of a bin that is drawn
MOST = 20_000  # points drawn of a bin


class LocalMap(View):
    """Local gap of every row over two features, for the best and the worst bin of the score (paper 002, Figure 2).

    Beside each map: the distribution of the local error over the bin's rows, with the bin's own error as a line. Where
    the curve lies to the right of the line, gaps of both signs cancel in the bin's average. Of more features than two
    the first two are the axes.
    """

    needs = "two features"

    @classmethod
    def suits(cls, result: Result) -> bool:
        """Whether there are two features."""
        return bool(result.extra["map"].features.shape[1] >= 2)

    def __init__(self, result: Result, most: int | None = None) -> None:
        super().__init__(result, most)
        local = self.local = result.extra["map"]
        rows = np.bincount(local.cells)
        weight = np.bincount(local.cells, local.weight)
        self.gaps = np.bincount(local.cells, local.weight * local.residual) / np.where(
            rows > 0, weight, np.nan
        )
        size = np.where(rows >= min(FEWEST, rows.max()), np.abs(self.gaps), np.nan)
        self.best, self.worst = int(np.nanargmin(size)), int(np.nanargmax(size))

    def frame(self) -> Table:
        """The rows of the two bins: their bin, place, signed local gap."""
        local = self.local
        rows = np.flatnonzero((local.cells == self.best) | (local.cells == self.worst))
        which = np.where(local.cells[rows] == self.worst, "worst", "best")
        x, y = local.features[rows, :2].T
        return Table({"row": rows, "bin": which, "x": x, "y": y, "gap": local.gap[rows]})

    def plot(self, ax: Any = None, **style: Any) -> Self:
        """Draw both bins, or with `ax` the map of the worst bin alone."""
        if ax is not None:
            return super().plot(ax, **style)
        drawn = self.frame()
        shown = np.unique(drawn["bin"])  # all scores in one bin: it is the worst
        axes = self.panels(shown.size, 2, (9.6, 4.1 * shown.size), width_ratios=(1.35, 1))
        for (left, right), which in zip(axes, shown, strict=True):
            self.draw(left, drawn, which, **style)
            self._distribution(right, np.abs(drawn["gap"][drawn["bin"] == which]), self._cell(which))
        points = self.ax_.collections[0]
        self.bar_of_colours(
            points, axes[:, 0], "Predicted minus observed around a row", location="bottom", aspect=40
        )
        return self

    def _cell(self, which: str) -> int:
        return self.worst if which == "worst" else self.best

    def draw(self, ax: Any, drawn: Table, which: str = "worst", **style: Any) -> None:
        """Draw the map of one bin."""
        cell = self._cell(which)
        limit = max(1e-12 if self.means else 0.02, float(np.nanquantile(np.abs(drawn["gap"]), 0.98)))
        inside = drawn.take(drawn["bin"] == which)
        inside = inside.take(slice(None, None, max(1, inside.rows // MOST)))
        shown = inside.take(np.argsort(np.abs(inside["gap"]), kind="stable"))  # the largest gaps on top
        area = float(np.clip(9000 / max(shown.rows, 1), 3, 26))
        look = {"s": area, "linewidths": 0, "cmap": colours(), "vmin": -limit, "vmax": limit}
        ax.scatter(shown["x"], shown["y"], c=shown["gap"], **look | style)
        low, high = self.local.edges[cell : cell + 2]
        average = self.said(self.gaps[cell], "+")
        title = f"The {which} bin: scores {low:.2g} to {high:.2g}, on average {average} off"
        names = self.result.settings["columns"]
        if len(names) != self.local.features.shape[1] or self.result.settings["reduce"] is not None:
            names = ("Feature 1", "Feature 2")
        self.labelled(ax, *names[:2], title=title)

    def _distribution(self, ax: Any, error: np.ndarray, cell: int) -> None:
        ax.ecdf(error, color=INK, linewidth=1.5, label="Rows of the bin")
        averages = (
            ("The bin's error", abs(self.gaps[cell]), OVER, DASHES),
            ("Average local", error.mean(), UNDER, DOTS),
        )
        for what, at, tint, dashes in averages:
            ax.axvline(at, color=tint, linewidth=1.2, linestyle=dashes, label=f"{what} {self.said(at)}")
        ax.set(xlim=(0, None), ylim=(0, 1.02))
        names = "Local calibration error at most", "Share of the bin's rows"
        self.labelled(ax, *names, rates="xy", legend="lower right")


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

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw one line a neighbourhood, the worst on top; those beyond noise are filled."""
        names = []
        for label, low, high, rows, *_ in zip(*drawn.values(), strict=True):
            names.append(f"{fill(str(label), 58)}\nscores {low:.2g} to {high:.2g}, about {rows:,.0f} rows")
        tint = self.tinted(ax, drawn["gap"])
        filled = np.where(drawn["p_adjusted"] <= 0.05, tint, "white")
        ends = drawn["gap_low"], drawn["gap_high"]
        ax.axvline(0, color=QUIET, linewidth=0.9)
        look = {"color": filled, "edgecolors": tint, "s": 36} | style
        self.rows(ax, names, drawn["gap"], ends, tint, **look)
        self.labelled(
            ax, "Predicted minus observed\n95% interval, simultaneous; filled: beyond noise", rates="x"
        )
        ax.spines["left"].set_visible(False)


class NeighbourhoodDisplay(Display):
    """By neighbourhood: a "map" of the local error over two features, or the "worst" neighbourhoods in words."""

    word = "neighbourhood"
    views = MappingProxyType({"map": LocalMap, "worst": WorstNeighbourhoods})


class SubpopulationCumulative(Cumulative):
    """Cumulative differences of the full population and of the worst subpopulations, each with its noise band."""

    @property
    def curves(self) -> Sequence[Mapping[str, Any]]:
        """What is drawn, a curve a panel."""
        return list(self.result.extra["cumulative"])

    def told(self, curve: Mapping[str, Any], kuiper: str) -> str:
        """Its rows, its error, also in standard deviations, and the p-value."""
        found = self.result.table
        row = int(np.flatnonzero(found["label"] == curve["label"])[0])
        text = f"{found['rows'][row]:,} rows · Kuiper {kuiper} = {found['deviations'][row]:.1f} sd"
        if not math.isnan(found["p_adjusted"][row]):
            text += f" · p {p_text(found['p_adjusted'][row], self.result.settings.get('draws'))}"
        return text


class WorstSubpopulations(View):
    """The worst subpopulations in rank, in standard deviations, beside what the largest of all would be by chance."""

    columns = ("label", "rows", "deviations", "gap", "interval_off", "p_adjusted")
    size, a_row, most = (8.2, 1.5), 0.42, 10

    def chosen(self) -> Any:
        """The first, which are the worst."""
        return slice(self.most)

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw a line a subpopulation."""
        mean, critical = self.result.extra["null_mean"], self.result.extra["null_critical"]
        if not math.isnan(critical):
            ax.axvspan(0, critical, color=BAND, alpha=0.55, linewidth=0, label="95% of the largest by chance")
            ax.axvline(
                mean, color=QUIET, linewidth=1, linestyle=DOTS, label="The largest by chance, on average"
            )
        value = np.where(np.isfinite(drawn["deviations"]), drawn["deviations"], np.nan)
        names = [fill(short(label, 76), 44) for label in drawn["label"]]
        places = self.rows(ax, names, value, (0, value), self.tinted(ax, drawn["interval_off"]), **style)
        for x, y, rows, gap in zip(value, places, drawn["rows"], drawn["gap"], strict=True):
            ax.text(x, y, f"  {rows:,} rows, gap {self.said(gap, '+')}", va="center", fontsize=8)
        ax.set_xlim(0, 1.48 * np.nanmax([1.0, critical, *value]))
        self.labelled(ax, "Range of the cumulative differences, in standard deviations", legend="above")


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
