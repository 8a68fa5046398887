"""Paper 002 on images: Table 4's columns and Figures 8, 9 on CIFAR-10 and CIFAR-100, and a stand-in for settings 2, 3.

    MISCAL_DATA=... python -m studies.local_images [--quick]

CIFAR-10: logits of a ResNet-110 (recalibrated on validation rows), CIFAR-100: logarithms of a DenseNet's probabilities;
3,000 rows to recalibrate and 3,000 others to test. The features are these numbers: 9 or 20 principal components
(bandwidth .4) and t-SNE to two dimensions, divided by its standard deviation (bandwidth .2; the paper: three
dimensions of another network's features, which are not to be had).

The stand-in for CelebA: ResNet-50 on ImageNet's validation images, judged by groups that the repair does not know. The
features are 16 annotated factors and the metaclass of the predicted class (20 principal components, bandwidth .4); the
groups are the main factor (2), and metaclass by main factor (3); only bins with 20 rows or more are judged.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
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
    PlattScaling,
    TemperatureScaling,
)
from studies import harness
from studies.embedding import embedded, principal
from studies.needs import need

ROWS = 3000
BANDWIDTHS = np.geomspace(0.01, 10.0, 13)
RATIOS = np.geomspace(1.25, 100.0, 25)
CLIP = 1e-6
SPLITS = 5
PAPER = {  # Table 4, ImageNet: PRR, ECE, NLL, Brier
    "none": (0.566, 0.037, 0.959, 40.64), "temperature": (0.561, 0.022, 0.948, 40.60),
    "histogram": (0.461, 0.012, 0.952, 40.59), "isotonic": (0.570, 0.011, 0.945, 40.59),
    "MMCE": (0.571, 0.061, 0.965, 40.67), "LoRe (t-SNE)": (0.575, 0.007, 0.955, 40.58),
}  # fmt: skip


def spread_rest(probability: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """Give the most probable class of each row a new confidence and the others what is left, in proportion."""
    rows, label = np.arange(len(probability)), probability.argmax(axis=1)
    out = probability.copy()
    out[rows, label] = 0.0
    left = out.sum(axis=1, keepdims=True)
    # Certainty says nothing of the other classes: they share alike.
    shared = np.where(np.arange(out.shape[1]) == label[:, None], 0.0, 1.0 / (out.shape[1] - 1))
    out = np.where(left > 0, out / np.where(left > 0, left, 1.0), shared) * (1.0 - confidence)[:, None]
    out[rows, label] = confidence
    return out


def data(name: str) -> Path:
    return Path(os.environ["MISCAL_DATA"]) / f"{name}.parquet"


def cifar(name: str, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, labels, features, rows to recalibrate and rows to test."""
    import pandas as pd

    rng = np.random.default_rng(0)
    if name == "CIFAR-10":
        frame = pd.read_parquet(data("cifar10_resnet110_logits"))
        logits = frame[[f"logit_{k}" for k in range(10)]].to_numpy(float)
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        known = np.flatnonzero(frame["split"].astype(str).str.startswith("val"))
        others = np.setdiff1d(np.arange(len(frame)), known)
        fit, test = rng.choice(known, size, replace=False), rng.choice(others, size, replace=False)
        return p, frame["label"].to_numpy(int), logits, np.sort(fit), np.sort(test)
    frame = pd.read_parquet(data("netcal_densenet_bc_100_cifar_100"))
    p = frame[[f"prob_{k}" for k in range(100)]].to_numpy(float)
    p = p / p.sum(axis=1, keepdims=True)
    order = rng.permutation(len(frame))[: 2 * size]
    return p, frame["label"].to_numpy(int), np.log(np.maximum(p, 1e-8)), np.sort(order[:size]), np.sort(order[size:])


def confidences(
    p: np.ndarray, y: np.ndarray, spaces: dict[str, np.ndarray], fit: np.ndarray, test: np.ndarray
) -> dict[str, np.ndarray]:
    """Confidence in the original label of the test rows, by each method."""
    label = p.argmax(axis=1)
    confidence, right = p.max(axis=1), (label == y).astype(int)
    rows = np.arange(len(test))

    def by(method: Any, space: np.ndarray | None = None) -> np.ndarray:
        given = (None, None) if space is None else (space[fit], space[test])
        return (
            harness.as_published(method)
            .fit(confidence[fit], right[fit], given[0])
            .predict_proba(confidence[test], given[1])[:, 1]
        )

    def scaled(method: Any) -> np.ndarray:
        return harness.as_published(method).fit(p[fit], y[fit]).predict_proba(p[test])[rows, label[test]]

    return {
        "none": confidence[test],
        "temperature": scaled(TemperatureScaling()),
        "histogram": by(HistogramBinning()),
        "isotonic": by(IsotonicCalibration()),
        "MMCE": scaled(KernelCalibration()),
        "LoRe (t-SNE)": by(LocalRecalibration(bandwidth=0.2), spaces["t-SNE"]),
        "LoRe (PCA)": by(LocalRecalibration(bandwidth=0.4), spaces["PCA"]),
    }


def one(name: str, size: int = ROWS) -> dict[str, Any]:
    """Table and curves of one data set."""
    p, y, features, fit, test = cifar(name, size)
    both = np.concatenate([fit, test])
    wanted = 9 if features.shape[1] == 10 else 20
    spaces = {key: np.zeros((len(y), d)) for key, d in (("t-SNE", 2), ("PCA", wanted))}
    print(f"{name}: t-SNE", file=sys.stderr, flush=True)
    spaces["t-SNE"][both] = embedded(principal(features[both], wanted), 2, 0)
    spaces["t-SNE"] /= spaces["t-SNE"][both].std(axis=0)
    spaces["PCA"][both] = principal(features[both], wanted)
    out = confidences(p, y, spaces, fit, test)
    right = (p.argmax(axis=1) == y).astype(int)[test]
    table, curves, reward = [], {}, {}
    same: dict[str, Any] = {"target": "positive"}
    for method, q in out.items():
        whole = np.clip(spread_rest(p[test], q), CLIP, 1.0)
        own = whole[np.arange(len(test)), y[test]]
        paper = PAPER.get(method, (None,) * 4)
        table.append({
            "method": method, "PRR": metrics.prediction_rejection_ratio(right, q, **same), "paper PRR": paper[0],
            "ECE": metrics.expected_calibration_error(right, q, **same), "paper ECE": paper[1],
            "NLL": float(-np.log(own / whole.sum(axis=1)).mean()), "paper NLL": paper[2],
            "Brier": float(((spread_rest(p[test], q) - np.eye(p.shape[1])[y[test]]) ** 2).sum(axis=1).mean()),
            "MLCE .2 (t-SNE)": metrics.maximum_local_calibration_error(
                right, q, spaces["t-SNE"][test], bandwidth=0.2, **same),
            "MLCE .4 (PCA)": metrics.maximum_local_calibration_error(
                right, q, spaces["PCA"][test], bandwidth=0.4, **same),
        })  # fmt: skip
        curves[method] = {}
        for space in spaces:
            error = metrics.local_calibration_error(right, q, spaces[space][test], bandwidth=BANDWIDTHS, **same)
            curves[method][f"largest {space}"] = error.max(axis=1).tolist()
            curves[method][f"average {space}"] = error.mean(axis=1).tolist()
        reward[method] = [reward_of(right, q, ratio) for ratio in RATIOS]
    keep = np.random.default_rng(1).choice(len(test), min(1500, len(test)), replace=False)
    sample = {
        "x": spaces["t-SNE"][test][keep].tolist(), "confidence": out["none"][keep].tolist(),
        "right": right[keep].tolist(),
    }  # fmt: skip
    return {"table": table, "curves": curves, "reward": reward, "map": sample}


def reward_of(right: np.ndarray, q: np.ndarray, ratio: float) -> float:
    """Reward a row where an error costs `ratio` times what "unsure" costs: the confidence is in the original label."""
    answer = q >= 1.0 - 1.0 / ratio
    return float(np.where(answer, -ratio * (1 - right), -1.0).mean())


def imagenet() -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Confidence, correctness, columns to repair by, groups to judge by."""
    import pandas as pd

    frame = pd.read_parquet(data("imagenet_x_predictions"))
    frame = frame[frame["top_factor"].notna()]
    names = list(frame.columns[1 : list(frame.columns).index("top_factor")])
    meta = frame.groupby("label")["metaclass_name"].first()
    predicted = frame["pred_ResNet50"].map(meta.astype(str)).fillna("unknown").to_numpy(str)
    columns = {name: (frame[name].astype(float).to_numpy() > 0.5).astype(float) for name in names}
    factor = frame["top_factor"].astype(str).to_numpy()
    groups = {"main factor": factor, "metaclass by main factor": np.char.add(np.char.add(predicted, " / "), factor)}
    right = (frame["pred_ResNet50"] == frame["label"]).to_numpy().astype(int)
    return frame["conf_ResNet50"].to_numpy(float), right, columns | {"metaclass": predicted}, groups


def stand_in(splits: int) -> list[dict[str, Any]]:
    """Largest group-wise error over random halves."""
    q, right, columns, groups = imagenet()
    q = np.clip(q, 1e-9, 1 - 1e-9)
    found: dict[str, list[dict[str, float]]] = {}
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(q))
        fit, test = np.sort(order[: len(q) // 2]), np.sort(order[len(q) // 2 :])
        given = [{name: values[rows] for name, values in columns.items()} for rows in (fit, test)]
        local = LocalRecalibration(bandwidth=0.4, reduce="pca", dimensions=20)
        methods: dict[str, Any] = {
            "none": None, "Platt": PlattScaling(), "histogram": HistogramBinning(), "isotonic": IsotonicCalibration(),
            "MMCE (Platt)": KernelCalibration(base="platt"), "LoRe (PCA)": local,
        }  # fmt: skip
        out = {name: _apply(method, q, right, fit, test, given) for name, method in methods.items()}
        for name, each in groups.items():
            known = [{"g": each[rows]} for rows in (fit, test)]
            out[f"group histogram: {name}"] = _apply(
                GroupWise(HistogramBinning(), min_rows=1, pooling=False), q, right, fit, test, known
            )
            out[f"group Platt, pooled: {name}"] = _apply(GroupWise(PlattScaling()), q, right, fit, test, known)
        for name, new in out.items():
            row = {"ECE": metrics.expected_calibration_error(right[test], new, target="positive")}
            for group, each in groups.items():
                row[group] = metrics.groupwise_maximum_calibration_error(
                    right[test], new, each[test], target="positive", min_count=20
                )
            found.setdefault(name, []).append(row)
        print(f"split {seed}", file=sys.stderr, flush=True)
    return [
        {"method": name} | {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
        for name, rows in found.items()
    ]


def _apply(
    method: Any, q: np.ndarray, right: np.ndarray, fit: np.ndarray, test: np.ndarray, given: list[Any]
) -> np.ndarray:
    if method is None:
        return q[test]
    return np.asarray(
        harness.as_published(method).fit(q[fit], right[fit], given[0]).predict_proba(q[test], given[1])[:, 1]
    )


def kept(name: str, make: Callable[[], Any]) -> Any:
    """Take a part's result from the folder MISCAL_STUDY_CACHE, or make it and keep it there."""
    folder = os.environ.get("MISCAL_STUDY_CACHE")
    if folder is None:
        return make()
    path = Path(folder) / f"images-{name}.json"
    if not path.exists():
        path.write_text(json.dumps(make()), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def study(quick: bool = False) -> tuple[dict[str, Any], str]:
    """Both parts; a quick run takes few rows of the first data set."""
    need("MISCAL_DATA")
    warnings.simplefilter("ignore")
    content: dict[str, Any] = {"bandwidths": BANDWIDTHS.tolist(), "ratios": RATIOS.tolist(), "rows": ROWS}
    parts = ["# Local recalibration on images (paper 002)"]
    for name in ("CIFAR-10",) if quick else ("CIFAR-10", "CIFAR-100"):
        content[name] = one(name, 300) if quick else kept(name, lambda name=name: one(name))
        parts += [f"{name}, {ROWS:,} test rows (paper: ImageNet, Table 4)", harness.markdown(content[name]["table"])]
    content["stand-in"] = stand_in(1) if quick else kept("stand-in", lambda: stand_in(SPLITS))
    parts += [
        f"Stand-in for settings 2 and 3: ImageNet by groups, mean of {1 if quick else SPLITS} random halves.",
        harness.markdown(content["stand-in"]),
    ]
    return content, "\n\n".join(parts)


if __name__ == "__main__":
    harness.main("local_images", study)
