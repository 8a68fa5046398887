"""False alarms by field: calibrated data with very many rare levels, and with few.

    python -m studies.field_false_alarms [--quick]

Part 1: 1e5 levels of 50 rows at a rate of about 0.5%, exact tests and Holm's adjustment, against the normal z that is
the usual alternative. Part 2: `by_field` as a whole on smaller tables with levels of very different size: levels called
real, the p-value of the error, levels called different from the others, and the p-value of differences.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

import miscal
from miscal.aggregate.in_memory import tally
from miscal.aggregate.tally import Tally
from miscal.cells.partitions import LevelPooling, Numbered
from miscal.data.target import TargetData
from miscal.stats.binomial import cell_p_values
from miscal.stats.cell_sums import CellRows, CellSums, CellTestSettings
from miscal.stats.multiplicity import holm

RESULTS = Path(__file__).parent / "results"


def rare_levels(seed, levels, rows):
    """One calibrated data set of equal levels: whether any level is real by the exact test and by the normal z."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 99.5, levels * rows)
    y = (rng.random(p.size) < p).astype(np.uint8)
    codes = np.repeat(np.arange(levels), rows)
    sums: Tally = tally(TargetData(p, y), LevelPooling(codes, Numbered(levels)))
    sorted_rows = CellRows(p, y.astype(np.float64), offsets=np.arange(0, p.size + 1, rows))
    exact = holm(cell_p_values(CellSums.of(sums), CellTestSettings(rows=sorted_rows)).p_value)
    z = np.abs(sums.events_off) / np.sqrt(sums.variance)
    normal = holm(np.minimum(1.0, 2 * ndtr(-z)))
    return bool(exact.min() < 0.05), bool(normal.min() < 0.05)


def whole_result(seed, levels, rows):
    """One calibrated table of levels of very different size through `by_field`."""
    rng = np.random.default_rng(seed)
    field = np.minimum((levels * rng.random(rows) ** 3).astype(int), levels - 1)
    p = rng.beta(0.4, 8.0, rows)
    y = rng.random(rows) < p
    y[:1] = True
    result = miscal.by_field(miscal.Predictions(y, p, columns={"f": field}), "f", random_state=seed)
    table, apart = result.table, result.extra["differences"]
    return (
        bool(np.nanmin(table["p_adjusted"]) < 0.05),
        bool(result.p_value < 0.05),
        bool(np.nanmin(table["difference_adjusted"]) < 0.05),
        bool(apart["p_value"] < 0.05),
    )


def limit(sets, level=0.05):
    """Most alarms that a test at the level shows with probability 99%."""
    return int(binom.ppf(0.99, sets, level))


def study(quick=False):
    levels, rows, sets, tables = (2_000, 50, 2, 3) if quick else (100_000, 50, 60, 1000)
    rare = [rare_levels(seed, levels, rows) for seed in range(sets)]
    whole = [whole_result(seed, 400, 4000) for seed in range(tables)]
    exact, normal = (int(sum(column)) for column in zip(*rare, strict=True))
    names = ("a level is real", "the error's p-value", "a level differs from the rest", "the differences' p-value")
    return {
        "rare": {
            "levels": levels,
            "rows_a_level": rows,
            "sets": sets,
            "exact": exact,
            "normal": normal,
            "limit": limit(sets),
        },
        "whole": {
            "levels": 400,
            "rows": 4000,
            "sets": tables,
            "limit": limit(tables),
            "alarms": dict(zip(names, (int(sum(column)) for column in zip(*whole, strict=True)), strict=True)),
        },
    }


def markdown(found):
    rare, whole = found["rare"], found["whole"]
    many = f"{rare['sets']} sets of {rare['levels']:,} levels x {rare['rows_a_level']} rows at 0.5%"
    few = f"{whole['sets']} sets of {whole['levels']} levels, {whole['rows']:,} rows"
    rows = [
        (many, "any level real, exact test and Holm", rare["exact"], rare["limit"]),
        (many, "any level real, normal z and Holm (the usual way)", rare["normal"], rare["limit"]),
        *((few, name, alarms, whole["limit"]) for name, alarms in whole["alarms"].items()),
    ]
    lines = ["| Calibrated data | Asked | Alarms | At most (99%) |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    found = study(quick)
    print(markdown(found))
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "field_false_alarms.json").write_text(json.dumps(found, indent=1) + "\n")
        (RESULTS / "field_false_alarms.md").write_text(markdown(found))
