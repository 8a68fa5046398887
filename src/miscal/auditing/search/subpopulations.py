"""Subpopulations of an audit: conjunctions of up to three columns, each cut in two or by level."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from miscal.auditing.memory import give_back
from miscal.auditing.search.groups import sums_of
from miscal.auditing.search.looking import Looked, Say, suspicion
from miscal.auditing.search.places import Place
from miscal.data.columns import Column
from miscal.data.predictions import Predictions
from miscal.engines.subpopulations import ordered
from miscal.inference.subpopulation import scaled_errors
from miscal.metrics.subpopulation.error import Asked, Kept
from miscal.metrics.subpopulation.result import by_subpopulation, cumulative_curve
from miscal.pooling.condition import Conjunction
from miscal.pooling.subpopulations import Conjunctions
from miscal.results import Result

DEPTH, HALVES = 3, 2
WIDEST = {"normal": 8, "deep": 12}  # columns that are combined, the most suspect ones
MANY_ROWS, NARROW = 300_000, 4  # beyond so many rows fewer columns: each partition holds a number a row
MOST_LEVELS = 20
DRAWS = {"normal": 999, "deep": 1999}
WORK = 3e9  # rows times draws times partitions; beyond it Bonferroni's inequality
LEAST_DRAWS = 199
PLACES = 60  # worst subpopulations that become places
FAMILY = "subpopulations"
INFORMATION, LEAST = 5.0, 10
DRAWN, LOOKED_AT = 3, 40  # worst subpopulations drawn, among so many
ALIKE = 0.5  # rows shared from which two are drawn once
POINTS = 200


def look_at_subpopulations(predictions: Predictions, looked: Looked, effort: str, random_state: int, say: Say) -> None:
    """Search conjunctions; where some columns had to be left out, those are counted as if they had been tested."""
    fit = [(suspicion(r, g), c) for c, r, g in looked.columns if g.ordered or len(c.levels) <= MOST_LEVELS]
    if len(fit) < 2:
        return
    say("subpopulations")
    widest = WIDEST[effort] if predictions.rows <= MANY_ROWS else NARROW
    chosen = [column for _, column in sorted(fit, key=lambda entry: entry[0])[:widest]]
    names = [column.name for column, _, _ in looked.columns if any(column is one for one in chosen)]
    rows = predictions.rows
    partitions = sum(math.comb(len(names), depth) for depth in range(1, DEPTH + 1))
    draws = DRAWS[effort]
    if rows * draws * partitions > WORK:
        # More draws than are ever made, so that the inequality takes over; signs cannot be flipped but by simulation.
        flips = looked.rows.noise.null == "residual"
        draws = max(LEAST_DRAWS, int(WORK / (rows * partitions))) if flips else int(2e8 / rows) + 2
    asked: Any = {"subpopulations": Conjunctions(DEPTH, HALVES), "min_information": INFORMATION, "min_size": LEAST}
    give_back(rows)
    result = by_subpopulation(
        predictions, names, simulations=draws, target=looked.target, random_state=random_state, **asked
    )
    factor = left_out(fit, chosen)
    give_back(rows)
    seen = _Seen(predictions, looked, names, result)
    looked.searched[FAMILY] = int(result.table.rows * factor), _places(seen, looked, result, factor)
    looked.further.append(replace(result, extra={**result.extra, "cumulative": seen.curves()}))


class _Seen:
    """The search once more, without noise: which rows a subpopulation of the result's table has."""

    def __init__(self, predictions: Predictions, looked: Looked, names: list[str], result: Result) -> None:
        self.rows, self.columns = ordered(looked.rows.raw), predictions.columns
        seed = int(result.settings["random_state"])
        asked = Asked(predictions.columns, names, Kept(predictions.rows), None, LEAST, INFORMATION, seed, naming=True)
        self.found = asked.search(self.rows, Conjunctions(DEPTH, HALVES))
        self.order = np.argsort(-scaled_errors(self.found.stats, "range"), kind="stable")

    def members(self, number: int) -> np.ndarray:
        """Places of its rows in the order of the score."""
        return np.asarray(self.found.lists(np.array([number])).list(0))

    def curves(self) -> list[dict[str, Any]]:
        """Running totals of the whole table and of the worst subpopulations that are not much the same rows."""
        kept: list[tuple[int, np.ndarray]] = []
        for number in self.order[:LOOKED_AT].tolist():
            own = self.members(number)
            if number and len(kept) < DRAWN and all(_shared(own, other) < ALIKE for _, other in kept):
                kept.append((number, own))
        drawn = [(0, self.members(0)), *kept]
        return [{"label": self.found.define(k).name, **cumulative_curve(self.rows, own, POINTS)} for k, own in drawn]


def _shared(one: np.ndarray, two: np.ndarray) -> float:
    """Rows in both over rows in either."""
    both = np.intersect1d(one, two, assume_unique=True).size
    return both / max(one.size + two.size - both, 1)


def left_out(fit: list[tuple[float, Column]], chosen: list[Column]) -> float:
    """How many times more conjunctions there are over all columns than over those chosen."""
    every, some = ([_cells(column) for column in columns] for columns in ([c for _, c in fit], chosen))
    return max(1.0, _conjunctions(every) / max(_conjunctions(some), 1.0))


def _cells(column: Column) -> int:
    return len(column.levels) if column.nominal else HALVES


def _conjunctions(sizes: list[int]) -> float:
    """Number of conjunctions of up to three of the columns, by the elementary symmetric polynomials."""
    sums = [1.0] + [0.0] * DEPTH
    for size in sizes:
        for depth in range(DEPTH, 0, -1):
            sums[depth] += size * sums[depth - 1]
    return sum(sums[1:])


def _places(seen: _Seen, looked: Looked, result: Result, factor: float) -> list[Place]:
    """The worst subpopulations of two columns or more, with their rows."""
    places: list[Place] = []
    for place, p in enumerate(np.asarray(result.table["p_adjusted"], dtype=float)):
        if not p * factor <= 0.2 or len(places) >= PLACES:
            break
        k = int(seen.order[place])
        definition = seen.found.define(k)
        if k == 0 or len(definition.columns) < 2:  # the whole table and single columns are tested elsewhere
            continue
        members = np.sort(seen.rows.order[seen.members(k)]).astype(np.int32, copy=False)
        raw, beyond = sums_of(looked.rows.raw, members), sums_of(looked.rows.beyond, members)
        chance = min(1.0, p * factor)
        made = Place(None, (), chance, 0.0, FAMILY, raw, beyond, 1, members, "subpopulation", definition.name)
        made.columns = definition.columns
        made.levels = tuple(condition.words() for condition in definition.conditions)
        made.condition = Conjunction(definition.conditions)
        places.append(made)
    return places
