"""How often does `by_neighbourhood` cry wolf on calibrated data, and does it find a planted neighbourhood?

    python -m studies.local_false_alarms [--quick]

Each kind of calibrated data is drawn 1,000 times: at 5% the test may alarm at most 73 times (99.9% point of the
binomial). Power: a neighbourhood with a gap is planted, and the table's first line must lie in it.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import miscal
from miscal import datasets
from studies import harness

SETS = 1000
CHUNK = 50
LEVEL = 0.05


def features(rows: int, seed: int, d: int = 2) -> dict[str, np.ndarray]:
    rng = np.random.default_rng([seed, 7])
    return {f"x{j + 1}": rng.normal(size=rows) for j in range(d)}


def plain(seed: int, rows: int = 1000) -> miscal.Predictions:
    data = datasets.calibrated(rows, random_state=seed)
    return miscal.Predictions(data.y_true, data.y_prob, columns=features(rows, seed))


def tied(seed: int) -> miscal.Predictions:
    rng = np.random.default_rng(seed)
    p = np.round(rng.uniform(0.05, 0.95, 1000), 1)
    columns = {"x1": np.round(rng.normal(size=1000)), "kind": rng.choice(list("abcd"), 1000)}
    return miscal.Predictions(rng.random(1000) < p, p, columns=columns)


def weighted(seed: int) -> miscal.Predictions:
    data = datasets.calibrated(1000, random_state=seed)
    weight = np.exp(np.random.default_rng([seed, 2]).normal(size=1000))
    return miscal.Predictions(data.y_true, data.y_prob, weight=weight, columns=features(1000, seed))


def rare(seed: int) -> miscal.Predictions:
    data = datasets.calibrated(1500, rate=0.02, random_state=seed)
    return miscal.Predictions(data.y_true, data.y_prob, columns=features(1500, seed))


def clustered(seed: int) -> miscal.Predictions:
    """200 places of 5 rows that share a random effect and nearly share their features."""
    rng = np.random.default_rng(seed)
    place = np.repeat(np.arange(200), 5)
    effect = rng.choice([-0.3, 0.3], 200)[place]
    near = {name: values[place] + 0.05 * rng.normal(size=1000) for name, values in features(200, seed).items()}
    return miscal.Predictions(rng.random(1000) < 0.5 + effect, np.full(1000, 0.5), cluster=place, columns=near)


def classes(seed: int) -> miscal.Predictions:
    data = datasets.calibrated_classes(1000, random_state=seed)
    return miscal.Predictions(data.y_true, data.y_prob, columns=features(1000, seed, 5))


Maker = Callable[[int], miscal.Predictions]
KINDS: dict[str, tuple[str, Maker, dict[str, Any]]] = {
    "plain": ("1,000 rows, two features", plain, {"bandwidth": 0.4, "bins": 5}),
    "narrow": ("4,000 rows, bandwidth .2", lambda seed: plain(seed, 4000), {"bins": 5}),
    "tied": ("scores of one digit, a rounded number and a category", tied, {"bandwidth": 0.4}),
    "weighted": ("lognormal weights", weighted, {"bandwidth": 0.4, "bins": 5}),
    "rare": ("1,500 rows, one event in fifty", rare, {"bandwidth": 1.0}),
    "clustered": ("200 clusters of 5 alike rows", clustered, {"bandwidth": 0.4}),
    "classes": ("three classes, five features, top label", classes, {"bandwidth": 0.4, "bins": 5}),
}


def one(name: str, seed: int) -> list[float]:
    """P-value, value and noise floor of one calibrated data set."""
    _, make, options = KINDS[name]
    found = miscal.by_neighbourhood(make(seed), None, random_state=seed, simulations=199, **options)
    return [found.p_value, found.value, found.noise_floor]


def chunks(name: str, sets: int) -> list[list[float]]:
    """Results of the seeds, in chunks that are kept in the folder MISCAL_STUDY_CACHE where there is one.

    MISCAL_STUDY_PART names the kind that this process makes; of the others it takes what is there.
    """
    folder, part = os.environ.get("MISCAL_STUDY_CACHE"), os.environ.get("MISCAL_STUDY_PART", name)
    found: list[list[float]] = []
    for start in range(0, sets, CHUNK):
        path = None if folder is None else Path(folder) / f"false-alarms-{name}-{start}.json"
        if path is not None and path.exists():
            found += json.loads(path.read_text(encoding="utf-8"))
        elif part == name:
            made = [one(name, seed) for seed in range(start, min(start + CHUNK, sets))]
            found += made
            if path is not None:
                path.write_text(json.dumps(made), encoding="utf-8")
    return found


def calibrated_rows(sets: int) -> list[dict[str, Any]]:
    """Alarms on calibrated data."""
    rows = []
    for name, (words, _, _) in KINDS.items():
        found = np.array(list(harness.progress(chunks(name, sets), name)), dtype=float).reshape(-1, 3)
        if not len(found):
            continue
        p_values = np.where(np.isnan(found[:, 0]), np.nan, found[:, 0])
        middle = {"mean value": float(found[:, 1].mean()), "mean floor": float(found[:, 2].mean())}
        rows.append({"data": words, **harness.alarms(p_values, LEVEL), **middle})
    return rows


def planted_rows(sets: int) -> list[dict[str, Any]]:
    """How often a planted neighbourhood (x1 and x2 above .5, a tenth of the rows) is found, first in the table."""
    rows = []
    for gap in (0.1, 0.2, 0.3):
        real = first = 0
        for seed in harness.progress(range(sets), f"gap {gap}"):
            rng = np.random.default_rng([seed, 9])
            columns = features(3000, seed)
            there = (columns["x1"] > 0.5) & (columns["x2"] > 0.5)
            p = rng.uniform(0.35, 0.65, 3000)
            found = miscal.by_neighbourhood(
                miscal.Predictions(rng.random(3000) < p - gap * there, p, columns=columns), None, bandwidth=0.4,
                bins=5, simulations=199, random_state=seed,
            )  # fmt: skip
            real += found.p_value <= LEVEL
            if found.table.rows:
                first += found.p_value <= LEVEL and "high x1" in str(found.table["label"][0])
        rows.append({"gap": gap, "found": real, "first and named": first, "of": sets})
    return rows


def study(quick: bool = False) -> tuple[dict[str, Any], str]:
    """Everything, with 1,000 data sets of each kind (quick: 1)."""
    warnings.simplefilter("ignore")
    sets, several = (1, 1) if quick else (SETS, max(10, SETS // 25))
    calibrated, planted = calibrated_rows(sets), planted_rows(several)
    text = "\n\n".join(
        [
            "# False alarms and power of `by_neighbourhood`\n\nAlarms at 5% in calibrated data sets of each kind.",
            harness.markdown(calibrated),
            "A planted gap in a tenth of 3,000 rows (x1 and x2 above .5), bandwidth .4:",
            harness.markdown(planted),
        ]
    )
    return {"level": LEVEL, "calibrated": calibrated, "planted": planted}, text


if __name__ == "__main__":
    harness.main("local_false_alarms", study)
