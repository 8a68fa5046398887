"""Held-out multi-calibration error and log loss after each repair, on three public tables.

    MISCAL_DATA=<folder of data> [MISCAL_PEERS=<python with mcgrad>] python -m studies.repair_subpopulations [--quick]

Each split: a third of the rows trains a logistic regression (COMPAS: its decile score is the model), a third fits the
repairs, a third measures. Differences are paired by split, against MCGrad; 95% intervals by Student's t over splits. A
negative difference is better than MCGrad. Splits overlap in their rows, so the intervals are somewhat too narrow.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from miscal.metrics import log_loss, multicalibration_error
from miscal.recalibrate import (
    Augmentation,
    Identity,
    IsotonicCalibration,
    MulticalibrationBoost,
    PlattScaling,
)
from studies.needs import need

warnings.filterwarnings("ignore")
RESULTS = Path(__file__).parent / "results"
REPAIRS = {
    "as it is": Identity(),
    "Platt": PlattScaling(),
    "isotonic": IsotonicCalibration(),
    "Augmentation (trees)": Augmentation(DecisionTreeClassifier(max_depth=4, random_state=0)),
    "MulticalibrationBoost": MulticalibrationBoost(),
}


def income(folder, rng):
    names = ["SCHL", "AGEP", "WKHP", "SEX", "RAC1P", "MAR", "COW", "RELP"]
    data = pq.read_table(folder / "folktables2018_ACSIncome.parquet", columns=[*names, "y"])
    rows = np.sort(rng.choice(data.num_rows, 45_000, replace=False))
    data = data.take(rows)
    columns = {name: data[name].to_numpy().astype(np.float64) for name in names[:3]}
    words = {name: np.char.add("c", data[name].to_numpy().astype(str)) for name in names[3:]}
    return {**columns, **words}, data["y"].to_numpy(), None


def credit(folder, rng):
    del rng
    names = ["LIMIT_BAL", "AGE", "PAY_0", "PAY_2", "BILL_AMT1", "PAY_AMT1", "SEX", "EDUCATION", "MARRIAGE"]
    data = pq.read_table(folder / "credit_default_taiwan.parquet", columns=[*names, "y"])
    columns = {name: data[name].to_numpy().astype(np.float64) for name in names[:6]}
    words = {name: np.char.add("c", data[name].to_numpy().astype(str)) for name in names[6:]}
    return {**columns, **words}, data["y"].to_numpy(), None


def compas(folder, rng):
    del rng
    data = pq.read_table(folder / "compas_two_year.parquet")
    columns = {name: data[name].to_numpy().astype(np.float64) for name in ("age", "priors_count", "juv_other_count")}
    words = {name: np.array(data[name].to_pylist(), dtype=str) for name in ("sex", "race", "c_charge_degree")}
    score = data["decile_score"].to_numpy().clip(1, 10) / 10 - 0.05
    return {**columns, **words}, data["two_year_recid"].to_numpy(), score


TABLES = {"ACS income": income, "credit default": credit, "COMPAS": compas}


def splits(columns, y, own, count):
    """(fit columns, fit score, fit y, test columns, test score, test y) of each split."""
    n = len(y)
    numeric = np.column_stack([v for v in columns.values() if v.dtype.kind == "f"])
    for seed in range(count):
        order = np.random.default_rng([seed, 4]).permutation(n)
        train, fit, test = np.array_split(order, 3)
        if own is None:
            model = make_pipeline(StandardScaler(), LogisticRegression()).fit(numeric[train], y[train])
            score = model.predict_proba(numeric)[:, 1]
        else:
            score = own
        part = [({name: v[rows] for name, v in columns.items()}, score[rows], y[rows]) for rows in (fit, test)]
        yield part


def measured(after, columns, y):
    after = np.clip(after, 1e-6, 1 - 1e-6)
    return {"error": multicalibration_error(y, after, columns, subpopulations=1000), "loss": log_loss(y, after)}


def with_peer(made, python):
    """MCGrad's predictions and times for all splits of a table, in its own environment."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for k, ((fit, fit_score, fit_y), (test, test_score, test_y)) in enumerate(made):
            arrays = {column: np.concatenate([fit[column], test[column]]) for column in fit}
            part = ["fit"] * len(fit_y) + ["test"] * len(test_y)
            both = {
                "part": part,
                "score": np.concatenate([fit_score, test_score]),
                "y": np.concatenate([fit_y, test_y]),
            }
            pq.write_table(pa.table({**both, **arrays}), folder / f"split-{k:03d}.parquet")
        subprocess.run([python, str(Path(__file__).parent / "peer_mcgrad.py"), name], check=True)
        for path in sorted(folder.glob("split-*.npy")):
            yield np.load(path), json.loads(path.with_suffix(".json").read_text())


def interval(values):
    values = np.asarray(values)
    half = student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return [float(values.mean()), float(values.mean() - half), float(values.mean() + half)]


def study(name, folder, count, python):
    columns, y, own = TABLES[name](folder, np.random.default_rng(0))
    made = list(splits(columns, y, own, count))
    found = {repair: [] for repair in REPAIRS}
    for fit, test in made:
        for repair, model in REPAIRS.items():
            started = time.process_time()
            model.fit(fit[1], fit[2], fit[0])
            spent = time.process_time() - started
            found[repair].append(
                {**measured(model.predict_proba(test[1], test[0])[:, 1], test[0], test[2]), "fit_cpu_s": spent}
            )
    reference = "MulticalibrationBoost"
    if python:
        reference = "MCGrad"
        peers = [(after, notes, test) for (after, notes), (_, test) in zip(with_peer(made, python), made, strict=True)]
        found["MCGrad"] = [{**measured(after, test[0], test[2]), **notes} for after, notes, test in peers]
    rows = []
    for repair, values in found.items():
        row = {
            "table": name,
            "repair": repair,
            "splits": count,
            "fit_cpu_s": float(np.median([v["fit_cpu_s"] for v in values])),
        }
        for what in ("error", "loss"):
            row[what] = float(np.mean([v[what] for v in values]))
            row[f"{what}_difference"] = interval(
                [v[what] - r[what] for v, r in zip(values, found[reference], strict=True)]
            )
        rows.append(row)
        print(row, flush=True)
    return rows


def markdown(rows):
    lines = [
        "| table | repair | M | M minus MCGrad's | log loss | loss minus MCGrad's | fit, CPU s |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        e, d = row["error_difference"], row["loss_difference"]
        lines.append(
            f"| {row['table']} | {row['repair']} | {row['error']:.4f} | {e[0]:+.4f} ({e[1]:+.4f} to {e[2]:+.4f}) | "
            f"{row['loss']:.4f} | {d[0]:+.5f} ({d[1]:+.5f} to {d[2]:+.5f}) | {row['fit_cpu_s']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=list(TABLES), help="this table alone; the others keep their results")
    options = parser.parse_args()
    need("MISCAL_DATA")
    folder, python = Path(os.environ["MISCAL_DATA"]), os.environ.get("MISCAL_PEERS", "")
    names = ["COMPAS"] if options.quick else ["COMPAS", "credit default", "ACS income"]
    rows = []
    if options.only:
        kept = json.loads((RESULTS / "repair_subpopulations.json").read_text())
        rows, names = [row for row in kept if row["table"] != options.only], [options.only]
    for name in names:
        rows += study(name, folder, 2 if options.quick else 10, python)
        if not options.quick:
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / "repair_subpopulations.json").write_text(json.dumps(rows, indent=1) + "\n")
            (RESULTS / "repair_subpopulations.md").write_text(markdown(rows))


if __name__ == "__main__":
    main()
