"""Packages of the papers' authors and of the methods' authors, each beside the same thing of ours.

MCGrad (authors of paper 004): the multicalibration error of given segments. uncertainty-calibration (Kumar, Liang and
Ma): scaling-binning. betacal (Kull, Silva Filho and Flach): beta calibration.
"""

from __future__ import annotations

import calibration
import numpy as np
import pandas as pd
from betacal import BetaCalibration
from frozen import inputs, save
from mcgrad.metrics import MulticalibrationError


def multicalibration(rows: dict[str, np.ndarray]) -> dict[str, float]:
    """The largest cumulative error over the values of two columns and their pairs."""
    frame = pd.DataFrame({"y": rows["y"].astype(float), "p": rows["p"], **segments(rows)})
    error = MulticalibrationError(
        frame, "y", "p", categorical_segment_columns=["label", "side"], max_depth=2, precision_dtype="float64",
        min_samples_per_segment=10,
    )  # fmt: skip
    return {"value": error.mce, "deviations": error.mce_sigma, "segments": error.total_number_segments}


def segments(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Two categorical columns of the rows."""
    return {"label": rows["labels"].astype(str), "side": np.where(rows["weight"] > 1, "heavy", "light")}


def scaled_and_binned(y: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Probabilities after scaling-binning with ten bins."""
    calibrator = calibration.PlattBinnerCalibrator(y.size, num_bins=10)
    calibrator.train_calibration(p, y)
    return calibrator.calibrate(p)


def main() -> None:
    rows = inputs()
    y, p = rows["y"], rows["p"]
    values = {
        "multicalibration": multicalibration(rows),
        "scaling_binning": scaled_and_binned(y, p),
        "beta": BetaCalibration("abm").fit(p[:, None], y).predict(p[:, None]),
    }
    save("authors", ["MCGrad", "uncertainty-calibration", "betacal", "scikit-learn", "numpy"], values)


if __name__ == "__main__":
    main()
