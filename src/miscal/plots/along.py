"""Figures along a number: the score, the variation of predictions, a variable, the periods of an audit; and classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from miscal.data.errors import refusal
from miscal.plots.base import BAND, INK, OVER, QUIET, SERIES, UNDER, Display, View, short, square
from miscal.results import Result, Table

WORDS = {"variation_ratio": "variation ratio", "qualitative_variation": "qualitative variation"}
MOST_RANKS = 12
WIDE = 40  # characters of names that stand beside one another under the axis
MOST_CLASSES = 25
NAMED = 12  # periods named under the axis
CHANGED = ("worse", "better", "moved")


class Reliability(View):
    """Observed rate against predicted probability, with the band in which calibrated predictions would lie.

    The bars beneath show where the scores are. Axes are logit where scores crowd near 0 or 1.
    """

    columns = ("predicted", "observed", "band_low", "band_high", "gap_low", "gap_high", "rows")

    def draw(self, ax: Any, drawn: Table, *, name: str | None = None, color: str = UNDER, **style: Any) -> None:
        """Draw the diagram; a second call on the same axes overlays another result."""
        predicted, observed = drawn["predicted"], drawn["observed"]
        line = {"color": color, "label": name or "Observed"} | style
        square(ax, drawn, ("predicted", "observed"), "Perfectly calibrated", self._ends(drawn), **line)
        low, high = predicted - drawn["gap_high"], predicted - drawn["gap_low"]
        low, high = (low, high) if self.means else (np.maximum(low, 0.0), np.minimum(high, 1.0))
        ax.vlines(predicted, low, high, color=color, linewidth=1, alpha=0.5)
        logit = self.result.extra["axis"] == "logit"
        if logit:
            edge = max(1e-6, 0.5 * min(predicted.min(), max(observed.min(), 1e-6)))
            limits = edge, min(1 - 1e-6, max(0.5, 1.5 * predicted.max()))
            ax.set(xscale="logit", yscale="logit", xlim=limits, ylim=limits, aspect="auto")
        else:
            self._scores(ax)
        percent = "" if logit else "xy"
        names = "Mean predicted probability", "Fraction of events"
        names = ("Mean predicted", "Mean observed") if self.means else names
        self.labelled(ax, *names, percent=percent, legend="upper left")

    def _ends(self, drawn: Table) -> tuple[float, float]:
        """What the axes hold: all probabilities, or the means that are drawn."""
        if not self.means:
            return 0.0, 1.0
        every = np.concatenate([drawn[name] for name in ("predicted", "observed", "band_low", "band_high")])
        low, high = float(np.nanmin(every)), float(np.nanmax(every))
        pad = 0.05 * (high - low)
        return min(low - pad, 0.0) if low < 0.5 * high else low - pad, high + pad

    def _scores(self, ax: Any) -> None:
        """Bars of how many rows have each score, in the lowest tenth of the axes."""
        rows, edges = (np.asarray(self.result.extra["histogram"][name]) for name in ("rows", "edges"))
        bottom, top = ax.get_ylim()
        height = 0.1 * (top - bottom) * rows / rows.max()
        bars: Any = {"width": np.diff(edges), "bottom": bottom, "align": "edge", "linewidth": 0, "zorder": 0}
        ax.bar(edges[:-1], height, color=QUIET, alpha=0.35, **bars)


class Cumulative(View, size=(6.4, 4.2)):
    """Running total of predicted minus observed in the order of the score; its range is Kuiper's calibration error.

    A rising stretch is over-predicted, a falling one under-predicted; the slope is the local gap.
    """

    def frame(self) -> Table:
        """Share of rows, score, running total and the half-width of its noise band."""
        return Table({name: self.result.extra["cumulative"][name] for name in ("x", "score", "y", "band")})

    def draw(self, ax: Any, drawn: Table, **style: Any) -> None:
        """Draw the walk, its band and its range."""
        top, bottom = self.walk(drawn, **style)
        ax.annotate("", xy=(1.02, top), xytext=(1.02, bottom), arrowprops={"arrowstyle": "<->", "color": INK})
        ax.text(1.035, (top + bottom) / 2, f"Kuiper\n{self.said(top - bottom)}", va="center", fontsize=9, color=INK)
        self.walk_axes(ax, "best")
        ax.set(xlim=(0, 1.16), xticks=np.linspace(0, 1, 6))


class ScoreDisplay(Display):
    """By score: "reliability" (observed against predicted) or "cumulative" (the walk whose range is Kuiper's error).

    Examples
    --------
    >>> import numpy as np, miscal
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> display = miscal.plots.ScoreDisplay(miscal.by_score(miscal.Predictions(rng.random(1000) < p, p)))
    >>> display.frame()["predicted"].size
    15
    """

    word = "score"
    views: ClassVar[Mapping[str, type[View]]] = {"reliability": Reliability, "cumulative": Cumulative}
    pools = False


class Variation(View):
    """Observed against predicted variation, with the band in which calibrated predictions would lie."""

    columns = ("predicted", "observed", "band_low", "band_high", "rows")
    axes = ("predicted", "observed")

    def words(self) -> tuple[str, str]:
        """What the axes show."""
        measure = _measure(self)
        return f"Predicted {measure}", "Accuracy" if measure == "confidence" else f"Observed {measure}"

    def error(self) -> float:
        """The number that the diagram shows."""
        return self.result.value

    def draw(self, ax: Any, drawn: Table, *, name: str | None = None, color: str = UNDER, **style: Any) -> None:
        """Draw the diagram; a second call on the same axes overlays another result."""
        if not ax.lines:  # with many rows the band is thinner than a line: its ends keep it visible
            ax.vlines(drawn[self.axes[0]], drawn["band_low"], drawn["band_high"], color=QUIET, linewidth=4, alpha=0.5)
        line = {"color": color, "label": name or f"Observed, error {self.error():.2g}"} | style
        square(ax, drawn, self.axes, "Predicted = observed", **line)
        self.labelled(ax, *self.words(), legend="upper left")


class Uncertainty(Variation):
    """Error rate against mean entropy: the bins of the uncertainty calibration error.

    The band is where the error rates of calibrated predictions would lie. It is not on the diagonal: that error is not
    0 for calibrated predictions.
    """

    axes = ("uncertainty", "error")

    def words(self) -> tuple[str, str]:
        """What the axes show."""
        return "Mean entropy", "Error rate"

    def error(self) -> float:
        """The number that the diagram shows."""
        return float(self.result.extra["uncertainty_error"])

    def frame(self) -> Table:
        """Filled bins with mean entropy, error rate and the noise band."""
        table = self.result.extra.get("uncertainty")
        if table is None:
            got = str(self.result.settings["variation"])
            raise refusal("needs a result by entropy", where="kind='uncertainty'", got=got)
        return Table({column: values[table["rows"] > 0] for column, values in table.items()})


def _measure(view: View) -> str:
    measure = str(view.result.settings["variation"])
    return WORDS.get(measure, measure)


class Ranks(View, size=(6.0, 4.0)):
    """How often the class that occurred had each rank, beside the probability that was predicted for that rank."""

    def frame(self, cell: int | None = None) -> Table:
        """Rank, predicted and observed share, over all rows or within one bin of variation."""
        held, at = (self.result.extra, ...) if cell is None else (self.result.table, cell)
        shares = {word: np.asarray(held[f"{word}_ranks"])[at] for word in ("predicted", "observed")}
        return Table({"rank": np.arange(1, shares["predicted"].size + 1), **shares})

    def draw(self, ax: Any, drawn: Table, *, cell: int | None = None, **style: Any) -> None:
        """Draw the two distributions, of all rows or of one bin."""
        drawn = drawn if cell is None else self.frame(cell)
        shown = min(drawn.rows, MOST_RANKS)
        at = np.arange(shown)
        ax.bar(at - 0.2, drawn["predicted"][:shown], 0.36, color=BAND, label="Predicted", **style)
        ax.bar(at + 0.2, drawn["observed"][:shown], 0.36, color=SERIES[0], label="Observed", **style)
        ax.set_xticks(at, [str(rank + 1) for rank in at])
        more = f" (of {drawn.rows})" if drawn.rows > shown else ""
        self.labelled(ax, f"Rank of the class that occurred{more}", "Share of rows", percent="y", legend="best")
        if cell is not None:
            ax.set_title(f"{_measure(self)} in {self.result.table['label'][cell]}", fontsize=9, color=INK)


class VariationDisplay(Display):
    """By variation: "variation" (observed against predicted), "uncertainty" (error rate against entropy) or "ranks".

    Examples
    --------
    >>> import miscal
    >>> data = miscal.datasets.calibrated_classes(2000)
    >>> result = miscal.by_variation(miscal.Predictions(data.y_true, data.y_prob))
    >>> miscal.plots.VariationDisplay(result).frame()["predicted"].size
    10
    """

    word = "variation"
    views: ClassVar[Mapping[str, type[View]]] = {"variation": Variation, "uncertainty": Uncertainty, "ranks": Ranks}
    pools = False


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
