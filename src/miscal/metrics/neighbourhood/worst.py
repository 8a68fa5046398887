"""The worst neighbourhoods one after another, none sharing rows with another, each described in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.data.columns import Column
from miscal.metrics.neighbourhood.errors import Neighbourhoods
from miscal.metrics.neighbourhood.noise import MaximumNoise, kernel_weights
from miscal.metrics.neighbourhood.words import described, differences
from miscal.results import Table

LISTED = 10
REAL = 0.05
LOOKED_AT = 1000  # candidates, from the worst, before the list is taken to be complete
CORE = 0.5  # share of the kernel's mass that a neighbourhood's core holds


@dataclass(frozen=True, eq=False)
class Ranked:
    """What is known of each tested centre."""

    centres: np.ndarray  # rows
    z: np.ndarray
    deviation: np.ndarray  # of the sum
    mass: np.ndarray


def worst_table(
    problem: Neighbourhoods,
    edges: np.ndarray,
    ranked: Ranked,
    noise: MaximumNoise,
    columns: Mapping[str, Column],
    names: Sequence[str],
    beyond: np.ndarray,
) -> Table:
    """The worst neighbourhoods, at most ten; the core of each is disjoint from those before it."""
    adjusted = noise.adjusted(ranked.z)
    found: list[dict[str, Any]] = []
    taken = np.zeros(problem.pair.rows, bool)
    for place in np.argsort(-np.abs(ranked.z), kind="stable")[:LOOKED_AT]:
        centre = int(ranked.centres[place])
        inside = np.flatnonzero(problem.cells == problem.cells[centre])
        weights = kernel_weights(
            problem.features[centre : centre + 1], problem.features[inside], problem.kernel, problem.bandwidths[0]
        )[0]
        near = core(weights, problem.weight()[inside])
        if taken[inside[near]].any():
            continue
        taken[inside[near]] = True
        row = _row(problem, inside, weights, near, beyond)
        cell = int(problem.cells[centre])
        error = ranked.deviation[place] / ranked.mass[place]
        words = differences(columns, names, inside, weights * problem.weight()[inside], problem.weight())
        found.append(
            {
                "label": described(words),
                "score_low": float(edges[cell]),
                "score_high": float(edges[cell + 1]),
                **row,
                "gap_low": row["gap"] - noise.tested.quantile * error,
                "gap_high": row["gap"] + noise.tested.quantile * error,
                "standard_error": error,
                "deviations": float(ranked.z[place]),
                "p_adjusted": float(adjusted[place]),
                "centre": centre,
            }
        )
        if len(found) == LISTED:
            break
    for each in found:
        left = abs(each.pop("deviations_beyond")) >= noise.tested.quantile
        each["specific"] = bool(left and each["p_adjusted"] <= REAL)
    return Table({name: [each[name] for each in found] for name in found[0]} if found else _empty())


def core(weights: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Which rows are nearest and together hold half of the kernel's mass; rows as near as the last are in."""
    order = np.argsort(-weights, kind="stable")
    held = np.cumsum((weights * weight)[order])
    last = order[min(int(np.searchsorted(held, CORE * held[-1])), order.size - 1)]
    return np.asarray(weights >= weights[last] * (1.0 - 1e-12))


def _row(
    problem: Neighbourhoods, inside: np.ndarray, weights: np.ndarray, near: np.ndarray, beyond: np.ndarray
) -> dict[str, Any]:
    pair, weight = problem.pair, problem.weight()[inside]
    share = weights * weight
    mass = share.sum()
    predicted, observed = pair.predicted[inside], pair.observed[inside]
    put_right = beyond[inside]
    first = np.ones(inside.size) if pair.first is None else pair.first[inside]
    second = np.ones(inside.size) if pair.second is None else pair.second[inside]
    own = weights**2 * second
    variance = float((own * put_right * (1.0 - put_right)).sum())
    left = float((weights * first * (put_right - observed)).sum())
    return {
        "rows": int(near.sum()) if pair.count is None else int(pair.count[inside][near].sum()),
        "effective_rows": float((weights * first).sum() ** 2 / own.sum()),
        "predicted": float(share @ predicted / mass),
        "observed": float(share @ observed / mass),
        "gap": float(share @ (predicted - observed) / mass),
        "gap_beyond_score": float(left / (weights * first).sum()),
        "deviations_beyond": left / np.sqrt(variance) if variance > 0 else 0.0,
        "events_off": float((first * (predicted - observed))[near].sum()),
    }


def _empty() -> dict[str, Any]:
    words, numbers = np.empty(0, object), np.empty(0)
    names = (
        "score_low", "score_high", "rows", "effective_rows", "predicted", "observed", "gap", "gap_beyond_score",
        "events_off", "gap_low", "gap_high", "standard_error", "deviations", "p_adjusted", "centre", "specific",
    )  # fmt: skip
    return {"label": words, **dict.fromkeys(names, numbers)}
