"""From rows to sums per bin of variation: mean ranked probabilities, and how often each rank occurred.

A measure of variation says how spread a distribution over K classes is, given from its largest share to its smallest.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from miscal.aggregate.tally import HIGH_UNIT, LOW_UNIT, carry_limbs
from miscal.cells.ranges import Bins, edges_for, ends_of
from miscal.data.arrays import Array
from miscal.data.checks import refuse_rows, truth
from miscal.data.errors import nearest, refusal
from miscal.data.libraries import sparse
from miscal.data.predictions import Predictions
from miscal.data.target import TargetData, outcome_data
from miscal.kernels import variation
from miscal.kernels.threads import over_blocks
from miscal.metrics.score_errors import span_of
from miscal.stats.rank_draws import residual_weight, sign_groups

NO_VALUES = np.empty(0)
NO_LIMBS = np.empty((0, 0, 2), np.int64)
NO_SUMS = np.empty((0, 0))
CALL_VALUES = 1 << 22  # probabilities handed to a callable at a time: 32 MiB


Variation = str | Callable[[np.ndarray], Any]


def entropy(shares: Array) -> Array:
    """-Σ p log_K p over the last axis, in [0, 1]; 0 log 0 = 0.

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [0.0, 1.0]
    """
    positive = np.where(shares > 0.0, shares, 1.0)
    total: Array = -(shares * np.log(positive)).sum(axis=-1) / np.log(shares.shape[-1])
    return np.clip(total, 0.0, 1.0)


def confidence(shares: Array) -> Array:
    """The first rank's share; for a prediction that is its largest probability.

    >>> confidence(np.array([[0.3, 0.7]])).tolist()
    [0.3]
    """
    return shares[..., 0]


def variation_ratio(shares: Array) -> Array:
    """Wilcox's variation ratio K/(K-1)·(1 - max p), in [0, 1].

    >>> variation_ratio(np.array([[0.6, 0.25, 0.1, 0.05]])).round(7).tolist()
    [0.5333333]
    """
    classes = shares.shape[-1]
    scaled: Array = classes / (classes - 1.0) * (1.0 - shares.max(axis=-1))
    return np.clip(scaled, None, 1.0)


def qualitative_variation(shares: Array) -> Array:
    """Index of qualitative variation K/(K-1)·(1 - Σ p²), in [0, 1].

    >>> qualitative_variation(np.array([[0.6, 0.25, 0.1, 0.05]])).round(7).tolist()
    [0.7533333]
    """
    classes = shares.shape[-1]
    scaled: Array = classes / (classes - 1.0) * (1.0 - (shares * shares).sum(axis=-1))
    return np.clip(scaled, 0.0, 1.0)


# In the order of the kernels' codes 0, 1, 2, 3.
NAMED: dict[str, Callable[[Array], Array]] = {
    "entropy": entropy,
    "confidence": confidence,
    "variation_ratio": variation_ratio,
    "qualitative_variation": qualitative_variation,
}
GIVEN = -1


@dataclass(frozen=True)
class VariationMeasure:
    """A measure of variation: its name, the kernels' code for it (-1: a callable), and the function itself.

    corrected : whether frequencies are freed of their bias
    """

    name: str
    kind: int
    function: Callable[[Array], Any]
    corrected: bool

    def __call__(self, shares: Array) -> Array:
        """Variation over the last axis of an array of any shape."""
        if self.kind != GIVEN:
            return np.asarray(self.function(shares))
        flat = np.ascontiguousarray(shares, float).reshape(-1, shares.shape[-1])
        values, where = np.asarray(self.function(flat)), "the callable 'variation'"
        if values.shape != (flat.shape[0],) or values.dtype.kind not in "fiu":
            got = f"shape {values.shape} and dtype {values.dtype} for {flat.shape[0]} rows"
            raise refusal("must return one number a row", where, got=got)
        requirement, hint = (
            "must return finite numbers",
            "zeros occur among the probabilities: take 0 log 0 as 0",
        )
        refuse_rows(~np.isfinite(values), requirement, where, values, hint)
        return values.astype(float).reshape(shares.shape[:-1])

    def of_frequencies(self, shares: Array, size: Array) -> Array:
        """The variation of frequencies; if corrected freed of the bias that comes from estimating them on `size` rows.

        Entropy: Miller and Madow's (m - 1)/(2 n ln K) is added, m the ranks that occurred. Qualitative variation: times
        n/(n - 1), which is exact. Confidence is linear and has no bias. The others have no known correction.
        """
        plain, rows = self(shares), np.maximum(size, 1.0)
        if self.corrected and self.name == "entropy":
            occurred = np.count_nonzero(shares > 0.0, axis=-1)
            return np.asarray(plain + (occurred - 1.0) / (2.0 * rows * np.log(shares.shape[-1])))
        if self.corrected and self.name == "qualitative_variation":
            return plain * np.where(rows > 1.0, rows / np.maximum(rows - 1.0, 1e-9), 1.0)
        return plain

    def slope(self, shares: Array, size: Array) -> Array:
        """First-order effect of each share on the variation, (bins, K); up to a constant over the ranks of a bin.

        The entropy's slope is infinite at 0: a share is taken as at least half a row of `size`.
        """
        classes = shares.shape[-1]
        unit, scale = np.eye(classes), -classes / (classes - 1.0)
        if self.kind == GIVEN:
            step = 1e-6 * unit
            rise = [self(share + step) - self(np.maximum(share - step, 0.0)) for share in shares]
            slopes = rise / (1e-6 + np.minimum(shares, 1e-6))
        elif self.name == "entropy":
            smallest = 0.5 / size[:, np.newaxis]
            slopes = -np.log(np.maximum(shares, smallest)) / np.log(classes)
        elif self.name == "confidence":
            slopes = np.broadcast_to(unit[0], shares.shape)
        elif self.name == "variation_ratio":
            slopes = scale * unit[shares.argmax(axis=1)]
        else:
            slopes = 2.0 * scale * shares
        return np.asarray(slopes)


def measure_of(variation: Any, bias_correction: Any = False) -> VariationMeasure:
    """The measure that a name or a callable stands for; a correction that does not exist is refused."""
    if isinstance(variation, str) and variation in NAMED:
        name, kind, function = variation, list(NAMED).index(variation), NAMED[variation]
    elif callable(variation):
        name, kind, function = getattr(variation, "__name__", "variation"), GIVEN, variation
    else:
        requirement = "must be the name of a measure of variation or a callable"
        hint = nearest(str(variation), NAMED)
        raise refusal(requirement, "'variation'", got=f"it is {variation!r}", hint=hint)
    truth("bias_correction", bias_correction)
    if bias_correction and (kind == GIVEN or name == "variation_ratio"):
        requirement = "is known for the entropy, the confidence and the qualitative variation only"
        hint = "use bias_correction=False, or by_variation, whose noise floor holds the bias"
        raise refusal(requirement, "'bias_correction'", got=f"'variation' is {name}", hint=hint)
    return VariationMeasure(name, kind, function, bool(bias_correction))


@dataclass(frozen=True, eq=False)
class RankSums:
    """What the rows of each bin of variation have in common; means are NaN in an empty bin.

    Attributes
    ----------
    edges : (bins + 1,)
    rows : (bins,) int64
    weight : (bins,)
    size : (bins,), rows of equal weight that would be as noisy (Kish): (Σw)²/Σw², the number of rows without weights
    predicted : (bins, K), mean ranked probabilities
    observed : (bins, K), frequencies of the ranks of the classes that occurred
    mean_variation : (bins,), of the rows' own variations
    first_rank_gap : (bins,), mean first probability minus frequency of the first rank
    """

    edges: Array
    rows: Array
    weight: Array
    size: Array
    predicted: Array
    observed: Array
    mean_variation: Array
    first_rank_gap: Array


@dataclass(frozen=True, eq=False)
class Ranked:
    """Predictions whose rows are ranked and pooled by their variation."""

    predictions: Predictions
    measure: VariationMeasure
    edges: Array
    values: Array  # variations of all rows where they had to be computed first, else empty


def ranked(
    predictions: Predictions,
    measure: VariationMeasure,
    bins: Bins,
    strategy: str,
    range: tuple[float, float] | None,  # noqa: A002
) -> Ranked:
    """Choose the bins; variations of all rows are computed first only where the bins depend on them."""
    is_callable = measure.kind == GIVEN
    bare = Ranked(predictions, measure, np.array([0.0, 1.0]), NO_VALUES)
    values = row_variations(bare) if is_callable or strategy == "quantile" else NO_VALUES
    low = 1.0 / predictions.n_classes if measure.function is confidence else 0.0
    low, high = span_of(values) if is_callable else (low, 1.0)
    if range is not None:
        low, high = ends_of(range)
    weight, count = predictions.weight, predictions.count
    edges = edges_for(values, bins, strategy, low=low, high=high, weight=weight, count=count)
    return replace(bare, edges=edges, values=values)


def row_variations(rows: Ranked) -> Array:
    """The variation of every row."""
    n_rows = rows.predictions.rows
    if rows.measure.kind != GIVEN:
        return np.concatenate(over_blocks(n_rows, lambda i, j: ranked_rows(rows, i, j, kept=False).values))
    step = max(1, CALL_VALUES // rows.predictions.n_classes)
    # One block at a time: a callable need not be safe in threads.
    blocks = (ranked_rows(rows, start, start + step) for start in range(0, n_rows, step))
    return np.concatenate([rows.measure(block.shares) for block in blocks])


def group_residuals(rows: Ranked) -> Array:
    """Residuals of the ranks summed over groups of rows that share a random sign, (groups, bins, K)."""
    p, bins, weights = rows.predictions, rows.edges.size - 1, outcome_data(rows.predictions)
    group = sign_groups(p.rows, weights.cluster, bins * p.n_classes)
    total = np.zeros(((int(group.max()) + 1) * bins, p.n_classes))
    weight, step = residual_weight(weights), max(1024, (1 << 21) // p.n_classes)
    for start in range(0, p.rows, step):
        block = ranked_rows(rows, start, start + step)
        residuals = -block.shares
        number = np.arange(len(residuals))
        residuals[number, block.rank] += 1.0
        times = weight[start : start + step] if weight.size else np.ones(number.size)
        place = group[start : start + step] * bins + block.place
        total += sparse.csr_array((times, (place, number)), (len(total), number.size)) @ residuals
    return total.reshape(-1, bins, p.n_classes)


class RankedRows(NamedTuple):
    """Some rows: their variation, probabilities from the largest to the smallest (n, K), rank of what occurred, bin."""

    values: Array
    shares: Array
    rank: Array
    place: Array


def ranked_rows(rows: Ranked, start: int, stop: int, *sums: Array, kept: bool = True) -> RankedRows:
    """Rows from start to stop, without shares and ranks where these are not kept.

    sums : weights, and the counts, limbs and sums that the kernel adds to
    """
    p, edges, bins = rows.predictions, rows.edges, rows.edges.size - 1
    if rows.measure.kind not in (GIVEN, variation.CONFIDENCE):  # on the grid of computed variations
        edges = np.floor(edges * variation.NEAR + 0.5) / variation.NEAR
    outcome, classes = p.outcome[start:stop], p.n_classes
    size = outcome.size
    values = rows.values[start:stop] if rows.values.size else np.zeros(size)
    shares = np.empty((size * kept, classes))
    ranks = RankedRows(values, shares, np.empty(size * kept, np.int64), np.empty(size, np.int32))
    variation.rank_rows(
        p.probability.reshape(p.rows, -1)[start:stop],
        outcome,
        rows.measure.kind,
        variation.sorting_network(classes),
        edges,
        *ranks,
        *(sums or (NO_VALUES, np.zeros((bins, classes)), NO_LIMBS, NO_SUMS)),
    )
    return ranks


def rank_sums(rows: Ranked) -> RankSums:
    """Sums per bin, block by block on a few threads.

    Without weights, or with whole numbers, they are integers: the order of the rows changes no bit.
    """
    weights = outcome_data(rows.predictions)
    parts = over_blocks(weights.rows, lambda i, j: _block_sums(rows, weights, i, j))
    counts, sums, count, second = (sum(rest, first) for first, *rest in zip(*parts, strict=True))
    weight = counts.sum(axis=1)[:, np.newaxis]
    sums = np.append(sums, sums[:, :1], axis=1)
    if weights.has_whole_weights:  # the difference is taken before it is rounded
        sums[:, -1, 0] -= counts[:, 0].astype(np.int64) << 20
        sums = carry_limbs(sums) @ [HIGH_UNIT, LOW_UNIT]
    else:
        sums[:, -1] -= counts[:, 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        *shares, variations, gap = (sums / weight).T
        predicted, observed = np.stack(shares, axis=1), counts / weight
    size = weight[:, 0] ** 2 / np.where(second > 0, second, 1.0)
    return RankSums(rows.edges, count, weight[:, 0], size, predicted, observed, variations, gap)


def _block_sums(rows: Ranked, weights: TargetData, start: int, stop: int) -> tuple[Array, ...]:
    """Weight of each rank, sums, rows, and sum of squared weights."""
    bins, columns = rows.edges.size - 1, rows.predictions.n_classes + 1
    counts, whole = np.zeros((bins, columns - 1)), weights.has_whole_weights
    limbs = np.zeros((bins, columns, 2), np.int64) if whole else NO_LIMBS
    sums = NO_SUMS if whole else np.zeros((bins, columns))
    weight = weights.kernel_weight[start:stop]
    place = ranked_rows(rows, start, stop, weight, counts, limbs, sums, kept=False).place
    size = second = counts.sum(axis=1)
    if weights.variance_weight is not None:
        size = np.bincount(place, None if weights.count is None else weights.count[start:stop], bins)
        second = np.bincount(place, weights.variance_weight[start:stop], bins)
    return counts, carry_limbs(limbs) if whole else sums, size.astype(np.int64), second
