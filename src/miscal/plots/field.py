"""Figures by field: the funnel of all levels, the worst levels before and after shrinkage, a map of two fields."""

from types import MappingProxyType
from typing import Any

import numpy as np

from miscal.data.arrays import Array
from miscal.metrics.field import FieldResult
from miscal.plots.base import BAND, DASHED, FINE, INK, QUIET, SHADE, Display, View, colours, short
from miscal.results import Result, Table
from miscal.stats.multiplicity import adjusted_z
from miscal.stats.normal import half_width

LEVEL = 0.05  # of significance
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
        """Level, its size, gap, and whether it is significant."""
        table = self.table.take(self.table["error"] > 0)
        drawn = {name: table[name] for name in ("label", "gap", "p_value")}
        size = self._unit() / table["error"] ** 2
        real = table["p_adjusted"] < LEVEL
        return Table({**drawn, "size": size, "real": real})

    def _unit(self) -> float:
        """The variance of a row of the mean rate; of other means, that which is usual."""
        table, tally = self.table, self.result.tally
        if self.of_means:
            return float(np.nanmedian(table["error"] ** 2 * table["weight"]))
        mean = float(tally.predicted.sum() / tally.weight.sum())
        return mean * (1.0 - mean)

    def draw(self, drawn: Table, **style: Any) -> None:
        """Draw every level and the limits."""
        ax, crowded = self.ax_, drawn.rows > MANY
        size, gap, real = drawn["size"], drawn["gap"], drawn["real"]
        self.draw_zero_line()
        ax.set_xscale("log")
        if drawn.rows:
            grid = np.geomspace(size.min(), size.max() * 1.001, 200)
            error = np.sqrt(self._unit() / grid)
            inner = half_width(error)
            tests = np.isfinite(drawn["p_value"]).sum()
            outer = adjusted_z(max(tests, 1)) * error
            ax.fill_between(grid, -inner, inner, **SHADE, label="95% of levels")
            ax.plot(grid, np.stack([-outer, outer], axis=1), **DASHED, label=["All levels at once", None])
            reach = 1.15 * max(np.abs(gap).max(), 1e-12)
            ax.set_ylim(-reach, reach)
        tint = self.gap_colours(np.where(real, gap, 0.0))
        alpha = np.where(real, 1.0, 0.5)
        area = np.where(real, 22, 5 if crowded else 14)
        dots = {"s": area, "color": tint, "alpha": alpha, "linewidth": 0, "rasterized": crowded}
        ax.scatter(size, gap, **dots | style)
        self._name(drawn.take(real).sort("p_value"))
        floor = self.result.noise_floor
        title = f"{self.table.rows:,} levels, error {self.format_mean(self.result.value)}"
        title += "" if np.isnan(floor) else f", expected by chance {self.format_mean(floor)}"
        across = "Size of the level (rows at the mean rate that would be as noisy)"
        self.label_axes(across, "Predicted minus observed", rates="y", legend="best", title=title)

    def _name(self, real: Table) -> None:
        """Name the first levels, none at the height of another."""
        min_distance = 0.06 * np.ptp(self.ax_.get_ylim())
        named: list[float] = []
        for size, gap, label in zip(real["size"], real["gap"], real["label"], strict=True):
            if len(named) < NAMED and all(abs(gap - height) >= min_distance for height in named):
                named.append(gap)
                self.ax_.text(size, gap, f"  {short(label)}", fontsize=8, va="center")


class Caterpillar(View):
    """The worst levels with their intervals before (grey) and after shrinkage (coloured), the worst on top.

    Grey: the gap with its simultaneous interval. Coloured: the gap drawn towards the level's parent, with its 95%
    interval. Levels are chosen and ordered by the shrunken gap, so that small ones do not lead by chance.
    """

    columns = ("label", "rows", "gap", "gap_low", "gap_high", "shrunken", "shrunken_low", "shrunken_high")
    size, a_row, most = (7.0, 1.1), 0.3, 20

    def chosen(self) -> Any:
        """The worst first."""
        size = np.nan_to_num(np.abs(self.table["shrunken"]))
        order = np.argsort(-size, kind="stable")
        return order[self.table["rows"][order] > 0][: self.most]

    def draw(self, drawn: Table, **style: Any) -> None:
        """Draw two lines for each level."""
        label, rows, gap, gap_low, gap_high, shrunken, low, high = drawn.values()
        names = [f"{short(a)}  ({b:,})" for a, b in zip(label, rows, strict=True)]
        ax = self.ax_
        ax.axvline(0, **FINE)
        above = 0.3 + self.draw_rows(names, shrunken, (low, high), self.gap_colours(shrunken), **style)
        ax.plot(gap, above, "o", color=QUIET, markersize=3.5, label="Before shrinkage, all at once")
        reach = ax.get_xlim()  # the intervals of small levels go far beyond
        ax.hlines(above, gap_low, gap_high, color=BAND, linewidth=2, zorder=1)
        ax.set_xlim(reach)
        self.label_axes("Predicted minus observed", rates="x", legend="above")


class FieldMap(View):
    """Two crossed fields as a map: colour is the shrunken gap, a dot marks significant combinations.

    Combinations that do not occur stay white. Of long fields the levels with most rows are shown, and the title says
    how many are left out.
    """

    needs = "two crossed fields"
    most = FEW

    @classmethod
    def suits(cls, result: Result) -> bool:
        """Whether two fields are crossed."""
        return isinstance(result, FieldResult) and result.parts is not None and len(result.parts) == 2

    def frame(self) -> Table:
        """Combinations that are drawn: both levels, rows, shrunken gap, and whether it is significant."""
        table = self.table
        first, second = (np.array(part, dtype=object) for part in self.result.parts)
        drawn = {name: table[name] for name in ("rows", "shrunken")}
        combinations = Table({"one": first, "two": second, **drawn, "real": table["p_adjusted"] < LEVEL})
        return combinations.take(self._largest(first) & self._largest(second))

    def _largest(self, part: Array) -> Array:
        codes = np.unique(part.astype(str), return_inverse=True)[1]
        rows = np.bincount(codes, weights=self.table["rows"])
        return np.isin(codes, np.argsort(-rows, kind="stable")[: self.most])

    def inches(self, drawn: Table) -> tuple[float, float]:
        """As large as its fields."""
        return 2.6 + 0.34 * len(set(drawn["two"])), 1.8 + 0.26 * len(set(drawn["one"]))

    def draw(self, drawn: Table, **style: Any) -> None:
        """Draw the map."""
        ax, real = self.ax_, drawn["real"]
        down, row = _ordered(drawn["one"])
        across, column = _ordered(drawn["two"])
        values = np.full((len(down), len(across)), np.nan)
        values[row, column] = drawn["shrunken"]
        reach = max(np.nanmax(np.abs(values)), 1e-12)
        usual = {"cmap": colours(), "vmin": -reach, "vmax": reach, "aspect": "auto"}
        image = ax.imshow(values, **usual | style)
        ax.plot(column[real], row[real], "o", color=INK, markersize=4)
        turned = 90 if len(across) > 6 else 0
        ax.set_xticks(range(len(across)), [short(name, 14) for name in across], rotation=turned)
        ax.set_yticks(range(len(down)), map(short, down))
        first, second = self.settings["column"]
        left = self.table.rows - drawn.rows
        title = f"{real.sum():,} significant (dots)"
        title += f"; {left:,} combinations of rarer levels are not shown" if left else ""
        self.label_axes(second, first, title=title)
        self.draw_colour_bar(image, ax, "Predicted minus observed, shrunken")


def _ordered(names: Array) -> tuple[list[str], Array]:
    """Levels in order, numbers by size; and which of them each name is."""
    try:
        levels = sorted(set(names), key=float)
    except ValueError:
        levels = sorted(set(names))
    return levels, np.array([levels.index(name) for name in names])


class FieldDisplay(Display):
    """By field: a "map" of two crossed fields, a "caterpillar" of few levels or the worst ones, a "funnel" of many."""

    word = "field"
    views = MappingProxyType({"funnel": Funnel, "caterpillar": Caterpillar, "map": FieldMap})

    @classmethod
    def usual(cls, result: Result) -> str:
        """A map of two short crossed fields, a list of few levels, a funnel of many."""
        parts = result.parts if isinstance(result, FieldResult) and FieldMap.suits(result) else None
        small = parts is not None and all(len(set(part)) <= FEW for part in parts)
        return "map" if small else "caterpillar" if result.table.rows <= FEW else "funnel"
