"""Observed and predicted along a variable as smooth curves with bands, and where they are furthest apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.metrics.arrays import Given
from miscal.metrics.pooled import choose_null, walk_summary
from miscal.metrics.smoothing import smooth
from miscal.metrics.variable.error import variable_columns
from miscal.pairs import Pair
from miscal.results import Table


@dataclass(frozen=True, eq=False)
class VariableCurve:
    """Smooth curves along a variable; each has its `_low` and `_high`.

    Attributes
    ----------
    grid : values of the variable
    observed, predicted, gap : the curves; gap = predicted - observed
    worst_value, worst_gap : where the gap is largest in size, and its signed size there (VCE at v*)
    p_value : of the walk ordered by the variable, which needs no smoothing
    consistent : "over" or "under" where the gap has one sign along the whole grid (Definition 5.3), else None
    level, band : of the bands: "pointwise" or "simultaneous"
    left_out : rows whose value is missing
    """

    grid: np.ndarray
    observed: np.ndarray
    observed_low: np.ndarray
    observed_high: np.ndarray
    predicted: np.ndarray
    predicted_low: np.ndarray
    predicted_high: np.ndarray
    gap: np.ndarray
    gap_low: np.ndarray
    gap_high: np.ndarray
    worst_value: float
    worst_gap: float
    p_value: float
    consistent: str | None
    level: float
    band: str
    left_out: int

    def frame(self) -> Table:
        """The curves as a table."""
        names = [f"{name}{end}" for name in ("observed", "predicted", "gap") for end in ("", "_low", "_high")]
        return Table({"value": self.grid, **{name: getattr(self, name) for name in names}})


def variable_calibration_curve(
    y_true: Any,
    y_prob: Any,
    variable: Any,
    *,
    span: float = 0.9,
    degree: int = 2,
    grid: int | Sequence[float] | np.ndarray = 500,
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
    variable : (n,) numbers or dates; rows where it is missing are left out and counted
    span, degree, grid, trim, se, robust_iterations, band
        Of the local regression: share of rows in a window, degree of the local polynomial, number of grid points
        between the `trim` and 1 - `trim` quantiles (or the points), "robust" or "constant" standard errors,
        re-weightings against outliers, "pointwise" or "simultaneous" bands.
    level : of the bands
    target, correct, sample_weight : as in `expected_calibration_error`

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
    given = Given(y_true, y_prob, sample_weight)
    columns = variable_columns(variable)
    if len(columns) != 1 or columns[0].nominal:
        raise refusal("must be one column of numbers or dates", where="'variable'", hint="use by_field for levels")
    options = {
        "span": span,
        "degree": degree,
        "grid": grid,
        "trim": trim,
        "level": level,
        "se": se,
        "robust_iterations": robust_iterations,
        "band": band,
        "random_state": random_state,
    }
    return curve_of(given.pair(target, correct), given.column(columns[0]).values, options)


def curve_of(pair: Pair, values: np.ndarray, options: dict[str, Any]) -> VariableCurve:
    """The curve of a pair along the values of a variable."""
    known = ~np.isnan(values)
    if not known.any():
        raise refusal("must have values that are not missing", where="'variable'", got="all are missing")
    left_out = int(values.size - np.count_nonzero(known))
    rows = pair.take(np.flatnonzero(known)) if left_out else pair
    key = np.ascontiguousarray(values[known] if left_out else values, dtype=np.float64)
    observed = np.asarray(rows.observed, dtype=np.float64)
    responses = np.stack([observed, rows.predicted, rows.predicted - observed], axis=1)
    cluster = rows.cluster if options.get("se", "robust") == "robust" else None
    found = smooth(key, responses, weight=rows.weight, count=rows.count, cluster=cluster, **options)
    gap = found.fit[:, 2]
    place = int(np.nanargmax(np.abs(gap)))
    noise = choose_null(rows, "bernoulli")
    _, summary = walk_summary(rows, key, noise=noise, random_state=int(options.get("random_state", 0)), locate=False)
    names = {
        f"{name}{end}": values[:, column]
        for column, name in enumerate(("observed", "predicted", "gap"))
        for end, values in (("", found.fit), ("_low", found.low), ("_high", found.high))
    }
    return VariableCurve(
        grid=found.grid,
        **names,
        worst_value=float(found.grid[place]),
        worst_gap=float(gap[place]),
        p_value=summary.p_value,
        consistent="over" if (gap > 0).all() else "under" if (gap < 0).all() else None,
        level=float(options.get("level", 0.95)),
        band=str(options.get("band", "pointwise")),
        left_out=left_out,
    )
