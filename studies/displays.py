"""Figures that only the studies draw: comparisons of several models, recalibrations and candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from miscal import Result
from miscal.data.errors import refusal
from miscal.plots.base import BAND, INK, OVER, QUIET, SERIES, View, percent_axis, pyplot
from miscal.results import Table, p_text

MOST_COLUMNS = 6  # whose errors are drawn beside the losses of candidates


class BandwidthDisplay:
    """Largest or average local error against the bandwidth, for several recalibrations and feature maps.

    Parameters
    ----------
    curves : feature map -> recalibration -> errors, one a bandwidth
    bandwidths : increasing numbers
    statistic : "largest" or "average"
    spread : like `curves`, a standard deviation over runs, drawn as a band
    mark : feature map -> bandwidth to mark
    """

    def __init__(
        self,
        curves: Mapping[str, Mapping[str, Sequence[float]]],
        bandwidths: Sequence[float],
        statistic: str = "largest",
        spread: Mapping[str, Mapping[str, Sequence[float]]] | None = None,
        mark: Mapping[str, float] | None = None,
    ) -> None:
        self.curves, self.bandwidths = curves, np.asarray(bandwidths, dtype=np.float64)
        self.statistic, self.spread, self.mark = statistic, spread, mark or {}

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        probabilities: Mapping[str, Any],
        features: Mapping[str, Any],
        bandwidths: Sequence[float] | None = None,
        *,
        statistic: str = "largest",
        **options: Any,
    ) -> BandwidthDisplay:
        """Measure several probabilities of the same rows; options go to `local_calibration_error`."""
        from miscal.metrics.neighbourhood_errors import local_calibration_error

        if statistic not in ("largest", "average"):
            raise refusal("must be 'largest' or 'average'", where="'statistic'", got=f"it is {statistic!r}")
        grid = np.geomspace(0.01, 10.0, 13) if bandwidths is None else np.asarray(bandwidths, dtype=np.float64)
        read = np.nanmax if statistic == "largest" else np.nanmean
        curves = {
            space: {
                name: read(local_calibration_error(y_true, p, x, bandwidth=grid.tolist(), **options), axis=1)
                for name, p in probabilities.items()
            }
            for space, x in features.items()
        }
        return cls(curves, grid.tolist(), statistic)

    def frame(self) -> Table:
        """Feature map, recalibration, bandwidth, error."""
        rows = [
            (space, name, bandwidth, error)
            for space, each in self.curves.items()
            for name, errors in each.items()
            for bandwidth, error in zip(self.bandwidths, errors, strict=True)
        ]
        names = ("features", "recalibration", "bandwidth", "error")
        return Table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))

    def plot(self, ax: Any = None) -> BandwidthDisplay:
        """One panel a feature map (`ax`: as many axes), one line a recalibration."""
        count = len(self.curves)
        if ax is None:
            _, ax = pyplot().subplots(
                1, count, figsize=(5.0 * count + 1.4, 4.2), layout="constrained", squeeze=False, sharey=True
            )
        axes = np.atleast_1d(ax).reshape(-1)
        self.ax_, self.figure_ = axes[0], axes[0].figure
        highest = max(float(np.nanmax(errors)) for each in self.curves.values() for errors in each.values())
        for axis, (space, each) in zip(axes, self.curves.items(), strict=True):
            self._panel(axis, space, each)
            axis.set_ylim(0, 1.05 * highest)
        axes[0].set_ylabel(f"{self.statistic.capitalize()} local calibration error", color=INK)
        axes[-1].legend(frameon=False, fontsize=8.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return self

    def _panel(self, axis: Any, space: str, each: Mapping[str, Sequence[float]]) -> None:
        for place, (name, errors) in enumerate(each.items()):
            tint, dash = _series(place)
            values = np.asarray(errors)
            if self.spread is not None:
                off = np.asarray(self.spread[space][name])
                axis.fill_between(self.bandwidths, values - off, values + off, color=tint, alpha=0.08, linewidth=0)
            local = name.startswith("LoRe")
            axis.plot(self.bandwidths, values, color=tint, linestyle=dash, linewidth=2.2 if local else 1.3, label=name)
        if space in self.mark:
            axis.axvline(self.mark[space], color=BAND, linewidth=6, alpha=0.5, zorder=0)
        axis.set_xscale("log")
        percent_axis(axis.yaxis)
        axis.set_xlabel("Bandwidth", color=INK)
        axis.set_title(space, fontsize=10, color=INK, loc="left")
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)


class RewardDisplay:
    """Reward of answering only when confident, against the cost of an error, over the original's (002, Figure 4).

    Parameters
    ----------
    rewards : recalibration -> mean reward a row at each ratio; the first is the original
    ratios : cost of an error over that of declining
    """

    def __init__(self, rewards: Mapping[str, Sequence[float]], ratios: Sequence[float]) -> None:
        self.rewards, self.ratios = rewards, np.asarray(ratios, dtype=np.float64)

    @classmethod
    def from_predictions(
        cls, y_true: Any, probabilities: Mapping[str, Any], ratios: Sequence[float] | None = None, **options: Any
    ) -> RewardDisplay:
        """Measure several probabilities of the same rows, the original first; options go to `abstention_reward`."""
        from miscal.metrics.losses import abstention_reward

        grid = np.geomspace(1.25, 100.0, 25) if ratios is None else np.asarray(ratios, dtype=np.float64)
        rows = len(y_true)
        rewards = {
            name: [abstention_reward(y_true, p, error_cost=float(ratio), **options) / rows for ratio in grid]
            for name, p in probabilities.items()
        }
        return cls(rewards, grid.tolist())

    def frame(self) -> Table:
        """Recalibration, ratio, improvement over the original."""
        names, first = list(self.rewards), np.asarray(next(iter(self.rewards.values())))
        return Table(
            {
                "recalibration": [name for name in names for _ in self.ratios],
                "ratio": np.tile(self.ratios, len(names)),
                "improvement": np.concatenate([np.asarray(self.rewards[name]) - first for name in names]),
            }
        )

    def plot(self, ax: Any = None) -> RewardDisplay:
        """Draw one line a recalibration; 0 is the original."""
        if ax is None:
            _, ax = pyplot().subplots(figsize=(6.4, 4.2), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        drawn = self.frame()
        for place, name in enumerate(self.rewards):
            inside = drawn["recalibration"] == name
            tint, dash = _series(place)
            width = 2.2 if name.startswith("LoRe") else 1.3
            ax.plot(
                drawn["ratio"][inside], drawn["improvement"][inside], color=tint, linestyle=dash, linewidth=width,
                label=name,
            )  # fmt: skip
        ax.set_xscale("log")
        ax.set_xlabel("Cost of an error over the cost of declining", color=INK)
        ax.set_ylabel("Reward a row, over the original", color=INK)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        ax.legend(frameon=False, fontsize=8.5)
        return self


def _series(place: int) -> tuple[str, Any]:
    """Colour and dash of the n-th line; the original is grey."""
    if place == 0:
        return QUIET, "-"
    return SERIES[(place - 1) % len(SERIES)], "-" if place <= len(SERIES) else (0, (4, 2))


class RepairedSubpopulationsDisplay(View):
    """Multi-calibration error of several predictions of the same rows, such as before and after a repair.

    The bar is the error, the tick what calibrated predictions would show on average, the line the 95% interval.
    """

    size, a_row = (6.8, 1.3), 0.5

    def __init__(self, results: dict[str, Result]) -> None:
        super().__init__(next(iter(results.values())))
        self.results = dict(results)

    def frame(self) -> Table:
        """Name, error, floor, interval and p-value of each."""
        found = list(self.results.values())
        return Table(
            {
                "label": list(self.results),
                "value": [result.value for result in found],
                "noise_floor": [result.noise_floor for result in found],
                "low": [result.interval[0] for result in found],
                "high": [result.interval[1] for result in found],
                "p_value": [result.p_value for result in found],
            }
        )

    def draw(self, drawn: Table) -> None:
        """Draw a bar each."""
        ax = self.ax_
        place = np.arange(drawn.rows)
        ax.barh(place, drawn["value"], height=0.56, color=SERIES[0], alpha=0.85)
        ax.hlines(place, drawn["low"], drawn["high"], color=INK, linewidth=1, label="95% interval")
        floor = drawn["noise_floor"]
        ax.vlines(floor, place - 0.34, place + 0.34, color=OVER, linewidth=2.2, label="If calibrated, on average")
        top = float(np.nanmax(np.concatenate([drawn["value"], drawn["high"]])))
        for k in range(drawn.rows):
            draws = list(self.results.values())[k].settings.get("draws")
            end = max(drawn["value"][k], np.nan_to_num(drawn["high"][k]))
            words = f"{drawn['value'][k]:.4f}" + (
                f", p {p_text(drawn['p_value'][k], draws)}" if drawn["p_value"][k] >= 0 else ""
            )
            ax.text(end + 0.015 * top, k, words, va="center", fontsize=8.5, color=INK)
        ax.set_yticks(place, list(drawn["label"]), fontsize=9)
        ax.invert_yaxis()
        ax.set_xlim(0, 1.32 * top)
        ax.set_xlabel("Multi-calibration error", color=INK)
        ax.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


class ChoiceDisplay:
    """What `choose` compared: log loss against doing nothing with its interval, and the error by each audited column.

    Parameters
    ----------
    chosen : recalibrator that `choose` returned
    """

    ax_: Any
    figure_: Any

    def __init__(self, chosen: Any) -> None:
        if getattr(chosen, "table", None) is None or "log_loss_difference" not in chosen.table:
            what = "must be a recalibrator that choose returned, with at least one candidate"
            raise refusal(what, where="'chosen'", got=f"it is {type(chosen).__name__}")
        self.chosen = chosen

    def frame(self) -> Table:
        """Exactly what is drawn: candidates with a finite log loss, in the order tried."""
        table = self.chosen.table
        names = ["name", "log_loss_difference", "difference_low", "difference_high"]
        names += [name for name in table if name.startswith("by ")][:MOST_COLUMNS]
        return Table({name: table[name] for name in names}).take(np.isfinite(table["log_loss_difference"]))

    def plot(self, axes: Any = None) -> ChoiceDisplay:
        """Draw one or two panels; `axes` are as many axes, new ones by default."""
        drawn = self.frame()
        columns = [name for name in drawn if name.startswith("by ")]
        panels = 2 if columns else 1
        if axes is None:
            size = (4.8 * panels + 1.4, 1.4 + 0.3 * drawn.rows)
            axes = pyplot().subplots(1, panels, figsize=size, layout="constrained", sharey=True, squeeze=False)[1][0]
        axes = np.atleast_1d(np.asarray(axes, dtype=object))
        at = np.arange(drawn.rows)[::-1]
        self._losses(axes[0], drawn, at)
        for colour, name in zip(SERIES, columns, strict=False):
            axes[1].plot(drawn[name], at, "o", color=colour, markersize=5, label=name)
        if columns:
            percent_axis(axes[1].xaxis)
            axes[1].set_xlabel("Error by the audited columns, unseen rows", color=INK)
            axes[1].set_xlim(left=0)
            axes[1].legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
        for ax in axes:
            ax.grid(axis="y", color="#eceff2", linewidth=0.8)
            ax.set_axisbelow(True)
            for side in ("top", "right"):
                ax.spines[side].set_visible(False)
        self.ax_, self.figure_ = axes[0], axes[0].figure
        return self

    def _losses(self, ax: Any, drawn: Table, at: np.ndarray) -> None:
        winner = drawn["name"] == self.chosen.name
        colours = [OVER if one else QUIET for one in winner]
        ax.axvline(0.0, color=INK, linewidth=0.8)
        ax.hlines(at, drawn["difference_low"], drawn["difference_high"], color=colours, linewidth=1.6)
        ax.scatter(drawn["log_loss_difference"], at, color=colours, s=26, zorder=3)
        ax.set_yticks(at, list(drawn["name"]), fontsize=8)
        for label, one in zip(ax.get_yticklabels(), winner, strict=True):
            label.set_fontweight("bold" if one else "normal")
        ax.set_xlabel("Log loss against doing nothing, unseen rows (95%)", color=INK)
        left_out = self.chosen.table.rows - drawn.rows
        if left_out:
            ax.set_title(f"not drawn: {left_out} that ruled out what happened", fontsize=8, color=QUIET, loc="left")
