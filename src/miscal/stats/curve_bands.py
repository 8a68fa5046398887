"""Standard errors and bands of local regression."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miscal.data.arrays import Plain
from miscal.data.checks import number, one_of, whole
from miscal.data.libraries import sparse, special
from miscal.stats.cell_sums import Floats, Integers
from miscal.stats.local_regression import Fit, SortedRows, Windows, find_windows, fit_at, operator, powers_at

REPRODUCED = 1e-7  # 1 - l_ii below this: the fit reproduces the row, whose residual is then uninformative
BLOCKS = 1024  # the covariance across the grid is formed on at most this many blocks of values
BAND_DRAWS = 4000
MAX_EXACT_VALUES = 400  # two_delta is exact up to this many distinct values


@dataclass(frozen=True)
class SmoothedCurve:
    """A smooth curve for each response: rows of the arrays are grid points, columns are responses.

    `one_delta` and `sigma` belong to `se="constant"` and are NaN otherwise.
    `correlations` across the points, one matrix a response, are made for a simultaneous band. `critical` is the
    multiple of the standard error that makes the band, Student's at `degrees_of_freedom`.
    """

    grid: Floats
    fit: Floats
    standard_error: Floats
    degrees_of_freedom: Floats
    sigma: Floats
    one_delta: float
    correlations: list[Floats]
    critical: Floats | float = np.nan

    @property
    def low(self) -> Floats:
        """The lower end of the band."""
        return self.fit - self.critical * self.standard_error

    @property
    def high(self) -> Floats:
        """The upper end of the band."""
        return self.fit + self.critical * self.standard_error


@dataclass(frozen=True)
class SmoothingOptions:
    """How a curve and its bands are computed; `miscal.metrics.curves.smooth` documents each option."""

    span: float = 0.9
    degree: int = 2
    grid: int | ArrayLike = 500
    trim: float = 0.05
    level: float = 0.95
    se: str = "robust"
    robust_iterations: int = 0
    band: str = "pointwise"
    random_state: Any = 0

    def __post_init__(self) -> None:
        number("span", self.span, 0.0, 1.0, above=True, hint="the share of rows in a window")
        whole("degree", self.degree, 0, 2)
        number("trim", self.trim, 0.0, 0.5, below=True)
        number("level", self.level, 0.0, 1.0, above=True, below=True)
        one_of("se", self.se, ("robust", "constant"))
        one_of("band", self.band, ("pointwise", "simultaneous"))
        whole("robust_iterations", self.robust_iterations, 0)


def fit_curves(
    rows: SortedRows, codes: Integers | None, points: Floats, options: SmoothingOptions
) -> SmoothedCurve:
    """Fit all responses at the points; responses are apart only when robustness gives each its own weights."""
    grid_windows, value_windows = find_windows(rows, options.span, points, rows.x)
    parts = [rows]
    if options.robust_iterations:
        parts = [replace(rows, y=y[None]) for y in rows.y]
    fitted = _constant if options.se == "constant" else _sandwich
    curves = [fitted(part, codes, grid_windows, value_windows, options) for part in parts]
    names = ("fit", "standard_error", "degrees_of_freedom", "sigma")
    joined: Plain = {name: np.hstack([getattr(part, name) for part in curves]) for name in names}
    return replace(
        curves[0], **joined, correlations=[matrix for part in curves for matrix in part.correlations]
    )


# ---- weights against outliers ----------------------------------------------------------------------------------------
def _median(values: Floats, count: Floats) -> float:
    if not count.ndim:
        return float(np.median(values))
    order = np.argsort(values)
    reached = np.cumsum(count[order])
    middle = [(reached[-1] - 1) // 2, reached[-1] // 2]
    places = np.searchsorted(reached, middle, side="right")
    return float(values[order[places]].mean())


def _bisquare(residual: Floats, count: Floats) -> Floats:
    """(1 - (r / 6 median |r|)^2)^2, 1 for the smallest residuals and 0 beyond, with the cuts of netlib's `lowesw`."""
    size = np.abs(residual)
    scale = 6.0 * _median(size, count)
    if scale < np.finfo(np.float64).tiny:
        return np.ones(size.size)
    out: Floats = (1.0 - (size / scale) ** 2) ** 2
    out[size <= 0.001 * scale] = 1.0
    out[size > 0.999 * scale] = 0.0
    return out


def _robust_fit(
    rows: SortedRows, grid_windows: Windows, value_windows: Windows, options: SmoothingOptions
) -> tuple[Floats | float, Fit, Fit]:
    """Weights of the rows against outliers, and the fits with them at the points and the values."""
    robust: Floats | float = 1.0
    line = rows.line()
    at_values = fit_at(line, value_windows, options.degree)
    for _ in range(options.robust_iterations):
        robust = _bisquare(rows.y[0] - rows.per_row(at_values.values[:, 0]), rows.count)
        line = rows.line(robust)
        at_values = fit_at(line, value_windows, options.degree)
    return robust, fit_at(line, grid_windows, options.degree), at_values


# ---- the sandwich ----------------------------------------------------------------------------------------------------
def _sandwich(
    rows: SortedRows,
    codes: Integers | None,
    grid_windows: Windows,
    value_windows: Windows,
    options: SmoothingOptions,
) -> SmoothedCurve:
    """Operator weights squared times squared residuals, each divided by 1 - l_ii (HC3)."""
    robust, fit, at_values = _robust_fit(rows, grid_windows, value_windows, options)
    weight = rows.weight * robust
    left = 1.0 - weight * rows.per_row(at_values.leverage)
    reproduced = left < REPRODUCED
    scale = weight / np.where(reproduced, 1.0, left)
    scores = scale * (rows.y - np.where(reproduced, 0.0, rows.per_row(at_values.values.T)))
    squares = np.vstack([scores**2, np.broadcast_to(weight * weight, scores[:1].shape)])
    spread = powers_at(rows, rows.count * squares, grid_windows, fit, 2)
    if codes is None:
        variance, fourth = (
            spread[:, :-1],
            powers_at(rows, rows.count * squares[:-1] ** 2, grid_windows, fit, 4),
        )
        scores, codes = np.sqrt(rows.count) * scores, np.arange(rows.order.size)
    else:
        scores = rows.count * scores
        variance, fourth = _clustered(rows, scores, codes, grid_windows, fit)
    correlations = (
        _correlations(rows, scores, codes, grid_windows, fit) if options.band == "simultaneous" else []
    )
    # Student's degrees of freedom: the number of rows (clusters) that the variance really rests on
    freedom = np.full_like(variance, rows.total)
    np.divide(variance**2, fourth, out=freedom, where=fourth > 0.0)
    error = np.sqrt(np.maximum(variance, 0.0))
    error[spread[:, -1] >= 1.0 - 1e-9] = np.nan  # the fit rests on one row
    sigma = np.full(len(rows.y), np.nan)
    freedom = np.maximum(freedom, 1.0)
    return SmoothedCurve(grid_windows.points, fit.values, error, freedom, sigma, np.nan, correlations)


def _clustered(
    rows: SortedRows, scores: Floats, codes: Integers, grid_windows: Windows, fit: Fit
) -> tuple[Floats, Floats]:
    """Sum over clusters (sum of l_i r_i)^2, times G / (G - 1); the fourth powers likewise."""
    shape = int(codes.max()) + 1, rows.x.size
    factor = shape[0] / (shape[0] - 1.0) if shape[0] > 1 else np.nan
    value = rows.per_row(np.arange(rows.x.size))  # the number of each row's value
    variance, fourth = np.empty((2, grid_windows.points.size, len(scores)))
    by_cluster = [sparse.csr_array((each, (codes, value)), shape) for each in scores]
    for point in range(grid_windows.points.size):
        weights = operator(rows.x, grid_windows, fit, rows.x, slice(point, point + 1))[0]
        for k, each in enumerate(by_cluster):
            square = (each @ weights) ** 2
            variance[point, k], fourth[point, k] = square.sum(), square @ square
    return variance * factor, fourth * factor**2


# ---- one residual variance -------------------------------------------------------------------------------------------
def _constant(
    rows: SortedRows,
    _codes: Integers | None,
    grid_windows: Windows,
    value_windows: Windows,
    options: SmoothingOptions,
) -> SmoothedCurve:
    """One variance for all rows: clusters are of no use to it."""
    line = rows.line()
    plain, fit = fit_at(line, value_windows, options.degree), fit_at(line, grid_windows, options.degree)
    delta, degrees = _freedom(rows, plain, value_windows)
    final, residual = fit, rows.y - rows.per_row(plain.values.T)
    if options.robust_iterations:
        robust, final, at_values = _robust_fit(rows, grid_windows, value_windows, options)
        residual = _pseudo_residuals(rows, robust, at_values, value_windows, options.degree)
    sigma = np.sqrt((rows.weight * rows.count * residual**2).sum(axis=1) / delta)
    correlations = []
    if options.band == "simultaneous":
        scores = np.broadcast_to(np.sqrt(rows.weight * rows.count), (1, rows.order.size))
        correlations = _correlations(rows, scores, np.arange(rows.order.size), grid_windows, fit) * len(
            rows.y
        )
    error = np.sqrt(powers_at(rows, rows.weight * rows.count, grid_windows, fit, 2)) * sigma
    freedom = np.full_like(error, degrees)
    return SmoothedCurve(grid_windows.points, final.values, error, freedom, sigma, delta, correlations)


def _freedom(rows: SortedRows, fit: Fit, value_windows: Windows) -> tuple[float, float]:
    """Of the fit at the values: one_delta = trace of (I - L)(I - L)', and degrees of freedom."""
    counts, trace = rows.per_value(rows.count), fit.leverage @ rows.per_value(rows.weight * rows.count)
    norm = powers_at(rows, rows.weight * rows.weight * rows.count, value_windows, fit, 2)[:, 0]
    delta = float(rows.total + counts @ norm - 2.0 * trace)
    if not delta > 1e-9 * rows.total:
        return np.nan, np.nan
    if rows.x.size > MAX_EXACT_VALUES or rows.weight.ndim:  # two_delta is dear and about one_delta
        return delta, delta
    root = np.sqrt(counts)
    rest = np.eye(root.size) - operator(rows.x, value_windows, fit, rows.x) * root[:, None] * root
    product = rest @ rest.T
    # Contrasts inside ties are left as they are.
    two = float(np.sum(product * product)) + rows.total - root.size
    return delta, delta * delta / two


def _pseudo_residuals(
    rows: SortedRows, robust: Floats | float, fit: Fit, value_windows: Windows, degree: int
) -> Floats:
    """Residuals of the pseudo-values (netlib's `lowesp`), smoothed without robustness weights."""
    residual = rows.y - rows.per_row(fit.values.T)
    scale = (6.0 * _median(np.abs(residual[0]) * np.sqrt(rows.weight), rows.count)) ** 2 / 5.0
    if not scale > 0.0:
        return np.zeros_like(residual)
    share = (1.0 - residual**2 * rows.weight / scale) * np.sqrt(robust)
    stretch = rows.total / float((rows.count * share).sum())
    pseudo = replace(rows, y=rows.y - residual + stretch * robust * residual)
    again = fit_at(pseudo.line(), value_windows, degree)
    return np.asarray(pseudo.y - rows.per_row(again.values.T))


# ---- bands -----------------------------------------------------------------------------------------------------------
def _correlations(
    rows: SortedRows, scores: Floats, codes: Integers, grid_windows: Windows, fit: Fit
) -> list[Floats]:
    """Correlation of the curve across the grid for each row of scores, those of one cluster summed.

    Neighbouring values are taken together in blocks at their mean place; with few values each is its own, and exact.
    """
    values, out = rows.x.size, []
    blocks = min(BLOCKS, values)
    block, places = np.arange(values) * blocks // values, rows.x
    for row_scores in scores:
        if blocks < values:
            mass = rows.per_value(row_scores * row_scores) + 1e-300
            places = np.bincount(block, mass * rows.x) / np.bincount(block, mass)
        matrix = operator(rows.x, grid_windows, fit, places)
        cells = rows.per_row(block), codes
        summed = sparse.csr_array((row_scores, cells), (blocks, int(codes.max()) + 1))
        covariance = matrix @ (summed @ summed.T).toarray() @ matrix.T
        size = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        size[size == 0.0] = 1.0
        out.append(covariance / size[:, None] / size)
    return out


def critical_values(curve: SmoothedCurve, options: SmoothingOptions) -> Floats:
    """Multiples of the standard error, (points, responses): Student's quantile at the level of the band.

    A simultaneous band takes the quantile of the largest deviation of a Gaussian curve with the same correlations and
    then Student's quantile of the same tail, point by point.
    """
    tail = np.full(curve.fit.shape[1], 0.5 + 0.5 * options.level)
    random = np.random.default_rng(options.random_state)
    for k, correlation in enumerate(curve.correlations):
        values, vectors = np.linalg.eigh(correlation)
        keep = values > 1e-9 * values[-1]
        root = vectors[:, keep] * np.sqrt(values[keep])
        largest = np.abs(root @ random.standard_normal((root.shape[1], BAND_DRAWS))).max(axis=0)
        tail[k] = special.ndtr(np.quantile(largest, options.level))
    return np.asarray(special.stdtrit(curve.degrees_of_freedom, np.minimum(tail, 1.0 - 1e-12)))
