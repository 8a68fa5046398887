"""Figures by field: the funnel of all levels, the worst levels before and after shrinkage, a map of two fields."""

from types import MappingProxyType
from typing import Any

import numpy as np

from miscal.data.libraries import special
from miscal.data.vectors import Array
from miscal.plots.base import BAND, DASHES, INK, QUIET, Display, View, colours, short
from miscal.results import Result, Table

FEW = 30  # levels that a list can show
NAMED = 5
MANY = 2000  # levels whose dots are small


class Funnel(View):
    """Gap of every level against its size, with limits within which levels of a calibrated model lie.

    A level's size is the rows at the mean rate that would be as noisy, so that one pair of limits serves all. The inner
    limits hold 95% of calibrated levels, the outer all of them at once with probability 95% (Bonferroni). Levels beyond
    noise by their own, exact test are coloured.
    """

    size = (7.0, 4.6)

    def frame(self) -> Table:
        """Level, its size, gap, and whether it is beyond noise."""
        table = self.result.table.take(self.result.table["error"] > 0)
        drawn = {name: table[name] for name in ("label", "gap", "p_value")}
        return Table({**drawn, "size": self._unit() / table["error"] ** 2, "real": _real(table)})

    def _unit(self) -> float:
        """The variance of a row of the mean rate; of other means, that which is usual."""
        table, tally = self.result.table, self.result.extra["tally"]
        if self.means:
            return float(np.nanmedian(table["error"] ** 2 * table["weight"]))
        mean = float(tally.predicted.sum() / tally.weight.sum())
        return mean * (1.0 - mean)

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw every level and the limits."""
        size, gap, real = drawn["size"], drawn["gap"], drawn["real"]
        ax.axhline(0, color=QUIET, linewidth=0.8)
        ax.set_xscale("log")
        if size.size:
            grid = np.geomspace(size.min(), size.max() * 1.001, 200)
            error = np.sqrt(self._unit() / grid)
            inner, tests = 1.96 * error, int((~np.isnan(drawn["p_value"])).sum())
            outer = -special.ndtri(0.025 / max(tests, 1)) * error
            ax.fill_between(grid, -inner, inner, color=BAND, alpha=0.8, linewidth=0, label="95% of levels")
            ax.plot(grid, -outer, color=QUIET, linewidth=1, linestyle=DASHES, label="All levels at once")
            ax.plot(grid, outer, color=QUIET, linewidth=1, linestyle=DASHES)
            reach = 1.15 * max(float(np.abs(gap).max()), 1e-12)
            ax.set_ylim(-reach, reach)
        tint = self.tinted(ax, np.where(real, gap, 0.0))
        area = np.where(real, 22, 14 if size.size <= MANY else 5)
        dots = {"s": area, "color": tint, "alpha": np.where(real, 1.0, 0.5), "linewidth": 0}
        ax.scatter(size, gap, **dots | {"rasterized": size.size > MANY} | style)
        self._name(ax, drawn.take(real).sort("p_value"))
        share = self.result.extra.get("noise_share", float("nan"))
        title = f"{self.result.table.rows:,} levels, error {self.said(self.result.value)}"
        title += "" if np.isnan(share) else f", of which {share:.0%} is noise"
        across = "Size of the level (rows at the mean rate that would be as noisy)"
        self.labelled(ax, across, "Predicted minus observed", rates="y", legend="best", title=title)

    def _name(self, ax: Any, real: Table) -> None:
        """Name the first levels, none at the height of another."""
        apart = 0.06 * float(np.ptp(ax.get_ylim()))
        named: list[float] = []
        for size, gap, label in zip(real["size"], real["gap"], real["label"], strict=True):
            if len(named) < NAMED and all(abs(gap - other) >= apart for other in named):
                named.append(gap)
                ax.text(size, gap, f"  {short(label)}", fontsize=8, va="center")


def _real(table: Table) -> Any:
    """Levels beyond noise."""
    return np.nan_to_num(table["p_adjusted"], nan=1.0) < 0.05


class Caterpillar(View):
    """The worst levels with their intervals before (grey) and after shrinkage (coloured), the worst on top.

    Grey: the gap with its simultaneous interval. Coloured: the gap drawn towards the level's parent, with its 95%
    interval. Levels are chosen and ordered by the shrunken gap, so that small ones do not lead by luck.
    """

    columns = ("label", "rows", "gap", "gap_low", "gap_high", "shrunken", "shrunken_low", "shrunken_high")
    size, a_row, most = (7.0, 1.1), 0.3, 20

    def chosen(self) -> Any:
        """The worst first."""
        table = self.result.table
        size = np.where(table["rows"] > 0, np.abs(np.nan_to_num(table["shrunken"])), -1.0)
        return np.argsort(-size, kind="stable")[: min(self.most, int((size >= 0).sum()))]

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw two lines for each level."""
        ends = drawn["shrunken_low"], drawn["shrunken_high"]
        names = [f"{short(a)}  ({b:,})" for a, b in zip(drawn["label"], drawn["rows"], strict=True)]
        ax.axvline(0, color=QUIET, linewidth=0.8)
        at = self.rows(ax, names, drawn["shrunken"], ends, self.tinted(ax, drawn["shrunken"]), **style)
        ax.plot(
            drawn["gap"], at + 0.3, "o", color=QUIET, markersize=3.5, label="Before shrinkage, all at once"
        )
        reach = ax.get_xlim()  # the intervals of small levels go far beyond
        ax.hlines(at + 0.3, drawn["gap_low"], drawn["gap_high"], color=BAND, linewidth=2, zorder=1)
        ax.set_xlim(reach)
        self.labelled(ax, "Predicted minus observed", rates="x", legend="above")


class FieldMap(View):
    """Two crossed fields as a map: colour is the shrunken gap, a dot marks combinations beyond noise.

    Combinations that do not occur stay white. Of long fields the levels with most rows are shown, and the title says
    how many are left out.
    """

    needs = "two crossed fields"
    most = FEW

    @classmethod
    def suits(cls, result: Result) -> bool:
        """Whether two fields are crossed."""
        return len(result.extra.get("parts", ())) == 2

    def frame(self) -> Table:
        """Combinations that are drawn: both levels, rows, shrunken gap, and whether it is beyond noise."""
        table = self.result.table
        one, two = (np.array(part, dtype=object) for part in self.result.extra["parts"])
        drawn = {
            "one": one,
            "two": two,
            "rows": table["rows"],
            "shrunken": table["shrunken"],
            "real": _real(table),
        }
        return Table(drawn).take(self._largest(one) & self._largest(two))

    def _largest(self, part: Array) -> Array:
        codes = np.unique(part.astype(str), return_inverse=True)[1]
        rows = np.bincount(codes, weights=self.result.table["rows"])
        return np.isin(codes, np.argsort(-rows, kind="stable")[: self.most])

    def inches(self, drawn: Table) -> tuple[float, float]:
        """As large as its fields."""
        return 2.6 + 0.34 * len(set(drawn["two"])), 1.8 + 0.26 * len(set(drawn["one"]))

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw the map."""
        across, down = (_ordered(drawn[name]) for name in ("two", "one"))
        row = np.array([down.index(name) for name in drawn["one"]])
        column = np.array([across.index(name) for name in drawn["two"]])
        values = np.full((len(down), len(across)), np.nan)
        values[row, column] = drawn["shrunken"]
        reach = max(float(np.nanmax(np.abs(values))), 1e-12)
        usual = {"cmap": colours(), "vmin": -reach, "vmax": reach, "aspect": "auto"}
        image = ax.imshow(values, **usual | style)
        real = drawn["real"]
        ax.plot(column[real], row[real], "o", color=INK, markersize=4)
        ax.set_xticks(
            range(len(across)), [short(name, 14) for name in across], rotation=90 if len(across) > 6 else 0
        )
        ax.set_yticks(range(len(down)), [short(name) for name in down])
        first, second = self.result.settings["column"]
        left = self.result.table.rows - drawn.rows
        title = f"{int(real.sum()):,} beyond noise (dots)"
        title += f"; {left:,} combinations of rarer levels are not shown" if left else ""
        self.labelled(ax, second, first, title=title)
        self.bar_of_colours(image, ax, "Predicted minus observed, shrunken")


def _ordered(names: Array) -> list[str]:
    """Levels in order, numbers by size."""
    try:
        return sorted(set(names), key=float)
    except ValueError:
        return sorted(set(names))


class FieldDisplay(Display):
    """By field: a "map" of two crossed fields, a "caterpillar" of few levels or the worst ones, a "funnel" of many."""

    word = "field"
    views = MappingProxyType({"funnel": Funnel, "caterpillar": Caterpillar, "map": FieldMap})

    @classmethod
    def usual(cls, result: Result) -> str:
        """A map of two short crossed fields, a list of few levels, a funnel of many."""
        parts = result.extra.get("parts", ())
        small = len(parts) == 2 and max(len(set(part)) for part in parts) <= FEW
        return "map" if small else "caterpillar" if result.table.rows <= FEW else "funnel"
