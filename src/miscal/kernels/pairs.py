"""Kernel-weighted sums over all pairs in any dimension: blocked, threaded, memory bounded."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from miscal.kernels.laplacian import SLACK
from miscal.kernels.laplacian_sweep import FAR
from miscal.kernels.pairs_tiles import TILE, one_way, symmetric_tiles
from miscal.kernels.threads import over_blocks

Array = np.ndarray[Any, Any]
Kernel = Callable[[Array, Array], Any]

SHARES = 16  # parts of the tiles with sums of their own; fixed, so that the bits do not depend on the threads
BUDGET = 1 << 26  # bytes for the sums of all parts
ENTRIES = 1 << 20  # of a block of a given kernel's matrix


def symmetric_sums(points: Array, starts: Array, values: Array, scales: Array, square: bool) -> Array:
    """Sum kernel * values over all points of a point's cell, itself included.

    points (n, d), those of a cell together, cells beginning at `starts`; values (n, m) -> (b, n, m). The kernel is
    exp(-distance * scale), of the squared Euclidean distance if `square`, else of the L1 distance.
    """
    rows, columns = values.shape
    tiles = _tiles(starts)
    by_feature, by_row = np.ascontiguousarray(points.T), np.ascontiguousarray(points)
    by_column = np.ascontiguousarray(values.T)
    each = max(1, 8 * rows * columns)
    together = min(scales.size, max(1, BUDGET // (2 * each)))  # bandwidths that share one computation of distances
    shares = int(min(SHARES, max(1, BUDGET // (each * together)), max(1, len(tiles))))
    sums = np.empty((scales.size, rows, columns))
    for first in range(0, scales.size, together):
        some = scales[first : first + together]
        parts = np.zeros((shares, some.size, columns, rows))

        def work(start: int, stop: int, some: Array = some, parts: Array = parts) -> None:
            for share in range(start, stop):
                symmetric_tiles(by_feature, by_row, by_column, some, square, tiles, share, shares, parts[share])

        over_blocks(shares, work, block=1)
        sums[first : first + together] = (parts.sum(axis=0) + by_column).transpose(0, 2, 1)
    return sums


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

    `own_place` (q,) is the place of a query among the sources, to be left out.
    """
    by_feature, by_column = np.ascontiguousarray(points.T), np.ascontiguousarray(values.T)
    asked = np.ascontiguousarray(queries)
    place = np.full(len(asked), -1, np.int64) if own_place is None else own_place
    reference = np.full(len(asked), FAR)
    out = np.zeros((scales.size, values.shape[1], len(asked)))
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
    return np.ascontiguousarray(out.transpose(0, 2, 1)), reference


def given_kernel_sums(
    points: Array, starts: Array, values: Array, queries: Array, query_starts: Array, kernel: Kernel,
    own_place: Array | None = None,
) -> Array:  # fmt: skip
    """Sum kernel(queries, points) * values over each query's cell, in blocks -> (q, m); no threads: it is not ours."""
    sums = np.zeros((len(queries), values.shape[1]))
    for cell, (low, high) in enumerate(pairwise(starts.tolist())):
        size = max(1, ENTRIES // max(1, high - low))
        for first in range(int(query_starts[cell]), int(query_starts[cell + 1]), size):
            last = min(first + size, int(query_starts[cell + 1]))
            if high == low:
                continue
            weights = _checked(kernel(queries[first:last], points[low:high]), (last - first, high - low))
            if own_place is not None:
                weights = weights.copy()
                places = own_place[first:last] - low
                weights[np.arange(last - first), places] = 0.0
            sums[first:last] = weights @ values[low:high]
    return sums


def _checked(weights: Any, shape: tuple[int, int]) -> Array:
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"it gave the shape {array.shape} for {shape[0]} and {shape[1]} points")
    if not (array >= 0).all() or np.isinf(array).any():
        raise ValueError("it gave a weight that is negative, infinite or not a number")
    return array


def group_sums(groups: Array, values: Array, query_groups: Array, own_place: Array | None = None) -> Array:
    """Sum the values of each query's group -> (q, m); groups are codes from 0, -1 a group that has no source."""
    size = int(max(groups.max(initial=-1), query_groups.max(initial=-1))) + 1
    if own_place is None:
        totals = np.stack([np.bincount(groups, column, minlength=size) for column in values.T], axis=1)
        return np.where(query_groups[:, None] >= 0, totals[query_groups], 0.0)
    from miscal.kernels.pairs_groups import others_in_group

    others = np.zeros(values.shape)
    others_in_group(groups, np.ascontiguousarray(values), np.zeros((size, values.shape[1])), others)
    return others[own_place]
