"""StructuredScaling beside its authors' package, probmetrics: the same probabilities, and the time of a fit.

    PYTHONPATH=src:SITE_PACKAGES_OF_THE_PEER python -m studies.structured_scaling [--quick]

Sharpened and shifted Dirichlet rows. Theirs mixes 1/(n + 1) of the uniform into the tempered probabilities before it
takes logarithms, in single precision; ours does not.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from miscal.metrics import log_loss
from miscal.recalibrate import StructuredScaling
from studies import harness
from studies.needs import lacks, need

NAME, PEER = "structured_scaling", "package probmetrics"


def rows(classes: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores that are too sharp, each class by its own amount, and what happened."""
    rng = np.random.default_rng(seed)
    right = rng.dirichlet(np.full(classes, 0.5), size)
    y = (right.cumsum(axis=1) < rng.random((size, 1))).sum(axis=1).clip(0, classes - 1)
    sharp = right ** np.linspace(1.2, 2.0, classes) + 1e-9
    return sharp / sharp.sum(axis=1, keepdims=True), y


def quick() -> None:
    """A few rows of three classes, beside the peer where it is installed."""
    p, y = rows(3, 500, 3)
    for structure in ("vector", "matrix"):
        ours = StructuredScaling(structure).fit(p, y).predict_proba(p)
        print(structure, log_loss(y, ours))
    if not lacks(PEER):
        from probmetrics.calibrators import SMSCalibrator, SVSCalibrator

        for peer in (SVSCalibrator, SMSCalibrator):
            theirs = np.asarray(peer().fit(p, y).predict_proba(p), dtype=np.float64)
            print(peer.__name__, log_loss(y, theirs / theirs.sum(axis=1, keepdims=True)))


def main() -> None:
    if "--quick" in sys.argv:
        quick()
        return
    need(PEER)
    from probmetrics.calibrators import SMSCalibrator, SVSCalibrator

    found = []
    for structure, peer in (("vector", SVSCalibrator), ("matrix", SMSCalibrator)):
        for classes in (3, 10, 50) if structure == "vector" else (3, 10):  # theirs takes minutes beyond
            p, y = rows(classes, 10_000, classes)
            fit, test = np.arange(5000), np.arange(5000, 10_000)
            clock = time.perf_counter()
            ours = StructuredScaling(structure).fit(p[fit], y[fit])
            middle = time.perf_counter()
            theirs = peer().fit(p[fit], y[fit])
            end = time.perf_counter()
            one, two = ours.predict_proba(p[test]), np.asarray(theirs.predict_proba(p[test]), dtype=np.float64)
            found.append(
                {
                    "structure": structure,
                    "classes": classes,
                    "mean_difference": float(np.abs(one - two).mean()),
                    "ours": log_loss(y[test], one),
                    "theirs": log_loss(y[test], two / two.sum(axis=1, keepdims=True)),
                    "seconds": middle - clock,
                    "their_seconds": end - middle,
                }
            )
            print(found[-1])
    words = {
        "structure": "structure", "classes": "classes", "mean_difference": "mean difference of probabilities",
        "ours": "log loss, ours", "theirs": "probmetrics", "seconds": "seconds to fit, ours",
        "their_seconds": "probmetrics",
    }  # fmt: skip
    shown = [{name: f"{v:.5f}" if isinstance(v, float) else v for name, v in row.items()} for row in found]
    harness.write(NAME, {"rows": found}, harness.markdown(shown, words))


if __name__ == "__main__":
    main()
