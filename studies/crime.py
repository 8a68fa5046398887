"""Paper 002, section 5.3, setting 1: Communities and Crime, recalibrated in nine ways (Tables 1, 2, 3, Figures 5, 17).

    MISCAL_DATA=... python -m studies.crime [--quick]

The network of appendix A.2 (three hidden layers of 100, leaky ReLU, dropout .4 after the last, Adam 3e-4, batches of
64) on a random 994 / 500 / 500 split for each seed; its last hidden layer is the feature space. The paper's
conventions: 5 equal-width bins, the confidence in the original label against its correctness, t-SNE of recalibration
and test rows together (bandwidth .2, 2-D), principal components (bandwidth .4, 20-D).

The paper stops training when "the validation accuracy stopped improving" without saying how long it waits: we wait
PATIENCE epochs and keep the last weights, which gives an overconfidence like that of its first row. It does not say on
which scale its t-SNE coordinates are either. As t-SNE leaves them, a bandwidth of .2 reaches hardly one other row
("raw t-SNE" below); divided by their standard deviation it lies between the limits, as the paper says it should.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from miscal import metrics
from miscal.recalibrate import (
    GroupWise,
    HistogramBinning,
    IsotonicCalibration,
    KernelCalibration,
    LocalRecalibration,
    Recalibrator,
    TemperatureScaling,
)
from studies import harness
from studies.embedding import embedded, principal
from studies.needs import need

SEEDS = 60
PATIENCE = 150
BINS = 5
CLIP = 1e-6  # of probabilities in the log loss
SPLIT = (994, 500, 500)
BANDWIDTHS = np.geomspace(0.01, 10.0, 13)
GROUPS = ("plurality_race_norm", "plurality_race")
LEFT_OUT = (
    "state", "county", "community", "communityname", "fold", "ViolentCrimesPerPop", "y", "state_abbr", *GROUPS,
)  # fmt: skip
PAPER = {  # Tables 1 and 3, setting 1: largest group-wise error, ECE (%), NLL, Brier
    "none": (0.588, 15.1, 0.96, 0.17), "temperature": (0.521, 4.9, 0.43, 0.14), "histogram": (0.515, 3.3, 0.48, 0.15),
    "isotonic": (0.596, 30.6, 0.79, 0.30), "MMCE": (0.526, 4.4, 0.43, 0.14),
    "group temperature": (0.423, None, None, None), "group histogram": (0.542, None, None, None),
    "LoRe (t-SNE)": (0.351, 3.5, 0.42, 0.13), "LoRe (raw t-SNE)": (None, None, None, None),
    "LoRe (PCA)": (0.392, 4.5, 0.44, 0.14),
}  # fmt: skip
PAPER_CORRELATION = {"ECE": 0.102, "MCE": 0.233, "NLL": 0.542, "Brier": 0.101, "MLCE t-SNE": 0.642, "MLCE PCA": 0.639}


def load() -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Features (columns without missing values; one value filled in), outcomes and groups."""
    import pandas as pd

    frame = pd.read_parquet(Path(os.environ["MISCAL_DATA"]) / "crime_normalized.parquet")
    numbers = frame.drop(columns=list(LEFT_OUT)).astype(float)
    kept = numbers.loc[:, numbers.isna().sum() <= 1]
    features = kept.fillna(kept.mean()).to_numpy(np.float32)
    return features, frame["y"].to_numpy(int), {name: frame[name].astype(str).to_numpy() for name in GROUPS}


def train(
    x: np.ndarray,
    y: np.ndarray,
    parts: list[np.ndarray],
    seed: int,
    kernel_weight: float = 0.0,
    patience: int = PATIENCE,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Probability of class 1 and last hidden layer of every row, and the epochs trained.

    The loss is the log loss plus `kernel_weight` times the kernel calibration error of the batch.
    """
    import torch
    from torch import nn

    from miscal.recalibrate import kernel_calibration_loss

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    layers: list[Any] = []
    for width in (x.shape[1], 100, 100):
        layers += [nn.Linear(width, 100), nn.LeakyReLU()]
    body, drop, head = nn.Sequential(*layers), nn.Dropout(0.4), nn.Linear(100, 2)
    optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=3e-4)
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    loss_of = nn.CrossEntropyLoss()
    best, waited, epoch = -1.0, 0, 0
    rows = torch.from_numpy(parts[0])
    while waited < patience and epoch < 2000:
        epoch += 1
        drop.train()
        for some in torch.split(rows[torch.randperm(len(rows))], 64):
            optimiser.zero_grad()
            outputs = head(drop(body(inputs[some])))
            loss = loss_of(outputs, labels[some])
            if kernel_weight:
                error = kernel_calibration_loss(labels[some], torch.softmax(outputs, 1), target="top")
                loss = loss + kernel_weight * error
            loss.backward()
            optimiser.step()
        drop.eval()
        with torch.no_grad():
            right = (head(body(inputs[parts[1]])).argmax(1) == labels[parts[1]]).float().mean().item()
        best, waited = (right, 0) if right > best else (best, waited + 1)
    with torch.no_grad():
        hidden = body(inputs)
        probability = torch.softmax(head(hidden), 1)[:, 1]
    return probability.numpy().astype(float), hidden.numpy().astype(float), epoch


def _table(beside: np.ndarray) -> Any:
    return {"group": beside} if beside.ndim == 1 else beside


def repaired(
    p: np.ndarray, y: np.ndarray, groups: np.ndarray, spaces: dict[str, np.ndarray], fit: np.ndarray, test: np.ndarray
) -> dict[str, np.ndarray]:
    """New confidence in the original label of the test rows, by each method."""
    label = p > 0.5
    confidence, right = np.maximum(p, 1 - p), (label == y).astype(int)

    def by(method: Recalibrator, beside: Any = None) -> np.ndarray:
        given = [None if beside is None else _table(beside[rows]) for rows in (fit, test)]
        harness.as_published(method).fit(confidence[fit], right[fit], given[0])
        return method.predict_proba(confidence[test], given[1])[:, 1]

    def scaled(method: Recalibrator, beside: Any = None) -> np.ndarray:
        """Methods of the whole probability: the confidence in the original label afterwards."""
        given = (None, None) if beside is None else ({"x": beside[fit]}, {"x": beside[test]})
        out = harness.as_published(method).fit(p[fit], y[fit], given[0]).predict_proba(p[test], given[1])
        return out[np.arange(len(test)), label[test].astype(int)]

    local = {"kernel": "laplacian", "bins": BINS}
    return {
        "none": confidence[test],
        "temperature": scaled(TemperatureScaling()),
        "histogram": by(HistogramBinning(bins=BINS)),
        "isotonic": by(IsotonicCalibration()),
        "MMCE": scaled(KernelCalibration()),
        "group temperature": scaled(GroupWise(TemperatureScaling(), min_rows=1, pooling=False), groups),
        "group histogram": by(GroupWise(HistogramBinning(bins=BINS), min_rows=1, pooling=False), groups),
        "LoRe (t-SNE)": by(LocalRecalibration(bandwidth=0.2, **local), spaces["t-SNE"]),
        "LoRe (raw t-SNE)": by(LocalRecalibration(bandwidth=0.2, **local), spaces["raw t-SNE"]),
        "LoRe (PCA)": by(LocalRecalibration(bandwidth=0.4, **local), spaces["PCA"]),
    }


def scores(
    q: np.ndarray, right: np.ndarray, groups: dict[str, np.ndarray], spaces: dict[str, np.ndarray]
) -> dict[str, float]:
    """Everything that the tables hold, of one method and seed."""
    same: dict[str, Any] = {"bins": BINS, "target": "positive"}
    held = np.clip(q, CLIP, 1 - CLIP)
    found = {name: metrics.groupwise_maximum_calibration_error(right, q, each, **same) for name, each in groups.items()}
    return found | {
        "ECE": metrics.expected_calibration_error(right, q, **same),
        "MCE": metrics.maximum_calibration_error(right, q, **same),
        "NLL": float(-np.log(np.where(right == 1, held, 1 - held)).mean()),
        "Brier": float(((q - right) ** 2).mean()),
        "MLCE t-SNE": metrics.maximum_local_calibration_error(right, q, spaces["t-SNE"], bandwidth=0.2, **same),
        "MLCE PCA": metrics.maximum_local_calibration_error(right, q, spaces["PCA"], bandwidth=0.4, **same),
        "PRR": metrics.prediction_rejection_ratio(right, q, target="positive"),
    }


def curves(q: np.ndarray, right: np.ndarray, spaces: dict[str, np.ndarray]) -> dict[str, list[float]]:
    """Largest and average local error against the bandwidth, in both feature spaces."""
    same: dict[str, Any] = {"bins": BINS, "target": "positive", "bandwidth": BANDWIDTHS}
    out = {}
    for name, space in spaces.items():
        error = metrics.local_calibration_error(right, q, space, **same)
        out[f"largest {name}"] = error.max(axis=1).tolist()
        out[f"average {name}"] = error.mean(axis=1).tolist()
    return out


def one_seed(
    seed: int, data: tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]], patience: int = PATIENCE
) -> dict[str, Any]:
    """Train, recalibrate, score."""
    x, y, groups = data
    order = np.random.default_rng(seed).permutation(len(y))
    parts = [np.sort(part) for part in np.split(order, np.cumsum(SPLIT))[:3]]
    p, hidden, epochs = train(x, y, parts, seed, patience=patience)
    both = np.concatenate(parts[1:])
    spaces = {name: np.zeros((len(y), d)) for name, d in (("raw t-SNE", 2), ("PCA", 20))}
    spaces["raw t-SNE"][both] = embedded(hidden[both], 2, seed)
    spaces["t-SNE"] = spaces["raw t-SNE"] / spaces["raw t-SNE"][both].std(axis=0)
    spaces["PCA"][both] = principal(hidden[both], 20)
    out = repaired(p, y, groups[GROUPS[0]], spaces, parts[1], parts[2])
    other = repaired_groups(p, y, groups[GROUPS[1]], parts[1], parts[2])
    test = parts[2]
    right = ((p > 0.5) == y).astype(int)[test]
    there = {name: spaces[name][test] for name in ("t-SNE", "PCA")}
    levels = {name: each[test] for name, each in groups.items()}
    found = {name: scores(q, right, levels, there) for name, q in out.items()}
    for name, q in other.items():  # group-wise methods know the groups they are judged by
        found[name][GROUPS[1]] = metrics.groupwise_maximum_calibration_error(
            right, q, levels[GROUPS[1]], bins=BINS, target="positive"
        )
    return {
        "seed": seed, "epochs": epochs, "accuracy": float(right.mean()), "scores": found,
        "curves": {name: curves(q, right, there) for name, q in out.items()},
    }  # fmt: skip


def repaired_groups(
    p: np.ndarray, y: np.ndarray, groups: np.ndarray, fit: np.ndarray, test: np.ndarray
) -> dict[str, np.ndarray]:
    """The two group-wise methods with the other group column."""
    spaces = {name: np.zeros((len(y), 1)) for name in ("t-SNE", "raw t-SNE", "PCA")}
    out = repaired(p, y, groups, spaces, fit, test)
    return {name: out[name] for name in ("group temperature", "group histogram")}


def tables(found: list[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    """Tables 1, 2 and 3 with the paper's numbers beside ours."""
    methods = list(found[0]["scores"])

    def column(method: str, name: str) -> np.ndarray:
        return np.array([each["scores"][method][name] for each in found])

    rows = []
    for method in methods:
        row: dict[str, Any] = {"method": method}
        for name in (*GROUPS, "ECE", "NLL", "Brier", "MLCE t-SNE", "MLCE PCA", "PRR"):
            values = column(method, name)
            row[name], row[f"{name} sd"] = float(values.mean()), float(values.std(ddof=1))
        row["paper"], row["paper ECE"], row["paper NLL"], row["paper Brier"] = PAPER[method]
        rows.append(row)
    compared = [method for method in methods if PAPER[method][0] is not None]  # the paper's nine
    target = {group: np.concatenate([column(m, group) for m in compared]) for group in GROUPS}
    correlation = []
    for name, paper in PAPER_CORRELATION.items():
        values = np.concatenate([column(m, name) for m in compared])
        ours = {group: float(np.corrcoef(values, target[group])[0, 1]) for group in GROUPS}
        correlation.append({"metric": name, **ours, "paper": paper})
    wins = {
        group: {m: int(sum(column(m, group)[i] == min(column(k, group)[i] for k in methods)
                           for i in range(len(found)))) for m in methods}
        for group in GROUPS
    }  # fmt: skip
    return {"table": rows, "correlation": correlation, "best in seeds": wins}, _text(rows, correlation, len(found))


def _text(rows: list[dict[str, Any]], correlation: list[dict[str, Any]], seeds: int) -> str:
    def pair(row: dict[str, Any], name: str, factor: float = 1.0, digits: int = 3) -> str:
        return f"{factor * row[name]:.{digits}f} ± {factor * row[f'{name} sd']:.{digits}f}"

    first = [
        {"method": r["method"], "scaled shares": pair(r, GROUPS[0]), "true shares": pair(r, GROUPS[1]),
         "paper": r["paper"]}
        for r in rows
    ]  # fmt: skip
    third = [
        {"method": r["method"], "ECE (%)": pair(r, "ECE", 100, 1), "paper ECE": r["paper ECE"],
         "NLL": pair(r, "NLL", 1, 2), "paper NLL": r["paper NLL"], "Brier": pair(r, "Brier", 1, 3),
         "paper Brier": r["paper Brier"], "MLCE .2 (t-SNE)": pair(r, "MLCE t-SNE"),
         "MLCE .4 (PCA)": pair(r, "MLCE PCA")}
        for r in rows
    ]  # fmt: skip
    headings = {"metric": "metric", GROUPS[0]: "scaled shares", GROUPS[1]: "true shares", "paper": "paper"}
    return "\n\n".join(
        [
            f"# Communities and Crime (paper 002, setting 1), {seeds} seeds",
            "Table 1: largest group-wise error (mean ± sd); groups by plurality race of the scaled or true shares.",
            harness.markdown(first),
            "Table 2: correlation with that error over methods and seeds.",
            harness.markdown(correlation, headings),
            "Table 3: global metrics.",
            harness.markdown(third),
        ]
    )


def all_seeds(seeds: int, patience: int = PATIENCE) -> list[dict[str, Any]]:
    """Results of the seeds; with MISCAL_STUDY_CACHE, a folder, each is kept there, so that several processes can share.

    MISCAL_STUDY_PART = "k/m" makes every m-th seed only; "done" takes what is there, in whatever number, and says so.
    """
    warnings.simplefilter("ignore")
    folder, part = os.environ.get("MISCAL_STUDY_CACHE"), os.environ.get("MISCAL_STUDY_PART", "0/1")
    data, found = load(), []
    for seed in range(seeds):
        path = None if folder is None else Path(folder) / f"crime-{seed}.json"
        if path is not None and path.exists():
            found.append(json.loads(path.read_text(encoding="utf-8")))
            continue
        if part == "done" or seed % int(part.split("/")[1]) != int(part.split("/")[0]):
            continue
        found.append(one_seed(seed, data, patience))
        if path is not None:
            path.write_text(json.dumps(found[-1]), encoding="utf-8")
        last = found[-1]
        print(f"seed {seed}: {last['epochs']} epochs, accuracy {last['accuracy']:.3f}", file=sys.stderr, flush=True)
    return found


def study(quick: bool = False) -> tuple[dict[str, Any], str]:
    """All seeds; a quick run has one, of a network that is hardly trained."""
    need("MISCAL_DATA")
    found = all_seeds(1, patience=1) if quick else all_seeds(SEEDS)
    content, text = tables(found)
    average = {
        method: {
            name: np.mean([each["curves"][method][name] for each in found], axis=0).tolist()
            for name in found[0]["curves"][method]
        }
        for method in found[0]["curves"]
    }
    spread = {
        method: {
            name: np.std([each["curves"][method][name] for each in found], axis=0).tolist()
            for name in found[0]["curves"][method]
        }
        for method in found[0]["curves"]
    }
    content |= {
        "seeds": len(found), "patience": PATIENCE, "bandwidths": BANDWIDTHS.tolist(), "curves": average,
        "curves sd": spread, "epochs": [each["epochs"] for each in found],
        "accuracy": float(np.mean([each["accuracy"] for each in found])),
    }  # fmt: skip
    return content, text


if __name__ == "__main__":
    harness.main("crime", study)
