"""Small tables with fixed seeds, from which every golden is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Arrays = dict[str, np.ndarray]
STATES = np.array(["CA", "NY", "TX", "WA", "O'Hare"], object)


def columns(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    """Columns of every type: text, category, boolean, integer, decimal with ties and gaps, date and time."""
    state = rng.choice(STATES, rows, p=[0.35, 0.25, 0.2, 0.15, 0.05])
    amount = np.round(rng.lognormal(1.0, 0.8, rows), 3)
    amount[rng.random(rows) < 0.05] = np.nan
    plan = rng.choice(["basic", "plus", "team"], rows)
    missing = rng.random(rows) < 0.04
    day = np.datetime64("2024-01-01") + rng.integers(0, 300, rows).astype("m8[D]")
    return {
        "state": state,
        "age": rng.integers(18, 80, rows),
        "amount": pa.array(amount, from_pandas=True),
        "half": rng.integers(0, 9, rows) / 2.0,
        "plan": pa.array(np.where(missing, None, plan)).dictionary_encode(),
        "member": rng.random(rows) < 0.4,
        "day": day,
        "moment": day.astype("M8[s]") + rng.integers(0, 86_400, rows).astype("m8[s]"),
    }


def binary(rows: int = 1500, seed: int = 1, *, rate: float = 0.35, error: float = 1.7, ties: bool = False) -> pa.Table:
    """Events whose probability is too low in one state and for the old of another, with weights and clusters."""
    rng = np.random.default_rng([seed, rows])
    p = rng.beta(6.0 * rate, 6.0 * (1.0 - rate), rows)
    p = np.round(p * 20.0) / 20.0 if ties else p
    table = columns(rng, rows)
    old = (np.asarray(table["age"]) >= 60) & (table["state"] == "CA")
    truth = np.clip(p * np.where(table["state"] == "NY", error, np.where(old, 1.0 / error, 1.0)), 0.0, 1.0)
    household = rng.integers(0, rows // 4, rows)
    drawn = rng.random(rows // 4)[household]  # rows of one household share a part of their luck
    luck = np.where(rng.random(rows) < 0.3, drawn, rng.random(rows))
    y = (luck < truth).astype(np.int64)
    return pa.table(
        {
            "y": y,
            "p": p,
            "weight": np.round(rng.gamma(2.0, 0.7, rows) + 0.1, 3),
            "kept": np.where(y == 1, 1.0, 4.0),  # non-events were sampled one in four
            "household": household,
            **table,
        }
    )


def trials(rows: int = 900, seed: int = 2) -> pa.Table:
    """Events among several trials a row."""
    rng = np.random.default_rng([seed, rows])
    p, many = rng.beta(2.0, 6.0, rows), rng.integers(1, 12, rows)
    table = columns(rng, rows)
    truth = np.clip(p * np.where(table["state"] == "TX", 1.5, 1.0), 0.0, 1.0)
    return pa.table({"y": rng.binomial(many, truth), "p": p, "many": many, **table})


def amounts(rows: int = 1200, seed: int = 3) -> pa.Table:
    """Real outcomes, some of which are below 0."""
    rng = np.random.default_rng([seed, rows])
    table = columns(rng, rows)
    predicted = rng.normal(40.0, 15.0, rows)
    observed = predicted * np.where(table["state"] == "NY", 1.12, 1.0) + rng.standard_t(4, rows) * 8.0
    return pa.table({"y": observed, "p": predicted, "weight": rng.uniform(0.2, 3.0, rows), **table})


def counts(rows: int = 1500, seed: int = 4) -> pa.Table:
    """Claims, predicted as a rate a year of exposure."""
    rng = np.random.default_rng([seed, rows])
    table = columns(rng, rows)
    rate, years = rng.lognormal(-1.0, 0.5, rows), rng.uniform(0.1, 1.0, rows)
    claims = rng.poisson(rate * years * np.where(table["state"] == "WA", 1.9, 1.0))
    return pa.table({"claims": claims, "rate": rate, "years": years, **table})


def classes(rows: int = 1200, seed: int = 5, many: int = 3) -> pa.Table:
    """Probabilities of several classes, one of which is wrong in one state."""
    rng = np.random.default_rng([seed, rows])
    table = columns(rng, rows)
    p = rng.dirichlet(np.linspace(1.0, 2.0, many), rows)
    truth = p * np.where((np.arange(many) == 1) & (table["state"] == "NY")[:, None], 2.5, 1.0)
    truth = truth / truth.sum(axis=1, keepdims=True)
    y = np.minimum((truth.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1), many - 1)
    names = np.array([f"c{k}" for k in range(many)], object)
    named = {f"p_c{k}": p[:, k] for k in range(many)}
    return pa.table({"y": names[y], **named, "weight": rng.uniform(0.2, 3.0, rows), **table})


def arrays(rows: int = 400, seed: int = 6, many: int = 2, *, ties: bool = False) -> Arrays:
    """What metrics and recalibrators take: outcomes, probabilities, weights, and what groups the rows."""
    rng = np.random.default_rng([seed, rows, many])
    variable, level = rng.normal(size=rows), rng.choice(np.array(["a", "b", "c"], object), rows, p=[0.5, 0.3, 0.2])
    p = rng.dirichlet(np.ones(many), rows)
    p = (p[:, 1] if not ties else np.round(p[:, 1] * 10.0) / 10.0) if many == 2 else p
    if many == 2:
        y = (rng.random(rows) < np.clip(p * np.where(level == "b", 1.4, 0.9), 0.0, 1.0)).astype(np.int64)
    else:
        tilted = p ** np.where(level == "b", 1.5, 0.8)[:, None]
        tilted = tilted / tilted.sum(axis=1, keepdims=True)
        y = np.minimum((tilted.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1), many - 1)
    return {
        "y": y,
        "p": p,
        "weight": rng.integers(1, 5, rows) * 0.75,
        "variable": variable,
        "other": rng.integers(0, 7, rows).astype(float),
        "level": level,
        "features": rng.normal(size=(rows, 2)),
        "exposure": rng.uniform(0.2, 1.5, rows),
    }
