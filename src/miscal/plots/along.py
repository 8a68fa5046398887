"""Figures along a number: the score, the variation of predictions, a variable, the periods of an audit; and classes."""

from collections.abc import Sequence
from dataclasses import replace
from textwrap import fill
from types import MappingProxyType
from typing import Any

import numpy as np

from miscal.data.arrays import Plain
from miscal.plots.base import BAND, DASHES, DOTS, INK, OVER, QUIET, SERIES, SHADE, UNDER, Display, View, short
from miscal.results import CumulativeCurve, Table

MOST_RANKS = 12
NAMED = 12  # periods named under the axis
CHANGED = ("worse", "better", "moved")


class Reliability(View):
    """Observed rate against predicted probability, with the band in which calibrated predictions would lie.

    The bars beneath show where the scores are. Axes are logit where scores crowd near 0 or 1.
    """

    columns = ("predicted", "observed", "band_low", "band_high", "gap_low", "gap_high", "rows")

    def draw(self, drawn: Table, *, name: str = "Observed", **style: Any) -> None:
        """Draw the diagram; a second call on the same axes overlays another result."""
        logit = self.result.axis == "logit"
        line = {"color": UNDER, "label": name} | style
        self.draw_square(drawn, "Perfectly calibrated", self._ends(drawn, logit), **line)
        thin = {"color": line["color"], "linewidth": 1, "alpha": 0.5}
        self.ax_.vlines(drawn["predicted"], *self.observed_interval(drawn), **thin)
        if logit:
            self.ax_.set(xscale="logit", yscale="logit", aspect="auto")
        else:
            self.draw_histogram(self.result.histogram)
        names = ("Mean predicted", "Mean observed")
        if not self.of_means:
            names = ("Mean predicted probability", "Fraction of events")
        self.label_axes(*names, rates="" if logit else "xy", legend="upper left")

    def _ends(self, drawn: Table, logit: bool) -> tuple[float, float]:
        """What the axes hold: all probabilities; of other means, and of log-odds, what is drawn."""
        values = np.concatenate([drawn[name] for name in self.columns[:4]])
        if logit:
            inside = values[(values > 0) & (values < 1)]
            low = inside.min(initial=0.5)
            high = inside.max(initial=0.5)
            return 0.7 * low, 1 - 0.7 * (1 - high)
        if not self.of_means:
            return 0.0, 1.0
        low, high = np.nanmin(values), np.nanmax(values)
        margin = 0.05 * (high - low)
        return low - margin, high + margin


class Cumulative(View):
    """Running totals of predicted minus observed in the order of the score, of all rows or of the worst subpopulations.

    A rising stretch is over-predicted, a falling one under-predicted; the slope is the local gap. The range of a
    curve, between the dotted lines, is Kuiper's calibration error.
    """

    @property
    def curves(self) -> Sequence[CumulativeCurve]:
        """The curves, one per panel, each with its label."""
        return [replace(self.result.cumulative, label="all rows")]

    def frame(self) -> Table:
        """One row a point: label, share of rows, score, running total and half-width of its noise band."""
        curves = self.curves
        columns: Plain = {"label": [curve.label for curve in curves for _ in curve.x]}
        for name in ("x", "score", "y", "band"):
            columns[name] = np.concatenate([getattr(curve, name) for curve in curves])
        return Table(columns)

    def draw_figure(self, **style: Any) -> None:
        """Draw a panel a curve; on given axes, only the curves, over one another."""
        high = len(self.curves)
        self.axes_ = self.panels(high, 1, (6.4, 3.2 * high))
        for panel, curve in zip(self.axes_.flat, self.curves, strict=True):
            self.ax_ = panel
            self._panel(curve, style)
        self.ax_ = self.axes_[0, 0]

    def draw(self, drawn: Table, **style: Any) -> None:  # noqa: ARG002  # two curves may be called alike
        """Draw only the curves, over one another."""
        for curve, color in zip(self.curves, SERIES, strict=False):
            line = {"color": color, "linewidth": 1.3, "label": short(curve.label or "", 40)}
            self.ax_.plot(curve.x, curve.y, **line | style)
        self._axes(legend="best")

    def _panel(self, curve: CumulativeCurve, style: Plain) -> None:
        """A running total over the band of its noise, and its highest and lowest point."""
        label = curve.label or ""
        self._axes(title=fill(short(label, 120), 72))
        ax = self.ax_
        x, y, band = map(np.asarray, (curve.x, curve.y, curve.band))
        ax.fill_between(x, -band, band, **SHADE)
        ax.plot(x, y, **{"color": INK, "linewidth": 1.4} | style)
        top = y.max(initial=0.0)
        bottom = y.min(initial=0.0)
        for level, tint in ((top, OVER), (bottom, UNDER)):
            ax.axhline(level, color=tint, linewidth=0.9, linestyle=DOTS)
        panel_text = self.panel_text(label, self.format_mean(top - bottom))
        ax.text(0.02, 0.02, panel_text, transform=ax.transAxes, fontsize=8)
        ax.margins(y=0.15)

    def panel_text(self, label: str, kuiper: str) -> str:  # noqa: ARG002  # of a subpopulation more is known
        """What is said in a panel."""
        return f"Kuiper {kuiper} (shaded: 95% noise band, pointwise)"

    def _axes(self, **words: str) -> None:
        self.draw_zero_line()
        self.ax_.set_xlim(0, 1)
        across = "Rows, from the lowest score to the highest"
        self.label_axes(across, "Cumulative predicted minus observed", rates="xy", **words)


class ScoreDisplay(Display):
    """By score: "reliability" (observed against predicted) or "cumulative" (the walk whose range is Kuiper's error).

    The first is the reliability diagram, also called the calibration curve.

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
    views = MappingProxyType({"reliability": Reliability, "cumulative": Cumulative})
    pools = False


class Variation(View):
    """Observed against predicted variation, with the band in which calibrated predictions would lie."""

    columns = ("predicted", "observed", "band_low", "band_high", "rows")

    def axes_and_error(self) -> tuple[str, str, float]:
        """What the axes show, and the error of all bins together."""
        measure = _measure(self)
        observed = "Accuracy" if measure == "confidence" else f"Observed {measure}"
        return f"Predicted {measure}", observed, self.result.value

    def draw(self, drawn: Table, *, name: str = "", **style: Any) -> None:
        """Draw the diagram; a second call on the same axes overlays another result."""
        across, up, error = self.axes_and_error()
        if not self.ax_.lines:  # with many rows the band is thinner than a line: its ends keep it visible
            x = next(iter(drawn.values()))
            ends = (drawn["band_low"], drawn["band_high"])
            self.ax_.vlines(x, *ends, color=QUIET, linewidth=4, alpha=0.5)
        line = {"color": UNDER, "label": name or f"Observed, error {error:.2g}"} | style
        self.draw_square(drawn, "Predicted = observed", (0.0, 1.0), **line)
        self.label_axes(across, up, legend="upper left")


class Uncertainty(Variation):
    """Error rate against mean entropy: the bins of the uncertainty calibration error.

    The band is where the error rates of calibrated predictions would lie. It is not on the diagonal: that error is not
    0 for calibrated predictions.
    """

    needs, part = "bins of entropy", "uncertainty"
    columns = ("uncertainty", "error", "band_low", "band_high", "rows")

    def axes_and_error(self) -> tuple[str, str, float]:
        """What the axes show, and the error of all bins together."""
        return "Mean entropy", "Error rate", self.result.uncertainty_error


def _measure(view: View) -> str:
    return str(view.settings["variation"]).replace("_", " ")


class Ranks(View):
    """How often the class that occurred had each rank, beside the probability that was predicted for that rank."""

    size = (6.0, 4.0)

    def frame(self, cell: int | None = None) -> Table:
        """Rank, predicted and observed share, over all rows or within one bin of variation."""
        predicted, observed = self.result.predicted_ranks, self.result.observed_ranks
        if cell is not None:
            predicted, observed = self.table["predicted_ranks"][cell], self.table["observed_ranks"][cell]
        return Table({"rank": np.arange(1, len(predicted) + 1), "predicted": predicted, "observed": observed})

    def draw(self, drawn: Table, *, cell: int | None = None, **style: Any) -> None:
        """Draw the two distributions, of all rows or of one bin."""
        ax, title = self.ax_, ""
        if cell is not None:
            drawn, title = self.frame(cell), f"{_measure(self)} in {self.table['label'][cell]}"
        shown = drawn.take(slice(MOST_RANKS))
        rank = shown["rank"]
        look = {"width": 0.36, "color": UNDER, "label": "Observed"}
        ax.bar(rank - 0.2, shown["predicted"], 0.36, color=BAND, label="Predicted")
        ax.bar(rank + 0.2, shown["observed"], **look | style)
        ax.set_xticks(rank)
        across = "Rank of the class that occurred"
        if drawn.rows > shown.rows:
            across += f" (of {drawn.rows})"
        self.label_axes(across, "Share of rows", rates="y", legend="best", title=title)


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
    views = MappingProxyType({"variation": Variation, "uncertainty": Uncertainty, "ranks": Ranks})
    pools = False


class CurveView(View):
    """Observed and predicted along a variable (paper 000, Figures 1b to 5).

    For the top label the error is drawn, one minus confidence and one minus correctness, as in the paper; otherwise
    the rate of the event. The shaded stretch is the range in which the walk along the variable moves most, where that
    is significant; the bars beneath show where the rows are.
    """

    needs, part = "a curve, of one numeric column", "curve"
    size = (6.4, 4.2)

    @property
    def error(self) -> bool:
        """Whether errors are drawn (top label) in place of rates."""
        return bool(self.settings["target"] == "top")

    def frame(self) -> Table:
        """The curves with their bands, as drawn."""
        curve = self.table
        if not self.error:
            return Table(curve)
        turned = {"value": curve["value"]}
        for name, whole in (("observed", 1), ("predicted", 1), ("gap", 0)):
            low, high = f"{name}_low", f"{name}_high"
            turned |= {name: whole - curve[name], low: whole - curve[high], high: whole - curve[low]}
        return Table(turned)

    def draw(self, drawn: Table, *, name: str = "", **style: Any) -> None:
        """Draw both curves, the worst range and the density."""
        ax, value = self.ax_, drawn["value"]
        word = "error" if self.error else "mean" if self.of_means else "rate"
        looks = {"observed": {"color": UNDER} | style, "predicted": {"color": OVER, "linestyle": DASHES}}
        for side, look in looks.items():
            ends = drawn[f"{side}_low"], drawn[f"{side}_high"]
            line = {"linewidth": 1.6, "label": f"{side} {word}".capitalize()} | look
            ax.fill_between(value, *ends, color=look["color"], alpha=0.18, linewidth=0)
            ax.plot(value, drawn[side], **line)
        first, last = value.min(), value.max()
        low, high = self.result.kuiper_range
        if self.result.p_value <= 0.05 and high - low <= 0.9 * (last - first):  # else it is everywhere
            ax.axvspan(max(low, first), min(high, last), **SHADE | {"alpha": 0.45, "zorder": 0})
        if self.result.density is not None:
            bottom, top = ax.get_ylim()
            pad = 0.02 * (last - first or 1.0)
            ax.set_ylim(max(bottom - 0.15 * (top - bottom), min(bottom, 0.0)), top)
            ax.set_xlim(first - pad, last + pad)
            self.draw_histogram(self.result.density)
        up = f"{word.capitalize()}, with 95% bands"
        self.label_axes(self.settings["column"], up, rates="y", legend="best", title=name)


class OverRanges(View):
    """Observed with its interval and predicted, of every range of a variable; missing values are a range of their own.

    What is drawn of a variable without a curve: one of few values, or of an audit that looked quickly.
    """

    columns = ("label", "rows", "predicted", "observed", "gap_low", "gap_high", "p_adjusted")
    size, a_row = (6.4, 1.5), 0.28

    def draw(self, drawn: Table, *, name: str = "", **style: Any) -> None:
        """Draw two marks a range, the lowest on top."""
        words = [short(label, 99) for label in drawn["label"]]
        ends = self.observed_interval(drawn)
        dots = {"label": "Observed"} | style
        at = self.draw_rows(words, drawn["observed"], ends, UNDER, **dots)
        look = {"color": OVER, "markersize": 12, "markeredgewidth": 2}
        self.ax_.plot(drawn["predicted"], at, "|", **look, label="Predicted")
        across = "Mean, with simultaneous 95% intervals"
        self.label_axes(across, self.settings["column"], rates="x", legend="above", title=name)


class VariableDisplay(Display):
    """Along a variable: its "curve" (observed and predicted with bands), or its "ranges" where there is none.

    The curve is the variable-based calibration plot of paper 000.

    Examples
    --------
    >>> import numpy as np, miscal
    >>> rng = np.random.default_rng(0)
    >>> p = miscal.Predictions(
    ...     rng.random(500) < 0.4, np.full(500, 0.4), columns={"age": rng.uniform(20, 80, 500)}
    ... )
    >>> display = miscal.plots.VariableDisplay(miscal.by_variable(p, "age"))
    >>> sorted(display.frame())[:3]
    ['gap', 'gap_high', 'gap_low']
    """

    word = "variable"
    views = MappingProxyType({"curve": CurveView, "ranges": OverRanges})


class Classes(View):
    """Error of each class, the largest first, with its noise floor; significant ones in colour."""

    columns = ("class", "error", "noise_floor", "p_adjusted")
    size, a_row, most = (6.0, 1.2), 0.24, 25

    def chosen(self) -> Any:
        """The most significant and then the largest errors first."""
        return np.lexsort((-self.table["error"], self.table["p_adjusted"]))[: self.most]

    def draw(self, drawn: Table, **style: Any) -> None:
        """Draw a line a class from its noise floor to its error."""
        floor, error = drawn["noise_floor"], drawn["error"]
        tint = np.where(drawn["p_adjusted"] <= 0.05, OVER, QUIET)
        names = [short(name) for name in drawn["class"]]
        dots = {"label": "Error (in colour: significant)"} | style
        at = self.draw_rows(names, error, (floor, error), tint, **dots)
        self.ax_.plot(floor, at, "|", color=INK, markersize=8, label="Noise floor")
        self.ax_.set_xlim(left=0)
        more = self.table.rows - drawn.rows
        title = f"{more} more classes are not shown" if more else ""
        across = "Calibration error of the class against the rest"
        self.label_axes(across, legend="lower right", title=title)


class Periods(View):
    """Predicted minus observed of every period with its simultaneous interval; steps that changed are named.

    The band holds 95% of the periods of a calibrated model. Rows without a date are left out.
    """

    columns = (
        "label",
        "predicted",
        "gap",
        "gap_low",
        "gap_high",
        "band_low",
        "band_high",
        "p_adjusted",
        "verdict",
    )
    size = (7.0, 3.8)

    def chosen(self) -> Any:
        """Those that have a date."""
        return self.table["verdict"] != "no date"

    def draw(self, drawn: Table, **style: Any) -> None:
        """Draw the gaps in time."""
        ax, place = self.ax_, np.arange(drawn.rows)
        gap, high = drawn["gap"], drawn["gap_high"]
        noise = (drawn["predicted"] - drawn[end] for end in ("band_high", "band_low"))
        ax.fill_between(place, *noise, color=BAND, linewidth=0, label="Noise alone")
        self.draw_zero_line()
        ax.plot(place, gap, color=QUIET, linewidth=1)
        real = drawn["p_adjusted"] <= self.settings["level"]
        tint = self.gap_colours(np.where(real, gap, 0.0))
        ax.vlines(place, drawn["gap_low"], high, color=tint)
        ax.scatter(place, gap, **{"s": 26, "color": tint, "zorder": 3} | style)
        for i in np.flatnonzero(np.isin(drawn["verdict"].astype(str), CHANGED)):
            ax.text(i, high[i], f"{drawn['verdict'][i]}\n", fontsize=8, ha="center", va="center")
        labelled = place[:: max(1, -(-drawn.rows // NAMED))]
        ax.set_xticks(labelled, drawn["label"][labelled])
        self.label_axes("", "Predicted minus observed", rates="y", legend="best", title=self.result.name)
