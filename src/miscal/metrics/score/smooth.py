"""Errors without bins: SmoothECE, and the maximum mean calibration error of a kernel."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from miscal.data.errors import refusal
from miscal.engines.memory import NO_WEIGHT
from miscal.inference.aggregates import NullSummary
from miscal.inference.maxima import max_statistic_p
from miscal.kernels.threads import over_blocks
from miscal.metrics.arrays import Given
from miscal.pairs import Pair

NODES = 1 << 12  # grid steps over [0, 1] at first; refined when the bandwidth is small against a step
FINEST = 1 << 20
STEPS_A_BANDWIDTH = 16
MOST_STEPS = 200
DRAWS = 199
EVENTS = 25  # expected on both sides, for the masses to be normal
BLOCK = 1 << 18  # rows whose squares are held at once


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
        spectrum = residual_spectrum(pair, steps)
        value = _fixed_point(spectrum)
        if value * steps >= STEPS_A_BANDWIDTH or steps >= FINEST or value == 0.0:
            return value
        steps = min(FINEST, 1 << math.ceil(math.log2(2 * STEPS_A_BANDWIDTH / max(value, 1e-9))))


def smooth_noise(pair: Pair, value: float, null: str, *, draws: int = DRAWS, random_state: int = 0) -> NullSummary:
    """SmoothECE against calibrated outcomes: its p-value, and the value that noise alone would show.

    The residual mass of each node of the grid is drawn as a normal of the variance that its rows have under the null;
    each draw goes through the whole search of the bandwidth. Rows of one cluster lie on many nodes at once, which nodes
    drawn one by one cannot show: with clusters there is no p-value.
    """
    if pair.cluster is not None:
        return _unknown(value, "no p-value with clusters")
    predicted = float(np.average(pair.predicted, weights=pair.first)) if pair.rows else 0.0
    if min(predicted, 1.0 - predicted) * _effective(pair) < EVENTS:
        return _unknown(value, f"no p-value: fewer than {EVENTS} events are expected")
    deviation = node_deviations(pair, NODES, null)
    rng = np.random.default_rng(random_state)

    def block(_first: int, count: int) -> np.ndarray:
        return np.array([_fixed_point(_spectrum(rng.normal(size=deviation.size) * deviation)) for _ in range(count)])

    found = max_statistic_p(value, block, draws, at_least=draws, method="simulation on a grid")
    return replace(found, interval=(math.nan, math.nan))  # no seminorm: how far noise can move it is not known


def _effective(pair: Pair) -> float:
    """How many rows of equal weight the rows are worth."""
    if pair.first is None or pair.second is None:
        return float(pair.rows)
    return float(pair.first.sum()) ** 2 / max(float(pair.second.sum()), 1e-300)


def _unknown(value: float, reason: str) -> NullSummary:
    return NullSummary(value, math.nan, math.nan, math.nan, (math.nan, math.nan), reason)


def node_deviations(pair: Pair, steps: int, null: str) -> np.ndarray:
    """Standard deviation of the residual mass at each node of a grid, per unit of weight."""
    variance, total = np.zeros(steps + 1), 0.0
    for start in range(0, pair.rows, BLOCK):
        part = slice(start, start + BLOCK)
        predicted = pair.predicted[part]
        spread = (pair.observed[part] - predicted) ** 2 if null == "residual" else predicted * (1.0 - predicted)
        if pair.second is not None:
            spread = spread * pair.second[part]
        variance += np.bincount(np.rint(predicted * steps).astype(np.int64), spread, steps + 1)
        total += float(predicted.size if pair.first is None else pair.first[part].sum())
    return np.sqrt(variance) / max(total, 1e-300)


def residual_spectrum(pair: Pair, steps: int) -> np.ndarray:
    """Cosine transform of the residual mass on a grid, per unit of weight."""
    from miscal.kernels.smooth import on_grid

    weight = NO_WEIGHT if pair.first is None else pair.first

    def work(start: int, stop: int) -> np.ndarray:
        result = np.zeros((steps + 1, 2))
        on_grid(pair.predicted[start:stop], pair.observed[start:stop], weight[start:stop], result)
        return result

    mass = np.sum(over_blocks(pair.rows, work, max(1 << 21, 16 * steps)), axis=0)
    return _spectrum(mass[:, 0] / mass[:, 1].sum())


def _spectrum(residual: np.ndarray) -> np.ndarray:
    """Cosine transform of masses at the nodes."""
    from scipy.fft import dct

    # A mirror at 0 and 1 sees the end nodes once and the others twice.
    residual[[0, -1]] *= 2.0
    return np.asarray(dct(residual, type=1))


def smooth_error_at(spectrum: np.ndarray, bandwidth: float) -> float:
    """The integral of the absolute smoothed residual: a Gaussian multiplies the cosine coefficients."""
    from scipy.fft import idct

    steps = spectrum.size - 1
    frequency = np.arange(steps + 1) * (math.pi * bandwidth)
    density = np.abs(idct(spectrum * np.exp(-0.5 * frequency**2), type=1))
    return float(density.sum() - 0.5 * (density[0] + density[-1]))


def _fixed_point(spectrum: np.ndarray) -> float:
    """The bandwidth that equals its own error: the error falls as the bandwidth grows, so there is one.

    Regula falsi on error - bandwidth (Illinois variant), halving every fourth step. That difference falls at least as
    fast as the bandwidth grows, so its size bounds how far the fixed point can be.
    """
    low, high = 0.0, 1.0
    above, below = smooth_error_at(spectrum, low), smooth_error_at(spectrum, high) - high
    if above == 0.0:
        return 0.0
    middle, rising = high, None
    for step in range(MOST_STEPS):
        straight = (low * below - high * above) / (below - above)
        middle = 0.5 * (low + high) if step % 4 == 3 else straight
        height = smooth_error_at(spectrum, middle) - middle
        if abs(height) <= 1e-9 * middle or high < 1.0 / FINEST:
            break
        stays = (height > 0.0) == rising  # the other end has not moved twice: let it count half
        rising = height > 0.0
        if rising:
            low, above, below = middle, height, below * (0.5 if stays else 1.0)
        else:
            high, above, below = middle, above * (0.5 if stays else 1.0), height
    return middle


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
    if not (isinstance(bandwidth, (int, float)) and bandwidth > 0 and math.isfinite(bandwidth)):
        raise refusal("must be a number above 0", where="'bandwidth'", got=f"it is {bandwidth!r}")
    from miscal.kernels.smooth import laplacian_energy

    pair = Given(y_true, y_prob, sample_weight).pair(target)
    order = np.argsort(pair.predicted, kind="stable")
    residual = pair.predicted - pair.observed
    total = float(pair.rows)
    if pair.first is not None:
        residual *= pair.first
        total = float(pair.first.sum())
    energy = laplacian_energy(pair.predicted[order], residual[order], float(bandwidth))
    return math.sqrt(max(energy, 0.0)) / total
