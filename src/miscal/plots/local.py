"""Figures by subpopulation (running totals, the worst in rank) and by neighbourhood (paper 002: a map, the worst)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from textwrap import fill, shorten
from typing import Any, ClassVar, Self

import numpy as np

from miscal.data.errors import refusal
from miscal.plots.base import BAND, DOTS, INK, OVER, QUIET, SERIES, UNDER, Display, View, colours, open_frame, pyplot
from miscal.results import Result, Table, p_text

FEWEST = 20  # rows of a bin that is drawn
MOST = 20_000  # points drawn of a bin
BOTH = ("best", "worst")


class LocalMap(View):
    """Local gap of every row over two features, for the best and the worst bin of the score (paper 002, Figure 2).

    Beside each map: the distribution of the local error over the bin's rows, with the bin's own error as a line. Where
    the curve lies to the right of the line, gaps of both signs cancel in the bin's average.

    Parameters
    ----------
    result : of `by_neighbourhood`
    features : which two features are the axes
    """

    def __init__(self, result: Result, features: tuple[int, int] = (0, 1)) -> None:
        super().__init__(result)
        self.local = result.extra["map"]
        width = self.local.features.shape[1]
        if width < 2 or max(features) >= width:
            got = f"there are {width}"
            raise refusal("must be two features of the map", where="'features'", got=got, hint="measure two columns")
        self.features = features
        self.best, self.worst = self._bins()

    def _bins(self) -> tuple[int, int]:
        local = self.local
        count = len(local.edges) - 1
        rows = np.bincount(local.cells, minlength=count)
        mass = np.bincount(local.cells, local.weight, count)
        with np.errstate(invalid="ignore", divide="ignore"):
            self.gaps = np.bincount(local.cells, local.weight * local.residual, count) / mass
        size = np.where(rows < min(FEWEST, int(rows.max())), np.nan, np.abs(self.gaps))
        return int(np.nanargmin(size)), int(np.nanargmax(size))

    def frame(self) -> Table:
        """The rows of the two bins: their bin, place, signed local gap."""
        local = self.local
        rows = np.flatnonzero((local.cells == self.best) | (local.cells == self.worst))
        first, second = self.features
        return Table(
            {
                "row": rows,
                "bin": np.where(local.cells[rows] == self.worst, "worst", "best"),
                "x": local.features[rows, first],
                "y": local.features[rows, second],
                "gap": local.gap[rows],
            }
        )

    def plot(self, ax: Any = None, **style: Any) -> Self:
        """Draw both bins, or with `ax` the map of the worst bin alone."""
        if ax is not None:
            return super().plot(ax, **style)
        drawn = self.frame()
        shown = BOTH if self.best != self.worst else BOTH[1:]  # all scores in one bin: it is both
        size = {"figsize": (9.6, 4.1 * len(shown)), "layout": "constrained", "width_ratios": (1.35, 1)}
        figure, axes = pyplot().subplots(len(shown), 2, squeeze=False, **size)
        self.figure_, self.ax_ = figure, axes[0, 0]
        points = [self.draw(axes[i, 0], drawn, which, **style) for i, which in enumerate(shown)]
        for i, which in enumerate(shown):
            self._distribution(axes[i, 1], drawn, which)
        bar = figure.colorbar(points[0], ax=axes[:, 0], shrink=0.6, aspect=40, location="bottom", pad=0.01)
        bar.set_label("Predicted minus observed around a row", color=INK)
        self.percent(bar.ax.xaxis)
        bar.outline.set_visible(False)
        return self

    def _average(self, which: str) -> tuple[float, str]:
        edges, cell = self.local.edges, self.best if which == "best" else self.worst
        return float(self.gaps[cell]), f"scores {edges[cell]:.2g} to {edges[cell + 1]:.2g}"

    def draw(self, ax: Any, drawn: Table, which: str = "worst", **style: Any) -> Any:
        """Draw the map of one bin."""
        limit = max(1e-12 if self.means else 0.02, float(np.nanquantile(np.abs(drawn["gap"]), 0.98)))
        inside = np.flatnonzero(drawn["bin"] == which)
        inside = inside[:: max(1, inside.size // MOST)]
        inside = inside[np.argsort(np.abs(drawn["gap"][inside]), kind="stable")]  # the largest gaps on top
        size = float(np.clip(9000 / max(inside.size, 1), 3, 26))
        points = ax.scatter(
            drawn["x"][inside], drawn["y"][inside], c=drawn["gap"][inside], s=size, cmap=colours(), vmin=-limit,
            vmax=limit, linewidths=0, **style,
        )  # fmt: skip
        gap, words = self._average(which)
        title = f"The {which} bin: {words}, on average {self.said(gap, '+.1%')} off"
        first, second = self.features
        names = self.result.settings["columns"]
        plain = len(names) == self.local.features.shape[1] and self.result.settings["reduce"] is None
        self.labelled(ax, *(names[k] if plain else f"Feature {k + 1}" for k in (first, second)), title=title)
        ax.tick_params(colors=INK, labelsize=9)
        open_frame(ax)
        return points

    def _distribution(self, ax: Any, drawn: Table, which: str) -> None:
        error = np.sort(np.abs(drawn["gap"][drawn["bin"] == which]))
        gap, _ = self._average(which)
        ax.plot(error, np.arange(1, error.size + 1) / error.size, color=INK, linewidth=1.5, label="Rows of the bin")
        averages = (("The bin's error", abs(gap), OVER, (4, 3)), ("Average local", error.mean(), UNDER, (1, 2)))
        for what, at, tint, dashes in averages:
            ax.axvline(at, color=tint, linewidth=1.2, linestyle=(0, dashes), label=f"{what} {self.said(at, '.1%')}")
        ax.set(xlim=(0, None), ylim=(0, 1.02))
        words = "Local calibration error at most", "Share of the bin's rows"
        self.labelled(open_frame(ax), *words, percent="xy", legend="lower right")


class WorstNeighbourhoods(View, size=(8.6, 1.4), a_row=0.55):
    """The worst neighbourhoods in words, each with its gap and simultaneous interval."""

    columns = ("label", "score_low", "score_high", "effective_rows", "gap", "gap_low", "gap_high", "p_adjusted")

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw one line a neighbourhood, the worst on top; those beyond noise are filled."""
        place = np.arange(drawn.rows)[::-1]
        tint = np.where(drawn["gap"] > 0, OVER, UNDER)
        ax.axvline(0, color=QUIET, linewidth=0.9)
        ax.hlines(place, drawn["gap_low"], drawn["gap_high"], color=tint, linewidth=1.3, alpha=0.7)
        face = np.where(drawn["p_adjusted"] <= 0.05, tint, "white")
        ax.scatter(drawn["gap"], place, **{"color": face, "edgecolors": tint, "s": 36, "zorder": 3} | style)
        columns = (drawn[name] for name in ("label", "score_low", "score_high", "effective_rows"))
        words = [
            f"{fill(str(label), 58)}\nscores {low:.2g} to {high:.2g}, about {rows:,.0f} rows"
            for label, low, high, rows in zip(*columns, strict=True)
        ]
        ax.set_yticks(place, words, fontsize=8)
        self.labelled(ax, "Predicted minus observed\n95% interval, simultaneous; filled: beyond noise", percent="x")
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)


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
        labels = np.concatenate([np.full(len(curve["x"]), curve["label"], dtype=object) for curve in curves])
        return Table({"label": labels, **columns})

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw only the curves, over one another."""
        for label, color in zip(dict.fromkeys(drawn["label"]), SERIES, strict=False):
            curve = drawn.take(drawn["label"] == label)
            ax.plot(curve["x"], curve["y"], color=color, linewidth=1.3, label=_cut(label, 40), **style)
        ax.axhline(0, color=QUIET, linewidth=0.8)
        self.walk_axes(ax, "best")

    def plot(self, ax: Any = None, **style: Any) -> Self:
        """Draw a panel a subpopulation; on given axes, only the curves, over one another."""
        if ax is not None:
            return super().plot(ax, **style)
        curves = self.result.extra["cumulative"]
        wide = min(len(curves), 2)
        high = -(-len(curves) // wide)
        size = (4.8 * wide, 3.5 * high)
        _, self.axes_ = pyplot().subplots(high, wide, figsize=size, layout="constrained", squeeze=False)
        for panel in self.axes_.flat[len(curves) :]:
            panel.set_visible(False)
        for panel, curve in list(zip(self.axes_.flat, curves, strict=False))[::-1]:
            self._panel(self._start(panel, self.size), curve, style)
        return self

    def _panel(self, ax: Any, curve: dict[str, Any], style: dict[str, Any]) -> None:
        top, bottom = self.walk(curve, **style)
        self.walk_axes(ax)
        found = self.result.table
        row = int(np.flatnonzero(found["label"] == curve["label"])[0])
        ax.set_title(fill(_cut(curve["label"], 90), 46), fontsize=10, color=INK, loc="left")
        text = f"{found['rows'][row]:,} rows · Kuiper {self.said(top - bottom)} = {found['deviations'][row]:.1f} sd"
        if not math.isnan(found["p_adjusted"][row]):
            text += f" · p {p_text(found['p_adjusted'][row], self.result.settings.get('draws'))}"
        ax.text(0.02, 0.02, text, transform=ax.transAxes, fontsize=8, color=INK, va="bottom")
        noise = float(np.max(curve["band"]))
        room = 0.12 * max(top - bottom, 2 * noise)
        ax.set_ylim(min(bottom, -noise) - 1.6 * room, max(top, noise) + room)


class WorstSubpopulations(View, size=(8.2, 1.5), a_row=0.42):
    """The worst subpopulations in rank, in standard deviations, beside what the largest of all would be by chance."""

    columns = ("label", "rows", "deviations", "gap", "interval_off", "p_adjusted")

    def __init__(self, result: Result, count: int = 10) -> None:
        super().__init__(result)
        self.count = count

    def chosen(self) -> Any:
        """The first, which are the worst."""
        return slice(self.count)

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw a line a subpopulation."""
        place = np.arange(drawn.rows)
        mean, critical = self.result.extra["null_mean"], self.result.extra["null_critical"]
        if not math.isnan(critical):
            ax.axvspan(0, critical, color=BAND, alpha=0.55, linewidth=0, label="95% of the largest by chance")
            ax.axvline(mean, color=QUIET, linewidth=1, linestyle=DOTS, label="The largest by chance, on average")
        value = np.where(np.isfinite(drawn["deviations"]), drawn["deviations"], np.nan)
        tint = [OVER if off > 0 else UNDER for off in drawn["interval_off"]]
        ax.hlines(place, 0, value, color=tint, linewidth=1.6)
        ax.scatter(value, place, color=tint, s=36, zorder=3, **style)
        top = float(np.nanmax([np.nanmax(value, initial=1.0), np.nan_to_num(critical)]))
        for k in range(drawn.rows):
            words = f"{drawn['rows'][k]:,} rows, gap {100 * drawn['gap'][k]:+.1f} points"
            ax.text(value[k] + 0.025 * top, k, words, va="center", fontsize=8, color=INK)
        ax.set_yticks(place, [fill(_cut(label, 76), 44) for label in drawn["label"]], fontsize=8)
        ax.invert_yaxis()
        ax.set_xlim(0, 1.48 * top)
        ax.set_xlabel("Range of the cumulative differences, in standard deviations", color=INK)
        for words, color in (("More predicted than happened", OVER), ("Fewer predicted than happened", UNDER)):
            ax.plot([], [], "o-", color=color, label=words)
        ax.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, borderaxespad=0.2)


def _cut(text: str, width: int) -> str:
    return shorten(text, width, placeholder=" ...").replace("$", r"\$")  # matplotlib would read a formula


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
