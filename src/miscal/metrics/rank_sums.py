"""From rows to sums per bin of variation: mean ranked probabilities, and how often each rank occurred.

A measure of variation says how spread a distribution over K classes is, given from its largest share to its smallest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.carriers.tally import HIGH_UNIT, LOW_UNIT, carried
from miscal.data.checks import truth
from miscal.data.errors import nearest, refusal, refusing
from miscal.data.libraries import sparse
from miscal.data.predictions import Predictions
from miscal.engines.sums import NO_COUNT
from miscal.inference.clusters import flip_groups, flipped_weight
from miscal.kernels import variation
from miscal.kernels.threads import BLOCK, over_blocks
from miscal.pairs import Pair, outcome_pair
from miscal.pooling.bins import Bins, bin_index, edges_for

NO_VALUES = np.empty(0)
CALL_VALUES = 1 << 22  # probabilities handed to a callable at a time: 32 MiB


Variation = str | Callable[[np.ndarray], Any]


def entropy(shares: np.ndarray) -> np.ndarray:
    """-Σ p log_K p over the last axis, in [0, 1]; 0 log 0 = 0.

    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [0.0, 1.0]
    """
    positive = np.where(shares > 0.0, shares, 1.0)
    total = -(shares * np.log(positive)).sum(axis=-1) / np.log(shares.shape[-1])
    return np.asarray(np.clip(total, 0.0, 1.0))


def confidence(shares: np.ndarray) -> np.ndarray:
    """The first rank's share; for a prediction that is its largest probability.

    >>> confidence(np.array([[0.3, 0.7]])).tolist()
    [0.3]
    """
    return np.asarray(shares[..., 0])


def variation_ratio(shares: np.ndarray) -> np.ndarray:
    """Wilcox's variation ratio K/(K-1)·(1 - max p), in [0, 1].

    >>> variation_ratio(np.array([[0.6, 0.25, 0.1, 0.05]])).round(7).tolist()
    [0.5333333]
    """
    classes = shares.shape[-1]
    return np.asarray(np.minimum(classes / (classes - 1.0) * (1.0 - shares.max(axis=-1)), 1.0))


def qualitative_variation(shares: np.ndarray) -> np.ndarray:
    """Index of qualitative variation K/(K-1)·(1 - Σ p²), in [0, 1].

    >>> qualitative_variation(np.array([[0.6, 0.25, 0.1, 0.05]])).round(7).tolist()
    [0.7533333]
    """
    classes = shares.shape[-1]
    scaled = classes / (classes - 1.0) * (1.0 - (shares * shares).sum(axis=-1))
    return np.asarray(np.clip(scaled, 0.0, 1.0))


# In the order of the kernels' codes 0, 1, 2, 3.
NAMED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "entropy": entropy,
    "confidence": confidence,
    "variation_ratio": variation_ratio,
    "qualitative_variation": qualitative_variation,
}
GIVEN = -1


@dataclass(frozen=True)
class Measure:
    """A measure of variation: its name, the kernels' code for it (-1: a callable), and the function itself."""

    name: str
    kind: int
    function: Callable[[np.ndarray], Any]

    def __call__(self, shares: np.ndarray) -> np.ndarray:
        """Variation over the last axis of an array of any shape."""
        if self.kind != GIVEN:
            return np.asarray(self.function(shares))
        flat = np.ascontiguousarray(shares, dtype=np.float64).reshape(-1, shares.shape[-1])
        values = np.asarray(self.function(flat))
        if values.shape != (flat.shape[0],) or values.dtype.kind not in "fiu":
            got = f"shape {values.shape} and dtype {values.dtype} for {flat.shape[0]} rows"
            raise refusal("must return one number a row", where="the callable 'variation'", got=got)
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values))[0])
            hint = "zeros occur among the probabilities: take 0 log 0 as 0"
            got = f"it gave {values[row]} for {flat[row].tolist()}"
            raise refusal("must return finite numbers", where="the callable 'variation'", got=got, hint=hint)
        return values.astype(np.float64).reshape(shares.shape[:-1])

    def slope(self, shares: np.ndarray, size: np.ndarray) -> np.ndarray:
        """First-order effect of each share on the variation, (bins, K); up to a constant over the ranks of a bin.

        The entropy's slope is infinite at 0: a share is taken as at least half a row of `size`.
        """
        classes = shares.shape[-1]
        if self.kind == GIVEN:
            step = 1e-6 * np.eye(classes)
            rise = [self(each + step) - self(np.maximum(each - step, 0.0)) for each in shares]
            reach = 1e-6 + np.minimum(shares, 1e-6)
            return np.asarray(np.stack(rise) / reach)
        if self.name == "entropy":
            return np.asarray(-np.log(np.maximum(shares, 0.5 / size[:, np.newaxis])) / np.log(classes))
        if self.name == "confidence":
            return np.asarray(np.eye(classes)[np.zeros(len(shares), np.int64)])
        scale = -classes / (classes - 1.0)
        if self.name == "variation_ratio":
            return np.asarray(scale * np.eye(classes)[shares.argmax(axis=1)])
        return np.asarray(2.0 * scale * shares)


def measure_of(variation: Any) -> Measure:
    """The measure that a name or a callable stands for."""
    if isinstance(variation, str) and variation in NAMED:
        return Measure(variation, list(NAMED).index(variation), NAMED[variation])
    if callable(variation):
        return Measure(getattr(variation, "__name__", "variation"), GIVEN, variation)
    hint = nearest(variation, NAMED) if isinstance(variation, str) else f"known names: {', '.join(NAMED)}"
    what = "must be the name of a measure of variation or a callable"
    raise refusal(what, where="'variation'", got=f"it is {variation!r}", hint=hint)


def bias_corrected(measure: Measure, plain: np.ndarray, shares: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The variation of frequencies freed of the bias that comes from estimating them on `size` rows.

    Entropy: Miller and Madow's (m - 1)/(2 n ln K) is added, m the ranks that occurred. Qualitative variation: times
    n/(n - 1), which is exact. Confidence is linear and has no bias. The others have no known correction.
    """
    rows = np.maximum(size, 1.0)
    if measure.name == "entropy" and measure.kind != GIVEN:
        occurred = (shares > 0.0).sum(axis=-1)
        return np.asarray(plain + (occurred - 1.0) / (2.0 * rows * np.log(shares.shape[-1])))
    if measure.name == "qualitative_variation" and measure.kind != GIVEN:
        return np.asarray(plain * np.where(rows > 1.0, rows / np.maximum(rows - 1.0, 1e-9), 1.0))
    return plain


def check_correction(measure: Measure, bias_correction: Any) -> bool:
    """Refuse a correction that does not exist."""
    truth("bias_correction", bias_correction)
    if bias_correction and (measure.kind == GIVEN or measure.name == "variation_ratio"):
        what = "is known for the entropy, the confidence and the qualitative variation only"
        hint = "use bias_correction=False, or by_variation, whose noise floor holds the bias"
        raise refusal(what, where="'bias_correction'", got=f"'variation' is {measure.name}", hint=hint)
    return bool(bias_correction)


@dataclass(frozen=True, eq=False)
class RankSums:
    """Sums per bin of variation; adding those of two parts of the rows is concatenating them.

    Attributes
    ----------
    edges : (bins + 1,)
    counts : (bins, K), weight of the rows whose class had each rank
    sums : (bins, K + 1), of the ranked probabilities and last of the rows' variations; (bins, K + 1, 2) int64 if exact
    rows : (bins,) int64
    second : (bins,) sum of squared weights
    """

    edges: np.ndarray
    counts: np.ndarray
    sums: np.ndarray
    rows: np.ndarray
    second: np.ndarray

    @property
    def exact(self) -> bool:
        """Whether the sums are integers, so that the order of the rows changes no bit."""
        return self.sums.ndim == 3

    @property
    def weight(self) -> np.ndarray:
        return np.asarray(self.counts.sum(axis=1), dtype=np.float64)

    @property
    def size(self) -> np.ndarray:
        """Rows of equal weight that would be as noisy (Kish): (Σw)²/Σw², the number of rows without weights."""
        weight = self.weight
        return np.asarray(weight**2 / np.where(self.second > 0, self.second, 1.0))

    @property
    def predicted(self) -> np.ndarray:
        """Mean ranked probabilities, (bins, K); NaN in an empty bin."""
        return self._mean(_real(self.sums))[:, :-1]

    @property
    def observed(self) -> np.ndarray:
        """Frequencies of the ranks of the classes that occurred, (bins, K)."""
        return self._mean(self.counts)

    @property
    def mean_variation(self) -> np.ndarray:
        """Mean of the rows' own variations, (bins,)."""
        return self._mean(_real(self.sums))[:, -1]

    @property
    def first_rank_gap(self) -> np.ndarray:
        """Mean first probability minus frequency of the first rank; the difference is taken before it is rounded."""
        if not self.exact:
            return np.asarray(self.predicted[:, 0] - self.observed[:, 0])
        limbs = self.sums[:, :1].copy()
        limbs[:, 0, 0] -= self.counts[:, 0].astype(np.int64) << 20
        return self._mean(_real(carried(limbs)))[:, 0]

    def _mean(self, sums: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(sums / self.weight[:, np.newaxis])

    def __add__(self, other: RankSums) -> RankSums:
        sums = carried(self.sums + other.sums) if self.exact else self.sums + other.sums
        rows, second = self.rows + other.rows, self.second + other.second
        return RankSums(self.edges, self.counts + other.counts, sums, rows, second)


def _real(sums: np.ndarray) -> np.ndarray:
    return np.asarray(sums[..., 0] * HIGH_UNIT + sums[..., 1] * LOW_UNIT) if sums.ndim == 3 else sums


@dataclass(frozen=True, eq=False)
class Ranked:
    """Predictions whose rows are ranked and pooled by their variation."""

    predictions: Predictions
    measure: Measure
    edges: np.ndarray
    equal_width: bool
    values: np.ndarray  # variations of all rows where they had to be computed first, else empty

    @property
    def matrix(self) -> np.ndarray:
        """(n, K), or (n, 1) with the probability of class 1."""
        probability = self.predictions.probability
        return probability if probability.ndim == 2 else probability[:, np.newaxis]

    def compared(self, values: np.ndarray) -> np.ndarray:
        """Variations or edges as the kernels compare them: on the grid of computed variations, if they are computed."""
        if self.measure.kind in (GIVEN, variation.CONFIDENCE):
            return values
        return np.asarray(np.floor(values * variation.NEAR + 0.5) / variation.NEAR)


def ranked(
    predictions: Predictions,
    measure: Measure,
    bins: Bins,
    strategy: str,
    range: tuple[float, float] | None,  # noqa: A002
) -> Ranked:
    """Choose the bins; variations of all rows are computed first only where the bins depend on them."""
    whole_number = isinstance(bins, (int, np.integer)) and not isinstance(bins, bool)
    bare = Ranked(predictions, measure, np.array([0.0, 1.0]), False, NO_VALUES)
    values = NO_VALUES
    if measure.kind == GIVEN or (whole_number and strategy == "quantile"):
        values = row_variations(bare)
    low, high = _limits(range, measure, predictions.n_classes, values)
    weight, count = predictions.weight, predictions.count
    edges = edges_for(values, bins, strategy, low=low, high=high, weight=weight, count=count)
    equal_width = whole_number and strategy == "uniform" and high > low
    return replace(bare, edges=edges, equal_width=equal_width, values=values if measure.kind == GIVEN else NO_VALUES)


def _limits(range: Any, measure: Measure, classes: int, values: np.ndarray) -> tuple[float, float]:  # noqa: A002
    """Where values can lie: as asked, [1/K, 1] for the confidence, [0, 1] for other names, all values of a callable."""
    if range is None and measure.kind == GIVEN:
        return float(values.min()), float(values.max())
    if range is None:
        return (1.0 / classes, 1.0) if measure.name == "confidence" else (0.0, 1.0)
    with refusing("must be (low, high) with low < high", where="'range'", got=f"it is {range!r}"):
        low, high = (float(end) for end in range)
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ValueError(range)
    return low, high


def row_variations(rows: Ranked) -> np.ndarray:
    """The variation of every row."""
    if rows.measure.kind != GIVEN:
        return np.concatenate(over_blocks(rows.predictions.rows, lambda i, j: _ranked_rows(rows, i, j)[2]))
    step = max(1, CALL_VALUES // rows.predictions.n_classes)
    # One block at a time: a callable need not be safe in threads.
    starts = [step * block for block in range(-(-rows.predictions.rows // step))]
    return np.concatenate([rows.measure(_ranked_rows(rows, start, start + step)[0]) for start in starts])


def _ranked_rows(rows: Ranked, start: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ranked probabilities of a block of rows, the ranks of what occurred, and the variations of a named measure."""
    p = rows.predictions
    outcome = p.outcome[start:stop]
    shares, rank = np.empty((outcome.size, p.n_classes)), np.empty(outcome.size, np.int64)
    values, network = np.empty(outcome.size), variation.sorting_network(p.n_classes)
    variation.rank_rows(rows.matrix[start:stop], outcome, rows.measure.kind, network, shares, rank, values)
    return shares, rank, values


def group_residuals(rows: Ranked) -> np.ndarray:
    """Residuals of the ranks summed over groups of rows that share a random sign, (groups, bins, K)."""
    p, bins, weights = rows.predictions, rows.edges.size - 1, outcome_pair(rows.predictions)
    group = flip_groups(p.rows, weights.cluster, bins * p.n_classes)
    total = np.zeros(((int(group.max()) + 1) * bins, p.n_classes))
    weight, step = flipped_weight(weights), max(1024, (1 << 21) // p.n_classes)
    for start in range(0, p.rows, step):
        shares, rank, place = ranked_places(rows, start, start + step)
        place = group[start : start + step] * bins + place
        each = np.arange(rank.size)
        apart = -shares
        apart[each, rank] += 1.0
        times = weight[start : start + step] if weight.size else np.ones(rank.size)
        total += sparse.csr_array((times, (place, each)), (total.shape[0], rank.size)) @ apart
    return total.reshape(-1, bins, p.n_classes)


def ranked_places(rows: Ranked, start: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ranked probabilities of a block of rows, the ranks of what occurred, and the bin of each row."""
    shares, rank, values = _ranked_rows(rows, start, stop)
    values = rows.values[start:stop] if rows.measure.kind == GIVEN else values
    return shares, rank, bin_index(rows.compared(values), rows.compared(rows.edges)).astype(np.int64)


def rank_sums(rows: Ranked) -> RankSums:
    """Sums per bin, block by block on a few threads."""
    weights = outcome_pair(rows.predictions)
    # With many bins and classes each block's own sums cost more than its rows: fewer, larger blocks then.
    block = max(BLOCK, 8 * (rows.edges.size - 1) * rows.predictions.n_classes)
    parts = over_blocks(weights.rows, lambda i, j: _block_sums(rows, weights, i, j), block)
    return sum(parts[1:], parts[0])


def _block_sums(rows: Ranked, weights: Pair, start: int, stop: int) -> RankSums:
    p, bins = rows.predictions, rows.edges.size - 1
    counts, size = np.zeros((bins, p.n_classes)), np.zeros((bins, 2))
    exact = np.zeros((bins if weights.whole else 0, p.n_classes + 1, 2), np.int64)
    real = np.zeros((0 if weights.whole else bins, p.n_classes + 1))
    first, second, count = (
        none if values is None else values[start:stop]
        for values, none in ((weights.first, NO_VALUES), (weights.second, NO_VALUES), (weights.count, NO_COUNT))
    )
    variation.rank_sums(
        rows.matrix[start:stop], p.outcome[start:stop], rows.values[start:stop], rows.measure.kind,
        variation.sorting_network(p.n_classes), rows.compared(rows.edges), rows.equal_width,
        first, second, count, counts, exact, real, size,
    )  # fmt: skip
    sums = carried(exact) if weights.whole else real
    size = counts.sum(axis=1, keepdims=True).repeat(2, axis=1) if weights.first is None else size
    return RankSums(rows.edges, counts, sums, size[:, 0].astype(np.int64), size[:, 1])
