"""TODO outcome_families."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from miscal.data.arrays import Floats, logit, sigmoid
from miscal.data.libraries import special
from miscal.export import formula as nodes
from miscal.export.dialects import EXP_LIMIT

ArrayFunction: TypeAlias = Callable[[Floats], Floats]
LOGIT_EDGE = 1e-7  # probabilities are held within [EDGE, 1 - EDGE] before the logit
MIN_MEAN = 1e-12  # that a count's prediction is held at before its logarithm


@dataclass(frozen=True)
class OutcomeFamily:
    """One kind of outcome.

    link, mean : where changes add, and the way back
    losses : of each row, from the link of its prediction and its outcome
    bend : the second derivative of half the loss, from the prediction
    objective, loss : the names LightGBM and tables have for the loss
    before, after : the link of the probability as a node of a formula, and `mean` of a node
    """

    link: ArrayFunction
    mean: ArrayFunction
    losses: Callable[[Floats, Floats], Floats]
    curvature: ArrayFunction
    objective: str
    loss: str
    link_formula: nodes.Node
    mean_formula: Callable[[nodes.Node], nodes.Node]

    def target(self, mean: Floats, outcome: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """What trees and orders of levels look at, with its weight: the difference to the prediction, or the ratio."""
        if self.objective != "poisson":
            return outcome - mean, weight
        held = np.maximum(mean, MIN_MEAN)
        return outcome / held, weight * held


def clipped_exp(link: Floats) -> Floats:
    """The exponential, held where it neither overflows nor underflows, as formulas hold it."""
    return np.exp(np.clip(link, -EXP_LIMIT, EXP_LIMIT))


FAMILIES = {
    "binary": OutcomeFamily(
        link=lambda mean: logit(mean, LOGIT_EDGE),
        mean=sigmoid,
        losses=lambda link, outcome: np.logaddexp(0.0, link) - outcome * link,
        curvature=lambda mean: mean * (1.0 - mean),
        objective="binary",
        loss="log loss",
        link_formula=nodes.logit(LOGIT_EDGE),
        mean_formula=nodes.Sigmoid,
    ),
    "real": OutcomeFamily(
        link=np.asarray,  # as it is
        mean=np.asarray,
        losses=lambda link, outcome: (outcome - link) ** 2,
        curvature=np.ones_like,
        objective="regression",
        loss="squared error",
        link_formula=nodes.PROBABILITY,
        mean_formula=lambda node: node,
    ),
    "count": OutcomeFamily(
        link=lambda mean: np.log(np.maximum(mean, MIN_MEAN)),
        mean=clipped_exp,
        losses=lambda link, y: 2.0 * (special.xlogy(y, y) - y * link - y + clipped_exp(link)),
        curvature=np.asarray,
        objective="poisson",
        loss="deviance",
        link_formula=nodes.log_above(MIN_MEAN),
        mean_formula=nodes.exp,
    ),
}
