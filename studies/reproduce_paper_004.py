"""Tables 1 to 9 of "Measuring multi-calibration" set up again on the 2024 survey (paper 004, sections 3.1 to 3.3).

    MISCAL_DATA=<folder of data> python -m studies.reproduce_paper_004 [--quick]

The paper's own data (2019, with laptops and smartphones) are not to be had. Same survey, county, filters, models,
hyper-parameters and protocol; other year, covariates and targets. So the digits differ; the pattern is what can be
compared. A quarter of the rows is the test set. Training is unweighted, every measure on the test set is weighted by
WGTP. Augmentations start from a model trained on one half of the training rows and are fitted three times on the other.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

from miscal.aggregate.subpopulations import ordered
from miscal.data.columns import Columns
from miscal.data.target import TargetData
from miscal.metrics.subpopulation_errors import SubpopulationRequest
from miscal.recalibrate import Augmentation
from miscal.stats.kuiper import RANGE_MEAN
from miscal.stats.maxima import deviations, kuiper_errors, scaled_errors
from studies.needs import need

warnings.filterwarnings("ignore")
RESULTS = Path(__file__).parent / "results"
SEEDS = (0, 1, 2)
MODELS = {
    "LightGBM": LGBMClassifier(max_depth=3, num_leaves=8, n_estimators=10, verbose=-1, n_jobs=1),
    "decision tree": DecisionTreeClassifier(max_depth=4, random_state=0),
    "logistic regression": LogisticRegression(tol=0.01, solver="saga", max_iter=1000, random_state=0),
}
WAYS = ("before", "Platt scaling", "isotonic regression", *(f"three augmentations, {name}" for name in MODELS))


def predictions(model, x_train, y_train, x_test):
    """The six columns of a table: probabilities on the test rows."""
    made = {"before": clone(model).fit(x_train, y_train).predict_proba(x_test)[:, 1]}
    for name, method in (("Platt scaling", "sigmoid"), ("isotonic regression", "isotonic")):
        made[name] = (
            CalibratedClassifierCV(clone(model), method=method).fit(x_train, y_train).predict_proba(x_test)[:, 1]
        )
    half = len(y_train) // 2
    first = clone(model).fit(x_train[:half], y_train[:half])
    other, test = (first.predict_proba(x)[:, 1] for x in (x_train[half:], x_test))
    for name, again in MODELS.items():
        fitted = Augmentation(clone(again), rounds=3).fit(other, y_train[half:], x_train[half:])
        made[f"three augmentations, {name}"] = fitted.predict_proba(test, x_test)[:, 1]
    return made


def measured(score, outcome, weight, columns, nominal):
    """Error, Kuiper, M, ablation and expectation; the last three over seeds, with twice their standard error."""
    rows = ordered(TargetData(np.ascontiguousarray(score), outcome.astype(np.uint8), weight))
    several = {"multi-cal.": [], "multi-ablate": [], "expectation": []}
    kuiper = sigma = math.nan
    for seed in SEEDS:
        found = SubpopulationRequest(columns, list(columns), len(score), None, nominal, 10, 0.0, seed).search(
            rows, 1000
        )
        errors = kuiper_errors(found.stats)
        kuiper, sigma = float(errors[0]), float(deviations(found.stats)[0])
        several["multi-cal."].append(float(scaled_errors(found.stats).max()))
        several["multi-ablate"].append(float(errors.max()))
        several["expectation"].append(RANGE_MEAN * float(deviations(found.stats)[np.argmax(errors)]))
    wrong = np.average((score > 0.5) != (outcome == 1), weights=weight)
    return {
        "error": float(wrong),
        "Kuiper": kuiper,
        "Kuiper expected": RANGE_MEAN * sigma,
        "in sigma": float(np.mean(several["multi-cal."])) / sigma,
        **{name: [float(np.mean(v)), 2 * float(np.std(v, ddof=1)) / math.sqrt(len(v))] for name, v in several.items()},
    }


def table(title, model, data, nominal=None):
    x, y, weight, columns = data
    rows = np.arange(len(y))
    train, test = train_test_split(rows, test_size=0.25, random_state=0)
    made = predictions(MODELS[model], x[train], y[train], x[test])
    beside = columns.take(test)
    rate = np.average(y[test], weights=weight[test])
    return {
        "title": title,
        "model": model,
        "test_rows": len(test),
        "error without covariates": float(min(rate, 1 - rate)),
        "columns": {way: measured(made[way], y[test], weight[test], beside, nominal) for way in WAYS},
    }


def orange_county(folder, target):
    data = pq.read_table(folder / "acs2024_orange_county_seed004.parquet")
    names = [name for name in data.column_names if not name.startswith("y_") and name != "WGTP"]
    raw = {name: data[name].to_numpy().astype(np.float64) for name in names}
    x = np.column_stack([np.nan_to_num(values) for values in raw.values()])
    return x, data[target].to_numpy(), data["WGTP"].to_numpy().astype(np.float64), Columns(raw)


def california(folder):
    data = pq.read_table(folder / "acs2024_ca_households.parquet")
    names = ["HINCP", "FINCP", "MV", "BDSP", "RMSP", "YRBLT", "BLD", "HHT", "NP", "NPF"]
    raw = {name: data[name].to_numpy().astype(np.float64) for name in names}
    county = np.array(data["county_fips3"].to_pylist())
    codes = np.unique(county, return_inverse=True)[1]
    x = np.column_stack([*(np.nan_to_num(values) / np.nanmax(values) for values in raw.values()), codes / codes.max()])
    columns = Columns({**raw, "county": county})
    return x, data["y_owner"].to_numpy(), data["WGTP"].to_numpy().astype(np.float64), columns


def markdown(tables):
    parts = []
    for number, made in enumerate(tables, 1):
        parts.append(
            f"**{number}. {made['model']}, {made['title']}**; {made['test_rows']:,} test rows; the error without "
            f"covariates is {made['error without covariates']:.4f}\n"
        )
        parts += ["| | " + " | ".join(WAYS) + " |", "|---" * (len(WAYS) + 1) + "|"]
        for row in ("error", "Kuiper", "Kuiper expected", "multi-cal.", "in sigma", "multi-ablate", "expectation"):
            values = [made["columns"][way][row] for way in WAYS]
            shown = [
                f"{v[0]:.4f} ± {v[1]:.4f}" if isinstance(v, list) else f"{v:.4f}" if row != "in sigma" else f"{v:.2f}"
                for v in values
            ]
            parts.append(f"| {row} | " + " | ".join(shown) + " |")
        parts.append("")
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    need("MISCAL_DATA")
    folder = Path(os.environ["MISCAL_DATA"])
    targets = {"y_owner": "owns the home", "y_multigen": "several generations", "y_nonenglish": "not English at home"}
    tables = []
    for target, title in targets.items():
        for model in MODELS:
            tables.append(table(f"Orange County, {title}", model, orange_county(folder, target)))
            print(
                tables[-1]["title"],
                model,
                {w: round(m["multi-cal."][0], 4) for w, m in tables[-1]["columns"].items()},
                flush=True,
            )
        if options.quick:
            return
    tables.append(table("all California, owns the home, county nominal", "LightGBM", california(folder), ["county"]))
    print(tables[-1]["title"], {w: round(m["multi-cal."][0], 4) for w, m in tables[-1]["columns"].items()}, flush=True)
    RESULTS.mkdir(exist_ok=True)
    text = (
        json.dumps(tables, indent=1).replace("Infinity", "null").replace("NaN", "null")
    )  # infinite: certain and wrong
    (RESULTS / "reproduce_paper_004.json").write_text(text + "\n")
    (RESULTS / "reproduce_paper_004.md").write_text(markdown(tables))


if __name__ == "__main__":
    main()
