"""Exact sums of a Laplacian kernel over all pairs in one to three dimensions, in O(n log^(d-1) n)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from miscal.kernels import laplacian_tree as tree
from miscal.kernels.laplacian_sweep import FAR, sweep
from miscal.kernels.radix import sorted_order
from miscal.kernels.threads import over_blocks

Array = np.ndarray[Any, Any]
Span = tuple[int, int]

GRAIN = 1 << 14  # points below which a subtree is one task
SPACE_LEAF = 512  # points below which all pairs in space are cheaper than another split
MANY = 5000  # numbers from which sorting by digits is quicker
SLACK = 50.0  # how far, in exponents, a point may be closer than the reference


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
    source : (n,) bool
        Which points are summed over. The others only receive.
    values : (n, m) float64
        Columns to be summed; 0 where not a source.
    scales : (b,) float64
        Inverse bandwidths, all > 0.
    own : bool
        Whether a source counts for itself.

    Returns
    -------
    sums : (b, n, m) float64
        The sums times exp(reference * scale).
    reference : (n,) float64
        0 where a point counts for itself, otherwise near the distance of its nearest source, 1e300 when it has none.
    """
    dimensions, rows = points.shape
    spans = [(low, high) for low, high in pairwise(starts.tolist()) if high > low]
    by_first = _orders(points[0], spans)
    sorted_points = np.stack([coordinate.take(by_first) for coordinate in points])
    sources, columns = source.astype(np.uint8).take(by_first), values.take(by_first, axis=0)
    alone = (sources == 1) & own
    reference = np.where(alone, 0.0, FAR)
    out = np.where(alone[:, None], columns, 0.0)[None].repeat(scales.size, axis=0)
    carried = (sources, columns, reference, not bool(alone.all()), SLACK / float(scales.max()), scales, out)
    if dimensions == 1:
        _line(sorted_points, spans, carried)
    elif dimensions == 2:
        _plane(sorted_points, spans, carried)
    else:
        _space(sorted_points, spans, carried)
    sums, nearest = np.empty_like(out), np.empty(rows)
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


def _line(points: Array, spans: list[Span], carried: tuple[Any, ...]) -> None:
    sources, values, reference, _, slack, scales, out = carried
    rows = np.arange(points.shape[1], dtype=np.uint32)
    nothing = np.zeros(rows.size)
    one_kind = np.zeros(rows.size, np.uint8)

    def work(start: int, stop: int) -> None:
        for low, high in spans[start:stop]:
            here = slice(low, high)
            sweep(
                points[0, here], nothing[here], one_kind[here], 1, rows[here], sources, values, reference, slack,
                scales, out,
            )  # fmt: skip

    over_blocks(len(spans), work, block=1)


def _plane(points: Array, spans: list[Span], carried: tuple[Any, ...]) -> None:
    sources, values, reference, moving, slack, scales, out = carried
    first, second = points
    order = _orders(second, spans)
    rows = np.arange(first.size, dtype=np.uint32)
    nothing, side = np.zeros(first.size), np.zeros(first.size, np.uint8)

    def split(low: int, high: int) -> None:
        tree.split_plane(
            low, high, order, first, second, nothing, side, 1, rows, sources, values, reference, slack, scales, out
        )  # fmt: skip

    def whole(low: int, high: int) -> None:
        tree.plane(
            low, high, order, first, second, nothing, nothing, side, 1, rows, sources, values, reference, moving,
            slack, scales, out,
        )  # fmt: skip

    _descend(spans, whole, split)


def _space(points: Array, spans: list[Span], carried: tuple[Any, ...]) -> None:
    first, second, third = points
    by_second, by_third = _orders(second, spans), _orders(third, spans)
    rows, side = np.arange(first.size, dtype=np.uint32), np.zeros(first.size, np.uint8)

    def split(low: int, high: int) -> None:
        tree.split_space(low, high, by_second, by_third, first, second, third, *carried)

    def whole(low: int, high: int) -> None:
        if high - low <= SPACE_LEAF:
            here = slice(low, high)
            tree.leaf(first[here], second[here], third[here], side[here], 1, rows[here], *carried)
            return
        split(low, high)
        whole(low, (low + high) // 2)
        whole((low + high) // 2, high)

    _descend(spans, whole, split)
