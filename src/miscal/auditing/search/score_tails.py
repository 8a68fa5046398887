"""The ends of the scale: rows said to be certain, and the lowest and highest scores, by exact tails.

A few events among rows that were said never to happen move no average and no walk beyond noise, and yet cannot be
chance. Each end is one test of the audit: whether more of what was called rare happened than the scores allow.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from miscal.aggregate.in_memory import tally
from miscal.aggregate.summary import GRID, TAILS
from miscal.auditing.search.candidates import Candidate, RowMaskSegment, TargetSearch
from miscal.cells.condition import Condition, Conjunction, just_below
from miscal.cells.partitions import OF_SCORE, BinPooling, Ranges
from miscal.data.target import TargetData
from miscal.stats.binomial import rare_outcome_p
from miscal.stats.cell_sums import CellSums

SHARES = (0.001, 0.01)  # of the rows: ends that are looked at wherever the scores lie
STEPS = (0.01, 0.001, 0.0001)  # to which scores are often rounded
COARSEST = 20  # values from which scores of such a step are rounded ones
Rare = tuple[float, float, float, float]  # trials, and what is rare among them: see `_rare`
SCORE = "score"  # what a condition calls the score that no column holds as it stands


class ScoreTail(NamedTuple):
    """One end of the scale, that at 1 if `upper`: its cells of the grid of scores; `certain`: 0 or 1 alone."""

    upper: bool
    cells: slice
    condition: Condition
    certain: bool = False


def fine_sums(compared: TargetData) -> CellSums:
    """Sums of the rows in each cell of the fine grid of scores."""
    return CellSums.of(tally(compared, BinPooling(compared.predicted, Ranges(GRID, name=OF_SCORE))))


def rounding_step(predicted: np.ndarray) -> float:
    """The step to which scores were rounded, 0 where they were not.

    >>> (
    ...     rounding_step(np.arange(40) / 100),
    ...     rounding_step(np.linspace(0, 1, 97)),
    ...     rounding_step(np.array([0.0, 1.0])),
    ... )
    (0.01, 0.0, 0.0)
    """
    for step in STEPS:
        times = (some / step for some in (predicted[:100], predicted))
        if all(np.abs(each - np.rint(each)).max(initial=0.0) < 1e-6 for each in times):
            return step if np.unique(predicted).size >= COARSEST else 0.0
    return 0.0


def extreme_places(looked: TargetSearch) -> list[Candidate]:
    """The four tests: rows said 0, rows said 1, and of the other rows the lowest and the highest scores."""
    raw, tested = looked.rows.raw, looked.scores
    if not raw.binary:
        return []
    if raw.weight is not None and looked.all is None:
        tested = fine_sums(replace(raw, weight=None))
    half = 0.5 * rounding_step(raw.predicted)
    made = []
    for end in (ZERO, ONE):  # one row that went the other way contradicts them, unless scores were rounded
        size, rare, *_ = _rare(tested, end)
        if not size:
            continue
        chance = 0.0 if rare > 0 else 1.0
        if half:
            expected = half * size
            chance = rare_outcome_p(
                *_by_cluster(raw, end, half) or (size, rare, expected, expected * (1.0 - half))
            )
        made.append(_place(looked, end, chance, 1))
    if not looked.rows.noise.outcome_weights and (looked.all is None or raw.weight is None):
        for upper in (False, True):  # of nested ends the one that is hardest to explain
            ends = _ends(tested, upper=upper)
            chances = [rare_outcome_p(*_by_cluster(raw, end) or _rare(tested, end)) for end in ends]
            if chances:
                best = np.argmin(chances)
                made.append(_place(looked, ends[best], chances[best] * len(ends), len(ends)))
    return made


ZERO = ScoreTail(False, slice(0, 1), Condition(SCORE, levels=(0.0,)), certain=True)
ONE = ScoreTail(True, slice(-1, None), Condition(SCORE, levels=(1.0,)), certain=True)


def _ends(sums: CellSums, *, upper: bool) -> list[ScoreTail]:
    """Ends without the rows said to be certain: by powers of ten, and by the share of rows; each of its own rows."""
    rows = sums.rows[1:-1]
    running = np.cumsum(rows[::-1] if upper else rows)
    powers = GRID.size - 1 - np.searchsorted(GRID, 1.0 - TAILS) if upper else np.searchsorted(GRID, TAILS)
    # Edge 1 is 0 itself, and at the other end one cell is of 1 alone: after so many edges so many cells less one.
    shares = np.searchsorted(running, np.array(SHARES) * running[-1]) + 1
    counts = np.unique(np.concatenate([powers - 1, shares]))
    last, made = GRID.size - 2, []  # the cell of 1 alone
    counts = counts[counts < last - 1]  # what holds every score is no end
    held, first = np.unique(running[counts - 1], return_index=True)
    for many in counts[first[held > 0]].tolist():
        start, stop = (last - many, last) if upper else (1, 1 + many)
        low, high = (float(GRID[start]), just_below(1.0)) if upper else (0.0, float(GRID[stop]))
        made.append(ScoreTail(upper, slice(start, stop), Condition(SCORE, low=low, high=high)))
    return made


def _rare(sums: CellSums, end: ScoreTail) -> Rare:
    """Trials at an end, and of what is rare there: how often it happened, was expected, and the variance of that."""
    every = sums.weight, sums.predicted, sums.observed, sums.variance
    size, predicted, observed, variance = (values[end.cells].sum() for values in every)
    if end.upper:
        predicted, observed = size - predicted, size - observed
    return size, observed, predicted, variance


def _by_cluster(compared: TargetData, end: ScoreTail, least: float = 0.0) -> Rare | None:
    """The same of clusters in which the rare happened at all: at most as likely as the sum over their rows."""
    if compared.cluster is None:
        return None
    inside = end.condition.numbers(compared.predicted)
    chance, rare = compared.predicted[inside], compared.observed[inside]
    if end.upper:
        chance, rare = 1.0 - chance, 1.0 - rare
    chance = np.maximum(chance, least) * compared.repeats()[inside]
    _, code = np.unique(compared.cluster[inside], return_inverse=True)
    most = np.minimum(np.bincount(code, chance), 1.0)
    happened = np.count_nonzero(np.bincount(code, rare > 0))
    return most.size, float(happened), most.sum(), (most * (1 - most)).sum()


def _place(looked: TargetSearch, end: ScoreTail, p_value: float, searched: int) -> Candidate:
    raw = looked.scores.map(lambda values: values[end.cells].sum(keepdims=True))
    level = _said(end)
    names = () if looked.column is None else (looked.column,)
    words = f"rows said {level}" + (f" ({looked.scope})" if looked.scope else "")
    inside = end.condition.numbers(looked.rows.raw.predicted)
    condition = Conjunction((replace(end.condition, column=looked.column or SCORE),))
    own = RowMaskSegment("score", inside, words, names, (level,), condition, "MC102")
    return Candidate(own, (), p_value, "columns", raw, raw, searched)


def _said(end: ScoreTail) -> str:
    """The scores of an end in words.

    >>> _said(ScoreTail(False, slice(1, 2), Condition(SCORE, low=0.0, high=1e-7)))
    '0.00001% or less'
    """
    if end.certain:
        return "100%" if end.upper else "0%"
    edge: Any = end.condition.low if end.upper else end.condition.high
    decimals = max(0, 1 - math.floor(math.log10(100.0 * min(edge, 1.0 - edge))))
    text = f"{100.0 * edge:.{decimals}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%" + (
        " or more" if end.upper else " or less"
    )
