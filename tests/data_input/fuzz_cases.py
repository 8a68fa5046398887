"""Generated calls: scores x outcomes x weights x columns x rows x containers x seeds x functions, every pair tried.

The test runs 600 of them; `python -m studies.fuzz` runs as many as it is told and records what happened.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import miscal
from miscal import metrics, recalibrate
from miscal.data.errors import MiscalError

Rng = np.random.Generator
SCORES: dict[str, Callable[[Rng, int], Any]] = {
    "uniform": lambda r, n: r.random(n),
    "certain": lambda r, n: r.choice([0.0, 1.0], n),
    "nearly certain": lambda r, n: r.choice([1 - 1e-16, 0.5, 1e-300], n),
    "tied": lambda r, n: r.choice([0.2, 0.7], n),
    "one": lambda _, n: np.full(n, 0.3),
    "float32": lambda r, n: r.random(n).astype(np.float32),
    "decimal": lambda r, n: [Decimal(int(v)) / 100 for v in r.integers(0, 100, n)],
    "subnormal": lambda r, n: r.choice([5e-324, 2e-310, 0.5], n),
}
OUTCOMES: dict[str, Callable[[Rng, int], Any]] = {
    "0/1": lambda r, n: r.integers(0, 2, n),
    "truth": lambda r, n: r.random(n) < 0.5,
    "all 1": lambda _, n: np.ones(n, int),
    "float": lambda r, n: r.integers(0, 2, n).astype(float),
    "text": lambda r, n: r.choice(["0", "1"], n),
    "words": lambda r, n: r.choice(["yes", "no"], n),
    "rare": lambda _, n: np.r_[1, np.zeros(n - 1, int)],
}
WEIGHTS: dict[str, Callable[[Rng, int], Any]] = {
    "none": lambda *_: None,
    "ones": lambda _, n: np.ones(n),
    "tiny": lambda _, n: np.full(n, 1e-300),
    "subnormal": lambda _, n: np.full(n, 5e-324),
    "one heavy": lambda _, n: np.r_[1e5, np.ones(n - 1)],
    "apart": lambda r, n: 10.0 ** r.integers(-100, 100, n),
    "huge": lambda _, n: np.full(n, 1e100),
    "zeros": lambda _, n: np.r_[1.0, np.zeros(n - 1)],
    "decimal": lambda _, n: [Decimal("1.5")] * n,
    "whole": lambda r, n: r.integers(1, 9, n),
}
COLUMNS: dict[str, Callable[[Rng, int], Any]] = {
    "numbers": lambda r, n: r.normal(size=n),
    "extreme": lambda r, n: r.choice([-1e308, 1e308, 0.0], n),
    "subnormal": lambda r, n: r.choice([5e-324, -5e-324, 0.0], n),
    "missing": lambda _, n: np.full(n, np.nan),
    "some missing": lambda r, n: np.where(r.random(n) < 0.5, np.nan, r.normal(size=n)),
    "infinite": lambda r, n: r.choice([np.inf, -np.inf, 1.0], n),
    "wide": lambda r, n: r.integers(2**53, 2**63 - 1, n),
    "letters": lambda r, n: r.choice(["a", "b", "\n", "::error::", "", "\x1b[31m", "a" * 300], n),
    "truth": lambda r, n: r.random(n) < 0.5,
    "dates": lambda r, n: np.array(["9999-12-31", "0001-01-01", "2024-02-29"], "M8[s]")[r.integers(0, 3, n)],
    "same": lambda _, n: np.full(n, 7),
    "decimal": lambda _, n: [Decimal("1e30")] * n,
}
ROWS = (1, 2, 3, 7, 40)
SEEDS: tuple[Any, ...] = (0, 1, 2**31, -1, 1.5, "x", None, True, np.int64(3))
CONTAINERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "dict": dict, "pandas": pd.DataFrame, "polars": lambda table: pl.DataFrame(table, strict=False), "arrow": pa.table
}  # fmt: skip


def _read(table: Any, weight: str | None) -> miscal.Predictions:
    positive = "yes" if "yes" in set(map(str, table["y"])) else None
    return miscal.read(table, outcome="y", probability="p", weight=weight, positive=positive)


def _fit(name: str) -> Callable[..., Any]:
    def call(table: Any, weight: str | None, _: Any) -> Any:
        p = _read(table, weight)
        model = getattr(recalibrate, name)().fit(p.probability, p.outcome, sample_weight=p.weight)
        return recalibrate.Recalibrator.from_json(model.to_json()).predict_proba(p.probability)

    return call


def _metric(name: str) -> Callable[..., Any]:
    def call(table: Any, weight: str | None, _: Any) -> Any:
        p = _read(table, weight)
        return getattr(metrics, name)(p.outcome, p.probability, sample_weight=p.weight)

    return call


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "read": lambda table, weight, _: repr(_read(table, weight)),
    "by_score": lambda table, weight, seed: repr(miscal.by_score(_read(table, weight), random_state=seed)),
    "by_variable": lambda table, weight, seed: miscal.by_variable(_read(table, weight), "x", random_state=seed),
    "by_field": lambda table, weight, seed: miscal.by_field(_read(table, weight), "x", random_state=seed),
    "by_subpopulation": lambda table, weight, seed: miscal.by_subpopulation(
        _read(table, weight), ["x"], simulations=19, random_state=seed
    ),
    **{name: _metric(name) for name in ("brier_score", "log_loss", "expected_calibration_error",
       "kuiper_calibration_error", "calibration_slope_intercept")},
    **{name: _fit(name) for name in ("PlattScaling", "IsotonicCalibration", "BetaCalibration", "HistogramBinning",
       "ScalingBinning")},
}  # fmt: skip
AUDIT = "audit"
FACTORS: dict[str, list[Any]] = {
    "function": [*FUNCTIONS], "score": [*SCORES], "outcome": [*OUTCOMES], "weight": [*WEIGHTS], "column": [*COLUMNS],
    "rows": [*ROWS], "seed": [*range(len(SEEDS))], "container": [*CONTAINERS],
}  # fmt: skip
Case = dict[str, Any]


def cases(count: int, seed: int = 0) -> list[Case]:
    """Draws of all factors; the first of them hold every pair of values, the others are by chance."""
    rng = np.random.default_rng(seed)
    names = list(FACTORS)
    two_names = combinations(names, 2)
    every = [((one, a), (two, b)) for one, two in two_names for a, b in product(FACTORS[one], FACTORS[two])]
    left = dict.fromkeys(every)  # in an order that does not change from run to run, as that of a set would
    made: list[Case] = []
    while len(made) < count:
        some = range(8 if left else 1)
        drawn = [{name: FACTORS[name][rng.integers(len(FACTORS[name]))] for name in names} for _ in some]
        if left:  # one pair that was not tried yet is put into each
            for case in drawn:
                case.update(dict(next(iter(left))))
        best = max(drawn, key=lambda case: len(pairs(case) & left.keys())) if left else drawn[0]
        for pair in pairs(best):
            left.pop(pair, None)
        made.append(best)
    return made


def pairs(case: Case) -> set[Any]:
    """What a case tries together, two by two."""
    return set(combinations(case.items(), 2))


def outcome(case: Case, place: int) -> str:
    """Run a case: "answered", "refused", or what went wrong."""
    rng = np.random.default_rng(place)
    rows = case["rows"]
    table = {
        "y": OUTCOMES[case["outcome"]](rng, rows), "p": SCORES[case["score"]](rng, rows),
        "x": COLUMNS[case["column"]](rng, rows),
    }  # fmt: skip
    weight = WEIGHTS[case["weight"]](rng, rows)
    if weight is not None:
        table["w"] = weight
    try:
        given = CONTAINERS[case["container"]](table)
    except Exception:  # noqa: BLE001  # what another library cannot hold is not tried
        return "not a table"
    function = audit if case["function"] == AUDIT else FUNCTIONS[case["function"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", miscal.MiscalWarning)
        warnings.simplefilter("error", RuntimeWarning)
        try:
            function(given, None if weight is None else "w", SEEDS[case["seed"]])
        except MiscalError:
            return "refused"
        except Exception as error:  # noqa: BLE001
            return f"{type(error).__name__}: {error}"
    return "answered"


def audit(table: Any, weight: str | None, seed: Any) -> str:
    """An audit and its page."""
    from miscal.report.html.page import to_html

    positive = "yes" if "yes" in set(map(str, table["y"])) else None
    found = miscal.audit(
        table, outcome="y", probability="p", weight=weight, positive=positive, random_state=seed, effort="quick"
    )
    return to_html(found.document)


def counted(made: list[Case]) -> tuple[Counter[str], list[tuple[Case, str]]]:
    """How the cases ended, and those that ended badly."""
    ends, bad = Counter[str](), []
    for place, case in enumerate(made):
        end = outcome(case, place)
        good = end in ("answered", "refused", "not a table")
        ends[end if good else "bad"] += 1
        if not good:
            bad.append((case, end))
    return ends, bad
