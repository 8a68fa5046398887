"""Paper 002, Appendix A: are bins of equal mass similar to bins of equal width, in the metric and in LoRe?

    MISCAL_DATA=... python -m studies.equal_mass [--quick]

"We also ran some initial experiments with equal-mass binning, but found that the results were very similar to those
obtained with equal-width binning." Here `LocalRecalibration(strategy=)` and `local_calibration_error(strategy=)` are
compared on the crime network (5 bins, as in the paper), CIFAR-10 and CIFAR-100 (15 bins), and ResNet-50 on ImageNet
(15 bins; features are the 16 annotated factors and the metaclass of the predicted class, one-hot). All features are
reduced to principal components, with the paper's bandwidth of .4.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from miscal import metrics
from miscal.recalibrate import LocalRecalibration
from studies import crime, harness, local_images
from studies.embedding import principal

BANDWIDTH = 0.4
BANDWIDTHS = np.geomspace(0.01, 10.0, 13)
SEEDS, ROWS, QUICK_ROWS = 20, 6000, 500
STRATEGIES = {"uniform": "equal width", "quantile": "equal mass"}


class Case(NamedTuple):
    """Rows to fit on and rows to test, of one data set and split."""

    data: str
    bins: int
    confidence: np.ndarray
    right: np.ndarray
    features: np.ndarray
    fit: np.ndarray
    test: np.ndarray


def crime_cases(seeds: int) -> Iterator[Case]:
    """The network of Appendix A.2, its last hidden layer in 20 principal components."""
    x, y, _ = crime.load()
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(y))
        parts = [np.sort(part) for part in np.split(order, np.cumsum(crime.SPLIT))[:3]]
        p, hidden, _ = crime.train(x, y, parts, seed)
        both = np.concatenate(parts[1:])
        features = np.zeros((len(y), 20))
        features[both] = principal(hidden[both], 20)
        right = ((p > 0.5) == y).astype(int)
        yield Case("crime", crime.BINS, np.maximum(p, 1 - p), right, features, parts[1], parts[2])


def cifar_case(name: str, rows: int | None = None) -> Case:
    """A network on images, its outputs in principal components."""
    p, y, features, fit, test = local_images.cifar(name, local_images.ROWS)
    fit, test = fit[:rows], test[:rows]
    both = np.concatenate([fit, test])
    space = np.zeros((len(y), 9 if features.shape[1] == 10 else 20))
    space[both] = principal(features[both], space.shape[1])
    right = (p.argmax(axis=1) == y).astype(int)
    return Case(name, 15, p.max(axis=1), right, space, fit, test)


def imagenet_case() -> Case:
    """ResNet-50 by annotated factors, `ROWS` random images to fit on and as many others to test."""
    q, right, columns, _ = local_images.imagenet()
    rng = np.random.default_rng(0)
    rows = rng.choice(len(q), 2 * ROWS, replace=False)
    classes = np.unique(columns["metaclass"][rows], return_inverse=True)[1]
    factors = [values[rows] for name, values in columns.items() if name != "metaclass"]
    space = principal(np.column_stack([*factors, np.eye(classes.max() + 1)[classes]]), 20)
    places = np.arange(2 * ROWS)
    return Case("ImageNet", 15, q[rows], right[rows], space, places[:ROWS], places[ROWS:])


def cases(quick: bool) -> Iterator[Case]:
    """All data sets; for a quick look part of one."""
    yield cifar_case("CIFAR-10", QUICK_ROWS if quick else None)
    if not quick:
        yield cifar_case("CIFAR-100")
        yield imagenet_case()
        yield from crime_cases(SEEDS)


def compared(case: Case) -> dict[str, Any]:
    """LoRe in both kinds of bins, and both kinds of metrics of each."""
    q, right = case.confidence[case.test], case.right[case.test]
    features = case.features[case.test]
    new = {"none": q}
    for strategy, words in STRATEGIES.items():
        local = LocalRecalibration(
            bandwidth=BANDWIDTH, bins=case.bins, strategy=strategy, smooth=0.0, keep_certain=True
        )
        local.fit(case.confidence[case.fit], case.right[case.fit], case.features[case.fit])
        new[words] = local.predict_proba(q, features)[:, 1]
    same: dict[str, Any] = {"bins": case.bins, "target": "positive"}
    found: dict[str, Any] = {"methods": {}, "curves": {}}
    for name, values in new.items():
        row = {"Brier": metrics.brier_score(right, values)}
        for strategy, words in STRATEGIES.items():
            options = same | {"strategy": strategy}
            row[f"ECE, {words}"] = metrics.expected_calibration_error(right, values, **options)
            error = metrics.local_calibration_error(right, values, features, bandwidth=BANDWIDTH, **options)
            row[f"average LCE, {words}"], row[f"maximum LCE, {words}"] = float(error.mean()), float(error.max())
        found["methods"][name] = row
        error = metrics.local_calibration_error(right, values, features, bandwidth=BANDWIDTHS, **same)
        found["curves"][name] = error.max(axis=1).tolist()
    one, other = (new[words] for words in STRATEGIES.values())
    found["mean difference"] = float(np.abs(one - other).mean())
    found["correlation"] = float(np.corrcoef(one, other)[0, 1])
    return found


def study(quick: bool = False) -> tuple[dict[str, Any], str]:
    """Every data set; the mean over the seeds of the crime network."""
    warnings.simplefilter("ignore")
    found: dict[str, list[dict[str, Any]]] = {}
    for case in cases(quick):
        found.setdefault(case.data, []).append(compared(case))
        print(f"{case.data} {len(found[case.data])}", file=sys.stderr, flush=True)
    rows: list[dict[str, Any]] = []
    differences, curves = [], {}
    for data, runs in found.items():
        for name in runs[0]["methods"]:
            row = {"data": data, "LoRe": name}
            rows.append(
                row | {key: _mean(run["methods"][name][key] for run in runs) for key in runs[0]["methods"][name]}
            )
        keys = ("mean difference", "correlation")
        differences.append({"data": data, "runs": len(runs)} | {key: _mean(run[key] for run in runs) for key in keys})
        curves[data] = {
            name: np.mean([run["curves"][name] for run in runs], axis=0).tolist() for name in runs[0]["curves"]
        }
    content = {"table": rows, "differences": differences, "curves": curves, "bandwidths": BANDWIDTHS.tolist()}
    text = [
        "# Bins of equal width and of equal mass (paper 002, Appendix A)",
        "LoRe with principal components and a bandwidth of .4, fitted in bins of each kind and measured in both.",
        harness.markdown(rows),
        "New confidences in bins of equal mass against those in bins of equal width:",
        harness.markdown(differences),
    ]
    return content, "\n\n".join(text)


def _mean(values: Any) -> float:
    return float(np.mean(list(values)))


if __name__ == "__main__":
    harness.main("equal_mass", study)
