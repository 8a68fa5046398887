"""How often `choose` touches probabilities that are right as they are.

    python -m studies.choose_false_alarms [--quick] [--sets 200] [--first 0]

Every data set is calibrated by design, with columns that say nothing: 1,000 rows, four numeric columns and a field of
eight levels. Data set number k is made from seed k. `--first` goes on where an earlier call stopped.
"""

from __future__ import annotations

import argparse
import json
import warnings

import numpy as np

from miscal.recalibrate import choose
from studies import harness

NAME = "choose_false_alarms"
ROWS = 1_000


def touched(seed: int) -> str:
    """What `choose` takes on calibrated data."""
    rng = np.random.default_rng([11, seed])
    p = rng.beta(2, 3, ROWS)
    columns = {f"x{i}": rng.normal(size=ROWS) for i in range(4)} | {"group": rng.choice(list("abcdefgh"), ROWS)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return choose(p, rng.random(ROWS) < p, columns).name


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="one data set; nothing is written")
    options = parser.parse_args()
    if options.quick:
        print(touched(0))
        return
    taken = [touched(seed) for seed in range(options.first, options.first + options.sets)]
    kept = harness.RESULTS / f"{NAME}.json"
    before = json.loads(kept.read_text())["taken"] if options.first and kept.exists() else []
    every = before + taken
    alarms = sum(name != "Identity" for name in every)
    row = {"data_sets": len(every), "touched": alarms, "limit": harness.alarm_limit(len(every), 0.05)}
    words = {"data_sets": "calibrated data sets", "touched": "touched", "limit": "at most"}
    harness.write(NAME, {**row, "taken": every}, harness.markdown([row], words))
    print(row)


if __name__ == "__main__":
    main()
