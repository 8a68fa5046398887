"""Figures along a variable, and of results beside the six words: the periods of an audit, and all classes at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from miscal.data.errors import refusal
from miscal.plots.base import BAND, INK, OVER, QUIET, UNDER, Display, View, short
from miscal.results import Result, Table

WIDE = 40  # characters of names that stand beside one another under the axis
MOST_CLASSES = 25
NAMED = 12  # periods named under the axis
CHANGED = ("worse", "better", "moved")


class Curve(View, size=(6.4, 4.2)):
    """Observed and predicted along a variable (paper 000, Figures 1b to 5).

    For the top label the error is drawn, one minus confidence and one minus correctness, as in the paper; otherwise
    the rate of the event. The shaded stretch is the range in which the walk along the variable moves most.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        if "curve" not in result.extra:
            what = "must be of by_variable on one numeric column, with its curve"
            raise refusal(what, where="the result", got="it has ranges only", hint="kind='ranges'")

    @property
    def error(self) -> bool:
        """Whether errors are drawn (top label) in place of rates."""
        return bool(self.result.settings["target"] == "top")

    def frame(self) -> Table:
        """The curves with their bands, as drawn."""
        curve = self.result.extra["curve"]
        if not self.error:
            return Table(dict(curve))
        turned: dict[str, Any] = {"value": curve["value"]}
        for name, whole in (("observed", 1), ("predicted", 1), ("gap", 0)):
            turned[name] = whole - curve[name]
            turned[f"{name}_low"], turned[f"{name}_high"] = whole - curve[f"{name}_high"], whole - curve[f"{name}_low"]
        return Table(turned)

    def draw(self, ax: Any, drawn: Table, *, name: str | None = None, **style: Any) -> None:
        """Draw both curves, the density and the worst range."""
        value = drawn["value"]
        word = "error" if self.error else "mean" if self.means else "rate"
        for side, tint, label in (("observed", UNDER, f"Observed {word}"), ("predicted", OVER, f"Predicted {word}")):
            ax.fill_between(value, drawn[f"{side}_low"], drawn[f"{side}_high"], color=tint, alpha=0.18, linewidth=0)
            dashed = {} if side == "observed" else {"linestyle": (0, (5, 2))}
            ax.plot(value, drawn[side], color=tint, linewidth=1.6, label=label, **dashed, **style)
        self._worst(ax, value)
        self._density(ax)
        column = str(self.result.settings["column"])
        self.labelled(ax, column, f"{word.capitalize()}, with 95% bands", percent="y", legend="best", title=name or "")

    def _worst(self, ax: Any, value: np.ndarray) -> None:
        """Mark the range in which the walk moves most, where it is beyond noise."""
        low, high = self.result.extra["range"]
        everywhere = high - low > 0.9 * (value.max() - value.min())
        if self.result.p_value <= 0.05 and not everywhere:
            ax.axvspan(max(low, value.min()), min(high, value.max()), color=BAND, alpha=0.45, linewidth=0, zorder=0)

    def _density(self, ax: Any) -> None:
        density = self.result.extra.get("density")
        if density is None:
            return
        edges, rows = np.asarray(density["edges"]), np.asarray(density["rows"])
        low, high = ax.get_ylim()
        floor = max(0.0, low) if low >= 0 else low
        bottom = floor - 0.16 * (high - floor)
        height = 0.13 * (high - floor) * rows / max(rows.max(), 1e-300)
        ax.bar(
            edges[:-1], height, width=np.diff(edges), bottom=bottom, align="edge", color=QUIET, alpha=0.5, linewidth=0
        )
        ax.set_ylim(bottom, high)
        grid = self.result.extra["curve"]["value"]
        pad = 0.02 * (grid.max() - grid.min() or 1.0)
        shown = [tick for tick in ax.get_yticks() if floor <= tick <= high]
        ax.set(yticks=shown, ylim=(bottom, high), xlim=(grid.min() - pad, grid.max() + pad))


class OverRanges(View):
    """Observed with its interval and predicted, of every range of a variable; missing values are a range of their own.

    What is drawn of a variable without a curve: one of few values, or of an audit that looked quickly.
    """

    def frame(self) -> Table:
        """The filled ranges: what they are called, predicted, observed and the ends of its interval."""
        table = self.result.table
        drawn = {name: table[name] for name in ("label", "rows", "predicted", "observed", "p_adjusted")}
        drawn |= {"low": table["predicted"] - table["gap_high"], "high": table["predicted"] - table["gap_low"]}
        return Table(drawn).take(table["rows"] > 0)

    def inches(self, drawn: Table) -> tuple[float, float]:
        """As wide as its ranges."""
        return max(4.2, 1.6 + 0.55 * drawn.rows), 4.2

    def draw(self, ax: Any, drawn: Table, *, name: str | None = None, **style: Any) -> None:
        """Draw two marks a range."""
        at = np.arange(drawn.rows)
        ends = drawn["low"], drawn["high"]
        ends = ends if self.means else (np.maximum(ends[0], 0.0), np.minimum(ends[1], 1.0))
        ax.vlines(at, *ends, color=UNDER, alpha=0.5)
        ax.plot(at, drawn["observed"], "o", color=UNDER, markersize=5, label="Observed rate", **style)
        ax.plot(at, drawn["predicted"], "_", color=OVER, markersize=14, markeredgewidth=2, label="Predicted rate")
        words = [short(label, 99) for label in drawn["label"]]
        ax.set_xticks(at, words, rotation=90 if sum(map(len, words)) > WIDE else 0, fontsize=8)
        column = str(self.result.settings["column"])
        self.labelled(ax, column, "Rate, with simultaneous 95% intervals", percent="y", legend="best", title=name or "")


class VariableDisplay(Display):
    """Along a variable: its "curve" (observed and predicted with bands), or its "ranges" where there is none.

    Examples
    --------
    >>> import numpy as np, miscal
    >>> rng = np.random.default_rng(0)
    >>> p = miscal.Predictions(rng.random(500) < 0.4, np.full(500, 0.4), columns={"age": rng.uniform(20, 80, 500)})
    >>> display = miscal.plots.VariableDisplay(miscal.by_variable(p, "age"))
    >>> sorted(display.frame())[:3]
    ['gap', 'gap_high', 'gap_low']
    """

    word = "variable"
    views: ClassVar[Mapping[str, type[View]]] = {"curve": Curve, "ranges": OverRanges}

    @classmethod
    def usual(cls, result: Result) -> str:
        """The curve where there is one."""
        return "curve" if "curve" in result.extra else "ranges"


class Classes(View, size=(6.0, 1.2), a_row=0.24):
    """Error of each class, the largest first, with its noise floor; beyond noise in colour."""

    columns = ("class", "error", "noise_floor", "p_adjusted")

    def chosen(self) -> Any:
        """At most 25, the most significant and then the largest errors first."""
        return np.lexsort((-self.result.table["error"], self.result.table["p_adjusted"]))[:MOST_CLASSES]

    def draw(self, ax: Any, drawn: Table, *, level: float = 0.05, **style: Any) -> None:
        """Draw a line a class from its noise floor to its error."""
        at = np.arange(drawn.rows)[::-1]
        colours = [OVER if p <= level else QUIET for p in drawn["p_adjusted"]]
        ax.hlines(at, drawn["noise_floor"], drawn["error"], color=colours, linewidth=1.2)
        ax.plot(drawn["noise_floor"], at, "|", color=INK, markersize=8, label="Noise floor", **style)
        ax.scatter(drawn["error"], at, color=colours, s=22, zorder=3, label="Error (in colour: beyond noise)")
        ax.set_yticks(at, list(drawn["class"]), fontsize=8)
        ax.set_xlim(left=0)
        more = self.result.table.rows - drawn.rows
        title = f"{more} more classes are not shown" if more > 0 else ""
        self.labelled(ax, "Calibration error of the class against the rest", legend="lower right", title=title)


class Periods(View, size=(7.0, 3.8)):
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

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw the gaps in time."""
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
        self.labelled(ax, "", "Predicted minus observed", percent="y", legend="best", title=self.result.name)
