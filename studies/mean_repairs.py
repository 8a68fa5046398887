"""Does `choose` leave calibrated means alone, and does a repair of wrong ones hold on rows it has not seen?

    python -m studies.mean_repairs [--quick] [--only count | real]

Counts are negative binomial (a gamma factor of mean 1 and shape 2 on each rate) with exposures between .05 and 1;
amounts are lognormal with log standard deviation 1. 10,000 rows, two fields, two numbers; data set k is made from seed
k. Nothing: the means are right. Region: one of eight levels happens 1.6 times as often (costs 1.6 times as much) as
predicted. Age: below 30, 1.5 times. Spread: exp(.4) m^1.4 where m is predicted. Repairs of wrong means are judged on
30,000 fresh rows: how often the loss (Poisson's deviance of counts, squared error of amounts) is lower than that of the
means as they are, and which share of what the truth itself would save is saved.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from miscal.recalibrate import Recalibrator, choose
from miscal.recalibrate.outcome_families import FAMILIES
from studies import harness

NAME = "mean_repairs"
ROWS, FRESH = 10_000, 30_000
WORDS = {"count": "counts with exposure", "real": "amounts"}
ERRORS = ("nothing", "region", "age", "spread")
Drawn = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], np.ndarray | None, np.ndarray]


def drawn(response: str, wrong: str, rows: int, seed: int) -> Drawn:
    """Predictions, outcomes, columns, exposures (of counts) and the true means."""
    rng = np.random.default_rng([20, seed])
    columns = {
        "region": rng.choice(list("abcdefgh"), rows),
        "kind": rng.choice(["x", "y", "z"], rows, p=[0.7, 0.2, 0.1]),
        "age": rng.integers(18, 90, rows).astype(float),
        "value": rng.normal(size=rows),
    }
    predicted = rng.gamma(2.0, 0.1, rows)
    factor = {
        "nothing": np.ones(rows),
        "region": np.where(columns["region"] == "c", 1.6, 1.0),
        "age": np.where(columns["age"] < 30, 1.5, 1.0),
        "spread": np.exp(0.4) * predicted**0.4,
    }[wrong]
    truth = predicted * factor
    if response == "real":
        return 1000 * predicted, 1000 * truth * rng.lognormal(-0.5, 1.0, rows), columns, None, 1000 * truth
    exposure = rng.uniform(0.05, 1.0, rows)
    return predicted, rng.poisson(truth * exposure * rng.gamma(2.0, 0.5, rows)), columns, exposure, truth


def chosen(response: str, wrong: str, seed: int) -> Recalibrator:
    """What `choose` takes."""
    predicted, outcome, columns, exposure, _ = drawn(response, wrong, ROWS, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return choose(predicted, outcome, columns, response=response, exposure=exposure)


def saved(response: str, wrong: str, seed: int) -> tuple[str, float, float]:
    """What was taken, what it saves a row on fresh rows, and what the truth would."""
    made = chosen(response, wrong, seed)
    predicted, outcome, columns, exposure, truth = drawn(response, wrong, FRESH, 10**6 + seed)
    weight = np.ones(FRESH) if exposure is None else exposure
    family, rate = FAMILIES[response], outcome / weight
    losses = [
        float(np.average(family.losses(family.link(mean), rate), weights=weight))
        for mean in (predicted, made.predict(predicted, columns), truth)
    ]
    return made.name, losses[0] - losses[1], losses[0] - losses[2]


def row(response: str, wrong: str, sets: int) -> dict[str, Any]:
    """One line of the table."""
    what = WORDS[response]
    title = f"{what}, {wrong}"
    if wrong == "nothing":
        taken = [chosen(response, wrong, seed).name for seed in harness.progress(range(sets), title)]
        alarms = sum(name != "Identity" for name in taken)
        return {"outcome": what, "wrong": "nothing", "sets": sets, "touched": alarms,
                "limit": harness.alarm_limit(sets), "taken": _counted(taken)}  # fmt: skip
    found = [saved(response, wrong, seed) for seed in harness.progress(range(sets), title)]
    gains, most = np.array([gain for _, gain, _ in found]), np.array([best for _, _, best in found])
    return {"outcome": what, "wrong": wrong, "sets": sets, "touched": sum(name != "Identity" for name, _, _ in found),
            "better": int((gains > 0).sum()), "worse": int((gains < 0).sum()), "share": float(gains.sum() / most.sum()),
            "taken": _counted([name for name, _, _ in found])}  # fmt: skip


def _counted(names: list[str]) -> dict[str, int]:
    return {name: names.count(name) for name in sorted(set(names), key=names.count, reverse=True)}


def study(*, quick: bool = False) -> tuple[Mapping[str, Any], str]:
    """All lines, or with `--only count` (or real) those, beside the others of the last time."""
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    kept = harness.RESULTS / f"{NAME}.json"
    rows = []
    for response, kinds in (("count", ERRORS), ("real", ERRORS[:2] if quick else ERRORS)):
        if only and response != only:
            known = json.loads(kept.read_text(encoding="utf-8"))["rows"] if kept.exists() else []
            rows += [each for each in known if each["outcome"] == WORDS[response]]
            continue
        sizes = {wrong: 1 if quick else 100 if wrong == "nothing" else 25 for wrong in kinds}
        rows += [row(response, wrong, sets) for wrong, sets in sizes.items()]
    words = {
        "outcome": "outcome", "wrong": "what is wrong", "sets": "data sets", "touched": "repaired", "limit": "at most",
        "better": "better on fresh rows", "worse": "worse", "share": "share of what the truth would save",
    }  # fmt: skip
    return {"rows": rows}, harness.markdown(rows, words)


if __name__ == "__main__":
    harness.main(NAME, study)
