"""Calibration by score beside its peers: `python benchmarks/score.py [--quick]` in the peers' environment."""

from __future__ import annotations

import harness
import numpy as np

SIZES = (100_000, 1_000_000, 10_000_000)
BINS = 15


def data(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outcomes, Beta(.8, 1.6) scores and lognormal weights."""
    rng = np.random.default_rng(seed)
    score = rng.beta(0.8, 1.6, size)
    outcome = (rng.random(size) < score**1.1).astype(np.uint8)
    return outcome, score, rng.lognormal(0.0, 0.5, size)


def numpy_binned(outcome, score):
    place = np.clip(np.ceil(score * BINS).astype(np.int64) - 1, 0, BINS - 1)
    predicted = np.bincount(place, score, BINS)
    return np.abs(predicted - np.bincount(place, outcome, BINS)).sum() / score.size


def numpy_quantile_binned(outcome, score):
    edges = np.quantile(score, np.arange(BINS + 1) / BINS)
    place = np.clip(np.searchsorted(edges, score, side="left") - 1, 0, BINS - 1)
    predicted = np.bincount(place, score, BINS)
    return np.abs(predicted - np.bincount(place, outcome, BINS)).sum() / score.size


def numpy_kuiper(outcome, score, weight=None):
    order = np.argsort(score)
    steps = outcome[order] - score[order]
    if weight is not None:
        steps = steps * weight[order]
    walk = np.cumsum(steps)
    return (max(walk.max(), 0.0) - min(walk.min(), 0.0)) / (score.size if weight is None else weight.sum())


def rows(quick: bool = False) -> list[dict]:
    """Every size in turn, the larger ones with fewer repeats."""
    return [row for size in (SIZES[:2] if quick else SIZES) for row in rows_at(size)]


def rows_at(size: int) -> list[dict]:
    from mapie.metrics.calibration import kuiper_statistic
    from mcgrad.metrics import ecce
    from netcal.metrics import ECE
    from relplot.metrics import binnedECE, smECE
    from sklearn.calibration import calibration_curve

    from miscal import metrics

    found = []
    y, p, w = data(size)
    real = y.astype(np.float64)  # what relplot and scikit-learn would otherwise convert
    repeats = 40 if size <= 100_000 else 9 if size <= 1_000_000 else 5
    once = {"repeats": repeats, "budget": 20.0 if size <= 1_000_000 else 45.0}
    last = size == SIZES[-1]
    found += harness.against(
        f"expected error, {BINS} bins",
        size,
        lambda: metrics.expected_calibration_error(y, p),
        {
            "relplot": lambda: binnedECE(p, real, BINS),
            "scikit-learn": lambda: calibration_curve(y, p, n_bins=BINS),
            "netcal": lambda: ECE(BINS).measure(p, y),
            "numpy bincount": lambda: numpy_binned(y, p),
        },
        goals={"relplot": 2.0, "scikit-learn": 15.0} if last else None,
        **once,
    )
    found += harness.against(
        f"expected error, {BINS} quantile bins",
        size,
        lambda: metrics.expected_calibration_error(y, p, strategy="quantile"),
        {
            "scikit-learn": lambda: calibration_curve(y, p, n_bins=BINS, strategy="quantile"),
            "numpy quantile": lambda: numpy_quantile_binned(y, p),
        },
        **once,
    )
    found += harness.against(
        f"expected error, {BINS} bins, weighted",
        size,
        lambda: metrics.expected_calibration_error(y, p, sample_weight=w),
        {},
        **once,
    )
    found += harness.against(
        "SmoothECE",
        size,
        lambda: metrics.smooth_calibration_error(y, p),
        {"relplot": lambda: smECE(p, real)},
        goals={"relplot": 20.0} if last else None,
        **once,
    )
    found += harness.against(
        "Kuiper",
        size,
        lambda: metrics.kuiper_calibration_error(y, p),
        {
            "MCGrad": lambda: ecce(y, p),
            "MAPIE": lambda: kuiper_statistic(y, p),
            "numpy argsort": lambda: numpy_kuiper(real, p),
        },
        goals={"MCGrad": 12.0, "MAPIE": 12.0} if last else None,
        **once,
    )
    found += harness.against(
        "Kuiper, weighted",
        size,
        lambda: metrics.kuiper_calibration_error(y, p, sample_weight=w),
        {
            "MCGrad": lambda: ecce(y, p, w),
            "numpy argsort": lambda: numpy_kuiper(real, p, w),
        },
        **once,
    )
    return found


if __name__ == "__main__":
    harness.main("score", rows)
