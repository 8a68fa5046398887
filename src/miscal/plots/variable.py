"""Figures along a variable: observed and predicted with bands, the density beneath, the worst range marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.plots.base import BAND, INK, OVER, QUIET, SERIES, UNDER, Display, percent_axis, pyplot
from miscal.plots.score import ReliabilityDisplay
from miscal.results import Result, Table


class VariableDisplay(Display):
    """Observed and predicted along a variable (paper 000, Figures 1b to 5).

    For the top label the error is drawn, one minus confidence and one minus correctness, as in the paper; otherwise
    the rate of the event. The shaded stretch is the range in which the walk along the variable moves most.

    Examples
    --------
    >>> import numpy as np, miscal
    >>> rng = np.random.default_rng(0)
    >>> p = miscal.Predictions(rng.random(500) < 0.4, np.full(500, 0.4), columns={"age": rng.uniform(20, 80, 500)})
    >>> display = miscal.plots.VariableDisplay(miscal.by_variable(p, "age"))
    >>> sorted(display.frame())[:3]
    ['gap', 'gap_high', 'gap_low']
    """

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        if result.kind != "variable" or "curve" not in result.extra:
            raise refusal(
                "must be of by_variable on one numeric column, with its curve",
                where="the result",
                got=f"its kind is {result.kind}",
            )

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
        for name in ("observed", "predicted"):
            turned[name] = 1 - curve[name]
            turned[f"{name}_low"], turned[f"{name}_high"] = 1 - curve[f"{name}_high"], 1 - curve[f"{name}_low"]
        turned |= {"gap": -curve["gap"], "gap_low": -curve["gap_high"], "gap_high": -curve["gap_low"]}
        return Table(turned)

    def plot(self, ax: Any = None, *, name: str | None = None, **style: Any) -> VariableDisplay:
        """Draw both curves, the density and the worst range."""
        ax = self._start(ax, (6.4, 4.2))
        drawn = self.frame()
        value = drawn["value"]
        word = "error" if self.error else "rate"
        for side, tint, label in (("observed", UNDER, f"Observed {word}"), ("predicted", OVER, f"Predicted {word}")):
            ax.fill_between(value, drawn[f"{side}_low"], drawn[f"{side}_high"], color=tint, alpha=0.18, linewidth=0)
            dashed = {} if side == "observed" else {"linestyle": (0, (5, 2))}
            ax.plot(value, drawn[side], color=tint, linewidth=1.6, label=label, **dashed, **style)
        self._worst(ax, value)
        self._density(ax)
        ax.set_xlabel(str(self.result.settings["column"]), color=INK)
        ax.set_ylabel(f"{word.capitalize()}, with 95% bands", color=INK)
        percent_axis(ax.yaxis)
        if name:
            ax.set_title(name, fontsize=10, color=INK, loc="left")
        ax.legend(frameon=False, fontsize=9, loc="best")
        return self

    def _worst(self, ax: Any, value: np.ndarray) -> None:
        """Mark the range in which the walk moves most, where it is beyond noise."""
        low, high = self.result.extra["range"]
        everywhere = high - low > 0.9 * (value.max() - value.min())
        if self.result.p_value <= 0.05 and not everywhere:
            ax.axvspan(max(low, value.min()), min(high, value.max()), color=BAND, alpha=0.45, linewidth=0, zorder=0)

    def _density(self, ax: Any) -> None:
        density = self.result.extra["density"]
        edges, rows = np.asarray(density["edges"]), np.asarray(density["rows"])
        low, high = ax.get_ylim()
        floor = max(0.0, low) if low >= 0 else low
        bottom = floor - 0.16 * (high - floor)
        height = 0.13 * (high - floor) * rows / max(rows.max(), 1e-300)
        ax.bar(
            edges[:-1], height, width=np.diff(edges), bottom=bottom, align="edge", color=QUIET, alpha=0.5, linewidth=0
        )
        ax.set_ylim(bottom, high)
        ax.set_yticks([tick for tick in ax.get_yticks() if floor <= tick <= high])
        ax.set_ylim(bottom, high)
        grid = self.result.extra["curve"]["value"]
        pad = 0.02 * (grid.max() - grid.min() or 1.0)
        ax.set_xlim(grid.min() - pad, grid.max() + pad)


class VariableComparison:
    """Gaps of several models or recalibrations along one variable, on one axis (paper 000, Figures 10 to 12)."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self.displays = {name: VariableDisplay(result) for name, result in results.items()}

    def frame(self) -> Table:
        """The gaps of all, one under the other, named by `model`."""
        frames = {name: display.frame() for name, display in self.displays.items()}
        names = [name for name, frame in frames.items() for _ in range(frame.rows)]
        columns = ("value", "gap", "gap_low", "gap_high")
        return Table({"model": names, **{c: np.concatenate([f[c] for f in frames.values()]) for c in columns}})

    def plot(self, ax: Any = None) -> VariableComparison:
        """Draw one line a model, with its band; 0 is calibrated."""
        if ax is None:
            _, ax = pyplot().subplots(figsize=(6.4, 4.2), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        ax.axhline(0, color=QUIET, linewidth=0.9)
        for (name, display), tint in zip(self.displays.items(), SERIES * 9, strict=False):
            drawn = display.frame()
            ax.fill_between(drawn["value"], drawn["gap_low"], drawn["gap_high"], color=tint, alpha=0.13, linewidth=0)
            ax.plot(drawn["value"], drawn["gap"], color=tint, linewidth=1.6, label=name)
        first = next(iter(self.displays.values()))
        ax.set_xlabel(str(first.result.settings["column"]), color=INK)
        ax.set_ylabel("Predicted minus observed" + (" error" if first.error else ""), color=INK)
        percent_axis(ax.yaxis)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        ax.legend(frameon=False, fontsize=9)
        return self


def plot_pairs(rows: Mapping[str, tuple[Result, Result]] | Sequence[tuple[str, tuple[Result, Result]]]) -> Any:
    """Reliability diagram beside the plot along a variable, one row a calibration (paper 000, Figures 6 to 9).

    Parameters
    ----------
    rows : name -> (result of by_score, result of by_variable)
    """
    listed = list(rows.items()) if isinstance(rows, Mapping) else list(rows)
    figure, axes = pyplot().subplots(
        len(listed), 2, figsize=(10, 3.9 * len(listed)), layout="constrained", squeeze=False, width_ratios=(1, 1.5)
    )
    for (name, (score, variable)), (left, right) in zip(listed, axes, strict=True):
        ReliabilityDisplay(score).plot(left, name="Observed")
        left.set_title(name, fontsize=10, color=INK, loc="left")
        VariableDisplay(variable).plot(right, name=name)
    limits = [axis.get_ylim() for axis in axes[:, 1]]
    for axis in axes[:, 1]:
        axis.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    return figure
