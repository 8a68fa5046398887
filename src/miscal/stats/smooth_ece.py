"""SmoothECE: the smoothed calibration error on a grid, and its null distribution."""

import math
from functools import cache, partial

import numpy as np

from miscal.codes.inference import Method, Null
from miscal.data.arrays import Array
from miscal.data.target import TargetData
from miscal.stats.cell_sums import EFFECTIVE_EVENTS, effective_events_of
from miscal.stats.metric_null import NullSummary, max_statistic_p, upper_quantile
from miscal.stats.root_finding import find_root

SMOOTH_DRAWS = 199
GRID_STEPS = 1 << 12  # grid steps over [0, 1] at first; refined when the bandwidth is small against a step
MAX_GRID_STEPS = 1 << 20
INTERVAL_DRAWS = 99  # of the noise that the data have
NEGLIGIBLE_FREQUENCY = 4.0  # times 1 / bandwidth: frequencies of which a Gaussian leaves less than 1e-34
VALUE_TOLERANCE, DRAW_TOLERANCE = (
    1e-12,
    1e-4,
)  # relative error of a bandwidth: of the value, and of one draw of many
NODES_PER_FREQUENCY = (
    4  # nodes a frequency that is left, on which a draw is integrated: off by less than 1e-4
)


def smooth_ece_null(target: TargetData, value: float, null: Null, *, random_state: int = 0) -> NullSummary:
    """SmoothECE against calibrated outcomes: its p-value, and the value that noise alone would show.

    The residual mass of each node of the grid is drawn as a normal of the variance that its rows have under the null;
    each draw goes through the whole search of the bandwidth. Rows of one cluster lie on many nodes at once, which nodes
    drawn one by one cannot show: with clusters there is no p-value.

    The interval is that of a seminorm, though the value is none. For residuals r, noise e and σ = v + u, v and u being
    the values of r and of e, the smoothed error of r + e is at most s(r, σ) + s(e, σ) <= s(r, v) + s(e, u) = σ,
    because s falls with the bandwidth; so the value of r + e is at most v + u.
    """
    if target.cluster is not None:
        return NullSummary.unknown(value, Method.NO_CLUSTER_TEST)
    if effective_events_of(target) < EFFECTIVE_EVENTS:  # for the masses to be normal
        return NullSummary.unknown(value, Method.FEW_EVENTS)
    rng = np.random.default_rng(random_state)

    def block(deviation: Array, _first: int, count: int) -> Array:
        masses = (rng.normal(size=deviation.size) * deviation for _ in range(count))
        return np.array(
            [smooth_error_fixed_point(spectrum_of(mass), DRAW_TOLERANCE, value) for mass in masses]
        )

    model, observed = (node_deviations(target, GRID_STEPS, kind) for kind in (null, Null.RESIDUAL))
    summary = max_statistic_p(value, partial(block, model), SMOOTH_DRAWS, method=Method.GRID_SIMULATION)
    if null == Null.RESIDUAL:
        return summary
    # The noise that the data have; nodes at which nothing happened by luck keep the model's share of it.
    interval_factor = math.sqrt(max(1.0, (observed @ observed) / max(model @ model, 1e-300)))
    quantile = upper_quantile(block(observed, 0, INTERVAL_DRAWS))
    return summary.no_narrower(max(interval_factor * summary.quantile, quantile))


def node_deviations(target: TargetData, steps: int, null: Null) -> Array:
    """Standard deviation of the residual mass at each node of a grid, per unit of weight."""
    predicted = target.predicted
    spread = (target.observed - predicted) ** 2 if null == Null.RESIDUAL else predicted * (1.0 - predicted)
    node = np.rint(predicted * steps).astype(np.int64)
    variance = np.bincount(node, spread * target.all_weights[1], steps + 1)
    return np.sqrt(variance) / max(float(target.all_weights[0].sum()), 1e-300)


def spectrum_of(residual: Array) -> Array:
    """Cosine transform of masses at the nodes, mirrored at 0 and 1."""
    # A mirror sees the end nodes once and the others twice.
    residual[[0, -1]] *= 2.0
    return np.fft.rfft(np.concatenate([residual, residual[-2:0:-1]])).real


def smooth_error_at(spectrum: Array, bandwidth: float, *, rough: bool = False) -> float:
    """The integral of the absolute smoothed residual: a Gaussian multiplies the cosine coefficients.

    What it leaves is told by far fewer nodes than the masses lie on: `rough` takes those.
    """
    steps = spectrum.size - 1
    n_frequencies = (
        steps + 1 if bandwidth * steps <= NEGLIGIBLE_FREQUENCY else int(NEGLIGIBLE_FREQUENCY / bandwidth) + 1
    )
    steps = min(steps, 1 << (NODES_PER_FREQUENCY * n_frequencies).bit_length()) if rough else steps
    frequency = np.arange(n_frequencies) * (math.pi * bandwidth)
    smoothed = spectrum[:n_frequencies] * np.exp(-0.5 * frequency**2)
    density = np.abs(np.fft.irfft(smoothed, 2 * steps)[: steps + 1])
    return float(density.sum() - 0.5 * (density[0] + density[-1]))


def smooth_error_fixed_point(
    spectrum: Array, tolerance: float = VALUE_TOLERANCE, near: float | None = None
) -> float:
    """The bandwidth that equals its own error: the error falls as the bandwidth grows, so there is one.

    It lies between any bandwidth, such as one that is `near`, and the error at it.
    """
    error = cache(
        partial(smooth_error_at, spectrum, rough=tolerance >= DRAW_TOLERANCE)
    )  # an end is asked for twice
    low, high = (0.0, 1.0) if near is None else sorted((near, error(near)))
    return find_root(lambda bandwidth: error(bandwidth) - bandwidth, low, high, tolerance)
