"""Pairs on an accelerator by triton: a block of queries against the sources of their cells, two columns at a time.

Imported only where there is one. Features are centred and divided by their extent before they become float32, so that
an offset costs no digits; distances and weights are float32, sums float64. (Without triton, torch alone would be no
quicker than a processor with some cores: a matrix of distances is written and read once a feature.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
from triton import language as tl

Array = np.ndarray[Any, Any]

FAR32 = tl.constexpr(3.0e38)
LOG2E = 1.4426950408889634
STEEPEST = 1e30  # scales beyond it are held there: the nearest source is all that counts
BLOCKS = (32, 128, 4)  # queries and sources of a tile, and warps: quickest on an H200 at 50 dimensions


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
def pair_sums(
    queries, sources, values, lows, highs, places, scales, out, n_queries, n_sources,
    DIMENSIONS: tl.constexpr, COLUMNS: tl.constexpr, SQUARE: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Sums of columns 2p and 2p + 1 for one bandwidth, relative to the nearest source.

    queries (d, q), sources (d, n), values (COLUMNS, n), scales (b,) times -log2(e) and out (b, COLUMNS, q).
    Program (block of queries, pair of columns, bandwidth).
    """
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * 2
    band = tl.program_id(2)
    asked = i < n_queries
    low = tl.load(lows + i, mask=asked, other=n_sources)
    high = tl.load(highs + i, mask=asked, other=0)
    place = tl.load(places + i, mask=asked, other=-1)
    scale = tl.load(scales + band)
    first = tl.zeros((ROWS,), tl.float64)
    second = tl.zeros((ROWS,), tl.float64)
    nearest = tl.full((ROWS,), FAR32, tl.float32)
    for start in range(tl.min(low, 0), tl.max(high, 0), WIDTH):
        j = start + tl.arange(0, WIDTH)
        there = j < n_sources
        far = tl.zeros((ROWS, WIDTH), tl.float32)
        for k in range(DIMENSIONS):
            a = tl.load(queries + k * n_queries + i, mask=asked, other=0.0)
            b = tl.load(sources + k * n_sources + j, mask=there, other=0.0)
            off = a[:, None] - b[None, :]
            far += off * off if SQUARE else tl.abs(off)
        counts = (j[None, :] >= low[:, None]) & (j[None, :] < high[:, None]) & (j[None, :] != place[:, None])
        closest = tl.minimum(nearest, tl.min(tl.where(counts, far, FAR32), 1))
        # Sums so far were relative to a source farther away: nothing was summed while there was none.
        shrink = tl.where(nearest < FAR32, tl.exp2((nearest - closest) * scale), 0.0).to(tl.float64)
        nearest = closest
        weight = tl.where(counts, tl.exp2((far - nearest[:, None]) * scale), 0.0)
        one = tl.load(values + column * n_sources + j, mask=there, other=0.0)
        other = tl.load(values + (column + 1) * n_sources + j, mask=there, other=0.0)
        first = first * shrink + tl.sum(weight * one[None, :], 1).to(tl.float64)
        second = second * shrink + tl.sum(weight * other[None, :], 1).to(tl.float64)
    at = out + (band * COLUMNS + column) * n_queries + i
    tl.store(at, first, mask=asked)
    tl.store(at + n_queries, second, mask=asked)


def device_sums(problem: Any, scales: Array, square: bool, device: str = "cuda") -> Array:
    """Sum kernel * values over the sources of each query's cell, relative to the weight of its nearest: (b, q, m).

    Ratios of sums are within 1e-5 of those of `neighbours.all_pairs`. The device "cpu" is triton's interpreter.
    """
    asked, given = len(problem.queries), problem.values.shape[1]
    both = np.concatenate([problem.points, problem.queries])
    low, extent = both.min(axis=0), np.ptp(both, axis=0)
    size = float(extent.max()) or 1.0
    placed = ((both - (low + extent / 2)) / size).astype(np.float32)
    points, queries = np.split(placed, [len(problem.points)])
    columns = given + given % 2
    values = np.zeros((columns, len(points)), np.float32)
    largest = np.abs(problem.values).max(axis=0)
    largest[largest == 0] = 1.0
    values[:given] = (problem.values / largest).T

    def sent(array: Array, kind: Any = torch.float32) -> Any:
        return torch.as_tensor(np.ascontiguousarray(array), device=device).to(kind)

    sources, sizes = sent(points.T), np.diff(problem.query_starts)
    low, high = np.repeat(problem.starts[:-1], sizes), np.repeat(problem.starts[1:], sizes)
    cells = [sent(each, torch.int32) for each in (low, high, problem.own_place())]
    slopes = scales * (size * size if square else size)
    slopes = -LOG2E * np.minimum(slopes, STEEPEST)
    out = torch.empty((scales.size, columns, asked), dtype=torch.float64, device=device)
    rows, width, warps = BLOCKS
    grid = triton.cdiv(asked, rows), columns // 2, scales.size
    pair_sums[grid](
        sources if problem.same else sent(queries.T), sources, sent(values), *cells,
        sent(slopes), out, asked, len(points), DIMENSIONS=points.shape[1], COLUMNS=columns, SQUARE=square,
        ROWS=rows, WIDTH=width, num_warps=warps,
    )  # fmt: skip
    found = out[:, :given].permute(0, 2, 1)
    return np.asarray(found.cpu().numpy() * largest)
