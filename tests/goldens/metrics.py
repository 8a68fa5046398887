"""Every metric of the registry, with several options of each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

import miscal.metrics
from miscal.metrics import METRICS
from tests.goldens import data
from tests.goldens.normalise import Plain, plain

QUANTILES = {"bins": 7, "strategy": "quantile"}
NORMS = [{"norm": "l2"}, {"norm": "max"}, {"norm": 3}]
SCORE = [{**QUANTILES}, {"range": (0.2, 0.9)}, {"bins": [0.0, 0.1, 0.5, 1.0]}]
# Options beside the defaults, by metric; all are called without weights, with weights, and on ties.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "expected_calibration_error": [*SCORE, *NORMS],
    "maximum_calibration_error": SCORE,
    "classwise_calibration_error": [*SCORE, *NORMS],
    "variable_calibration_error": [{"strategy": "uniform"}, {"bins": 4, "norm": "l2"}],
    "variable_calibration_curve": [
        {"grid": 20, "span": 0.5, "se": "constant"}, {"grid": 15, "degree": 1, "robust_iterations": 2, "trim": 0.1},
    ],
    "rank_variables": [{"bins": 4, "random_state": 3}],
    "field_calibration_error": [{"norm": "l2"}, {"norm": "max"}],
    "field_relative_calibration_error": [{"zero": "drop"}, {"epsilon": 0.1, "norm": "l2"}],
    "probability_calibration_error": [{"bins": 6, "norm": "l2"}],
    "multicalibration_error": [
        {"subpopulations": 50, "min_size": 30}, {"normalise": False}, {"variance": "paper", "min_information": 5.0},
    ],
    "proportional_weights": [{"rho": 0.1}],
    "score_decomposition": [{"loss": "log"}],
    "integrated_calibration_index": [{"span": 0.4}],
    "mean_kernel_calibration_error": [{"bandwidth": 0.5}],
    "variation_calibration_error": [
        {"variation": name, "bins": 5} for name in ("confidence", "variation_ratio", "qualitative_variation")
    ] + [{"bias_correction": True}, {"strategy": "quantile", "norm": "l2"}],
    "uncertainty_calibration_error": [{"bins": 5, "strategy": "quantile"}],
    "local_calibration_error": [
        {"kernel": "gaussian", "bandwidth": [0.2, 0.6]}, {"signed": True}, {"leave_one_out": True, "bins": 5},
        {"kernel": "group"},
    ],
    "maximum_local_calibration_error": [{"bandwidth": [0.1, 0.4]}, {"kernel": "gaussian"}],
    "average_local_calibration_error": [{"bandwidth": [0.1, 0.4]}, {"kernel": "gaussian"}],
    "groupwise_expected_calibration_error": [QUANTILES, {"min_count": 60}],
    "groupwise_maximum_calibration_error": [QUANTILES, {"min_count": 60}],
    "abstention_reward": [{"unsure_cost": 0.5, "error_cost": 2.0}],
}  # fmt: skip
EVENTS_ONLY = ("low_prevalence_weights", "proportional_weights")
WHAT = {
    "y_true": "y", "y_prob": "p", "variable": "variable", "field": "level", "groups": "level", "features": "features",
}  # fmt: skip


def called(name: str, rows: data.Arrays, options: dict[str, Any], *, weighted: bool = False) -> Plain:
    """What a metric gives."""
    metric = getattr(miscal.metrics, name)
    by_place = [each.name for each in signature(metric).parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
    frame = {"variable": rows["variable"], "other": rows["other"]}
    given = [frame if part == "frame" else rows[WHAT[part]] for part in by_place if part != "sample_weight"]
    weight = {"sample_weight": rows["weight"]} if weighted else {}
    return plain(metric(*given, **options, **weight), ["variable", "other"])


def metric(name: str) -> Plain:
    """A metric with each set of options, of events, ties, classes and other means."""
    parameters = signature(getattr(miscal.metrics, name)).parameters
    rows, ties, several = data.arrays(), data.arrays(ties=True), data.arrays(many=3)
    weighted = [False, True] if "sample_weight" in parameters else [False]
    found: dict[str, Plain] = {}
    for options in [{}, *OPTIONS.get(name, [])]:
        label = ",".join(f"{key}={value}" for key, value in options.items()) or "default"
        for weight in weighted:
            words = f"{label}{' weighted' * weight}"
            found[words] = called(name, rows, options, weighted=weight)
            if name not in EVENTS_ONLY:
                found[f"{words} classes"] = called(name, several, options, weighted=weight)
        found[f"{label} ties"] = called(name, ties, options)
    if "target" in parameters:
        found["one class"] = called(name, several, {"target": 1})
        found["top"] = called(name, several, {"target": "top"})
    if METRICS[name].means is not None:
        for response in ("real", "count") if "response" in parameters and name != "multicalibration_error" else ():
            found[response] = called(name, of_means(rows, response), {**METRICS[name].means, "response": response})
    return found


def of_means(rows: data.Arrays, response: str) -> data.Arrays:
    """The rows with outcomes that are no events."""
    rng = np.random.default_rng(9)
    y = rng.poisson(3.0 * rows["p"]) if response == "count" else 3.0 * rows["p"] * rng.gamma(2.0, 0.5, rows["p"].size)
    return {**rows, "y": y, "p": rows["p"] * 2.5}


CASES: dict[str, Callable[[], Plain]] = {f"metric_{name}": partial(metric, name) for name in METRICS}
