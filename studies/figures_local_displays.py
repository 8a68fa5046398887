"""What only the studies of paper 002 need: t-SNE, and the figures that compare several recalibrations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.plots.base import BAND, INK, QUIET, SERIES, percent_axis, pyplot
from miscal.results import Table


def embedded(matrix: np.ndarray, dimensions: int, seed: int) -> np.ndarray:
    """Embed by t-SNE (openTSNE); all rows together, since the map knows no other rows."""
    from openTSNE import TSNE

    rows = len(matrix)
    made = TSNE(
        n_components=dimensions,
        perplexity=min(30.0, (rows - 1) / 3.0),
        negative_gradient_method="fft" if dimensions <= 2 and rows >= 2000 else "bh",
        initialization="pca" if matrix.shape[1] >= dimensions else "random",
        random_state=seed,
        n_jobs=1,
    ).fit(matrix)
    return np.ascontiguousarray(np.asarray(made, dtype=np.float64))


def principal(matrix: np.ndarray, dimensions: int) -> np.ndarray:
    """Scores on the leading principal components."""
    from miscal.metrics.neighbourhood.features import components

    centre, directions, _ = components(matrix, dimensions, None)
    return np.asarray((matrix - centre) @ directions)


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
        from miscal.metrics.neighbourhood.errors import local_calibration_error

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
        from miscal.metrics.score.losses import abstention_reward

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
