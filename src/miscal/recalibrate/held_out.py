"""What `choose` compares: the held-out predictions of each candidate, and what they cost.

A candidate goes through two stages, each a frozen value: `HeldOutPredictions` (fitted on all folds but one, predicting
the one left out) and `CandidateScore` (its losses against those of the predictions as they are). Decisions are made in
`choosing`, from the scores alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from miscal.cells.coding import range_pooling
from miscal.codes.data import Response
from miscal.data.arrays import Array, Floats, Plain
from miscal.data.columns import Column, Columns, column
from miscal.data.errors import MiscalError
from miscal.data.predictions import Predictions
from miscal.data.target import TargetData, select_target
from miscal.metrics.inputs import aggregate
from miscal.metrics.losses import area_under_curve, brier_score, pooled_scores
from miscal.metrics.score_errors import expected_calibration_error
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.combined import Blend, blend_weights
from miscal.recalibrate.cross_fitting import cross_fitted
from miscal.recalibrate.outcome_families import FAMILIES
from miscal.recalibrate.softmax_fit import clipped_log, softmax
from miscal.recalibrate.training_sample import TrainingSample, row_weight
from miscal.stats.normal import normal_interval, one_sided_p
from miscal.stats.resampling import bootstrap_p

#: Draws of the paired bootstrap of the top label's error.
BOOTSTRAP_DRAWS = 200
#: Ranges by which the error of means along the score, and of an audited numeric column, is measured.
SCORE_RANGES = 15
COLUMN_RANGES = 10


# --------------------------------------------------------------------------------------------- held-out predictions
@dataclass(frozen=True, eq=False)
class HeldOutPredictions:
    """The held-out predictions of one candidate.

    Attributes
    ----------
    name : str
        Of the candidate.
    recalibrator : Recalibrator
        Not fitted; what is fitted on all rows if it is chosen.
    probability : (n, K) array or None
        Each row's prediction by a copy that was fitted without its fold. None where a fold could not be fitted.
    keeps_ranking : bool
        Whether the copies of all folds keep the ranking.
    failure : str
        Why a fold could not be fitted.
    weights : dict of str to float
        Of a blend: the share of each member.
    """

    name: str
    recalibrator: Recalibrator
    probability: Floats | None
    keeps_ranking: bool = True
    failure: str = ""
    weights: dict[str, float] = field(default_factory=dict)

    @property
    def is_blend(self) -> bool:
        """Whether it is the blend of the other candidates."""
        return bool(self.weights)


def held_out_predictions(
    name: str, recalibrator: Recalibrator, sample: TrainingSample, folds: Array
) -> HeldOutPredictions:
    """Fit a candidate on all folds but one and predict the one left out, for every fold.

    Parameters
    ----------
    name : str
        Of the candidate.
    recalibrator : Recalibrator
        The candidate; it is not changed.
    sample : TrainingSample
        All rows.
    folds : (n,) array of int
        The fold of each row.

    Returns
    -------
    HeldOutPredictions
        Without predictions where a fold could not be fitted.
    """
    try:
        probability, keeps_ranking = cross_fitted(recalibrator, sample, folds)
    except MiscalError as error:
        return HeldOutPredictions(name, recalibrator, None, failure=str(error).splitlines()[0])
    return HeldOutPredictions(name, recalibrator, probability, keeps_ranking)


def blended_predictions(
    candidates: Sequence[HeldOutPredictions], sample: TrainingSample, folds: Array
) -> HeldOutPredictions | None:
    """The blend of all candidates that can be blended.

    Its members' weights are fitted to the held-out predictions of all rows; its own held-out predictions have weights
    that were fitted to the other folds.

    Parameters
    ----------
    candidates : sequence of HeldOutPredictions
        What is blended, where it has predictions.
    sample : TrainingSample
        All rows.
    folds : (n,) array of int
        The fold of each row.

    Returns
    -------
    HeldOutPredictions or None
        None where one candidate has all the weight.
    """
    blendable = [
        (candidate, candidate.probability)
        for candidate in candidates
        if candidate.probability is not None and candidate.recalibrator.blendable
    ]
    logs = clipped_log(np.stack([probability for _, probability in blendable]))
    outcome, weight = sample.outcome, sample.weights
    shares = blend_weights(logs, outcome, weight)
    members = [blendable[place][0] for place in np.flatnonzero(shares)]
    if len(members) < 2:
        return None
    member_shares = shares[shares > 0].tolist()
    probability = np.empty(logs.shape[1:])
    for fold in np.unique(folds):
        train, test = folds != fold, folds == fold
        fold_shares = blend_weights(logs[:, train], outcome[train], weight[train])
        probability[test] = softmax(np.tensordot(fold_shares, logs[:, test], axes=1))[0]
    return HeldOutPredictions(
        "Blend",
        Blend([member.recalibrator for member in members], weights=member_shares),
        probability,
        keeps_ranking=all(member.keeps_ranking for member in members),
        weights=dict(zip([member.name for member in members], member_shares, strict=True)),
    )


# --------------------------------------------------------------------------------------------------------- scores
@dataclass(frozen=True, eq=False)
class CandidateScore:
    """What a candidate's held-out predictions cost, against the predictions as they are.

    Attributes
    ----------
    candidate : HeldOutPredictions
        What was scored.
    rows : Predictions
        What they were predicted for.
    loss : (n,) array or None
        Loss of each row. None where the candidate could not be fitted.
    change, change_low, change_high : float
        Mean of the loss less that of the predictions as they are, with its 95% interval.
    p_value : float
        One-sided, of the gain: how likely it is if the predictions as they are were right.
    scores : dict of str to float
        Summary metrics: Brier score, AUC and expected error; of means observed / predicted and expected error.
    audited_errors : dict of str to float
        Error by each audited column.
    """

    candidate: HeldOutPredictions
    rows: Predictions
    loss: Floats | None = None
    change: float = math.nan
    change_low: float = math.nan
    change_high: float = math.nan
    p_value: float = 1.0
    scores: dict[str, float] = field(default_factory=dict)
    audited_errors: dict[str, float] = field(default_factory=dict)

    @cached_property
    def mean_loss(self) -> float:
        """Weighted mean of the loss; infinite where the candidate could not be fitted."""
        return math.inf if self.loss is None else weighted_mean(self.loss, self.rows)

    @property
    def audited_error(self) -> float:
        """Mean error by the audited columns; 0 without any."""
        return float(np.mean([*self.audited_errors.values()])) if self.audited_errors else 0.0

    def table_row(self) -> Plain:
        """The candidate's row of the table that `choose` gives."""
        candidate = self.candidate
        if self.loss is None:
            return {
                "name": candidate.name,
                "p_value": self.p_value,
                "keeps_ranking": candidate.keeps_ranking,
                "failed": candidate.failure,
            }
        loss = "log_loss" if self.rows.response == Response.BINARY else "deviance"
        return {
            "name": candidate.name,
            loss: self.mean_loss,
            f"{loss}_difference": self.change,
            "difference_low": self.change_low,
            "difference_high": self.change_high,
            "p_value": self.p_value,
            **self.scores,
            **{f"by {name}": error for name, error in self.audited_errors.items()},
            "keeps_ranking": candidate.keeps_ranking,
            "failed": "",
        }


def candidate_score(
    candidate: HeldOutPredictions, unchanged: HeldOutPredictions, rows: Predictions, audited: Sequence[str]
) -> CandidateScore:
    """Score a candidate's held-out predictions; differences are paired with the predictions as they are.

    Parameters
    ----------
    candidate : HeldOutPredictions
        What is scored.
    unchanged : HeldOutPredictions
        Those of `Identity`.
    rows : Predictions
        All rows.
    audited : sequence of str
        Columns by which errors are measured.

    Returns
    -------
    CandidateScore
        Without losses where the candidate has no predictions.
    """
    if candidate.probability is None or unchanged.probability is None:
        return CandidateScore(candidate, rows)
    loss = row_loss(candidate.probability, rows)
    change, error = paired_difference(loss, row_loss(unchanged.probability, rows), rows)
    low, high = normal_interval(change, error)
    scores, audited_errors = _scores_and_errors(candidate.probability, rows, audited)
    return CandidateScore(
        candidate,
        rows,
        loss=loss,
        change=change,
        change_low=low,
        change_high=high,
        p_value=gain_p_value(candidate.probability, unchanged.probability, rows),
        scores=scores,
        audited_errors=audited_errors,
    )


def row_loss(probability: Floats, rows: Predictions) -> Floats:
    """Loss of each row: log loss, infinite where the observed class was ruled out; of means squared error or deviance.

    Parameters
    ----------
    probability : (n, K) array
        Probabilities, or means as recalibrators carry them, in column 1.
    rows : Predictions
        With the outcomes.

    Returns
    -------
    (n,) array
    """
    if rows.response != Response.BINARY:
        return TrainingSample.from_predictions(rows, Columns({})).losses(probability)
    with np.errstate(divide="ignore"):
        return -np.log(_of_observed_class(probability, rows))


def _of_observed_class(values: Floats, rows: Predictions) -> Floats:
    """Of (n, K) values those of each row's own class."""
    return values[np.arange(rows.rows), rows.outcome]


def _scores_and_errors(
    held_out: Floats, rows: Predictions, audited: Sequence[str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Summary metrics, and the error by each audited column."""
    probability = held_out[:, 1] if rows.n_classes == 2 else _normalised(held_out)
    recalibrated = rows.with_probability(probability)
    target = select_target(recalibrated)
    scale = target.units.scale
    if rows.response == Response.BINARY:
        weight, events = pooled_scores(target)[1:]
        arguments: Plain = {
            "y_true": recalibrated.outcome,
            "y_prob": probability,
            "sample_weight": recalibrated.weight,
        }
        scores = {
            "brier": brier_score(**arguments),
            "auc": area_under_curve(weight, events),
            "expected": expected_calibration_error(**arguments),
        }
    else:
        observed = weighted_mean(recalibrated.outcome, recalibrated)
        predicted = weighted_mean(recalibrated.probability, recalibrated)
        score_error = scale * _error_by_column(target, column("", recalibrated.probability), SCORE_RANGES)
        scores = {"ratio": observed / predicted if predicted else math.nan, "expected": score_error}
    errors = {
        name: scale * _error_by_column(target, recalibrated.columns[name], COLUMN_RANGES) for name in audited
    }
    return scores, errors


def _normalised(held_out: Floats) -> Floats:
    """Rows divided by their sums."""
    return np.asarray(held_out / held_out.sum(axis=1, keepdims=True))


def _error_by_column(target: TargetData, by: Column, ranges: int) -> float:
    """The weighted mean size of the gaps of a column's levels or ranges."""
    from miscal.aggregate.in_memory import mean_tally

    tally = mean_tally(target, range_pooling(by, ranges, weight=target.weight))
    return float(aggregate(np.nan_to_num(tally.gap), tally.weight))


# ------------------------------------------------------------------------------------------------------- inference
def weighted_mean(values: Floats, rows: Predictions) -> float:
    """The mean over rows, weighted by what each row counts for."""
    return float(np.average(values, weights=row_weight(rows)))


def paired_difference(loss: Floats, reference: Floats, rows: Predictions) -> tuple[float, float]:
    """Mean paired difference of two losses and its standard error; rows of a cluster count as one.

    Parameters
    ----------
    loss, reference : (n,) array
        Loss of each row by two predictions.
    rows : Predictions
        With weights and clusters.

    Returns
    -------
    mean, standard_error : float
        Both infinite where a loss is.
    """
    with np.errstate(invalid="ignore"):
        change = loss - reference
    if not np.isfinite(change).all():
        return (math.inf if np.isinf(loss).any() else -math.inf), math.inf
    mean = weighted_mean(change, rows)
    deviation = _cluster_sums(change - mean, rows)
    return mean, float(np.sqrt(deviation @ deviation) / _cluster_sums(np.ones(rows.rows), rows).sum())


def _cluster_sums(values: Floats, rows: Predictions) -> Array:
    """Weighted values, summed over the rows of a cluster."""
    weight = row_weight(rows)
    values = values if weight is None else values * weight
    return values if rows.cluster is None else np.bincount(rows.cluster, values)


def gain_p_value(held_out: Floats, unchanged: Floats, rows: Predictions) -> float:
    """One-sided p-value of a candidate's gain, if the predictions as they are were right.

    The statistic is the sum of what each row saves beyond its expectation under `unchanged`, which has mean 0 if these
    are right. Of means, and equivalently of two classes, it is the residual times the change of the link. Rows of one
    fold judge maps that rows of the other folds fitted, and the other way round: the two share their noise, so that the
    sum has twice the variance of that of as many independent rows.

    Parameters
    ----------
    held_out : (n, K) array
        A candidate's held-out predictions.
    unchanged : (n, K) array
        The predictions as they are.
    rows : Predictions
        With outcomes, weights and clusters.

    Returns
    -------
    float
    """
    if rows.response != Response.BINARY:
        link = FAMILIES[rows.response].link
        excess = (rows.outcome - unchanged[:, 1]) * (link(held_out[:, 1]) - link(unchanged[:, 1]))
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            change = np.where(unchanged > 0, clipped_log(held_out) - np.log(unchanged), 0.0)
        excess = _of_observed_class(change, rows) - (unchanged * change).sum(axis=1)
    excess = _cluster_sums(excess, rows)
    return one_sided_p(excess.sum(), 2.0 * (excess @ excess))


def top_label_growth_p_value(
    candidate: HeldOutPredictions, unchanged: HeldOutPredictions, rows: Predictions
) -> float:
    """How often draws of rows (of clusters) show no growth of the top label's error: a paired bootstrap.

    Parameters
    ----------
    candidate, unchanged : HeldOutPredictions
        A candidate, and the predictions as they are.
    rows : Predictions
        With outcomes, weights and clusters.

    Returns
    -------
    float
        One-sided p-value, at least 1 / (draws + 1).
    """
    units = np.arange(rows.rows) if rows.cluster is None else rows.cluster
    weight = 1.0 if rows.weight is None else rows.weight
    after, before = (_normalised(np.asarray(held.probability)) for held in (candidate, unchanged))

    def grows(times: Floats) -> bool:
        drawn = weight * times
        error_after, error_before = (
            expected_calibration_error(rows.outcome, probability, sample_weight=drawn)
            for probability in (after, before)
        )
        return not error_after <= error_before  # an unknown error (NaN) counts as growth

    return bootstrap_p(grows, units, draws=BOOTSTRAP_DRAWS)
