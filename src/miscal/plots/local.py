"""Figures by subpopulation (running totals, the worst in rank) and by neighbourhood (paper 002: a map, the worst)."""

import math
from collections.abc import Mapping
from textwrap import fill
from typing import Any, ClassVar, Self

import numpy as np

from miscal.data.errors import refusal
from miscal.plots.base import BAND, DASHES, DOTS, INK, OVER, QUIET, SERIES, UNDER, Display, View, colours, short
from miscal.results import Result, Table, p_text

FEWEST = 20  # rows of a bin that is drawn
MOST = 20_000  # points drawn of a bin


class LocalMap(View):
    """Local gap of every row over two features, for the best and the worst bin of the score (paper 002, Figure 2).

    Beside each map: the distribution of the local error over the bin's rows, with the bin's own error as a line. Where
    the curve lies to the right of the line, gaps of both signs cancel in the bin's average. Of more features than two
    the first two are the axes.
    """

    def check(self) -> None:
        """It needs two features, and finds the two bins."""
        local = self.local = self.result.extra["map"]
        if local.features.shape[1] < 2:
            raise refusal("needs two features", where="a map", got="there is one", hint="measure two columns")
        count = len(local.edges) - 1
        rows = np.bincount(local.cells, minlength=count)
        with np.errstate(invalid="ignore", divide="ignore"):
            sums = np.bincount(local.cells, local.weight * local.residual, count)
            self.gaps = sums / np.bincount(local.cells, local.weight, count)
        size = np.where(rows < min(FEWEST, int(rows.max())), np.nan, np.abs(self.gaps))
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
        shown = dict.fromkeys([self.best, self.worst])  # all scores in one bin: it is both
        axes = self.panels(len(shown), 2, (9.6, 4.1 * len(shown)), width_ratios=(1.35, 1))
        for (left, right), cell in zip(axes, shown, strict=True):
            self.draw(left, drawn, cell, **style)
            self._distribution(right, np.abs(self.local.gap[self.local.cells == cell]), cell)
        points = self.ax_.collections[0]
        self.bar_of_colours(points, axes[:, 0], "Predicted minus observed around a row", location="bottom", aspect=40)
        return self

    def draw(self, ax: Any, drawn: Table, cell: int | None = None, **style: Any) -> None:
        """Draw the map of one bin, of the worst by default."""
        cell = self.worst if cell is None else cell
        which = "worst" if cell == self.worst else "best"
        limit = max(1e-12 if self.means else 0.02, float(np.nanquantile(np.abs(drawn["gap"]), 0.98)))
        inside = np.flatnonzero(drawn["bin"] == which)
        inside = inside[:: max(1, inside.size // MOST)]
        shown = drawn.take(inside[np.argsort(np.abs(drawn["gap"][inside]), kind="stable")])  # the largest gaps on top
        look = {"s": float(np.clip(9000 / max(shown.rows, 1), 3, 26)), "linewidths": 0} | style
        ax.scatter(shown["x"], shown["y"], c=shown["gap"], cmap=colours(), vmin=-limit, vmax=limit, **look)
        low, high = self.local.edges[cell : cell + 2]
        average = self.said(self.gaps[cell], "+.1%")
        title = f"The {which} bin: scores {low:.2g} to {high:.2g}, on average {average} off"
        names = self.result.settings["columns"]
        plain = len(names) == self.local.features.shape[1] and self.result.settings["reduce"] is None
        self.labelled(ax, *(names[:2] if plain else ("Feature 1", "Feature 2")), title=title)

    def _distribution(self, ax: Any, error: np.ndarray, cell: int) -> None:
        ax.ecdf(error, color=INK, linewidth=1.5, label="Rows of the bin")
        averages = ("The bin's error", abs(self.gaps[cell]), OVER, DASHES), ("Average local", error.mean(), UNDER, DOTS)
        for what, at, tint, dashes in averages:
            ax.axvline(at, color=tint, linewidth=1.2, linestyle=dashes, label=f"{what} {self.said(at, '.1%')}")
        ax.set(xlim=(0, None), ylim=(0, 1.02))
        names = "Local calibration error at most", "Share of the bin's rows"
        self.labelled(ax, *names, rates="x", shares="y", legend="lower right")


class WorstNeighbourhoods(View, size=(8.6, 1.4), a_row=0.55):
    """The worst neighbourhoods in words, each with its gap and simultaneous interval."""

    columns = ("label", "score_low", "score_high", "effective_rows", "gap", "gap_low", "gap_high", "p_adjusted")

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw one line a neighbourhood, the worst on top; those beyond noise are filled."""
        columns = (drawn[name] for name in ("label", "score_low", "score_high", "effective_rows"))
        names = [
            f"{fill(str(label), 58)}\nscores {low:.2g} to {high:.2g}, about {rows:,.0f} rows"
            for label, low, high, rows in zip(*columns, strict=True)
        ]
        tint = np.where(drawn["gap"] > 0, OVER, UNDER)
        look = {"color": np.where(drawn["p_adjusted"] <= 0.05, tint, "white"), "edgecolors": tint, "s": 36} | style
        ax.axvline(0, color=QUIET, linewidth=0.9)
        self.rows(ax, names, drawn["gap"], (drawn["gap_low"], drawn["gap_high"]), tint, **look)
        self.labelled(ax, "Predicted minus observed\n95% interval, simultaneous; filled: beyond noise", rates="x")
        ax.spines["left"].set_visible(False)


class NeighbourhoodDisplay(Display):
    """By neighbourhood: a "map" of the local error over two features, or the "worst" neighbourhoods in words."""

    word = "neighbourhood"
    views: ClassVar[Mapping[str, type[View]]] = {"map": LocalMap, "worst": WorstNeighbourhoods}

    @classmethod
    def usual(cls, result: Result) -> str:
        """The map where there are two features or more, else the worst neighbourhoods."""
        return "map" if result.extra["map"].features.shape[1] >= 2 else "worst"


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
        labels = np.repeat(np.array([curve["label"] for curve in curves], dtype=object), [len(c["x"]) for c in curves])
        return Table({"label": labels, **columns})

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw only the curves, over one another."""
        for label, color in zip(dict.fromkeys(drawn["label"]), SERIES, strict=False):
            curve = drawn.take(drawn["label"] == label)
            ax.plot(curve["x"], curve["y"], color=color, linewidth=1.3, label=short(label, 40), **style)
        ax.axhline(0, color=QUIET, linewidth=0.8)
        self.walk_axes(ax, legend="best")

    def plot(self, ax: Any = None, **style: Any) -> Self:
        """Draw a panel a subpopulation; on given axes, only the curves, over one another."""
        if ax is not None:
            return super().plot(ax, **style)
        curves = self.result.extra["cumulative"]
        wide = min(len(curves), 2)
        high = -(-len(curves) // wide)
        self.axes_ = self.panels(high, wide, (4.8 * wide, 3.5 * high))
        for panel, curve in zip(self.axes_.flat, curves, strict=False):
            self._panel(panel, curve, style)
        for panel in self.axes_.flat[len(curves) :]:
            panel.set_visible(False)
        return self

    def _panel(self, ax: Any, curve: dict[str, Any], style: dict[str, Any]) -> None:
        top, bottom = self.walk(ax, curve, **style)
        self.walk_axes(ax, title=fill(short(curve["label"], 90), 46))
        found = self.result.table
        row = int(np.flatnonzero(found["label"] == curve["label"])[0])
        text = f"{found['rows'][row]:,} rows · Kuiper {self.said(top - bottom)} = {found['deviations'][row]:.1f} sd"
        if not math.isnan(found["p_adjusted"][row]):
            text += f" · p {p_text(found['p_adjusted'][row], self.result.settings.get('draws'))}"
        ax.text(0.02, 0.02, text, transform=ax.transAxes, fontsize=8, color=INK, va="bottom")
        ax.margins(y=0.15)


class WorstSubpopulations(View, size=(8.2, 1.5), a_row=0.42, most=10):
    """The worst subpopulations in rank, in standard deviations, beside what the largest of all would be by chance."""

    columns = ("label", "rows", "deviations", "gap", "interval_off", "p_adjusted")

    def chosen(self) -> Any:
        """The first, which are the worst."""
        return slice(self.most)

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw a line a subpopulation."""
        mean, critical = self.result.extra["null_mean"], self.result.extra["null_critical"]
        if not math.isnan(critical):
            ax.axvspan(0, critical, color=BAND, alpha=0.55, linewidth=0, label="95% of the largest by chance")
            ax.axvline(mean, color=QUIET, linewidth=1, linestyle=DOTS, label="The largest by chance, on average")
        value = np.where(np.isfinite(drawn["deviations"]), drawn["deviations"], np.nan)
        off = drawn["interval_off"]
        names = [fill(short(label, 76), 44) for label in drawn["label"]]
        at = self.rows(ax, names, value, (0, value), np.where(off > 0, OVER, UNDER), **style)
        for k, (rows, gap) in enumerate(zip(drawn["rows"], drawn["gap"], strict=True)):
            said = f"  {rows:,} rows, gap {100 * gap:+.1f} points"
            ax.text(value[k], at[k], said, va="center", fontsize=8, color=INK)
        ax.set_xlim(0, 1.48 * float(np.nanmax([np.nanmax(value, initial=1.0), np.nan_to_num(critical)])))
        for _, tint, words in self.sides(off):
            ax.plot([], [], "o-", color=tint, label=words)
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
    views: ClassVar[Mapping[str, type[View]]] = {"cumulative": Cumulative, "worst": WorstSubpopulations}
