"""Local sums: for each query, values summed over the points of its cell, weighted by nearness. The one way in.

Which algorithm serves is decided here: exact divide and conquer for the Laplacian in one and two dimensions where it
pays, in O(n log^(d-1) n), pairs otherwise, tile by tile (both in `pairs`), on an accelerator where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
from miscal.kernels.sorting import Array, sorted_order
from miscal.kernels.threads import over_blocks
from miscal.kernels.pairs import add_tiles, sweep

Weigh = Callable[[Array, Array], Any]
Kernel = str | Weigh

# Mean points of a cell, the cells weighted by their points, from which divide and conquer is quicker than pairs, by
# dimension: measured on one thread with two columns.
CROSSOVER = {1: 150, 2: 450}
# Scales: so that distances times them are 0 or not, and FAR times them is not 0.
FLATTEST, STEEPEST = 1e-290, 1e300
DEVICE_WORK = 2e9  # pairs times features from which an accelerator is worth its import
FAR = 1e300  # the distance of what is not there: finite, so that FAR - FAR is 0 and not NaN
SLACK = 50.0  # how far, in exponents, a point may be closer than the reference of a sweep
LEAF = 32  # points of a plane below which all pairs are cheaper than another split
TILE = 256
ENTRIES = 1_000_000  # weights that a given kernel makes in one call, unless one query has more
SHARES = 16  # parts of the tiles with sums of their own; fixed, so that the bits do not depend on the threads
BUDGET = 1 << 26  # bytes for the sums of all parts


@dataclass(frozen=True)
class Problem:
    """Sources and queries, each with the rows of a cell together, the first feature ascending."""

    points: Array  # (n, d)
    values: Array  # (n, m)
    starts: Array  # (cells + 1,)
    queries: Array  # (q, d); the points themselves when `same`
    query_starts: Array
    same: bool
    own: bool

    @property
    def counts_itself(self) -> bool:
        """Whether every query is a source too: no sum vanishes then."""
        return self.same and self.own

    def own_place(self) -> Array:
        """The place of each query among the sources when it is to be left out, else -1."""
        if self.same and not self.own:
            return np.arange(len(self.points))
        return np.full(len(self.queries), -1)

    def pairs(self) -> float:
        """How many there are."""
        sources = np.diff(self.starts).astype(float)
        return float(sources @ np.diff(self.query_starts))


def local_sums(
    features: Array,
    cells: Array,
    values: Array,
    bandwidths: Array,
    *,
    kernel: Kernel = "laplacian",
    queries: tuple[Array, Array] | None = None,
    own: bool = True,
    method: str = "auto",
    device: str = "auto",
) -> Array:
    """Sum values over the points of each query's cell, weighted by the kernel: (bandwidths, queries, columns).

    A query that does not count for itself has sums relative to the weight of its nearest point, or one about as near:
    their ratios mean something even where all weights vanish. A query without any source has sums of 0.

    Parameters
    ----------
    features : (n, d) float64, finite
    cells : (n,) integers from 0
        Points of other cells do not count.
    values : (n, m) float64
        Columns to sum, such as weight, weight * predicted, weight * observed.
    bandwidths : (b,) float64 > 0, inf allowed
    kernel : str or callable
        "laplacian" exp(-L1 / (d bandwidth)), "gaussian" exp(-squared distance / (2 d bandwidth²)), "group" (1 where all
        features are equal, else 0), or a function of (a, d) and (b, d) that gives (a, b) weights >= 0, for which
        bandwidths mean nothing.
    queries : (q, d) features and (q,) cells, optional
        The points themselves when not given.
    own : bool
        Whether a point counts for itself when the queries are the points.
    method : {"auto", "exact", "pairs"}
        "exact" is divide and conquer, for the Laplacian in one and two dimensions.
    device : {"auto", "cpu", "cuda"}
        Where pairs are computed.
    """
    if kernel == "group":  # the points of a group are cells of their own, all in one place
        keys = np.column_stack([cells, features])
        if queries is not None:
            keys = np.concatenate([keys, np.column_stack(queries[::-1])])
        codes = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        nowhere = np.zeros((len(codes), 1))
        count = len(cells)
        features, cells = nowhere[:count], codes[:count]
        if queries is not None:
            queries = nowhere[count:], codes[count:]
        bandwidths = np.full(bandwidths.size, np.inf)
    problem, order = arranged(features, cells, values, queries, own)
    sums = np.empty((bandwidths.size, len(order), values.shape[1]))
    scales = scales_of(bandwidths, features.shape[1], kernel)
    flat = np.isinf(bandwidths) & (own or not problem.same)
    if callable(kernel):
        sums[:, order] = given_kernel_sums(problem, kernel)
    elif _exact_pays(problem, kernel, method):
        for b in np.flatnonzero(~flat):
            sums[b][order] = laplacian_sums(problem, scales[b])
    elif not flat.all():
        made = all_pairs(problem, scales[~flat], kernel == "gaussian", device)
        sums[np.ix_(~flat, order)] = made
    # Every weight is 1: the same for all rows of a cell, to the last digit.
    if flat.any() and not callable(kernel):
        codes, asking = _codes(problem.starts), _codes(problem.query_starts)
        totals = [np.bincount(codes, column, problem.starts.size - 1) for column in problem.values.T]
        sums[np.ix_(flat, order)] = np.stack(totals, axis=1)[asking]
    return sums


def laplacian_energy(scores: Array, residuals: Array, bandwidth: float) -> float:
    """Σ_i Σ_j r_i r_j exp(-|s_i - s_j| / bandwidth)."""
    cells, bandwidths = np.zeros(scores.size, np.int64), np.array([bandwidth])
    sums = local_sums(scores[:, None], cells, residuals[:, None], bandwidths)
    return float(residuals @ sums[0, :, 0])


def device_available() -> bool:
    """Whether pairs can be computed on an accelerator here: torch sees one, and triton is there."""
    if find_spec("torch") is None or find_spec("triton") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def arranged(
    features: Array, cells: Array, values: Array, queries: tuple[Array, Array] | None, own: bool
) -> tuple[Problem, Array]:
    """Put the rows of a cell together; also return the rows of the queries in that order."""
    asked, asked_cells = (features, cells) if queries is None else queries
    count = 1 + max(each.max(initial=-1) for each in (cells, asked_cells))
    order, starts = _by_cell(features[:, 0], cells, count)
    points, columns = features.take(order, axis=0), values.take(order, axis=0)
    problem = Problem(points, columns, starts, points, starts, same=True, own=own)
    if queries is None:
        return problem, order
    order, starts = _by_cell(asked[:, 0], asked_cells, count)
    placed = asked.take(order, axis=0)
    return replace(problem, queries=placed, query_starts=starts, same=False), order


def _by_cell(key: Array, cells: Array, count: int) -> tuple[Array, Array]:
    """Positions sorted by cell and within a cell by the key, and where each cell begins."""
    small = cells.astype(np.uint16) if count < 1 << 16 else cells  # numpy sorts 16 bits by radix
    sizes = np.bincount(cells, minlength=count)
    order = sorted_order(key)
    order = order[np.argsort(small[order], kind="stable")]
    return order, np.append(0, np.cumsum(sizes))


def scales_of(bandwidths: Array, dimensions: int, kernel: Kernel) -> Array:
    """What a distance (Gaussian: a squared one; group: any) is multiplied by to be an exponent."""
    if kernel == "group":
        return np.full(bandwidths.size, STEEPEST)
    with np.errstate(divide="ignore", over="ignore"):
        width = 2.0 * bandwidths**2 if kernel == "gaussian" else bandwidths
        return np.clip(1.0 / (dimensions * width), FLATTEST, STEEPEST)


def _codes(starts: Array) -> Array:
    """The cell of each row."""
    return np.repeat(np.arange(starts.size - 1), np.diff(starts))


def _exact_pays(problem: Problem, kernel: Kernel, method: str) -> bool:
    """Whether divide and conquer, whose cost grows as the points, is quicker than pairs."""
    least = CROSSOVER.get(problem.points.shape[1])
    if kernel == "gaussian" or least is None or method == "pairs":
        return False
    rows = (len(problem.points) + len(problem.queries)) / 2.0
    return method == "exact" or problem.pairs() >= least * rows


def all_pairs(problem: Problem, scales: Array, square: bool, device: str) -> Array:
    """Sums (b, q, m) by pairs, on an accelerator where that is asked for or pays.

    They are relative to the weight of each query's nearest source, unless every query is a source too.
    """
    least = DEVICE_WORK if device == "auto" else 1.0
    work = problem.pairs() * problem.points.shape[1]
    if device != "cpu" and work >= least and device_available():
        from miscal.kernels.pairs_device import device_sums

        return device_sums(problem, scales, square)
    reference = np.full(len(problem.queries), 0.0 if problem.counts_itself else FAR)
    sums = np.zeros((scales.size, len(reference), problem.values.shape[1]))
    add_pairs(problem, scales, square, reference, sums)
    return sums


def add_pairs(problem: Problem, scales: Array, square: bool, reference: Array, sums: Array) -> None:
    """Add kernel * values over the sources of each query's cell to its sums, relative to a reference that follows.

    sums (b, q, m) are those of exp((reference - distance) * scale); reference (q,), FAR where there is none yet. Where
    all count for themselves each pair is looked at once, for both.
    """
    turned = [np.ascontiguousarray(each.T) for each in (problem.points, problem.values)]
    given = *turned, problem.queries, problem.own_place(), scales, square
    mirrored = problem.counts_itself
    tiles = _tiles(problem, mirrored)
    if not mirrored:

        def add(start: int, stop: int) -> None:
            add_tiles(*given, tiles[start:stop], mirrored, reference, sums)

        over_blocks(len(tiles), add, 1 + len(tiles) // 256)
        return
    shares = max(1, min(SHARES, BUDGET // max(1, sums.nbytes), len(tiles)))
    parts = np.zeros((shares, *sums.shape))

    def add_share(i: int, _: int) -> None:
        own = np.ascontiguousarray(tiles[i::shares])
        add_tiles(*given, own, mirrored, reference, parts[i])

    over_blocks(shares, add_share, 1)
    sums += parts.sum(axis=0) + problem.values


def _tiles(problem: Problem, halved: bool) -> Array:
    """Ranges of queries and of sources (low, high, low, high) that cover every cell, or the upper triangle of each."""
    tiles = []
    sides = pairwise(problem.starts.tolist()), pairwise(problem.query_starts.tolist())
    for (low, high), (start, stop) in zip(*sides, strict=True):
        for first in range(start, stop, TILE):
            here = first, min(first + TILE, stop)
            if halved:
                for other in range(first, high, TILE):
                    tiles.append((*here, other, min(other + TILE, high)))  # noqa: PERF401
            elif low < high:
                tiles.append((*here, low, high))
    return np.array(tiles, np.int64).reshape(-1, 4)


def given_kernel_sums(problem: Problem, given: Weigh) -> Array:
    """Sum given(queries, points) * values over each query's cell, in blocks -> (q, m); no threads: it is not ours."""
    sums = np.zeros((len(problem.queries), problem.values.shape[1]))
    for start, stop, low, high in _tiles(problem, halved=False):
        size = max(1, ENTRIES // (high - low))
        for first in range(start, stop, size):
            last = min(first + size, stop)
            queries, points = problem.queries[first:last], problem.points[low:high]
            weights = np.array(given(queries, points), float)
            if weights.shape != (len(queries), len(points)):
                raise ValueError(
                    f"it gave the shape {weights.shape} for {len(queries)} and {len(points)} points"
                )
            if not ((weights >= 0) & (weights < np.inf)).all():
                raise ValueError("it gave a weight that is negative, infinite or not a number")
            if problem.same and not problem.own:
                rows = np.arange(last - first)
                weights[rows, rows + first - low] = 0.0
            sums[first:last] = weights @ problem.values[low:high]
    return sums


# ------------------------------------------------------------------------------------------------- divide and conquer
def laplacian_sums(problem: Problem, scale: float) -> Array:
    """Sum exp(-L1 distance * scale) * values over the sources of each query's cell, in one or two dimensions: (q, m).

    A plane is split level by level; the nodes of a level are shared out to threads. A row receives once from each level
    and levels follow each other, so the sums have the same bits for any threads. What is left, within small nodes, is
    added pair by pair.
    """
    points, values, nodes, gives, asks = _together(problem)
    line, slack = points.shape[1] == 1, SLACK / scale
    by_feature, source = np.ascontiguousarray(points.T), gives.astype(np.uint8)
    itself = problem.counts_itself
    reference = np.full(len(points), 0.0 if itself else FAR)
    sums = values.copy() if itself else np.zeros_like(values)
    order, _ = _by_cell(points[:, -1], _codes(nodes), nodes.size - 1)
    order = order.astype(np.uint32)
    smallest = 0 if line else LEAF
    while line or (np.diff(nodes) > LEAF).any():
        spans = np.stack([nodes[:-1], nodes[1:]], axis=1)
        spans = spans[np.diff(nodes) > smallest]

        def work(begin: int, end: int, spans: Array = spans) -> None:
            own = spans[begin:end]
            sweep(by_feature, order, own, source, values, scale, slack, reference, sums)

        over_blocks(len(spans), work, 1 + len(spans) // 256)
        if line:
            return sums[asks]
        nodes = np.sort(np.append(nodes, spans.sum(axis=1) // 2))
    starts, asked = (np.append(0, np.cumsum(each))[nodes] for each in (gives, asks))
    leaves = replace(problem, starts=starts, query_starts=asked, own=False)
    reference, sums = reference[asks], sums[asks]
    add_pairs(leaves, np.array([scale]), False, reference, sums[None])
    return sums


def _together(problem: Problem) -> tuple[Array, Array, Array, Array, Array]:
    """Points, values and starts of sources and queries sorted together, and which of them are sources and queries."""
    n = len(problem.points)
    if problem.same:
        every = np.ones(n, bool)
        return problem.points, problem.values, problem.starts, every, every
    points = np.concatenate([problem.points, problem.queries])
    values = np.zeros((len(points), problem.values.shape[1]))
    values[:n] = problem.values
    cells = np.append(_codes(problem.starts), _codes(problem.query_starts))
    order, starts = _by_cell(points[:, 0], cells, problem.starts.size - 1)
    return points[order], values[order], starts, order < n, order >= n
