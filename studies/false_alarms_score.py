"""How often does `by_score` cry wolf on calibrated data, and how often does it see a planted error?

    python -m studies.false_alarms_score [--quick]

Each kind of data is drawn 1,000 times. The error's p-value and Kuiper's must alarm at 5% at most 73 times each (99.9%
point of the binomial). The intervals must cover the true value, known from the probabilities the outcomes came from,
in at least 927 of 1,000 (0.1% point at 95%). Cells: data sets in which any cell's adjusted p-value alarms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import miscal
from miscal import datasets
from miscal.aggregate.in_memory import kuiper_statistic, tally
from miscal.data.target import select_target
from miscal.metrics.score_errors import score_bins, tally_error
from studies import harness
from studies.simulated import clustered, weighted

SETS = 1000
LEVEL = 0.05
Maker = Callable[[int], datasets.Synthetic]


def cut_weights(seed: int) -> datasets.Synthetic:
    """Calibrated rows of which nine in ten without an event were dropped and the others weigh ten."""
    whole = datasets.calibrated(12_000, shape=(1.0, 9.0), random_state=seed)
    rng = np.random.default_rng([seed, 1])
    kept = (whole.y_true == 1) | (rng.random(whole.y_true.size) < 0.1)
    weight = np.where(whole.y_true == 1, 1.0, 10.0)
    columns = {name: values[kept] for name, values in whole.columns.items()}
    return datasets.Synthetic(
        whole.y_true[kept], whole.y_prob[kept], whole.truth[kept], columns, "nowhere", whole.planted[kept], 0.0,
        weight[kept],
    )  # fmt: skip


def rare_weighted(seed: int) -> datasets.Synthetic:
    """One event in a hundred, lognormal weights."""
    plain = datasets.calibrated(5000, rate=0.01, random_state=seed)
    weight = np.exp(np.random.default_rng([seed, 2]).normal(size=plain.y_true.size))
    return datasets.Synthetic(
        plain.y_true, plain.y_prob, plain.truth, plain.columns, plain.where, plain.planted, 0.0, weight
    )


KINDS: dict[str, tuple[Maker, dict[str, Any]]] = {
    "plain": (lambda seed: datasets.calibrated(2000, random_state=seed), {}),
    "plain, uniform bins": (lambda seed: datasets.calibrated(2000, random_state=seed), {"strategy": "uniform"}),
    "plain, largest gap": (lambda seed: datasets.calibrated(2000, random_state=seed), {"norm": "max"}),
    "scores rounded to .1": (lambda seed: datasets.calibrated(2000, step=0.1, random_state=seed), {}),
    "lognormal weights": (lambda seed: weighted(2000, random_state=seed), {}),
    "lognormal weights, uniform bins": (
        lambda seed: weighted(2000, random_state=seed),
        {"strategy": "uniform"},
    ),
    "rate .01": (lambda seed: datasets.calibrated(5000, rate=0.01, random_state=seed), {}),
    "rate .001": (lambda seed: datasets.calibrated(20_000, rate=0.001, random_state=seed), {}),
    "rate .01, lognormal weights": (rare_weighted, {}),
    "clusters of five": (lambda seed: clustered(2000, random_state=seed), {}),
    "negatives cut to a tenth": (cut_weights, {}),
    "sign flips asked for": (lambda seed: datasets.calibrated(2000, random_state=seed), {"null": "residual"}),
    "three classes, top label": (lambda seed: datasets.calibrated_classes(2000, random_state=seed), {}),
    "two hundred rows": (lambda seed: datasets.calibrated(200, random_state=seed), {}),
}


def shifted(seed: int, slope: float) -> datasets.Synthetic:
    """Scores whose logit is too extreme by a slope: truth = sigmoid(slope · logit(p))."""
    plain = datasets.calibrated(2000, random_state=seed)
    truth = 1.0 / (1.0 + ((1.0 - plain.y_prob) / plain.y_prob) ** slope)
    outcome = (np.random.default_rng([seed, 3]).random(truth.size) < truth).astype(np.int64)
    return datasets.Synthetic(outcome, plain.y_prob, truth, plain.columns, "everywhere", plain.planted, 0.0)


def one(made: datasets.Synthetic, options: dict[str, Any]) -> dict[str, float]:
    """One data set: p-values, and whether the intervals hold the truth."""
    predictions = made.predictions()
    with harness.tests_only():
        result = miscal.by_score(predictions, **options)
    kuiper = result.extra["kuiper_noise"]
    adjusted = result.table["p_adjusted"]
    error, walk = true_values(predictions, made, options)
    return {
        "p": result.p_value,
        "kuiper_p": kuiper["p_value"],
        "cell_p": float(np.nanmin(adjusted)) if np.isfinite(adjusted).any() else np.nan,
        "covers": _inside(error, result.interval),
        "kuiper_covers": _inside(walk, kuiper["interval"]),
        "value": result.value,
        "floor": result.noise_floor,
    }


def true_values(predictions: Any, made: datasets.Synthetic, options: dict[str, Any]) -> tuple[float, float]:
    """The error and Kuiper's range with the outcomes replaced by their probabilities: 0 where calibrated."""
    if made.where == "nowhere":
        return 0.0, 0.0
    compared = replace(select_target(predictions, "auto"), observed=np.asarray(made.truth, dtype=np.float64))
    bins = score_bins(compared, 15, options.get("strategy", "quantile"))
    return tally_error(tally(compared, bins), options.get("norm", "l1")), kuiper_statistic(compared)


def _inside(value: float, interval: Any) -> bool:
    low, high = interval
    return bool(low - 1e-12 <= value <= high + 1e-12) if np.isfinite(low) else True


def summary(kind: str, answers: list[dict[str, float]]) -> dict[str, Any]:
    """One row of the table."""
    columns = {name: [answer[name] for answer in answers] for name in answers[0]}
    error, kuiper = harness.alarms(columns["p"], LEVEL), harness.alarms(columns["kuiper_p"], LEVEL)
    cells = harness.alarms(columns["cell_p"], LEVEL)
    row = {
        "data": kind,
        "sets": len(answers),
        "error": error["alarms"],
        "kuiper": kuiper["alarms"],
        "cells": cells["alarms"],
        "limit": error["limit"],
        "unjudged": len(answers) - min(error["judged"], kuiper["judged"]),
        "covered": int(np.sum(columns["covers"])),
        "kuiper_covered": int(np.sum(columns["kuiper_covers"])),
        "least": harness.least_hits(len(answers), 1.0 - LEVEL),
        "mean_value": float(np.mean(columns["value"])),
        "mean_floor": float(np.mean(columns["floor"])),
    }
    row["kept"] = (
        max(row["error"], row["kuiper"], row["cells"]) <= row["limit"]
        and min(row["covered"], row["kuiper_covered"]) >= row["least"]
    )
    return row


def calibrated_rows(sets: int, kinds: Any = KINDS) -> list[dict[str, Any]]:
    """False alarms of every kind of calibrated data."""
    rows = []
    for kind in kinds:
        make, options = KINDS[kind]
        rows.append(summary(kind, [one(make(seed), options) for seed in harness.progress(range(sets), kind)]))
    return rows


def planted_rows(sets: int) -> list[dict[str, Any]]:
    """Alarms and coverage on miscalibrated data: power in place of false alarms."""
    rows = []
    for slope in (1.1, 1.2, 1.4, 2.0):
        seeds = harness.progress(range(sets), f"slope {slope}")
        rows.append(summary(f"slope {slope:g}", [one(shifted(seed, slope), {}) for seed in seeds]))
        del rows[-1]["kept"]
    return rows


HEADINGS = {
    "data": "data", "error": "error alarms", "kuiper": "Kuiper alarms", "cells": "any cell alarms",
    "limit": "at most", "unjudged": "not judged", "covered": "interval covers", "kuiper_covered": "Kuiper's covers",
    "least": "at least", "mean_value": "mean error", "mean_floor": "mean noise floor", "kept": "kept",
}  # fmt: skip


def study(quick: bool = False, sets: int = SETS) -> tuple[dict[str, Any], str]:
    """Everything, with 1,000 data sets of each kind (quick: 5)."""
    sets = 5 if quick else sets
    calibrated, planted = calibrated_rows(sets), planted_rows(sets // 5)
    power = {name: text for name, text in HEADINGS.items() if name not in ("limit", "kept")}
    text = "\n\n".join(
        [
            f"# False alarms and power of `by_score`\n\nAlarms at 5% in {sets} calibrated data sets of each kind.",
            harness.markdown(calibrated, HEADINGS),
            f"Miscalibrated by a slope of the logit (2,000 rows): alarms in {sets // 5} data sets are power.",
            harness.markdown(planted, power),
        ]
    )
    return {"level": LEVEL, "calibrated": calibrated, "planted": planted}, text


if __name__ == "__main__":
    harness.main("false_alarms_score", study)
