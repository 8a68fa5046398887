"""What `choose` compares: each candidate's held-out probabilities, and what they cost."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from miscal.cells.coding import range_pooling
from miscal.data.arrays import Array, Floats, Plain
from miscal.data.columns import Column, Columns, column
from miscal.data.errors import MiscalError
from miscal.data.predictions import Predictions
from miscal.data.target import TargetData, pair
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

DRAWS = 200


@dataclass(eq=False)
class Judged:
    """One candidate's held-out probabilities, their losses and its line of the table; of a blend also the weights."""

    name: str
    recalibrator: Recalibrator
    weights: dict[str, float] = field(default_factory=dict)
    cross_fitted: Any = None  # nothing where a fold could not be fitted
    loss: Any = None
    keeps_ranking: bool = True
    change: tuple[float, ...] = (math.nan,)  # of the mean loss, with its interval
    row: Plain = field(default_factory=dict)


def judge(name: str, recalibrator: Recalibrator, sample: TrainingSample, folds: Array) -> Judged:
    """Fit a candidate on all folds but one and keep what it says of the one left out, for every fold."""
    done = Judged(name, recalibrator)
    try:
        done.held_out, done.keeps_ranking = cross_fitted(recalibrator, sample, folds)
    except MiscalError as error:
        failure = str(error).splitlines()[0]
        done.row = {"name": name, "p_value": 1.0, "keeps_ranking": True, "failed": failure}
    return done


def mixed(judged: list[Judged], sample: TrainingSample, folds: Array) -> list[Judged]:
    """The blend of all candidates: weighed on all rows; its held-out probabilities by weights of the other folds."""
    members = [each for each in judged if each.held_out is not None and each.recalibrator.blendable]
    logs = clipped_log(np.stack([each.held_out for each in members]))
    outcome, weight = sample.outcome, sample.weights
    shares = blend_weights(logs, outcome, weight)
    used = [members[place] for place in np.flatnonzero(shares)]
    if len(used) < 2:
        return []
    weights = shares[shares > 0].tolist()
    mix = Blend([each.recalibrator for each in used], weights=weights)
    done = Judged("Blend", mix, dict(zip([each.name for each in used], weights, strict=True)))
    done.held_out = np.empty(logs.shape[1:])
    for fold in np.unique(folds):
        train, test = folds != fold, folds == fold
        own = blend_weights(logs[:, train], outcome[train], weight[train])
        done.held_out[test] = softmax(np.tensordot(own, logs[:, test], axes=1))[0]
    done.keeps_ranking = all(each.keeps_ranking for each in used)
    return [done]


def measure(done: Judged, alone: Judged, rows: Predictions, audited: list[str]) -> None:
    """Fill in what a candidate's held-out probabilities cost; differences are paired with leaving them alone."""
    if done.held_out is None:
        return
    loss = "log_loss" if rows.response == "binary" else "deviance"
    done.loss = row_loss(done.held_out, rows)
    mean, error = difference(done.loss, alone.loss, rows)
    low, high = normal_interval(mean, error)
    done.change = mean, low, high
    done.row = {
        "name": done.name,
        loss: mean_of(done.loss, rows),
        f"{loss}_difference": mean,
        "difference_low": low,
        "difference_high": high,
        "p_value": _chance(done.held_out, alone.held_out, rows),
        **_numbers(done.held_out, rows, audited),
        "keeps_ranking": done.keeps_ranking,
        "failed": "",
    }


def row_loss(cross_fitted: Floats, rows: Predictions) -> Floats:
    """What each row loses by (n, K) probabilities or means: log loss, infinite where it was ruled out, or deviance."""
    if rows.response != "binary":
        return TrainingSample.from_predictions(rows, Columns({})).losses(cross_fitted)
    with np.errstate(divide="ignore"):
        return -np.log(_own(cross_fitted, rows))


def _own(values: Floats, rows: Predictions) -> Floats:
    """Of (n, K) values those of each row's own class."""
    return values[np.arange(rows.rows), rows.outcome]


def _numbers(cross_fitted: Floats, rows: Predictions, audited: list[str]) -> dict[str, float]:
    """Brier, AUC and the score's error (of means observed / predicted and the error in 15 ranges), and by columns."""
    probability = (
        cross_fitted[:, 1] if rows.n_classes == 2 else cross_fitted / cross_fitted.sum(axis=1, keepdims=True)
    )
    made = rows.with_probability(probability)
    compared, scale = pair(made), made.units.scale
    if rows.response == "binary":
        weight, events = pooled_scores(compared)[1:]
        given: Any = {"y_true": made.outcome, "y_prob": probability, "sample_weight": made.weight}
        found = {"brier": brier_score(**given), "auc": area_under_curve(weight, events)}
        found["expected"] = expected_calibration_error(**given)
    else:
        observed, predicted = (mean_of(each, made) for each in (made.outcome, made.probability))
        found = {"ratio": observed / predicted if predicted else math.nan}
        found["expected"] = scale * _error(compared, column("", made.probability), 15)
    return found | {f"by {name}": scale * _error(compared, made.columns[name]) for name in audited}


def _error(compared: TargetData, by: Column, bins: int = 10) -> float:
    """The weighted mean size of the gaps of a column's levels or ranges."""
    from miscal.aggregate.in_memory import mean_tally

    tally = mean_tally(compared, range_pooling(by, bins, weight=compared.weight))
    return float(aggregate(np.nan_to_num(tally.gap), tally.weight))


def mean_of(loss: Floats, rows: Predictions) -> float:
    """Weighted mean."""
    return float(np.average(loss, weights=row_weight(rows)))


def difference(loss: Floats, other: Floats, rows: Predictions) -> tuple[float, float]:
    """Mean paired difference and its standard error; both infinite where one loss is."""
    with np.errstate(invalid="ignore"):
        change = loss - other
    if not np.isfinite(change).all():
        return (math.inf if np.isinf(loss).any() else -math.inf), math.inf
    mean = mean_of(change, rows)
    off = _by_unit(change - mean, rows)
    return mean, float(np.sqrt(off @ off) / _by_unit(np.ones(rows.rows), rows).sum())


def _by_unit(values: Floats, rows: Predictions) -> Array:
    """Weighted values, summed over the rows of a cluster."""
    weight = row_weight(rows)
    values = values if weight is None else values * weight
    return values if rows.cluster is None else np.bincount(rows.cluster, values)


def _chance(cross_fitted: Floats, right: Floats, rows: Predictions) -> float:
    """One-sided p-value of the gain if the probabilities were `right`.

    Of what each row saves beyond what it would on average: of mean 0 if they are. Of means, and as it comes to the same
    of two classes: the residual times the change of the link. Rows of one fold judge what rows of the others have
    fitted, and the other way round: the two share their noise, so that the sum varies twice as much as that of as many
    independent rows.
    """
    if rows.response != "binary":
        link = FAMILIES[rows.response].link
        beyond = (rows.outcome - right[:, 1]) * (link(cross_fitted[:, 1]) - link(right[:, 1]))
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            change = np.where(right > 0, clipped_log(cross_fitted) - np.log(right), 0.0)
        beyond = _own(change, rows) - (right * change).sum(axis=1)
    beyond = _by_unit(beyond, rows)
    return one_sided_p(beyond.sum(), 2.0 * (beyond @ beyond))


def chance_of_growth(each: Judged, alone: Judged, rows: Predictions) -> float:
    """How often draws of rows (of clusters) show no growth of the top label's error, of 200: a paired bootstrap."""
    units = np.arange(rows.rows) if rows.cluster is None else rows.cluster
    rng = np.random.default_rng(0)
    weight = 1.0 if rows.weight is None else rows.weight
    held = [each.held_out / each.held_out.sum(axis=1, keepdims=True) for each in (each, alone)]
    fails = 0
    for _ in range(DRAWS):
        drawn = weight * rng.poisson(1.0, units.max() + 1)[units]
        one, two = (expected_calibration_error(rows.outcome, p, sample_weight=drawn) for p in held)
        fails += one <= two
    return (fails + 1) / (DRAWS + 1)
