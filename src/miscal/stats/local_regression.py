"""The operator of local regression: rows sorted and pooled by x, windows, fits and sums of operator weights."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from miscal.data.arrays import Array
from miscal.kernels import loess
from miscal.kernels.sorting import sorted_order
from miscal.kernels.threads import over_blocks
from miscal.stats.cell_sums import Floats, Integers, run_starts

EXACT = 20_000  # distinct values; above, neighbours are pooled into about as many cells
TOGETHER = 512  # points that are one task
CELL = 4  # values of the smallest cells for each node that stands for them, as in `kernels.loess`
# One more than the degrees of the sums: tricube times t^4, operator weights to a power.
NODES = {0: 14, 2: 23, 4: 45}


class Line(NamedTuple):
    """Distinct values and the nodes of cells (first row), with the sums that belong to them: see `kernels.loess`."""

    sums: Floats
    distinct: int
    nodes: int


@dataclass(frozen=True)
class SortedRows:
    """Rows sorted by x, with the distinct values of x; responses (m, n) are kept about their mean.

    `weight` and `count` are 1 or a value a row. A row of count c stands for c rows of the same weight.
    """

    x: Floats  # distinct values, or means of neighbours where there are many
    starts: Integers  # where each begins among the rows
    every: Floats  # all distinct values
    ends: Integers  # rows (counts included) up to and with each of them
    order: Integers  # of the rows as they were given
    y: Floats
    middle: Floats
    weight: Floats
    count: Floats

    @property
    def total(self) -> int:
        """Number of rows, counts included."""
        return int(self.ends[-1])

    def at(self, rank: Integers) -> Floats:
        """The value of each of these rows, counted from 0 in order."""
        return self.every[np.searchsorted(self.ends, rank, side="right")]

    def per_value(self, of_rows: Floats) -> Floats:
        """Sum over the rows of each distinct value."""
        values = np.broadcast_to(of_rows, (*of_rows.shape[:-1], self.order.size))
        return np.add.reduceat(values, self.starts, axis=-1)

    def per_row(self, of_values: Array) -> Array:
        """What belongs to a distinct value, repeated for its rows."""
        return np.repeat(of_values, np.diff(self.starts, append=self.order.size), axis=-1)

    def line(self, robust: Floats | float = 1.0) -> Line:
        """Weight (first row) and weighted responses of each distinct value, with the nodes of cells."""
        row_weight = self.weight * robust * self.count
        return line_of(self.x, np.vstack([self.per_value(row_weight), self.per_value(row_weight * self.y)]))


@dataclass(frozen=True)
class Windows:
    """Where each of some points looks: (first, middle, last) of the values, 1 / bandwidth (0: equal weights)."""

    points: Floats
    inverse: Floats
    window: Integers


@dataclass(frozen=True)
class Fit:
    """Values (points, responses), and the operator there: (a, b, c, centre)."""

    values: Floats
    solution: Floats

    @property
    def leverage(self) -> Floats:
        """Operator weight at the point itself, per unit of weight."""
        a, b, c, centre = self.solution.T
        return np.asarray(a - centre * (b - centre * c))


def sort_rows(x: Floats, y: Floats, weight: Floats, count: Floats) -> SortedRows:
    """Sort rows (n,), (n, m) by x and find the distinct values."""
    order = sorted_order(x)
    ordered = x[order]
    starts = np.flatnonzero(run_starts(ordered))
    weight, count = (values[order] if values.ndim else values for values in (weight, count))
    ends = np.append(starts[1:], x.size)
    if count.ndim:
        ends = np.cumsum(count)[ends - 1]
    row_weight = np.broadcast_to(weight * count, x.shape)
    responses = np.take(y.T, order, axis=1)
    middle = responses @ row_weight / row_weight.sum()
    responses -= middle[:, None]
    distinct = ordered[starts]
    return SortedRows(
        distinct, starts, distinct, ends.astype(np.int64), order, responses, middle, weight, count
    )


def pool_rows(rows: SortedRows) -> SortedRows:
    """Above 20,000 distinct values take neighbours together at their mean, in cells of equally many rows.

    A value that alone has as many rows as a cell stays apart, so that ties remain ties.
    """
    if rows.x.size <= EXACT:
        return rows
    cell = (rows.ends - 1) * EXACT // rows.total
    heavy = np.diff(rows.ends, prepend=0) * EXACT >= rows.total
    first = np.flatnonzero((np.diff(cell, prepend=-1) > 0) | heavy | np.roll(heavy, 1))
    value_weight = rows.per_value(rows.weight * rows.count)
    mean = np.add.reduceat(value_weight * rows.x, first) / np.add.reduceat(value_weight, first)
    return replace(rows, x=mean, starts=rows.starts[first])


def find_windows(rows: SortedRows, span: float, *point_sets: Floats) -> list[Windows]:
    """The windows of some points each: the q = floor(span * rows + 1e-5) nearest rows, at least 1.

    As a point moves up, the first of its rows leaves when the next one above comes nearer: at the middle between them.
    """
    n_nearest = max(1, int(span * rows.total + 1e-5))
    last = rows.total - n_nearest
    # Stable sorting merges two stretches that are in order.
    changes = np.sort(np.concatenate([[0], rows.ends, rows.ends - n_nearest]), kind="stable")
    starts = changes[(changes >= 0) & (changes < last)]  # of windows whose first or next value is another
    middles = rows.at(starts) / 2.0 + rows.at(starts + n_nearest) / 2.0
    starts = np.append(starts, last)
    windows = []
    for points in point_sets:
        first = starts[np.searchsorted(middles, points)]
        with np.errstate(over="ignore"):  # of values as far apart as numbers get
            bandwidth = np.maximum(points - rows.at(first), rows.at(first + n_nearest - 1) - points)
            windows.append(_inside(rows.x, points, bandwidth))
    return windows


def _inside(x: Floats, points: Floats, bandwidth: Floats) -> Windows:
    """The values strictly inside each window; if there is none, those on its rim, equally weighted.

    (A value on the rim that rounding lets in beside others weighs nothing.)
    """
    ends = np.pad(x, 1, constant_values=(-np.inf, np.inf))
    place = np.searchsorted(x, points)
    below, above = points - ends[place], ends[place + 1] - points
    rim = np.minimum(below, above) >= bandwidth
    first = np.where(rim, place - (below <= bandwidth), np.searchsorted(x, points - bandwidth, side="right"))
    last = np.where(rim, place + (above <= bandwidth), np.searchsorted(x, points + bandwidth))
    window = np.stack([first, np.searchsorted(x, points, side="right"), last], axis=1)
    return Windows(points, np.divide(1.0, bandwidth, out=np.zeros(points.size), where=~rim), window)


def line_of(x: Floats, values: Floats, power: int = 0) -> Line:
    """Distinct values, the sums that belong to them (weights first), and the nodes of cells, of two cells each, ...

    With K Chebyshev nodes for a cell, sum_i v_i p(x_i) = sum_k V_k p(node_k) for every polynomial p of degree below K.
    """
    nodes, rows, parts = NODES[power], len(values), [np.vstack([x, values])]
    unit = -chebyshev.chebpts1(nodes)[::-1]
    back = chebyshev.chebvander(unit, nodes - 1) * np.where(np.arange(nodes), 2.0, 1.0) / nodes
    cell = CELL * nodes
    while parts[-1].shape[1] >= cell:
        count = parts[-1].shape[1] // cell
        places, *below = parts[-1][:, : count * cell].reshape(rows + 1, count, cell)
        low, high = places[:, :1] / 2.0, places[:, -1:] / 2.0
        centre, half = low + high, high - low
        basis = chebyshev.chebvander((places - centre) / half, nodes - 1)  # (cells, n, degrees)
        sums = (np.stack(below, axis=1) @ basis) @ back.T
        above = np.concatenate([(centre + half * unit)[None], np.moveaxis(sums, 1, 0)])
        parts.append(above.reshape(rows + 1, -1))
        cell = 2 * nodes
    return Line(np.hstack(parts), x.size, nodes)


def fit_at(line: Line, where: Windows, degree: int) -> Fit:
    """Fit at every point, a polynomial of the degree or of what its window can carry."""
    points = where.points.size
    fit = Fit(np.empty((points, len(line.sums) - 2)), np.empty((points, 4)))
    _at_points(line, where, degree, 0, fit.values, fit)
    return fit


def powers_at(rows: SortedRows, of_rows: Floats, where: Windows, fit: Fit, power: int) -> Floats:
    """At every point sum the operator weights, squared or to the fourth, times each of some values of the rows."""
    values = np.atleast_2d(rows.per_value(of_rows))
    out = np.empty((where.points.size, len(values)))
    _at_points(line_of(rows.x, values, power), where, 0, power, out, fit)
    return out


def _at_points(line: Line, where: Windows, degree: int, power: int, out: Floats, fit: Fit) -> None:
    def task(i: int, j: int) -> None:
        windows = where.points[i:j], where.window[i:j], where.inverse[i:j]
        loess.at_points(*line, *windows, degree, power, out[i:j], fit.solution[i:j])

    over_blocks(where.points.size, task, block=TOGETHER)


def operator(x: Floats, where: Windows, fit: Fit, places: Floats, part: slice = slice(None)) -> Floats:
    """Operator weight of each point (row) at each place (column), 0 outside its window."""
    first, _, last = where.window[part].T
    scaled = (places - where.points[part, None]) * where.inverse[part, None]
    bell = np.maximum(1.0 - np.abs(scaled * scaled * scaled), 0.0)
    tricube = bell * bell * bell
    flat = where.inverse[part] == 0.0  # equal weights, on the rim of the window alone
    low, high = x[first[flat], None], x[last[flat] - 1, None]
    tricube[flat] = (places >= low) & (places <= high)
    a, b, c, centre = fit.solution[part].T[:, :, None]
    scaled -= centre
    return np.asarray(tricube * (a + scaled * (b + scaled * c)))
