"""Errors along the score: read off its bins (expected, maximum, class-wise, group-wise calibration error), or without.

Without bins are SmoothECE, the maximum mean calibration error of a kernel, and Kuiper's.
"""

import math
from typing import Any

import numpy as np

from miscal.aggregate.in_memory import (
    MIN_ROWS_FOR_STRIPS,
    kuiper_statistic,
    mean_tally,
    mean_tally_of,
    quantile_tally,
)
from miscal.aggregate.tally import Tally
from miscal.cells.coding import field_pooling
from miscal.cells.partitions import OF_SCORE, BinPooling, LevelPooling, Numbered, Ranges
from miscal.cells.ranges import Bins, edges_for, ends_of, given_edges, numbered, warn_of_merged
from miscal.data.arrays import Array, Plain
from miscal.data.checks import number, one_of, whole
from miscal.data.responses import RESPONSES
from miscal.data.target import TargetData
from miscal.kernels.classes import class_means
from miscal.kernels.neighbours import laplacian_energy
from miscal.kernels.sums import on_grid
from miscal.kernels.threads import BLOCK, over_blocks
from miscal.metrics.inputs import MetricInput, Norm, aggregate

UNIT = (0.0, 1.0)
MEANS = RESPONSES[1:]
STEPS_A_BANDWIDTH = 16


def score_bins(
    data: TargetData,
    bins: Bins,
    strategy: str,
    range: tuple[float, float] = UNIT,  # noqa: A002
    on: Array | None = None,
) -> BinPooling:
    """Rows pooled by bins of the prediction, or of other values given as `on`.

    Means that are no probabilities have no range of their own: bins of equal width are those of their smallest to
    their largest, and edges are in their units.
    """
    by_score = on is None  # other values are cut as the paper cuts them
    values, whole = data.predicted if on is None else on, numbered(bins)
    low, high = ends_of(range)
    if by_score and data.label in MEANS:
        bins = bins if whole else data.units.inside(given_edges(bins))
        low, high = data.units.inside(np.array([low, high])).tolist()
    if not by_score or (data.label in MEANS and tuple(range) == UNIT):
        low, high = span_of(values)
    weights: Plain = {"weight": data.weight, "count": data.count, "apart": by_score}
    edges = edges_for(values, bins, strategy, low=low, high=high, **weights)
    equal_width = whole and strategy == "uniform" and high > low
    return BinPooling(values, Ranges(edges, name=OF_SCORE), equal_width)


def span_of(values: Array) -> tuple[float, float]:
    """Smallest and largest value."""
    return float(values.min()), float(values.max())


def tally_error(tally: Tally, norm: Norm) -> float:
    """A norm of the gaps of a tally's cells."""
    return float(aggregate(tally.gap, tally.weight, norm))


def expected_calibration_error(
    y_true: Any,
    y_prob: Any,
    *,
    bins: Bins = 15,
    strategy: str = "uniform",
    range: tuple[float, float] = UNIT,  # noqa: A002
    norm: Norm = "l1",
    target: str | int = "auto",
    bin_on: Any = None,
    correct: Any = None,
    sample_weight: Any = None,
    response: str = "binary",
) -> float:
    r"""Average gap between predicted probability and observed frequency over bins of the score (ECE).

    .. math:: \Big(\sum_b \tfrac{W_b}{W}\,\big|\bar p_b - \bar y_b\big|^p\Big)^{1/p}

    with :math:`W_b` the weight in bin b, :math:`\bar p_b` and :math:`\bar y_b` the weighted mean prediction and
    outcome. Bins are right-closed, the lowest edge is included and nothing is dropped; an empty bin counts nothing.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Outcomes: booleans, 0 and 1, or class numbers from 0 to K - 1.
    y_prob : array-like of shape (n,) or (n, K)
        Probability of class 1, or of each class; rows of several classes sum to 1.
    bins : int or array-like
        Number of bins, or their increasing edges; the first and the last bin catch what lies outside.
    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width over `range`, or of equal support; ties are never split.
        "quantile" gives what is also called the adaptive ECE.
    norm : {"l1", "l2", "max"} or float, default="l1"
        How gaps are averaged: "l2" is the root of the weighted mean square; a number is any p of at least 1.
        "l2" gives the root mean squared calibration error (RMSCE), "max" the maximum calibration error.
    target : {"auto", "positive", "top"} or int or str, default="auto"
        The positive class, the most probable class (confidence against correctness), or a class against the rest.
    bin_on : array-like of shape (n,), default=None
        Values that define the bins in place of the predicted value.
    correct : array-like of shape (n,), default=None
        Observed values in place of those of the outcomes.
    sample_weight : array-like of shape (n,), default=None
        Sampling weights; rows of weight 0 are ignored.
    response : {"binary", "real", "count"}, default="binary"
        "real" where outcomes and predictions are any numbers, "count" where they are counts and their means:
        bins of equal width then reach from the smallest to the largest prediction unless `range` is given

    Examples
    --------
    >>> from miscal.metrics import expected_calibration_error
    >>> round(expected_calibration_error([0, 1, 1, 1], [0.1, 0.8, 0.9, 0.6], bins=2), 6)
    0.2
    """
    inputs = MetricInput(y_true, y_prob, sample_weight, response)
    data = inputs.pair(target, correct)
    on = None if bin_on is None else inputs.numbers(bin_on, "'bin_on'")
    quick = quick_bins(data, bins, strategy)
    if quick:
        bin_sums = quantile_tally(data, data.predicted if on is None else on, quick)
        warn_of_merged(quick, bin_sums.counts.size)
    else:
        bin_sums = mean_tally(data, score_bins(data, bins, strategy, range, on))
    return tally_error(bin_sums, norm) * inputs.scale


def quick_bins(data: TargetData, bins: Bins, strategy: str) -> int:
    """How many bins of equal support have edges and tally found in one pass: those of many plain rows, else none."""
    one_pass = data.is_unweighted and data.binary and data.rows > MIN_ROWS_FOR_STRIPS and numbered(bins)
    return max(int(bins), 0) if one_pass and strategy == "quantile" else 0  # type: ignore[arg-type]


def maximum_calibration_error(
    y_true: Any, y_prob: Any, *, sample_weight: Any = None, **options: Any
) -> float:
    """Largest gap between predicted probability and observed frequency over bins of the score (MCE).

    As `expected_calibration_error` with ``norm="max"``; the other parameters are the same. A bin with one row can have
    a gap near 1.

    Examples
    --------
    >>> from miscal.metrics import maximum_calibration_error
    >>> round(maximum_calibration_error([0, 1, 1, 1], [0.1, 0.8, 0.9, 0.6], bins=2), 6)
    0.233333
    """
    return expected_calibration_error(y_true, y_prob, norm="max", sample_weight=sample_weight, **options)


def classwise_calibration_error(
    y_true: Any,
    y_prob: Any,
    *,
    bins: Bins = 15,
    strategy: str = "uniform",
    range: tuple[float, float] = UNIT,  # noqa: A002
    norm: Norm = "l1",
    sample_weight: Any = None,
    definition: str = "one-vs-rest",
) -> float:
    r"""Mean over the classes of each class's expected calibration error.

    Two definitions carry this name, and they differ:

    - "one-vs-rest" (Kull and others, 2019; Nixon and others, 2019): the predicted probability of class k against
      whether the class is k, over all rows.
    - "true-label" (paper 002, section 2.3): the confidence in the predicted label against whether it is right, over the
      rows whose true class is k. This is `groupwise_expected_calibration_error` with the true classes as groups. It is
      not 0 for a calibrated model in general: rows of a rare class are right less often than their confidence says,
      because they were selected by their outcome.

    Parameters
    ----------
    y_true, y_prob, bins, strategy, range, norm, sample_weight
        As in `expected_calibration_error`.
    definition : {"one-vs-rest", "true-label"}
        Which rows and which probability belong to a class. With "true-label" classes without a row do not count, and
        bins of equal support are those of the confidence of all rows.

    Examples
    --------
    >>> from miscal.metrics import classwise_calibration_error
    >>> classwise_calibration_error([0, 1, 2], [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    0.0
    >>> outcomes, probabilities = [0, 1, 1], [[0.8, 0.2], [0.4, 0.6], [0.7, 0.3]]
    >>> round(classwise_calibration_error(outcomes, probabilities, bins=1), 3)
    0.3
    >>> round(classwise_calibration_error(outcomes, probabilities, bins=1, definition="true-label"), 3)
    0.175
    """
    one_of("definition", definition, ("one-vs-rest", "true-label"))
    inputs = MetricInput(y_true, y_prob, sample_weight)
    if definition == "true-label":
        return _by_true_label(inputs, bins, strategy, range, norm)
    p, whole = inputs.predictions, numbered(bins)
    if p.probability.ndim == 2 and p.weight is None and (strategy == "uniform" or not whole):
        low, high = ends_of(range)
        edges = edges_for(np.empty(0), bins, strategy, low=low, high=high)
        equal_width, cells = whole and high > low, Numbered(p.n_classes * (edges.size - 1))

        def block_sums(start: int, stop: int) -> Array:  # sums of every class in the same bins
            result = np.zeros((p.n_classes, edges.size - 1, 4), np.int64)
            class_means(p.probability[start:stop], p.outcome[start:stop], edges, equal_width, result)
            return result

        # Memory is that of K times the bins for each block of rows, whatever their number.
        total = np.sum(over_blocks(p.rows, block_sums, max(BLOCK, 8 * cells.count)), axis=0)
        class_sums = mean_tally_of(total.reshape(-1, 4), cells)
        gaps, weight = (values.reshape(p.n_classes, -1) for values in (class_sums.gap, class_sums.weight))
        return float(np.mean(aggregate(gaps, weight, norm)))
    pairs = map(inputs.pair, np.arange(p.n_classes).tolist())
    errors = [tally_error(mean_tally(pair, score_bins(pair, bins, strategy, range)), norm) for pair in pairs]
    return float(np.mean(errors))


def _by_true_label(
    inputs: MetricInput, bins: Bins, strategy: str, ends: tuple[float, float], norm: Norm
) -> float:
    """Mean over the true classes that occur of the top label's calibration error among their rows."""
    pair = inputs.pair("top")
    scores = score_bins(pair, bins, strategy, ends)
    classes, width = inputs.predictions.n_classes, scores.cells.count
    codes = inputs.predictions.outcome.astype(np.int64) * width + scores.codes()
    tally = mean_tally(pair, LevelPooling(codes, Numbered(classes * width)))
    gaps, weight = (values.reshape(classes, width) for values in (tally.gap, tally.weight))
    observed = weight.sum(axis=1) > 0
    return float(np.mean(aggregate(gaps[observed], weight[observed], norm)))


def groupwise_maximum_calibration_error(
    y_true: Any,
    y_prob: Any,
    groups: Any,
    *,
    bins: Bins = 15,
    strategy: str = "uniform",
    min_count: int = 0,
    target: str | int = "top",
    sample_weight: Any = None,
) -> float:
    """Largest maximum calibration error within any group (group-wise MCE).

    Bins with fewer than `min_count` rows of a group do not count: a bin with one row has a gap near 1.

    Examples
    --------
    >>> from miscal.metrics import groupwise_maximum_calibration_error
    >>> round(
    ...     groupwise_maximum_calibration_error(
    ...         [1, 1, 0, 1], [0.9, 0.8, 0.7, 0.6], ["a", "a", "b", "b"], bins=1
    ...     ),
    ...     6,
    ... )
    0.15
    """
    gaps, _ = _group_gaps(
        MetricInput(y_true, y_prob, sample_weight), groups, bins, strategy, min_count, target
    )
    return float(np.fmax.reduce(np.abs(gaps), axis=None, initial=np.nan))


def groupwise_expected_calibration_error(
    y_true: Any,
    y_prob: Any,
    groups: Any,
    *,
    bins: Bins = 15,
    strategy: str = "uniform",
    min_count: int = 0,
    target: str | int = "top",
    sample_weight: Any = None,
) -> float:
    """Mean over the groups of each group's expected calibration error.

    Examples
    --------
    >>> from miscal.metrics import groupwise_expected_calibration_error
    >>> round(
    ...     groupwise_expected_calibration_error(
    ...         [1, 1, 0, 1], [0.9, 0.8, 0.7, 0.6], ["a", "a", "b", "b"], bins=1
    ...     ),
    ...     6,
    ... )
    0.15
    """
    gaps, weight = _group_gaps(
        MetricInput(y_true, y_prob, sample_weight), groups, bins, strategy, min_count, target
    )
    with np.errstate(invalid="ignore"):  # of groups without a row
        errors = aggregate(gaps, np.where(np.isfinite(gaps), weight, 0.0))
    return float(np.nanmean(errors)) if np.isfinite(errors).any() else math.nan


def _group_gaps(
    inputs: MetricInput, groups: Any, bins: Bins, strategy: str, min_count: int, target: str | int
) -> tuple[Array, Array]:
    """Gap (NaN where too few rows) and weight of each group (row) and score bin (column)."""
    data = inputs.pair(target)
    levels, scores = field_pooling(groups, where="'groups'"), score_bins(data, bins, strategy)
    codes = inputs.kept_rows(levels.level_codes, "'groups'")
    width = scores.cells.count
    cells = Numbered(levels.cells.count * width)
    tally = mean_tally(data, LevelPooling(codes * width + scores.codes(), cells))
    min_rows = max(whole("min_count", min_count, 0), 1)
    gaps = np.where(tally.counts >= min_rows, tally.gap, np.nan)
    return gaps.reshape(-1, width), tally.weight.reshape(-1, width)


def smooth_calibration_error(
    y_true: Any, y_prob: Any, *, target: str | int = "auto", sample_weight: Any = None
) -> float:
    r"""SmoothECE: the smoothed residual's total size, at the bandwidth that equals it.

    .. math:: s(\sigma) = \int_0^1 \Big|\tfrac1W \sum_i w_i K_\sigma(t, p_i)\,(p_i - y_i)\Big|\,dt,
              \qquad \text{the value } \sigma^* = s(\sigma^*)

    with :math:`K_\sigma` the Gaussian kernel reflected at 0 and 1 (Błasiok & Nakkiran, 2023). No bins are chosen.
    Scores are placed on a fine grid; its step is at most a sixteenth of the bandwidth found.

    Examples
    --------
    >>> from miscal.metrics import smooth_calibration_error
    >>> smooth_calibration_error([0, 1, 1], [0.0, 1.0, 1.0])
    0.0
    """
    return smooth_error(MetricInput(y_true, y_prob, sample_weight).pair(target))


def smooth_error(data: TargetData) -> float:
    """SmoothECE of a pair."""
    from miscal.stats.smooth_ece import GRID_STEPS, MAX_GRID_STEPS, smooth_error_fixed_point, spectrum_of

    steps = GRID_STEPS
    while True:
        mass = residual_mass(data, steps)
        value = float(np.abs(mass).sum())  # no bandwidth makes it more
        # A kernel narrower than the finest grid's step smooths nothing.
        value = value if value * MAX_GRID_STEPS < 1.0 else smooth_error_fixed_point(spectrum_of(mass))
        if value * steps >= STEPS_A_BANDWIDTH or steps >= MAX_GRID_STEPS or value == 0.0:
            return value
        steps = min(MAX_GRID_STEPS, 1 << math.ceil(math.log2(2 * STEPS_A_BANDWIDTH / max(value, 1e-9))))


def residual_mass(data: TargetData, steps: int) -> Array:
    """The residual mass on a grid, per unit of weight."""
    weight = data.kernel_weight

    def block_sums(start: int, stop: int) -> Array:
        result = np.zeros((steps + 1, 2))
        on_grid(data.predicted[start:stop], data.observed[start:stop], weight[start:stop], result)
        return result

    mass = np.sum(over_blocks(data.rows, block_sums, max(1 << 21, 16 * steps)), axis=0)
    return np.asarray(mass[:, 0] / mass[:, 1].sum())


def mean_kernel_calibration_error(
    y_true: Any,
    y_prob: Any,
    *,
    bandwidth: float = 0.2,
    target: str | int = "auto",
    sample_weight: Any = None,
) -> float:
    r"""Maximum mean calibration error (MMCE): the size of the residual in a kernel's function space.

    .. math:: \Big(\tfrac{1}{W^2}\sum_{i,j} w_i w_j (p_i - y_i)(p_j - y_j)\,e^{-|p_i - p_j|/h}\Big)^{1/2}

    (Kumar, Sarawagi & Jain, 2018). The kernel factorises along a line, so the double sum costs one sort and one sweep.

    Parameters
    ----------
    bandwidth : float
        The scale h on which scores are taken together.

    Examples
    --------
    >>> from miscal.metrics import mean_kernel_calibration_error
    >>> round(mean_kernel_calibration_error([0, 1], [0.2, 0.6]), 6)
    0.211155
    """
    number("bandwidth", bandwidth, 0.0, above=True)
    pair = MetricInput(y_true, y_prob, sample_weight).pair(target)
    weight, _ = pair.all_weights
    residual = (pair.predicted - pair.observed) * weight
    energy = laplacian_energy(pair.predicted, residual, float(bandwidth))
    return math.sqrt(max(energy, 0.0)) / float(weight.sum())


def kuiper_calibration_error(
    y_true: Any,
    y_prob: Any,
    *,
    target: str | int = "auto",
    sample_weight: Any = None,
    order_by: Any = None,
    response: str = "binary",
) -> float:
    r"""Range of the cumulative differences between outcome and prediction, in the order of the score (ECCE-R).

    .. math:: D = \max_k C_k - \min_k C_k, \qquad C_k = \frac{1}{W}\sum_{i \le k} w_i (y_i - p_i),\; C_0 = 0

    (paper 004, eq. 2 and 3). It is the largest total of residuals over any interval of scores. Partial sums are taken
    only between distinct scores, so the order of tied rows changes nothing.

    Parameters
    ----------
    y_true, y_prob, target, sample_weight
        As in `expected_calibration_error`.
    order_by : array-like of shape (n,), default=None
        Order the rows by this in place of the score: the walk along a variable.
    response : {"binary", "real", "count"}
        "real", "count": outcomes and predictions are any numbers, or counts and their means.

    Examples
    --------
    >>> from miscal.metrics import kuiper_calibration_error
    >>> round(kuiper_calibration_error([0, 0, 1, 1], [0.25, 0.25, 0.5, 0.75]), 6)
    0.1875
    """
    inputs = MetricInput(y_true, y_prob, sample_weight, response)
    key = None if order_by is None else inputs.numbers(order_by, "'order_by'")
    return kuiper_statistic(inputs.pair(target), key) * inputs.scale
