"""The recalibrator that changes nothing: what every other must beat."""

from __future__ import annotations

from miscal.recalibrate.base import Floats, Recalibrator, Sample, as_rows
from miscal.recalibrate.export.formula import Each, Formula, Probability


class Identity(Recalibrator):
    """Leave probabilities as they are (keeps the ranking).

    Rows of several classes that do not sum to 1 (they may be off by 1e-4) are divided by their sum.

    Examples
    --------
    >>> Identity().fit([0.2, 0.7], [0, 1]).predict_proba([0.25])
    array([[0.75, 0.25]])
    """

    def _fit(self, sample: Sample) -> None:
        pass

    def _map(self, probability: Floats) -> Floats:
        return as_rows(probability)

    def _keeps_ranking(self) -> bool:
        return True

    def _formula(self) -> Formula:
        return Probability() if self.n_classes_ == 2 else Each((Probability(),) * self.n_classes_)
