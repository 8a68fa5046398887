"""Local sums: for each query, values summed over the points of its cell, weighted by nearness. The one way in.

Which algorithm serves is decided here: sums of whole cells when the bandwidth is so large that every weight is 1, exact
divide and conquer for the Laplacian in one to three dimensions where it pays, pairs otherwise, on an accelerator where
there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Kernel = str | Callable[[Array, Array], Any]

# Points in a cell from which divide and conquer is quicker than pairs, measured on one thread with two columns.
# Pairs of a set with itself are computed once for both points, so they hold out longer.
CROSSOVER_OWN = {1: 100, 2: 400, 3: 2400}
CROSSOVER_ONE_WAY = {1: 60, 2: 220, 3: 900}
FLAT = 1e-18  # exponents below this give weights of exactly 1
STEEPEST = 1e300
ALIKE = 1e3  # largest ratio of bandwidths that share one pass
# An accelerator's part, looked for only when it is asked for or worth the import: `available() -> bool` and
# `device_sums(problem, scales, square) -> (sums (b, q, m), reference (q,))`, as `pairs.one_way_sums` gives them.
DEVICE_MODULE = "miscal.kernels.pairs_device"
DEVICE_WORK = 2e9  # pairs times features


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

    def own_place(self) -> Array | None:
        """The place of each query among the sources when it is to be left out."""
        return np.arange(len(self.points)) if self.same and not self.own else None

    def some_cells(self, chosen: Array) -> tuple[Problem, Array]:
        """The problem of some cells, and which queries it holds."""
        sources, source_rows = _chosen_rows(self.starts, chosen)
        queries, query_rows = (sources, source_rows) if self.same else _chosen_rows(self.query_starts, chosen)
        points = self.points[source_rows]
        asked = points if self.same else self.queries[query_rows]
        part = Problem(points, self.values[source_rows], sources, asked, queries, self.same, self.own)
        return part, query_rows


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
        "exact" is divide and conquer, for the Laplacian in one to three dimensions.
    device : {"auto", "cpu", "cuda"}
        Where pairs are computed.
    """
    problem, order = _arranged(features, cells, values, queries, own)
    sums = np.zeros((bandwidths.size, len(order), values.shape[1]))
    offset = np.zeros((bandwidths.size, len(order)))
    if callable(kernel) or kernel == "group":
        from miscal.kernels import pairs

        sums[:] = (
            pairs.given_kernel_sums(*_pairs(problem), kernel, problem.own_place())
            if callable(kernel)
            else (_group_sums(problem))
        )
    else:
        square = kernel == "gaussian"
        scales = _scales(bandwidths, features.shape[1], square)
        flat = scales * _extent(problem, square) < FLAT
        if flat.any():
            sums[flat] = _cell_sums(problem)
        for some in _alike(scales, np.flatnonzero(~flat)):
            sums[some], reference = _by_distance(problem, scales[some], square, method, device)
            offset[some] = reference * scales[some, None]
    placed = LocalSums(np.empty_like(sums), np.empty_like(offset))
    for b in range(bandwidths.size):
        placed.values[b][order] = sums[b]
        placed.offset[b][order] = offset[b]
    return placed


def device_available() -> bool:
    """Whether pairs can be computed on an accelerator here."""
    return find_spec(DEVICE_MODULE) is not None and bool(import_module(DEVICE_MODULE).available())


def _arranged(
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


def _chosen_rows(starts: Array, chosen: Array) -> tuple[Array, Array]:
    sizes = np.diff(starts)
    rows = np.flatnonzero(np.repeat(chosen, sizes))
    return np.concatenate([[0], np.cumsum(sizes[chosen])]).astype(np.int64), rows


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
        high, low = column.max(), column.min()
        if not problem.same:
            high, low = max(high, asked.max()), min(low, asked.min())
        total += float((high - low) ** 2 if square else high - low)
    return total


def _pairs(problem: Problem) -> tuple[Array, Array, Array, Array, Array]:
    return problem.points, problem.starts, problem.values, problem.queries, problem.query_starts


def _cell_codes(starts: Array) -> Array:
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _cell_sums(problem: Problem) -> Array:
    from miscal.kernels.pairs import group_sums

    codes, asked = _cell_codes(problem.starts), _cell_codes(problem.query_starts)
    return group_sums(codes, problem.values, asked, problem.own_place())


def _group_sums(problem: Problem) -> Array:
    from miscal.kernels.pairs import group_sums

    codes, asked = _cell_codes(problem.starts), _cell_codes(problem.query_starts)
    together = np.concatenate([problem.points, problem.queries])
    keys = np.column_stack([np.concatenate([codes, asked]).astype(np.float64), together])
    groups = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    return group_sums(groups[: len(codes)], problem.values, groups[len(codes) :], problem.own_place())


def _by_distance(problem: Problem, scales: Array, square: bool, method: str, device: str) -> tuple[Array, Array]:
    """Sums by exact divide and conquer in some cells and by pairs in the others."""
    exact = _where_exact(problem, square, method)
    if exact.all() or not exact.any():
        return (_exact if exact.all() else _all_pairs)(problem, scales, square, device)
    rows, columns = len(problem.queries), problem.values.shape[1]
    sums, reference = np.empty((scales.size, rows, columns)), np.empty(rows)
    for chosen, solve in ((exact, _exact), (~exact, _all_pairs)):
        part, rows_there = problem.some_cells(chosen)
        sums[:, rows_there], reference[rows_there] = solve(part, scales, square, device)
    return sums, reference


def _where_exact(problem: Problem, square: bool, method: str) -> Array:
    dimensions = problem.points.shape[1]
    cells = len(problem.starts) - 1
    if square or dimensions not in CROSSOVER_OWN or method == "pairs":
        return np.zeros(cells, bool)
    if method == "exact":
        return np.ones(cells, bool)
    least = (CROSSOVER_OWN if problem.same and problem.own else CROSSOVER_ONE_WAY)[dimensions]
    pairs = np.diff(problem.starts).astype(np.float64) * np.diff(problem.query_starts)
    return pairs >= float(least) ** 2


def _all_pairs(problem: Problem, scales: Array, square: bool, device: str) -> tuple[Array, Array]:
    if _worth_a_device(problem, device) and device_available():
        found: tuple[Array, Array] = import_module(DEVICE_MODULE).device_sums(problem, scales, square)
        return found
    from miscal.kernels import pairs

    if problem.same and problem.own:
        sums = pairs.symmetric_sums(problem.points, problem.starts, problem.values, scales, square)
        return sums, np.zeros(len(problem.points))
    return pairs.one_way_sums(*_pairs(problem), scales, square, problem.own_place())


def _worth_a_device(problem: Problem, device: str) -> bool:
    pairs = float(np.dot(np.diff(problem.starts).astype(np.float64), np.diff(problem.query_starts)))
    return device == "cuda" or (device == "auto" and pairs * problem.points.shape[1] >= DEVICE_WORK)


def _exact(problem: Problem, scales: Array, square: bool, device: str) -> tuple[Array, Array]:
    from miscal.kernels.laplacian import laplacian_sums

    if problem.same:
        source = np.ones(len(problem.points), bool)
        return laplacian_sums(problem.points.T, problem.starts, source, problem.values, scales, problem.own)
    # Sources and queries of a cell go in together; only the sources give.
    sources = len(problem.points)
    order = np.argsort(
        np.concatenate([_cell_codes(problem.starts), _cell_codes(problem.query_starts)]), kind="stable"
    )  # fmt: skip
    points = np.concatenate([problem.points, problem.queries])[order]
    values = np.concatenate([problem.values, np.zeros((len(problem.queries), problem.values.shape[1]))])[order]
    starts = problem.starts + problem.query_starts
    sums, reference = laplacian_sums(points.T, starts, order < sources, values, scales, own=False)
    asked = np.flatnonzero(order >= sources)
    return sums[:, asked], reference[asked]
