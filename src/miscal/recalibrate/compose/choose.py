"""Choose a recalibrator by cross-fitting, and leave the probabilities alone when nothing helps beyond noise."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from miscal import recalibrate
from miscal.data.columns import Column, Columns
from miscal.data.errors import MiscalError, check_named, refusal
from miscal.data.predictions import METRIC, Predictions, Raw
from miscal.inference.beyond import fold_of_rows
from miscal.metrics.arrays import aggregate
from miscal.metrics.score.binned import expected_calibration_error
from miscal.metrics.score.losses import area_under_curve, pooled_scores
from miscal.pairs import pair
from miscal.pooling.columns import level_pooling, range_pooling
from miscal.recalibrate.base import Recalibrator, Sample
from miscal.recalibrate.compose.combined import Blend, blend_weights
from miscal.recalibrate.fitting.parameters import whole
from miscal.recalibrate.fitting.softmax import logs_of, softmax
from miscal.recalibrate.fitting.tables import columns_of
from miscal.recalibrate.score.curves import Identity
from miscal.results import Table

TWO_SIDED = 1.959963984540054
LEAST = 1e-12  # probabilities are held above it where their logarithms are compared
LEAST_ROWS = 50
LEAST_EVENTS = 10
LEVEL = 0.05  # of touching calibrated probabilities, counted in studies/choose_false_alarms.py
BLEND_SHARE = 0.2  # of that level: a blend's weights have seen, through its members, a little of what judges them


@dataclass(eq=False)
class Judged:
    """One candidate's held-out probabilities and what they cost; of a blend also the weights of its members."""

    name: str
    recalibrator: Recalibrator
    weights: dict[str, float] = field(default_factory=dict)
    held_out: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    loss: np.ndarray = field(default_factory=lambda: np.empty(0))
    seconds: float = 0.0
    keeps_ranking: bool = False
    p_value: float = 1.0
    numbers: dict[str, Any] = field(default_factory=dict)
    failure: str = ""


def judge(name: str, recalibrator: Recalibrator, sample: Sample, folds: np.ndarray) -> Judged:
    """Fit a candidate on all folds but one and keep what it says of the one left out, for every fold."""
    done = Judged(name, recalibrator)
    held_out = np.empty((sample.rows, sample.n_classes))
    done.keeps_ranking = True
    try:
        for fold in np.unique(folds):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            start = time.perf_counter()
            fitted = recalibrator.quietly_fitted_on(sample.take(train))
            done.seconds += time.perf_counter() - start
            done.keeps_ranking &= bool(fitted.keeps_ranking)
            held_out[test] = fitted.predict_proba(sample.probability[test], sample.columns.take(test))
    except MiscalError as error:
        done.failure = str(error).splitlines()[0]
        return done
    done.held_out = held_out
    return done


def mixed(judged: list[Judged], rows: Predictions, folds: np.ndarray) -> Judged | None:
    """The blend of all candidates: weighed on all rows; its held-out probabilities by weights of the other folds."""
    start = time.perf_counter()
    members = [each for each in judged if each.held_out.size and each.recalibrator.in_blends]
    logs = logs_of(np.stack([each.held_out for each in members]))
    outcome, weight = rows.outcome, rows.weight
    weights = blend_weights(logs, outcome, weight)
    done = Judged("Blend", Identity())
    done.weights = {each.name: float(share) for each, share in zip(members, weights, strict=True) if share > 0}
    if len(done.weights) < 2:
        return None
    done.held_out = np.empty((rows.rows, rows.n_classes))
    for fold in np.unique(folds):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        own = blend_weights(logs[:, train], outcome[train], None if weight is None else weight[train])
        done.held_out[test] = softmax(np.tensordot(own, logs[:, test], axes=1))[0]
    done.keeps_ranking = all(each.keeps_ranking for each in members if each.name in done.weights)
    done.seconds = time.perf_counter() - start + sum(each.seconds for each in members)
    return done


def measure(done: Judged, alone: Judged, rows: Predictions, audited: list[str]) -> None:
    """Fill in what a candidate's held-out probabilities cost."""
    if done.held_out.size:
        done.loss = _row_loss(done.held_out, rows)
        done.p_value = _chance(done, alone, rows)
        done.numbers = {"fit_seconds": done.seconds, **_numbers(done.held_out, rows, audited)}


def _row_loss(held_out: np.ndarray, rows: Predictions) -> np.ndarray:
    chosen = np.take_along_axis(held_out, rows.outcome[:, None].astype(np.int64), axis=1)[:, 0]
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(chosen))


def _numbers(held_out: np.ndarray, rows: Predictions, audited: list[str]) -> dict[str, float]:
    """Brier, AUC, the score's error, and the error by each audited column, of held-out probabilities."""
    probability = held_out[:, 1] if rows.n_classes == 2 else held_out
    made = rows.with_probability(probability if rows.n_classes == 2 else held_out / held_out.sum(axis=1, keepdims=True))
    compared = pair(made)
    truth = np.eye(rows.n_classes)[rows.outcome.astype(np.int64)]
    squares = ((held_out - truth) ** 2).sum(axis=1) / (2.0 if rows.n_classes == 2 else 1.0)
    weight, events = pooled_scores(compared)[1:]
    found = {
        "brier": float(np.average(squares, weights=rows.weight)),
        "auc": area_under_curve(weight, events),
        "expected": expected_calibration_error(rows.outcome, probability, sample_weight=rows.weight),
    }
    from miscal.engines.memory import mean_tally

    for name in audited:
        column = rows.columns[name]
        pooling = level_pooling(column) if column.nominal else range_pooling(column, weight=rows.weight)
        tally = mean_tally(compared, pooling)
        found[f"by {name}"] = float(aggregate(np.nan_to_num(tally.gap), tally.weight))
    return found


def table_of(judged: list[Judged], rows: Predictions) -> Table:
    """One row a candidate; differences are paired with leaving the probabilities alone."""
    alone = judged[0].loss
    found: dict[str, list[Any]] = {"name": [each.name for each in judged]}
    differences = [difference(each.loss, alone, rows) for each in judged]
    found["log_loss"] = [mean_of(each.loss, rows) if each.loss.size else math.nan for each in judged]
    found["log_loss_difference"] = [mean for mean, _ in differences]
    found["difference_low"] = [mean - TWO_SIDED * error for mean, error in differences]
    found["difference_high"] = [mean + TWO_SIDED * error for mean, error in differences]
    found["p_value"] = [each.p_value for each in judged]
    names = list(dict.fromkeys(name for each in judged for name in each.numbers))
    for name in names:
        found[name] = [each.numbers.get(name, math.nan) for each in judged]
    found["keeps_ranking"] = [each.keeps_ranking for each in judged]
    found["failed"] = [each.failure for each in judged]
    return Table(found)


def mean_of(loss: np.ndarray, rows: Predictions) -> float:
    """Weighted mean."""
    return float(np.average(loss, weights=rows.weight))


def difference(loss: np.ndarray, other: np.ndarray, rows: Predictions) -> tuple[float, float]:
    """Mean paired difference and its standard error; both infinite where one loss is."""
    if not loss.size:
        return math.nan, math.nan
    with np.errstate(invalid="ignore"):
        change = loss - other
    if not np.isfinite(change).all():
        return (math.inf if np.isinf(loss).any() else -math.inf), math.inf
    weight = np.ones(rows.rows) if rows.weight is None else rows.weight
    weight = weight if rows.count is None else weight * rows.count
    mean = float(np.average(change, weights=weight))
    off = weight * (change - mean)
    off = off if rows.cluster is None else np.bincount(rows.cluster, off)
    return mean, float(np.sqrt(np.sum(off * off)) / weight.sum())


def _chance(each: Judged, alone: Judged, rows: Predictions) -> float:
    """One-sided p-value of the gain if the probabilities were right as they are.

    Rows of one fold judge what rows of the others have fitted, and the other way round: the two share their noise, so
    that the sum varies twice as much as that of as many independent rows.
    """
    from scipy.special import ndtr

    right = alone.held_out
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.where(right > 0, np.log(np.maximum(each.held_out, LEAST)) - np.log(right), 0.0)
    own = np.take_along_axis(change, rows.outcome[:, None].astype(np.int64), axis=1)[:, 0]
    beyond = own - (right * change).sum(axis=1)
    beyond = beyond if rows.weight is None else beyond * rows.weight
    beyond = beyond if rows.cluster is None else np.bincount(rows.cluster, beyond)
    spread = float(np.sqrt(2.0 * (beyond @ beyond)))
    return float(ndtr(-beyond.sum() / spread)) if spread > 0 else 1.0


def choose(
    y_prob: Any,
    y: Any,
    X: Any = None,
    *,
    by: Sequence[str] | None = None,
    allowed: Sequence[str] | None = None,
    candidates: str | Mapping[str, Recalibrator] | Sequence[Recalibrator] = "auto",
    cv: int = 5,
    sample_weight: Any = None,
    random_state: int = 0,
    cluster: Any = None,
) -> Recalibrator:
    """Compare recalibrators on rows they have not seen and return the best one, fitted on all rows.

    Each candidate is fitted on all folds but one and judged on the one left out. With "auto" a `Blend` of them (the
    isotonic ones left out: they give certainties) stands beside them, judged with weights from the other folds. A
    candidate is eligible only if its held-out log loss is below that of leaving the probabilities alone and the gain is
    more than noise would give if the probabilities were right as they are (one-sided: 1% for the blend, 4% with
    Bonferroni for all others; 5% for these where there is no blend). An eligible blend wins, unless one of its members
    has all the weight or a single candidate is better by more than a standard error. Else, among the eligible ones
    within one standard error of the best, the one with the smallest error by the audited columns wins, then the earlier
    (simpler) one.

    If the probabilities p were right, the loss saved by a repair q that has not seen a row would be on average minus
    KL(p, q), the divergence at that row; what a row saves beyond that, ln(q_y / p_y) + KL(p, q), has mean 0, and its
    mean over rows is compared with its standard error. Two classes: it is (y - p) times the change of the logit, so
    that this asks whether residuals go the way of the repair.

    Parameters
    ----------
    y_prob, y, sample_weight : as in `fit`
    X : frame or mapping; the columns that audits and repairs may look at
    by : columns by which errors are measured; all of X by default
    allowed : columns that the repair may use; all of X by default. Audit by race, repair without race.
    candidates : "auto", or recalibrators of your own, by name or in a list
    cv : number of folds
    cluster : (n,) labels, optional; rows of one cluster share a fold and count as one in the noise of differences

    Returns
    -------
    Recalibrator
        Fitted, with `name`, `table` (one row a candidate) and `reason` (a sentence). `Identity` when nothing helps.

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.recalibrate import choose
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(2, 3, 3000)
    >>> choose(p, (rng.random(3000) < p).astype(int)).name
    'Identity'
    >>> choose(p, (rng.random(3000) < p**2).astype(int)).name != "Identity"
    True
    """
    whole("cv", cv, 2)
    columns = columns_of(X, None, "choose") if X is not None else Columns({})
    given = Raw(y, y_prob, sample_weight, cluster=cluster, columns=columns, names=METRIC)
    rows = Predictions.validated(given)
    audited = _named(rows.columns, by, "'by'")
    offered = Columns({name: rows.columns[name] for name in _named(rows.columns, allowed, "'allowed'")})
    sample = Sample(rows.probability, rows.outcome, rows.weight, offered, rows.n_classes)
    named = _candidates(candidates, rows, offered)
    beside = rows.rows - int(np.bincount(rows.outcome).max())
    reason = ""
    if rows.rows < LEAST_ROWS or beside < LEAST_EVENTS:
        reason = f"There are too few rows to choose by: {rows.rows:,} rows, {beside} beside the commonest class."
    if rows.cluster is not None and np.unique(rows.cluster).size < 2:
        reason = "There is one cluster only, and no rows beside it to judge by."
    if reason:
        return _told(Identity().quietly_fitted_on(sample), "Identity", Table({"name": ["Identity"]}), reason)
    folds = fold_of_rows(rows.rows, cv, cluster=rows.cluster, random_state=random_state)
    judged = [judge(name, each, sample, folds) for name, each in named.items()]
    blended = mixed(judged, rows, folds) if isinstance(candidates, str) else None
    judged += [blended] if blended is not None else []
    for each in judged:
        measure(each, judged[0], rows, audited)
    table = table_of(judged, rows)
    winner, reason = _choice(table, judged, rows)
    fitted = winner.recalibrator.quietly_fitted_on(sample)
    if winner.weights:
        members = [named[name].quietly_fitted_on(sample) for name in winner.weights]
        fitted = Blend.of(members, np.array(list(winner.weights.values())), rows.rows, sample)
    return _told(fitted, winner.name, table, reason)


def _named(columns: Columns, names: Sequence[str] | None, where: str) -> list[str]:
    known = list(columns)
    check_named(names or (), known, f"X, named in {where},", known)
    return known if names is None else list(names)


def _candidates(
    given: str | Mapping[str, Recalibrator] | Sequence[Recalibrator], rows: Predictions, columns: Mapping[str, Column]
) -> dict[str, Recalibrator]:
    if isinstance(given, str):
        if given != "auto":
            raise refusal("must be 'auto' or recalibrators", where="'candidates'", got=f"it is {given!r}")
        found = candidates_for(rows.n_classes, columns)
    elif isinstance(given, Mapping):
        found = dict(given)
    else:
        found = {type(each).__name__: each for each in given}
        if len(found) < len(given):
            raise refusal(
                "must have different names", where="'candidates'", hint="give a dict: {'my name': recalibrator}"
            )
    for name, each in found.items():
        if not isinstance(each, Recalibrator):
            raise refusal("must be recalibrators", where="'candidates'", got=f"'{name}' is {type(each).__name__}")
    return {"Identity": Identity(), **{name: each for name, each in found.items() if name != "Identity"}}


def candidates_for(n_classes: int, columns: Mapping[str, Column]) -> dict[str, Recalibrator]:
    """What each recalibrator offers for such rows, the simplest first."""
    found: dict[str, Recalibrator] = {}
    for name in recalibrate.kinds():
        found |= getattr(recalibrate, name)._candidates(n_classes, columns)  # noqa: SLF001  # its registration
    return found


def _choice(table: Table, judged: list[Judged], rows: Predictions) -> tuple[Judged, str]:
    """The winner and why."""
    eligible = [each for each in judged[1:] if _helps(each, judged, rows)]
    if not eligible:
        return judged[0], _nothing(table)
    best = min(eligible, key=lambda each: mean_of(each.loss, rows))
    near = []
    for each in eligible:
        mean, error = difference(each.loss, best.loss, rows)
        if each is best or (math.isfinite(mean) and mean <= error):
            near.append(each)
    blends = [each for each in near if each.weights]
    winner = blends[0] if blends else min(near, key=lambda each: (_grouped(each), judged.index(each)))
    return winner, _because(table, judged.index(winner), len(judged) - 1, winner.weights)


def _helps(each: Judged, judged: list[Judged], rows: Predictions) -> bool:
    """Whether a candidate's held-out log loss is below that of doing nothing, by more than right scores would allow."""
    blended = bool(judged[-1].weights)
    singles = max(len(judged) - 1 - blended, 1)
    share = BLEND_SHARE if blended else 0.0
    level = LEVEL * (share if each.weights else (1.0 - share) / singles)
    mean, _ = difference(each.loss, judged[0].loss, rows)
    return (math.isfinite(mean) and mean < 0 and each.p_value <= level) or mean == -math.inf


def _grouped(each: Judged) -> float:
    """Mean error by the audited columns, in steps of a tenth of a point: smaller differences are noise."""
    errors = [value for name, value in each.numbers.items() if name.startswith("by ")]
    return round(float(np.mean(errors)), 3) if errors else 0.0


def _nothing(table: Table) -> str:
    losses = table["log_loss"][1:]
    if not np.isfinite(losses).any():
        return "No candidate has a finite log loss on unseen rows, so the probabilities are left alone."
    place = int(np.nanargmin(np.where(np.isfinite(losses), losses, np.nan))) + 1
    return (
        f"Nothing lowers the log loss on unseen rows beyond noise: the best, {table['name'][place]}, changes it by "
        f"{table['log_loss_difference'][place]:+.5f} ({table['difference_low'][place]:+.5f} to "
        f"{table['difference_high'][place]:+.5f}), so the probabilities are left alone."
    )


def _because(table: Table, place: int, rivals: int, weights: Mapping[str, float]) -> str:
    parts = sorted(weights.items(), key=lambda item: -item[1])
    shares = f" ({', '.join(f'{share:.0%} {name}' for name, share in parts)})" if weights else ""
    saved, low, high = (-table[n][place] for n in ("log_loss_difference", "difference_high", "difference_low"))
    by = f"by {saved:.5f} ({low:.5f} to {high:.5f})"
    by = by if math.isfinite(saved) else f"from infinity to {table['log_loss'][place]:.5f}"
    text = f"{table['name'][place]}{shares} lowers the log loss on unseen rows {by}, the best of {rivals} "
    text += "or within noise of it"
    grouped = [name for name in table if name.startswith("by ")]
    if grouped:
        before, after = (float(np.mean([table[name][row] for name in grouped])) for row in (0, place))
        text += f"; the mean error by the audited columns goes from {before:.2%} to {after:.2%}"
    return text + ("." if table["keeps_ranking"][place] else "; it does not keep the ranking.")


def _told(fitted: Recalibrator, name: str, table: Table, reason: str) -> Recalibrator:
    fitted.name, fitted.table, fitted.reason = name, table, reason
    return fitted
