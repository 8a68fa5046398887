"""Weights that know the outcome: are calibrated samples left in peace, and are planted errors still seen?

    python -m studies.sampled_by_outcome [--quick]

A calibrated table of which one event in ten (or one non-event in ten) was kept, weighted back. The weights are then
made uneven: a stratum factor of 1.3, 5% of jitter, or lognormal. Alarms at 5% of by_score, Kuiper's walk, by_variable,
by_field, by_variation and by_subpopulation (100 subpopulations, 199 simulations), and how often the dependence was
recognised. "planted": the true log-odds are 0.6 above the predicted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import miscal
from studies import harness

SETS = 1000
UNEVEN = ("as sampled", "stratum of 1.3", "jitter of 5%", "lognormal")
KEPT = {"events": 1, "non-events": 0, "all": None}


def sample(seed: int, kept: str, uneven: str, shift: float = 0.0, rows: int = 4000) -> miscal.Predictions:
    """A weighted sample of a table; with shift 0 the predictions are calibrated in it."""
    rng = np.random.default_rng([seed, 16])
    p = rng.beta(2.0, 5.0, rows)
    y = rng.random(rows) < 1.0 / (1.0 + np.exp(-shift) * (1.0 - p) / p)
    age, region = rng.uniform(20.0, 80.0, rows), rng.integers(0, 8, rows)
    rarer = np.zeros(rows, bool) if KEPT[kept] is None else y == KEPT[kept]
    in_sample = ~rarer | (rng.random(rows) < 0.1)
    weight = np.where(rarer, 10.0, 1.0)
    factor = {
        "as sampled": 1.0,
        "stratum of 1.3": np.where(region < 4, 1.3, 1.0),
        "jitter of 5%": rng.uniform(0.95, 1.05, rows),
        "lognormal": np.exp(0.5 * rng.normal(size=rows)),
    }[uneven]
    columns = {"age": age[in_sample], "region": region[in_sample].astype(str)}
    return miscal.Predictions(
        y[in_sample].astype(int), p[in_sample], columns=columns, weight=(weight * factor)[in_sample]
    )


def one(seed: int, kept: str, uneven: str, shift: float) -> dict[str, Any]:
    """P-values of one sample, and whether its weights were recognised."""
    predictions = sample(seed, kept, uneven, shift)
    with harness.tests_only():
        score = miscal.by_score(predictions, random_state=seed)
        variable = miscal.by_variable(predictions, "age", curve=False, random_state=seed)
        field = miscal.by_field(predictions, "region", random_state=seed)
        variation = miscal.by_variation(predictions, random_state=seed)
        many = miscal.by_subpopulation(predictions, subpopulations=100, simulations=199, random_state=seed)
    return {
        "by_score": score.p_value,
        "kuiper": score.extra["kuiper_noise"]["p_value"],
        "by_variable": variable.p_value,
        "by_field": field.p_value,
        "by_variation": variation.p_value,
        "by_subpopulation": many.p_value,
        "recognised": "depend on the outcome" in score.method,
    }


TESTS = ("by_score", "kuiper", "by_variable", "by_field", "by_variation", "by_subpopulation")


def row(kept: str, uneven: str, sets: int, shift: float = 0.0) -> dict[str, Any]:
    """Counts of one design."""
    title = f"{kept}, {uneven}, shift {shift:g}"
    found = [one(seed, kept, uneven, shift) for seed in harness.progress(range(sets), title)]
    about = {"one in ten kept of": kept, "weights": uneven}
    return harness.counted(found, TESTS, **about, recognised=sum(each["recognised"] for each in found))


def study(quick: bool = False, sets: int = SETS) -> tuple[dict[str, Any], str]:
    """All designs; power on a fifth of the data sets."""
    sets, several = (1, 1) if quick else (sets, max(sets // 5, 8))
    designs = [(kept, uneven) for kept in KEPT for uneven in UNEVEN if (kept, uneven) != ("all", "as sampled")]
    calibrated = [row(*design, sets) for design in designs]
    planted = [row(*design, several, 0.6) for design in designs]
    about = ("one in ten kept of", "weights", "recognised")
    return harness.size_and_power("Weights that know the outcome", calibrated, planted, about)


if __name__ == "__main__":
    harness.main("sampled_by_outcome", study)
