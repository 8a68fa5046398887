"""Figures by neighbourhood (paper 002): map of the local error, and the worst."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from miscal.data.errors import refusal
from miscal.plots.base import INK, OVER, QUIET, UNDER, Display, View, labelled, open_frame, percent_axis, pyplot
from miscal.results import Result, Table

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
            raise refusal("must be two features of the map", where="'features'", got=got, hint="use reduce='tsne'")
        self.features = features
        self.best, self.worst = self._bins()

    def _bins(self) -> tuple[int, int]:
        local = self.local
        count = len(local.edges) - 1
        rows = np.bincount(local.cells, minlength=count)
        mass = np.bincount(local.cells, local.weight, count)
        with np.errstate(invalid="ignore", divide="ignore"):
            gap = np.abs(np.bincount(local.cells, local.weight * local.residual, count) / mass)
        least = min(FEWEST, int(rows.max()))
        gap[rows < least] = np.nan
        return int(np.nanargmin(gap)), int(np.nanargmax(gap))

    def frame(self) -> Table:
        """The rows of the two bins: their bin, place, signed local gap."""
        local = self.local
        rows = np.flatnonzero((local.cells == self.best) | (local.cells == self.worst))
        first, second = self.features
        return Table(
            {
                "row": rows,
                "bin": np.where(local.cells[rows] == self.best, "best", "worst"),
                "x": local.features[rows, first],
                "y": local.features[rows, second],
                "gap": local.gap[rows],
            }
        )

    def plot(self, ax: Any = None, **style: Any) -> LocalMap:
        """Draw both bins, or with `ax` the map of the worst bin alone."""
        drawn = self.frame()
        limit = max(0.02, float(np.nanquantile(np.abs(drawn["gap"]), 0.98)))
        if ax is not None:
            self._start(ax)
            self._map(ax, drawn, "worst", limit, **style)
            return self
        figure, axes = pyplot().subplots(2, 2, figsize=(9.6, 8.2), layout="constrained", width_ratios=(1.35, 1))
        self.figure_, self.ax_ = figure, axes[0, 0]
        points = [self._map(row[0], drawn, which, limit, **style) for row, which in zip(axes, BOTH, strict=True)]
        for row, which in zip(axes, BOTH, strict=True):
            self._distribution(row[1], drawn, which)
        bar = figure.colorbar(points[0], ax=axes[:, 0], shrink=0.6, aspect=40, location="bottom", pad=0.01)
        bar.set_label("Predicted minus observed around a row", color=INK)
        percent_axis(bar.ax.xaxis)
        bar.outline.set_visible(False)
        return self

    def _average(self, which: str) -> tuple[float, str]:
        local, cell = self.local, self.best if which == "best" else self.worst
        inside = local.cells == cell
        gap = float(np.average(local.residual[inside], weights=local.weight[inside]))
        return gap, f"scores {local.edges[cell]:.2g} to {local.edges[cell + 1]:.2g}"

    def _map(self, ax: Any, drawn: Table, which: str, limit: float, **style: Any) -> Any:
        from matplotlib.colors import LinearSegmentedColormap

        colours = LinearSegmentedColormap.from_list("gap", [UNDER, "#e9edf0", OVER])
        inside = np.flatnonzero(drawn["bin"] == which)
        inside = inside[:: max(1, inside.size // MOST)]
        inside = inside[np.argsort(np.abs(drawn["gap"][inside]), kind="stable")]  # the largest gaps on top
        size = float(np.clip(9000 / max(inside.size, 1), 3, 26))
        points = ax.scatter(
            drawn["x"][inside], drawn["y"][inside], c=drawn["gap"][inside], s=size, cmap=colours, vmin=-limit,
            vmax=limit, linewidths=0, **style,
        )  # fmt: skip
        gap, words = self._average(which)
        ax.set_title(f"The {which} bin: {words}, on average {gap:+.1%} off", fontsize=10, color=INK, loc="left")
        first, second = self.features
        names = self.result.settings["columns"]
        plain = len(names) == self.local.features.shape[1] and self.result.settings["reduce"] is None
        labelled(ax, *(names[k] if plain else f"Feature {k + 1}" for k in (first, second)))
        ax.tick_params(colors=INK, labelsize=9)
        open_frame(ax)
        return points

    def _distribution(self, ax: Any, drawn: Table, which: str) -> None:
        error = np.sort(np.abs(drawn["gap"][drawn["bin"] == which]))
        gap, _ = self._average(which)
        ax.plot(error, np.arange(1, error.size + 1) / error.size, color=INK, linewidth=1.5, label="Rows of the bin")
        ax.axvline(abs(gap), color=OVER, linewidth=1.2, linestyle=(0, (4, 3)), label=f"The bin's error {abs(gap):.1%}")
        ax.axvline(
            error.mean(), color=UNDER, linewidth=1.2, linestyle=(0, (1, 2)), label=f"Average local {error.mean():.1%}"
        )
        ax.set_ylim(0, 1.02)
        ax.set_xlim(0, None)
        words = "Local calibration error at most", "Share of the bin's rows"
        labelled(open_frame(ax), *words, percent="xy", legend="lower right")


class Worst(View):
    """The worst neighbourhoods in words, each with its gap and simultaneous interval."""

    def frame(self) -> Table:
        """Words, scores, rows, gaps and intervals."""
        names = ("label", "score_low", "score_high", "effective_rows", "gap", "gap_low", "gap_high", "p_adjusted")
        return Table({name: self.result.table[name] for name in names})

    def plot(self, ax: Any = None, **style: Any) -> Worst:
        """Draw one line a neighbourhood, the worst on top; those beyond noise are filled."""
        drawn = self.frame()
        ax = self._start(ax, (8.6, 1.4 + 0.55 * max(drawn.rows, 1)))
        place = np.arange(drawn.rows)[::-1]
        ax.axvline(0, color=QUIET, linewidth=0.9)
        for at, gap, low, high, p in zip(
            place, drawn["gap"], drawn["gap_low"], drawn["gap_high"], drawn["p_adjusted"], strict=True
        ):
            tint = OVER if gap > 0 else UNDER
            ax.plot([low, high], [at, at], color=tint, linewidth=1.3, alpha=0.7)
            face = tint if p <= 0.05 else "white"
            ax.plot([gap], [at], "o", color=tint, markerfacecolor=face, markersize=6, **style)
        words = [
            f"{textwrap.fill(str(label), 58)}\nscores {low:.2g} to {high:.2g}, about {rows:,.0f} rows"
            for label, low, high, rows in zip(
                drawn["label"], drawn["score_low"], drawn["score_high"], drawn["effective_rows"], strict=True
            )
        ]
        ax.set_yticks(place, words, fontsize=8)
        ax.set_xlabel(
            "Predicted minus observed\n95% interval, simultaneous; filled: beyond noise", color=INK, fontsize=9
        )
        percent_axis(ax.xaxis)
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)
        return self


class NeighbourhoodDisplay(Display):
    """By neighbourhood: a "map" of the local error over two features, or the "worst" neighbourhoods in words."""

    word = "neighbourhood"
    views: ClassVar[Mapping[str, type[View]]] = {"map": LocalMap, "worst": Worst}

    @classmethod
    def usual(cls, result: Result) -> str:
        """The map where there are two features or more, else the worst neighbourhoods."""
        return "map" if result.extra["map"].features.shape[1] >= 2 else "worst"
