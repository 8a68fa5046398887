"""How often the search over subpopulations alarms on calibrated data, and how often it finds a planted cell.

    python -m studies.subpopulation_false_alarms [--quick] [--seconds 800] [--fresh]

Every data set is calibrated by design (but for the planted ones), so at level .05 about 5 in 100 may alarm. The p-value
that most tools print, that of the worst subpopulation taken by itself, is counted beside ours. Data set number k is
made from seed k, counts are kept after every few data sets, and a run goes on where the last one stopped: it can be
cut into slices of `--seconds`, which change nothing. `--fresh` starts over.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial

import numpy as np

from miscal import Conjunctions, Predictions, by_subpopulation
from miscal.stats.kuiper import brownian_range_p
from studies import harness

NAME = "subpopulation_false_alarms"
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
    "plain": (plain, {}),
    "scores rounded to .1, rows sorted by outcome": (ties, {}),
    "weights from .2 to 2": (weights(lambda rng, n: rng.uniform(0.2, 2.0, n)), {}),
    "lognormal weights, 4,000 rows": (weights(lambda rng, n: rng.lognormal(0, 0.7, n), 4000), {}),
    "the same, sd 1, information floor of 1": (
        weights(lambda rng, n: rng.lognormal(0, 1.0, n), 4000),
        {"min_information": 1.0},
    ),
    "rate .01, 10,000 rows": (rare(0.01, 10_000), {}),
    "rate .001, 40,000 rows": (rare(0.001, 40_000), {}),
    "five rows a patient": (clusters, {}),
    "all pairs of levels and ranges": (plain, {"subpopulations": Conjunctions(2, 4)}),
    "20,000 rows, Bonferroni": (lambda rng: plain(rng, 20_000), {"simulations": 20_000}),
}
SEARCHES = {"1,000 by random paths": 1000, "pairs of levels and ranges": Conjunctions(2, 4)}
SIGMAS = (4, 6, 8)


def false_alarm(name, seed):
    """One calibrated data set."""
    make, options = SCENARIOS[name]
    data = make(np.random.default_rng([seed, 1]))
    result = by_subpopulation(data, random_state=seed, **{"simulations": 199, **options})
    return {
        "alarms": int(result.p_value <= LEVEL),
        "alarms_of_the_worst_by_itself": int(brownian_range_p(result.extra["worst"][0]["deviations"]) <= LEVEL),
        "tested": int(result.settings["tested"]),
        "too_small": int(result.settings["too_small"]),
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


def power(sigma, search, seed):
    """One data set with a planted cell."""
    p, inside = planted(np.random.default_rng([seed, 2]), sigma)
    result = by_subpopulation(p, simulations=199, subpopulations=SEARCHES[search], random_state=seed)
    worst, real = result.extra["worst"][0], result.p_value <= LEVEL
    return {
        "found": int(real),
        "worst_names_the_state": int(real and "CA" in worst["definition"] and worst["gap"] < 0),
        "worst_is_as_small": int(real and worst["rows"] < 4 * inside.sum()),
    }


def no_weight(_rng, _n):
    """All rows count alike."""


WEIGHTS = {
    "none": no_weight,
    "from .2 to 2": lambda rng, n: rng.uniform(0.2, 2.0, n),
    "lognormal, sd .5": lambda rng, n: rng.lognormal(0, 0.5, n),
    "lognormal, sd 1": lambda rng, n: rng.lognormal(0, 1.0, n),
    "lognormal, sd 1.5": lambda rng, n: rng.lognormal(0, 1.5, n),
}


def judged(words, n):
    """How many of all pairs of levels and ranges the information floor leaves, and how small they may be."""
    data = weights(WEIGHTS[words], n)(np.random.default_rng([0, 3]))
    result = by_subpopulation(data, subpopulations=Conjunctions(2, 4), simulations=0)
    return {
        "weights": words,
        "rows": n,
        "of": result.settings["tested"] + result.settings["too_small"] - 1,
        "judged": result.settings["tested"] - 1,
        "fewest_rows_judged": int(result.table["rows"].min()),
        "information_of_all_rows": round(float(result.extra["full"]["information"]), 1),
    }


FALSE_ALARMS = {
    "data": "calibrated data",
    "data_sets": "data sets",
    "subpopulations": "subpopulations",
    "alarms": "alarms at .05",
    "limit": "at most",
    "alarms_of_the_worst_by_itself": "worst by itself",
}
POWER = {
    "planted_sigma": "planted, in sigma",
    "search": "search",
    "data_sets": "data sets",
    "found": "found",
    "worst_names_the_state": "names the planted state",
    "worst_is_as_small": "no larger than 4 cells",
}
FLOOR = {
    "weights": "weights",
    "rows": "rows",
    "information_of_all_rows": "information of all rows",
    "of": "pairs of levels and ranges",
    "judged": "judged",
    "fewest_rows_judged": "fewest rows judged",
}


def _spelled(row):
    few = f"{row['fewest_rows_judged']:,}" if row["judged"] else "-"
    return row | {
        "rows": f"{row['rows']:,}",
        "information_of_all_rows": f"{row['information_of_all_rows']:,.1f}",
        "fewest_rows_judged": few,
    }


def markdown(document):
    alarms = [row | {"subpopulations": round(row["tested"] / row["data_sets"])} for row in document["false_alarms"]]
    parts = [
        harness.markdown(alarms, FALSE_ALARMS),
        "A cell of about 5% of 5,000 rows (one state, below an age) off by so many standard deviations of its total:",
        harness.markdown(document["power"], POWER),
        "Of all pairs of levels and ranges of six columns, how many hold enough information to be judged:",
        harness.markdown([_spelled(row) for row in document["floor"]], FLOOR),
    ]
    return "\n\n".join(parts)


class Slice:
    """Counts that go on from those kept, until the time is up."""

    def __init__(self, seconds, fresh, write):
        kept = harness.RESULTS / f"{NAME}.json"
        self.document = {"level": LEVEL, "false_alarms": [], "power": [], "floor": []}
        if write and not fresh and kept.exists():
            self.document = json.loads(kept.read_text())
        self.end, self.write = time.monotonic() + seconds, write

    def row(self, table, keys):
        """The counts of a kind, new ones where there are none."""
        found = (row for row in self.document[table] if all(row[name] == keys[name] for name in keys))
        return next(found, None) or {**keys, "data_sets": 0, "cpu_s": 0.0}

    def seconds_left(self, task):
        """How long a kind would take to its end."""
        row = self.row(*task[:2])
        return row["cpu_s"] / max(row["data_sets"], 1) * (task[2] - row["data_sets"])

    def go_on(self, table, keys, data_sets, one):
        """Add data sets to a row of counts; each depends on its number alone."""
        row = self.row(table, keys)
        if row["data_sets"] == 0 and time.monotonic() < self.end:
            self.document[table].append(row)
        while row["data_sets"] < data_sets and time.monotonic() < self.end:
            started = time.process_time()
            for seed in range(row["data_sets"], min(row["data_sets"] + 20, data_sets)):
                for name, value in one(seed).items():
                    row[name] = row.get(name, 0) + value
                row["data_sets"] += 1
            row["cpu_s"] = round(row["cpu_s"] + time.process_time() - started, 1)
            if table == "false_alarms":
                row["limit"] = harness.alarm_limit(row["data_sets"], LEVEL)
            self.save()

    def save(self):
        """Keep what there is."""
        self.document["false_alarms"].sort(key=lambda row: list(SCENARIOS).index(row["data"]))
        if self.write:
            harness.write(NAME, self.document, markdown(self.document))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--fresh", action="store_true", help="forget the counts that were kept")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    part = Slice(options.seconds, options.fresh, write=not options.quick)
    part.document["floor"] = [
        judged(words, n) for n in ((2_000,) if options.quick else (2_000, 20_000)) for words in WEIGHTS
    ]
    tasks = [("false_alarms", {"data": name}, 1000, partial(false_alarm, name)) for name in SCENARIOS]
    tasks += [
        ("power", {"planted_sigma": sigma, "search": search}, 500, partial(power, sigma, search))
        for sigma in SIGMAS
        for search in SEARCHES
    ]
    for table, keys, most, one in tasks:  # all kinds a few times, then those first that need the least time
        part.go_on(table, keys, 1 if options.quick else most // 5, one)
    if not options.quick:
        for table, keys, most, one in sorted(tasks, key=part.seconds_left):
            part.go_on(table, keys, most, one)
    part.save()
    print(markdown(part.document))


if __name__ == "__main__":
    main()
