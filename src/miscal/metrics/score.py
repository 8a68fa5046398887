"""Calibration by score with its noise: the reliability diagram's numbers, Kuiper's walk, slope and losses."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.cells.ranges import Bins
from miscal.codes.inference import Null
from miscal.data.arrays import Array, Plain
from miscal.data.predictions import Predictions
from miscal.data.responses import Units
from miscal.data.target import TargetData, select_target
from miscal.metrics import losses
from miscal.metrics.cell_evaluation import (
    CellEvaluation,
    KuiperTest,
    estimate_of,
    evaluate_cells,
    fine_grid,
    kuiper_test,
    ordered_tests,
)
from miscal.metrics.inputs import Norm, also_of_tables
from miscal.metrics.score_errors import score_bins, smooth_error, span_of
from miscal.results import CellResult, CumulativeCurve, Estimate, Histogram, Record
from miscal.stats.combined_test import CombinedTest
from miscal.stats.kuiper import RANGE_MEAN
from miscal.stats.normal import half_width
from miscal.stats.null_model import NullModel, choose_null
from miscal.stats.smooth_ece import smooth_ece_null

CROWDED = 0.05  # when half the scores lie below this, a logit axis shows more
HISTOGRAM = 40
POINTS = 400  # of a curve, at most, beside its extremes


@dataclass(frozen=True)
class CertainPredictions(Record):
    """Rows with a probability of exactly 0 or 1; of aggregated rows the trials are counted.

    Attributes
    ----------
    zero, one : int
        Rows with probability 0, and with probability 1.
    zero_happened : int
        Rows with probability 0 in which the event occurred.
    one_did_not : int
        Rows with probability 1 in which it did not.
    without_slope : int
        Rows that are left out of slope and intercept, because the log-odds of 0 and 1 are infinite.
    """

    zero: int
    zero_happened: int
    one: int
    one_did_not: int
    without_slope: int


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScoreResult(CellResult):
    """Calibration by score: the expected calibration error, and the other numbers of the score.

    Attributes
    ----------
    predicted, observed : float
        Means over all rows.
    kuiper : Estimate
        Kuiper's statistic: the range of the cumulative differences along the score.
    kuiper_from, kuiper_to : float
        Scores between which the cumulative differences change by that range.
    axis : str
        "logit" where the scores crowd near 0, else "linear".
    histogram : Histogram
        Weight by score.
    cumulative : CumulativeCurve
        Cumulative differences along the score.
    ratio : IntervalEstimate or None
        Predicted over observed; None of means that may be negative.
    slope, intercept, in_the_large : IntervalEstimate or None
        Logistic recalibration; None where outcomes are no events.
    smooth : Estimate or None
        SmoothECE.
    brier, log_loss : Decomposition or None
        Brier score and log loss with their decompositions.
    certain : CertainPredictions or None
        Probabilities of exactly 0 or 1; None also where the rows are not at hand.
    auc : float or None
        ROC AUC.
    from_grid : int or None
        How many cells of the score the numbers were computed from, where the rows are not at hand.
    """

    kind: str = "score"
    predicted: float
    observed: float
    kuiper: Estimate
    kuiper_from: float
    kuiper_to: float
    axis: str
    histogram: Histogram
    cumulative: CumulativeCurve
    ratio: losses.IntervalEstimate | None = None
    slope: losses.IntervalEstimate | None = None
    intercept: losses.IntervalEstimate | None = None
    in_the_large: losses.IntervalEstimate | None = None
    smooth: Estimate | None = None
    brier: losses.Decomposition | None = None
    log_loss: losses.Decomposition | None = None
    certain: CertainPredictions | None = None
    auc: float | None = None
    from_grid: int | None = None

    def kuiper_noise(self) -> Plain:
        """What is known of Kuiper's statistic beside its value, as JSON has it."""
        return {**self.kuiper.noise(), "from": self.kuiper_from, "to": self.kuiper_to}

    def _entries(self) -> Plain:
        entries = super()._entries()
        del entries["kuiper_from"], entries["kuiper_to"]
        entries |= {"kuiper": self.kuiper.value, "kuiper_noise": self.kuiper_noise()}
        entries.setdefault("ratio", {})
        if self.smooth is not None:
            entries |= {"smooth": self.smooth.value, "smooth_noise": self.smooth.noise()}
            entries.setdefault("certain", {})
        return entries


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
) -> ScoreResult:
    """Calibration by score: the expected calibration error with its noise floor, interval, p-value and bins.

    The p-value is that of three tests together, the error, Kuiper's walk, and slope and intercept (`result.tests` has
    each by itself), on draws of the outcomes from the predictions (or by cluster, or sign flips, where clusters or
    weights call for them); the result also has Kuiper's error with its own p-value,
    SmoothECE, slope, losses and the cumulative differences.

    Parameters
    ----------
    p : Predictions, or a frame or a path
        A frame or a path needs outcome=, probability= and what else `miscal.read` takes.
    bins, strategy, norm, target
        As in `expected_calibration_error`; bins have equal support by default.
    null : {"bernoulli", "residual"}, default="bernoulli"
        The null model: outcomes drawn from the predictions, or residuals with random signs.
    random_state : int, default=0
        Seed of the simulation.

    Returns
    -------
    ScoreResult

    Examples
    --------
    >>> import numpy as np, miscal
    >>> rng = np.random.default_rng(0)
    >>> score = rng.beta(2, 3, 5000)
    >>> result = miscal.by_score(miscal.Predictions(rng.random(5000) < score, score))
    >>> result.p_value > 0.05
    True
    """
    data = select_target(p, target)
    options: Plain = {"bins": bins, "strategy": strategy, "norm": norm, "random_state": random_state}
    return measure_score(data, choose_null(data, null), **options)


def measure_score(
    data: TargetData,
    null_model: NullModel,
    *,
    bins: Bins = 15,
    strategy: str = "quantile",
    norm: Norm = "l1",
    random_state: int = 0,
) -> ScoreResult:
    """`by_score` of target data that are at hand, with their null model.

    Parameters
    ----------
    data : TargetData
    null_model : NullModel
        What `choose_null` gives for the data.
    bins, strategy, norm, random_state
        As in `by_score`.
    """
    evaluation = evaluate_cells(
        data, score_bins(data, bins, strategy), null_model, norm=norm, random_state=random_state
    )
    settings = evaluation.settings(bins, data.label, strategy, norm)
    kuiper = kuiper_test(data, None, null_model, random_state)
    grid = fine_grid(evaluation, data, data.predicted)
    combined = ordered_tests(evaluation, grid, kuiper.summary.p_value, (data, data.predicted))
    return score_result(evaluation, data, kuiper, combined, settings)


def score_result(
    evaluation: CellEvaluation,
    data: TargetData,
    kuiper: KuiperTest,
    combined: CombinedTest,
    settings: Mapping[str, Any],
) -> ScoreResult:
    """The record of the bins, and of the other numbers by score.

    Parameters
    ----------
    evaluation : CellEvaluation
        The bins.
    data : TargetData
        The rows, or aggregated rows with the same distinct scores.
    kuiper : KuiperTest
        Along the score.
    combined : CombinedTest
    settings : mapping of str to object
    """
    null_model, units = evaluation.null_model, evaluation.null_model.units
    walk, summary = kuiper.walk, kuiper.summary
    score_sums = losses.pooled_scores(data)
    scores, weight, events = score_sums
    second = weight
    if data.weight is not None:
        second = np.bincount(np.searchsorted(scores, data.predicted), data.variance_weight, scores.size)
    numbers: Plain
    if null_model.binary:
        variance = second * scores * (1.0 - scores)
        numbers = _event_fields(data, null_model, score_sums, settings["random_state"])
    else:
        assert null_model.residual_variance is not None
        variance = null_model.residual_variance.of_sum(scores, weight, second)
        numbers = {"ratio": losses.ratio_of(data) if units.low == 0.0 else None}
    # The standard deviation of the total: by the model, or as wide as the sign flips (of clusters) made it.
    deviation = summary.noise_floor / RANGE_MEAN
    deviation = deviation if null_model.null == Null.RESIDUAL and np.isfinite(deviation) else walk.deviation
    used = {"bins_used": evaluation.sums.rows.size, "draws": evaluation.summary.draws}
    return ScoreResult(
        **evaluation.common_fields("Calibration by score", {**settings, **used}, combined=combined),
        **numbers,
        predicted=units.back(np.average(data.predicted, weights=data.mean_weight)),
        observed=units.back(events.sum() / weight.sum()),
        kuiper=replace(estimate_of(summary, units.scale), value=walk.range * units.scale),
        kuiper_from=units.back(walk.highest_at),
        kuiper_to=units.back(walk.lowest_at),
        axis="logit" if null_model.binary and np.mean(data.predicted < CROWDED) > 0.5 else "linear",
        histogram=_histogram(data),
        cumulative=cumulative_curve(scores, weight, events, variance, units, deviation),
    )


def _event_fields(
    compared: TargetData, noise: NullModel, score_sums: tuple[Array, Array, Array], random_state: int
) -> Plain:
    """The fields that only events have: logistic recalibration, losses, ranking, probabilities of 0 and 1."""
    scores, weight, events = score_sums
    fit, smooth = losses.slope_intercept(compared), smooth_error(compared)
    rates = losses.isotonic_rates(weight, events)
    brier, log = (losses.decomposed(scores, weight, events, rates, loss) for loss in ("brier", "log"))
    summary = smooth_ece_null(compared, smooth, noise.null, random_state=random_state)
    return {
        "smooth": replace(estimate_of(summary), value=smooth),
        **vars(fit),
        "brier": brier,
        "log_loss": log,
        "certain": _certain(compared),
        "auc": losses.area_under_curve(weight, events),
    }


def _certain(compared: TargetData) -> CertainPredictions:
    """Count the rows with a probability of exactly 0 or 1; of aggregated rows their trials."""
    times = compared.trials()
    zero, one = compared.predicted <= 0.0, compared.predicted >= 1.0
    events, non_events = compared.observed > 0, compared.observed < 1
    counted = (zero, zero & events, one, one & non_events, zero | one)
    return CertainPredictions(*(int(times[rows].sum()) for rows in counted))


def _histogram(compared: TargetData) -> Histogram:
    low, high = (0.0, 1.0) if compared.binary else span_of(compared.predicted)
    edges = np.linspace(low, high, HISTOGRAM + 1)
    # Means of cells differ in their last digit with the order of their rows, and may lie on an edge.
    place = (HISTOGRAM * (compared.predicted - low) / (high - low or 1.0)).round(9)
    rows = np.bincount(np.minimum(place, HISTOGRAM - 1).astype(int), compared.mean_weight, HISTOGRAM)
    return Histogram(compared.units.back(edges).tolist(), rows.astype(float).tolist())


def cumulative_curve(
    score: Array,
    weight: Array,
    events: Array,
    variance: Array,
    units: Units,
    deviation: float | None = None,
    points: int = POINTS,
) -> CumulativeCurve:
    """Cumulative differences of predicted and observed with their 95% band, in units of the data.

    Parameters
    ----------
    score, weight, events, variance : array
        Of rows, or of pooled rows, in the order of the score.
    units : Units
    deviation : float, optional
        Standard deviation of the total, where it is not that of the variances.
    points : int
        How many points the curve has at most; its highest and lowest point are always among them.
    """
    if score.size == 0:
        return CumulativeCurve([0.0], [0.0], units.back(np.zeros(1)).tolist(), [0.0])
    running = np.cumsum(weight * score - events)
    ends = np.flatnonzero(np.append(score[1:] != score[:-1], True))
    shown = np.linspace(0, ends.size - 1, min(points, ends.size)).astype(int)
    extremes = np.argmax(running[ends]), np.argmin(running[ends])
    shown = ends[np.unique(np.append(shown, extremes))]
    share, spread = np.cumsum(weight), np.sqrt(np.cumsum(variance))
    total, widest = share[-1], spread[-1]
    end = widest / total if deviation is None else deviation
    band = half_width(end) * spread[shown] / max(widest, 1e-300)
    return CumulativeCurve(
        x=np.append(0.0, share[shown] / total).tolist(),
        y=np.append(0.0, running[shown] / total * units.scale).tolist(),
        score=units.back(np.append(score[0], score[shown])).tolist(),
        band=np.append(0.0, band * units.scale).tolist(),
    )
