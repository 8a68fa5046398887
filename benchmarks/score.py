"""Calibration by score beside its peers: `python benchmarks/score.py [--quick]` in the peers' environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import harness
import numpy as np

PEERS = ("package relplot", "package netcal", "package MCGrad", "package MAPIE")
QUICK_ROWS = 20_000
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
    if not quick:
        harness.need(*PEERS)
    return [row for size in ((QUICK_ROWS,) if quick else SIZES) for row in rows_at(size, quick)]


def peers() -> dict[str, Callable[..., Any]]:
    """The peers' functions by name; those that are not installed are left out, and a line says so."""
    found: dict[str, Callable[..., Any]] = {}
    if not harness.lacks("package relplot"):
        from relplot.metrics import binnedECE, smECE

        found |= {"binnedECE": binnedECE, "smECE": smECE}
    if not harness.lacks("package netcal"):
        from netcal.metrics import ECE

        found["ECE"] = ECE
    if not harness.lacks("package MCGrad"):
        from mcgrad.metrics import ecce

        found["ecce"] = ecce
    if not harness.lacks("package MAPIE"):
        from mapie.metrics.calibration import kuiper_statistic

        found["kuiper_statistic"] = kuiper_statistic
    return found


def with_peer(name: str, function: str, known: Mapping[str, Any], call: Callable[..., Any]) -> dict[str, Any]:
    """A peer's call under its name, nothing where it is not installed."""
    return {name: lambda: call(known[function])} if function in known else {}


def rows_at(size: int, quick: bool = False) -> list[dict]:
    from sklearn.calibration import calibration_curve

    from miscal import metrics

    found, known = [], peers()
    y, p, w = data(size)
    real = y.astype(np.float64)  # what relplot and scikit-learn would otherwise convert
    repeats = 1 if quick else 40 if size <= 100_000 else 9 if size <= 1_000_000 else 5
    once = {"repeats": repeats, "budget": 20.0 if size <= 1_000_000 else 45.0}
    last = size == SIZES[-1]
    found += harness.against(
        f"expected error, {BINS} bins",
        size,
        lambda: metrics.expected_calibration_error(y, p),
        {
            **with_peer("relplot", "binnedECE", known, lambda peer: peer(p, real, BINS)),
            "scikit-learn": lambda: calibration_curve(y, p, n_bins=BINS),
            **with_peer("netcal", "ECE", known, lambda peer: peer(BINS).measure(p, y)),
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
        with_peer("relplot", "smECE", known, lambda peer: peer(p, real)),
        goals={"relplot": 20.0} if last else None,
        **once,
    )
    found += harness.against(
        "Kuiper",
        size,
        lambda: metrics.kuiper_calibration_error(y, p),
        {
            **with_peer("MCGrad", "ecce", known, lambda peer: peer(y, p)),
            **with_peer("MAPIE", "kuiper_statistic", known, lambda peer: peer(y, p)),
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
            **with_peer("MCGrad", "ecce", known, lambda peer: peer(y, p, w)),
            "numpy argsort": lambda: numpy_kuiper(real, p, w),
        },
        **once,
    )
    return found


if __name__ == "__main__":
    harness.main("score", rows)
