"""Figures that compare several recalibrations of the same rows: local error by bandwidth, reward of abstaining."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from miscal.data.arrays import Array
from miscal.data.checks import one_of
from miscal.data.errors import refusal
from miscal.metrics.losses import abstention_reward
from miscal.metrics.neighbourhood_errors import local_calibration_error
from miscal.plots.base import BAND, DASHES, INK, QUIET, SERIES, open_axes, percent_axis, pyplot
from miscal.results import Table

STATISTICS = ("maximum", "average")
BANDWIDTHS = tuple(np.geomspace(0.01, 10.0, 13).tolist())
RATIOS = tuple(np.geomspace(1.25, 100.0, 25).tolist())
BEFORE = "Not recalibrated"  # the name of probabilities that are given without one
ALL_FEATURES = "Features"

Curve = Sequence[float] | Array


class BandwidthDisplay:
    """Local calibration error against the bandwidth, a line per recalibration and a panel per feature space.

    The maximum falls from the worst single row (bandwidth near 0) to the maximum calibration error of the bins
    (infinity); paper 002 draws it in Figures 1, 3 and 5 to 15, and the average in Figures 16 to 19.
    `BandwidthDisplay.from_predictions` measures and draws; the constructor takes curves that were measured before, such
    as means over several runs.

    Parameters
    ----------
    curves : mapping of feature spaces to mappings of recalibrations to errors, one error per bandwidth
    bandwidths : increasing numbers above 0
    statistic : {"maximum", "average"}
        What the errors are, over the rows.
    spread : like `curves`, optional
        A standard deviation over runs, drawn as a band.
    mark : mapping of feature spaces to a bandwidth, optional
        Marked by a vertical bar, such as the bandwidth of the recalibration.

    Attributes
    ----------
    ax_, figure_ : the first axes and the figure it was drawn in
    axes_ : all axes, one per feature space

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.plots import BandwidthDisplay
    >>> curves = {"PCA": {"before": [0.9, 0.2], "after": [0.8, 0.1]}}
    >>> BandwidthDisplay(curves, [0.1, 1.0]).frame()["error"].tolist()
    [0.9, 0.2, 0.8, 0.1]
    """

    ax_: Any
    axes_: Any
    figure_: Any

    def __init__(
        self,
        curves: Mapping[str, Mapping[str, Curve]],
        bandwidths: Curve,
        statistic: str = "maximum",
        spread: Mapping[str, Mapping[str, Curve]] | None = None,
        mark: Mapping[str, float] | None = None,
    ) -> None:
        one_of("statistic", statistic, STATISTICS)
        self.bandwidths = np.asarray(bandwidths, float)
        self.curves = {space: _curves(lines, self.bandwidths, "'curves'") for space, lines in curves.items()}
        if not self.curves:
            raise refusal("must have at least one feature space", "'curves'")
        self.spread = {
            space: _curves(lines, self.bandwidths, "'spread'") for space, lines in (spread or {}).items()
        }
        self.statistic, self.mark = statistic, dict(mark or {})

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_probs: Any,
        features: Any,
        *,
        bandwidths: Curve = BANDWIDTHS,
        statistic: str = "maximum",
        mark: Mapping[str, float] | None = None,
        ax: Any = None,
        sample_weight: Any = None,
        **options: Any,
    ) -> Self:
        """Measure several probabilities of the same rows and draw them.

        Parameters
        ----------
        y_true, sample_weight : as in `miscal.metrics.local_calibration_error`
        y_probs : mapping of recalibrations to probabilities of the rows, or probabilities alone
            The first is drawn in grey: give those before recalibration.
        features : mapping of feature spaces to (n, d) numbers, or the numbers alone
        bandwidths, statistic, mark : as in `BandwidthDisplay`
        ax : axes to draw on, as many as there are feature spaces
        options : `bins`, `strategy`, `kernel`, `target` and others of `miscal.metrics.local_calibration_error`
        """
        one_of("statistic", statistic, STATISTICS)
        grid = np.asarray(bandwidths, float)
        spaces, probabilities = _named(features, ALL_FEATURES), _named(y_probs, BEFORE)
        options |= {"bandwidth": grid, "sample_weight": sample_weight, "signed": False}
        weight = None if options.get("queries") is not None else sample_weight

        def read(probability: Any, space: Any) -> Array:
            error = np.ma.masked_invalid(local_calibration_error(y_true, probability, space, **options))
            curves = (
                error.max(axis=1) if statistic == "maximum" else np.ma.average(error, axis=1, weights=weight)
            )
            return np.asarray(np.ma.filled(curves, np.nan))

        curves = {
            name: {label: read(probability, space) for label, probability in probabilities.items()}
            for name, space in spaces.items()
        }
        return cls(curves, grid, statistic, mark=mark).plot(ax)

    @classmethod
    def from_estimators(
        cls, estimators: Mapping[str, Any], X: Any, y: Any, features: Any = None, **options: Any
    ) -> Self:
        """Predict with several fitted classifiers, measure, and draw.

        Parameters
        ----------
        estimators : mapping of names to classifiers with predict_proba; the first is drawn in grey
        X : what they predict from
        y : class numbers 0 to K-1
        features : as in `from_predictions`; X where not given
        options : as in `from_predictions`
        """
        return cls.from_predictions(
            y, _predicted(estimators, X), X if features is None else features, **options
        )

    def frame(self) -> Table:
        """Exactly what is drawn: feature space, recalibration, bandwidth, error."""
        rows = [
            (space, label, bandwidth, error)
            for space, lines in self.curves.items()
            for label, errors in lines.items()
            for bandwidth, error in zip(self.bandwidths.tolist(), errors.tolist(), strict=True)
        ]
        names = ("features", "recalibration", "bandwidth", "error")
        return Table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))

    def plot(self, ax: Any = None, **style: Any) -> Self:
        """Draw a panel per feature space, on new axes or on those given; style goes to all lines."""
        count, own_axes = len(self.curves), ax is None
        if own_axes:
            ax = _panels(count)
        self.axes_ = np.atleast_1d(np.asarray(ax, dtype=object)).reshape(-1)
        if len(self.axes_) != count:
            raise refusal(
                f"must be {count} axes, one per feature space", "'ax'", got=f"got {len(self.axes_)}"
            )
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        highest = max(float(np.nanmax(errors)) for lines in self.curves.values() for errors in lines.values())
        for panel, space in zip(self.axes_, self.curves, strict=True):
            self._panel(panel, space, style)
            panel.set_ylim(0, 1.05 * highest)
        look = {"frameon": False, "fontsize": 9}
        if own_axes:
            self.figure_.supylabel(self._error, fontsize=10)
            self.figure_.legend(*self.ax_.get_legend_handles_labels(), loc="outside right center", **look)
        else:
            self.ax_.set_ylabel(self._error)
            self.axes_[-1].legend(**look)
        return self

    @property
    def _error(self) -> str:
        return f"{self.statistic.capitalize()} local calibration error"

    def _panel(self, panel: Any, space: str, style: dict[str, Any]) -> None:
        open_axes(panel)
        spread = self.spread.get(space, {})
        for place, (label, errors) in enumerate(self.curves[space].items()):
            look = _line(place)
            if label in spread:
                ends = errors - spread[label], errors + spread[label]
                panel.fill_between(self.bandwidths, *ends, color=look["color"], alpha=0.08, linewidth=0)
            panel.plot(self.bandwidths, errors, label=label, **look | style)
        if space in self.mark:
            panel.axvline(self.mark[space], color=BAND, linewidth=6, alpha=0.5, zorder=0)
        _log_axis(panel, subs=(1.0,))
        panel.set_xlabel("Bandwidth")
        percent_axis(panel.yaxis)
        panel.set_title(space, fontsize=10, color=INK, loc="left")


class RewardDisplay:
    """Reward of answering only when confident, against the cost of an error, less the reward before recalibration.

    A model that may decline pays 1 to decline and `ratio` for an answer that is wrong, and answers where its confidence
    is at least 1 - 1/ratio (paper 002, section 5.4 and Figure 4). A line above 0 gains by recalibration.
    `RewardDisplay.from_predictions` measures and draws; the constructor takes rewards that were measured before.

    Parameters
    ----------
    rewards : mapping of recalibrations to mean rewards per row, one per ratio
    ratios : increasing numbers above 0
        Cost of an error over the cost of declining.
    baseline : str, optional
        The recalibration whose rewards are subtracted; the first where not given.

    Attributes
    ----------
    ax_, figure_ : where it was drawn

    Examples
    --------
    >>> from miscal.plots import RewardDisplay
    >>> display = RewardDisplay({"before": [-0.5, -0.9], "after": [-0.4, -0.6]}, [2.0, 10.0])
    >>> display.frame()["improvement"].round(2).tolist()
    [0.0, 0.0, 0.1, 0.3]
    """

    ax_: Any
    figure_: Any

    def __init__(self, rewards: Mapping[str, Curve], ratios: Curve, baseline: str | None = None) -> None:
        self.ratios = np.asarray(ratios, float)
        self.rewards = _curves(rewards, self.ratios, "'rewards'")
        self.baseline = next(iter(self.rewards)) if baseline is None else baseline
        one_of("baseline", self.baseline, list(self.rewards))

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_probs: Any,
        *,
        ratios: Curve = RATIOS,
        baseline: str | None = None,
        ax: Any = None,
        sample_weight: Any = None,
        **options: Any,
    ) -> Self:
        """Measure several probabilities of the same rows and draw them.

        Parameters
        ----------
        y_true, sample_weight : as in `miscal.metrics.abstention_reward`
        y_probs : mapping of recalibrations to probabilities of the rows
        ratios, baseline : as in `RewardDisplay`
        ax : axes to draw on
        options : `target` of `miscal.metrics.abstention_reward`
        """
        grid = np.asarray(ratios, float)
        total = len(y_true) if sample_weight is None else float(np.sum(sample_weight))
        options |= {"sample_weight": sample_weight, "unsure_cost": 1.0}
        rewards = {
            label: [
                abstention_reward(y_true, probability, error_cost=ratio, **options) / total
                for ratio in grid.tolist()
            ]
            for label, probability in _named(y_probs, BEFORE).items()
        }
        return cls(rewards, grid, baseline).plot(ax)

    @classmethod
    def from_estimators(cls, estimators: Mapping[str, Any], X: Any, y: Any, **options: Any) -> Self:
        """Predict with several fitted classifiers, measure, and draw.

        Parameters
        ----------
        estimators : mapping of names to classifiers with predict_proba, the one before recalibration first
        X : what they predict from
        y : class numbers 0 to K-1
        options : as in `from_predictions`
        """
        return cls.from_predictions(y, _predicted(estimators, X), **options)

    def frame(self) -> Table:
        """Exactly what is drawn: recalibration, ratio, reward per row, improvement over the baseline."""
        reward = np.concatenate(list(self.rewards.values()))
        count = len(self.rewards)
        return Table(
            {
                "recalibration": [label for label in self.rewards for _ in self.ratios],
                "ratio": np.tile(self.ratios, count),
                "reward": reward,
                "improvement": reward - np.tile(self.rewards[self.baseline], count),
            }
        )

    def plot(self, ax: Any = None, **style: Any) -> Self:
        """Draw a line per recalibration, on new axes or on those given; style goes to all lines."""
        if ax is None:
            _, ax = pyplot().subplots(figsize=(6.6, 4.2), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        open_axes(ax)
        drawn = self.frame()
        for place, label in enumerate(self.rewards):
            line = drawn.take(drawn["recalibration"] == label)
            ax.plot(line["ratio"], line["improvement"], label=label, **_line(place) | style)
        _log_axis(ax, subs=(1.0, 2.0, 5.0))
        ax.set(xlabel="Cost of an error over the cost of declining")
        ax.set_ylabel(f"Reward per row, less that of “{self.baseline}”")
        ax.legend(frameon=False, fontsize=9)
        return self


def _panels(count: int) -> Array:
    """Axes of a new figure: one to three side by side, more in two columns."""
    wide = count if count <= 3 else 2
    high = -(-count // wide)
    size = (5.0 * wide + 1.6, 4.0 * high + 0.2)
    _, axes = pyplot().subplots(
        high, wide, figsize=size, layout="constrained", squeeze=False, sharex=True, sharey=True
    )
    for spare in axes.flat[count:]:
        spare.set_visible(False)
    return np.asarray(axes.flat[:count])


def _named(values: Any, name: str) -> dict[str, Any]:
    """What was given by names, or under a name where it has none."""
    named = dict(values) if isinstance(values, Mapping) else {name: values}
    if not named:
        raise refusal("must have at least one entry", "the mapping")
    return named


def _curves(lines: Mapping[str, Curve], grid: Array, where: str) -> dict[str, Array]:
    """Lines as arrays, a number per point of the grid."""
    curves = {str(label): np.asarray(values, float) for label, values in lines.items()}
    if not curves:
        raise refusal("must have at least one recalibration", where)
    for label, values in curves.items():
        if values.shape != grid.shape:
            got = f"'{label}' has shape {values.shape}"
            raise refusal(f"must have {grid.size} numbers per recalibration", where, got=got)
    return curves


def _predicted(estimators: Mapping[str, Any], X: Any) -> dict[str, Any]:
    """Probabilities of several fitted classifiers."""
    for label, estimator in estimators.items():
        if not hasattr(estimator, "predict_proba"):
            got = f"'{label}' is {type(estimator).__name__}"
            raise refusal("must be fitted classifiers with predict_proba", "'estimators'", got=got)
    return {label: estimator.predict_proba(X) for label, estimator in estimators.items()}


def _log_axis(ax: Any, subs: Sequence[float]) -> None:
    """A logarithmic x axis with plain numbers at these multiples of the powers of 10."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=list(subs)))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def _line(place: int) -> dict[str, Any]:
    """How the line at a place looks: the first is grey, dashes tell apart those of one colour."""
    if place == 0:
        return {"color": QUIET, "linewidth": 1.8}
    again, tint = divmod(place - 1, len(SERIES))
    return {"color": SERIES[tint], "linewidth": 1.4, "linestyle": DASHES if again else "-"}
