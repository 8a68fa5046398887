"""Paper 002, section 5.4 on its own classifier: ResNet-50 on ImageNet, Table 4 and Figure 4.

    MISCAL_DATA=... python -m studies.imagenet_decisions [--quick]

The published predictions hold the label and the confidence of the predicted class of all 50,000 validation images, so
that methods of the confidence can be fitted (histogram binning, isotonic regression, MMCE with slope and intercept of
the logit) on 25,000 random images and tested on the others, as in the paper. Temperature scaling needs all 1,000
probabilities, and local recalibration needs the features of another network: neither was published.

The second table asks which definition of the prediction-rejection ratio could give the printed one.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from miscal import metrics
from miscal.recalibrate import HistogramBinning, IsotonicCalibration, KernelCalibration
from studies import harness

SPLITS, QUICK = 20, 2
RATIOS = np.geomspace(1.25, 100.0, 25)
ERROR_COST = 10.0
PAPER = {  # Table 4: PRR, ECE
    "none": (0.566, 0.037), "histogram": (0.461, 0.012), "isotonic": (0.570, 0.011), "MMCE-Platt": (0.571, 0.061),
}  # fmt: skip
SAME: dict[str, Any] = {"target": "positive"}


def predictions(model: str = "ResNet50") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidence, whether the label is ImageNet's, and whether it is one of ReaL's labels (0 where it has none)."""
    import pandas as pd

    frame = pd.read_parquet(Path(os.environ["MISCAL_DATA"]) / "imagenet_x_predictions.parquet")
    right = (frame[f"pred_{model}"] == frame["label"]).to_numpy(int)
    return frame[f"conf_{model}"].to_numpy(float), right, frame[f"real_correct_{model}"].fillna(0).to_numpy(int)


def recalibrated(q: np.ndarray, right: np.ndarray, fit: np.ndarray, test: np.ndarray) -> dict[str, np.ndarray]:
    """Confidence of the test rows by each method."""
    methods: dict[str, Any] = {
        "histogram": HistogramBinning(), "isotonic": IsotonicCalibration(),
        "MMCE-Platt": KernelCalibration(base="platt"),
    }  # fmt: skip
    out = {"none": q[test]}
    for name, method in methods.items():
        out[name] = harness.as_published(method).fit(q[fit], right[fit]).predict_proba(q[test])[:, 1]
    return out


def one_split(q: np.ndarray, right: np.ndarray, seed: int) -> dict[str, dict[str, Any]]:
    """Every number of every method on one random half."""
    order = np.random.default_rng(seed).permutation(len(q))
    fit, test = np.sort(order[: len(q) // 2]), np.sort(order[len(q) // 2 :])
    rows = len(test)
    return {
        name: {
            "PRR": metrics.prediction_rejection_ratio(right[test], new, **SAME),
            "ECE": metrics.expected_calibration_error(right[test], new, **SAME),
            "reward": metrics.abstention_reward(right[test], new, error_cost=ERROR_COST, **SAME) / rows,
            "distinct": int(np.unique(new).size),
            "rewards": [
                metrics.abstention_reward(right[test], new, error_cost=ratio, **SAME) / rows for ratio in RATIOS
            ],
        }
        for name, new in recalibrated(q, right, fit, test).items()
    }


def rejection_curves(q: np.ndarray, right: np.ndarray) -> dict[str, np.ndarray]:
    """Errors left (as a share of all rows) against the rows rejected, by confidence, at random and errors first."""
    wrong = 1.0 - right[np.argsort(q, kind="stable")]
    rejected = np.arange(wrong.size + 1)
    total = wrong.sum()
    return {
        "confidence": (total - np.concatenate([[0.0], np.cumsum(wrong)])) / wrong.size,
        "random": total * (1 - rejected / wrong.size) / wrong.size,
        "errors first": np.maximum(total - rejected, 0.0) / wrong.size,
    }


def gained(curves: dict[str, np.ndarray]) -> float:
    """Area between random rejection and the confidence's, over that between random rejection and errors first."""
    area = {name: np.trapezoid(curve) for name, curve in curves.items()}
    return float((area["random"] - area["confidence"]) / (area["random"] - area["errors first"]))


def of_accepted(q: np.ndarray, right: np.ndarray) -> float:
    """The ratio of areas under the error rate among accepted rows, in place of that among all rows."""
    rows = right.size
    accepted = rows - np.arange(rows)
    return gained({name: curve[:-1] * rows / accepted for name, curve in rejection_curves(q, right).items()})


def of_rewards(q: np.ndarray, right: np.ndarray) -> float:
    """The ratio of areas under the reward at the paper's costs, 1 to decline and 10 for an error."""
    rejected = np.arange(right.size + 1) / right.size
    costs = {name: ERROR_COST * curve + rejected for name, curve in rejection_curves(q, right).items()}
    return gained(costs)


def of_decision(q: np.ndarray, right: np.ndarray) -> float:
    """Reward at the paper's threshold of .9 between that of always answering (0) and of declining every error (1)."""
    reward = metrics.abstention_reward(right, q, error_cost=ERROR_COST, **SAME) / right.size
    wrong = 1.0 - right.mean()
    return float((reward + ERROR_COST * wrong) / (ERROR_COST * wrong - wrong))


def definitions() -> list[dict[str, Any]]:
    """The prediction-rejection ratio of the unrecalibrated confidence under each definition tried."""
    q, right, real = predictions()
    ratio = metrics.prediction_rejection_ratio
    in_bins = np.ceil(15 * q) / 15
    rows = {
        "2 AUROC - 1 (`prediction_rejection_ratio`), all 50,000 images": ratio(right, q, **SAME),
        "areas under the rejection curve: share of all rows that are errors left": gained(rejection_curves(q, right)),
        "areas under the error rate of the accepted rows": of_accepted(q, right),
        "areas under the reward, 1 to decline and 10 for an error": of_rewards(q, right),
        "reward at the threshold .9, from always answering (0) to declining errors only (1)": of_decision(q, right),
        "confidence in 15 equal-width bins, ties averaged": ratio(right, in_bins, **SAME),
        "any of ReaL's labels counts as right": ratio(real, q, **SAME),
    }
    rows |= {
        f"{model} in place of ResNet-50": ratio(other, confidence, **SAME)
        for model in ("ViT", "DINO", "SimCLR")
        for confidence, other, _ in [predictions(model)]
    }
    return [{"definition": name, "PRR": float(value), "paper": PAPER["none"][0]} for name, value in rows.items()]


def study(quick: bool = False) -> tuple[dict[str, Any], str]:
    """The table over random halves, the curves of the reward and the definitions."""
    warnings.simplefilter("ignore")
    q, right, _ = predictions()
    splits = QUICK if quick else SPLITS
    found = [one_split(q, right, seed) for seed in range(splits)]
    print(f"{splits} splits", file=sys.stderr, flush=True)
    table, rewards = [], {}
    for name in found[0]:
        row: dict[str, Any] = {"method": name}
        for key in ("PRR", "ECE", "reward"):
            values = np.array([each[name][key] for each in found])
            row |= {key: float(values.mean()), f"{key} sd": float(values.std(ddof=1))}
        row["distinct"] = float(np.mean([each[name]["distinct"] for each in found]))
        row["paper PRR"], row["paper ECE"] = PAPER[name]
        table.append(row)
        rewards[name] = np.mean([each[name]["rewards"] for each in found], axis=0).tolist()
    tried = definitions()
    about = {
        "images": len(q), "accuracy": float(right.mean()),
        "ECE": metrics.expected_calibration_error(right, q, **SAME),
    }  # fmt: skip
    content = {**about, "splits": splits, "table": table, "ratios": RATIOS.tolist(), "rewards": rewards,
               "definitions": tried}  # fmt: skip
    return content, _text(content)


def _text(content: dict[str, Any]) -> str:
    rows = [
        {
            "method": row["method"],
            "PRR": f"{row['PRR']:.3f} ± {row['PRR sd']:.3f}", "paper PRR": f"{row['paper PRR']:.3f}",
            "ECE": f"{row['ECE']:.4f} ± {row['ECE sd']:.4f}", "paper ECE": f"{row['paper ECE']:.3f}",
            "reward per image": f"{row['reward']:.4f} ± {row['reward sd']:.4f}",
            "distinct values": f"{row['distinct']:,.0f}",
        }
        for row in content["table"]
    ]  # fmt: skip
    tried = [{**row, "PRR": f"{row['PRR']:.3f}"} for row in content["definitions"]]
    about = (
        f"ResNet-50, {content['images']:,} validation images: accuracy {content['accuracy']:.4f}, "
        f"ECE {content['ECE']:.4f} (15 equal-width bins)."
    )
    design = (
        f"Fitted on 25,000 random images, tested on the other 25,000: mean ± standard deviation of "
        f"{content['splits']} splits. Reward with a cost of 1 to decline and 10 for an error."
    )
    asked = "The prediction-rejection ratio of the confidence as it is, by definition:"
    title = "# Decisions on ImageNet (paper 002, section 5.4, Table 4)"
    return "\n\n".join([title, about, design, harness.markdown(rows), asked, harness.markdown(tried)])


if __name__ == "__main__":
    harness.main("imagenet_decisions", study)
