"""Does an audit find what was planted, first, and nothing where there is nothing?

Each question on 100 tables. A planted error in one level, range, pair, subpopulation or region of two variables: is the
first finding it? Calibrated data: how many audits find anything? A score that is wrong everywhere, with the total wrong
or right: is it one general finding?

The rule of planting: the gap is chosen so that the place is expected to be 7 standard errors off, tables are drawn from
seeds 0, 1, 2, ... and every one is audited. A table counts if its place came out at 6 standard errors or more, and
tables are drawn until 100 count; those that came out below 6 are reported beside them, not passed over. The first
finding is the planted place if it shares at least half of their joint rows. A region is a disc and findings are boxes:
there the finding must be of the same two columns and share half of the smaller of the two, and how often it also shares
half of their joint rows is reported beside it.

    python -m studies.audit_findings [--quick] [--only WORD] [--seconds 800]

A run goes on where the last one stopped: what was audited already is in studies/results.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import miscal
from miscal.datasets import Synthetic, calibrated, planted
from studies.simulated import distorted

PLACES = ("field", "variable", "pair", "subpopulation")
REGION = "neighbourhood"  # a disc in the plane of two numeric columns
REGION_ROWS, QUICK_ROWS = 2_000, 4_000
OVERLAP = 0.5  # rows in both over rows in either, for a finding to be the planted place
SIGMA, PLANTED = 6.0, 7.0
SLOPE = 0.7  # of the logit, where the score is wrong everywhere
RESULTS = Path(__file__).parent / "results"
Item = dict[str, Any]


def gap_of(place: str, rows: int, sigma: float, seed: int) -> float:
    """The gap that makes the planted place `sigma` standard errors off, for these rows."""
    data = planted(rows, place=place, gap=0.0, random_state=seed)
    p = data.y_prob[data.planted]
    return sigma * float(np.sqrt(np.sum(p * (1 - p)))) / p.size


def overlap(one: np.ndarray, two: np.ndarray) -> float:
    """Rows in both over rows in either."""
    return float((one & two).sum() / max((one | two).sum(), 1))


def within(one: np.ndarray, two: np.ndarray) -> float:
    """Rows in both over rows in the smaller."""
    return float((one & two).sum() / max(min(one.sum(), two.sum()), 1))


def drawn(place: str, rows: int, sigma: float, seed: int, balanced: bool) -> tuple[Synthetic, float]:
    """A table with a planted error, and how many standard errors it came out at."""
    sign = -1.0 if seed % 2 else 1.0
    gap = sign * gap_of(place, rows, sigma, seed)
    data = planted(rows, place=place, gap=gap, balanced=balanced, random_state=seed)
    p, y = data.y_prob[data.planted], data.y_true[data.planted]
    return data, float(sign * np.sum(p - y) / np.sqrt(np.sum(p * (1 - p))))


def planted_first(place: str, rows: int, seed: int, *, balanced: bool = False, effort: str = "normal") -> Item:
    """Audit one table with a planted error; it counts if the error came out at `SIGMA` or more."""
    data, came_out = drawn(place, rows, PLANTED, seed, balanced)
    predictions = data.predictions()
    found = miscal.audit(predictions, effort=effort, random_state=seed)
    real = [finding for finding in found.findings if finding.real]
    first = real[0] if real else None
    rows_found = found.rows_of(first, predictions) if first is not None else np.zeros(rows, bool)
    shared = overlap(rows_found, data.planted)
    right = shared >= OVERLAP
    if place == REGION and first is not None:
        right = set(first.columns) == {"x", "y"} and within(rows_found, data.planted) >= OVERLAP
    return {
        "seed": seed,
        "counts": came_out >= SIGMA,
        "sigma": round(came_out, 2),
        "first": first.where if first else None,
        "overlap": round(shared, 2),
        "right": bool(first is not None and first.kind != "score" and right),
        "heads": sum(not finding.parent for finding in real),
    }


def calibrated_alarms(rows: int, seed: int) -> dict[str, Any]:
    """Audit one calibrated table."""
    data = calibrated(rows, random_state=seed)
    found = miscal.audit(data.predictions(), random_state=seed)
    real = [finding.where for finding in found.findings if finding.real]
    return {"seed": seed, "real": real[:3], "right": not real}


def one_general(rows: int, seed: int, *, total_right: bool = False) -> Item:
    """Audit one table whose score is wrong everywhere: too extreme, and too high unless the total is right."""
    intercept = balancing_intercept(rows, SLOPE, seed) if total_right else -0.3
    data = distorted(rows, slope=SLOPE, intercept=intercept, random_state=seed)
    found = miscal.audit(data.predictions(), random_state=seed)
    heads = [finding for finding in found.findings if finding.real and not finding.parent]
    right = len(heads) == 1 and heads[0].kind == "score"
    return {"seed": seed, "heads": [finding.where for finding in heads][:3], "gap": round(data.gap, 4), "right": right}


def balancing_intercept(rows: int, slope: float, seed: int) -> float:
    """The intercept with which a distorted table's mean probability is the truth's."""
    low, high = -3.0, 3.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        too_high = distorted(rows, slope=slope, intercept=middle, random_state=seed).gap > 0
        low, high = (middle, high) if too_high else (low, middle)
    return 0.5 * (low + high)


def questions(rows: int, wanted: int) -> dict[str, tuple[int, Callable[[int], Item]]]:
    """What is asked of how many tables.

    A region is looked for at the effort that simulates planes, on fewer rows for that reason, and at the normal one.
    """
    made: dict[str, tuple[int, Callable[[int], Item]]] = {}
    for place in PLACES:
        made[place] = wanted, partial(planted_first, place, rows)
    made["calibrated"] = wanted, lambda seed: calibrated_alarms(rows, 1000 + seed)
    made["wrong everywhere"] = wanted, lambda seed: one_general(rows, 1000 + seed)
    made["wrong everywhere, total right"] = wanted, lambda seed: one_general(rows, 1000 + seed, total_right=True)
    made["region"] = wanted, partial(planted_first, REGION, REGION_ROWS, effort="deep")
    for place in PLACES:
        made[f"{place}, total right"] = wanted, partial(planted_first, place, rows, balanced=True)
    made["region, normal effort"] = wanted, partial(planted_first, REGION, rows)
    return made


def counted(made: list[Item]) -> list[Item]:
    """The tables that count."""
    return [item for item in made if item.get("counts", True)]


def run(wanted: int, rows: int, only: str | None, seconds: float, known: dict[str, list[Item]]) -> None:
    """Ask all questions, each until enough tables count, and write what is known after each table's audit."""
    start = time.monotonic()
    for name, (number, ask) in questions(rows, wanted).items():
        if only and only != name:
            continue
        made = known.setdefault(name, [])
        while len(counted(made)) < number and time.monotonic() - start < seconds:
            made.append(ask(len(made)))
            if len(made) % 10 == 0:
                save(known, rows)
        entry = summary(made)
        print(f"{name}: {entry['right']} of {entry['of']}", flush=True)
    save(known, rows)


def read(rows: int) -> dict[str, list[Item]]:
    """What earlier runs at this size left."""
    path = RESULTS / "audit_findings.json"
    stored = json.loads(path.read_text()) if path.exists() else {}
    return stored["tables"] if stored.get("rows") == rows and "tables" in stored else {}


def save(known: dict[str, list[Item]], rows: int) -> None:
    """Write every table's result as JSON, and the counts as a table; what another run added meanwhile is kept."""
    RESULTS.mkdir(exist_ok=True)
    stored = read(rows)
    known = {name: max(known.get(name, []), stored.get(name, []), key=len) for name in {*known, *stored}}
    ordered = {name: known[name] for name in questions(rows, 1) if known.get(name)}
    lines = [f"  {json.dumps(name)}: [\n" + ",\n".join(f"   {json.dumps(item)}" for item in made) + "\n  ]"
             for name, made in ordered.items()]  # fmt: skip
    text = f'{{\n "rows": {rows},\n "tables": {{\n' + ",\n".join(lines) + "\n }\n}\n"
    (RESULTS / "audit_findings.json").write_text(text)
    table = [
        "| question | right | of | half of joint rows | standard errors of the place | came out below 6: right | of |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, made in ordered.items():
        entry = summary(made)
        words = ("right", "of", "joint", "sigma", "below_right", "below")
        table.append(f"| {name} | {' | '.join(str(entry[word]) for word in words)} |")
    (RESULTS / "audit_findings.md").write_text("\n".join(table) + "\n")


def summary(made: list[Item]) -> dict[str, Any]:
    """How many tables that count were right, how strong the places were, and how the weaker ones did."""
    judged, below = counted(made), [item for item in made if not item.get("counts", True)]
    sigma = [item["sigma"] for item in judged if "sigma" in item]
    return {
        "right": sum(item["right"] for item in judged),
        "of": len(judged),
        "joint": sum(item["overlap"] >= OVERLAP for item in judged) if sigma else "",
        "sigma": f"{min(sigma):.1f} to {max(sigma):.1f}" if sigma else "",
        "below": len(below) if sigma else "",
        "below_right": sum(item["right"] for item in below) if sigma else "",
    }


def main() -> None:
    """Run and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one smaller table per question; nothing is written")
    parser.add_argument("--only", help="one question")
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long; the next run goes on")
    parser.add_argument("--afresh", action="store_true", help="forget what earlier runs found")
    options = parser.parse_args()
    if options.afresh:
        (RESULTS / "audit_findings.json").unlink(missing_ok=True)
    known = read(options.rows)
    if options.quick:
        for name, (_, ask) in questions(QUICK_ROWS, 1).items():
            print(name, ask(0), flush=True)
        return
    run(100, options.rows, options.only, options.seconds, known)
    for name, made in known.items():
        for item in [item for item in counted(made) if not item["right"]][:8] if options.only else []:
            print(name, item)


if __name__ == "__main__":
    main()
