"""How often the search over subpopulations alarms on calibrated data, and how often it finds a planted cell.

    python studies/subpopulation_false_alarms.py [--quick] [--replications 1000]

Every data set is calibrated by design (but for the planted ones), so at level .05 about 5 in 100 may alarm. The p-value
that most tools print, that of the worst subpopulation taken by itself, is counted beside ours.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from scipy.stats import binom

from miscal import Conjunctions, Predictions, ResidualLeaves, by_subpopulation
from miscal.inference.brownian import brownian_range_p

RESULTS = Path(__file__).parent / "results"
LEVEL = 0.05


def columns_of(rng, n):
    return {
        "age": rng.integers(18, 90, n),
        "income": rng.lognormal(10, 0.5, n).round(2),
        "tenure": rng.geometric(0.1, n),
        "state": rng.choice(["CA", "NV", "TX", "NY", "WA", "FL", "OH", "ID"], n),
        "product": rng.choice(list("ABCDEFGHIJKL"), n),
        "member": rng.random(n) < 0.5,
    }


def plain(rng, n=2000):
    score = rng.beta(0.8, 1.6, n)
    return Predictions(rng.random(n) < score, score, columns=columns_of(rng, n))


def ties(rng, n=2000):
    score = np.clip(np.round(rng.beta(0.8, 1.6, n), 1), 0.05, 0.95)
    outcome = rng.random(n) < score
    order = np.argsort(outcome, kind="stable")  # a table sorted by outcome: the order of tied rows must not matter
    return Predictions(outcome, score, columns=columns_of(rng, n)).take(order)


def weights(draw, n=2000):
    def make(rng):
        score = rng.beta(0.8, 1.6, n)
        return Predictions(rng.random(n) < score, score, weight=draw(rng, n), columns=columns_of(rng, n))

    return make


def rare(rate, n):
    def make(rng):
        score = np.clip(rng.beta(0.5, 0.5 / rate, n), 1e-7, 1)
        return Predictions(rng.random(n) < score, score, columns=columns_of(rng, n))

    return make


def clusters(rng, n=2000):
    """Five rows a patient, whose outcomes go together; columns belong to the patient."""
    patients = n // 5
    score = np.repeat(rng.beta(0.8, 1.6, patients), 5)
    shared = np.repeat(rng.random(patients), 5)
    own = rng.random(n)
    together = np.repeat(rng.random(patients) < 0.5, 5)  # half of the patients have one outcome throughout
    outcome = np.where(together, shared, own) < score
    columns = {name: np.repeat(values, 5) for name, values in columns_of(rng, patients).items()}
    return Predictions(outcome, score, cluster=np.repeat(np.arange(patients), 5), columns=columns)


SCENARIOS = {
    "plain": (plain, {}, 1.0),
    "scores rounded to .1, rows sorted by outcome": (ties, {}, 1.0),
    "weights from .2 to 2": (weights(lambda rng, n: rng.uniform(0.2, 2.0, n)), {}, 1.0),
    "lognormal weights, 4,000 rows": (weights(lambda rng, n: rng.lognormal(0, 0.7, n), 4000), {}, 0.3),
    "rate .01, 10,000 rows": (rare(0.01, 10_000), {}, 0.5),
    "rate .001, 40,000 rows": (rare(0.001, 40_000), {}, 0.3),
    "five rows a patient": (clusters, {}, 1.0),
    "all pairs of levels and ranges": (plain, {"subpopulations": Conjunctions(2, 4)}, 1.0),
    "leaves found on the other half": (plain, {"subpopulations": ResidualLeaves()}, 1.0),
    "20,000 rows, Bonferroni": (lambda rng: plain(rng, 20_000), {"simulations": 20_000}, 0.5),
}


def false_alarms(name, replications):
    make, options, share = SCENARIOS[name]
    count = max(20, int(replications * share))
    alarms, alone, tested, started = 0, 0, [], time.process_time()
    for seed in range(count):
        result = by_subpopulation(
            make(np.random.default_rng([seed, 1])), random_state=seed, **{"simulations": 199, **options}
        )
        alarms += result.p_value <= LEVEL
        alone += brownian_range_p(result.extra["worst"][0]["deviations"]) <= LEVEL
        tested.append(result.settings["tested"])
    return {
        "data": name,
        "data_sets": count,
        "subpopulations": int(np.mean(tested)),
        "alarms": int(alarms),
        "limit": int(binom.isf(0.001, count, LEVEL)),
        "alarms_of_the_worst_by_itself": int(alone),
        "cpu_s": round(time.process_time() - started, 1),
    }


def planted(rng, sigma, n=5000):
    """A cell (state CA and age below 50, about 5% of rows) off by `sigma` standard deviations of its total."""
    columns = columns_of(rng, n)
    score = rng.beta(0.8, 1.6, n)
    inside = (columns["state"] == "CA") & (columns["age"] < 50)
    spread = score * (1 - score) * inside
    # The shift is proportional to p(1 - p), a shift of the logit, so that probabilities stay in [0, 1].
    shift = sigma * np.sqrt(spread.sum()) * spread / spread.sum()
    truth = np.clip(score + shift, 0, 1)
    return Predictions(rng.random(n) < truth, score, columns=columns), inside


def power(sigma, subpopulations, words, replications):
    found, near, first = 0, 0, 0
    for seed in range(replications):
        p, inside = planted(np.random.default_rng([seed, 2]), sigma)
        result = by_subpopulation(p, simulations=199, subpopulations=subpopulations, random_state=seed)
        worst = result.extra["worst"][0]
        found += result.p_value <= LEVEL
        first += result.p_value <= LEVEL and "CA" in worst["definition"] and worst["gap"] < 0
        near += result.p_value <= LEVEL and worst["rows"] < 4 * inside.sum()
    return {"planted_sigma": sigma, "search": words, "data_sets": replications, "found": int(found),
            "worst_names_the_state": int(first), "worst_is_as_small": int(near)}  # fmt: skip


def markdown(document):
    lines = [
        "| calibrated data | data sets | subpopulations | alarms at .05 | at most | worst by itself |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['data']} | {row['data_sets']} | {row['subpopulations']} | {row['alarms']} | {row['limit']} | "
        f"{row['alarms_of_the_worst_by_itself']} |"
        for row in document["false_alarms"]
    ]
    lines += [
        "",
        "| planted | search | data sets | found | names the planted state | no larger than 4 cells |",
        "|---|---|---|---|---|---|",
    ]
    for row in document["power"]:
        lines.append(
            f"| {row['planted_sigma']} sigma | {row['search']} | {row['data_sets']} | {row['found']} | "
            f"{row['worst_names_the_state']} | {row['worst_is_as_small']} |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--resume", action="store_true", help="keep the rows of the results that are there")
    parser.add_argument("--replications", type=int, default=120)
    options = parser.parse_args()
    count = 20 if options.quick else options.replications
    document = {"level": LEVEL, "false_alarms": [], "power": []}
    kept = RESULTS / "subpopulation_false_alarms.json"
    if options.resume and kept.exists():
        document = json.loads(kept.read_text())
    done = {row["data"] for row in document["false_alarms"]}
    for name in SCENARIOS:
        if name not in done:
            document["false_alarms"].append(false_alarms(name, count))
            report(document["false_alarms"][-1], document, options.quick)
    done = {(row["planted_sigma"], row["search"]) for row in document["power"]}
    for sigma in (4, 6, 8):
        for words, asked in (("1,000 by random paths", 1000), ("pairs of levels and ranges", Conjunctions(2, 4))):
            if (sigma, words) not in done:
                document["power"].append(power(sigma, asked, words, max(20, count // 3)))
                report(document["power"][-1], document, options.quick)


def report(row, document, quick):
    print(row, flush=True)
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        document["false_alarms"].sort(key=lambda r: list(SCENARIOS).index(r["data"]))
        (RESULTS / "subpopulation_false_alarms.json").write_text(json.dumps(document, indent=1) + "\n")
        (RESULTS / "subpopulation_false_alarms.md").write_text(markdown(document))


if __name__ == "__main__":
    main()
