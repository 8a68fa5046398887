"""Kinds of outcome: events, real numbers and counts, each with its link, loss and derivatives.

In all three families a change of the link times the residual has mean 0 where the prediction is right. Every test of a
gain rests on that, whatever the variance of the outcome. To add a kind of outcome: a member of `Response` and an entry
of `FAMILIES`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from miscal.codes.data import Response
from miscal.codes.recalibration import Loss
from miscal.data.arrays import Floats, logit, sigmoid
from miscal.data.libraries import special
from miscal.export import formula as nodes
from miscal.export.dialects import EXP_LIMIT

ArrayFunction: TypeAlias = Callable[[Floats], Floats]

#: Probabilities are clipped to [LOGIT_EDGE, 1 - LOGIT_EDGE] before the logit.
LOGIT_EDGE = 1e-7
#: Smallest mean of a count: its logarithm stays finite.
MIN_MEAN = 1e-12


@dataclass(frozen=True)
class OutcomeFamily:
    """One kind of outcome.

    Attributes
    ----------
    link, mean : callable
        From a mean to the scale on which changes add, and back.
    losses : callable
        Loss of each row, from the link of its prediction and its outcome.
    curvature : callable
        Second derivative of half the loss with respect to the link, from the prediction.
    objective : str
        LightGBM's name of the loss.
    loss : Loss
        The loss.
    link_formula : Node
        The link of the prediction, as an expression.
    mean_formula : callable
        `mean` of an expression.
    multiplicative : bool
        Whether a correction is a factor (counts) or a difference.
    """

    link: ArrayFunction
    mean: ArrayFunction
    losses: Callable[[Floats, Floats], Floats]
    curvature: ArrayFunction
    objective: str
    loss: Loss
    link_formula: nodes.Node
    mean_formula: Callable[[nodes.Node], nodes.Node]
    multiplicative: bool = False

    def target(self, mean: Floats, outcome: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """What trees and orders of levels are fitted to: the difference to the prediction, or the ratio.

        Parameters
        ----------
        mean, outcome, weight : (n,) array
            Of each row.

        Returns
        -------
        target, weight : (n,) array
            With the weight that makes means of the target those of the correction.
        """
        if not self.multiplicative:
            return outcome - mean, weight
        positive_mean = np.maximum(mean, MIN_MEAN)
        return outcome / positive_mean, weight * positive_mean


def clipped_exp(link: Floats) -> Floats:
    """The exponential, clipped where it would overflow or underflow, as formulas clip it."""
    return np.exp(np.clip(link, -EXP_LIMIT, EXP_LIMIT))


FAMILIES: dict[str, OutcomeFamily] = {
    Response.BINARY: OutcomeFamily(
        link=lambda mean: logit(mean, LOGIT_EDGE),
        mean=sigmoid,
        losses=lambda link, outcome: np.logaddexp(0.0, link) - outcome * link,
        curvature=lambda mean: mean * (1.0 - mean),
        objective="binary",
        loss=Loss.LOG_LOSS,
        link_formula=nodes.logit(LOGIT_EDGE),
        mean_formula=nodes.Sigmoid,
    ),
    Response.REAL: OutcomeFamily(
        link=np.asarray,  # unchanged
        mean=np.asarray,
        losses=lambda link, outcome: (outcome - link) ** 2,
        curvature=np.ones_like,
        objective="regression",
        loss=Loss.SQUARED_ERROR,
        link_formula=nodes.PROBABILITY,
        mean_formula=lambda node: node,
    ),
    Response.COUNT: OutcomeFamily(
        link=lambda mean: np.log(np.maximum(mean, MIN_MEAN)),
        mean=clipped_exp,
        losses=lambda link, y: 2.0 * (special.xlogy(y, y) - y * link - y + clipped_exp(link)),
        curvature=np.asarray,
        objective="poisson",
        loss=Loss.DEVIANCE,
        link_formula=nodes.log_above(MIN_MEAN),
        mean_formula=nodes.exp,
        multiplicative=True,
    ),
}
