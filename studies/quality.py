"""Every recalibrator of ours and of others on the same splits: losses, errors along columns, seconds.

    MISCAL_DATA=<folder> [MISCAL_PEERS=<python with the peers>] python -m studies.quality [--quick]

Seven data sets, eight models. A model is trained once (or its published outputs are taken); of rows that it has not
seen each of ten seeds draws rows to calibrate on and others to test on: 4,000 and 8,000 (images: 3,000 and 6,000).
Differences are paired by split; 95% intervals by Student's t over the ten splits, which overlap in their rows, so they
are somewhat too narrow. Probabilities are held within [1e-12, 1 - 1e-12] for the log loss, so that a method that rules
out what happens pays dearly but finitely. Seconds are CPU time of one thread. Image models have no columns: their
errors are by entropy and by predicted class, and repairs use the probabilities alone. The candidates and rules of
`choose` were settled on other splits (seeds from 1,000 on): for Adult, ACSIncome, SBA loans and flights on other rows
altogether, for credit default and the images on the same rows drawn otherwise, so these three are not wholly fresh.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

for _name in ("MISCAL_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from scipy.stats import t as student  # noqa: E402
from sklearn.metrics import roc_auc_score  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

from miscal import metrics, recalibrate  # noqa: E402
from studies.harness import markdown, write  # noqa: E402
from studies.needs import need  # noqa: E402
from studies.quality_data import POOLS, Pool  # noqa: E402

warnings.filterwarnings("ignore")
SEEDS = 10
LEAST = 1e-12
NUMBERS = ("log_loss", "brier", "auc", "score", "variable", "field", "multicalibration", "fit_s", "predict_s")


def methods(pool: Pool) -> dict[str, Any]:
    """Our recalibrators with their defaults, by name; columns only where the pool's model has features beside it."""
    names = ["Identity", "TemperatureScaling", "PlattScaling", "BetaCalibration", "HistogramBinning", "ScalingBinning"]
    names += ["IsotonicCalibration", "IsotonicLinePlotScaling", "VectorScaling", "DirichletCalibration"]
    made = {name: getattr(recalibrate, name)() for name in names}
    made["KernelCalibration"] = recalibrate.KernelCalibration()
    made["StructuredScaling(vector)"] = recalibrate.StructuredScaling()
    made["StructuredScaling(matrix)"] = recalibrate.StructuredScaling("matrix")
    if pool.several:
        return made
    numeric = [name for name in pool.columns if pd.api.types.is_numeric_dtype(pool.columns[name])]
    made["VariableTree"] = recalibrate.VariableTree(columns=[pool.variable])
    made["AugmentedLogistic"] = recalibrate.AugmentedLogistic()
    made["AugmentedLogistic(l2=1)"] = recalibrate.AugmentedLogistic(l2=1.0)
    made["AugmentedBeta"] = recalibrate.AugmentedBeta(degree=2)
    made["GroupWise"] = recalibrate.GroupWise(recalibrate.PlattScaling(), columns=[pool.field])
    made["LocalRecalibration"] = recalibrate.LocalRecalibration()
    made["AugmentedBeta(l2=10)"] = recalibrate.AugmentedBeta(degree=2, l2=10.0)
    made["Augmentation"] = recalibrate.Augmentation(DecisionTreeClassifier(max_depth=4, random_state=0))
    made["MulticalibrationBoost"] = recalibrate.MulticalibrationBoost()
    made["NeuralCalibration"] = recalibrate.NeuralCalibration()
    return made | {"numeric columns": numeric}


def ours(pool: Pool, fit: np.ndarray, test: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Predictions of every recalibrator on the test rows, and its seconds or what it refused."""
    made = methods(pool)
    numeric = made.pop("numeric columns", [])
    found: dict[str, np.ndarray] = {}
    spent: dict[str, Any] = {}
    for name, each in made.items():
        chosen = list(pool.columns) if name != "LocalRecalibration" else numeric
        X = pool.columns[chosen] if each.uses_columns else None
        try:
            start = time.process_time()
            each.fit(pool.probability[fit], pool.outcome[fit], None if X is None else X.iloc[fit])
            middle = time.process_time()
            out = each.predict_proba(pool.probability[test], None if X is None else X.iloc[test])
            spent[name] = [middle - start, time.process_time() - middle]
            found[name] = out if pool.several else out[:, 1]
        except recalibrate_errors() as error:
            spent[name] = str(error).splitlines()[0]
    start = time.process_time()
    allowed = [] if pool.several else list(pool.columns)
    by = [pool.variable, pool.field]
    best = recalibrate.choose(pool.probability[fit], pool.outcome[fit], pool.columns.iloc[fit], by=by, allowed=allowed)
    middle = time.process_time()
    out = best.predict_proba(pool.probability[test], pool.columns.iloc[test] if best.uses_columns else None)
    spent["choose"] = [middle - start, time.process_time() - middle]
    found["choose"] = out if pool.several else out[:, 1]
    spent["chosen"] = best.name
    return found, spent


def recalibrate_errors() -> tuple[type[Exception], ...]:
    from miscal.data.errors import MiscalError

    return (MiscalError, ImportError)


def measured(pool: Pool, test: np.ndarray, p: np.ndarray) -> dict[str, Any]:
    """The numbers of one set of test predictions, and the log loss of every row."""
    y = pool.outcome[test]
    matrix = p if p.ndim == 2 else np.stack([1.0 - p, p], axis=1)
    matrix = np.clip(matrix, 0.0, 1.0)
    matrix = matrix / matrix.sum(axis=1, keepdims=True)
    loss = -np.log(np.clip(matrix[np.arange(len(y)), y], LEAST, 1.0))
    squares = ((matrix - np.eye(matrix.shape[1])[y]) ** 2).sum(axis=1) / (1.0 if pool.several else 2.0)
    q = matrix if pool.several else matrix[:, 1]
    right = (matrix.argmax(axis=1) == y) if pool.several else y
    columns = pool.columns.iloc[test]
    return {
        "log_loss": float(loss.mean()),
        "brier": float(squares.mean()),
        "auc": float(roc_auc_score(right, matrix.max(axis=1) if pool.several else q)),
        "score": float(metrics.expected_calibration_error(y, q)),
        "variable": float(metrics.variable_calibration_error(y, q, columns[pool.variable].to_numpy())),
        "field": float(metrics.field_calibration_error(y, q, columns[pool.field].to_numpy())),
        "multicalibration": float(metrics.multicalibration_error(y, q, columns, subpopulations=100)),
    }


def run_ours(pools: dict[str, Pool], seeds: Sequence[int], folder: Path) -> None:
    """Predictions by split, each kept in the folder; seeds first, so that a run cut short has whole seeds."""
    for seed in seeds:
        for key, pool in pools.items():
            path = folder / f"split-{key}-{seed}.npz"
            if path.with_suffix(".ours.npz").exists():
                continue
            start = time.process_time()
            fit, test = pool.split(seed)
            made, spent = ours(pool, fit, test)
            np.savez(path.with_suffix(".ours.npz"), **made)
            path.with_suffix(".ours.json").write_text(json.dumps(spent))
            print(f"{key} {seed}: {spent['chosen']}, {time.process_time() - start:.0f} CPU s", flush=True)


def prepare(pools: dict[str, Pool], seeds: int, folder: Path) -> None:
    """Write the splits for the peers."""
    for key, pool in pools.items():
        for seed in range(seeds):
            fit, test = pool.split(seed)
            path = folder / f"split-{key}-{seed}.npz"
            p, y = pool.probability, pool.outcome
            np.savez(path, fit_p=p[fit], fit_y=y[fit], test_p=p[test])
            pool.columns.iloc[np.concatenate([fit, test])].reset_index(drop=True).to_parquet(
                path.with_suffix(".parquet")
            )


def collect(pools: dict[str, Pool], seeds: int, folder: Path) -> dict[str, Any]:
    """Measure every kept prediction."""
    found: dict[str, Any] = {}
    for key, pool in pools.items():
        rows: dict[str, list[dict[str, Any]]] = {}
        failed: dict[str, str] = {}
        chosen: list[str] = []
        for seed in range(seeds):
            if not (folder / f"split-{key}-{seed}.ours.npz").exists():
                continue
            test = pool.split(seed)[1]
            for who in ("ours", "peers"):
                path = folder / f"split-{key}-{seed}.{who}.npz"
                if not path.exists():
                    continue
                spent = json.loads(path.with_suffix(".json").read_text())
                chosen += [spent["chosen"]] if "chosen" in spent else []
                failed |= {name: text for name, text in spent.items() if isinstance(text, str) and name != "chosen"}
                for name, numbers in _kept(pool, test, path).items():
                    if isinstance(numbers, str):
                        failed[name] = f"seed {seed}: {numbers}"
                        continue
                    took = dict(zip(("fit_s", "predict_s"), spent[name], strict=True))
                    rows.setdefault(name, []).append({"seed": seed, **numbers, **took})
        found[key] = {
            "table": pool.name, "model": pool.model, "variable": pool.variable, "field": pool.field, "chosen": chosen,
            "failed": failed, "methods": {name: _summary(own, rows) for name, own in rows.items()},
        }  # fmt: skip
    return found


def _kept(pool: Pool, test: np.ndarray, path: Path) -> dict[str, Any]:
    """The numbers of each method's predictions in a file, kept beside it; why there are none, where there are none."""
    beside = path.with_suffix(".measured.json")
    if beside.exists() and beside.stat().st_mtime >= path.stat().st_mtime:
        return dict(json.loads(beside.read_text()))
    made: dict[str, Any] = {}
    for name, p in np.load(path).items():
        whole = bool(np.isfinite(p).all())
        lost = f"{np.isnan(p).any(axis=-1).sum():,} rows are not numbers"
        made[name] = measured(pool, test, p) if whole else lost
    beside.write_text(json.dumps(made))
    return made


def _summary(own: list[dict[str, Any]], rows: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    made: dict[str, Any] = {name: float(np.mean([row[name] for row in own])) for name in NUMBERS}
    made["seeds"] = len(own)
    for against in ("Identity", "choose"):
        for number in ("log_loss", "field", "variable", "multicalibration"):
            made[f"{number}_against_{against}"] = _paired(own, rows.get(against, []), number)
    return made


def _paired(one: list[dict[str, Any]], other: list[dict[str, Any]], number: str) -> list[float]:
    """Mean difference and its 95% interval over the splits that both have."""
    beside = {row["seed"]: row[number] for row in other}
    change = np.array([row[number] - beside[row["seed"]] for row in one if row["seed"] in beside])
    if change.size < 2:
        return [float(change.mean()) if change.size else float("nan"), float("nan"), float("nan")]
    reach = float(student.ppf(0.975, change.size - 1) * change.std(ddof=1) / np.sqrt(change.size))
    return [float(change.mean()), float(change.mean()) - reach, float(change.mean()) + reach]


HEADINGS = {
    "method": "method", "log_loss": "log loss", "against": "log loss against `choose`", "brier": "Brier",
    "auc": "AUC", "score": "score %", "variable": "variable %", "field": "field %", "multicalibration": "multi. %",
    "fit_s": "fit s", "predict_s": "predict s",
}  # fmt: skip


def text_of(found: dict[str, Any]) -> str:
    """One table a data set, the smallest log loss first, then where `choose` stands."""
    lines = [str(__doc__).split("\n\n")[2].replace("\n", " "), "", *_standing(found)]
    for each in found.values():
        chosen = ", ".join(each["chosen"])
        about = f"{len(each['chosen'])} splits. Variable {each['variable']}, field {each['field']}. "
        about += f"`choose` took: {chosen}."
        lines += ["", f"## {each['table']} ({each['model']})", "", about, ""]
        ordered = sorted(each["methods"].items(), key=lambda item: item[1]["log_loss"])
        lines.append(markdown([_row(name, numbers) for name, numbers in ordered], HEADINGS))
        if each["failed"]:
            lines += ["", "Not run: " + "; ".join(f"{name} ({text})" for name, text in each["failed"].items()) + "."]
    return "\n".join(lines)


def _row(name: str, numbers: dict[str, Any]) -> dict[str, Any]:
    mean, low, high = numbers["log_loss_against_choose"]
    row: dict[str, Any] = {"method": f"**{name}**" if name == "choose" else name}
    row |= {key: f"{numbers[key]:.4f}" for key in ("log_loss", "brier", "auc")}
    row["against"] = "" if name == "choose" else f"{mean:+.4f} ({low:+.4f} to {high:+.4f})"
    row |= {key: f"{100 * numbers[key]:.2f}" for key in ("score", "variable", "field", "multicalibration")}
    return row | {key: f"{numbers[key]:.3f}" for key in ("fit_s", "predict_s")}


def _standing(found: dict[str, Any]) -> list[str]:
    rows = []
    for each in found.values():
        methods_ = each["methods"]
        if "choose" not in methods_:
            continue
        others = {name: numbers for name, numbers in methods_.items() if name != "choose"}
        against = {name: numbers["log_loss_against_choose"] for name, numbers in others.items()}
        beats = [name for name, (_, _, high) in against.items() if high < 0]
        rank = 1 + sum(mean < 0 for mean, _, _ in against.values())
        row = {"table": f"{each['table']} ({each['model']})", "splits": len(each["chosen"])}
        row["rank"] = f"{rank} of {len(methods_)}"
        row["beats"] = ", ".join(beats) or "none"
        for number in ("variable", "field", "multicalibration"):
            row[number] = _leader(others, methods_["choose"][number], number)
        rows.append(row)
    headings = {
        "table": "table",
        "splits": "splits",
        "rank": "rank of `choose` by log loss",
        "beats": "better than `choose` beyond noise",
        "variable": "variable error %",
        "field": "field error %",
        "multicalibration": "multi. error %",
    }
    note = "Errors: of `choose`, then the least of all others; * and a count: so many others are less beyond noise."
    return [markdown(rows, headings), "", note] if rows else []


def _leader(others: dict[str, Any], own: float, number: str) -> str:
    """The error of `choose` and the least of the others, with a star and a count where those are less beyond noise."""
    best = min(others, key=lambda name: others[name][number])
    less = sum(numbers[f"{number}_against_choose"][2] < 0 for numbers in others.values())
    star = f", *{less}" if less else ""
    return f"{100 * own:.2f} ({100 * others[best][number]:.2f}, {best}{star})"


def main() -> None:
    """Run what is not kept yet, then measure and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", type=Path, help="keeps predictions by split, to continue a run that was cut short")
    parser.add_argument("--only", nargs="*", help="tables to run, such as adult cifar10; then nothing is written")
    parser.add_argument("--seeds", type=int, nargs="*", help="with --only: these seeds, of splits that are there")
    parser.add_argument("--collect", action="store_true", help="only measure what the folder holds")
    asked = parser.parse_args()
    need("MISCAL_DATA")
    data = Path(os.environ["MISCAL_DATA"])
    folder = asked.folder or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    seeds = 1 if asked.quick else SEEDS
    wanted = asked.only or (["adult"] if asked.quick else list(POOLS))
    pools = {key: make(data) for key, make in POOLS.items() if key in wanted}
    peers = None
    if asked.only and asked.seeds:
        run_ours(pools, asked.seeds, folder)
        for key, pool in pools.items():
            for path in sorted(folder.glob(f"split-{key}-*.*.npz")):
                _kept(pool, pool.split(int(path.stem.split("-")[2].split(".")[0]))[1], path)
        return
    if not asked.collect:
        prepare(pools, seeds, folder)
        if os.environ.get("MISCAL_PEERS"):
            script = Path(__file__).with_name("peer_quality.py")
            peers = subprocess.Popen([os.environ["MISCAL_PEERS"], str(script), str(folder)])
        run_ours(pools, range(seeds), folder)
        if peers is not None:
            peers.wait()
    if asked.only and not asked.collect:
        return
    found = collect(pools, seeds, folder)
    text = text_of(found)
    print(text)
    if not asked.quick:
        print(write("quality", found, text))


if __name__ == "__main__":
    main()
