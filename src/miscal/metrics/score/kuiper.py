"""Kuiper's calibration error: the range of cumulative differences, free of bins."""

from __future__ import annotations

from typing import Any

from miscal.engines.walks import walk_range
from miscal.metrics.arrays import Given


def kuiper_calibration_error(
    y_true: Any,
    y_prob: Any,
    *,
    target: str | int = "auto",
    sample_weight: Any = None,
    order_by: Any = None,
) -> float:
    r"""Range of the cumulative differences between outcome and prediction, in the order of the score.

    .. math:: D = \max_k C_k - \min_k C_k, \qquad C_k = \frac{1}{W}\sum_{i \le k} w_i (y_i - p_i),\; C_0 = 0

    (paper 004, eq. 2 and 3). It is the largest total of residuals over any interval of scores. Partial sums are taken
    only between distinct scores, so the order of tied rows changes nothing.

    Parameters
    ----------
    y_true, y_prob, target, sample_weight
        As in `expected_calibration_error`.
    order_by : (n,) numbers
        Order the rows by this in place of the score: the walk along a variable.

    Examples
    --------
    >>> from miscal.metrics import kuiper_calibration_error
    >>> round(kuiper_calibration_error([0, 0, 1, 1], [0.25, 0.25, 0.5, 0.75]), 6)
    0.1875
    """
    given = Given(y_true, y_prob, sample_weight)
    key = None if order_by is None else given.numbers(order_by, "'order_by'")
    return walk_range(given.pair(target), key)
