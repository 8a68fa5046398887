"""Walk over many subpopulations of rows in memory: sort once; then lists of positions, a child filters its parent's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from miscal.kernels import subpopulation as kernels
from miscal.kernels.sorting import sorted_order
from miscal.kernels.threads import over_blocks, thread_count
from miscal.pairs import Pair
from miscal.pooling.subpopulations import Covariate, Definition, path_definitions

NOTHING = np.empty(0)
IDLE_PATHS = 64  # paths in a row without a new subpopulation after which there are taken to be no more


@dataclass(frozen=True, eq=False)
class Ordered:
    """Rows sorted by (score, outcome, weight): everything after this is the same for any order of the rows.

    signed : scores, the sign bit set where the outcome is 0; for real responses the plain scores
    observed : real responses, else empty;  weight, second, largest : w·count, w²·count and w, empty when all are 1
    how : 0, or how the variance of real responses is estimated
    """

    order: np.ndarray
    signed: np.ndarray
    observed: np.ndarray = field(default_factory=lambda: NOTHING)
    weight: np.ndarray = field(default_factory=lambda: NOTHING)
    second: np.ndarray = field(default_factory=lambda: NOTHING)
    largest: np.ndarray = field(default_factory=lambda: NOTHING)
    how: int = 0

    @property
    def rows(self) -> int:
        return int(self.signed.size)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the walking kernels take first."""
        return self.signed, self.observed, self.weight, self.second, self.largest, self.how

    @property
    def everyone(self) -> np.ndarray:
        """The list of the full population."""
        return np.arange(self.rows, dtype=np.int32)

    def positions(self) -> np.ndarray:
        """Where each given row stands among the sorted ones."""
        place = np.empty(self.rows, np.int32)
        place[self.order] = self.everyone
        return place

    def residual(self) -> np.ndarray:
        """w·count·(outcome - score), in order."""
        outcome = self.observed if self.observed.size else (~np.signbit(self.signed)).astype(np.float64)
        residual = outcome - (self.signed if self.observed.size else np.abs(self.signed))
        return np.asarray(residual * self.weight) if self.weight.size else residual


def ordered(pair: Pair) -> Ordered:
    """Sort the rows of a comparison."""
    if not pair.binary:
        return ordered_real(pair.predicted, pair.observed, pair.first, kernels.CORRECTED)
    order = _by(pair.predicted, pair.observed, pair.weight, pair.count)
    signed = pair.predicted[order]
    np.negative(signed, out=signed, where=pair.observed[order] == 0)
    if pair.first is None or pair.second is None:
        return Ordered(order, signed)
    largest = np.ones(order.size) if pair.weight is None else pair.weight[order]
    return Ordered(order, signed, NOTHING, pair.first[order], pair.second[order], largest)


def ordered_real(score: np.ndarray, response: np.ndarray, weight: np.ndarray | None, how: int) -> Ordered:
    """Sort the rows of a comparison of real responses."""
    order = _by(score, response, weight, None)
    first = NOTHING if weight is None else weight[order]
    return Ordered(order, score[order], response[order], first, first * first, first, how)


def _by(score: np.ndarray, outcome: np.ndarray, weight: np.ndarray | None, count: np.ndarray | None) -> np.ndarray:
    order = np.arange(score.size, dtype=np.int32)
    for values in (count, weight, outcome, score):
        if values is outcome and outcome.dtype.kind in "ui":
            events = outcome[order] != 0
            order = np.concatenate([order[~events], order[events]])
        elif values is not None:
            order = order[sorted_order(values[order].astype(np.float64, copy=False))]
    return order


@dataclass(frozen=True, eq=False)
class Lists:
    """Positions of the rows of several subpopulations, one after the other."""

    members: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, lists: Sequence[np.ndarray]) -> Lists:
        """Put lists together."""
        offsets = np.concatenate([[0], np.cumsum([rows.size for rows in lists])]).astype(np.int64)
        members = np.concatenate(lists) if lists else np.empty(0)
        return cls(members.astype(np.int32, copy=False), offsets)

    def list(self, k: int) -> np.ndarray:
        """One subpopulation's positions."""
        return self.members[self.offsets[k] : self.offsets[k + 1]]


@dataclass(frozen=True, eq=False)
class Search:
    """Subpopulations found, the full population first: what their walks left behind, and how to get at the rest.

    stats : (K, WIDTH), columns as in `kernels.subpopulation`
    too_small : (J, WIDTH) of those left out because they hold too little information
    """

    stats: np.ndarray
    too_small: np.ndarray
    define: Callable[[int], Definition]
    define_small: Callable[[int], Definition]
    lists: Callable[[np.ndarray], Lists]


def walk_lists(rows: Ordered, lists: Sequence[np.ndarray]) -> np.ndarray:
    """Statistics of the walks over lists of positions."""
    stats = np.zeros((len(lists), kernels.WIDTH))

    def work(start: int, stop: int) -> None:
        for k in range(start, stop):
            kernels.walk_list(*rows.arguments, lists[k], stats[k])

    over_blocks(len(lists), work, max(1, -(-len(lists) // (4 * thread_count()))))
    return stats


def information(stats: np.ndarray) -> np.ndarray:
    """Σw²p(1-p) over the largest weight squared: how many rows at probability one half, times a quarter, it is like."""
    top = stats[:, kernels.TOP]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(top > 0, stats[:, kernels.VARIANCE] / top**2, 0.0))


def search_lists(
    rows: Ordered, lists: list[np.ndarray], definitions: list[Definition], least_information: float = 0.0
) -> Search:
    """Measure given subpopulations; equal ones are merged, the first name stays."""
    firsts: dict[int, int] = {}
    every, names = [rows.everyone, *lists], [Definition(), *definitions]
    for k, members in enumerate(every):
        firsts.setdefault(int(kernels.fingerprint(members)), k)
    kept = np.array(list(firsts.values()))
    stats = walk_lists(rows, [every[k] for k in kept])
    enough = information(stats) >= least_information
    enough[0] = True
    inside, outside = kept[enough], kept[~enough]
    return Search(
        stats[enough],
        stats[~enough],
        [names[k] for k in inside].__getitem__,
        [names[k] for k in outside].__getitem__,
        lambda chosen: Lists.of([every[inside[k]] for k in chosen]),
    )


class PathSearch:
    """Random paths (Algorithm 1) until enough different subpopulations are found or no new ones turn up."""

    def __init__(
        self, rows: Ordered, covariates: list[Covariate], seed: int, least: int, least_information: float
    ) -> None:
        self.rows, self.covariates, self.least, self.least_information = rows, covariates, least, least_information
        self.seed, self.everyone = np.uint64(seed), rows.everyone
        self.levels = np.array([one.count for one in covariates], np.int64)
        nominal = np.array([one.nominal for one in covariates])
        self.data = np.stack([one.codes for one in covariates]), self.levels, nominal, self.everyone
        self.marks: set[int] = set()
        self.found: list[tuple[int, int, np.ndarray]] = []  # path, level and what its walk left behind
        self.small: list[tuple[int, int, np.ndarray]] = []
        self.splits: dict[int, np.ndarray] = {}
        self.named: tuple[int, list[Definition]] = (-1, [])  # the levels of one path at a time

    def run(self, count: int) -> Search:
        """Find `count` subpopulations beside the full population."""
        self.marks.add(int(kernels.fingerprint(self.everyone)))
        path, idle = 0, 0
        longest = max(1.0, math.log2(max(self.rows.rows / self.least, 2.0)))
        while len(self.found) < count and idle < IDLE_PATHS:
            lengths = path and (len(self.found) + len(self.small)) / path
            asked = math.ceil(0.9 * (count - len(self.found)) / max(lengths or longest, 0.1))
            paths = min(max(asked, thread_count()), 4 * IDLE_PATHS)
            before = len(self.found)
            self._round(path, paths, count)
            path += paths
            idle = idle + paths if len(self.found) == before else 0
        full = walk_lists(self.rows, [self.everyone])
        return Search(
            np.concatenate([full, *(stats[None] for _, _, stats in self.found)]),
            np.array([stats for _, _, stats in self.small]).reshape(-1, full.shape[1]),
            lambda k: Definition() if k == 0 else self.define(*self.found[k - 1][:2]),
            lambda k: self.define(*self.small[k][:2]),
            self.lists,
        )

    def _round(self, first: int, paths: int, count: int) -> None:
        deep = (paths, kernels.DEEPEST)
        depths, marks = np.zeros(paths, np.int64), np.zeros(deep, np.uint64)
        splits, stats = np.zeros((*deep, 3), np.int32), np.zeros((*deep, kernels.WIDTH))

        def work(start: int, stop: int) -> None:
            lists = np.empty((2, self.everyone.size), np.int32)
            for k in range(start, stop):
                how = np.uint64(kernels.path_seed(self.seed, first + k)), self.least, self.least_information
                made = lists, splits[k], stats[k], marks[k]
                depths[k] = kernels.random_path(*self.data, *self.rows.arguments, *how, *made)

        over_blocks(paths, work, max(1, -(-paths // thread_count())))
        for k in range(paths):
            self._take(first + k, int(depths[k]), splits[k], stats[k], marks[k].tolist(), count)

    def _take(self, path: int, depth: int, splits: np.ndarray, stats: np.ndarray, marks: list[int], count: int) -> None:
        enough = information(stats[:depth]) >= self.least_information
        for level in range(depth):
            if len(self.found) >= count:
                return
            if marks[level] in self.marks:
                continue
            self.marks.add(marks[level])
            (self.found if enough[level] else self.small).append((path, level, stats[level].copy()))
            self.splits[path] = splits[:depth].copy()

    def define(self, path: int, level: int) -> Definition:
        """What a level of a path means."""
        if path != self.named[0]:
            own, splits = np.uint64(kernels.path_seed(self.seed, path)), self.splits[path]
            columns = [j for j in set(splits[:, 0].tolist()) if self.covariates[j].nominal]
            shuffles = {j: kernels.shuffled(own, j, self.levels[j]) for j in columns}
            self.named = (path, path_definitions(self.covariates, splits, shuffles))
        return self.named[1][level]

    def lists(self, chosen: np.ndarray) -> Lists:
        """Positions of some subpopulations, 0 being the full one: the paths are taken once more."""
        places = [None if k == 0 else self.found[k - 1] for k in chosen]
        sizes = [self.rows.rows if place is None else int(place[2][kernels.ROWS]) for place in places]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        members = np.empty(int(offsets[-1]), np.int32)
        by_path: dict[int, dict[int, int]] = {}  # where the list of each wanted level of a path starts
        for place, start in zip(places, offsets[:-1].tolist(), strict=True):
            if place is None:
                members[start : start + self.rows.rows] = self.everyone
            else:
                by_path.setdefault(place[0], {})[place[1]] = start
        for path, levels in by_path.items():
            depth = max(levels) + 1
            wanted, starts = np.zeros(depth, np.bool_), np.zeros(depth, np.int64)
            wanted[list(levels)], starts[list(levels)] = True, list(levels.values())
            own = np.uint64(kernels.path_seed(self.seed, path))
            kernels.follow_path(*self.data, own, self.splits[path][:depth], wanted, members, starts)
        return Lists(members, offsets)
