"""The variable-based calibration error: gaps averaged over ranges of a variable, or of several crossed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from miscal.data.columns import Column, column
from miscal.engines.memory import mean_tally
from miscal.engines.quantiles import LEAST_ROWS, quantile_tally
from miscal.metrics.arrays import Given
from miscal.metrics.norms import Norm, norm_power
from miscal.metrics.score.binned import tally_error
from miscal.pairs import Pair
from miscal.pooling.bins import uniform_edges
from miscal.pooling.cells import Pooling
from miscal.pooling.columns import crossed, range_pooling

Bins = int | Sequence[float] | np.ndarray


def variable_calibration_error(
    y_true: Any,
    y_prob: Any,
    variable: Any,
    *,
    bins: Bins = 10,
    strategy: str = "quantile",
    range: tuple[float, float] | None = None,  # noqa: A002
    norm: Norm = "l1",
    target: str | int = "auto",
    correct: Any = None,
    sample_weight: Any = None,
) -> float:
    r"""Average gap between predicted and observed over ranges of a variable (VECE; paper 000, eq. 7).

    .. math:: \sum_b \tfrac{W_b}{W}\,\big|\bar p_b - \bar y_b\big|, \qquad b \text{ a range of } v

    Parameters
    ----------
    y_true, y_prob, target, correct, sample_weight
        As in `expected_calibration_error`; the paper uses ``target="top"``.
    variable : (n,) numbers, dates, booleans or levels; or (n, d), a frame or a matrix: the ranges are crossed
        Missing values are a range of their own. Levels are cells as they are.
    bins : number of ranges (of each column), or increasing edges
        Where there are no more distinct values than bins, each is a range.
    strategy : "quantile" (equal edges are merged, ties never split) or "uniform" over `range`
    range : (low, high) of uniform ranges; the variable's smallest and largest value by default
    norm : "l1", "l2", "max", or any p >= 1

    Examples
    --------
    >>> from miscal.metrics import variable_calibration_error
    >>> variable_calibration_error([1, 1, 0, 0], [0.5, 0.5, 0.5, 0.5], [20, 30, 40, 50], bins=2)
    0.5
    """
    given = Given(y_true, y_prob, sample_weight)
    norm_power(norm)
    pair = given.pair(target, correct)
    columns = [given.column(each) for each in variable_columns(variable)]
    if len(columns) == 1 and strategy == "quantile" and _quick(columns[0], pair, bins):
        values = np.ascontiguousarray(columns[0].values, dtype=np.float64)
        return tally_error(quantile_tally(pair, values, int(bins), whole=columns[0].integer), norm)  # type: ignore[arg-type]
    parts = [_pooling(each, pair, bins, strategy, range) for each in columns]
    return tally_error(mean_tally(pair, crossed(parts)), norm)


def _quick(each: Column, pair: Pair, bins: Bins) -> bool:
    """Whether edges and tally can be found in one pass: many plain rows, none missing, more values than bins."""
    from miscal.kernels.buckets import distinct_up_to

    if not (pair.plain and pair.binary and pair.rows > LEAST_ROWS) or each.nominal:
        return False
    if not isinstance(bins, (int, np.integer)) or isinstance(bins, bool) or bins < 1:
        return False
    return bool(distinct_up_to(each.values, int(bins) + 1) > bins) and not bool(np.isnan(each.values).any())


def _pooling(each: Column, pair: Pair, bins: Bins, strategy: str, span: tuple[float, float] | None) -> Pooling:
    if span is not None and strategy == "uniform" and isinstance(bins, (int, np.integer)) and not each.nominal:
        bins = uniform_edges(int(bins), float(span[0]), float(span[1]))
    return range_pooling(each, bins, strategy, weight=pair.weight, count=pair.count, separate_common=False)


def variable_columns(variable: Any) -> list[Column]:
    """The columns of what was given as a variable: one, the columns of a frame, or those of a matrix."""
    from miscal.data.frames import frame_of

    if isinstance(variable, Column):
        return [variable]
    shape = getattr(variable, "shape", None)
    if isinstance(variable, np.ndarray) and variable.ndim == 2:
        return [column(f"variable {place}", variable[:, place]) for place in np.arange(variable.shape[1])]
    if shape is not None and len(shape) == 2:
        return [column(name, values) for name, values in frame_of(variable, "'variable'").items()]
    if isinstance(variable, dict):
        return [column(str(name), values) for name, values in variable.items()]
    return [column("variable", variable, where="'variable'")]
