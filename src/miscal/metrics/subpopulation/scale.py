"""From the walks of subpopulations to errors on one scale."""

from __future__ import annotations

import numpy as np

NEARLY = 1e-12  # a walk shorter than this share of its weight has not moved


def spans(stats: np.ndarray, statistic: str = "range") -> np.ndarray:
    """Highest minus lowest partial sum, or the absolute end of the walk."""
    from miscal.kernels.subpopulation import HIGH, LOW, TOTAL

    return np.asarray(stats[:, HIGH] - stats[:, LOW] if statistic == "range" else np.abs(stats[:, TOTAL]))


def kuiper_errors(stats: np.ndarray, statistic: str = "range") -> np.ndarray:
    """D_k; 0 for an empty subpopulation."""
    from miscal.kernels.subpopulation import WEIGHT

    weight = stats[:, WEIGHT]
    return np.asarray(spans(stats, statistic) / np.where(weight > 0, weight, 1.0))


def deviations(stats: np.ndarray) -> np.ndarray:
    """σ_k, eq. 5."""
    from miscal.kernels.subpopulation import VARIANCE, WEIGHT

    weight = stats[:, WEIGHT]
    return np.asarray(np.sqrt(stats[:, VARIANCE]) / np.where(weight > 0, weight, 1.0))


def noise_scales(stats: np.ndarray) -> np.ndarray:
    """What a walk's span is multiplied by: M_k = span_k · scale_k; 0 where σ_k is 0."""
    from miscal.kernels.subpopulation import VARIANCE, WEIGHT

    variance = stats[:, VARIANCE]
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.sqrt(variance[0] / variance) / stats[0, WEIGHT]
    scale = np.where(variance > 0, scale, 0.0)
    scale[0] = 1.0 / stats[0, WEIGHT]
    return np.asarray(scale)


def scaled_errors(stats: np.ndarray, statistic: str = "range", *, normalise: bool = True) -> np.ndarray:
    """M_k of each subpopulation, the full population first; D_k where not normalised.

    0/0 is 0, x/0 infinite. The first is exactly D_0. Where the full population is certain (σ_0 = 0) the others' scale
    is 0/0, so they count as 0 and the full population's own error stands.
    """
    from miscal.kernels.subpopulation import VARIANCE, WEIGHT

    errors = kuiper_errors(stats, statistic)
    if not normalise:
        return np.asarray(errors)
    span = spans(stats, statistic)
    values = span * noise_scales(stats)
    variance = stats[:, VARIANCE]
    if variance[0] > 0:
        values[(variance <= 0) & (span > NEARLY * stats[:, WEIGHT])] = np.inf
    values[0] = errors[0]
    return np.asarray(values)
