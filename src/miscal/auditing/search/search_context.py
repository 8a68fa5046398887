"""What a search compares, and the one place that says how uncertain the sum of a segment is.

The rule: every variance, standard deviation and p-value of a segment's mean in `auditing.search` comes from
`SearchContext`. Whoever wants other variances (correlated rows, say) changes them here and nowhere else.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from miscal.cells.condition import Conjunction
from miscal.cells.ranges import bin_index
from miscal.codes.inference import Null
from miscal.data.arrays import Array, Plain
from miscal.data.target import TargetData
from miscal.stats.binomial import cell_p_values
from miscal.stats.cell_sums import CellSums, CellTestSettings, Floats
from miscal.stats.intervals import cell_gap_intervals
from miscal.stats.normal import one_sided_p
from miscal.stats.null_model import NullModel
from miscal.stats.sign_flip import ALL_ROWS, clustered_sum, clustered_sum_p, weighted_residuals

SCORE_CELLS = 32  # of about equal weight
CLUSTER_SCREEN = 0.2  # segments with a larger p-value by rows need no exact sum over clusters
FEW_EVENTS = 25  # expected on the rarer side, below which the exact test of rare events is used
LARGEST_SHARE = 0.99  # of the total variance that recalibration on the same rows can have removed


class ScoreGrid(NamedTuple):
    """Cells of the score: their edges, and the cell of each row."""

    edges: Array
    codes: Array

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.edges.size - 1


def score_grid(target: TargetData) -> ScoreGrid:
    """Cells of about equal weight; tied scores are never split."""
    quantiles = np.linspace(0.0, 1.0, SCORE_CELLS + 1)[1:-1]
    edges = np.union1d([0.0, 1.0], np.quantile(target.predicted, quantiles))
    return ScoreGrid(edges, bin_index(target.predicted, edges).astype(np.int16))


ONE_SCORE_CELL = ScoreGrid(np.array([0.0, 1.0]), np.zeros(1, np.int16))  # where sums are not kept by score


@dataclass(frozen=True, eq=False)
class SearchContext:
    """What is compared, as predicted and after global recalibration, and under which null model.

    Attributes
    ----------
    raw, recalibrated : TargetData
        The rows as predicted, and with the recalibrated score.
    null_model : NullModel
        How outcomes vary if the model is calibrated.
    variance_ratio : float
        Variance of sums over clusters relative to that over independent rows, at least 1.
    sampling_ratio : float
        How many rows of the table each row stands for: 1 unless the rows are a sample, NaN where there are sums alone.
    score_grid : ScoreGrid
        Cells of the score, by which every segment is tested for its shape too.
    find_largest : callable or None
        Finds the largest weighted residuals of segments among rows that are not in memory.
    """

    raw: TargetData
    recalibrated: TargetData
    null_model: NullModel
    variance_ratio: float = 1.0
    sampling_ratio: float = 1.0
    score_grid: ScoreGrid = ONE_SCORE_CELL
    find_largest: Callable[[Sequence[Conjunction]], Array] | None = None

    def target_data(self, *, recalibrated: bool) -> TargetData:
        """The rows as predicted, or after global recalibration."""
        return self.recalibrated if recalibrated else self.raw

    @property
    def is_sample(self) -> bool:
        """Whether these are not all rows of the table."""
        return self.sampling_ratio != 1.0

    @property
    def has_rows(self) -> bool:
        """Whether there are rows, and not sums alone."""
        return not math.isnan(self.sampling_ratio)

    @property
    def clustered(self) -> bool:
        """Whether rows are correlated within clusters."""
        return self.raw.cluster is not None

    @cached_property
    def effective_share(self) -> float:
        """Rows of equal weight that would be as informative, for each row (Kish)."""
        mean_weight, variance_weight = self.raw.all_weights
        return float(mean_weight.sum() ** 2 / max(variance_weight.sum() * mean_weight.size, 1e-300))

    @cached_property
    def table_weight(self) -> Array:
        """Weight of the table's rows that each row stands for."""
        return self.raw.all_weights[0] * self.sampling_ratio

    def largest_residuals(self, segments: Sequence[Any]) -> Array:
        """Weight, prediction and outcome of the row with the largest residual of each segment, (segments, 3)."""
        if self.find_largest is not None:
            return self.find_largest([segment.conjunction for segment in segments])
        raw = self.raw
        row_numbers = [
            members[np.argmax(np.abs(weighted_residuals(raw, members)))]
            for members in (segment.members for segment in segments)
        ]
        return np.stack(
            [raw.all_weights[0][row_numbers], raw.predicted[row_numbers], raw.observed[row_numbers]], axis=1
        )

    # The variance of a segment's sum.

    def variance(self, sums: CellSums) -> Floats:
        """Variance of Σw(y - p) in each cell; where outcomes are not events, at least what is usual."""
        variance = sums.residual2 if self.null_model.null == Null.RESIDUAL else sums.variance
        if self.null_model.residual_variance is not None:
            variance = np.maximum(variance, self.null_model.residual_variance.of_cells(sums))
        return variance * self.variance_ratio

    def deviation(self, sums: CellSums, total_variance: float) -> float:
        """Standard deviation of the sum of one cell, if the score was recalibrated on rows of this total variance."""
        variance = self.variance(sums)[0]
        return math.sqrt(max(variance * residual_variance_share(variance, total_variance), 1e-300))

    def segment_deviation(self, segment: Any, total_variance: float, *, recalibrated: bool) -> float:
        """Standard deviation of the sum of a segment, over whole clusters where there are any."""
        if self.clustered:
            return max(math.sqrt(self.cluster_variance(segment, recalibrated=recalibrated)), 1e-150)
        return self.deviation(segment.evidence.sums(recalibrated=recalibrated), total_variance)

    def cluster_variance(self, segment: Any, *, recalibrated: bool = False) -> float:
        """Variance of the sum of a segment, from the sums of its clusters."""
        return clustered_sum(self.target_data(recalibrated=recalibrated), segment.members)[1]

    # P-values of a segment's mean, and the interval of its gap.

    def p_values(self, sums: CellSums) -> Floats:
        """P-values of the mean of each cell from sums alone; with clusters these only screen, see `exact_p`."""
        return cell_p_values(*self._test_input(sums)).p_value

    def p_value(self, sums: CellSums) -> float:
        """The p-value of the mean of one cell, from sums alone."""
        return float(np.fmin(self.p_values(sums)[0], 1.0))

    def exact_p(self, members: Array, p_value: float) -> float:
        """The p-value of some rows, over whole clusters where there are any; `p_value` otherwise."""
        if not self.clustered or not p_value < CLUSTER_SCREEN:
            return p_value
        return clustered_sum_p(self.raw, members)

    def segment_p_value(self, segment: Any) -> float:
        """The p-value of a segment's mean as predicted, over whole clusters where there are any."""
        p_value = self.p_value(segment.evidence.raw)
        return self.exact_p(segment.members, p_value) if self.clustered else p_value

    def recalibrated_p_value(self, segment: Any, total_variance: float) -> float:
        """The p-value of a segment's mean after global recalibration on rows of this total variance."""
        sums = segment.evidence.recalibrated
        if self.clustered:
            return clustered_sum_p(self.recalibrated, segment.members)
        rarer = np.minimum(sums.predicted, sums.weight - sums.predicted)[0]
        if self.null_model.binary and rarer < FEW_EVENTS:
            return self.p_value(sums)
        return 2.0 * one_sided_p(abs(sums.off[0]), self.deviation(sums, total_variance) ** 2)

    def reachable_p(self, sums: CellSums) -> Floats:
        """The smallest p-value that each cell could have shown: with no event at all, or nothing but events.

        It depends on the predictions alone, so that cells which could never be significant may be left out before
        anything is counted (Tarone).
        """
        if self.raw.weight is not None or self.null_model.null == Null.RESIDUAL:
            return np.zeros(sums.rows.size)
        extremes = np.zeros_like(sums.rows), sums.weight
        no_event, all_events = (self.p_values(replace(sums, observed=observed)) for observed in extremes)
        return np.fmin(np.fmin(no_event, all_events), 1.0)

    def gap_intervals(self, sums: CellSums, tests: int, level: float) -> tuple[Floats, Floats]:
        """Intervals of the gaps of cells, simultaneous over so many tests."""
        return cell_gap_intervals(*self._test_input(sums), tests, level)

    def cell_summary(self, sums: CellSums) -> Plain:
        """Rows, weight, mean prediction, mean outcome and gap of one cell, in the units of the data."""
        units, weight = self.null_model.units, float(sums.weight[0])
        predicted, observed, gap = (
            float(values[0]) / weight for values in (sums.predicted, sums.observed, sums.off)
        )
        return {
            "rows": int(sums.rows[0]),
            "weight": weight,
            "predicted": units.back(predicted),
            "observed": units.back(observed),
            "gap": gap * units.scale,
        }

    def _test_input(self, sums: CellSums) -> tuple[CellSums, CellTestSettings]:
        """Sums with variances as large as clusters and usual outcomes make them, and the settings of their test.

        How many clusters a cell has cannot be known from sums.
        """
        tested = self.null_model.sums(sums)
        ratio = 1.0 if self.null_model.residual_variance is None else self.variance_ratio
        inflated = replace(
            tested, variance=tested.variance * ratio, residual2=tested.residual2 * self.variance_ratio
        )
        settings = self.null_model.test_settings(weighted=self.raw.weight is not None)
        return inflated, replace(settings, model_variance=False)


def residual_variance_share(variance: float, total_variance: float) -> float:
    """The share of a segment's variance that is left when the score was recalibrated on the same rows.

    What the segment shares with the rest is taken off; the true variance is at most this one (Cauchy and Schwarz).
    """
    return 1.0 - min(variance / max(total_variance, 1e-300), LARGEST_SHARE)


def cluster_variance_ratio(target: TargetData) -> float:
    """How much more sums over clusters vary than sums over independent rows; 1 without clusters."""
    if target.cluster is None:
        return 1.0
    of_rows = float(np.sum(weighted_residuals(target, ALL_ROWS) ** 2))
    return max(1.0, clustered_sum(target)[1] / max(of_rows, 1e-300))
