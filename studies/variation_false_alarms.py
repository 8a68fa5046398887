"""How often `by_variation` calls calibrated predictions miscalibrated at the 5% level.

    python -m studies.variation_false_alarms [--quick]

1,000 data sets a setting; the limit is the 99.9% point of a binomial with rate .05: 73. Also one planted error, for the
power. Results go to studies/results/variation_false_alarms.{json,md}.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import miscal

RESULTS = Path(__file__).parent / "results"
LIMIT = 73


def drawn(p, rng):
    return (np.cumsum(p, axis=1)[:, :-1] <= rng.random((len(p), 1))).sum(axis=1)


def dirichlet(alpha, rows):
    def make(rng):
        p = rng.dirichlet(alpha, rows)
        return miscal.Predictions(drawn(p, rng), p)

    return make


def tied(rng):
    """Probabilities in tenths: many ranks tie."""
    p = rng.multinomial(10, rng.dirichlet(np.ones(4), 1000)) / 10
    return miscal.Predictions(drawn(p, rng), p)


def weighted(rng):
    p = rng.dirichlet(np.ones(3), 1000)
    return miscal.Predictions(drawn(p, rng), p, weight=np.exp(rng.standard_normal(1000)))


def clustered(rng):
    """Five rows a cluster whose ranks move together."""
    from scipy.special import ndtr

    p = rng.dirichlet(np.ones(5), 1500)
    cluster = np.arange(1500) // 5
    level = ndtr(np.sqrt(0.5) * rng.standard_normal(300)[cluster] + np.sqrt(0.5) * rng.standard_normal(1500))
    order = np.argsort(-p, axis=1)
    rank = (np.cumsum(np.take_along_axis(p, order, 1), axis=1)[:, :-1] <= level[:, None]).sum(axis=1)
    return miscal.Predictions(order[np.arange(1500), rank], p, cluster=cluster)


def overconfident(rng):
    """A temperature of 1.15 short: the planted error."""
    p = rng.dirichlet(np.ones(5), 2000)
    sharper = p**1.15
    return miscal.Predictions(drawn(p, rng), sharper / sharper.sum(axis=1, keepdims=True))


SETTINGS = {
    "2 classes, flat": (dirichlet([1, 1], 1000), {}),
    "3 classes, flat": (dirichlet([1, 1, 1], 1000), {}),
    "3 classes, flat, bias corrected": (dirichlet([1, 1, 1], 1000), {"bias_correction": True}),
    "3 classes, flat, equal frequency": (dirichlet([1, 1, 1], 1000), {"strategy": "quantile"}),
    "3 classes, flat, qualitative variation": (dirichlet([1, 1, 1], 1000), {"variation": "qualitative_variation"}),
    "10 classes, skewed": (dirichlet([10] + [1] * 9, 1000), {}),
    "30 classes, 150 rows": (dirichlet(np.full(30, 0.3), 150), {}),
    "4 classes, tenths (ties)": (tied, {}),
    "3 classes, lognormal weights": (weighted, {}),
    "5 classes, clusters of 5": (clustered, {}),
    "5 classes, clusters of 5, ignored": (lambda rng: without_cluster(clustered(rng)), {}),
}


def without_cluster(p):
    return miscal.Predictions(p.outcome, p.probability)


def alarms(make, options, repeats, seed=0):
    count = 0
    for repeat in range(repeats):
        predictions = make(np.random.default_rng([seed, repeat]))
        count += miscal.by_variation(predictions, random_state=repeat, **options).p_value <= 0.05
    return count


def markdown(results):
    lines = ["| setting | alarms | of |", "|---|---|---|"]
    lines += [f"| {name} | {row['alarms']} | {row['repeats']} |" for name, row in results.items()]
    return "\n".join([*lines, ""])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    repeats = 2 if quick else 1000
    results = {}
    for name, (make, options) in SETTINGS.items():
        results[name] = {"alarms": int(alarms(make, options, repeats)), "repeats": repeats}
        print(name, results[name], flush=True)
    name = "power: 5 classes, 2,000 rows, predictions sharpened by a power of 1.15"
    results[name] = {"alarms": int(alarms(overconfident, {}, min(repeats, 200))), "repeats": min(repeats, 200)}
    print(markdown(results))
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "variation_false_alarms.json").write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "variation_false_alarms.md").write_text(markdown(results))


if __name__ == "__main__":
    main()
