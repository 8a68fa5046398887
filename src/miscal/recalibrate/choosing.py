"""Choose a recalibrator by cross-fitting, and leave the probabilities alone when nothing helps beyond noise."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from miscal.data.columns import Column, Columns
from miscal.data.errors import MiscalError, nearest, refusal
from miscal.data.predictions import Predictions, check_arrays
from miscal.inference.beyond import fold_of_rows
from miscal.metrics.decision import area_under_curve
from miscal.metrics.norms import aggregate
from miscal.metrics.score.binned import expected_calibration_error
from miscal.metrics.score.losses import pooled_scores
from miscal.pairs import pair
from miscal.pooling.columns import level_pooling, range_pooling
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.candidates import candidates_for
from miscal.recalibrate.identity import Identity
from miscal.recalibrate.tables import columns_of
from miscal.results import Table

LEAST_ROWS = 50
LEAST_EVENTS = 10
TWO_SIDED = 1.959963984540054


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

    Each candidate is fitted on all folds but one and judged on the one left out. A candidate is eligible only if its
    held-out log loss is below that of leaving the probabilities alone by more than noise (paired over rows, one-sided
    at 5% with Bonferroni over the candidates). Among the eligible ones within one standard error of the best, the one
    with the smallest error by the audited columns wins, then the earlier (simpler) one.

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
    rows = check_arrays(y, y_prob, sample_weight)
    kept = None if not rows.ignored else np.flatnonzero(np.asarray(sample_weight, dtype=float) > 0)
    columns = columns_of(X, rows.rows + rows.ignored, "choose") if X is not None else Columns({})
    columns = columns if kept is None else columns.take(kept)
    clusters = _clusters(cluster, rows.rows + rows.ignored, kept)
    usable = _named(columns, allowed, "'allowed'")
    audited = _named(columns, by, "'by'")
    named = _candidates(candidates, rows, {name: columns[name] for name in usable})
    if rows.rows < LEAST_ROWS or _fewest(rows) < LEAST_EVENTS:
        reason = f"There are too few rows to choose by: {rows.rows:,} rows, {_fewest(rows)} of the rarest class."
        return _finished(Identity(), "Identity", Table({"name": ["Identity"]}), reason, rows, columns, usable)
    folds = fold_of_rows(rows.rows, cv, cluster=clusters, random_state=random_state)
    judged = [_judge(name, each, rows, columns, usable, audited, folds) for name, each in named.items()]
    table = _table(judged, rows, clusters)
    name, reason = _choice(table, judged, rows, clusters)
    return _finished(clone(named[name]), name, table, reason, rows, columns, usable)


def _named(columns: Columns, names: Sequence[str] | None, where: str) -> list[str]:
    known = list(columns)
    for name in names or ():
        if name not in known:
            raise refusal(f"has no column '{name}'", where=f"X, named in {where},", hint=nearest(name, known))
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


def _clusters(cluster: Any, total: int, kept: np.ndarray | None) -> np.ndarray | None:
    if cluster is None:
        return None
    codes = np.unique(np.asarray(cluster), return_inverse=True)[1]
    if codes.shape != (total,):
        raise refusal("must have one label a row", where="'cluster'", got=f"it has {codes.size} for {total} rows")
    return codes if kept is None else codes[kept]


def _fewest(rows: Predictions) -> int:
    return int(np.bincount(rows.outcome, minlength=rows.n_classes).min())


class _Judged:
    """One candidate's held-out probabilities and what they cost."""

    def __init__(self, name: str, recalibrator: Recalibrator) -> None:
        self.name, self.recalibrator = name, recalibrator
        self.loss = np.empty(0)
        self.numbers: dict[str, Any] = {}
        self.failure = ""


def _judge(
    name: str,
    recalibrator: Recalibrator,
    rows: Predictions,
    columns: Columns,
    usable: list[str],
    audited: list[str],
    folds: np.ndarray,
) -> _Judged:
    done = _Judged(name, recalibrator)
    held_out = np.empty((rows.rows, rows.n_classes))
    seconds = 0.0
    try:
        for fold in np.unique(folds):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            start = time.perf_counter()
            fitted = _fit(clone(recalibrator), rows, columns, usable, train)
            seconds += time.perf_counter() - start
            done.recalibrator = fitted
            held_out[test] = fitted.predict_proba(rows.probability[test], _beside(columns, usable, test, fitted))
    except MiscalError as error:
        done.failure = str(error).splitlines()[0]
        return done
    done.loss = _row_loss(held_out, rows)
    done.numbers = {"fit_seconds": seconds, **_numbers(held_out, rows, columns, audited)}
    return done


def _fit(each: Recalibrator, rows: Predictions, columns: Columns, usable: list[str], train: np.ndarray) -> Recalibrator:
    import warnings

    from miscal.data.errors import MiscalWarning

    weight = None if rows.weight is None else rows.weight[train]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MiscalWarning)
        return each.fit(rows.probability[train], rows.outcome[train], _beside(columns, usable, train, each), weight)


def _beside(columns: Columns, usable: list[str], rows: np.ndarray, each: Recalibrator) -> dict[str, Column] | None:
    return {name: columns[name].take(rows) for name in usable} if each.uses_columns else None


def _row_loss(held_out: np.ndarray, rows: Predictions) -> np.ndarray:
    chosen = np.take_along_axis(held_out, rows.outcome[:, None].astype(np.int64), axis=1)[:, 0]
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(chosen))


def _numbers(held_out: np.ndarray, rows: Predictions, columns: Columns, audited: list[str]) -> dict[str, float]:
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
        column = columns[name]
        pooling = level_pooling(column) if column.nominal else range_pooling(column, weight=rows.weight)
        tally = mean_tally(compared, pooling)
        found[f"by {name}"] = float(aggregate(np.nan_to_num(tally.gap), tally.weight))
    return found


def _table(judged: list[_Judged], rows: Predictions, clusters: np.ndarray | None) -> Table:
    """One row a candidate; differences are paired with leaving the probabilities alone."""
    alone = judged[0].loss
    found: dict[str, list[Any]] = {"name": [each.name for each in judged]}
    losses = [_mean(each.loss, rows) if each.loss.size else math.nan for each in judged]
    differences = [_difference(each.loss, alone, rows, clusters) for each in judged]
    found["log_loss"] = losses
    found["log_loss_difference"] = [mean for mean, _ in differences]
    found["difference_low"] = [mean - TWO_SIDED * error for mean, error in differences]
    found["difference_high"] = [mean + TWO_SIDED * error for mean, error in differences]
    names = list(dict.fromkeys(name for each in judged for name in each.numbers))
    for name in names:
        found[name] = [each.numbers.get(name, math.nan) for each in judged]
    found["keeps_ranking"] = [bool(each.recalibrator.keeps_ranking) for each in judged]
    found["failed"] = [each.failure for each in judged]
    return Table(found)


def _mean(loss: np.ndarray, rows: Predictions) -> float:
    return float(np.average(loss, weights=rows.weight))


def _difference(
    loss: np.ndarray, other: np.ndarray, rows: Predictions, clusters: np.ndarray | None
) -> tuple[float, float]:
    """Mean paired difference and its standard error; both infinite where one loss is."""
    if not loss.size:
        return math.nan, math.nan
    with np.errstate(invalid="ignore"):
        change = loss - other
    if not np.isfinite(change).all():
        return (math.inf if np.isinf(loss).any() else -math.inf), math.inf
    weight = np.ones(rows.rows) if rows.weight is None else rows.weight
    mean = float(np.average(change, weights=weight))
    off = weight * (change - mean)
    off = off if clusters is None else np.bincount(clusters, off)
    return mean, float(np.sqrt(np.sum(off * off)) / weight.sum())


def _choice(table: Table, judged: list[_Judged], rows: Predictions, clusters: np.ndarray | None) -> tuple[str, str]:
    """The name of the winner and why."""
    from scipy.special import ndtri

    alone = judged[0]
    limit = float(-ndtri(0.05 / max(len(judged) - 1, 1)))
    eligible = []
    for each in judged[1:]:
        mean, error = _difference(each.loss, alone.loss, rows, clusters)
        if (math.isfinite(mean) and mean < 0 and -mean > limit * error) or mean == -math.inf:
            eligible.append(each)
    if not eligible:
        return "Identity", _nothing(table)
    best = min(eligible, key=lambda each: _mean(each.loss, rows))
    near = []
    for each in eligible:
        mean, error = _difference(each.loss, best.loss, rows, clusters)
        if each is best or (math.isfinite(mean) and mean <= error):
            near.append(each)
    winner = min(near, key=lambda each: (_grouped(each), judged.index(each)))
    return winner.name, _because(table, judged.index(winner), len(judged) - 1)


def _grouped(each: _Judged) -> float:
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


def _because(table: Table, place: int, rivals: int) -> str:
    text = (
        f"{table['name'][place]} lowers the log loss on unseen rows by {-table['log_loss_difference'][place]:.5f} "
        f"({-table['difference_high'][place]:.5f} to {-table['difference_low'][place]:.5f}), the best of {rivals} "
        f"or within noise of it"
    )
    grouped = [name for name in table if name.startswith("by ")]
    if grouped:
        before, after = (float(np.mean([table[name][row] for name in grouped])) for row in (0, place))
        text += f"; the mean error by the audited columns goes from {before:.2%} to {after:.2%}"
    return text + ("." if table["keeps_ranking"][place] else "; it does not keep the ranking.")


def _finished(
    each: Recalibrator, name: str, table: Table, reason: str, rows: Predictions, columns: Columns, usable: list[str]
) -> Recalibrator:
    fitted = _fit(each, rows, columns, usable, np.arange(rows.rows))
    fitted.name, fitted.table, fitted.reason = name, table, reason
    return fitted
