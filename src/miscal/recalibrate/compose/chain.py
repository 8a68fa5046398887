"""Recalibrators one after another."""

from __future__ import annotations

from functools import reduce
from typing import Any, ClassVar

from sklearn.base import clone

from miscal.data.columns import Columns
from miscal.data.errors import refusal
from miscal.recalibrate.base import Floats, Recalibrator, Sample, as_rows
from miscal.recalibrate.export.formula import Formula, Probability, Then
from miscal.recalibrate.state import Field


class Chain(Recalibrator):
    """Fit recalibrators one after another, each on the probabilities that those before it give.

    The first may be a correction that learns nothing, such as `SamplingCorrection`. All are fitted on the same rows.
    Keeps the ranking if all of them do.

    Parameters
    ----------
    steps : list of recalibrators
        Those given are not changed.

    Attributes
    ----------
    steps_ : list of fitted recalibrators

    Examples
    --------
    >>> from miscal.recalibrate import Chain, HistogramBinning, SamplingCorrection
    >>> fixed = Chain([SamplingCorrection(rate=0.5), HistogramBinning(bins=2)]).fit([0.5, 0.6, 0.9], [0, 1, 1])
    >>> fixed.predict_proba([0.55])[:, 1]
    array([0.5])
    """

    fields: ClassVar[dict[str, Field]] = {"steps_": Field("inner")}

    steps_: list[Recalibrator]

    def __init__(self, steps: Any) -> None:
        self.steps = steps

    @property
    def uses_columns(self) -> bool:  # type: ignore[override]
        """Whether X is looked at."""
        return any(step.uses_columns for step in self.steps)

    def check_parameters(self) -> None:
        """Refuse wrong parameters."""
        given = self.steps
        fine = isinstance(given, (list, tuple)) and len(given) > 0
        if not fine or not all(isinstance(step, Recalibrator) for step in given):
            what = "must be a list of recalibrators, such as [SamplingCorrection(rate=0.1), PlattScaling()]"
            raise refusal(what, where="'steps'", got=f"got {given!r}")
        for step in given:
            step.check_parameters()

    def check_state(self) -> None:
        """Refuse steps that do not belong to the parameters."""
        if [type(step) for step in self.steps_] != [type(step) for step in self.steps]:
            raise ValueError("the fitted steps are not those of the parameters")
        if any(not step.is_fitted() or step.n_classes_ != self.n_classes_ for step in self.steps_):
            raise ValueError("a step is not fitted to these classes")

    def _fit(self, sample: Sample) -> None:
        self.steps_ = []
        probability = sample.probability
        for step in self.steps:
            made = clone(step).fit(probability, sample.outcome, _columns(step, sample.columns), sample.weight)
            self.steps_.append(made)
            probability = _next(made, probability, sample.columns)

    def _map(self, probability: Floats) -> Floats:
        return self._map_beside(probability, Columns({}))

    def _map_beside(self, probability: Floats, columns: Columns) -> Floats:
        for step in self.steps_:
            probability = _next(step, probability, columns)
        return as_rows(probability)

    def _keeps_ranking(self) -> bool:
        return all(step.keeps_ranking for step in (self.steps_ if self.is_fitted() else self.steps))

    def _formula(self) -> Formula:
        steps: list[Any] = [Probability(), *(step.formula() for step in self.steps_)]
        found: Formula = reduce(Then, steps)
        return found

    @classmethod
    def _examples(cls) -> list[Recalibrator]:
        from miscal.recalibrate.by_columns.variable_tree import VariableTree
        from miscal.recalibrate.score.curves import PlattScaling

        return [cls([PlattScaling(l2=0.5), VariableTree(max_depth=1)])]

    def _summary(self) -> str:
        return ", then ".join(type(step).__name__ for step in self.steps_)


def _columns(step: Recalibrator, columns: Columns) -> Columns | None:
    return columns if step.uses_columns else None


def _next(step: Recalibrator, probability: Floats, columns: Columns) -> Floats:
    """The probabilities that the next step sees: (n,) of two classes."""
    found = step.mapped(probability, _columns(step, columns))
    return found[:, 1].copy() if probability.ndim == 1 else found
