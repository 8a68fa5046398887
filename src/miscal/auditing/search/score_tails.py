"""The tails of the score: probabilities of exactly 0 or 1, and the lowest and highest scores, by exact tests.

A few events among rows of probability 0 make no mean and no shape significant, and yet cannot be chance. Each tail is
one test of the audit: whether more of the rare outcome was observed than the scores allow.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from miscal.aggregate.in_memory import tally
from miscal.aggregate.summary import GRID, TAILS
from miscal.auditing.search.candidates import Candidate, RowMaskSegment
from miscal.auditing.search.target_search import TargetSearch
from miscal.auditing.search.tested_segments import TestedSegment, segment_with_sums
from miscal.cells.condition import Condition, Conjunction, just_below
from miscal.cells.partitions import OF_SCORE, BinPooling, Ranges
from miscal.codes.audit import Family, FindingKind
from miscal.data.target import TargetData
from miscal.stats.binomial import rare_outcome_p
from miscal.stats.cell_sums import CellSums

ROW_SHARES = (0.001, 0.01)  # of the rows: tails that are tested wherever the scores lie
ROUNDING_STEPS = (0.01, 0.001, 0.0001)  # to which scores are often rounded
MIN_ROUNDED_VALUES = 20  # different values from which scores of such a step are taken to be rounded
SCORE = "score"  # what a condition calls the score where no column holds it
IMPOSSIBLE = "MC102"  # code of findings in a tail


class RareOutcomes(NamedTuple):
    """Trials in a tail, and of the outcome that is rare there: observed, expected, and the variance of that."""

    trials: float
    observed: float
    expected: float
    variance: float


class ScoreTail(NamedTuple):
    """One tail of the score.

    Attributes
    ----------
    upper : bool
        Whether it is the tail at 1.
    cells : slice
        Its cells of the fine grid of scores.
    condition : Condition
        Which scores.
    exact : bool
        Whether it holds probabilities of exactly 0 or 1.
    """

    upper: bool
    cells: slice
    condition: Condition
    exact: bool = False


def fine_sums(target: TargetData) -> CellSums:
    """Sums of the rows in each cell of the fine grid of scores."""
    return CellSums.of(tally(target, BinPooling(target.predicted, Ranges(GRID, name=OF_SCORE))))


def rounding_step(predicted: np.ndarray) -> float:
    """The step to which scores were rounded, 0 where they were not.

    >>> (
    ...     rounding_step(np.arange(40) / 100),
    ...     rounding_step(np.linspace(0, 1, 97)),
    ...     rounding_step(np.array([0.0, 1.0])),
    ... )
    (0.01, 0.0, 0.0)
    """
    for step in ROUNDING_STEPS:
        multiples = (scores / step for scores in (predicted[:100], predicted))  # a few first
        if all(np.abs(multiple - np.rint(multiple)).max(initial=0.0) < 1e-6 for multiple in multiples):
            return step if np.unique(predicted).size >= MIN_ROUNDED_VALUES else 0.0
    return 0.0


ZERO = ScoreTail(False, slice(0, 1), Condition(SCORE, levels=(0.0,)), exact=True)
ONE = ScoreTail(True, slice(-1, None), Condition(SCORE, levels=(1.0,)), exact=True)


def tail_segments(search: TargetSearch) -> list[TestedSegment]:
    """The four tests: probabilities of exactly 0 and 1, and of the other rows the lowest and the highest scores."""
    raw, sums = search.context.raw, search.score_sums
    if not raw.binary:
        return []
    if raw.weight is not None and search.whole_sums is None:
        sums = fine_sums(replace(raw, weight=None))
    segments = _exact_tails(search, sums)
    weighted_sums = search.whole_sums is not None and raw.weight is not None
    if not search.context.null_model.outcome_weights and not weighted_sums:
        for upper in (False, True):  # of nested tails the one with the smallest p-value
            tails = _nested_tails(sums, upper=upper)
            p_values = [
                rare_outcome_p(*_rare_clusters(raw, tail) or _rare_rows(sums, tail)) for tail in tails
            ]
            if p_values:
                best = np.argmin(p_values)
                segments.append(_segment(search, tails[best], p_values[best] * len(tails), len(tails)))
    return segments


def _exact_tails(search: TargetSearch, sums: CellSums) -> list[TestedSegment]:
    """Probabilities of exactly 0 and 1: one row with the other outcome contradicts them, unless scores were rounded."""
    raw, segments = search.context.raw, []
    half_step = 0.5 * rounding_step(raw.predicted)
    for tail in (ZERO, ONE):
        rare = _rare_rows(sums, tail)
        if not rare.trials:
            continue
        p_value = 0.0 if rare.observed > 0 else 1.0
        if half_step:
            expected = half_step * rare.trials
            rounded = RareOutcomes(rare.trials, rare.observed, expected, expected * (1.0 - half_step))
            p_value = rare_outcome_p(*_rare_clusters(raw, tail, half_step) or rounded)
        segments.append(_segment(search, tail, p_value, 1))
    return segments


def _nested_tails(sums: CellSums, *, upper: bool) -> list[ScoreTail]:
    """Tails without the exact ones: by powers of ten, and by the share of rows; each set of rows once."""
    rows = sums.rows[1:-1]
    running = np.cumsum(rows[::-1] if upper else rows)
    powers = GRID.size - 1 - np.searchsorted(GRID, 1.0 - TAILS) if upper else np.searchsorted(GRID, TAILS)
    # Edge 1 is 0 itself, and at the other end one cell is of 1 alone: after so many edges so many cells less one.
    shares = np.searchsorted(running, np.array(ROW_SHARES) * running[-1]) + 1
    counts = np.unique(np.concatenate([powers - 1, shares]))
    last, tails = GRID.size - 2, []  # the cell of 1 alone
    counts = counts[counts < last - 1]  # what holds every score is no tail
    n_rows, first = np.unique(running[counts - 1], return_index=True)
    for count in counts[first[n_rows > 0]].tolist():
        start, stop = (last - count, last) if upper else (1, 1 + count)
        low, high = (float(GRID[start]), just_below(1.0)) if upper else (0.0, float(GRID[stop]))
        tails.append(ScoreTail(upper, slice(start, stop), Condition(SCORE, low=low, high=high)))
    return tails


def _rare_rows(sums: CellSums, tail: ScoreTail) -> RareOutcomes:
    """The rare outcomes of a tail, by rows."""
    trials, predicted, observed, variance = (
        values[tail.cells].sum() for values in (sums.weight, sums.predicted, sums.observed, sums.variance)
    )
    if tail.upper:
        predicted, observed = trials - predicted, trials - observed
    return RareOutcomes(trials, observed, predicted, variance)


def _rare_clusters(target: TargetData, tail: ScoreTail, min_probability: float = 0.0) -> RareOutcomes | None:
    """Clusters in which the rare outcome was observed at all: at most as likely as the sum over their rows."""
    if target.cluster is None:
        return None
    inside = tail.condition.numbers(target.predicted)
    probability, rare = target.predicted[inside], target.observed[inside]
    if tail.upper:
        probability, rare = 1.0 - probability, 1.0 - rare
    probability = np.maximum(probability, min_probability) * target.trials()[inside]
    _, cluster = np.unique(target.cluster[inside], return_inverse=True)
    any_rare = np.minimum(np.bincount(cluster, probability), 1.0)
    observed = np.count_nonzero(np.bincount(cluster, rare > 0))
    return RareOutcomes(any_rare.size, float(observed), any_rare.sum(), (any_rare * (1 - any_rare)).sum())


def _segment(search: TargetSearch, tail: ScoreTail, p_value: float, n_searched: int) -> TestedSegment:
    sums = search.score_sums.map(lambda values: values[tail.cells].sum(keepdims=True))
    level, column = tail_words(tail), search.score_column
    segment = RowMaskSegment(
        FindingKind.SCORE,
        tail.condition.numbers(search.context.raw.predicted),
        words=f"rows said {level}" + (f" ({search.scope})" if search.scope else ""),
        names=() if column is None else (column,),
        levels=(level,),
        condition=Conjunction((replace(tail.condition, column=column or SCORE),)),
        code=IMPOSSIBLE,
    )
    return segment_with_sums(Candidate(segment, Family.COLUMNS, n_searched), sums, sums, p_value)


def tail_words(tail: ScoreTail) -> str:
    """The scores of a tail in words.

    >>> tail_words(ScoreTail(False, slice(1, 2), Condition(SCORE, low=0.0, high=1e-7)))
    '0.00001% or less'
    """
    if tail.exact:
        return "100%" if tail.upper else "0%"
    edge: Any = tail.condition.low if tail.upper else tail.condition.high
    decimals = max(0, 1 - math.floor(math.log10(100.0 * min(edge, 1.0 - edge))))
    text = f"{100.0 * edge:.{decimals}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%" + (
        " or more" if tail.upper else " or less"
    )
