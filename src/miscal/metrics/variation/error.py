"""Variation calibration error and uncertainty calibration error (paper 001)."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.metrics.arrays import Given
from miscal.metrics.norms import Norm, aggregate, norm_power
from miscal.metrics.variation.measures import Measure, Variation, bias_corrected, check_correction, measure_of
from miscal.metrics.variation.sums import Bins, RankSums, rank_sums, ranked


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
    y_true : (n,) class numbers
    y_prob : (n, K) with rows that sum to 1 within 1e-4, never renormalised; (n,) means [1 - p, p]
    variation : measure V
        "entropy" (to the base K), "confidence" (the first rank's share: the error is then the expected calibration
        error of the top label, exactly), "variation_ratio" (Wilcox: K/(K-1)·(1 - max)), "qualitative_variation"
        (K/(K-1)·(1 - Σp²)), or a callable of ranked shares (m, K) that returns (m,).
    bins : number of bins, or increasing edges (the end bins catch what lies outside)
    strategy : "uniform" (equal width over `range`) or "quantile" (equal support; ties are never split)
    range : (low, high)
        None: [1/K, 1] for the confidence, [0, 1] for the other names, the smallest to the largest value of a callable.
    norm : "l1", "l2" (root of the weighted mean square), "max", or any p >= 1
    bias_correction : bool
        Frequencies have a lower entropy than what they estimate, by about (K-1)/(2 n_b ln K). True adds Miller and
        Madow's correction (m - 1)/(2 n_b ln K), m the ranks that occurred in the bin and n_b its rows, with weights
        (Σw)²/Σw²; qualitative variation is multiplied by n_b/(n_b - 1).
    sample_weight : (n,) sampling weights; rows of weight 0 are ignored

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
    given = Given(y_true, y_prob, sample_weight)
    measure = measure_of(variation)
    corrected = check_correction(measure, bias_correction)
    norm_power(norm)
    sums = rank_sums(ranked(given.predictions, measure, bins, strategy, range))
    gap = variation_gaps(sums, measure, bias_correction=corrected)
    return float(aggregate(gap, sums.weight, norm))


def variation_gaps(sums: RankSums, measure: Measure, *, bias_correction: bool = False) -> np.ndarray:
    """Predicted minus observed variation of each bin; NaN where it is empty."""
    if measure.name == "confidence" and measure.kind >= 0:
        return sums.first_rank_gap
    predicted, observed = bin_variations(sums, measure, bias_correction=bias_correction)
    return np.asarray(predicted - observed)


def bin_variations(sums: RankSums, measure: Measure, *, bias_correction: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Predicted and observed variation of each bin; NaN where it is empty."""
    filled = sums.weight > 0
    predicted, observed = np.full(filled.size, np.nan), np.full(filled.size, np.nan)
    predicted[filled] = measure(sums.predicted[filled])
    shares = sums.observed[filled]
    observed[filled] = measure(shares)
    if bias_correction:
        observed[filled] = bias_corrected(measure, observed[filled], shares, sums.size[filled])
    return predicted, observed


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
    given = Given(y_true, y_prob, sample_weight)
    sums = rank_sums(ranked(given.predictions, measure_of("entropy"), bins, strategy, None))
    return float(aggregate(uncertainty_gaps(sums), sums.weight, "l1"))


def uncertainty_gaps(sums: RankSums) -> np.ndarray:
    """Mean entropy minus error rate of each bin."""
    return np.asarray(sums.mean_variation - (1.0 - sums.observed[:, 0]))
