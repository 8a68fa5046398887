"""Any mean: false alarms of every word and of audits on calibrated counts and amounts, and planted errors found.

    python -m studies.any_mean [--quick] [--sets 1000] [--audits 100] [--planted 100] [--part words|audits|planted]

Claims are negative-binomial counts (variance of the rate twice its square beyond Poisson's) of policies exposed for a
month to a year; amounts are lognormal, of deviation 1.2 around their logarithm, so that one row in a thousand is 23
times its prediction. Predictions are right by design; columns say nothing of what they leave. "flips" are the levels of
a field judged by their own residuals alone, without the floor that predictions alike in the whole table give them.
Planted: a region whose claims are 1.6 times what is predicted, or an age range whose amounts are. Data set number k is
made from seed k.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import miscal
from miscal.stats.null_model import ResidualVariance
from studies import harness

NAME = "any_mean"
ROWS = 2_000
REGIONS = tuple(f"R{i}" for i in range(1, 11))
WORDS: dict[str, Callable[[miscal.Predictions], Any]] = {
    "score": miscal.by_score,
    "variable": lambda p: miscal.by_variable(p, "age", curve=False),
    "field": lambda p: miscal.by_field(p, "region"),
    "neighbourhood": lambda p: miscal.by_neighbourhood(p, ["age", "income"], simulations=199),
    "subpopulation": lambda p: miscal.by_subpopulation(p, subpopulations=50, simulations=199),
}


def claims(rng: np.random.Generator, columns: dict[str, Any], factor: np.ndarray) -> miscal.Predictions:
    """Counts of claims with exposure."""
    exposure = rng.uniform(1 / 12, 1.0, factor.size)
    rate = 0.15 * np.exp(0.5 * rng.standard_normal(factor.size))
    happened = rng.poisson(exposure * rate * factor * rng.gamma(0.5, 2.0, factor.size))
    return miscal.Predictions(happened, rate, response="count", exposure=exposure, columns=columns)


def amounts(rng: np.random.Generator, columns: dict[str, Any], factor: np.ndarray) -> miscal.Predictions:
    """Amounts that are lognormal around their prediction."""
    predicted = 300.0 * np.exp(0.4 * rng.standard_normal(factor.size))
    happened = predicted * factor * np.exp(1.2 * rng.standard_normal(factor.size) - 0.72)
    return miscal.Predictions(happened, predicted, response="real", columns=columns)


WORLDS = {"claims": claims, "amounts": amounts}


def made(world: str, seed: int, rows: int = ROWS, planted: str = "") -> miscal.Predictions:
    """A data set: calibrated, or with an error in a place."""
    rng = np.random.default_rng([20, seed])
    columns = {
        "age": rng.integers(18, 80, rows), "region": rng.choice(REGIONS, rows), "income": rng.lognormal(10, 0.5, rows),
        "sex": rng.choice(["f", "m"], rows),
    }  # fmt: skip
    factor = np.ones(rows)
    if planted == "region":
        factor[columns["region"] == "R3"] = 1.6
    elif planted == "age":
        factor[columns["age"] < 30] = 1.6
    return WORLDS[world](rng, columns, factor)


def words(sets: int) -> list[dict[str, Any]]:
    """False alarms at 5% of each word."""
    found: dict[tuple[str, str], int] = {}
    floor = ResidualVariance.of
    for seed in range(sets):
        for world in WORLDS:
            p = made(world, seed)
            for word, measure in WORDS.items():
                found[world, word] = found.get((world, word), 0) + (measure(p).p_value <= 0.05)
            levels = WORDS["field"](p).table["p_adjusted"]
            found[world, "levels"] = found.get((world, "levels"), 0) + bool(np.nanmin(levels) <= 0.05)
            ResidualVariance.of = classmethod(lambda _, pair: replace(floor(pair), values=0.0 * floor(pair).values))  # type: ignore[method-assign,assignment]
            levels = WORDS["field"](p).table["p_adjusted"]
            ResidualVariance.of = floor  # type: ignore[method-assign]
            found[world, "levels, flips"] = found.get((world, "levels, flips"), 0) + bool(np.nanmin(levels) <= 0.05)
    limit = harness.alarm_limit(sets, 0.05)
    return [
        {"world": world, "what": word, "data_sets": sets, "alarms": int(count), "limit": limit}
        for (world, word), count in sorted(found.items())
    ]


def audits(sets: int) -> list[dict[str, Any]]:
    """Audits of calibrated data in which anything is real."""
    rows = []
    for world in WORLDS:
        alarms = sum(any(one.real for one in miscal.audit(made(world, seed)).findings) for seed in range(sets))
        rows.append(
            {"world": world, "what": "audit", "data_sets": sets, "alarms": alarms, "limit": max(13 * sets // 100, 1)}
        )
    return rows


def planted(sets: int, rows: int = 30_000) -> list[dict[str, Any]]:
    """How often the planted place is the first finding."""
    found = []
    for world, place in (("claims", "region"), ("amounts", "age")):
        firsts = 0
        for seed in range(sets):
            findings = [one for one in miscal.audit(made(world, seed, rows, place)).findings if one.real]
            firsts += bool(findings) and _is_planted(findings[0], place)
        found.append({"world": world, "what": f"planted {place} first", "data_sets": sets, "firsts": firsts})
    return found


def _is_planted(finding: Any, place: str) -> bool:
    if finding.columns != (place,):
        return False
    return finding.levels == ("R3",) if place == "region" else 27 <= float(finding.condition[0]["high"]) <= 32


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=1_000)
    parser.add_argument("--audits", type=int, default=100)
    parser.add_argument("--planted", type=int, default=100)
    parser.add_argument("--part", choices=("words", "audits", "planted"))
    parser.add_argument("--quick", action="store_true", help="one or two data sets; nothing is written")
    options = parser.parse_args()
    if options.quick:
        options.sets, options.audits, options.planted = 2, 1, 1
    kept = harness.RESULTS / f"{NAME}.json"
    record = json.loads(kept.read_text()) if kept.exists() and not options.quick else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part, run, sets in (
            ("words", words, options.sets),
            ("audits", audits, options.audits),
            ("planted", planted, options.planted),
        ):
            if options.part in (None, part):
                record[part] = run(sets)
                print(*record[part], sep="\n")
    if not options.quick:
        leave(record)


def leave(record: dict[str, Any]) -> None:
    """Write what was found, all parts together."""
    named = {
        "world": "world", "what": "what", "data_sets": "data sets", "alarms": "alarms", "limit": "at most",
        "firsts": "first",
    }  # fmt: skip
    every = [dict.fromkeys(named, "") | row for part in ("words", "audits", "planted") for row in record.get(part, [])]
    harness.write(NAME, record, harness.markdown(every, named))


if __name__ == "__main__":
    main()
