"""Is a place that is too extreme, though right on average, found first and called so? And nothing in calibrated data?

A slope of the logit between .35 and .8 is planted in a level, a range or a pair of the columns of `miscal.datasets`:
above one half the model then predicts too much and below too little. The table has as many rows as make the place's
slope 7 standard errors off (the score test of the logit's slope). It counts if it came out at 6 or more; tables are
drawn until enough count. Right: the first finding is exactly that level, or that pair, or a range of that column that
shares at least half of their joint rows, and its form is "too extreme". Beside it: how many audits of calibrated tables
find anything, and how much of an audit's time the second test takes at a million rows.

    python -m studies.calibration_by_place [--quick]
    python -m studies.calibration_by_place --cost      # measure the time alone again, on a machine at rest
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np

import miscal
from miscal.auditing.search import collect
from miscal.auditing.search.search_context import ScoreGrid
from miscal.auditing.search.segment_tests import NO_SHAPE_TESTS
from miscal.auditing.search.target_search import TargetSearch
from miscal.datasets import calibrated, draw_columns
from studies import harness

SLOPES = (0.35, 0.5, 0.65, 0.8)
PLANTED, SIGMA, OVERLAP = 7.0, 6.0, 0.5
PLACES: dict[str, tuple[str, Callable[[Any], np.ndarray]]] = {
    "level": ("region South", lambda c: c["region"] == "South"),
    "range": ("age 50 to 59", lambda c: (c["age"] >= 50) & (c["age"] < 60)),
    "pair": ("region East and product plus", lambda c: (c["region"] == "East") & (c["product"] == "plus")),
}
SHARE = {"level": 0.16, "range": 10 / 72, "pair": 0.05}


# What an audit that tests places on their average alone has in the place of its tests along the score.
ON_AVERAGE: dict[str, Any] = {
    "score_grid": lambda compared: ScoreGrid(np.array([0.0, 1.0]), np.zeros(compared.rows, np.int16)),
    "grid_shape_tests": lambda _: NO_SHAPE_TESTS,
}


def rows_for(place: str, slope: float) -> int:
    """Rows of the table with which the planted place is expected to be `PLANTED` standard errors off."""
    p = np.random.default_rng(0).beta(2.0, 2.0, 200_000)
    logit = np.log(p / (1 - p))
    lever = p * (1 - p) * logit**2
    truth = 1 / (1 + np.exp(-slope * logit))
    a_row = np.mean((p - truth) * logit) / np.sqrt(np.mean(lever))
    return int((PLANTED / a_row) ** 2 / SHARE[place])


def table(place: str, slope: float, seed: int) -> tuple[miscal.Predictions, np.ndarray, float]:
    """A table with a planted slope, its rows, and how many standard errors the slope came out at."""
    random = np.random.default_rng(seed)
    rows = rows_for(place, slope)
    columns = draw_columns(rows, random)
    p = np.clip(random.beta(2.0, 2.0, rows), 1e-6, 1 - 1e-6)
    logit = np.log(p / (1 - p))
    inside = PLACES[place][1](columns)
    y = (random.random(rows) < np.where(inside, 1 / (1 + np.exp(-slope * logit)), p)).astype(int)
    own, lever = (p - y)[inside], logit[inside]
    z = float(np.sum(own * lever) / np.sqrt(np.sum((p * (1 - p))[inside] * lever**2)))
    return miscal.Predictions(y, p, columns=columns), inside, z


def planted_first(place: str, seed: int) -> dict[str, Any]:
    """Audit one table with a planted slope."""
    slope = SLOPES[seed % len(SLOPES)]
    predictions, inside, z = table(place, slope, seed)
    found = miscal.audit(predictions, random_state=seed).findings
    item = {"seed": seed, "slope": slope, "rows": predictions.rows, "sigma": round(z, 2), "counts": z >= SIGMA}
    if not found:
        return {**item, "first": None, "form": None, "right": False}
    first = found[0]
    own = miscal.auditing.finding_rows.rows_of(first, predictions)
    shared = float((own & inside).sum() / (own | inside).sum())
    exact = first.where == PLACES[place][0] if place != "range" else first.columns == ("age",) and shared >= OVERLAP
    right = bool(exact and first.form == "too extreme")
    return {
        **item,
        "first": first.where,
        "form": first.form,
        "overlap": round(shared, 2),
        "right": right,
        "findings": len(found),
    }


def quiet(rows: int, seed: int) -> dict[str, Any]:
    """Audit one calibrated table."""
    found = miscal.audit(calibrated(rows, random_state=seed).predictions(), random_state=seed).findings
    return {"seed": seed, "found": [f"{one.where}: {one.form}" for one in found], "right": not found}


def cost(rows: int) -> dict[str, float]:
    """Processor seconds of an audit with and without the second test, the better of two each."""
    data = calibrated(rows, random_state=0).predictions()
    without, both = np.inf, np.inf
    for _ in range(2):
        no_shapes = patch.object(TargetSearch, "shape_tests_of", lambda *_: NO_SHAPE_TESTS)
        with patch.multiple(collect, **ON_AVERAGE), no_shapes:
            without = min(without, _seconds(data))
        both = min(both, _seconds(data))
    return {"rows": rows, "without": round(without, 2), "with": round(both, 2), "more": round(both / without - 1, 3)}


def _seconds(data: miscal.Predictions) -> float:
    start = time.process_time()
    miscal.audit(data, random_state=0)
    return time.process_time() - start


def ask(place: str, wanted: int) -> list[dict[str, Any]]:
    """Tables of one kind of place until enough count."""
    made: list[dict[str, Any]] = []
    while sum(item["counts"] for item in made) < wanted:
        made.append(planted_first(place, len(made)))
    return made


def text(results: dict[str, Any]) -> str:
    """What is known so far, as a table."""
    rows = [
        {"planted in": PLACES[place][0], "tables": found["of"], "first, and its form right": found["right"],
         "below 6 sigma": f"{found['below_6_right']} of {found['below_6']}"}
        for place, found in results["tables"].items()
    ]  # fmt: skip
    made = ["# Places that are too extreme", "Slopes of the logit of .35 to .8 in one place, at 6 sigma and more."]
    made.append(harness.markdown(rows))
    if "calibrated" in results:
        quiet, cost = results["calibrated"], results["cost"]
        made.append(
            f"Of {quiet['of']} audits of calibrated tables {quiet['found']} found anything (at most "
            f"{harness.alarm_limit(quiet['of'])}). An audit of {cost['rows']:,} rows takes {cost['with']:.2f} CPU "
            f"seconds with the walks along the score and {cost['without']:.2f} without them."
        )
    return "\n\n".join(made)


def save(results: dict[str, Any], quick: bool) -> None:
    """Write what is known so far."""
    if not quick and results["tables"]:
        harness.write("calibration_by_place", results, text(results))


def main() -> None:
    """Run and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one table of each kind; nothing is written")
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--cost", action="store_true", help="only the time, written beside the other results")
    options = parser.parse_args()
    if options.cost:
        known = json.loads((harness.RESULTS / "calibration_by_place.json").read_text(encoding="utf-8"))
        save({**known, "cost": cost(1_000_000)}, quick=False)
        return
    quick, wanted = options.quick, 1 if options.quick else options.tables
    results: dict[str, Any] = {"cost": cost(20_000 if quick else 1_000_000), "tables": {}}
    print("cost", results["cost"], flush=True)
    for place in PLACES:
        made = ask(place, wanted)
        judged = [item for item in made if item["counts"]]
        below = [item for item in made if not item["counts"]]
        results["tables"][place] = {
            "right": sum(item["right"] for item in judged), "of": len(judged),
            "below_6_right": sum(item["right"] for item in below), "below_6": len(below),
            "missed": [item for item in judged if not item["right"]],
        }  # fmt: skip
        print(place, results["tables"][place], flush=True)
        save(results, quick)
    alarms = [quiet(6_000, 1000 + seed) for seed in range(wanted)]
    results["calibrated"] = {"found": sum(not item["right"] for item in alarms), "of": wanted,
                             "what": [item for item in alarms if not item["right"]]}  # fmt: skip
    print("calibrated", results["calibrated"], flush=True)
    save(results, quick)


if __name__ == "__main__":
    main()
