"""Calibration by score with its noise: the reliability diagram's numbers, Kuiper's walk, slope and losses."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from miscal.cells.ranges import Bins
from miscal.codes.inference import Null
from miscal.data.arrays import Array, Plain
from miscal.data.predictions import Predictions
from miscal.data.responses import Units
from miscal.data.target import TargetData, pair
from miscal.metrics import losses
from miscal.metrics.inputs import Norm, also_of_tables
from miscal.metrics.pooled import Pooled, Walked, along_tested, grid_of, pooled, walk_summary
from miscal.metrics.score_errors import score_bins, smooth_error, span_of
from miscal.results import Result
from miscal.stats.combined_test import CombinedTest
from miscal.stats.kuiper import RANGE_MEAN
from miscal.stats.metric_null import NullSummary
from miscal.stats.normal import NORMAL_95
from miscal.stats.null_model import NullModel
from miscal.stats.smooth_ece import smooth_noise

CROWDED = 0.05  # when half the scores lie below this, a logit axis shows more
HISTOGRAM = 40
POINTS = 400  # of a curve, at most, beside its extremes


@also_of_tables
def by_score(
    p: Predictions,
    *,
    bins: Bins = 15,
    strategy: str = "quantile",
    norm: Norm = "l1",
    target: str | int = "auto",
    null: str = "bernoulli",
    random_state: int = 0,
) -> Result:
    """Calibration by score: the expected calibration error with its noise floor, interval, p-value and bins.

    The p-value is that of three tests together, the error, Kuiper's walk, and slope and intercept (`result.tests` has
    each by itself), on draws of the outcomes from the predictions (or by cluster, or sign flips, where clusters or
    weights call for them); `extra` holds Kuiper's error with its own p-value, SmoothECE, slope, losses and the
    cumulative differences.

    Parameters
    ----------
    p : Predictions; or a frame or a path, with outcome=, probability= and the rest of what `miscal.read` takes
    bins, strategy, norm, target : as in `expected_calibration_error`; equal support by default
    null : "bernoulli" or "residual"
    random_state : seed of the simulation

    Returns
    -------
    Result

    Examples
    --------
    >>> import numpy as np, miscal
    >>> rng = np.random.default_rng(0)
    >>> score = rng.beta(2, 3, 5000)
    >>> result = miscal.by_score(miscal.Predictions(rng.random(5000) < score, score))
    >>> result.p_value > 0.05
    True
    """
    compared = pair(p, target)
    pooling = score_bins(compared, bins, strategy)
    found = pooled(compared, pooling, norm=norm, null=null, random_state=random_state)
    settings = found.settings(bins, compared.target, strategy, norm)
    walked = walk_summary(compared, None, found.noise, random_state)
    grid = grid_of(found, compared, compared.predicted)
    tested = along_tested(found, grid, walked[1].p_value, (compared, compared.predicted))
    return score_result(found, compared, walked, tested, settings)


def score_result(
    found: Pooled,
    compared: TargetData,
    walked: Walked,
    tested: CombinedTest,
    settings: Mapping[str, Any],
) -> Result:
    """The record of the bins, and of the other numbers by score.

    compared : the rows, or as many aggregated ones as tell their scores apart
    walked : the walk along the score, and how its range compares with noise
    """
    extra = {"tally": found.tally, **_extras(compared, found.noise, walked, settings["random_state"])}
    used = {"bins_used": found.sums.rows.size, "draws": found.summary.draws}
    return found.result("Calibration by score", "score", {**settings, **used}, extra, tested=tested)


def _extras(compared: TargetData, noise: NullModel, along: Walked, random_state: int) -> Plain:
    """The other numbers by score, and what the figures draw."""
    (walked, kuiper), units = along, noise.units
    scores, weight, events = losses.pooled_scores(compared)
    second = weight
    if compared.weight is not None:
        second = np.bincount(np.searchsorted(scores, compared.predicted), compared.second, scores.size)
    variance = second * scores * (1.0 - scores)
    if noise.binary:
        made = _of_events(compared, noise, (scores, weight, events), random_state)
    else:
        assert noise.spread is not None
        variance = noise.spread.at(scores, weight, second)
        made = {"ratio": _numbers(losses.ratio_of(compared)) if units.low == 0.0 else {}}
    # Of the walk's end: by the model, or as wide as the sign flips (of clusters) found it.
    deviation = kuiper.noise_floor / RANGE_MEAN
    deviation = deviation if noise.null == Null.RESIDUAL and np.isfinite(deviation) else walked.deviation
    return made | {
        "predicted": units.back(np.average(compared.predicted, weights=compared.first)),
        "observed": units.back(events.sum() / weight.sum()),
        "kuiper": walked.range * units.scale,
        "kuiper_noise": {
            **_noise_of(kuiper, units.scale),
            "from": units.back(walked.highest_at),
            "to": units.back(walked.lowest_at),
        },
        "axis": "logit" if noise.binary and np.mean(compared.predicted < CROWDED) > 0.5 else "linear",
        "histogram": _histogram(compared),
        "cumulative": cumulative_curve(scores, weight, events, variance, units, deviation),
    }


def _of_events(compared: TargetData, noise: NullModel, pooled: tuple[Array, ...], random_state: int) -> Plain:
    """What only events have: slope of the log-odds, losses, ranking, rows said to be certain."""
    fit = losses.slope_intercept(compared)
    smooth = smooth_error(compared)
    scores, weight, events = pooled
    rates = losses.isotonic_rates(weight, events)
    brier, log = (losses.decomposed(scores, weight, events, rates, loss) for loss in ("brier", "log"))
    return {
        "smooth": smooth,
        "smooth_noise": _noise_of(smooth_noise(compared, smooth, noise.null, random_state=random_state)),
        **{name: _numbers(estimate) for name, estimate in vars(fit).items()},
        "brier": vars(brier),
        "log_loss": vars(log),
        "certain": _certain(compared),
        "auc": losses.area_under_curve(weight, events),
    }


def _noise_of(found: NullSummary, scale: float = 1.0) -> Plain:
    """What is known of a number's noise, as plain values."""
    made = found.numbers(scale)
    del made["value"]
    least = 1.0 / (1.0 + found.draws) if found.draws else math.nan
    return {**made, "interval": list(made["interval"]), "method": str(found.method), "least": least}


def _numbers(estimate: losses.Estimate) -> Plain:
    return {"value": estimate.value, "interval": [estimate.low, estimate.high]}


def _certain(compared: TargetData) -> dict[str, int]:
    """How many rows were said to be 0 and 1, how many of them went the other way, and how many no slope is fitted to.

    Of aggregated rows the trials are counted.
    """
    times = compared.repeats()
    zero, one = compared.predicted <= 0.0, compared.predicted >= 1.0
    made = {
        "zero": zero,
        "zero_happened": zero & (compared.observed > 0),
        "one": one,
        "one_did_not": one & (compared.observed < 1),
        "without_slope": zero | one,
    }
    return {name: times[rows].sum() for name, rows in made.items()}


def _histogram(compared: TargetData) -> dict[str, list[float]]:
    low, high = (0.0, 1.0) if compared.binary else span_of(compared.predicted)
    edges = np.linspace(low, high, HISTOGRAM + 1)
    # Means of cells differ in their last digit with the order of their rows, and may lie on an edge.
    place = (HISTOGRAM * (compared.predicted - low) / (high - low or 1.0)).round(9)
    rows = np.bincount(np.minimum(place, HISTOGRAM - 1).astype(int), compared.first, HISTOGRAM)
    return {"edges": compared.units.back(edges).tolist(), "rows": rows.astype(float).tolist()}


def cumulative_curve(
    score: Array,
    weight: Array,
    events: Array,
    variance: Array,
    units: Units,
    deviation: float | None = None,
    points: int = POINTS,
) -> dict[str, list[float]]:
    """Running total of predicted minus observed, with the 95% band of its noise, at some ends of ties, in units.

    score, weight, events, variance : of rows, or of rows taken together, in the order of the score
    deviation : of the end of the walk, where it is not as wide as the variances say

    x is the share of the weight so far, y the running total over the total weight, score the score there, band the
    half-width of a pointwise band. The extremes are among the points.
    """
    if score.size == 0:
        return {"x": [0.0], "y": [0.0], "score": units.back(np.zeros(1)).tolist(), "band": [0.0]}
    running = np.cumsum(weight * score - events)
    ends = np.flatnonzero(np.append(score[1:] != score[:-1], True))
    some = np.linspace(0, ends.size - 1, min(points, ends.size)).astype(int)
    extremes = np.argmax(running[ends]), np.argmin(running[ends])
    some = ends[np.unique(np.append(some, extremes))]
    share, spread = np.cumsum(weight), np.sqrt(np.cumsum(variance))
    total, widest = share[-1], spread[-1]
    end = widest / total if deviation is None else deviation
    band = NORMAL_95 * end * spread[some] / max(widest, 1e-300)
    curve = {
        "x": np.append(0.0, share[some] / total),
        "y": np.append(0.0, running[some] / total * units.scale),
        "score": units.back(np.append(score[0], score[some])),
        "band": np.append(0.0, band * units.scale),
    }
    return {name: values.tolist() for name, values in curve.items()}
