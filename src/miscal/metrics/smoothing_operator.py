"""The operator of local regression: rows pooled by x, windows, fits at points and at every row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

DIRECT = 4096  # up to this many distinct values windows are summed without cells
FEW = 16  # chunks of fewer points are cheaper one by one
EMPTY: Floats = np.empty(0)


@dataclass(frozen=True)
class Rows:
    """Rows sorted by x and pooled where x is equal; responses are kept about their mean."""

    x: Floats  # distinct values
    order: Integers
    starts: Integers
    ends: Integers  # rows (counts included) up to and with each value
    y: Floats  # (n, m)
    middle: Floats  # (m,)
    weight: Floats  # (n,) or empty
    count: Integers  # (n,) or empty

    @property
    def total(self) -> int:
        """Number of rows, counts included."""
        return int(self.ends[-1])

    def response(self, k: int) -> Rows:
        """The same rows with one response alone."""
        y = np.ascontiguousarray(self.y[:, k : k + 1])
        return Rows(
            self.x, self.order, self.starts, self.ends, y, self.middle[k : k + 1].copy(), self.weight, self.count
        )


@dataclass(frozen=True)
class Pooled:
    """Sums per distinct value: mass and responses (rows of `sums`), squared weights, and the weights behind them."""

    sums: Floats
    square: Floats
    robust: Floats


@dataclass(frozen=True)
class Cells:
    """Cells of `size` values replaced by nodes (`kernels.loess_cells`)."""

    size: int
    x: Floats
    values: Floats


@dataclass(frozen=True)
class Windows:
    """Where each evaluation point looks: values first..last, and 1 / bandwidth (0: equal weights)."""

    points: Floats
    bandwidth: Floats
    first: Integers
    last: Integers
    inverse: Floats


@dataclass(frozen=True)
class Fit:
    """Values (points, responses) and operator at points."""

    values: Floats
    solution: Floats
    centre: Floats
    degree: Integers


@dataclass(frozen=True)
class Everywhere:
    """At every distinct value: fits (responses, values), own operator weight and squared norm (empty if not asked)."""

    fitted: Floats
    leverage: Floats
    norm: Floats


def sort_rows(x: Floats, y: Floats, weight: Floats, count: Integers) -> Rows:
    """Sort by x (by counting where x is whole numbers of small range) and find the distinct values."""
    from miscal.kernels import loess_rows

    low, width = float(x.min()), float(x.max()) - float(x.min())
    if width < min(4.0 * x.size + 1024.0, 1e7) and np.array_equal(x, np.rint(x)):
        order = loess_rows.integer_order(x, low, int(width) + 1)
    else:
        order = np.argsort(x, kind="stable")
    ordered = x[order]
    starts = loess_rows.value_starts(ordered)
    ends = starts[1:] if not count.size else np.cumsum(count[order], dtype=np.int64)[starts[1:] - 1]
    distinct = ordered if starts.size == x.size + 1 else ordered[starts[:-1]]
    own = np.ones(x.size) if not weight.size else weight
    own = own * count if count.size else own
    middle = (own @ y) / own.sum()
    return Rows(distinct, order, starts, np.ascontiguousarray(ends), y, middle, weight, count)


def pool_rows(rows: Rows, robust: Floats = EMPTY) -> Pooled:
    """Sum weights and responses per distinct value."""
    from miscal.kernels import loess_rows
    from miscal.kernels.threads import over_blocks

    sums, square = np.empty((rows.y.shape[1] + 1, rows.x.size)), np.empty(rows.x.size)

    def work(start: int, stop: int) -> None:
        loess_rows.pool(
            rows.order, rows.starts, rows.y, rows.middle, rows.weight, rows.count, robust, start, stop, sums, square
        )

    over_blocks(rows.x.size, work)
    return Pooled(sums, square, robust)


def make_cells(x: Floats, values: Floats, nodes: int) -> Cells:
    """Replace cells of about 2 sqrt(n) values by nodes; none when there are few values."""
    from miscal.kernels import loess_cells
    from miscal.kernels.threads import over_blocks

    size = x.size + 1 if x.size <= DIRECT else max(64, int(np.sqrt(4.0 * x.size)))
    cells = x.size // size
    places, out = np.empty((cells, nodes)), np.empty((values.shape[0], cells * nodes))
    over_blocks(cells, lambda start, stop: loess_cells.compress(x, values, size, start, stop, places, out), block=64)
    return Cells(size, places, out)


def find_bandwidths(rows: Rows, points: Floats, span: float) -> Floats:
    """Distance to the q-th nearest row, q = floor(span * rows + 1e-5), at least 1."""
    from miscal.kernels import loess

    wanted = max(1, min(rows.total, int(np.floor(span * rows.total + 1e-5))))
    out = np.empty(points.size)
    loess.bandwidths(rows.x, rows.ends, points, wanted, out)
    return out


def find_windows(x: Floats, points: Floats, bandwidth: Floats) -> Windows:
    """The values inside the window of each of the sorted points."""
    from miscal.kernels import loess

    first, last = np.empty(points.size, np.int64), np.empty(points.size, np.int64)
    inverse = np.empty(points.size)
    loess.windows(x, points, bandwidth, first, last, inverse)
    return Windows(points, bandwidth, first, last, inverse)


def fit_at(x: Floats, pooled: Pooled, cells: Cells, where: Windows, degree: int) -> Fit:
    """Fit at every point of the windows."""
    from miscal.kernels import loess
    from miscal.kernels.threads import over_blocks

    size = where.points.size
    values, solution = np.empty((size, pooled.sums.shape[0] - 1)), np.empty((size, 3))
    centre, kept = np.empty(size), np.empty(size, np.int64)

    def work(start: int, stop: int) -> None:
        part: Any = slice(start, stop)
        loess.fit_points(
            x, pooled.sums[0], pooled.sums[1:], cells.size, cells.x, cells.values[0], cells.values[1:],
            where.points[part], where.first[part], where.last[part], where.inverse[part], degree,
            values[part], solution[part], centre[part], kept[part],
        )  # fmt: skip

    over_blocks(size, work, block=64)
    return Fit(values, solution, centre, kept)


def squares_at(
    x: Floats, values: Floats, where: Windows, fit: Fit, cells: Cells | None = None, fourth: bool = False
) -> Floats:
    """Sum at every point the squared (or fourth powers of) operator weights times each row of `values`."""
    from miscal.kernels import loess
    from miscal.kernels.loess_cells import FOURTH_NODES, SQUARE_NODES
    from miscal.kernels.threads import over_blocks

    nodes = make_cells(x, values, FOURTH_NODES if fourth else SQUARE_NODES) if cells is None else cells
    out = np.empty((where.points.size, values.shape[0]))

    def work(start: int, stop: int) -> None:
        part: Any = slice(start, stop)
        loess.square_points(
            x, values, nodes.size, nodes.x, nodes.values, where.points[part], where.first[part], where.last[part],
            where.inverse[part], fit.solution[part], fit.centre[part], fourth, out[part],
        )  # fmt: skip

    over_blocks(where.points.size, work, block=64)
    return out


def fit_everywhere(
    x: Floats, pooled: Pooled, cells: Cells, bandwidth: Floats, degree: int, squares: bool
) -> Everywhere:
    """Fit at every distinct value: sliding sums where they are sound, the others one by one."""
    from miscal.kernels import loess_sweep
    from miscal.kernels.threads import over_blocks

    fitted = np.empty((pooled.sums.shape[0] - 1, x.size))
    leverage, norm = np.empty(x.size), np.empty(x.size if squares else 0)
    sound = np.zeros(x.size, np.bool_)
    square, node_square = (pooled.square, cells.values[-1]) if squares else (EMPTY, EMPTY)
    node_responses = cells.values[1:-1] if squares else cells.values[1:]
    cuts = loess_sweep.chunks(x, bandwidth, 0.125, 1.15, 1 << 16)
    long = np.flatnonzero((np.diff(cuts) >= FEW) & (bandwidth[cuts[:-1]] > 0.0))

    def work(start: int, stop: int) -> None:
        for cut in long[start:stop]:
            loess_sweep.sweep(
                x, pooled.sums[0], pooled.sums[1:], square, cells.size, cells.x, cells.values[0], node_responses,
                node_square, bandwidth, degree, cuts[cut], cuts[cut + 1], fitted, leverage, norm, sound,
            )  # fmt: skip

    over_blocks(long.size, work, block=1)
    left = np.flatnonzero(~sound)
    if left.size:
        where = find_windows(x, x[left], bandwidth[left])
        plain = Cells(cells.size, cells.x, cells.values[:-1]) if squares else cells
        fit = fit_at(x, pooled, plain, where, degree)
        fitted[:, left] = fit.values.T
        a, b, c = fit.solution.T
        leverage[left] = a - fit.centre * (b - fit.centre * c)
        if squares:
            node = Cells(cells.size, cells.x, cells.values[-1:])
            norm[left] = squares_at(x, pooled.square[None, :], where, fit, node)[:, 0]
    return Everywhere(fitted, leverage, norm)
