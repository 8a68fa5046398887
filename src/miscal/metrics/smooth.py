"""Errors without bins: SmoothECE, the maximum mean calibration error of a kernel, and Kuiper's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from miscal.data.checks import number
from miscal.engines.sums import NO_WEIGHT
from miscal.engines.walks import walk_range
from miscal.inference.smooth import FINEST, NODES, fixed_point, spectrum_of
from miscal.kernels.threads import over_blocks
from miscal.metrics.arrays import Given
from miscal.pairs import Pair

STEPS_A_BANDWIDTH = 16


def smooth_calibration_error(
    y_true: Any, y_prob: Any, *, target: str | int = "auto", sample_weight: Any = None
) -> float:
    r"""SmoothECE: the smoothed residual's total size, at the bandwidth that equals it.

    .. math:: s(\sigma) = \int_0^1 \Big|\tfrac1W \sum_i w_i K_\sigma(t, p_i)\,(p_i - y_i)\Big|\,dt,
              \qquad \text{the value } \sigma^* = s(\sigma^*)

    with :math:`K_\sigma` the Gaussian kernel reflected at 0 and 1 (Błasiok & Nakkiran, 2023). No bins are chosen.
    Scores are placed on a fine grid; its step is at most a sixteenth of the bandwidth found.

    Examples
    --------
    >>> from miscal.metrics import smooth_calibration_error
    >>> smooth_calibration_error([0, 1, 1], [0.0, 1.0, 1.0])
    0.0
    """
    return smooth_error(Given(y_true, y_prob, sample_weight).pair(target))


def smooth_error(pair: Pair) -> float:
    """SmoothECE of a pair."""
    steps = NODES
    while True:
        mass = residual_mass(pair, steps)
        value = float(np.abs(mass).sum())  # no bandwidth makes it more
        if value * FINEST < 1.0 and steps >= FINEST:  # a kernel narrower than the finest grid's step smooths nothing
            return value
        value = value if value * FINEST < 1.0 else fixed_point(spectrum_of(mass))
        if value * steps >= STEPS_A_BANDWIDTH or steps >= FINEST or value == 0.0:
            return value
        steps = min(FINEST, 1 << math.ceil(math.log2(2 * STEPS_A_BANDWIDTH / max(value, 1e-9))))


def residual_mass(pair: Pair, steps: int) -> np.ndarray:
    """The residual mass on a grid, per unit of weight."""
    from miscal.kernels.sums import on_grid

    weight = NO_WEIGHT if pair.first is None else pair.first

    def work(start: int, stop: int) -> np.ndarray:
        result = np.zeros((steps + 1, 2))
        on_grid(pair.predicted[start:stop], pair.observed[start:stop], weight[start:stop], result)
        return result

    mass = np.sum(over_blocks(pair.rows, work, max(1 << 21, 16 * steps)), axis=0)
    return np.asarray(mass[:, 0] / mass[:, 1].sum())


def mean_kernel_calibration_error(
    y_true: Any,
    y_prob: Any,
    *,
    bandwidth: float = 0.2,
    target: str | int = "auto",
    sample_weight: Any = None,
) -> float:
    r"""Maximum mean calibration error (MMCE): the size of the residual in a kernel's function space.

    .. math:: \Big(\tfrac{1}{W^2}\sum_{i,j} w_i w_j (p_i - y_i)(p_j - y_j)\,e^{-|p_i - p_j|/h}\Big)^{1/2}

    (Kumar, Sarawagi & Jain, 2018). The kernel factorises along a line, so the double sum costs one sort and one sweep.

    Parameters
    ----------
    bandwidth : h, the scale on which scores are taken together

    Examples
    --------
    >>> from miscal.metrics import mean_kernel_calibration_error
    >>> round(mean_kernel_calibration_error([0, 1], [0.2, 0.6]), 6)
    0.211155
    """
    number("bandwidth", bandwidth, 0.0, above=True)
    from miscal.kernels.laplacian import laplacian_energy

    pair = Given(y_true, y_prob, sample_weight).pair(target)
    order = np.argsort(pair.predicted, kind="stable")
    residual = pair.predicted - pair.observed
    total = float(pair.rows)
    if pair.first is not None:
        residual *= pair.first
        total = float(pair.first.sum())
    energy = laplacian_energy(pair.predicted[order], residual[order], float(bandwidth))
    return math.sqrt(max(energy, 0.0)) / total


def kuiper_calibration_error(
    y_true: Any,
    y_prob: Any,
    *,
    target: str | int = "auto",
    sample_weight: Any = None,
    order_by: Any = None,
    response: str = "binary",
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
    response : {"binary", "real", "count"}
        "real", "count": outcomes and predictions are any numbers, or counts and their means.

    Examples
    --------
    >>> from miscal.metrics import kuiper_calibration_error
    >>> round(kuiper_calibration_error([0, 0, 1, 1], [0.25, 0.25, 0.5, 0.75]), 6)
    0.1875
    """
    given = Given(y_true, y_prob, sample_weight, response)
    key = None if order_by is None else given.numbers(order_by, "'order_by'")
    return walk_range(given.pair(target), key) * given.scale
