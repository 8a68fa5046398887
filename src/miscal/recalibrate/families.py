"""What kind of outcome a mean is of: its link, what a row loses, and what of it trees are grown on.

A change of the link times the residual has mean 0 in all three families where the prediction is right: that is what
every test of a gain stands on, whatever the variance of the outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from miscal.data.vectors import logit, sigmoid
from miscal.recalibrate.export import formula as nodes

Floats = npt.NDArray[np.float64]
EDGE = 1e-7  # probabilities are held within [EDGE, 1 - EDGE] before the logit
LEAST_RATE = 1e-12  # that a count's prediction is held at before its logarithm


@dataclass(frozen=True)
class Family:
    """One kind of outcome.

    link, mean : where changes add, and the way back
    losses : of each row, from the link of its prediction and its outcome
    bend : the second derivative of half the loss, from the prediction
    ratio : whether trees look at outcome / prediction; else at their difference
    objective, loss : the names LightGBM and tables have for the loss
    before, after : `link` and `mean` as nodes of a formula
    """

    link: Callable[[Floats], Floats]
    mean: Callable[[Floats], Floats]
    losses: Callable[[Floats, Floats], Floats]
    bend: Callable[[Floats], Floats]
    ratio: bool
    objective: str
    loss: str
    before: Callable[[], nodes.Node]
    after: Callable[[nodes.Node], nodes.Node]

    def target(self, mean: Floats, outcome: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """What trees and orders of levels look at, with its weight: the ratio to the prediction, or the difference."""
        if not self.ratio:
            return outcome - mean, weight
        held = np.maximum(mean, LEAST_RATE)
        return outcome / held, weight * held


def _same(values: Floats) -> Floats:
    return values


def _deviances(link: Floats, outcome: Floats) -> Floats:
    from scipy.special import xlogy

    return np.asarray(2.0 * (xlogy(outcome, outcome) - outcome * link - outcome + exp_held(link)))


def exp_held(link: Floats) -> Floats:
    """The exponential, held where it neither overflows nor underflows, as formulas hold it."""
    return np.asarray(np.exp(np.clip(link, -nodes.FARTHEST, nodes.FARTHEST)))


def log_losses(link: Floats, outcome: Floats) -> Floats:
    """Log loss of each row."""
    return np.asarray(np.logaddexp(0.0, link) - outcome * link)


FAMILIES = {
    "binary": Family(
        link=lambda mean: logit(mean, EDGE),
        mean=sigmoid,
        losses=log_losses,
        bend=lambda mean: mean * (1.0 - mean),
        ratio=False,
        objective="binary",
        loss="log loss",
        before=lambda: nodes.Linear(nodes.log_terms(nodes.Held(nodes.Probability(), EDGE, 1.0 - EDGE), 1.0, 1.0), 0.0),
        after=nodes.Sigmoid,
    ),
    "real": Family(
        link=_same,
        mean=_same,
        losses=lambda link, outcome: np.asarray((outcome - link) ** 2),
        bend=np.ones_like,
        ratio=False,
        objective="regression",
        loss="squared error",
        before=nodes.Probability,
        after=lambda node: node,
    ),
    "count": Family(
        link=lambda mean: np.log(np.maximum(mean, LEAST_RATE)),
        mean=exp_held,
        losses=_deviances,
        bend=_same,
        ratio=True,
        objective="poisson",
        loss="deviance",
        before=lambda: nodes.Log(nodes.Held(nodes.Probability(), LEAST_RATE, nodes.LARGEST)),
        after=nodes.Exp,
    ),
}
