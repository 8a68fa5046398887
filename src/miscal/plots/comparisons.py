"""Several predictions of the same rows compared along a variable, such as those before and after recalibration."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from miscal.data.arrays import Plain
from miscal.data.errors import refusal
from miscal.plots.along import CurveView, Reliability, ScoreDisplay, VariableDisplay
from miscal.plots.base import ABOUT, SERIES, View, measured
from miscal.results import Result, Table

PANELS = ("score", "variable")


class VariableComparisonDisplay(View):
    """Predicted minus observed along one variable, a line for each of several predictions (paper 000, Figure 10).

    Zero is calibrated; the bands are pointwise 95% bands. For the top label the errors are compared, one minus
    confidence and one minus correctness, as in `VariableDisplay`.

    Parameters
    ----------
    results : mapping of str to Result
        Name of the predictions, and their result of `by_variable`: of the same numeric column and the same target.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure of the axes.

    See Also
    --------
    ScoreAndVariableDisplay : the curves themselves, each beside its reliability diagram.

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.plots import VariableComparisonDisplay
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(20, 80, 500)
    >>> y = rng.random(500) < age / 100
    >>> models = {"constant": np.full(500, 0.5), "recalibrated": age / 100}
    >>> display = VariableComparisonDisplay.from_predictions(y, models, {"age": age})
    >>> display.frame()["model"][[0, -1]].tolist()
    ['constant', 'recalibrated']
    """

    size = (6.4, 4.2)

    def __init__(self, results: Mapping[str, Result]) -> None:
        check_alike("results", list(results.values()))
        self.results = dict(results)
        self.curves = {name: CurveView(result) for name, result in results.items()}
        super().__init__(next(iter(self.results.values())))

    @classmethod
    def from_results(cls, results: Mapping[str, Result], *, ax: Any = None, **style: Any) -> Self:
        """Draw results.

        Parameters
        ----------
        results : mapping of str to Result
            As of the class.
        ax : matplotlib Axes, optional
            New ones by default.
        **style
            Goes to `plot`.
        """
        return cls(results).plot(ax, **style)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_probs: Mapping[str, Any],
        by: Any,
        *,
        ax: Any = None,
        sample_weight: Any = None,
        **options: Any,
    ) -> Self:
        """Measure several predictions of the same rows and draw them.

        Parameters
        ----------
        y_true : (n,) array
            Outcomes.
        y_probs : mapping of str to (n,) or (n, K) array
            Name and probabilities of each prediction.
        by : (n,) array, or frame or dict of one column
            The variable.
        ax : matplotlib Axes, optional
            New ones by default.
        sample_weight : (n,) array, optional
            Sampling weights.
        **options
            As in `VariableDisplay.from_predictions`.
        """
        _needs_some("y_probs", y_probs)
        return cls(
            {
                name: measured(VariableDisplay, y_true, p, by, sample_weight, options)
                for name, p in y_probs.items()
            }
        ).plot(ax)

    def frame(self) -> Table:
        """Exactly what is drawn: the gaps of all predictions, one below the other, named by `model`."""
        frames = [curve.frame() for curve in self.curves.values()]
        rows = [frame.rows for frame in frames]
        columns: Plain = {"model": np.repeat(np.array(list(self.curves), dtype=object), rows)}
        for name in ("value", "gap", "gap_low", "gap_high"):
            columns[name] = np.concatenate([frame[name] for frame in frames])
        return Table(columns)

    def draw(self, drawn: Table, **style: Any) -> None:
        """Draw one line for each prediction, with its band."""
        self.draw_zero_line()
        for place, name in enumerate(self.curves):
            tint = SERIES[place % len(SERIES)]
            gaps = drawn.take(drawn["model"] == name)
            value = gaps["value"]
            self.ax_.fill_between(
                value, gaps["gap_low"], gaps["gap_high"], color=tint, alpha=0.13, linewidth=0
            )
            self.ax_.plot(value, gaps["gap"], **{"color": tint, "linewidth": 1.6, "label": name} | style)
        up = "Predicted minus observed" + (" error" if CurveView(self.result).error else "")
        self.label_axes(str(self.settings["column"]), up, rates="y", legend="best")


class ScoreAndVariableDisplay:
    """Reliability diagram beside the curve along a variable, a row for each prediction (paper 000, Figures 6 to 9).

    All curves have the same vertical axis.

    Parameters
    ----------
    results : mapping of str to (Result, Result)
        Name of the predictions, and their results of `by_score` and of `by_variable`; the latter of the same numeric
        column.

    Attributes
    ----------
    axes_ : (rows, 2) array of matplotlib Axes
        Where it was drawn.
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure
        The figure of the axes.

    See Also
    --------
    VariableComparisonDisplay : all gaps on one axis.

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.plots import ScoreAndVariableDisplay
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(20, 80, 500)
    >>> y = rng.random(500) < age / 100
    >>> models = {"too high": age / 80, "recalibrated": age / 100}
    >>> display = ScoreAndVariableDisplay.from_predictions(y, models, {"age": age}, score={"bins": 5})
    >>> display.axes_.shape
    (2, 2)
    """

    axes_: Any
    ax_: Any
    figure_: Any

    def __init__(self, results: Mapping[str, tuple[Result, Result]]) -> None:
        pairs = list(results.values())
        check_alike("results", [variable for _, variable in pairs])
        for score, variable in pairs:
            if score.kind != "score":
                raise refusal(
                    "must have a result of by_score first", "'results'", got=f"its kind is {score.kind}"
                )
            if score.settings["target"] != variable.settings["target"]:
                targets = f"they are {score.settings['target']} and {variable.settings['target']}"
                raise refusal("must have one target in each pair", "'results'", got=targets)
        self.results = dict(results)
        self.views: dict[str, tuple[Reliability, CurveView]] = {
            name: (Reliability(score), CurveView(variable)) for name, (score, variable) in results.items()
        }

    @classmethod
    def from_results(
        cls, results: Mapping[str, tuple[Result, Result]], *, axes: Any = None, **style: Any
    ) -> Self:
        """Draw results.

        Parameters
        ----------
        results : mapping of str to (Result, Result)
            As of the class.
        axes : (rows, 2) array of matplotlib Axes, optional
            New ones by default.
        **style
            Goes to `plot`.
        """
        return cls(results).plot(axes, **style)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_probs: Mapping[str, Any],
        by: Any,
        *,
        axes: Any = None,
        sample_weight: Any = None,
        score: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """Measure several predictions of the same rows by score and along a variable, and draw them.

        Parameters
        ----------
        y_true : (n,) array
            Outcomes.
        y_probs : mapping of str to (n,) or (n, K) array
            Name and probabilities of each prediction.
        by : (n,) array, or frame or dict of one column
            The variable.
        axes : (rows, 2) array of matplotlib Axes, optional
            New ones by default.
        sample_weight : (n,) array, optional
            Sampling weights.
        score : mapping, optional
            Options of `by_score` alone, such as ``{"bins": 10}``.
        **options
            As in `VariableDisplay.from_predictions`; `target` and those of `Predictions` hold for both panels.
        """
        _needs_some("y_probs", y_probs)
        shared = {name: value for name, value in options.items() if name in (*ABOUT, "target")}
        of_score = shared | dict(score or {})
        return cls(
            {
                name: (
                    measured(ScoreDisplay, y_true, p, None, sample_weight, of_score),
                    measured(VariableDisplay, y_true, p, by, sample_weight, options),
                )
                for name, p in y_probs.items()
            }
        ).plot(axes)

    def frame(self) -> Table:
        """The points of both panels, named by `model` and `panel`; `value` is the mean score or the variable's."""
        rows: list[tuple[Any, ...]] = []
        for name, views in self.views.items():
            for panel, view in zip(PANELS, views, strict=True):
                drawn = view.frame()
                value = drawn["predicted" if panel == "score" else "value"]
                points = zip(value, drawn["predicted"], drawn["observed"], strict=True)
                rows += [(name, panel, *point) for point in points]
        names = ("model", "panel", "value", "predicted", "observed")
        return Table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))

    def plot(self, axes: Any = None, **style: Any) -> Self:
        """Draw, on new axes or on those given: two for each prediction.

        Style goes to matplotlib for the lines of what was observed.
        """
        count = len(self.views)
        first = next(iter(self.views.values()))[1]
        if axes is None:
            axes = first.panels(count, 2, (10, 3.9 * count), width_ratios=(1, 1.5))
        axes = np.asarray(axes, dtype=object)
        if axes.shape != (count, 2):
            shape = " x ".join(map(str, axes.shape))
            raise refusal(f"must be {count} x 2 axes, two for each prediction", "'axes'", got=f"got {shape}")
        for (name, (score, variable)), (left, right) in zip(self.views.items(), axes, strict=True):
            score.plot(left, **style)
            left.set_title(name, loc="left", fontsize=10)
            variable.plot(right, name=name, **style)
        limits = np.array([ax.get_ylim() for ax in axes[:, 1]])
        for ax in axes[:, 1]:
            ax.set_ylim(limits[:, 0].min(), limits[:, 1].max())
        self.axes_, self.ax_, self.figure_ = axes, axes[0, 0], axes[0, 0].figure
        return self


def check_alike(name: str, results: list[Result]) -> None:
    """Reject results that are none, or that are not along one variable for one target."""
    _needs_some(name, results)
    for result in results:
        if result.kind != "variable":
            raise refusal("must be of by_variable", f"'{name}'", got=f"its kind is {result.kind}")
    subjects = {(str(result.settings["column"]), str(result.settings["target"])) for result in results}
    if len(subjects) > 1:
        got = "; ".join(f"column {column}, target {target}" for column, target in sorted(subjects))
        raise refusal("must be of one column and one target", f"'{name}'", got=got)


def _needs_some(name: str, values: Any) -> None:
    if not len(values):
        raise refusal("must have at least one entry", f"'{name}'", got="it is empty")
