"""Curves along a variable by local regression (LOESS), with bands, and where both are furthest apart."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miscal.cells.ranges import interpolated, quantile_ranks
from miscal.data.arrays import Array
from miscal.data.checks import bounded, check_lengths, whole
from miscal.data.errors import refusal
from miscal.data.target import TargetData
from miscal.metrics.cell_evaluation import kuiper_test
from miscal.metrics.inputs import MetricInput, variable_columns
from miscal.results import Table
from miscal.stats.cell_sums import Floats
from miscal.stats.curve_bands import SmoothedCurve, SmoothingOptions, critical_values, fit_curves
from miscal.stats.local_regression import SortedRows, pool_rows, sort_rows
from miscal.stats.null_model import choose_null

FURTHEST = sys.float_info.max
CURVES = ("observed", "predicted", "gap")


def smooth(
    x: ArrayLike,
    responses: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    count: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    **options: Any,
) -> SmoothedCurve:
    r"""Smooth each response over x by local regression, evaluated exactly at every grid point.

    At a point v the rows in the window, the q = floor(span * n + 1e-5) nearest, get the weight
    (1 - (abs(x - v) / h)^3)^3 with h the distance of the q-th, and a polynomial is fitted by weighted least squares;
    the curve is its value at v, a linear form sum_i l_i(v) y_i.

    Parameters
    ----------
    x, responses : array-like of shape (n,) and (n,) or (n, m)
        Finite numbers.
        All responses share windows and are done in one sweep.
    weight : array-like of shape (n,), default=None
        Sampling weights above 0, multiplied into the local weights; only their ratios matter.
        The window counts rows, not weight.
    count : array-like of int of shape (n,), default=None
        A row that stands for several equal rows: the result is that of the repeated rows.
    cluster : array-like of int of shape (n,), default=None
        Rows of one cluster may depend on each other; of use with `se="robust"` alone.
    grid : int or array
        Number of equally spaced points between the `trim` and 1 - `trim` quantiles of x, or the points themselves.
        If those quantiles coincide the distinct values of x are used (evenly thinned to `grid` of them).
    se : {"robust", "constant"}
        "robust": the sandwich, se^2 = sum_i l_i(v)^2 r_i^2 / (1 - l_ii)^2 with r the residual at the row itself
        (HC3), valid for 0/1 responses, with Student's quantile at (sum l^2 r^2)^2 / sum l^4 r^4 degrees of freedom,
        the number of rows the variance rests on. "constant": one residual variance, sigma^2 = sum w r^2 / one_delta,
        se^2 = sigma^2 sum_i l_i(v)^2 / w_i, the formula of `loess`, with the exact one_delta.
    robust_iterations : int
        Bisquare re-weightings by residuals (the `symmetric` family); each response then has its own weights.
    band : {"pointwise", "simultaneous"}
        Simultaneous: the `level` quantile of the largest standardised deviation over the grid, simulated from the
        covariance of the curve across the grid.

    Returns
    -------
    Smooth

    Notes
    -----
    Rows with equal x are pooled. Up to 20,000 distinct values nothing is approximated. Above, neighbouring values are
    pooled at their mean in about 20,000 cells of equally many rows (a value with more rows than that stays apart):
    the curve moves by less than a hundredth of its standard error.
    If the q-th nearest row is at distance 0, the fit is the mean of the tied rows. A window with too few distinct
    values for the degree, or a numerically singular one, falls back to a lower degree.
    A row that its own fit reproduces (l_ii = 1) has no residual; the sandwich takes its deviation from the mean of all.
    A point whose fit rests on one row has no robust standard error (NaN). Bands do not correct for smoothing bias.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(20.0)
    >>> curve = smooth(x, 3.0 + 2.0 * x, degree=1, grid=[4.0, 10.0])
    >>> curve.fit[:, 0].round(6).tolist()
    [11.0, 23.0]
    """
    settings, y = SmoothingOptions(**options), np.asarray(responses, float)
    weights, counts = (np.asarray(1.0 if values is None else values, float) for values in (weight, count))
    if weights.ndim:  # a power of two: exact, and squares neither overflow nor vanish
        weights = weights * 2.0 ** -np.round(np.log2(weights.mean()))
    rows = sort_rows(np.asarray(x, float), y.reshape(len(y), -1), weights, counts)
    codes = None if cluster is None else np.unique(np.asarray(cluster)[rows.order], return_inverse=True)[1]
    done = fit_curves(pool_rows(rows), codes, _grid(rows, settings.grid, settings.trim), settings)
    return replace(done, fit=done.fit + rows.middle, critical=critical_values(done, settings))


def _grid(rows: SortedRows, grid: Any, trim: float) -> Floats:
    if np.ndim(grid) > 0:
        requirement = "must be a whole number, or finite numbers in one dimension"
        points = bounded(grid, "'grid'", requirement, -FURTHEST, FURTHEST)
        check_lengths({"'grid'": points})
        return points
    size = whole("grid", grid, 2)
    shares = np.array([trim, 1.0 - trim])
    low, high = interpolated(rows.at(quantile_ranks(shares, rows.total)), shares, rows.total)
    if rows.weight.ndim:  # the smallest value that reaches the share of weight
        reached = np.cumsum(rows.per_value(rows.weight * rows.count))
        # So that the scale of the weights rounds nothing over an edge.
        wanted = shares * reached[-1] * (1.0 - 1e-12)
        low, high = rows.x[np.searchsorted(reached, wanted)]
    if low < high:
        # Halved: the two may be as far apart as numbers get.
        return 2.0 * np.linspace(low / 2.0, high / 2.0, size)
    distinct = rows.x.size
    thin = np.round(np.linspace(0, distinct - 1, min(size, distinct)))
    return rows.x[np.unique(thin.astype(np.int64))]


@dataclass(frozen=True, eq=False)
class VariableCurve:
    """Smooth curves along a variable; each has its `_low` and `_high`.

    Attributes
    ----------
    grid : values of the variable
    observed, predicted, gap : the curves; gap = predicted - observed
    worst_value, worst_gap : float
        Where the gap is largest in size, and its signed size there (VCE at v*).
    p_value : float
        Of the cumulative differences along the variable, which need no smoothing.
    consistent : {"over", "under"} or None
        The sign of the gap where it is the same along the whole grid (Definition 5.3).
    left_out : int
        Rows whose value is missing.
    """

    grid: Array
    observed: Array
    observed_low: Array
    observed_high: Array
    predicted: Array
    predicted_low: Array
    predicted_high: Array
    gap: Array
    gap_low: Array
    gap_high: Array
    worst_value: float
    worst_gap: float
    p_value: float
    consistent: str | None
    left_out: int

    def frame(self) -> Table:
        """The curves as a table."""
        names = [f"{name}{end}" for name in CURVES for end in ("", "_low", "_high")]
        return Table({"value": self.grid, **{name: getattr(self, name) for name in names}})

    def __repr__(self) -> str:
        worst = f"largest gap {self.worst_gap:+.3g} at {self.worst_value:.4g}"
        return f"VariableCurve: {worst}, p = {self.p_value:.2g} of the walk\n{self.frame()!r}"


def variable_calibration_curve(
    y_true: Any,
    y_prob: Any,
    variable: Any,
    *,
    span: float = 0.9,
    degree: int = 2,
    grid: int | Sequence[float] | Array = 500,
    trim: float = 0.05,
    level: float = 0.95,
    se: str = "robust",
    robust_iterations: int = 0,
    band: str = "pointwise",
    target: str | int = "auto",
    correct: Any = None,
    sample_weight: Any = None,
    random_state: int = 0,
) -> VariableCurve:
    """Observed and predicted along a variable by local regression, with bands, and the worst value (VCE; paper 000).

    Parameters
    ----------
    variable : array-like of shape (n,)
        Numbers or dates; rows where it is missing are left out and counted.
    span, degree, grid, trim, se, robust_iterations, band
        Of the local regression: share of rows in a window, degree of the local polynomial, number of grid points
        between the `trim` and 1 - `trim` quantiles (or the points), "robust" or "constant" standard errors,
        re-weightings against outliers, "pointwise" or "simultaneous" bands.
    level : float, default=0.95
        Coverage of the bands.
    target, correct, sample_weight
        As in `expected_calibration_error`.

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.metrics import variable_calibration_curve
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(20, 80, 2000)
    >>> curve = variable_calibration_curve(rng.random(2000) < age / 100, np.full(2000, 0.5), age)
    >>> round(curve.worst_gap, 1), bool(curve.p_value < 0.001), curve.consistent
    (-0.3, True, None)
    """
    arguments = locals()
    inputs = MetricInput(y_true, y_prob, sample_weight)
    columns = variable_columns(variable)
    if len(columns) != 1 or columns[0].nominal:
        requirement, hint = "must be one column of numbers or dates", "use by_field for levels"
        raise refusal(requirement, "'variable'", hint=hint)
    options = {option.name: arguments[option.name] for option in fields(SmoothingOptions)}
    return curve_of(inputs.pair(target, correct), inputs.column(columns[0]).values, **options)


def curve_of(data: TargetData, values: Floats, **options: Any) -> VariableCurve:
    """The curve of a pair along the values of a variable; options are those of `smooth`."""
    seed = whole("random_state", options.get("random_state", 0), 0)
    known = ~np.isnan(values)
    if not known.any():
        raise refusal("must have values that are not missing", "'variable'", got="all are missing")
    rows, key = data.take(known), values[known].astype(float)
    responses = np.stack([rows.observed, rows.predicted, rows.predicted - rows.observed], axis=1)
    curves = smooth(key, responses, weight=rows.weight, count=rows.count, cluster=rows.cluster, **options)
    gap = curves.fit[:, 2]
    place = np.argmax(np.nan_to_num(np.abs(gap), nan=-1.0))  # values that no fit tells apart have no gap
    summary = kuiper_test(rows, key, choose_null(rows, "bernoulli"), seed).summary
    units = data.units
    names = {
        f"{name}{end}": values[:, column] * units.scale if name == "gap" else units.back(values[:, column])
        for column, name in enumerate(CURVES)
        for end, values in (("", curves.fit), ("_low", curves.low), ("_high", curves.high))
    }
    return VariableCurve(
        grid=curves.grid,
        **names,
        worst_value=float(curves.grid[place]),
        worst_gap=float(gap[place]) * units.scale,
        p_value=summary.p_value,
        consistent="over" if (gap > 0).all() else "under" if (gap < 0).all() else None,
        left_out=data.rows - rows.rows,
    )
