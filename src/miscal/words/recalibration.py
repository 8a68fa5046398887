"""The words of `miscal.codes.recalibration`."""

import math

from miscal.codes.recalibration import Change, Choice, ChoiceNote, ChoiceReason, Loss
from miscal.words import sentence, templates

templates(
    {
        Loss.LOG_LOSS: "log loss",
        Loss.SQUARED_ERROR: "squared error",
        Loss.DEVIANCE: "deviance",
    }
)

templates(
    {
        ChoiceReason.ONE_CLUSTER: (
            "All rows are in one cluster, so no rows are left to compare candidates on; "
            "the predictions are left as they are."
        ),
        ChoiceReason.TOO_FEW_ROWS: (
            "There are too few rows to compare candidates: {rows} rows, {rows_outside_mode} outside the most frequent "
            "{outcome}; the predictions are left as they are."
        ),
        ChoiceReason.NO_FINITE_LOSS: (
            "No candidate has a finite {loss} on held-out rows; the predictions are left as they are."
        ),
        ChoiceReason.NO_SIGNIFICANT_GAIN: (
            "No candidate lowers the {loss} on held-out rows significantly: the best, {candidate}, changes it by "
            "{change} (95% CI {low} to {high}); the predictions are left as they are."
        ),
        ChoiceReason.TOP_LABEL_LIMIT: (
            "All {n_helpful} candidates that lower the {loss} on held-out rows raise the top label's expected "
            "calibration error by more than {limit}; the probabilities are left as they are."
        ),
        ChoiceReason.LOWEST_LOSS: (
            "{candidate}{weights} lowers the {loss} on held-out rows {gain}, the best of {n_candidates} candidates or "
            "statistically tied with it{audited_error}{ranking}.{top_label}"
        ),
    }
)

templates(
    {
        ChoiceNote.WEIGHTS: " ({shares})",
        ChoiceNote.AUDITED_ERROR: "; mean calibration error across audited columns: {before} before, {after} after",
        ChoiceNote.RANKING_NOT_KEPT: "; the ranking of the predictions may change",
        ChoiceNote.TOP_LABEL_GROWS: (
            " The top label's expected calibration error grows from {before} to {after}, which is significant; "
            "top_error=0 excludes such candidates."
        ),
    }
)


def choice_sentence(choice: Choice) -> str:
    """Why a recalibrator was chosen, in words.

    Parameters
    ----------
    choice : Choice
        What `choose` decided.

    Returns
    -------
    str
        One or two sentences.
    """
    gain = choice.gain, choice.gain_low, choice.gain_high
    change, low, high = (f"{-value:+.4g}" for value in (choice.gain, choice.gain_high, choice.gain_low))
    return sentence(
        choice.reason,
        loss=sentence(choice.loss),
        rows=f"{choice.rows:,}",
        rows_outside_mode=choice.rows_outside_mode,
        outcome="class" if choice.probabilities else "outcome",
        candidate=choice.candidate,
        n_candidates=choice.n_candidates,
        n_helpful=choice.n_helpful,
        limit=f"{100.0 * (choice.top_error_limit or 0.0):.3g} pp",
        change=change,
        low=low,
        high=high,
        gain=_gain(*gain),
        weights=_weights(choice),
        audited_error=_change(ChoiceNote.AUDITED_ERROR, choice.audited_error, choice),
        ranking="" if choice.keeps_ranking else sentence(ChoiceNote.RANKING_NOT_KEPT),
        top_label=_change(ChoiceNote.TOP_LABEL_GROWS, choice.top_label_error, choice),
    )


def _gain(gain: float, low: float, high: float) -> str:
    return f"by {gain:.4g} (95% CI {low:.4g} to {high:.4g})" if math.isfinite(gain) else "from infinity"


def _weights(choice: Choice) -> str:
    shares = ", ".join(f"{share:.0%} {name}" for name, share in choice.weights)
    return sentence(ChoiceNote.WEIGHTS, shares=shares) if shares else ""


def _change(note: ChoiceNote, change: Change | None, choice: Choice) -> str:
    if change is None:
        return ""
    before, after = (
        f"{100.0 * value:.2f} pp" if choice.probabilities else f"{value:.3g}"
        for value in (change.before, change.after)
    )
    return sentence(note, before=before, after=after)
