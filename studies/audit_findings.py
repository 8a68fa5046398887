"""Does an audit find what was planted, first, and nothing where there is nothing?

Four questions, each on many seeds: a planted error of so many standard errors in one level, range, pair, subpopulation
or region: is the first finding it? Calibrated data: how many audits find anything? A score that is wrong everywhere:
is it one general finding?

    python studies/audit_findings.py [--quick] [--only WORD]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import miscal
from miscal.datasets import calibrated, distorted, planted
from miscal.report.audit import Audit

PLACES = ("field", "variable", "pair", "subpopulation", "neighbourhood")
OVERLAP = 0.5
RESULTS = Path(__file__).parent / "results"


def gap_of(place: str, rows: int, sigma: float, seed: int) -> float:
    """The gap that makes the planted place `sigma` standard errors off, for these rows."""
    data = planted(rows, place=place, gap=0.0, random_state=seed)
    p = data.y_prob[data.planted]
    return sigma * float(np.sqrt(np.sum(p * (1 - p)))) / p.size


def members(audit: Audit, place: int) -> np.ndarray:
    """Rows of a finding."""
    return audit.rows_of(audit.findings[place])


def overlap(one: np.ndarray, two: np.ndarray) -> float:
    """Rows in both over rows in either."""
    return float((one & two).sum() / max((one | two).sum(), 1))


def planted_first(place: str, rows: int, sigma: float, seed: int, balanced: bool) -> dict[str, Any]:
    """Audit one table with a planted error."""
    gap = gap_of(place, rows, sigma, seed)
    sign = -1.0 if seed % 2 else 1.0
    data = planted(rows, place=place, gap=sign * gap, balanced=balanced, random_state=seed)
    effort = "deep" if place == "neighbourhood" else "normal"
    predictions = data.predictions()
    found = miscal.audit(predictions, effort=effort, random_state=seed)
    real = [finding for finding in found.findings if finding.real]
    first = real[0] if real else None
    shared = overlap(found.rows_of(first, predictions), data.planted) if first is not None else 0.0
    heads = [finding for finding in real if not finding.parent]
    right = first is not None and first.kind != "score" and shared >= OVERLAP
    return {
        "seed": seed,
        "first": first.where if first else None,
        "overlap": shared,
        "right": bool(right),
        "heads": len(heads),
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


def run(seeds: int, rows: int, only: str | None) -> dict[str, Any]:
    """All questions."""
    table: dict[str, Any] = {}
    for sigma in (6.0, 8.0):
        for balanced in (False, True):
            for place in PLACES:
                name = f"{place}, {sigma:g} sigma{', total right' if balanced else ''}"
                if only and only not in name:
                    continue
                made = [planted_first(place, rows, sigma, seed, balanced) for seed in range(seeds)]
                table[name] = summary(made)
                print(name, table[name]["right"], "of", seeds, flush=True)
    for name, question in (("calibrated", calibrated_alarms), ("wrong everywhere", one_general)):
        if only and only not in name:
            continue
        made = [question(rows, 1000 + seed) for seed in range(seeds)]
        table[name] = summary(made)
        print(name, table[name]["right"], "of", seeds, flush=True)
    return table


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
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--seeds", type=int)
    options = parser.parse_args()
    seeds = options.seeds or (20 if options.quick else 100)
    table = run(seeds, options.rows, options.only)
    for name, entry in table.items():
        for item in entry["others"][:8] if options.only else []:
            print(name, item)
    if options.only or options.seeds:
        return
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "audit_findings.json").write_text(
        json.dumps({"seeds": seeds, "rows": options.rows, "table": table}, indent=1)
    )
    lines = [
        "| question | right | of |",
        "|---|---:|---:|",
        *(f"| {n} | {e['right']} | {e['of']} |" for n, e in table.items()),
    ]
    (RESULTS / "audit_findings.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
