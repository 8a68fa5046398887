"""Which null model and which test gave a p-value, and why."""

from enum import StrEnum


class Null(StrEnum):
    """The null model: outcomes drawn from the predictions, or the residuals' signs flipped."""

    BERNOULLI = "bernoulli"
    RESIDUAL = "residual"
