"""Maps that learn nothing from the rows: the one that changes nothing, and one that undoes a known sampling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from miscal.recalibrate.base import Floats, Recalibrator, Sample, as_rows, pairs
from miscal.recalibrate.export.formula import Each, Formula, Probability, Ratio
from miscal.recalibrate.fitting.parameters import number, parameter


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


class SamplingCorrection(Recalibrator):
    """Correct probabilities of a model trained with a known share of the negatives (He et al. 2014).

    P = p / (p + (1 - p) / rate): nothing is learned from the rows, so apply it before anything that is. Keeps the
    ranking. Two classes only.

    Parameters
    ----------
    rate : share of the negatives that was kept, in (0, 1]

    Examples
    --------
    >>> SamplingCorrection(rate=0.1).fit([0.5, 0.2], [1, 0]).predict_proba([0.5])[:, 1].round(6)
    array([0.090909])
    """

    two_classes_only: ClassVar[bool] = True
    broken_laws: ClassVar[Mapping[str, str]] = {"calibrated": "it learns nothing from the rows"}

    rate: float = parameter(number, 0.0, 1.0, above=True, default=1.0)

    def _fit(self, sample: Sample) -> None:
        pass

    def _map(self, probability: Floats) -> Floats:
        # Divided through by p where p is large, so that p = 1 stays 1 and p = 0 stays 0 exactly.
        return pairs(np.asarray(probability / (probability + (1.0 - probability) / float(self.rate))))

    def _keeps_ranking(self) -> bool:
        return True

    def _formula(self) -> Ratio:
        return Ratio(Probability(), float(self.rate))

    @classmethod
    def _examples(cls) -> list[Recalibrator]:
        return [cls(rate=0.5)]
