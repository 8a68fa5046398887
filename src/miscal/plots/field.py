"""Figures by field: the funnel of all levels, the worst levels before and after shrinkage, a map of two fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from miscal.data.errors import refusal
from miscal.data.libraries import special
from miscal.plots.base import BAND, DASHES, INK, OVER, QUIET, UNDER, Display, View, colours, short
from miscal.results import Result, Table

FEW = 30  # levels that a list can show
NAMED = 5
RIGHT = 0.75  # share of the axis from which on names go to the left of their points
HALO = {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.8}
TIE = {"arrowstyle": "-", "color": INK, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2}


class Funnel(View, size=(7.0, 4.6)):
    """Gap of every level against its size, with limits within which levels of a calibrated model lie.

    A level's size is the rows at the mean rate that would be as noisy, so that one pair of limits serves all. The inner
    limits hold 95% of calibrated levels, the outer all of them at once with probability 95% (Bonferroni). Levels beyond
    noise by their own, exact test are coloured.
    """

    def frame(self) -> Table:
        """Level, its size, gap, and whether it is beyond noise."""
        table, tally = self.result.table, self.result.extra["tally"]
        variance = (table["error"] * table["weight"]) ** 2 if self.means else tally.variance
        filled = (tally.weight > 0) & (variance > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            size = self._unit() * tally.weight**2 / variance
        real = np.nan_to_num(table["p_adjusted"], nan=1.0) < 0.05
        drawn = {"label": table["label"], "size": size, "gap": table["gap"], "real": real, "p_value": table["p_value"]}
        return Table({name: values[filled] for name, values in drawn.items()})

    def _unit(self) -> float:
        tally = self.result.extra["tally"]
        if self.means:  # the noise that is usual
            return float(np.nanmedian(self.result.table["error"] ** 2 * self.result.table["weight"]))
        mean = float(tally.predicted.sum() / tally.weight.sum())
        return mean * (1.0 - mean)

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw every level and the limits."""
        size, gap, real = drawn["size"], drawn["gap"], drawn["real"]
        ax.axhline(0, color=QUIET, linewidth=0.8)
        if size.size:
            self._limits(ax, size, int(np.count_nonzero(~np.isnan(drawn["p_value"]))))
        options = {"s": 14 if size.size < 2000 else 5, "linewidth": 0, "rasterized": size.size > 2000} | style
        ax.scatter(size[~real], gap[~real], color=QUIET, alpha=0.5, label="Within noise", **options)
        for side, color, words in ((gap > 0, OVER, "Predicted too high"), (gap < 0, UNDER, "Predicted too low")):
            if (real & side).any():
                ax.scatter(size[real & side], gap[real & side], color=color, label=words, **options | {"s": 22})
        self._name(ax, drawn)
        ax.set_xscale("log")
        said = "Size of the level (rows at the mean rate that would be as noisy)", "Predicted minus observed"
        self.labelled(ax, *said, percent="y", legend="upper right", title=self._title())

    def _limits(self, ax: Any, size: np.ndarray, tests: int) -> None:
        grid = np.geomspace(size.min(), size.max() * 1.001, 200)
        error = np.sqrt(self._unit() / grid)
        outer = float(-special.ndtri(0.025 / max(tests, 1)))
        ax.fill_between(grid, -1.96 * error, 1.96 * error, color=BAND, alpha=0.8, linewidth=0, label="95% of levels")
        for sign, label in ((-1, "All levels at once"), (1, None)):
            ax.plot(grid, sign * outer * error, color=QUIET, linewidth=1, linestyle=DASHES, label=label)
        reach = 1.15 * max(float(np.abs(self.frame()["gap"]).max()), 1e-12)
        ax.set_ylim(-reach, reach)

    def _name(self, ax: Any, drawn: Table) -> None:
        """Name the most significant levels, none over another."""
        if not drawn["real"].any():
            return
        order = np.argsort(np.where(drawn["real"], drawn["p_value"], np.inf), kind="stable")
        apart = 0.06 * 2.3 * float(np.abs(drawn["gap"]).max())  # of the axis, as `_limits` sets it
        reach = np.log(drawn["size"])
        far = float(np.exp(reach.min() + RIGHT * (reach.max() - reach.min())))
        named: list[float] = []
        for place in order[: min(4 * NAMED, int(drawn["real"].sum()))]:
            size, gap = drawn["size"][place], float(drawn["gap"][place])
            if len(named) >= NAMED or any(abs(gap - other) < apart for other in named):
                continue
            named.append(gap)
            side = -1 if size > far else 1  # beside the point, away from the many small levels unless at the right end
            beside = {"ha": "left" if side > 0 else "right", "va": "center", "arrowprops": TIE, "bbox": HALO}
            at = (16 * side, 9 if gap > 0 else -9)
            label = short(drawn["label"][place])
            ax.annotate(label, (size, gap), at, textcoords="offset points", fontsize=8, color=INK, **beside)

    def _title(self) -> str:
        share = self.result.extra.get("noise_share", float("nan"))
        words = f"{self.result.table.rows:,} levels, error {self.said(self.result.value)}"
        return words if np.isnan(share) else f"{words}, of which {share:.0%} is noise"


class Caterpillar(View, size=(7.0, 1.1), a_row=0.3):
    """The worst levels with their intervals before (grey) and after shrinkage (coloured), the worst on top.

    Grey: the gap with its simultaneous interval. Coloured: the gap drawn towards the level's parent, with its 95%
    interval. Levels are chosen and ordered by the shrunken gap, so that small ones do not lead by luck.
    """

    columns = ("label", "rows", "gap", "gap_low", "gap_high", "shrunken", "shrunken_low", "shrunken_high")

    def __init__(self, result: Result, most: int = 20) -> None:
        super().__init__(result)
        self.most = most

    def chosen(self) -> Any:
        """The worst first."""
        table = self.result.table
        size = np.where(table["rows"] > 0, np.abs(np.nan_to_num(table["shrunken"])), -1.0)
        return np.argsort(-size, kind="stable")[: min(self.most, int((size >= 0).sum()))]

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw two lines for each level."""
        height = -np.arange(drawn.rows, dtype=np.float64)
        ax.axvline(0, color=QUIET, linewidth=0.8)
        ax.hlines(height + 0.16, drawn["gap_low"], drawn["gap_high"], color=BAND, linewidth=2)
        ax.plot(drawn["gap"], height + 0.16, "o", color=QUIET, markersize=3.5, label="Measured, all at once")
        color = np.where(drawn["shrunken"] > 0, OVER, UNDER)
        ax.hlines(height - 0.16, drawn["shrunken_low"], drawn["shrunken_high"], color=color, linewidth=2, alpha=0.7)
        ax.scatter(drawn["shrunken"], height - 0.16, color=color, s=18, zorder=3, **style)
        for side, colour, words in ((color == OVER, OVER, "too high"), (color == UNDER, UNDER, "too low")):
            if side.any():
                ax.plot([], [], "o-", color=colour, markersize=4, label=f"Shrunken, each by itself: predicted {words}")
        ax.set_yticks(height, [f"{short(a)}  ({b:,})" for a, b in zip(drawn["label"], drawn["rows"], strict=True)])
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(height.min(initial=0.0) - 0.6, 0.6)
        ends = np.concatenate([[0.0], *(drawn[name] for name in ("gap", "shrunken_low", "shrunken_high"))])
        margin = 0.1 * float(np.ptp(ends))
        if margin > 0:
            ax.set_xlim(ends.min() - margin, ends.max() + margin)
        self.labelled(ax, "Predicted minus observed", percent="x")
        ax.legend(frameon=False, fontsize=9, loc="lower center", bbox_to_anchor=(0.3, 1.0), ncols=1)


class FieldMap(View):
    """Two crossed fields as a map: colour is the shrunken gap, a dot marks combinations beyond noise.

    Combinations that do not occur stay white. Of long fields the levels with most rows are shown, and the title says
    how many are left out.
    """

    def __init__(self, result: Result, most: int = FEW) -> None:
        super().__init__(result)
        self.most = most
        if len(result.extra.get("parts", ())) != 2:
            raise refusal("needs two crossed fields", where="a map", hint="by_field(p, ['state', 'sex'])")

    def frame(self) -> Table:
        """Combinations that are drawn: both levels, rows, shrunken gap, and whether it is beyond noise."""
        table = self.result.table
        one, two = (np.array(part, dtype=object) for part in self.result.extra["parts"])
        kept = np.isin(one, self._largest(one)) & np.isin(two, self._largest(two))
        real = np.nan_to_num(table["p_adjusted"], nan=1.0) < 0.05
        drawn = {"one": one, "two": two, "rows": table["rows"], "shrunken": table["shrunken"], "real": real}
        return Table({name: values[kept] for name, values in drawn.items()})

    def _largest(self, part: np.ndarray) -> list[str]:
        names, codes = np.unique(part.astype(str), return_inverse=True)
        rows = np.bincount(codes, weights=self.result.table["rows"])
        return sorted(str(name) for name in names[np.argsort(-rows, kind="stable")[: self.most]])

    def inches(self, drawn: Table) -> tuple[float, float]:
        """As large as its fields."""
        return 2.6 + 0.34 * len(set(drawn["two"])), 1.8 + 0.26 * len(set(drawn["one"]))

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw the map."""
        across, down = (_ordered(drawn[name]) for name in ("two", "one"))
        values = np.full((len(down), len(across)), np.nan)
        row = np.array([down.index(name) for name in drawn["one"]], dtype=int)
        column = np.array([across.index(name) for name in drawn["two"]], dtype=int)
        values[row, column] = drawn["shrunken"]
        reach = max(float(np.nanmax(np.abs(values))), 1e-12)
        image = ax.imshow(values, cmap=colours(), vmin=-reach, vmax=reach, aspect="auto", **style)
        real = drawn["real"]
        ax.plot(column[real], row[real], "o", color=INK, markersize=4, linestyle="none", label="Beyond noise")
        ax.set_xticks(range(len(across)), [short(name, 14) for name in across], rotation=90 if len(across) > 6 else 0)
        ax.set_yticks(range(len(down)), [short(name) for name in down])
        names = self.result.settings["column"]
        self.labelled(ax, str(names[1]), str(names[0]), title=self._left_out(drawn))
        bar = self.figure_.colorbar(image, ax=ax, label="Predicted minus observed, shrunken")
        self.percent(bar.ax.yaxis)

    def _left_out(self, drawn: Table) -> str:
        beyond = f"{int(drawn['real'].sum()):,} beyond noise (dots)"
        left = self.result.table.rows - drawn.rows
        return beyond if not left else f"{beyond}; {left:,} combinations of rarer levels are not shown"


def _ordered(names: np.ndarray) -> list[str]:
    """Levels in order, numbers by size."""
    distinct = sorted(set(names.tolist()))
    try:
        return sorted(distinct, key=float)
    except ValueError:
        return distinct


class FieldDisplay(Display):
    """By field: a "map" of two crossed fields, a "caterpillar" of few levels or the worst ones, a "funnel" of many."""

    word = "field"
    views: ClassVar[Mapping[str, type[View]]] = {"funnel": Funnel, "caterpillar": Caterpillar, "map": FieldMap}

    @classmethod
    def usual(cls, result: Result) -> str:
        """A map of two short crossed fields, a list of few levels, a funnel of many."""
        parts = result.extra.get("parts", ())
        small = len(parts) == 2 and max(len(set(part)) for part in parts) <= FEW
        return "map" if small else "caterpillar" if result.table.rows <= FEW else "funnel"
