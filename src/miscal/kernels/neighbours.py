"""Local sums: for each query, values summed over the points of its cell, weighted by nearness. The one way in.

Which algorithm serves is decided here: sums of whole cells when the bandwidth is so large that every weight is 1, exact
divide and conquer for the Laplacian in one to three dimensions where it pays, pairs otherwise, on an accelerator where
there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Kernel = str | Callable[[Array, Array], Any]

# Mean points of a cell, the cells weighted by their points, from which divide and conquer is quicker than pairs, by
# dimension: measured on one thread with two columns.
CROSSOVER = {1: 150, 2: 450, 3: 1250}
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

    def own_place(self) -> Array | None:
        """The place of each query among the sources when it is to be left out."""
        return np.arange(len(self.points)) if self.same and not self.own else None

    def arrays(self) -> tuple[Array, Array, Array, Array, Array]:
        """Sources and queries as pairs take them."""
        return self.points, self.starts, self.values, self.queries, self.query_starts

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
        "exact" is divide and conquer, for the Laplacian in one to three dimensions.
    device : {"auto", "cpu", "cuda"}
        Where pairs are computed.
    """
    if kernel == "group":
        cells, queries = _groups(features, cells, queries)
    problem, order = arranged(features, cells, values, queries, own)
    sums = np.zeros((bandwidths.size, len(order), values.shape[1]))
    offset = np.zeros((bandwidths.size, len(order)))
    if callable(kernel):
        from miscal.kernels.pairs import given_kernel_sums

        sums[:] = given_kernel_sums(*problem.arrays(), kernel, problem.own_place())
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
        from miscal.kernels.tiles import others_in_cell

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
    from miscal.kernels import pairs

    if problem.same and problem.own:
        sums = pairs.symmetric_sums(problem.points, problem.starts, problem.values, scales, square)
        return sums, np.zeros(len(problem.points))
    return pairs.one_way_sums(*problem.arrays(), scales, square, problem.own_place())


def _exact(problem: Problem, scales: Array) -> tuple[Array, Array]:
    from miscal.kernels.pairs import GIVES_ONLY, laplacian_sums

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
