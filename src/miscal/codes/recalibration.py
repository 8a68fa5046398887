"""Why a recalibrator was chosen, or why none was, and by which loss."""

from dataclasses import dataclass
from enum import StrEnum


class Loss(StrEnum):
    """What is lost per row by a wrong prediction; the losses that candidates are compared by."""

    LOG_LOSS = "log loss"
    SQUARED_ERROR = "squared error"
    DEVIANCE = "deviance"


class ChoiceReason(StrEnum):
    """Why `choose` gives the recalibrator that it gives."""

    ONE_CLUSTER = "one_cluster"
    """All rows are in one cluster, so that no rows are left to compare candidates on."""
    TOO_FEW_ROWS = "too_few_rows"
    """There are too few rows, or too few outside the most frequent class."""
    NO_FINITE_LOSS = "no_finite_loss"
    """Every candidate ruled out an outcome that was observed, or could not be fitted."""
    NO_SIGNIFICANT_GAIN = "no_significant_gain"
    """No candidate lowers the held-out loss by more than expected for calibrated probabilities."""
    TOP_LABEL_LIMIT = "top_label_limit"
    """All candidates that lower the held-out loss raise the top label's error by more than the limit."""
    LOWEST_LOSS = "lowest_loss"
    """The candidate has the lowest held-out loss, or one that is statistically tied with it."""


class ChoiceNote(StrEnum):
    """What is added to the reason where it applies."""

    WEIGHTS = "weights"
    """Of a blend: the share of each member."""
    AUDITED_ERROR = "audited_error"
    """The mean error by the audited columns, before and after."""
    RANKING_NOT_KEPT = "ranking_not_kept"
    """The map is not monotone in the score."""
    TOP_LABEL_GROWS = "top_label_grows"
    """The top label's expected calibration error is significantly larger after than before."""


@dataclass(frozen=True)
class Change:
    """A number before and after recalibration, on held-out rows.

    Attributes
    ----------
    before, after : float
        Of the probabilities as they are, and of the recalibrated ones.
    """

    before: float
    after: float


@dataclass(frozen=True)
class Choice:
    """What `choose` decided, and why: codes and numbers, without words.

    Attributes
    ----------
    reason : ChoiceReason
        Why the recalibrator is what it is.
    loss : Loss
        What candidates were compared by.
    rows : int
        Rows that candidates were compared on.
    rows_outside_mode : int
        Rows outside the most frequent class (of means: with another outcome than the most frequent one).
    n_candidates : int
        How many candidates were compared with leaving the predictions as they are.
    candidate : str
        Name of the chosen candidate; of the best one where none was chosen.
    gain, gain_low, gain_high : float
        Held-out loss that the candidate saves per row, with its 95% interval. Infinite where the predictions as they
        are rule out an observed outcome.
    weights : tuple of (str, float)
        Of a blend: members and their shares, the largest first.
    audited_error : Change or None
        Mean error by the audited columns.
    top_label_error : Change or None
        Expected calibration error of the top label, where it is significantly larger after recalibration.
    n_helpful : int
        How many candidates lower the held-out loss significantly.
    top_error_limit : float or None
        By how much the top label's error may grow.
    keeps_ranking : bool
        Whether the candidate keeps the ranking.
    probabilities : bool
        Whether predictions are probabilities, so that errors are percentages.
    """

    reason: ChoiceReason
    loss: Loss
    rows: int
    rows_outside_mode: int
    n_candidates: int = 0
    candidate: str = ""
    gain: float = 0.0
    gain_low: float = 0.0
    gain_high: float = 0.0
    weights: tuple[tuple[str, float], ...] = ()
    audited_error: Change | None = None
    top_label_error: Change | None = None
    n_helpful: int = 0
    top_error_limit: float | None = None
    keeps_ranking: bool = True
    probabilities: bool = True
