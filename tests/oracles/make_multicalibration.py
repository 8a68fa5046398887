"""MCGrad: the multi-calibration error of its authors' own package, of events and of real responses (paper 004)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from frozen import inputs, save
from mcgrad.metrics import MulticalibrationError


def measured(rows, outcome, score, weight=None, **options):
    """The package's error over all categories and pairs of categories, in its own scale and in standard deviations."""
    table = {"y": np.asarray(outcome, float), "p": score, "label": rows["labels"].astype(str)}
    table["half"] = rows["half"].astype(str)
    if weight is not None:
        table["weight"] = weight
    found = MulticalibrationError(
        pd.DataFrame(table),
        "y",
        "p",
        None if weight is None else "weight",
        categorical_segment_columns=["label", "half"],
        max_depth=2,
        max_values_per_segment_feature=4,
        min_samples_per_segment=10,
        max_n_segments=None,
        precision_dtype="float64",
        **options,
    )
    return {
        "error": float(found.mce),
        "sigma": float(found.mce_sigma),
        "p": float(found.mce_pvalue),
        "segments": len(found.segments_ecce),
    }


def main():
    rows = inputs()
    y, p, weight, tied = rows["y"], rows["p"], rows["weight"], rows["tied"]
    amount = 10.0 * p + weight * (y - 0.5)
    first = np.argsort(-y, kind="stable")
    rows["half"] = np.arange(y.size) % 2
    reordered = {name: rows[name][first] for name in ("labels", "half")}
    values = {
        "plain": measured(rows, y, p),
        "weighted": measured(rows, y, p, weight),
        "real": measured(rows, amount, 10.0 * p, outcome_type="regression"),
        "real_weighted": measured(rows, amount, 10.0 * p, weight, outcome_type="regression"),
        "tied": measured(rows, y, tied),
        "tied_events_first": measured(reordered, y[first], tied[first]),
    }
    save("multicalibration", ["MCGrad", "numpy"], values)


if __name__ == "__main__":
    main()
