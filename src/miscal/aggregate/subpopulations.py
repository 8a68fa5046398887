"""Walk over many subpopulations of rows in memory: sort once; then lists of positions, a child filters its parent's."""

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

NOTHING = np.empty(0)
IDLE_PATHS = 64  # paths in a row without a new subpopulation after which there are taken to be no more


@dataclass(frozen=True, eq=False)
class Ordered:
    """Rows sorted by (score, outcome, weight): everything after this is the same for any order of the rows.

    signed : scores, the sign bit set where the outcome is 0; for real responses the plain scores
    observed : real responses, else empty;  weight, second, largest : w·count, w²·count and w, empty when all are 1
    how : 0, or how the variance of real responses is estimated
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
        """The list of the full population."""
        return np.arange(self.rows, dtype=np.int32)

    def walk(self, members: Array) -> Array:
        """What the walk over a list of positions leaves behind, (WIDTH,)."""
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
        """w²·count·(outcome - score)², in order: the variance that each row shows."""
        outcome = self.observed if self.observed.size else ~np.signbit(self.signed)
        squares = (outcome - self.score) ** 2
        return squares * self.second if self.second.size else squares


def ordered(pair: TargetData) -> Ordered:
    """Sort the rows of a comparison."""
    if not pair.binary:
        return ordered_real(pair.predicted, pair.observed, pair.first, kernels.CORRECTED)
    order = _by(pair.predicted, pair.observed, pair.weight, pair.count)
    signed = pair.predicted[order]
    np.negative(signed, out=signed, where=pair.observed[order] == 0)
    if pair.first is None or pair.second is None:
        return Ordered(order, signed, NOTHING, NOTHING, NOTHING, NOTHING)
    first, second, largest = (values[order] for values in (pair.first, pair.second, pair.sampling))
    return Ordered(order, signed, NOTHING, first, second, largest)


def ordered_real(score: Array, response: Array, weight: Array | None, how: int) -> Ordered:
    """Sort the rows of a comparison of real responses."""
    order = _by(score, response, weight, None)
    first = NOTHING if weight is None else weight[order]
    return Ordered(order, score[order], response[order], first, first * first, first, how)


def _by(score: Array, outcome: Array, weight: Array | None, count: Array | None) -> Array:
    order = np.arange(score.size, dtype=np.int32)
    for values in (count, weight, outcome, score):
        if values is not None:
            order = order[sorted_order(values[order])]
    return order


@dataclass(frozen=True, eq=False)
class Search:
    """Subpopulations found, the full population first: what their walks left behind, and how to get at the rest.

    stats : (K, WIDTH), columns as in `kernels.subpopulation`
    too_small : (J, WIDTH) of those left out because they hold too little information
    define, members : what each is, and the positions of its rows, of those left out after the others; quickest in order
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
    """Statistics of the walks over lists of positions."""

    def work(start: int, stop: int) -> list[Array]:
        return [rows.walk(members) for members in lists[start:stop]]

    block = -(-len(lists) // (4 * thread_count()))
    return np.concatenate(over_blocks(len(lists), work, block))


def information(stats: Array) -> Array:
    """Σw²p(1-p) over the largest weight squared: how many rows at probability one half, times a quarter, it is like."""
    top = stats[..., kernels.TOP]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(top > 0, stats[..., kernels.VARIANCE] / top**2, 0.0)


def search_lists(rows: Ordered, subpopulations: Parts, least_information: float = 0.0) -> Search:
    """Measure given subpopulations; equal ones are merged, the first name stays."""
    firsts: dict[int, tuple[Array, Definition]] = {}
    for members, name in chain([(rows.everyone, Definition())], subpopulations):
        firsts.setdefault(kernels.fingerprint(members), (members, name))
    kept = list(firsts.values())
    stats = walk_lists(rows, [members for members, _ in kept])
    enough = information(stats) >= least_information
    enough[0] = True
    order = np.argsort(~enough, kind="stable")
    found = [kept[k] for k in order]
    return Search(stats[enough], stats[~enough], lambda k: found[k][1], lambda k: found[k][0])


Split = tuple[int, int, int]  # column, threshold and side
Found = tuple[int, tuple[Split, ...], Array]  # path, its splits so far and what the walk left behind


@dataclass(eq=False)
class PathSearch:
    """Random paths (Algorithm 1) until enough different subpopulations are found or no new ones turn up."""

    rows: Ordered
    covariates: list[Covariate]
    seed: int
    least: int
    least_information: float

    def __post_init__(self) -> None:
        self.everyone = self.rows.everyone
        self.marks = {kernels.fingerprint(self.everyone)}
        self.found: list[Found] = []
        self.small: list[Found] = []

    def run(self, count: int) -> Search:
        """Find `count` subpopulations beside the full population."""
        path, idle = 0, 0
        longest = math.log2(max(self.rows.rows / self.least, 2.0))
        while len(self.found) < count and idle < IDLE_PATHS:
            before = len(self.found)
            length = (before + len(self.small)) / path if path else 0
            asked = math.ceil(0.9 * (count - before) / max(length or longest, 0.1))
            paths = min(max(asked, thread_count()), 4 * IDLE_PATHS)
            self._round(path, paths, count)
            path += paths
            idle = idle + paths if len(self.found) == before else 0
        listed = lru_cache(maxsize=1)(self._listed)  # of one path at a time
        # All rows are what a path, the first for instance, leaves before its first split.
        every = [(0, (), self.rows.walk(self.everyone)), *self.found, *self.small]

        def members(k: int) -> Array:
            path, splits, _ = every[k]
            return listed(path)[len(splits)]

        large, small = np.split(np.array([one[2] for one in every]), [1 + len(self.found)])
        return Search(large, small, lambda k: self._named(every[k]), members)

    def descend(self, path: int, lists: Array) -> Iterator[tuple[Split, Array]]:
        """The splits of a path and the rows that each leaves: random column, random side, until too few remain.

        Columns that are constant are put aside for the rest of the path. `lists` (2, rows) is scratch: to ask for it
        anew for each path takes a tenth of the time.
        """
        own, rows, turn, depth = kernels.random_word(self.seed, path), self.everyone, 0, 0
        alive = list(range(len(self.covariates)))
        while alive and depth < kernels.DEEPEST:
            pick = kernels.random_word(own, turn) % len(alive)
            upper = kernels.random_word(own, turn + 1) >> 63
            turn += 2
            column, made = alive[pick], lists[depth & 1]
            one, order = self.covariates[column], self._order(own, column)
            threshold, found = kernels.half(one.codes, one.count, order, upper, rows, made)
            if not threshold:
                alive[pick] = alive[-1]
                alive.pop()
                continue
            if found < self.least:
                return
            rows, depth = made[:found], depth + 1
            yield (column, threshold, upper), rows

    def _order(self, own: int, column: int) -> Array:
        """The order of a nominal column's levels on a path; empty of one that has its own."""
        one = self.covariates[column]
        return kernels.shuffled(own, column, one.count) if one.nominal else IN_ORDER

    def _round(self, first: int, paths: int, count: int) -> None:
        def work(start: int, stop: int) -> list[tuple[Found, int]]:
            lists = np.empty((2, self.everyone.size), np.int32)
            return [level for k in range(start, stop) for level in self._walked(first + k, lists)]

        block = -(-paths // thread_count())
        for one, mark in chain.from_iterable(over_blocks(paths, work, block)):
            if mark in self.marks or len(self.found) >= count:
                continue
            self.marks.add(mark)
            enough = information(one[2]) >= self.least_information
            (self.found if enough else self.small).append(one)

    def _walked(self, path: int, lists: Array) -> list[tuple[Found, int]]:
        """The subpopulations of a path, each with a mark that equal ones share."""
        levels, splits = [], []
        for split, rows in self.descend(path, lists):
            stats = self.rows.walk(rows)
            splits.append(split)
            levels.append(((path, tuple(splits), stats), kernels.fingerprint(rows)))
            # Without weights fewer rows hold less information; with them, dropping a heavy row can leave more.
            if not self.rows.weight.size and stats[kernels.VARIANCE] < self.least_information:
                break
        return levels

    def _named(self, found: Found) -> Definition:
        """What a subpopulation is: each split adds or narrows one condition."""
        path, splits, _ = found
        bounds: dict[int, tuple[int, int]] = {}
        for j, threshold, upper in splits:
            low, high = bounds.get(j, (0, self.covariates[j].count))
            bounds[j] = (threshold, high) if upper else (low, threshold)  # which lies between the two
        own = kernels.random_word(self.seed, path)
        conditions = tuple(
            interval_condition(self.covariates[j], *ends, self._order(own, j)) for j, ends in bounds.items()
        )
        return Definition(conditions, given=" and ".join(one.words() for one in conditions) or None)

    def _listed(self, path: int) -> list[Array]:
        """The rows of the levels of a path, all of them first; it is taken once more."""
        lists = np.empty((2, self.everyone.size), np.int32)
        return [self.everyone, *(rows.copy() for _, rows in self.descend(path, lists))]
