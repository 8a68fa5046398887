"""Does an audit find what was planted, first, and nothing where there is nothing?

Each question on many seeds. A planted error in one level, range, pair, subpopulation or region, which came out at 6
standard errors or more (planted at 7, so that it is between 6 and about 9): is the first finding it? Calibrated data:
how many audits find anything? A score that is wrong everywhere: is it one general finding?

    python studies/audit_findings.py [--quick] [--only WORD]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import miscal
from miscal.datasets import calibrated, distorted, planted
from miscal.datasets.records import Synthetic

PLACES = ("field", "variable", "pair", "subpopulation", "neighbourhood")
OVERLAP = 0.5  # rows in both over rows in either, for a finding to be the planted place
SIGMA = 6.0
RESULTS = Path(__file__).parent / "results"


def gap_of(place: str, rows: int, sigma: float, seed: int) -> float:
    """The gap that makes the planted place `sigma` standard errors off, for these rows."""
    data = planted(rows, place=place, gap=0.0, random_state=seed)
    p = data.y_prob[data.planted]
    return sigma * float(np.sqrt(np.sum(p * (1 - p)))) / p.size


def overlap(one: np.ndarray, two: np.ndarray) -> float:
    """Rows in both over rows in either."""
    return float((one & two).sum() / max((one | two).sum(), 1))


def drawn(place: str, rows: int, sigma: float, seed: int, balanced: bool) -> tuple[Synthetic, float]:
    """A table with a planted error, and how many standard errors it came out at."""
    sign = -1.0 if seed % 2 else 1.0
    gap = sign * gap_of(place, rows, sigma, seed)
    data = planted(rows, place=place, gap=gap, balanced=balanced, random_state=seed)
    p, y = data.y_prob[data.planted], data.y_true[data.planted]
    return data, float(sign * np.sum(p - y) / np.sqrt(np.sum(p * (1 - p))))


def planted_first(place: str, rows: int, sigma: float, seed: int, balanced: bool) -> dict[str, Any]:
    """Audit one table with a planted error that came out at `sigma` or more; seeds that fell short are passed over."""
    data, came_out = drawn(place, rows, sigma + 1.0, seed, balanced)
    while came_out < sigma:
        seed += 1000
        data, came_out = drawn(place, rows, sigma + 1.0, seed, balanced)
    predictions = data.predictions()
    found = miscal.audit(predictions, effort="deep" if place == "neighbourhood" else "normal", random_state=seed)
    real = [finding for finding in found.findings if finding.real]
    first = real[0] if real else None
    shared = overlap(found.rows_of(first, predictions), data.planted) if first is not None else 0.0
    return {
        "seed": seed,
        "sigma": round(came_out, 2),
        "first": first.where if first else None,
        "overlap": round(shared, 2),
        "right": bool(first is not None and first.kind != "score" and shared >= OVERLAP),
        "heads": sum(not finding.parent for finding in real),
    }


def calibrated_alarms(rows: int, seed: int) -> dict[str, Any]:
    """Audit one calibrated table."""
    data = calibrated(rows, random_state=seed)
    found = miscal.audit(data.predictions(), random_state=seed)
    real = [finding.where for finding in found.findings if finding.real]
    return {"seed": seed, "real": real[:3], "right": not real}


def one_general(rows: int, seed: int) -> dict[str, Any]:
    """Audit one table whose score is wrong everywhere."""
    data = distorted(rows, slope=0.7, intercept=-0.3, random_state=seed)
    found = miscal.audit(data.predictions(), random_state=seed)
    heads = [finding for finding in found.findings if finding.real and not finding.parent]
    right = len(heads) == 1 and heads[0].kind == "score"
    return {"seed": seed, "heads": [finding.where for finding in heads][:3], "right": right}


def questions(seeds: int, rows: int) -> dict[str, Callable[[], list[dict[str, Any]]]]:
    """What is asked, the cheap questions first: a deep audit simulates, and gets a quarter of the seeds."""
    made: dict[str, Callable[[], list[dict[str, Any]]]] = {}
    half, quarter = max(1, seeds // 2), max(1, seeds // 4)

    def ask(place: str, number: int, balanced: bool) -> Callable[[], list[dict[str, Any]]]:
        return lambda: [planted_first(place, rows, SIGMA, seed, balanced) for seed in range(number)]

    for place in PLACES[:-1]:
        made[place] = ask(place, seeds, False)
    made["calibrated"] = lambda: [calibrated_alarms(rows, 1000 + seed) for seed in range(seeds)]
    made["wrong everywhere"] = lambda: [one_general(rows, 1000 + seed) for seed in range(seeds)]
    made[PLACES[-1]] = ask(PLACES[-1], quarter, False)
    for place in PLACES[:-1]:
        made[f"{place}, total right"] = ask(place, half, True)
    return made


def run(seeds: int, rows: int, only: str | None, write: bool) -> dict[str, Any]:
    """Ask all questions, and write what is known after each."""
    table: dict[str, Any] = {}
    for name, question in questions(seeds, rows).items():
        if only and only != name:
            continue
        table[name] = summary(question())
        print(name, table[name]["right"], "of", table[name]["of"], flush=True)
        if write:
            save(table, rows)
    return table


def save(table: dict[str, Any], rows: int) -> None:
    """Write the results as JSON and as a table."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "audit_findings.json").write_text(json.dumps({"rows": rows, "table": table}, indent=1) + "\n")
    lines = ["| question | right | of |", "|---|---:|---:|"]
    lines += [f"| {name} | {entry['right']} | {entry['of']} |" for name, entry in table.items()]
    (RESULTS / "audit_findings.md").write_text("\n".join(lines) + "\n")


def summary(made: list[dict[str, Any]]) -> dict[str, Any]:
    """How many were right, and what the others were."""
    return {
        "right": sum(item["right"] for item in made),
        "of": len(made),
        "others": [item for item in made if not item["right"]],
    }


def main() -> None:
    """Run and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20 seeds in place of 100")
    parser.add_argument("--only", help="questions whose name has this word")
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--seeds", type=int)
    options = parser.parse_args()
    seeds = options.seeds or (20 if options.quick else 100)
    table = run(seeds, options.rows, options.only, write=not (options.only or options.seeds))
    for name, entry in table.items():
        for item in entry["others"][:8] if options.only else []:
            print(name, item)


if __name__ == "__main__":
    main()
