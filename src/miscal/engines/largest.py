"""Passes over all rows that find extremes: how far values reach, and the largest residual of places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.data.responses import Units
from miscal.engines.requests import ConditionCells, condition_coders
from miscal.engines.roles import Chunk, Roles
from miscal.engines.source import Packed
from miscal.pooling.condition import Conjunction


def in_units(source: Any, roles: Roles) -> Roles:
    """Roles that know how far predictions and outcomes reach, so that all parts of a table are in the same units."""
    if roles.response == "binary" or roles.units is not None:
        return roles
    least, most = source.run(LargestPass(roles, (), tuple(source.kinds.items()))).ends
    return replace(roles, units=Units.of(float(least), float(most)))


def largest_rows(source: Any, roles: Roles, conjunctions: Sequence[Conjunction]) -> np.ndarray:
    """Weight, prediction and outcome of the row with the largest residual of each conjunction, (conjunctions, 3)."""
    found: np.ndarray = source.run(LargestPass(roles, tuple(conjunctions), tuple(source.kinds.items()))).rows
    return found


@dataclass(frozen=True, eq=False)
class LargestPass:
    """The smallest and the largest value of predictions and outcomes, and the largest residual of conjunctions."""

    roles: Roles
    conjunctions: tuple[Conjunction, ...]
    kinds: tuple[tuple[str, str], ...]

    @property
    def columns(self) -> list[str]:
        own = [name for role, name in self.roles.named if role not in ("cluster", "id")]
        return list(dict.fromkeys([*own, *ConditionCells(self.conjunctions).columns]))

    def start(self) -> LargestState:
        return LargestState(self)


class LargestState:
    """What was found in some batches."""

    def __init__(self, job: LargestPass) -> None:
        self.job = job
        self.ends = np.zeros(2)
        self.rows = np.zeros((len(job.conjunctions), 3))
        self.coders = [coder for one in job.conjunctions for coder in condition_coders([one], dict(job.kinds))]

    def add(self, chunk: Chunk) -> None:
        batch = self.job.roles.open(chunk)
        if batch is None or batch.rows == 0:
            return
        pair = batch.pair
        values = [pair.units.back(each) for each in (pair.predicted, pair.observed)]
        self._reach(min(each.min() for each in values), max(each.max() for each in values))
        weight = np.ones(pair.rows) if pair.first is None else pair.first
        size, inside = np.abs(weight * (pair.observed - pair.predicted)), np.empty(batch.rows, np.int32)
        for place, coder in enumerate(self.coders):
            coder.fill(batch, inside)
            if inside.any():
                row = int(np.argmax(np.where(inside > 0, size, -1.0)))
                self._take(place, np.array([weight[row], pair.predicted[row], pair.observed[row]]))

    def _reach(self, least: float, most: float) -> None:
        self.ends = np.array([min(self.ends[0], least), max(self.ends[1], most)])

    def _take(self, place: int, row: np.ndarray) -> None:
        residuals = [abs(each[0] * (each[2] - each[1])) for each in (self.rows[place], row)]
        if residuals[1] > residuals[0]:
            self.rows[place] = row

    def arrays(self) -> Packed:
        return {"ends": self.ends, "rows": self.rows}

    def merge(self, packed: Packed) -> None:
        self._reach(*packed["ends"])
        for place, row in enumerate(packed["rows"]):
            self._take(place, row)
