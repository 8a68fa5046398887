"""From rows to sums per bin of variation: mean ranked probabilities, and how often each rank occurred."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.carriers.tally import HIGH_UNIT, LOW_UNIT
from miscal.data.errors import refusal
from miscal.data.predictions import Predictions
from miscal.engines.memory import NO_COUNT
from miscal.kernels.threads import BLOCK, over_blocks
from miscal.metrics.variation.measures import GIVEN, Measure
from miscal.pairs import Pair
from miscal.pooling.bins import edges_for

Bins = int | Sequence[float] | np.ndarray
NO_VALUES = np.empty(0)
CALL_VALUES = 1 << 22  # probabilities handed to a callable at a time: 32 MiB


@dataclass(frozen=True, eq=False)
class RankSums:
    """Sums per bin of variation; adding two is concatenating their rows.

    Attributes
    ----------
    edges : (bins + 1,)
    counts : (bins, K), weight of the rows whose class had each rank; int64 if exact
    predicted_sums : (bins, K, 2) int64 limbs if exact, else (bins, K) float64; sums of the ranked probabilities
    variation_sums : (bins, 2) or (bins,), sums of the rows' variations
    rows : (bins,) int64
    second : (bins,) sum of squared weights
    """

    edges: np.ndarray
    counts: np.ndarray
    predicted_sums: np.ndarray
    variation_sums: np.ndarray
    rows: np.ndarray
    second: np.ndarray

    @property
    def exact(self) -> bool:
        """Whether the sums are integers, so that the order of the rows changes no bit."""
        return self.predicted_sums.ndim == 3

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
        return self._mean(_real(self.predicted_sums, self.exact))

    @property
    def observed(self) -> np.ndarray:
        """Frequencies of the ranks of the classes that occurred, (bins, K)."""
        return self._mean(self.counts)

    @property
    def mean_variation(self) -> np.ndarray:
        """Mean of the rows' own variations, (bins,)."""
        return self._mean(_real(self.variation_sums, self.exact)[:, np.newaxis])[:, 0]

    @property
    def first_rank_gap(self) -> np.ndarray:
        """Mean first probability minus frequency of the first rank; the difference is taken before it is rounded."""
        if not self.exact:
            return np.asarray(self.predicted[:, 0] - self.observed[:, 0])
        limbs = self.predicted_sums[:, 0].copy()
        limbs[:, 0] -= self.counts[:, 0] << 20
        return self._mean(_real(_carried(limbs), exact=True)[:, np.newaxis])[:, 0]

    def _mean(self, sums: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(sums / self.weight[:, np.newaxis])

    def __add__(self, other: RankSums) -> RankSums:
        if not np.array_equal(self.edges, other.edges) or self.counts.shape != other.counts.shape:
            raise refusal("have different bins or classes and cannot be added", where="the sums")
        if self.exact != other.exact:
            return self._as_real() + other._as_real()
        parts = {
            name: getattr(self, name) + getattr(other, name)
            for name in ("counts", "predicted_sums", "variation_sums", "rows", "second")
        }
        if self.exact:
            parts |= {name: _carried(parts[name]) for name in ("predicted_sums", "variation_sums")}
        return replace(self, **parts)

    def _as_real(self) -> RankSums:
        if not self.exact:
            return self
        return replace(
            self,
            counts=self.counts.astype(np.float64),
            predicted_sums=_real(self.predicted_sums, exact=True),
            variation_sums=_real(self.variation_sums, exact=True),
        )


def _real(sums: np.ndarray, exact: bool) -> np.ndarray:
    return np.asarray(sums[..., 0] * HIGH_UNIT + sums[..., 1] * LOW_UNIT) if exact else sums


def _carried(limbs: np.ndarray) -> np.ndarray:
    limbs[..., 0] += limbs[..., 1] >> 32
    limbs[..., 1] &= 0xFFFFFFFF
    return limbs


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

    @property
    def compared_edges(self) -> np.ndarray:
        """Edges as the kernels compare them: on the grid of computed variations, where variations are computed."""
        from miscal.kernels.variation import CONFIDENCE, NEAR

        if self.measure.kind in (GIVEN, CONFIDENCE):
            return self.edges
        return np.asarray(np.floor(self.edges * NEAR + 0.5) / NEAR)

    def weights(self) -> Pair:
        """Weights, counts and clusters of the rows, with the outcomes themselves as what is compared."""
        p = self.predictions
        return Pair(p.outcome, p.outcome, p.weight, p.count, p.cluster, target="ranks")


def ranked(
    predictions: Predictions,
    measure: Measure,
    bins: Bins,
    strategy: str,
    range: tuple[float, float] | None,  # noqa: A002
) -> Ranked:
    """Choose the bins; variations of all rows are computed first only where the bins depend on them."""
    whole_number = isinstance(bins, (int, np.integer)) and not isinstance(bins, bool)
    limits = _limits(range, measure, predictions.n_classes)
    bare = Ranked(predictions, measure, np.array([0.0, 1.0]), False, NO_VALUES)
    values = NO_VALUES
    if measure.kind == GIVEN or (whole_number and strategy == "quantile"):
        values = row_variations(bare)
    if limits is None:
        limits = (float(values.min()), float(values.max()))
    low, high = limits
    weights = {"weight": predictions.weight, "count": predictions.count}
    edges = edges_for(values, bins, strategy, low=low, high=high, **weights)
    equal_width = whole_number and strategy == "uniform" and high > low
    return replace(bare, edges=edges, equal_width=equal_width, values=values if measure.kind == GIVEN else NO_VALUES)


def _limits(
    range: Any,  # noqa: A002
    measure: Measure,
    classes: int,
) -> tuple[float, float] | None:
    if range is None:
        return measure.range(classes)
    try:
        low, high = (float(end) for end in range)
    except (TypeError, ValueError) as error:
        raise refusal("must be (low, high)", where="'range'", got=f"it is {range!r}") from error
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise refusal("must be (low, high) with low < high", where="'range'", got=f"it is {range!r}")
    return low, high


def row_variations(rows: Ranked) -> np.ndarray:
    """The variation of every row."""
    from miscal.kernels.variation import rank_rows, sorting_network

    p, matrix, kind = rows.predictions, rows.matrix, rows.measure.kind
    network = sorting_network(p.n_classes)
    values = np.empty(p.rows)
    no_rank, no_rows = np.empty(0, np.int64), np.empty((0, p.n_classes))

    def work(start: int, stop: int) -> None:
        outcome = p.outcome[start:stop]
        if kind != GIVEN:
            rank_rows(matrix[start:stop], outcome, kind, network, no_rows, no_rank, values[start:stop])
            return
        shares = np.empty((stop - start, p.n_classes))
        rank_rows(matrix[start:stop], outcome, kind, network, shares, no_rank, NO_VALUES)
        values[start:stop] = rows.measure(shares)

    if kind != GIVEN:
        over_blocks(p.rows, work)
    else:  # one at a time: a callable need not be safe in threads
        step = max(1, CALL_VALUES // p.n_classes)
        for start in range(0, p.rows, step):
            work(start, min(start + step, p.rows))
    return values


def rank_sums(rows: Ranked) -> RankSums:
    """Sums per bin, block by block on a few threads."""
    weights = rows.weights()
    parts = over_blocks(weights.rows, lambda i, j: _block_sums(rows, weights, i, j), _block(rows))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _block(rows: Ranked) -> int:
    # With many bins and classes each block's own sums cost more than its rows: fewer, larger blocks then.
    return max(BLOCK, 8 * (rows.edges.size - 1) * rows.predictions.n_classes)


def _block_sums(rows: Ranked, weights: Pair, start: int, stop: int) -> RankSums:
    from miscal.kernels import variation

    p, bins, whole = rows.predictions, rows.edges.size - 1, weights.whole
    common = (
        rows.matrix[start:stop],
        p.outcome[start:stop],
        rows.values[start:stop],
        rows.measure.kind,
        variation.sorting_network(p.n_classes),
        rows.compared_edges,
        rows.equal_width,
    )
    limbs, kind = ((2,), np.int64) if whole else ((), np.float64)
    counts = np.zeros((bins, p.n_classes), kind)
    sums, variations = np.zeros((bins, p.n_classes, *limbs), kind), np.zeros((bins, *limbs), kind)
    if weights.first is None or weights.second is None:
        variation.rank_sums(*common, counts, sums, variations)
        seen = counts.sum(axis=1)
        size = np.stack([seen, seen], axis=1).astype(np.float64)
    else:
        size = np.zeros((bins, 2))
        count = NO_COUNT if weights.count is None else weights.count
        add = variation.rank_sums_whole if whole else variation.rank_sums_real
        of_rows = (weights.first[start:stop], weights.second[start:stop], count[start:stop])
        add(*common, *of_rows, counts, sums, variations, size)
    if whole:
        sums, variations = _carried(sums), _carried(variations)
    return RankSums(rows.edges, counts, sums, variations, size[:, 0].astype(np.int64), size[:, 1])
