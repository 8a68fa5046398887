"""Variation calibration beside the straightforward numpy version, its only peer.

    python benchmarks/variation.py [--quick]

The peer sorts each row with its classes (argsort, take_along_axis), finds the bins and adds with bincount.
"""

from __future__ import annotations

import harness
import numpy as np

CASES = ((1_000_000, 3), (10_000_000, 3), (1_000_000, 10), (10_000_000, 10), (100_000, 100), (1_000_000, 100))
GOALS = {(10_000_000, 3): 5.0, (10_000_000, 10): 5.0, (1_000_000, 100): 1.5}
BINS = 10


def data(size, classes, seed=0):
    """Flat Dirichlet predictions and outcomes drawn from them, in chunks."""
    rng = np.random.default_rng(seed)
    p = rng.standard_exponential((size, classes))
    y = np.empty(size, np.int64)
    for start in range(0, size, 1 << 17):
        part = p[start : start + (1 << 17)]
        part /= part.sum(axis=1, keepdims=True)
        y[start : start + len(part)] = (np.cumsum(part, axis=1)[:, :-1] <= rng.random((len(part), 1))).sum(axis=1)
    return y, p


def entropy(shares):
    return -(shares * np.log(np.where(shares > 0, shares, 1.0))).sum(axis=-1) / np.log(shares.shape[-1])


def numpy_variation(y, p):
    """Section 2.2 of the paper in numpy, without a loop over rows."""
    size, classes = p.shape
    order = np.argsort(-p, axis=1)
    ranked = np.take_along_axis(p, order, axis=1)
    rank = (order == y[:, None]).argmax(axis=1)
    value = -(p * np.log(p)).sum(axis=1) / np.log(classes)
    cell = np.clip(np.ceil(value * BINS).astype(np.int64) - 1, 0, BINS - 1)
    rows = np.bincount(cell, minlength=BINS)
    predicted = np.stack([np.bincount(cell, ranked[:, c], BINS) for c in range(classes)], axis=1)
    observed = np.bincount(cell * classes + rank, minlength=BINS * classes).reshape(BINS, classes)
    filled = rows > 0
    each = rows[filled, None]
    gaps = np.abs(entropy(predicted[filled] / each) - entropy(observed[filled] / each))
    return (gaps * rows[filled]).sum() / size


def numpy_classwise(y, p, bins=15):
    """Each class against the rest, one bincount a class."""
    size, classes = p.shape
    total = 0.0
    for k in range(classes):
        score = p[:, k]
        cell = np.clip(np.ceil(score * bins).astype(np.int64) - 1, 0, bins - 1)
        total += np.abs(np.bincount(cell, score, bins) - np.bincount(cell, y == k, bins)).sum() / size
    return total / classes


def rows(quick: bool = False) -> list[dict]:
    from miscal import metrics

    found = []
    for whole, classes in CASES:
        size = whole // 100 if quick else whole
        y, p = data(size, classes)
        once = {"repeats": 1 if quick else 5 if size * classes <= 10_000_000 else 3, "budget": 25.0}
        assert abs(metrics.variation_calibration_error(y, p) - numpy_variation(y, p)) < 1e-11
        goal = GOALS.get((size, classes))
        found += harness.against(
            f"variation error, {classes} classes",
            size,
            lambda y=y, p=p: metrics.variation_calibration_error(y, p),
            {"numpy argsort + bincount": lambda y=y, p=p: numpy_variation(y, p)},
            goals={"numpy argsort + bincount": goal} if goal else None,
            **once,
        )
        if size == (10_000 if quick else 1_000_000):
            found += harness.against(
                f"class-wise error, {classes} classes",
                size,
                lambda y=y, p=p: metrics.classwise_calibration_error(y, p),
                {"numpy bincount a class": lambda y=y, p=p: numpy_classwise(y, p)},
                **once,
            )
        del y, p
    if not quick:
        found += thousand_classes()
    return found


def thousand_classes() -> list[dict]:
    """50,000 rows of 1,000 classes, as ImageNet's validation set has."""
    from miscal import metrics

    y, p = data(50_000, 1000)
    return harness.against(
        "class-wise error, 1000 classes",
        50_000,
        lambda: metrics.classwise_calibration_error(y, p),
        {"numpy bincount a class": lambda: numpy_classwise(y, p)},
        repeats=3,
    )


if __name__ == "__main__":
    harness.main("variation", rows)
