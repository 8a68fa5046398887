"""The kernel calibration error (MMCE) as a training loss and as a map after training, on paper 002's crime network.

    MISCAL_DATA=... python -m studies.kernel_loss [--quick]

The paper's rival "direct MMCE optimization" (Kumar and others, 2018) adds the error of each batch to the log loss. Here
the network of Appendix A.2 is trained with `kernel_calibration_loss` times each of WEIGHTS, and, with the log loss
alone, recalibrated by `KernelCalibration` afterwards. 5 bins, the confidence in the original label, as in the paper.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from miscal import metrics
from miscal.recalibrate import KernelCalibration
from studies import crime, harness

SEEDS = 5
WEIGHTS = (0.0, 0.5, 4.0)
BANDWIDTH = 0.2


def scores(q: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """What is reported of the confidence in the predicted label."""
    held = np.clip(q, crime.CLIP, 1 - crime.CLIP)
    return {
        "accuracy": float(right.mean()),
        "MMCE": metrics.mean_kernel_calibration_error(right, q, bandwidth=BANDWIDTH, target="positive"),
        "ECE (%)": 100 * metrics.expected_calibration_error(right, q, bins=crime.BINS, target="positive"),
        "NLL": float(-np.log(np.where(right == 1, held, 1 - held)).mean()),
        "Brier": float(((q - right) ** 2).mean()),
    }


def one_seed(seed: int, weights: tuple[float, ...]) -> dict[str, dict[str, float]]:
    """Train with each weight, and recalibrate the network of the log loss."""
    x, y, _ = crime.load()
    order = np.random.default_rng(seed).permutation(len(y))
    parts = [np.sort(part) for part in np.split(order, np.cumsum(crime.SPLIT))[:3]]
    fit, test = parts[1:]
    found = {}
    for weight in weights:
        p, _, epochs = crime.train(x, y, parts, seed, kernel_weight=weight)
        name = f"log loss + {weight:g} MMCE" if weight else "log loss"
        label = (p > 0.5).astype(int)
        right = (label == y).astype(int)[test]
        found[name] = scores(np.maximum(p, 1 - p)[test], right) | {"epochs": float(epochs)}
        if not weight:
            new = harness.as_published(KernelCalibration()).fit(p[fit], y[fit]).predict_proba(p[test])
            after = new[np.arange(len(test)), label[test]]
            found["log loss, then KernelCalibration"] = scores(after, right) | {"epochs": float(epochs)}
    return found


def study(quick: bool = False) -> tuple[dict[str, Any], str]:
    """Mean and standard deviation over the seeds."""
    warnings.simplefilter("ignore")
    found = []
    for seed in range(1 if quick else SEEDS):
        found.append(one_seed(seed, WEIGHTS[:1] if quick else WEIGHTS))
        print(f"seed {seed}", file=sys.stderr, flush=True)
    rows, shown = [], []
    for name in found[0]:
        row: dict[str, Any] = {"training": name}
        text = dict(row)
        for key in found[0][name]:
            values = np.array([each[name][key] for each in found])
            row[key], row[f"{key} sd"] = float(values.mean()), float(values.std())
            digits = {"ECE (%)": 1, "epochs": 0}.get(key, 3)
            text[key] = f"{row[key]:.{digits}f} ± {row[f'{key} sd']:.{digits}f}"
        rows.append(row)
        shown.append(text)
    parts = [
        "# The kernel calibration error as a training loss (paper 002's crime network)",
        f"Test rows, mean ± standard deviation over {len(found)} seeds.",
        harness.markdown(shown),
    ]
    return {"seeds": len(found), "table": rows}, "\n\n".join(parts)


if __name__ == "__main__":
    harness.main("kernel_loss", study)
