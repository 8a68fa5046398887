"""Do the headline p-values see what textbook tests see, at the same size?

    python -m studies.power [--quick]

Each row is an error of one kind; the columns are the power at 5% of the result's p-value and of single tests that
textbooks have for it: Hosmer and Lemeshow's chi-square of ten bins, Spiegelhalter's z, the score test of slope and
intercept, Kuiper's walk; along a variable a chi-square of ten ranges, Kuiper's walk, a linear trend, and a smooth test
of 7 degrees of freedom; over levels a chi-square, and the smallest exact binomial p-value times the levels. The goal is
0.85 of the best of them in every row. Beside it the share that the smallest of our p-values would have, on the same
draws, in place of the sum of their inverses. The first row of each kind has no error: false alarms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import stats

import miscal
from miscal.stats.kuiper import brownian_range_p
from studies import harness

ROWS = 2000
FRESH = 20_000  # the first seed of tables that nothing was chosen on
NEAREST = (("by_variable", "trend"), ("by_field", "every level a little"), ("by_field", "shift"))


def _logit(p: np.ndarray) -> np.ndarray:
    return np.log(p) - np.log1p(-p)


def _chi(residual: np.ndarray, variance: np.ndarray, directions: np.ndarray) -> float:
    score = directions @ residual
    spread = (directions * variance) @ directions.T
    return float(stats.chi2.sf(score @ np.linalg.solve(spread, score), len(score)))


def _cells(residual: np.ndarray, variance: np.ndarray, codes: np.ndarray) -> float:
    square = np.bincount(codes, residual) ** 2 / np.bincount(codes, variance)
    return float(stats.chi2.sf(square.sum(), square.size))


def _walk(residual: np.ndarray, variance: np.ndarray, order: np.ndarray) -> float:
    walk = np.append(0.0, np.cumsum(residual[order]))
    return float(brownian_range_p((walk.max() - walk.min()) / np.sqrt(variance.sum())))


def score_tests(p: np.ndarray, y: np.ndarray, _: Any) -> dict[str, float]:
    """Textbook tests by score."""
    residual, variance = y - p, p * (1.0 - p)
    ranks = np.argsort(np.argsort(p))
    z = np.sum(residual * (1.0 - 2.0 * p)) / np.sqrt(np.sum((1.0 - 2.0 * p) ** 2 * variance))
    return {
        "Hosmer-Lemeshow": _cells(residual, variance, ranks * 10 // p.size),
        "Spiegelhalter": float(2.0 * stats.norm.sf(abs(z))),
        "Kuiper": _walk(residual, variance, np.argsort(p)),
        "slope and intercept": _chi(residual, variance, np.stack([np.ones(p.size), _logit(p)])),
    }


def variable_tests(p: np.ndarray, y: np.ndarray, x: np.ndarray) -> dict[str, float]:
    """Textbook tests along a variable."""
    residual, variance = y - p, p * (1.0 - p)
    place = np.argsort(np.argsort(x)) / x.size
    basis = np.polynomial.legendre.legvander(2.0 * place - 1.0, 6).T
    return {
        "chi-square": _cells(residual, variance, (place * 10).astype(int)),
        "Kuiper": _walk(residual, variance, np.argsort(x)),
        "trend": _chi(residual, variance, basis[:2]),
        "smooth, 7 df": _chi(residual, variance, basis),
    }


def field_tests(p: np.ndarray, y: np.ndarray, level: np.ndarray) -> dict[str, float]:
    """Textbook tests over levels."""
    size, events = np.bincount(level), np.bincount(level, y)
    mean = np.bincount(level, p)
    alone = [stats.binomtest(int(k), int(n), float(m / n)).pvalue for k, n, m in zip(events, size, mean, strict=True)]
    total = (y - p).sum() / np.sqrt((p * (1 - p)).sum())
    return {
        "chi-square": _cells(y - p, p * (1.0 - p), level),
        "smallest of the levels": min(1.0, size.size * min(alone)),
        "total": float(2.0 * stats.norm.sf(abs(total))),
    }


def _made(kind: str, error: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions, outcomes, and the variable or the levels."""
    rng = np.random.default_rng([seed, 64])
    p = rng.beta(2.0, 3.0, ROWS)
    x = rng.integers(0, 50, ROWS) if kind == "by_field" else rng.random(ROWS)
    shift = {
        "none": lambda: 0.0,
        "slope 0.8": lambda: -0.2 * _logit(p),
        "slope 1.25": lambda: 0.25 * _logit(p),
        "shift": lambda: 0.13,
        "middle": lambda: 0.35 * (np.abs(p - 0.4) < 0.12),
        "trend": lambda: 0.52 * (x - 0.5),
        "U": lambda: 2.2 * ((x - 0.5) ** 2 - 1 / 12),
        "upper tail": lambda: 0.55 * (x > 0.92),
        "one level of 50": lambda: 1.45 * (x == 7),
        "five levels of 50": lambda: 0.6 * (x < 5),
        "every level a little": lambda: 0.35 * np.random.default_rng(1).normal(size=50)[x],
    }[error]()
    truth = 1.0 / (1.0 + np.exp(-(_logit(p) + shift)))
    return p, (rng.random(ROWS) < truth).astype(float), x


KINDS: dict[str, tuple[Callable[..., dict[str, float]], tuple[str, ...]]] = {
    "by_score": (score_tests, ("none", "slope 0.8", "slope 1.25", "shift", "middle")),
    "by_variable": (variable_tests, ("none", "trend", "U", "upper tail", "shift")),
    "by_field": (field_tests, ("none", "one level of 50", "five levels of 50", "every level a little", "shift")),
}


def p_value(kind: str, made: miscal.Predictions, seed: int) -> float:
    """The p-value of a result."""
    with harness.tests_only():
        if kind == "by_score":
            return miscal.by_score(made, random_state=seed).p_value
        if kind == "by_variable":
            return miscal.by_variable(made, "x", curve=False, random_state=seed).p_value
        return miscal.by_field(made, "x", random_state=seed).p_value


def one(kind: str, error: str, seed: int, smallest: bool = True) -> dict[str, float]:
    """P-values of one table; if asked, the smallest of ours beside it."""
    p, y, x = _made(kind, error, seed)
    made = miscal.Predictions(y.astype(int), p, columns={"x": x.astype(str) if kind == "by_field" else x})
    found = {"miscal": p_value(kind, made, seed), **KINDS[kind][0](p, y, x)}
    if smallest and error != "none":
        with patch("miscal.stats.combined_test.sum_of_inverses", lambda alone, _: 1.0 / alone.min(axis=1)):
            found["smallest"] = p_value(kind, made, seed)
    return found


def row(kind: str, error: str, sets: int, first: int = 0, smallest: bool = True) -> dict[str, Any]:
    """Counts of one error: ours, the best single test's, and all of them."""
    seeds = harness.progress(range(first, first + sets), f"{kind}, {error}")
    found = [one(kind, error, seed, smallest) for seed in seeds]
    counts = {name: harness.alarms([each[name] for each in found])["alarms"] for name in found[0]}
    single = {name: count for name, count in counts.items() if name not in ("miscal", "smallest")}
    best = max(single, key=single.__getitem__)
    made: dict[str, Any] = {"kind": kind, "error": error, "sets": sets, "miscal": counts["miscal"]}
    made |= {"best": single[best], "best_test": best, "others": ", ".join(f"{k} {v}" for k, v in single.items())}
    if error == "none":
        made["kept"] = counts["miscal"] <= harness.alarm_limit(sets)
        return made | {"best": None, "best_test": f"at most {harness.alarm_limit(sets)}"}
    ours = {"share": "miscal", "smallest": "smallest"}
    made |= {name: counts[each] / max(single[best], 1) for name, each in ours.items() if each in counts}
    made["kept"] = made["share"] >= 0.85
    return made


HEADINGS = {
    "kind": "result", "error": "error", "sets": "tables", "miscal": "its p-value", "best": "best single test",
    "best_test": "which", "share": "share", "smallest": "share of the smallest p alone", "others": "single tests",
    "kept": "kept",
}  # fmt: skip


def study(quick: bool = False, sets: int = 1000) -> tuple[dict[str, Any], str]:
    """All errors; power on three in ten of the tables."""
    sets, several = (2, 2) if quick else (sets, max(3 * sets // 10, 40))
    designs = [(kind, error) for kind, (_, errors) in KINDS.items() for error in errors]
    rows = [row(kind, error, sets if error == "none" else several) for kind, error in designs]
    fresh = [row(kind, error, several, FRESH) for kind, error in NEAREST]
    return {"rows": rows, "fresh": fresh}, text(rows, fresh)


def text(rows: list[dict[str, Any]], fresh: list[dict[str, Any]]) -> str:
    """Both tables."""
    return "\n\n".join([
        "# Power beside textbook tests\n\nTables of 2,000 rows in which a test at 5% alarms.",
        harness.markdown(rows, HEADINGS),
        "The rows nearest to the goal, on tables on which the tests' shares were not chosen.",
        harness.markdown(fresh, HEADINGS),
    ])  # fmt: skip


if __name__ == "__main__":
    harness.main("power", study)
