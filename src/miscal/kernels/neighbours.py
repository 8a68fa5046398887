"""Local sums: for each query, values summed over the points of its cell, weighted by nearness. The one way in.

Which algorithm serves is decided here: sums of whole cells when the bandwidth is so large that every weight is 1, exact
divide and conquer for the Laplacian in one and two dimensions where it pays, in O(n log^(d-1) n) (`laplacian`), pairs
otherwise, tile by tile (`tiles`), on an accelerator where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from miscal.kernels.laplacian import add_pairs
from miscal.kernels.sorting import sorted_order
from miscal.kernels.threads import over_blocks
from miscal.kernels.tiles import one_way, others_in_cell, symmetric_tiles

Array = np.ndarray[Any, Any]
Weigh = Callable[[Array, Array], Any]
Kernel = str | Weigh
Span = tuple[int, int]

# Mean points of a cell, the cells weighted by their points, from which divide and conquer is quicker than pairs, by
# dimension: measured on one thread with two columns.
CROSSOVER = {1: 150, 2: 450}
FLAT = 1e-18  # exponents below this give weights of exactly 1
STEEPEST = 1e300
ALIKE = 1e3  # largest ratio of bandwidths that share one pass
DEVICE_WORK = 2e9  # pairs times features from which an accelerator is worth its import


class LocalSums(NamedTuple):
    """Sums and the exponent they are relative to: the sum itself is values * exp(-offset).

    values : (bandwidths, queries, columns); offset : (bandwidths, queries), 0 where a query counts for itself. A query
    without any source has sums of 0.
    """

    values: Array
    offset: Array


@dataclass(frozen=True)
class Problem:
    """Sources and queries, each with the rows of a cell together."""

    points: Array  # (n, d)
    values: Array  # (n, m)
    starts: Array  # (cells + 1,)
    queries: Array  # (q, d); the points themselves when `same`
    query_starts: Array
    same: bool
    own: bool

    def own_place(self) -> Array:
        """The place of each query among the sources when it is to be left out, else -1."""
        return np.arange(len(self.points)) if self.same and not self.own else np.full(len(self.queries), -1)

    def cells(self) -> Iterator[tuple[Span, Span]]:
        """Where the sources and where the queries of each cell lie."""
        return zip(pairwise(self.starts.tolist()), pairwise(self.query_starts.tolist()), strict=True)

    def pairs(self) -> float:
        """How many there are."""
        return float(np.dot(np.diff(self.starts).astype(np.float64), np.diff(self.query_starts)))


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
) -> LocalSums:
    """Sum values over the points of each query's cell, weighted by the kernel.

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
    if kernel == "group":
        cells, queries = _groups(features, cells, queries)
    problem, order = arranged(features, cells, values, queries, own)
    sums = np.zeros((bandwidths.size, len(order), values.shape[1]))
    offset = np.zeros((bandwidths.size, len(order)))
    if callable(kernel):
        sums[:] = given_kernel_sums(problem, kernel)
    elif kernel == "group":
        sums[:] = _cell_sums(problem)
    else:
        square = kernel == "gaussian"
        scales = _scales(bandwidths, features.shape[1], square)
        flat = scales * _extent(problem, square) < FLAT
        if flat.any():
            sums[flat] = _cell_sums(problem)
        exact = _exact_pays(problem, square, method)
        for some in _alike(scales, np.flatnonzero(~flat)):
            sums[some], reference = (
                _exact(problem, scales[some]) if exact else all_pairs(problem, scales[some], square, device)
            )
            offset[some] = reference * scales[some, None]
    placed = LocalSums(np.empty_like(sums), np.empty_like(offset))
    for b in range(bandwidths.size):
        placed.values[b][order] = sums[b]
        placed.offset[b][order] = offset[b]
    return placed


def device_available() -> bool:
    """Whether pairs can be computed on an accelerator here: torch sees one, and triton is there."""
    if find_spec("torch") is None or find_spec("triton") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def _groups(
    features: Array, cells: Array, queries: tuple[Array, Array] | None
) -> tuple[Array, tuple[Array, Array] | None]:
    """Cells within which all features are equal."""
    keys = np.column_stack([cells.astype(np.float64), features])
    if queries is None:
        return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1), None
    asked = np.column_stack([queries[1].astype(np.float64), queries[0]])
    codes = np.unique(np.concatenate([keys, asked]), axis=0, return_inverse=True)[1].reshape(-1)
    return codes[: len(keys)], (queries[0], codes[len(keys) :])


def arranged(
    features: Array, cells: Array, values: Array, queries: tuple[Array, Array] | None, own: bool
) -> tuple[Problem, Array]:
    """Put the rows of a cell together; also return the rows of the queries in that order."""
    asked_cells = cells if queries is None else queries[1]
    count = int(max(cells.max(initial=-1), asked_cells.max(initial=-1))) + 1
    order, starts = _by_cell(cells, count)
    points, columns = features.take(order, axis=0), values.take(order, axis=0)
    if queries is None:
        return Problem(points, columns, starts, points, starts, same=True, own=own), order
    asked, asked_starts = _by_cell(queries[1], count)
    return Problem(points, columns, starts, queries[0].take(asked, axis=0), asked_starts, same=False, own=own), asked


def _by_cell(cells: Array, count: int) -> tuple[Array, Array]:
    small = cells.astype(np.uint16) if count < 1 << 16 else cells  # numpy sorts 16 bits by radix
    starts = np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=count))])
    return np.argsort(small, kind="stable"), starts.astype(np.int64)


def _scales(bandwidths: Array, dimensions: int, square: bool) -> Array:
    with np.errstate(divide="ignore", over="ignore"):
        scales = 1.0 / (2.0 * dimensions * bandwidths**2) if square else 1.0 / (dimensions * bandwidths)
    return np.minimum(scales, STEEPEST)


def _alike(scales: Array, which: Array) -> list[Array]:
    """Bandwidths that go together: they share references, which a narrow one changes too often for a wide one."""
    groups: list[list[int]] = []
    for place in which[np.argsort(scales[which], kind="stable")].tolist():
        if not groups or scales[place] > ALIKE * scales[groups[-1][0]]:
            groups.append([])
        groups[-1].append(place)
    return [np.array(group) for group in groups]


def _extent(problem: Problem, square: bool) -> float:
    """The largest distance that can occur."""
    if not len(problem.points) or not len(problem.queries):
        return 0.0
    total = 0.0
    for column, asked in zip(problem.points.T, problem.queries.T, strict=True):  # by column: axis=0 is ten times slower
        high, low = max(column.max(), asked.max()), min(column.min(), asked.min())
        total += float((high - low) ** 2 if square else high - low)
    return total


def _cell_codes(starts: Array) -> Array:
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _cell_sums(problem: Problem) -> Array:
    """Sums of whole cells, where every weight is 1."""
    if problem.same and not problem.own:
        others = np.empty_like(problem.values)
        others_in_cell(problem.starts, problem.values, others)
        return others
    codes, count = _cell_codes(problem.starts), len(problem.starts) - 1
    totals = np.stack([np.bincount(codes, column, count) for column in problem.values.T], axis=1)
    return totals[_cell_codes(problem.query_starts)]


def _exact_pays(problem: Problem, square: bool, method: str) -> bool:
    """Whether divide and conquer, whose cost grows as the points, is quicker than pairs."""
    least = CROSSOVER.get(problem.points.shape[1])
    if square or least is None or method == "pairs":
        return False
    return method == "exact" or problem.pairs() >= least * (len(problem.points) + len(problem.queries)) / 2.0


def all_pairs(problem: Problem, scales: Array, square: bool, device: str) -> tuple[Array, Array]:
    """Sums (b, q, m) and references (q,) by pairs, on an accelerator where that is asked for or pays."""
    worth = device == "auto" and problem.pairs() * problem.points.shape[1] >= DEVICE_WORK
    if (device == "cuda" or worth) and device_available():
        from miscal.kernels.pairs_device import device_sums

        return device_sums(problem, scales, square)
    if problem.same and problem.own:
        sums = symmetric_sums(problem.points, problem.starts, problem.values, scales, square)
        return sums, np.zeros(len(problem.points))
    return one_way_sums(problem, scales, square)


def _exact(problem: Problem, scales: Array) -> tuple[Array, Array]:
    if problem.same:
        source = np.ones(len(problem.points), np.uint8)
        return laplacian_sums(problem.points.T, problem.starts, source, problem.values, scales, problem.own)
    # Sources and queries of a cell go in together; only the sources give.
    cells = np.concatenate([_cell_codes(problem.starts), _cell_codes(problem.query_starts)])
    order = np.argsort(cells, kind="stable")
    asked = order >= len(problem.points)
    points = np.concatenate([problem.points, problem.queries])[order]
    values = np.concatenate([problem.values, np.zeros((len(problem.queries), problem.values.shape[1]))])[order]
    starts = problem.starts + problem.query_starts
    source = np.where(asked, 0, GIVES_ONLY).astype(np.uint8)
    sums, reference = laplacian_sums(points.T, starts, source, values, scales, own=False)
    return sums[:, asked], reference[asked]


FAR = 1e300  # the distance of what is not there: finite, so that FAR - FAR is 0 and not NaN
SLACK = 50.0  # how far, in exponents, a point may be closer than the reference
TILE = 256
SHARES = 16  # parts of the tiles with sums of their own; fixed, so that the bits do not depend on the threads
BUDGET = 1 << 26  # bytes for the sums of all parts
ENTRIES = 1 << 20  # of a block of a given kernel's matrix
GRAIN = 1 << 14  # points below which a subtree of divide and conquer is one task
MANY = 5000  # numbers from which sorting by digits is quicker
GIVES_ONLY = 2  # a point that is summed over and does not receive


def symmetric_sums(points: Array, starts: Array, values: Array, scales: Array, square: bool) -> Array:
    """Sum kernel * values over all points of a point's cell, itself included.

    points (n, d), those of a cell together, cells beginning at `starts`; values (n, m) -> (b, n, m). The kernel is
    exp(-distance * scale), of the squared Euclidean distance if `square`, else of the L1 distance.
    """
    rows, columns = values.shape
    tiles = _tiles(starts)
    by_feature, by_row = np.ascontiguousarray(points.T), np.ascontiguousarray(points)
    by_column = np.ascontiguousarray(values.T)
    shares = max(1, min(SHARES, BUDGET // max(1, 8 * rows * columns * scales.size), len(tiles)))
    parts = np.zeros((shares, scales.size, columns, rows))

    def work(start: int, stop: int) -> None:
        for share in range(start, stop):
            symmetric_tiles(by_feature, by_row, by_column, scales, square, tiles, share, shares, parts[share])

    over_blocks(shares, work, block=1)
    return np.ascontiguousarray((parts.sum(axis=0) + by_column).transpose(0, 2, 1))


def _tiles(starts: Array) -> Array:
    """Pairs of ranges (low, high, low, high) that cover the upper triangle of every cell."""
    tiles = []
    for low, high in pairwise(starts.tolist()):
        cuts = [(cut, min(cut + TILE, high)) for cut in range(low, high, TILE)]
        tiles += [(*cuts[i], *cut) for i in range(len(cuts)) for cut in cuts[i:]]
    return np.array(tiles, np.int64).reshape(-1, 4)


def one_way_sums(problem: Problem, scales: Array, square: bool) -> tuple[Array, Array]:
    """Sum kernel * values over the sources of each query's cell, relative to exp(-reference * scale).

    Gives sums (b, q, m), references (q,).
    """
    by_feature, by_column = np.ascontiguousarray(problem.points.T), np.ascontiguousarray(problem.values.T)
    asked, place = np.ascontiguousarray(problem.queries), problem.own_place()
    reference, out = np.full(len(asked), FAR), np.zeros((scales.size, len(asked), len(by_column)))
    slack = SLACK / float(scales.max())
    blocks = [
        (*sources, start, min(start + TILE, stop))
        for sources, (first, stop) in problem.cells()
        for start in range(first, stop, TILE)
    ]

    def work(begin: int, end: int) -> None:
        for low, high, first, last in blocks[begin:end]:
            one_way(
                by_feature, by_column, scales, square, slack, low, high, asked, place, first, last, reference, out
            )  # fmt: skip

    over_blocks(len(blocks), work, block=1)
    return out, reference


def given_kernel_sums(problem: Problem, given: Weigh) -> Array:
    """Sum given(queries, points) * values over each query's cell, in blocks -> (q, m); no threads: it is not ours."""
    sums = np.zeros((len(problem.queries), problem.values.shape[1]))
    for (low, high), (start, stop) in problem.cells():
        size = max(1, ENTRIES // max(1, high - low))
        for first in range(start, stop if high > low else 0, size):
            last = min(first + size, stop)
            made = given(problem.queries[first:last], problem.points[low:high])
            weights = _checked(made, (last - first, high - low))
            if problem.same and not problem.own:
                weights = weights.copy()
                weights[np.arange(last - first), np.arange(first, last) - low] = 0.0
            sums[first:last] = weights @ problem.values[low:high]
    return sums


def _checked(weights: Any, shape: tuple[int, int]) -> Array:
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"it gave the shape {array.shape} for {shape[0]} and {shape[1]} points")
    if not (array >= 0).all() or np.isinf(array).any():
        raise ValueError("it gave a weight that is negative, infinite or not a number")
    return array


# ------------------------------------------------------------------------------------------------- divide and conquer
def laplacian_sums(
    points: Array, starts: Array, source: Array, values: Array, scales: Array, own: bool
) -> tuple[Array, Array]:
    """Sum exp(-L1 distance * scale) * values over all sources of each point's cell.

    Parameters
    ----------
    points : (d, n) float64, d = 1 or 2
        Coordinates; the points of a cell lie together.
    starts : (cells + 1,) int64
        Where each cell begins.
    source : (n,) uint8
        1: a point that is summed over and receives, 2: one that is summed over only, 0: one that receives only.
    values : (n, m) float64
        Columns to be summed; 0 where not a source.
    scales : (b,) float64
        Inverse bandwidths, all > 0.
    own : bool
        Whether a source counts for itself.

    Returns
    -------
    sums : (b, n, m) float64
        The sums times exp(reference * scale); of no meaning where a point does not receive.
    reference : (n,) float64
        0 where a point counts for itself, otherwise near the distance of its nearest source, 1e300 when it has none.
    """
    spans = [(low, high) for low, high in pairwise(starts.tolist()) if high > low]
    by_first = _orders(points[0], spans)
    placed = np.stack([coordinate.take(by_first) for coordinate in points])
    sources, columns = source.take(by_first), values.take(by_first, axis=0)
    alone = (sources == 1) & own | (sources == GIVES_ONLY)
    reference = np.where(alone, 0.0, FAR)
    out = np.where(alone[:, None], columns, 0.0)[None].repeat(scales.size, axis=0)
    _add_all(placed, spans, (sources, columns, reference, SLACK / float(scales.max()), scales, out))
    sums, nearest = np.empty_like(out), np.empty_like(reference)
    for b in range(scales.size):
        sums[b][by_first] = out[b]
    nearest[by_first] = reference
    return sums, nearest


def _orders(key: Array, spans: list[Span]) -> Array:
    """Positions sorted by the key within each span."""
    order = np.empty(key.size, np.uint32)
    key = np.ascontiguousarray(key)

    def work(start: int, stop: int) -> None:
        for low, high in spans[start:stop]:
            here = key[low:high]
            order[low:high] = sorted_order(here) if here.size >= MANY else np.argsort(here, kind="stable")
            order[low:high] += low

    over_blocks(len(spans), work, block=1)
    return order


def _add_all(points: Array, spans: list[Span], sums: tuple[Any, ...]) -> None:
    """Add all pairs of each span, within which points[0] ascends.

    Large spans of a plane are split level by level and small ones finished; the spans of a level are tasks of the
    thread pool. A row receives once from each level and levels follow each other, so the sums have the same bits for
    any threads.
    """
    flat = len(points) == 1
    order = np.empty(0, np.uint32) if flat else _orders(points[1], spans)
    while spans:
        spans = sorted(spans, key=lambda span: (span[0] - span[1], span[0]))

        def work(start: int, stop: int, spans: list[Span] = spans) -> None:
            for low, high in spans[start:stop]:
                add_pairs(low, high, order, points, high - low <= GRAIN, sums)

        over_blocks(len(spans), work, block=1)
        halves = [(low, (low + high) // 2, high) for low, high in spans if high - low > GRAIN and not flat]
        spans = [half for low, middle, high in halves for half in ((low, middle), (middle, high))]
