"""Standard errors and bands of local regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miscal.metrics.smoothing_operator import (
    Cells,
    Everywhere,
    Fit,
    Pooled,
    Rows,
    Windows,
    find_bandwidths,
    find_windows,
    fit_at,
    fit_everywhere,
    make_cells,
    pool_rows,
    squares_at,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CORRECTION = 2  # residuals squared are divided by (1 - l_ii)^2, HC3
BLOCKS = 1024  # the covariance across the grid is formed on at most this many blocks of values
CLUSTER_BLOCKS = 512
DRAWS = 4000
DENSE = 400  # two_delta is exact up to this many distinct values


@dataclass(frozen=True)
class Estimate:
    """Curves, errors and their degrees of freedom at sorted points.

    `correlations` across the points, one matrix a response, only for a simultaneous band.
    """

    fit: Floats
    standard_error: Floats
    degree: Integers
    trace: float
    sigma: Floats
    one_delta: float
    degrees_of_freedom: Floats
    correlations: list[Floats]


@dataclass(frozen=True)
class _Piece:
    fit: Floats
    standard_error: Floats
    degree: Integers
    trace: float
    sigma: Floats
    freedom: Floats
    correlations: list[Floats]


def estimate(
    rows: Rows, codes: Integers | None, where: Windows, span: float, degree: int, se: str, iterations: int,
    simultaneous: bool,
) -> Estimate:  # fmt: skip
    """Fit all responses at the points; responses are apart only when robustness gives each its own weights."""
    bandwidth = find_bandwidths(rows, rows.x, span)
    base = _base(rows, bandwidth, degree) if se == "constant" else None
    groups = [rows] if not iterations else [rows.response(k) for k in range(rows.y.shape[1])]
    done = [
        _constant(part, where, bandwidth, degree, iterations, base, simultaneous)
        if base is not None
        else _sandwich(part, codes, where, bandwidth, degree, iterations, simultaneous)
        for part in groups
    ]
    delta = base.delta if base is not None else np.nan
    return Estimate(
        np.hstack([p.fit for p in done]), np.hstack([p.standard_error for p in done]), done[0].degree, done[0].trace,
        np.hstack([p.sigma for p in done]), delta, np.hstack([p.freedom for p in done]),
        [c for p in done for c in p.correlations],
    )  # fmt: skip


# ---- fits ------------------------------------------------------------------------------------------------------------
def _cells(rows: Rows, pooled: Pooled) -> Cells:
    from miscal.kernels.loess_cells import FIT_NODES

    return make_cells(rows.x, pooled.sums, FIT_NODES)


def _residuals(rows: Rows, fitted: Floats) -> Floats:
    """Residuals of a single response, in the rows' own order."""
    from miscal.kernels import loess_rows

    out = np.empty(rows.y.shape[0])
    loess_rows.row_values(rows.order, rows.starts, fitted, out)
    return np.asarray(rows.y[:, 0] - rows.middle[0] - out)


def _median(values: Floats, count: Integers) -> float:
    if not count.size:
        return float(np.median(values))
    order = np.argsort(values)
    reached = np.cumsum(count[order])
    middle = [(reached[-1] - 1) // 2, reached[-1] // 2]
    return float(values[order[np.searchsorted(reached, middle, side="right")]].mean())


def _bisquare(residual: Floats, count: Integers) -> Floats:
    """(1 - (r / 6 median |r|)^2)^2, 1 for the smallest residuals and 0 beyond, with the cuts of netlib's `lowesw`."""
    size = np.abs(residual)
    scale = 6.0 * _median(size, count)
    if scale < np.finfo(np.float64).tiny:
        return np.ones(size.size)
    out = (1.0 - (size / scale) ** 2) ** 2
    out[size <= 0.001 * scale] = 1.0
    out[size > 0.999 * scale] = 0.0
    return np.asarray(out)


def _robust_weights(rows: Rows, bandwidth: Floats, degree: int, iterations: int) -> tuple[Pooled, Cells, Everywhere]:
    """Re-weight by residuals; the last fit is with the last weights."""
    pooled = pool_rows(rows)
    cells = _cells(rows, pooled)
    fits = fit_everywhere(rows.x, pooled, cells, bandwidth, degree, squares=False)
    for _ in range(iterations):
        pooled = pool_rows(rows, _bisquare(_residuals(rows, fits.fitted[0]), rows.count))
        cells = _cells(rows, pooled)
        fits = fit_everywhere(rows.x, pooled, cells, bandwidth, degree, squares=False)
    return pooled, cells, fits


def _residual_squares(rows: Rows, pooled: Pooled, fits: Everywhere) -> tuple[Floats, Floats, Floats]:
    """Per value: corrected squares (a row a response, then the squared weights), plain squares, fourth powers."""
    from miscal.kernels import loess_rows
    from miscal.kernels.threads import over_blocks

    plain, fourth = np.empty_like(fits.fitted), np.empty_like(fits.fitted)
    both = np.empty((plain.shape[0] + 1, plain.shape[1]))
    values, both[-1] = both[:-1], pooled.square
    single = rows.x.size == rows.y.shape[0] and not pooled.robust.size

    def work(start: int, stop: int) -> None:
        if single:  # nothing is pooled: the sums are the rows, already in order
            loess_rows.single_squares(
                pooled.sums, pooled.square, fits.fitted, fits.leverage, CORRECTION, start, stop, values, plain, fourth
            )
            return
        loess_rows.residual_squares(
            rows.order, rows.starts, rows.y, rows.middle, fits.fitted, fits.leverage, rows.weight, rows.count,
            pooled.robust, CORRECTION, start, stop, values, plain, fourth,
        )  # fmt: skip

    over_blocks(rows.x.size, work)
    return both, plain, fourth


# ---- the sandwich ----------------------------------------------------------------------------------------------------
def _sandwich(
    rows: Rows, codes: Integers | None, where: Windows, bandwidth: Floats, degree: int, iterations: int,
    simultaneous: bool,
) -> _Piece:  # fmt: skip
    pooled, cells, fits = _robust_weights(rows, bandwidth, degree, iterations)
    fit = fit_at(rows.x, pooled, cells, where, degree)
    values, _, fourth = _residual_squares(rows, pooled, fits)
    sums = squares_at(rows.x, values, where, fit)
    correlations: list[Floats] = []
    if codes is not None:
        variance, fourths, correlations = _clustered(rows, pooled, fits, codes, where, fit, simultaneous)
    else:
        variance, fourths = sums[:, :-1], squares_at(rows.x, fourth, where, fit, fourth=True)
        correlations = _correlations(rows.x, values[:-1], where, fit) if simultaneous else []
    # Student's degrees of freedom: the number of rows (clusters) that the variance really rests on
    known = fourths > 0.0
    freedom = np.where(known, np.maximum(variance**2 / np.where(known, fourths, 1.0), 1.0), float(rows.total))
    error = np.sqrt(np.maximum(variance, 0.0))
    error[sums[:, -1] >= 1.0 - 1e-9] = np.nan  # the fit rests on one row
    trace = float(fits.leverage @ pooled.sums[0])
    sigma = np.full(variance.shape[1], np.nan)
    return _Piece(fit.values, error, fit.degree, trace, sigma, freedom, correlations)


def _clustered(
    rows: Rows, pooled: Pooled, fits: Everywhere, codes: Integers, where: Windows, fit: Fit, simultaneous: bool
) -> tuple[Floats, Floats, list[Floats]]:
    """Sum over clusters (sum of l_i r_i)^2, times G / (G - 1); the fourth powers likewise; the correlations."""
    from miscal.kernels import loess_rows
    from miscal.kernels.threads import over_blocks

    scores, value = np.empty(rows.y.shape), np.empty(rows.y.shape[0], np.int64)
    loess_rows.row_scores(
        rows.order, rows.starts, rows.y, rows.middle, fits.fitted, fits.leverage, rows.weight, rows.count,
        pooled.robust, 0.5 * CORRECTION, scores, value,
    )  # fmt: skip
    members = np.argsort(codes, kind="stable")
    bounds = np.flatnonzero(np.diff(codes[members], prepend=-1, append=-1)).astype(np.int64)
    groups = bounds.size - 1
    factor = groups / (groups - 1.0) if groups > 1 else np.nan
    variance, fourths = np.empty((2, where.points.size, rows.y.shape[1]))

    def work(start: int, stop: int) -> None:
        loess_rows.cluster_points(
            rows.x, scores, value, members, bounds, where.points, where.first, where.last, where.inverse,
            fit.solution, fit.centre, start, stop, variance, fourths,
        )  # fmt: skip

    over_blocks(where.points.size, work, block=32)
    correlations = []
    if simultaneous:
        block, matrix = _block_operator(rows.x, np.ones(rows.x.size), where, fit, CLUSTER_BLOCKS)
        for k in range(rows.y.shape[1]):
            inner = np.zeros((matrix.shape[1], matrix.shape[1]))
            loess_rows.cluster_products(scores, block, value, members, bounds, k, inner)
            correlations.append(_correlation(matrix @ inner @ matrix.T))
    return variance * factor, fourths * factor**2, correlations


# ---- one residual variance -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Base:
    pooled: Pooled
    fits: Everywhere
    delta: float
    freedom: float


def _base(rows: Rows, bandwidth: Floats, degree: int) -> _Base:
    """The operator without robustness, with one_delta = trace of (I - L)(I - L)'."""
    from miscal.kernels.loess_cells import SQUARE_NODES

    pooled = pool_rows(rows)
    cells = make_cells(rows.x, np.vstack([pooled.sums, pooled.square]), SQUARE_NODES)
    fits = fit_everywhere(rows.x, pooled, cells, bandwidth, degree, squares=True)
    many = np.diff(rows.ends, prepend=0).astype(np.float64)
    delta = float(rows.total + many @ fits.norm - 2.0 * (fits.leverage @ pooled.sums[0]))
    delta = delta if delta > 1e-9 * rows.total else np.nan
    return _Base(pooled, fits, delta, _freedom(rows, pooled, bandwidth, degree, many, delta))


def _freedom(rows: Rows, pooled: Pooled, bandwidth: Floats, degree: int, many: Floats, delta: float) -> float:
    """one_delta^2 / two_delta; two_delta is taken as one_delta where the exact one is dear and makes no difference."""
    if rows.x.size > DENSE or rows.weight.size:
        return delta
    where = find_windows(rows.x, rows.x, bandwidth)
    fit = fit_at(rows.x, pooled, _cells(rows, pooled), where, degree)
    root = np.sqrt(many)
    rest = np.eye(root.size) - _operator(rows.x, where, fit, rows.x) * root[:, None] * root
    product = rest @ rest.T
    two = float((product * product).sum()) + rows.total - root.size  # contrasts inside ties are left as they are
    return delta * delta / two


def _constant(
    rows: Rows, where: Windows, bandwidth: Floats, degree: int, iterations: int, base: _Base, simultaneous: bool
) -> _Piece:
    plain = base.pooled if not iterations else pool_rows(rows)
    fit = fit_at(rows.x, plain, _cells(rows, plain), where, degree)
    spread = squares_at(rows.x, base.pooled.sums[:1], where, fit)
    correlations = _correlations(rows.x, base.pooled.sums[:1], where, fit) * rows.y.shape[1] if simultaneous else []
    values, degrees = fit.values, fit.degree
    if iterations:
        pooled, cells, fits = _robust_weights(rows, bandwidth, degree, iterations)
        final = fit_at(rows.x, pooled, cells, where, degree)
        values, degrees = final.values, final.degree
        total = np.array([_pseudo_squares(rows, pooled, fits, bandwidth, degree)])
    else:
        total = _residual_squares(rows, base.pooled, base.fits)[1].sum(axis=1)
    sigma = np.sqrt(total / base.delta)
    trace = float(base.fits.leverage @ base.pooled.sums[0])
    error = np.sqrt(spread) * sigma
    return _Piece(values, error, degrees, trace, sigma, np.full_like(error, base.freedom), correlations)


def _pseudo_squares(rows: Rows, pooled: Pooled, fits: Everywhere, bandwidth: Floats, degree: int) -> float:
    """Residual sum of squares of the pseudo-values (netlib's `lowesp`), smoothed without robustness weights."""
    weight = rows.weight if rows.weight.size else np.ones(rows.y.shape[0])
    many = rows.count if rows.count.size else np.ones(rows.y.shape[0], np.int64)
    residual = _residuals(rows, fits.fitted[0])
    scale = (6.0 * _median(np.abs(residual) * np.sqrt(weight), rows.count)) ** 2 / 5.0
    if not scale > 0.0:
        return 0.0
    share = (1.0 - residual**2 * weight / scale) * np.sqrt(pooled.robust)
    stretch = rows.total / float(many @ share)
    values = rows.y[:, 0] - residual + stretch * pooled.robust * residual
    pseudo = Rows(
        rows.x, rows.order, rows.starts, rows.ends, np.ascontiguousarray(values[:, None]), rows.middle, rows.weight,
        rows.count,
    )  # fmt: skip
    sums = pool_rows(pseudo)
    refit = fit_everywhere(rows.x, sums, _cells(rows, sums), bandwidth, degree, squares=False)
    left = _residuals(pseudo, refit.fitted[0])
    return float((weight * many) @ (left * left))


# ---- bands -----------------------------------------------------------------------------------------------------------
def _operator(x: Floats, where: Windows, fit: Fit, places: Floats) -> Floats:
    from miscal.kernels import loess_rows

    out = np.empty((where.points.size, places.size))
    loess_rows.operator(
        places, x[where.first], x[where.last - 1], where.points, where.inverse, fit.solution, fit.centre, out
    )
    return out


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
    return np.asarray(covariance / size[:, None] / size)


def _correlations(x: Floats, values: Floats, where: Windows, fit: Fit) -> list[Floats]:
    """Correlation of the curve across the grid for each row of `values` (variances per distinct value)."""
    out = []
    for row in values:
        block, matrix = _block_operator(x, row, where, fit, BLOCKS)
        out.append(_correlation((matrix * np.bincount(block, weights=row)) @ matrix.T))
    return out


def critical_values(done: Estimate, level: float, band: str, random_state: int | np.random.Generator | None) -> Floats:
    """Multiples of the standard error, (points, responses): Student's quantile at the level of the band.

    A simultaneous band takes the quantile of the largest deviation of a Gaussian curve with the same correlations and
    then Student's quantile of the same tail, point by point.
    """
    from scipy import special

    tail = np.full(done.fit.shape[1], 0.5 + 0.5 * level)
    random = np.random.default_rng(random_state)
    for k, correlation in enumerate(done.correlations if band == "simultaneous" else []):
        values, vectors = np.linalg.eigh(correlation)
        keep = values > 1e-9 * values[-1]
        root = vectors[:, keep] * np.sqrt(values[keep])
        largest = np.abs(root @ random.standard_normal((root.shape[1], DRAWS))).max(axis=0)
        tail[k] = special.ndtr(np.quantile(largest, level))
    return np.asarray(special.stdtrit(done.degrees_of_freedom, np.minimum(tail, 1.0 - 1e-12)))
