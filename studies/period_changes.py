"""Changes along time: calibrated tables that claim one, and planted changes that are named.

    python -m studies.period_changes [--quick]

Calibrated tables of twelve months (twenty weeks for two kinds) are made the ways that make it hard: rare
events, unequal weights, people who come again and again, days that err together, and days whose common error lasts
into the next ones (shocks to the logit, AR(.7), no clusters named). A claim is any step that is called better,
worse or moved. The planted change moves the true rate from one month on so that the step is expected so many
standard errors off; it counts as named if that step and no other is called worse.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from miscal.auditing.options import AuditOptions
from miscal.auditing.periods import by_period
from miscal.data.columns import column
from miscal.data.target import TargetData
from miscal.results import Table

RESULTS = Path(__file__).parent / "results"
CLAIMS = ("better", "worse", "moved")
ROWS = {
    "plain": 2000, "rare events": 6000, "weights": 4000, "people in clusters": 2000, "days in clusters": 3000,
    "days with lasting shocks": 36_000, "days with lasting shocks, by week": 14_000,
}  # fmt: skip
PLANTED = 4  # month of six from which on the rate is another


def calibrated(seed: int, kind: str) -> tuple[TargetData, np.ndarray]:
    """Calibrated rows and their days."""
    rng = np.random.default_rng([7, seed])
    n = ROWS[kind]
    span = 140 if every(kind) == "week" else 360
    days = rng.integers(0, span, n).astype(float)
    p = rng.beta(0.6, 60, n) if kind == "rare events" else rng.beta(2, 6, n)
    if kind == "people in clusters":  # half of a person's outcomes are one draw, the rates stay right
        person = rng.integers(0, n // 5, n)
        p, luck = rng.beta(2, 6, n // 5)[person], rng.random(n // 5)
        y = np.where(rng.random(n) < 0.5, luck[person] < p, rng.random(n) < p)
        return TargetData(p, y.astype(np.uint8), cluster=person), days
    if kind == "days in clusters":
        luck = rng.random(140)
        y = np.where(rng.random(n) < 0.3, luck[days.astype(int)] < p, rng.random(n) < p)
        return TargetData(p, y.astype(np.uint8), cluster=days.astype(np.int64)), days
    if kind.startswith("days with lasting shocks"):
        rate = shocked(p, lasting(rng, span)[days.astype(int)])
        nodes, weights = np.polynomial.hermite_e.hermegauss(15)  # predicted is the mean over all shocks
        mean = sum(w * shocked(p, node) for node, w in zip(nodes, weights / weights.sum(), strict=True))
        return TargetData(np.asarray(mean), (rng.random(n) < rate).astype(np.uint8)), days
    weight = rng.lognormal(0, 0.6, n) if kind == "weights" else None
    return TargetData(p, (rng.random(n) < p).astype(np.uint8), weight), days


def every(kind: str) -> str:
    """The periods that tables of a kind are shown by."""
    return "week" if kind in ("days in clusters", "days with lasting shocks, by week") else "month"


def wanted(every: str | None = None) -> AuditOptions:
    """What an audit by period is asked for."""
    return AuditOptions(effort="quick", time="when", every=every, max_levels=1)


def shocked(p: np.ndarray, shock: np.ndarray | float) -> np.ndarray:
    """The rate of rows whose logit a shock moves."""
    return np.asarray(1 / (1 + (1 - p) / p * np.exp(-0.3 * shock)))


def lasting(rng: np.random.Generator, days: int) -> np.ndarray:
    """A shock to each day, of variance 1, of which .7 lasts into the next."""
    shock = rng.normal(size=days)
    for day in range(1, days):
        shock[day] = 0.7 * shock[day - 1] + np.sqrt(1 - 0.7**2) * shock[day]
    return shock


def judged(seed: int, kind: str) -> tuple[bool, bool]:
    """Whether a calibrated table claims a change, and whether it has a period beyond noise."""
    compared, days = calibrated(seed, kind)
    table = by_period(compared, column("when", days.astype("M8[D]")), wanted(every(kind))).table
    off = float(np.nanmin(table["p_adjusted"], initial=1.0)) <= 0.05
    return any(verdict in CLAIMS for verdict in table["verdict"]), off


def planted(seed: int, errors: float, rows: int = 4000) -> Table:
    """The periods of a half-year whose true rate moves in the fourth month, by so many standard errors of a step."""
    rng = np.random.default_rng([11, seed])
    days = np.datetime64("2024-01-01") + rng.integers(0, 182, rows)
    p = rng.beta(2, 6, rows)
    after = days >= np.datetime64(f"2024-0{PLANTED}-01")
    step = np.sqrt(2 * float(np.mean(p * (1 - p))) / (rows / 6))
    y = rng.random(rows) < np.clip(p + errors * step * after, 0, 1)
    return by_period(TargetData(p, y.astype(np.uint8)), column("when", days), wanted()).table


def named(table: Table) -> bool:
    """Whether the planted step is called worse, and no other step changed."""
    claims = [
        (label, verdict) for label, verdict in zip(table["label"], table["verdict"], strict=True) if verdict in CLAIMS
    ]
    return claims == [(f"2024-0{PLANTED}", "worse")]


def limit(tables: int) -> int:
    """Alarms that a test at 5% exceeds once in a thousand."""
    return int(binom.isf(0.001, tables, 0.05))


def main(quick: bool) -> None:
    """Count, print and write the results."""
    tables, several = (3, 3) if quick else (1000, 200)
    found: dict[str, Any] = {"tables": tables, "limit": limit(tables), "calibrated": {}, "planted": {}}
    lines = [
        f"| calibrated, {tables:,} tables each | tables that claim a change | tables with a period off |",
        "|---|---:|---:|",
    ]
    for kind in ROWS:
        claims, off = (sum(column_) for column_ in zip(*(judged(seed, kind) for seed in range(tables)), strict=True))
        found["calibrated"][kind] = {"claims": int(claims), "off": int(off)}
        lines.append(f"| {kind} | {claims} | {off} |")
    lines += ["", f"At most {limit(tables)} of {tables:,} are expected at 5%, but once in a thousand.", ""]
    lines += ["| planted step, standard errors | named, and no other |", "|---:|---:|"]
    for errors in (3.0, 4.0, 5.0, 6.0, 8.0):
        right = sum(named(planted(seed, errors)) for seed in range(several))
        found["planted"][str(errors)] = {"named": int(right), "tables": several}
        lines.append(f"| {errors:g} | {right} of {several} |")
    print("\n".join(lines))
    if quick:
        return
    RESULTS.joinpath("period_changes.json").write_text(json.dumps(found, indent=1) + "\n")
    RESULTS.joinpath("period_changes.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    main(parser.parse_args().quick)
