"""The experiment of paper 001, section 3: predictions that are calibrated by design, and what four errors say of them.

    python -m studies.variation_experiment [--quick]

Dirichlet predictions of C classes, flat (1, ..., 1) or skewed (10, 1, ..., 1); the outcome is drawn from them. Means
over repetitions go to studies/results/variation_experiment.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np

from miscal.metrics import (
    classwise_calibration_error,
    expected_calibration_error,
    uncertainty_calibration_error,
    variation_calibration_error,
)

RESULTS = Path(__file__).parent / "results"
QUICK_ROWS = 10**4
REPEATS = {10**4: 100, 10**5: 30, 10**6: 6, 10**7: 2}
METRICS = ("expected", "variation", "uncertainty", "classwise")
BINS = 10
CHUNK = 1 << 18


def sample(rows, classes, shape, seed):
    """Draw predictions and outcomes; in chunks, so that nothing but the result is as long as the data."""
    rng = np.random.default_rng([rows, classes, shape == "skewed", seed])
    p = rng.standard_exponential((rows, classes))
    if shape == "skewed":
        p[:, 0] = rng.standard_gamma(10.0, rows)
    y = np.empty(rows, np.int64)
    for start in range(0, rows, CHUNK):
        part = p[start : start + CHUNK]
        part /= part.sum(axis=1, keepdims=True)
        y[start : start + CHUNK] = (np.cumsum(part, axis=1)[:, :-1] <= rng.random((len(part), 1))).sum(axis=1)
    return y, p


def errors(y, p, strategy):
    """The four errors; confidence in bins over [1/C, 1], as the paper has it."""
    classes = p.shape[1]
    common = {"bins": BINS, "strategy": strategy}
    return {
        "expected": expected_calibration_error(y, p, target="top", range=(1.0 / classes, 1.0), **common),
        "variation": variation_calibration_error(y, p, **common),
        "uncertainty": uncertainty_calibration_error(y, p, **common),
        "classwise": classwise_calibration_error(y, p, **common),
    }


def uncertainty_floor(classes):
    """The limit of the uncertainty calibration error on flat predictions: mean entropy minus error rate."""
    from scipy.special import digamma

    harmonic = sum(1.0 / k for k in range(1, classes + 1))
    return float((digamma(classes + 1) - digamma(2)) / math.log(classes) - (1.0 - harmonic / classes))


def run(quick):
    rows = []
    for classes in (3, 10):
        for shape in ("flat", "skewed"):
            for size, repeats in REPEATS.items():
                if quick and size > QUICK_ROWS:
                    continue
                found = {"uniform": [], "quantile": []}
                start = time.process_time()
                for seed in range(min(repeats, 2) if quick else repeats):
                    y, p = sample(size, classes, shape, seed)
                    for strategy, values in found.items():
                        values.append(errors(y, p, strategy))
                    del y, p
                for strategy, values in found.items():
                    row = {"classes": classes, "alpha": shape, "bins": strategy, "rows": size, "repeats": len(values)}
                    for name in METRICS:
                        each = np.array([value[name] for value in values])
                        row[name] = float(each.mean())
                        row[f"{name}_error"] = float(each.std(ddof=1) / math.sqrt(each.size))
                    rows.append(row)
                print(classes, shape, size, f"{time.process_time() - start:.1f} s", rows[-2]["variation"], flush=True)
    floors = {str(classes): uncertainty_floor(classes) for classes in (3, 10)}
    return {"rows": rows, "uncertainty_floor": floors}


def markdown(results):
    lines = [
        "| C | alpha | bins | N | repetitions | expected | variation | uncertainty | class-wise |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in results["rows"]:
        values = " | ".join(f"{row[name]:.5f} ± {row[f'{name}_error']:.5f}" for name in METRICS)
        kind = "equal width" if row["bins"] == "uniform" else "equal frequency"
        lines.append(f"| {row['classes']} | {row['alpha']} | {kind} | {row['rows']:,} | {row['repeats']} | {values} |")
    floors = ", ".join(f"C = {classes}: {value:.6f}" for classes, value in results["uncertainty_floor"].items())
    return "\n".join([*lines, "", f"Closed form of the uncertainty error's limit for flat predictions: {floors}.", ""])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    results = run(quick)
    print(markdown(results))
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "variation_experiment.json").write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "variation_experiment.md").write_text(markdown(results))


if __name__ == "__main__":
    main()
