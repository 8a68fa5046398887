"""Cumulative differences of many subpopulations of rows in memory.

Rows are sorted once by the score. A subpopulation is then a list of positions in that order; a narrower one is found by
filtering the list of the wider one. `kernels.subpopulation` computes the statistics of a list in one walk over it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np

from miscal.cells.subpopulations import IN_ORDER, Covariate, Definition, Parts, interval_condition
from miscal.data.arrays import Array
from miscal.data.target import TargetData
from miscal.kernels import subpopulation as kernels
from miscal.kernels.sorting import sorted_order
from miscal.kernels.threads import over_blocks, thread_count

EMPTY = np.empty(0)
MAX_IDLE_PATHS = 64  # consecutive paths without a new subpopulation after which the search ends


@dataclass(frozen=True, eq=False)
class Ordered:
    """Rows sorted by (score, outcome, weight), so that all results are the same for any order of the rows.

    Attributes
    ----------
    order : ndarray of int32
        The row at each position.
    signed : ndarray of float64
        Scores, with the sign bit set if the outcome is 0. Plain scores for real responses.
    observed : ndarray of float64
        Real responses; empty for binary outcomes.
    weight, second, largest : ndarray of float64
        w·count, w²·count and w; empty if all are 1.
    how : int
        How the variance of real responses is estimated; 0 for binary outcomes.
    """

    order: Array
    signed: Array
    observed: Array
    weight: Array
    second: Array
    largest: Array
    how: int = 0

    @property
    def rows(self) -> int:
        return int(self.signed.size)

    @property
    def everyone(self) -> Array:
        """The positions of the full population."""
        return np.arange(self.rows, dtype=np.int32)

    def walk(self, members: Array) -> Array:
        """The statistics of a list of positions, (WIDTH,); columns as in `kernels.subpopulation`."""
        stats = np.empty(kernels.WIDTH)
        kernels.walk_list(
            self.signed, self.observed, self.weight, self.second, self.largest, self.how, members, stats
        )
        return stats

    @property
    def score(self) -> Array:
        """The scores without the outcome, in order."""
        return self.signed if self.observed.size else np.abs(self.signed)

    def squared_residuals(self) -> Array:
        """w²·count·(outcome - score)², in order: each row's contribution to the residual variance."""
        outcome = self.observed if self.observed.size else ~np.signbit(self.signed)
        squares = (outcome - self.score) ** 2
        return squares * self.second if self.second.size else squares


def ordered(pair: TargetData) -> Ordered:
    """Sort the rows of a comparison."""
    if not pair.binary:
        return ordered_real(pair.predicted, pair.observed, pair.mean_weight, kernels.CORRECTED)
    order = _by(pair.predicted, pair.observed, pair.weight, pair.count)
    signed = pair.predicted[order]
    np.negative(signed, out=signed, where=pair.observed[order] == 0)
    if pair.mean_weight is None or pair.variance_weight is None:
        return Ordered(order, signed, EMPTY, EMPTY, EMPTY, EMPTY)
    first, second, largest = (
        values[order] for values in (pair.mean_weight, pair.variance_weight, pair.sampling_weight)
    )
    return Ordered(order, signed, EMPTY, first, second, largest)


def ordered_real(score: Array, response: Array, weight: Array | None, how: int) -> Ordered:
    """Sort the rows of a comparison of real responses."""
    order = _by(score, response, weight, None)
    first = EMPTY if weight is None else weight[order]
    return Ordered(order, score[order], response[order], first, first * first, first, how)


def _by(score: Array, outcome: Array, weight: Array | None, count: Array | None) -> Array:
    order = np.arange(score.size, dtype=np.int32)
    for values in (count, weight, outcome, score):
        if values is not None:
            order = order[sorted_order(values[order])]
    return order


@dataclass(frozen=True, eq=False)
class Search:
    """Subpopulations and their statistics, the full population first.

    Attributes
    ----------
    stats : ndarray, (K, WIDTH)
        Columns as in `kernels.subpopulation`.
    too_small : ndarray, (J, WIDTH)
        Statistics of subpopulations with too little information.
    define, members : callable
        The definition of a subpopulation, and the positions of its rows, by number. Those that are too small are
        numbered after the others. Fastest if called in order.
    """

    stats: Array
    too_small: Array
    define: Callable[[int], Definition]
    members: Callable[[int], Array]

    def lists(self) -> tuple[Array, Array]:
        """Positions of the rows of all subpopulations, one after the other, and where each begins."""
        sizes = self.stats[:, kernels.ROWS].astype(np.int64)
        starts = np.append(0, np.cumsum(sizes))
        positions = np.empty(starts[-1], np.int32)
        for k in range(len(self.stats)):
            positions[starts[k] : starts[k + 1]] = self.members(k)
        return positions, starts


def walk_lists(rows: Ordered, lists: Sequence[Array]) -> Array:
    """The statistics of several lists of positions, (lists, WIDTH)."""

    def work(start: int, stop: int) -> list[Array]:
        return [rows.walk(members) for members in lists[start:stop]]

    block = -(-len(lists) // (4 * thread_count()))
    return np.concatenate(over_blocks(len(lists), work, block))


def information(stats: Array) -> Array:
    """Σw²p(1-p) over the largest weight squared: a quarter of the equivalent number of rows with probability 1/2."""
    top = stats[..., kernels.TOP]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(top > 0, stats[..., kernels.VARIANCE] / top**2, 0.0)


def search_lists(rows: Ordered, subpopulations: Parts, least_information: float = 0.0) -> Search:
    """The statistics of given subpopulations; equal ones are merged under the name of the first."""
    distinct: dict[int, tuple[Array, Definition]] = {}
    for members, definition in chain([(rows.everyone, Definition())], subpopulations):
        distinct.setdefault(kernels.fingerprint(members), (members, definition))
    measured = list(distinct.values())
    stats = walk_lists(rows, [members for members, _ in measured])
    enough = information(stats) >= least_information
    enough[0] = True
    ordered_by_size = [measured[k] for k in np.argsort(~enough, kind="stable")]
    return Search(
        stats[enough], stats[~enough], lambda k: ordered_by_size[k][1], lambda k: ordered_by_size[k][0]
    )


Split = tuple[int, int, int]  # column, threshold and side
PathLevel = tuple[
    int, tuple[Split, ...], Array
]  # path, its splits so far, and the statistics of the rows left


@dataclass(eq=False)
class PathSearch:
    """Random paths (Algorithm 1), until there are enough different subpopulations or no new ones occur.

    Attributes
    ----------
    rows : Ordered
    covariates : list of Covariate
        The columns that are split.
    seed : int
    least : int
        Minimum number of rows of a subpopulation.
    least_information : float
        Minimum information; subpopulations with less are listed as too small.
    """

    rows: Ordered
    covariates: list[Covariate]
    seed: int
    least: int
    least_information: float

    def __post_init__(self) -> None:
        self.everyone = self.rows.everyone
        self.fingerprints = {kernels.fingerprint(self.everyone)}
        self.large: list[PathLevel] = []
        self.small: list[PathLevel] = []

    def run(self, count: int) -> Search:
        """Find `count` subpopulations beside the full population."""
        path, idle = 0, 0
        longest = math.log2(max(self.rows.rows / self.least, 2.0))
        while len(self.large) < count and idle < MAX_IDLE_PATHS:
            before = len(self.large)
            mean_length = (before + len(self.small)) / path if path else 0
            estimate = math.ceil(0.9 * (count - before) / max(mean_length or longest, 0.1))
            paths = min(max(estimate, thread_count()), 4 * MAX_IDLE_PATHS)
            self._round(path, paths, count)
            path += paths
            idle = idle + paths if len(self.large) == before else 0
        rows_of_path = lru_cache(maxsize=1)(self._rows_of_path)
        # The full population is what is left of any path, here the first, before its first split.
        levels = [(0, (), self.rows.walk(self.everyone)), *self.large, *self.small]

        def members(k: int) -> Array:
            path, splits, _ = levels[k]
            return rows_of_path(path)[len(splits)]

        stats = np.array([level_stats for _, _, level_stats in levels])
        large, small = np.split(stats, [1 + len(self.large)])
        return Search(large, small, lambda k: self._definition(levels[k]), members)

    def descend(self, path: int, lists: Array) -> Iterator[tuple[Split, Array]]:
        """The splits of a path and the rows that each leaves: random column, random side, until too few remain.

        Columns that are constant are skipped for the rest of the path. `lists`, (2, rows), is scratch memory: to
        allocate it for each path takes a tenth of the time.
        """
        path_seed, rows, turn, depth = kernels.random_word(self.seed, path), self.everyone, 0, 0
        candidates = list(range(len(self.covariates)))
        while candidates and depth < kernels.DEEPEST:
            pick = kernels.random_word(path_seed, turn) % len(candidates)
            upper = kernels.random_word(path_seed, turn + 1) >> 63
            turn += 2
            column, out = candidates[pick], lists[depth & 1]
            covariate, order = self.covariates[column], self._level_order(path_seed, column)
            threshold, n_rows = kernels.half(covariate.codes, covariate.count, order, upper, rows, out)
            if not threshold:
                candidates[pick] = candidates[-1]
                candidates.pop()
                continue
            if n_rows < self.least:
                return
            rows, depth = out[:n_rows], depth + 1
            yield (column, threshold, upper), rows

    def _level_order(self, path_seed: int, column: int) -> Array:
        """The random order of a nominal column's levels on a path; empty for a column that has an order."""
        covariate = self.covariates[column]
        return kernels.shuffled(path_seed, column, covariate.count) if covariate.nominal else IN_ORDER

    def _round(self, first: int, paths: int, count: int) -> None:
        def work(start: int, stop: int) -> list[tuple[PathLevel, int]]:
            lists = np.empty((2, self.everyone.size), np.int32)
            return [level for k in range(start, stop) for level in self._path_levels(first + k, lists)]

        block = -(-paths // thread_count())
        for level, fingerprint in chain.from_iterable(over_blocks(paths, work, block)):
            if fingerprint in self.fingerprints or len(self.large) >= count:
                continue
            self.fingerprints.add(fingerprint)
            enough = information(level[2]) >= self.least_information
            (self.large if enough else self.small).append(level)

    def _path_levels(self, path: int, lists: Array) -> list[tuple[PathLevel, int]]:
        """The subpopulations of a path, each with a fingerprint that equal ones share."""
        levels, splits = [], []
        for split, rows in self.descend(path, lists):
            stats = self.rows.walk(rows)
            splits.append(split)
            levels.append(((path, tuple(splits), stats), kernels.fingerprint(rows)))
            # Without weights fewer rows hold less information; with them, dropping a heavy row can leave more.
            if not self.rows.weight.size and stats[kernels.VARIANCE] < self.least_information:
                break
        return levels

    def _definition(self, level: PathLevel) -> Definition:
        """The definition of a subpopulation: each split adds or narrows one condition."""
        path, splits, _ = level
        bounds: dict[int, tuple[int, int]] = {}
        for j, threshold, upper in splits:
            low, high = bounds.get(j, (0, self.covariates[j].count))
            bounds[j] = (threshold, high) if upper else (low, threshold)  # which lies between the two
        path_seed = kernels.random_word(self.seed, path)
        conditions = tuple(
            interval_condition(self.covariates[j], *ends, self._level_order(path_seed, j))
            for j, ends in bounds.items()
        )
        words = " and ".join(condition.words() for condition in conditions)
        return Definition(conditions, given=words or None)

    def _rows_of_path(self, path: int) -> list[Array]:
        """The rows of each level of a path, the full population first; the path is descended again."""
        lists = np.empty((2, self.everyone.size), np.int32)
        return [self.everyone, *(rows.copy() for _, rows in self.descend(path, lists))]
