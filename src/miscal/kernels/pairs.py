"""Kernel-weighted sums over all pairs of points of a cell, on the threads, memory bounded; the loops are compiled.

In any dimension pairs are taken tile by tile (`tiles`); for the Laplacian in one to three dimensions divide and conquer
gives the same sums in O(n log^(d-1) n) (`laplacian`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from miscal.kernels.laplacian import leaf, plane, split_space, sweep
from miscal.kernels.sorting import sorted_order
from miscal.kernels.threads import over_blocks
from miscal.kernels.tiles import one_way, symmetric_tiles

Array = np.ndarray[Any, Any]
Kernel = Callable[[Array, Array], Any]
Span = tuple[int, int]

FAR = 1e300  # the distance of what is not there: finite, so that FAR - FAR is 0 and not NaN
SLACK = 50.0  # how far, in exponents, a point may be closer than the reference
TILE = 256
SHARES = 16  # parts of the tiles with sums of their own; fixed, so that the bits do not depend on the threads
BUDGET = 1 << 26  # bytes for the sums of all parts
ENTRIES = 1 << 20  # of a block of a given kernel's matrix
GRAIN = 1 << 14  # points below which a subtree of divide and conquer is one task
SPACE_LEAF = 512  # points of a space below which all pairs are cheaper than another split
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


def one_way_sums(
    points: Array, starts: Array, values: Array, queries: Array, query_starts: Array, scales: Array, square: bool,
    own_place: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Sum kernel * values over the sources of each query's cell, relative to exp(-reference * scale).

    `own_place` (q,) is the place of a query among the sources, to be left out. Gives sums (b, q, m), references (q,).
    """
    by_feature, by_column = np.ascontiguousarray(points.T), np.ascontiguousarray(values.T)
    asked = np.ascontiguousarray(queries)
    place = np.full(len(asked), -1, np.int64) if own_place is None else own_place
    reference, out = np.full(len(asked), FAR), np.zeros((scales.size, len(asked), values.shape[1]))
    slack = SLACK / float(scales.max())
    blocks = [
        (low, high, start, min(start + TILE, int(query_starts[cell + 1])))
        for cell, (low, high) in enumerate(pairwise(starts.tolist()))
        for start in range(int(query_starts[cell]), int(query_starts[cell + 1]), TILE)
    ]

    def work(begin: int, end: int) -> None:
        for low, high, first, last in blocks[begin:end]:
            one_way(
                by_feature, by_column, scales, square, slack, low, high, asked, place, first, last, reference, out
            )  # fmt: skip

    over_blocks(len(blocks), work, block=1)
    return out, reference


def given_kernel_sums(
    points: Array, starts: Array, values: Array, queries: Array, query_starts: Array, given: Kernel,
    own_place: Array | None = None,
) -> Array:  # fmt: skip
    """Sum given(queries, points) * values over each query's cell, in blocks -> (q, m); no threads: it is not ours."""
    sums = np.zeros((len(queries), values.shape[1]))
    for cell, (low, high) in enumerate(pairwise(starts.tolist())):
        size = max(1, ENTRIES // max(1, high - low))
        for first in range(int(query_starts[cell]), int(query_starts[cell + 1]) if high > low else 0, size):
            last = min(first + size, int(query_starts[cell + 1]))
            weights = _checked(given(queries[first:last], points[low:high]), (last - first, high - low))
            if own_place is not None:
                weights = weights.copy()
                weights[np.arange(last - first), own_place[first:last] - low] = 0.0
            sums[first:last] = weights @ values[low:high]
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
    points : (d, n) float64, d = 1, 2 or 3
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
    """Add all pairs of each span, within which points[0] ascends."""
    orders = [_orders(each, spans) for each in points[1:]]
    rows, nothing = np.arange(points.shape[1], dtype=np.uint32), np.zeros(points.shape[1])
    side = np.zeros(rows.size, np.uint8)

    def lines(start: int, stop: int) -> None:
        for low, high in spans[start:stop]:
            sweep(points[0, low:high], nothing[low:high], side[low:high], 1, rows[low:high], sums)

    def split(low: int, high: int) -> None:
        if len(points) == 2:
            plane(low, high, *orders, points, nothing, side, 1, rows, False, sums)
        else:
            split_space(low, high, *orders, points, sums)

    def whole(low: int, high: int) -> None:
        if len(points) == 2:
            plane(low, high, *orders, points, nothing, side, 1, rows, True, sums)
        elif high - low <= SPACE_LEAF:
            leaf(low, high, points, side, 1, rows, sums)
        else:
            split(low, high)
            whole(low, (low + high) // 2)
            whole((low + high) // 2, high)

    if len(points) == 1:
        over_blocks(len(spans), lines, block=1)
    else:
        _descend(spans, whole, split)


def _descend(spans: list[Span], whole: Callable[[int, int], None], split: Callable[[int, int], None]) -> None:
    """Split large spans level by level and finish small ones; the spans of a level are tasks of the thread pool.

    A row receives once from each level and levels follow each other, so the sums have the same bits for any threads.
    """
    while spans:
        spans = sorted(spans, key=lambda span: (span[0] - span[1], span[0]))

        def work(start: int, stop: int, spans: list[Span] = spans) -> None:
            for low, high in spans[start:stop]:
                (whole if high - low <= GRAIN else split)(low, high)

        over_blocks(len(spans), work, block=1)
        halves = [(low, (low + high) // 2, high) for low, high in spans if high - low > GRAIN]
        spans = [half for low, middle, high in halves for half in ((low, middle), (middle, high))]
