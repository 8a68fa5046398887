"""Variation calibration (paper 001): whether the spread of predictions over the classes is right, with its noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.cells.partitions import Ranges
from miscal.cells.ranges import Bins
from miscal.codes.inference import Method, MethodNote, Null
from miscal.data.arrays import Array, Plain
from miscal.data.errors import refusal
from miscal.data.predictions import Predictions
from miscal.data.target import outcome_data, require_events
from miscal.metrics.inputs import MetricInput, Norm, aggregate, also_of_tables, bins_asked
from miscal.metrics.rank_sums import (
    Ranked,
    RankSums,
    Variation,
    VariationMeasure,
    confidence,
    entropy,
    group_residuals,
    measure_of,
    rank_sums,
    ranked,
    ranked_rows,
)
from miscal.results import Result, Table
from miscal.stats.cluster_draws import few_clusters
from miscal.stats.metric_null import DRAWS, null_bands_and_p, summary_of_draws
from miscal.stats.multiplicity import holm
from miscal.stats.normal import half_width
from miscal.stats.null_model import NullModel, choose_null
from miscal.stats.rank_draws import clustered_rank_shares, effective_sizes, null_variations, raise_quiet_bins
from miscal.words import sentence


def variation_calibration_error(
    y_true: Any,
    y_prob: Any,
    *,
    variation: Variation = "entropy",
    bins: Bins = 10,
    strategy: str = "uniform",
    range: tuple[float, float] | None = None,  # noqa: A002
    norm: Norm = "l1",
    bias_correction: bool = False,
    sample_weight: Any = None,
) -> float:
    r"""Average gap between the variation that predictions have and the variation that outcomes show (VCE of paper 001).

    .. math:: \sum_b \frac{W_b}{W}\,\Big|\,V\big(\bar q_b\big) - V\big(\bar r_b\big)\Big|

    Each row's probabilities are ranked from the largest to the smallest, :math:`q_i`; :math:`r_i` is 1 at the rank of
    the class that occurred and 0 elsewhere. Rows are pooled in bins of :math:`V(q_i)`; the bars are weighted means over
    a bin. Bins are right-closed, the lowest edge included; an empty bin counts nothing.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Class numbers.
    y_prob : array-like of shape (n, K) or (n,)
        Rows sum to 1 within 1e-4 and are never renormalised; (n,) means [1 - p, p].
    variation : str or callable, default="entropy"
        The measure V:
        "entropy" (to the base K), "confidence" (the first rank's share: the error is then the expected calibration
        error of the top label, exactly), "variation_ratio" (Wilcox: K/(K-1)·(1 - max)), "qualitative_variation"
        (K/(K-1)·(1 - Σp²)), or a callable of ranked shares (m, K) that returns (m,).
    bins : int or array-like
        Number of bins, or their increasing edges; the first and the last bin catch what lies outside.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width over `range`, or of equal support; ties are never split.
    range : (float, float), default=None
        None: [1/K, 1] for the confidence, [0, 1] for the other names, the smallest to the largest value of a callable.
    norm : {"l1", "l2", "max"} or float, default="l1"
        How gaps are averaged: "l2" is the root of the weighted mean square; a number is any p of at least 1.
    bias_correction : bool, default=False
        Frequencies have a lower entropy than what they estimate, by about (K-1)/(2 n_b ln K). True adds Miller and
        Madow's correction (m - 1)/(2 n_b ln K), m the ranks that occurred in the bin and n_b its rows, with weights
        (Σw)²/Σw²; qualitative variation is multiplied by n_b/(n_b - 1).
    sample_weight : array-like of shape (n,), default=None
        Sampling weights; rows of weight 0 are ignored.

    Notes
    -----
    Equal probabilities are ranked by class number, the lowest first; so renumbering the classes changes nothing where
    none are equal. All named measures but the confidence are the same for a distribution and its permutations: a model
    that says (.7, .3) where (.3, .7) is true has no error by them. Look at `classwise_calibration_error` beside it.
    Computed variations are compared with the bins' edges on a grid of 2**-40, so that rounding decides nothing.

    Examples
    --------
    >>> from miscal.metrics import variation_calibration_error
    >>> y_prob = [[0.7, 0.2, 0.1], [0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]]
    >>> round(variation_calibration_error([0, 0, 0, 1], y_prob), 6)
    0.098917
    >>> round(variation_calibration_error([0, 0, 0, 1], y_prob, variation="confidence"), 6)
    0.2
    """
    inputs = MetricInput(y_true, y_prob, sample_weight)
    measure = measure_of(variation, bias_correction)
    sums = rank_sums(ranked(inputs.predictions, measure, bins, strategy, range))
    return float(aggregate(bin_variations(sums, measure)[2], sums.weight, norm))


def bin_variations(sums: RankSums, measure: VariationMeasure) -> tuple[Array, Array, Array]:
    """Predicted and observed variation of each bin, and their difference; NaN where it is empty."""
    filled = sums.weight > 0
    predicted, observed = np.full((2, filled.size), np.nan)
    predicted[filled] = measure(sums.predicted[filled])
    observed[filled] = measure.of_frequencies(sums.observed[filled], sums.size[filled])
    exact = measure.function is confidence
    return predicted, observed, sums.first_rank_gap if exact else predicted - observed


def uncertainty_calibration_error(
    y_true: Any,
    y_prob: Any,
    *,
    bins: Bins = 10,
    strategy: str = "uniform",
    sample_weight: Any = None,
) -> float:
    r"""Average gap between mean entropy and error rate over bins of the entropy (UCE, Laves and others 2019).

    .. math:: \sum_b \frac{W_b}{W}\,\big|\mathrm{err}_b - \bar H_b\big|

    with :math:`\mathrm{err}_b` the share of rows in bin b whose most probable class did not occur and
    :math:`\bar H_b` their mean entropy to the base K. It is given for comparison: entropy and error rate are different
    things, so that this error is *not* 0 for calibrated predictions, and no p-value is ever made from it. For
    predictions drawn evenly from all distributions over K classes it tends to
    :math:`(\psi(K+1)-\psi(2))/\ln K - (1 - H_K/K)`: .3696 for K = 3, .1306 for K = 10.

    Parameters
    ----------
    y_true, y_prob, bins, strategy, sample_weight
        As in `variation_calibration_error`.

    Examples
    --------
    >>> from miscal.metrics import uncertainty_calibration_error
    >>> uncertainty_calibration_error([0, 1], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    0.0
    """
    inputs = MetricInput(y_true, y_prob, sample_weight)
    sums = rank_sums(ranked(inputs.predictions, measure_of("entropy"), bins, strategy, None))
    return _uncertainty_error(sums)


def _uncertainty_error(sums: RankSums) -> float:
    """The size of mean entropy minus error rate over the bins."""
    return float(aggregate(sums.mean_variation - (1.0 - sums.observed[:, 0]), sums.weight))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class VariationResult(Result):
    """Calibration of the predictions' variation.

    Attributes
    ----------
    predicted_ranks, observed_ranks : array of shape (classes,)
        Mean probability of each rank over all rows, and how often the class that occurred had it.
    uncertainty_error : float or None
        The uncertainty calibration error; None where the variation is not the entropy.
    uncertainty : Table or None
        Its bins: mean entropy and error rate, with the band of a calibrated model.
    """

    kind: str = "variation"
    predicted_ranks: Array
    observed_ranks: Array
    uncertainty_error: float | None = None
    uncertainty: Table | None = None


@also_of_tables
def by_variation(
    p: Predictions,
    *,
    variation: Variation = "entropy",
    bins: Bins = 10,
    strategy: str = "uniform",
    range: tuple[float, float] | None = None,  # noqa: A002
    norm: Norm = "l1",
    bias_correction: bool = False,
    target: str = "auto",
    null: str = "bernoulli",
    random_state: int = 0,
) -> VariationResult:
    """Calibration of the predictions' variation: the error with its noise floor, p-value and bins.

    The noise floor and the p-value come from drawing the ranks' frequencies of each bin from a multinomial with the
    bin's mean ranked probabilities, which is conservative, and computing the whole error on each draw; with up to 1,000
    clusters each row's rank is drawn, ranks of a cluster being as alike as they are in the data; with more of them, or
    weights that depend on the outcome, the multinomial is as noisy as the residuals are (no bin less than is
    usual). With few rows in a bin the observed entropy is low by itself: the noise floor holds that bias.

    Parameters
    ----------
    p : Predictions, or a frame or a path
        A frame or a path needs outcome=, probability= and what else `miscal.read` takes.
    variation, bins, strategy, range, norm, bias_correction
        As in `variation_calibration_error`.
    target : {"auto"}, default="auto"
        The ranks of all classes are compared: there is no other target.
    null : {"bernoulli", "residual"}, default="bernoulli"
        The null model: outcomes drawn from the predictions, or residuals with random signs.
    random_state : int, default=0
        Seed of the simulation.

    Returns
    -------
    VariationResult
        The table has one row a bin: predicted and observed variation, their gap, the band in which 95% of calibrated
        predictions would lie, p-values (alone, and by Holm's rule), and the mean ranked probabilities beside the
        frequencies of the ranks. For the entropy `result.uncertainty` holds the bins of the uncertainty calibration
        error, which has no p-value because it is not 0 for calibrated predictions.

    Examples
    --------
    >>> import miscal
    >>> data = miscal.datasets.calibrated_classes(5000)
    >>> result = miscal.by_variation(miscal.Predictions(data.y_true, data.y_prob))
    >>> result.p_value > 0.05, result.table["predicted_ranks"][5].round(2).tolist()
    (True, [0.78, 0.18, 0.04])
    """
    measure = measure_of(variation, bias_correction)
    if target != "auto":
        requirement = "must be 'auto': the variation compares the ranks of all classes"
        raise refusal(
            requirement, "'target'", got=f"it is {target!r}", hint="confidence is variation='confidence'"
        )
    rows = ranked(require_events(p, "by_variation"), measure, bins, strategy, range)
    sums = rank_sums(rows)
    noise = choose_null(outcome_data(p), null, p.probability)
    drawn = _draws(rows, sums, noise, random_state)
    table = _table(sums, measure, drawn)
    filled = sums.weight > 0
    weight = sums.weight[filled]
    value = aggregate(table["gap"][filled], weight, norm)
    values = aggregate(table["predicted"][filled] - drawn, weight, norm)
    summary = summary_of_draws(float(value), values, method=Method.SIMULATION)
    return VariationResult(
        name=f"Calibration by variation ({measure.name.replace('_', ' ')})",
        **summary.numbers() | {"interval": (np.nan, np.nan)},
        method=f"{sentence(noise.reason)} {sentence(MethodNote.RANK_DRAWS, draws=summary.draws)}",
        table=table,
        settings={
            "variation": measure.name,
            "bins": bins_asked(bins),
            "bins_used": np.count_nonzero(filled),
            "strategy": strategy,
            "range": None if range is None else [float(end) for end in range],
            "norm": norm,
            "bias_correction": measure.corrected,
            "target": "ranks",
            "null": noise.null,
            "random_state": random_state,
            "draws": summary.draws,
        },
        **_rank_fields(sums, measure),
    )


def _draws(rows: Ranked, sums: RankSums, noise: NullModel, random_state: int) -> Array:
    """Observed variations of the filled bins in draws under the null, (draws, bins)."""
    filled = np.flatnonzero(sums.weight > 0)
    parts = sums.predicted, sums.size, sums.weight, sums.rows
    shares, size, weight, count = (part[filled] for part in parts)
    p, measure = rows.predictions, rows.measure
    residual = slope = None
    few = few_clusters(outcome_data(p), 0.5 * DRAWS * p.n_classes)
    clustered = few and not noise.outcome_weights
    if noise.null == Null.RESIDUAL and not clustered:
        residuals = group_residuals(rows)[:, filled]
        if noise.outcome_weights:
            residuals = raise_quiet_bins(residuals, shares, count)
        size = effective_sizes(residuals, shares, weight, size, count)
        slope = measure.slope(shares, size)
        residual = (residuals * slope).sum(axis=2) / weight

    def variation(drawn: Array) -> Array:
        return measure.of_frequencies(drawn, size)

    if p.cluster is None or not clustered:
        return null_variations(shares, size, variation, DRAWS, random_state, residual, slope)
    ranks = ranked_rows(rows, 0, p.rows)
    row_weight = outcome_data(p).sampling_weight
    place = np.searchsorted(filled, ranks.place)
    return variation(
        clustered_rank_shares(ranks.shares, ranks.rank, place, row_weight, p.cluster, DRAWS, random_state)
    )


def _table(sums: RankSums, measure: VariationMeasure, drawn: Array) -> Table:
    filled = sums.weight > 0
    predicted, observed, gap = bin_variations(sums, measure)
    low, high, p_value = np.full((3, filled.size), np.nan)
    low[filled], high[filled], p_value[filled] = null_bands_and_p(drawn, observed[filled])
    return Table(
        {
            "label": Ranges(sums.edges).labels(),
            "low": sums.edges[:-1],
            "high": sums.edges[1:],
            "rows": sums.rows,
            "weight": sums.weight,
            "predicted": predicted,
            "observed": observed,
            "gap": gap,
            "band_low": low,
            "band_high": high,
            "p_value": p_value,
            "p_adjusted": holm(p_value),
            "predicted_ranks": sums.predicted,
            "observed_ranks": sums.observed,
        }
    )


def _rank_fields(sums: RankSums, measure: VariationMeasure) -> Plain:
    """Rank distributions of all rows together, and for the entropy what the uncertainty calibration error compares."""
    filled = sums.weight > 0
    share = sums.weight[filled] / sums.weight.sum()
    ranks: Plain = {
        "predicted_ranks": share @ sums.predicted[filled],
        "observed_ranks": share @ sums.observed[filled],
    }
    if measure.function is not entropy:
        return ranks
    error = 1.0 - sums.predicted[:, 0]  # what calibrated predictions would show, and its noise
    noise = half_width(np.sqrt(np.clip(error * (1.0 - error), 0.0, 0.25) / np.maximum(sums.size, 1.0)))
    bins = Table(
        {
            "rows": sums.rows,
            "uncertainty": sums.mean_variation,
            "error": 1.0 - sums.observed[:, 0],
            "band_low": np.clip(error - noise, 0.0, 1.0),
            "band_high": np.clip(error + noise, 0.0, 1.0),
        }
    )
    return ranks | {"uncertainty_error": _uncertainty_error(sums), "uncertainty": bins}
