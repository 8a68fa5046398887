"""Recalibrators that learn nothing: the identity, and the correction of a known sampling of negatives."""

from miscal.data.arrays import Floats
from miscal.data.checks import number
from miscal.data.responses import RESPONSES
from miscal.export import formula as nodes
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.parameters import parameter
from miscal.recalibrate.probability_arrays import normalised_matrix


class Identity(Recalibrator):
    """Leave probabilities as they are (keeps the ranking).

    Rows of several classes that do not sum to 1 (they may be off by 1e-4) are divided by their sum.

    Examples
    --------
    >>> Identity().fit([0.2, 0.7], [0, 1]).predict_proba([0.25])
    array([[0.75, 0.25]])
    """

    always_keeps_ranking = True
    moves_certain_scores = False
    responses = RESPONSES

    def _map(self, probability: Floats) -> Floats:
        return normalised_matrix(probability)

    def _formula(self) -> nodes.Formula:
        return nodes.untouched(self.n_classes_)


class SamplingCorrection(Recalibrator):
    """Correct probabilities of a model trained with a known share of the negatives (He et al. 2014).

    P = p / (p + (1 - p) / rate). Nothing is learned from the rows, so apply it before anything that is. Keeps the
    ranking. Two classes only.

    Parameters
    ----------
    rate : float, default=1.0
        Share of the negatives that the model was trained on, in (0, 1].

    Examples
    --------
    >>> SamplingCorrection(rate=0.1).fit([0.5, 0.2], [1, 0]).predict_proba([0.5])[:, 1].round(6)
    array([0.090909])
    """

    always_keeps_ranking = True
    binary_only = True
    moves_certain_scores = False

    rate: float = parameter(number, 0.0, 1.0, above=True, default=1.0)

    def _map(self, probability: Floats) -> Floats:
        # In this form p = 1 stays 1 and p = 0 stays 0 exactly.
        return probability / (probability + (1.0 - probability) / self.rate)

    def _formula(self) -> nodes.Formula:
        inverse = 1.0 / self.rate  # 1 - inverse is exact, and so is what 0 and 1 become
        denominator = nodes.Linear(((1.0 - inverse, nodes.PROBABILITY),), inverse)
        return nodes.BinaryOp(nodes.PROBABILITY, "/", denominator)
