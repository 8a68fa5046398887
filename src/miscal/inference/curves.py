"""Standard errors and bands of local regression, exact up to 20,000 distinct values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miscal.kernels.threads import over_blocks

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

DIRECT = 2048  # up to this many distinct values windows are summed without cells
FEW, MANY = 4, 64  # neighbouring points of a grid, and neighbouring values, whose windows are prepared together
EXACT = 20_000  # distinct values; above, neighbours are pooled into about as many cells
FIT_NODES, SQUARE_NODES, FOURTH_NODES = 14, 23, 45  # one more than the degrees of the sums: see kernels.loess
REPRODUCED = 1e-7  # 1 - l_ii below this: the fit reproduces the row, whose residual then says nothing
BLOCKS = 1024  # the covariance across the grid is formed on at most this many blocks of values
CLUSTER_BLOCKS = 512
DRAWS = 4000
DENSE = 400  # two_delta is exact up to this many distinct values


@dataclass(frozen=True)
class Rows:
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

    def per_value(self, of_rows: Floats) -> Floats:
        """Sum over the rows of each distinct value."""
        every = np.broadcast_to(of_rows, (*of_rows.shape[:-1], self.order.size))
        return every if self.x.size == self.order.size else np.add.reduceat(every, self.starts, axis=-1)

    def per_row(self, of_values: NDArray[Any]) -> NDArray[Any]:
        """What belongs to a distinct value, repeated for its rows."""
        if self.x.size == self.order.size:
            return of_values
        return np.repeat(of_values, np.diff(self.starts, append=self.order.size), axis=-1)

    def sums(self, robust: Floats | float = 1.0) -> Floats:
        """Weight (first row) and weighted responses of each distinct value."""
        own = np.asarray(self.weight * robust * self.count)
        return np.vstack([self.per_value(own), *(self.per_value(own * response) for response in self.y)])


@dataclass(frozen=True)
class Windows:
    """Where each of the sorted points looks: (first, middle, last) of the values, 1 / bandwidth (0: equal weights).

    `run` points at a time are prepared together: many where neighbouring points share most of their windows.
    """

    points: Floats
    bandwidth: Floats
    inverse: Floats
    window: Integers
    run: int


@dataclass(frozen=True)
class Fit:
    """Values (points, responses), and the operator there: (a, b, c, centre) and the degree kept."""

    values: Floats
    solution: Floats
    degree: Integers

    @property
    def leverage(self) -> Floats:
        """Operator weight at the point itself, per unit of weight."""
        a, b, c, centre = self.solution.T
        return np.asarray(a - centre * (b - centre * c))


@dataclass(frozen=True)
class Estimate:
    """Curves at sorted points, their errors and degrees of freedom; what follows is known for some errors only.

    `correlations` across the points, one matrix a response, are made for a simultaneous band.
    """

    fit: Floats
    standard_error: Floats
    degrees_of_freedom: Floats
    degree: Integers
    trace: float
    sigma: Floats
    one_delta: float
    correlations: list[Floats]


def sort_rows(x: Floats, y: Floats, weight: Floats, count: Floats) -> Rows:
    """Sort rows (n,), (n, m) by x and find the distinct values."""
    low, width = float(x.min()), float(np.ptp(x))
    small = width < 1 << 16 and bool((x == np.rint(x)).all())  # whole numbers of a small range: a counting sort
    order = np.argsort((x - low).astype(np.uint16) if small else x, kind="stable")
    ordered = x[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=np.nan) != 0.0)
    weight, count = (values[order] if values.ndim else values for values in (weight, count))
    ends = np.append(starts[1:], x.size) if not count.ndim else np.cumsum(np.add.reduceat(count, starts))
    own = np.broadcast_to(weight * count, x.shape)
    responses = np.stack([response[order] for response in y.T])
    middle = responses @ own / own.sum()
    responses -= middle[:, np.newaxis]
    distinct = ordered[starts]
    return Rows(distinct, starts, distinct, ends.astype(np.int64), order, responses, middle, weight, count)


def pool_rows(rows: Rows) -> Rows:
    """Above 20,000 distinct values take neighbours together at their mean, in cells of equally many rows.

    A value that alone has as many rows as a cell stays apart, so that ties remain ties.
    """
    if rows.x.size <= EXACT:
        return rows
    cell = (rows.ends - 1) * EXACT // rows.total
    heavy = np.diff(rows.ends, prepend=0) * EXACT >= rows.total
    first = np.flatnonzero((np.diff(cell, prepend=-1) > 0) | heavy | np.roll(heavy, 1))
    own = rows.per_value(np.asarray(rows.weight * rows.count))
    mean = np.add.reduceat(own * rows.x, first) / np.add.reduceat(own, first)
    return replace(rows, x=mean, starts=rows.starts[first])


def find_windows(rows: Rows, points: Floats, span: float, run: int = FEW) -> Windows:
    """The window of each of the sorted points: the q = floor(span * rows + 1e-5) nearest rows, at least 1."""
    from miscal.kernels import loess

    wanted = max(1, min(rows.total, int(np.floor(span * rows.total + 1e-5))))
    bandwidth, inverse, window = np.empty(points.size), np.empty(points.size), np.empty((points.size, 3), np.int64)
    loess.find_windows(rows.every, rows.ends, rows.x, points, wanted, bandwidth, inverse, window)
    return Windows(points, bandwidth, inverse, window, run)


@dataclass(frozen=True)
class _Line:
    """Sums of the distinct values, and behind them the nodes of cells of about 2 sqrt(n) values each."""

    x: Floats
    values: Floats
    distinct: int
    size: int
    basis: Floats

    def room(self, where: Windows) -> int:
        """The most places that a run of points can need."""
        starts = np.arange(0, where.points.size, where.run)
        first, middle, last = where.window.T
        spread = np.maximum.reduceat(last, starts) - np.minimum.reduceat(last, starts)
        spread += np.maximum.reduceat(first, starts) - np.minimum.reduceat(first, starts)
        spread += np.maximum.reduceat(middle, starts) - middle[starts]
        return min(int(spread.max()) + 4 * self.size, self.distinct) + self.x.size - self.distinct + 2 * len(self.basis)


def _line(x: Floats, values: Floats, nodes: int) -> _Line:
    from miscal.kernels import loess

    size = x.size + 1 if x.size <= DIRECT else int(np.sqrt(4.0 * x.size))
    cells = x.size // size
    angle = (np.arange(nodes)[::-1] + 0.5) * np.pi / nodes
    basis = np.cos(np.arange(nodes)[:, np.newaxis] * angle)
    places, sums = np.empty(x.size + cells * nodes), np.empty((values.shape[0], x.size + cells * nodes))
    places[: x.size], sums[:, : x.size] = x, values
    over_blocks(cells, lambda i, j: loess.add_cells(places, sums, size, i, j, basis, x.size), block=64)
    return _Line(places, sums, x.size, size, basis)


def _fit(line: _Line, where: Windows, degree: int) -> Fit:
    from miscal.kernels import loess

    points = where.points.size
    values, solution = np.empty((points, line.values.shape[0] - 1)), np.empty((points, 4))
    kept, room = np.empty(points, np.int64), line.room(where)

    def work(i: int, j: int) -> None:
        loess.fit_points(
            line.x, line.values, line.distinct, line.size, line.basis, room, where.run,
            where.points[i:j], where.window[i:j], where.inverse[i:j], degree, values[i:j], solution[i:j], kept[i:j],
        )  # fmt: skip

    over_blocks(points, work, block=64 * where.run)
    return Fit(values, solution, kept)


def _powers(x: Floats, values: Floats, where: Windows, fit: Fit, power: int) -> Floats:
    """At every point sum the operator weights, squared or to the fourth, times each row of `values`."""
    from miscal.kernels import loess

    line = _line(x, values, SQUARE_NODES if power == 2 else FOURTH_NODES)
    out, room = np.empty((where.points.size, values.shape[0])), line.room(where)

    def work(i: int, j: int) -> None:
        loess.power_points(
            line.x, line.values, line.distinct, line.size, line.basis, room, where.run,
            where.points[i:j], where.window[i:j], where.inverse[i:j], fit.solution[i:j], power, out[i:j],
        )  # fmt: skip

    over_blocks(where.points.size, work, block=64 * where.run)
    return out


def estimate(
    rows: Rows, codes: Integers | None, where: Windows, span: float, degree: int, se: str, iterations: int,
    simultaneous: bool,
) -> Estimate:  # fmt: skip
    """Fit all responses at the points; responses are apart only when robustness gives each its own weights."""
    own = find_windows(rows, rows.x, span, MANY)
    parts = [rows]
    if iterations:
        parts = [replace(rows, y=y[np.newaxis], middle=m[np.newaxis]) for y, m in zip(rows.y, rows.middle, strict=True)]
    if se == "constant":
        base = _base(rows, own, degree)
        done = [_constant(part, where, own, degree, iterations, base, simultaneous) for part in parts]
    else:
        done = [_sandwich(part, codes, where, own, degree, iterations, simultaneous) for part in parts]
    return replace(
        done[0],
        fit=np.hstack([part.fit for part in done]),
        standard_error=np.hstack([part.standard_error for part in done]),
        degrees_of_freedom=np.hstack([part.degrees_of_freedom for part in done]),
        sigma=np.hstack([part.sigma for part in done]),
        correlations=[each for part in done for each in part.correlations],
    )


# ---- weights against outliers ----------------------------------------------------------------------------------------
def _median(values: Floats, count: Floats) -> float:
    if not count.ndim:
        return float(np.median(values))
    order = np.argsort(values)
    reached = np.cumsum(count[order])
    middle = [(reached[-1] - 1) // 2, reached[-1] // 2]
    return float(values[order[np.searchsorted(reached, middle, side="right")]].mean())


def _bisquare(residual: Floats, count: Floats) -> Floats:
    """(1 - (r / 6 median |r|)^2)^2, 1 for the smallest residuals and 0 beyond, with the cuts of netlib's `lowesw`."""
    size = np.abs(residual)
    scale = 6.0 * _median(size, count)
    if scale < np.finfo(np.float64).tiny:
        return np.ones(size.size)
    out = (1.0 - (size / scale) ** 2) ** 2
    out[size <= 0.001 * scale] = 1.0
    out[size > 0.999 * scale] = 0.0
    return np.asarray(out)


def _robust_fit(
    rows: Rows, where: Windows, own: Windows, degree: int, iterations: int
) -> tuple[Floats | float, Floats, Fit, Fit]:
    """Weights of the rows against outliers, sums of the values with them, and the fits at the points and the values."""
    robust: Floats | float = 1.0
    line = _line(rows.x, rows.sums(), FIT_NODES)
    at_values = _fit(line, own, degree)
    for _ in range(iterations):
        robust = _bisquare(rows.y[0] - rows.per_row(at_values.values[:, 0]), rows.count)
        line = _line(rows.x, rows.sums(robust), FIT_NODES)
        at_values = _fit(line, own, degree)
    return robust, line.values[:, : rows.x.size], _fit(line, where, degree), at_values


# ---- the sandwich ----------------------------------------------------------------------------------------------------
def _sandwich(
    rows: Rows, codes: Integers | None, where: Windows, own: Windows, degree: int, iterations: int, simultaneous: bool
) -> Estimate:
    """Operator weights squared times squared residuals, each divided by 1 - l_ii (HC3)."""
    robust, sums, fit, at_values = _robust_fit(rows, where, own, degree, iterations)
    weight = np.asarray(rows.weight * robust)
    left = 1.0 - weight * rows.per_row(at_values.leverage)
    reproduced = left < REPRODUCED
    scale = weight / np.where(reproduced, 1.0, left)
    fitted = at_values.values.T
    scores = np.stack([
        scale * (y - np.where(reproduced, 0.0, rows.per_row(value))) for y, value in zip(rows.y, fitted, strict=True)
    ])  # fmt: skip
    squares = scores * scores
    of_values = [rows.per_value(rows.count * each) for each in squares]
    spread = _powers(rows.x, np.vstack([*of_values, rows.per_value(weight * weight * rows.count)]), where, fit, 2)
    if codes is None:
        squares *= squares
        fourths = np.vstack([rows.per_value(rows.count * each) for each in squares])
        variance, fourth = spread[:, :-1], _powers(rows.x, fourths, where, fit, 4)
        correlations = _correlations(rows.x, of_values, where, fit) if simultaneous else []
    else:
        variance, fourth, correlations = _clustered(rows, rows.count * scores, codes, where, fit, simultaneous)
    # Student's degrees of freedom: the number of rows (clusters) that the variance really rests on
    known = fourth > 0.0
    freedom = np.where(known, np.maximum(variance**2 / np.where(known, fourth, 1.0), 1.0), float(rows.total))
    error = np.sqrt(np.maximum(variance, 0.0))
    error[spread[:, -1] >= 1.0 - 1e-9] = np.nan  # the fit rests on one row
    sigma = np.full(len(rows.y), np.nan)
    trace = float(at_values.leverage @ sums[0])
    return Estimate(fit.values, error, freedom, fit.degree, trace, sigma, np.nan, correlations)


def _clustered(
    rows: Rows, scores: Floats, codes: Integers, where: Windows, fit: Fit, simultaneous: bool
) -> tuple[Floats, Floats, list[Floats]]:
    """Sum over clusters (sum of l_i r_i)^2, times G / (G - 1); the fourth powers likewise; the correlations."""
    from scipy import sparse

    groups = int(codes.max()) + 1
    factor = groups / (groups - 1.0) if groups > 1 else np.nan
    value = rows.per_row(np.arange(rows.x.size))  # the number of each row's value
    variance, fourth = np.empty((2, where.points.size, len(scores)))
    by_cluster = [sparse.csr_array((each, (codes, value)), (groups, rows.x.size)) for each in scores]
    for point in range(where.points.size):
        weights = _operator(rows.x, where, fit, rows.x, slice(point, point + 1))[0]
        for k, each in enumerate(by_cluster):
            square = (each @ weights) ** 2
            variance[point, k], fourth[point, k] = square.sum(), square @ square
    correlations = []
    if simultaneous:
        block, matrix = _block_operator(rows.x, np.ones(rows.x.size), where, fit, CLUSTER_BLOCKS)
        for each in scores:
            blocks = sparse.csr_array((each, (block[value], codes)), (matrix.shape[1], groups))
            correlations.append(_correlation(matrix @ (blocks @ blocks.T).toarray() @ matrix.T))
    return variance * factor, fourth * factor**2, correlations


# ---- one residual variance -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Base:
    """The operator at the values without robustness: one_delta = trace of (I - L)(I - L)', degrees of freedom."""

    sums: Floats
    fit: Fit
    delta: float
    freedom: float


def _base(rows: Rows, own: Windows, degree: int) -> _Base:
    sums = rows.sums()
    fit = _fit(_line(rows.x, sums, FIT_NODES), own, degree)
    many = rows.per_value(rows.count)
    square = rows.per_value(np.asarray(rows.weight * rows.weight * rows.count))
    norm = _powers(rows.x, square[np.newaxis], own, fit, 2)[:, 0]
    delta = float(rows.total + many @ norm - 2.0 * (fit.leverage @ sums[0]))
    delta = freedom = delta if delta > 1e-9 * rows.total else np.nan
    if rows.x.size <= DENSE and not rows.weight.ndim:  # beyond, two_delta is dear and about one_delta
        root = np.sqrt(many)
        rest = np.eye(root.size) - _operator(rows.x, own, fit, rows.x) * root[:, np.newaxis] * root
        product = rest @ rest.T
        two = float((product * product).sum()) + rows.total - root.size  # contrasts inside ties are left as they are
        freedom = delta * delta / two
    return _Base(sums, fit, delta, freedom)


def _constant(
    rows: Rows, where: Windows, own: Windows, degree: int, iterations: int, base: _Base, simultaneous: bool
) -> Estimate:
    fit = _fit(_line(rows.x, rows.sums() if iterations else base.sums, FIT_NODES), where, degree)
    mass = base.sums[:1]
    final, residual = fit, [y - rows.per_row(each) for y, each in zip(rows.y, base.fit.values.T, strict=False)]
    if iterations:
        robust, _, final, at_values = _robust_fit(rows, where, own, degree, iterations)
        residual = [_pseudo_residuals(rows, robust, at_values, own, degree)]
    sigma = np.sqrt(np.array([(rows.weight * rows.count * each**2).sum() for each in residual]) / base.delta)
    correlations = _correlations(rows.x, list(mass), where, fit) * len(rows.y) if simultaneous else []
    error = np.sqrt(_powers(rows.x, mass, where, fit, 2)) * sigma
    freedom, trace = np.full_like(error, base.freedom), float(base.fit.leverage @ mass[0])
    return Estimate(final.values, error, freedom, final.degree, trace, sigma, base.delta, correlations)


def _pseudo_residuals(rows: Rows, robust: Floats | float, fit: Fit, own: Windows, degree: int) -> Floats:
    """Residuals of the pseudo-values (netlib's `lowesp`), smoothed without robustness weights."""
    residual = rows.y[0] - rows.per_row(fit.values[:, 0])
    scale = (6.0 * _median(np.abs(residual) * np.sqrt(rows.weight), rows.count)) ** 2 / 5.0
    if not scale > 0.0:
        return np.zeros_like(residual)
    share = (1.0 - residual**2 * rows.weight / scale) * np.sqrt(robust)
    stretch = rows.total / float((rows.count * share).sum())
    pseudo = replace(rows, y=(rows.y[0] - residual + stretch * robust * residual)[np.newaxis])
    again = _fit(_line(rows.x, pseudo.sums(), FIT_NODES), own, degree)
    return np.asarray(pseudo.y[0] - rows.per_row(again.values[:, 0]))


# ---- bands -----------------------------------------------------------------------------------------------------------
def _operator(x: Floats, where: Windows, fit: Fit, places: Floats, part: slice = slice(None)) -> Floats:
    """Operator weight of each point (row) at each place (column), 0 outside its window."""
    first, _, last = where.window[part].T
    scaled = (places - where.points[part, np.newaxis]) * where.inverse[part, np.newaxis]
    bell = 1.0 - np.abs(scaled * scaled * scaled)
    tricube = bell * bell * bell
    tricube[(places < x[first][:, np.newaxis]) | (places > x[last - 1][:, np.newaxis])] = 0.0
    a, b, c, centre = fit.solution[part].T[:, :, np.newaxis]
    scaled -= centre
    return np.asarray(tricube * (a + scaled * (b + scaled * c)))


def _block_operator(x: Floats, mass: Floats, where: Windows, fit: Fit, blocks: int) -> tuple[Integers, Floats]:
    """Pool neighbouring values into blocks at their mean place; with few values each is its own block and exact."""
    blocks = min(blocks, x.size)
    block = (np.arange(x.size, dtype=np.int64) * blocks) // x.size
    starts = np.searchsorted(block, np.arange(blocks))
    total = np.add.reduceat(mass, starts)
    places = x[starts] if blocks == x.size else np.add.reduceat(mass * x, starts) / np.where(total > 0.0, total, 1.0)
    return block, _operator(x, where, fit, np.where(total > 0.0, places, x[starts]))


def _correlation(covariance: Floats) -> Floats:
    size = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    size[size == 0.0] = 1.0
    return np.asarray(covariance / size[:, np.newaxis] / size)


def _correlations(x: Floats, variances: list[Floats], where: Windows, fit: Fit) -> list[Floats]:
    """Correlation of the curve across the grid for each set of variances of the distinct values."""
    out = []
    for variance in variances:
        block, matrix = _block_operator(x, variance, where, fit, BLOCKS)
        out.append(_correlation((matrix * np.bincount(block, weights=variance)) @ matrix.T))
    return out


def critical_values(
    done: Estimate, level: float, simultaneous: bool, random_state: int | np.random.Generator | None
) -> Floats:
    """Multiples of the standard error, (points, responses): Student's quantile at the level of the band.

    A simultaneous band takes the quantile of the largest deviation of a Gaussian curve with the same correlations and
    then Student's quantile of the same tail, point by point.
    """
    from scipy import special

    tail = np.full(done.fit.shape[1], 0.5 + 0.5 * level)
    random = np.random.default_rng(random_state)
    for k, correlation in enumerate(done.correlations if simultaneous else []):
        values, vectors = np.linalg.eigh(correlation)
        keep = values > 1e-9 * values[-1]
        root = vectors[:, keep] * np.sqrt(values[keep])
        largest = np.abs(root @ random.standard_normal((root.shape[1], DRAWS))).max(axis=0)
        tail[k] = special.ndtr(np.quantile(largest, level))
    return np.asarray(special.stdtrit(done.degrees_of_freedom, np.minimum(tail, 1.0 - 1e-12)))
