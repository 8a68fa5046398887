"""Columns as a network takes them: codes of levels to embed, and scaled numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.data.columns import Column, Columns
from miscal.recalibrate.base import Floats, Sample
from miscal.recalibrate.fitting.tables import codes_of, find

Codes = npt.NDArray[np.int32]
OTHER, MISSING, FIRST = 0, 1, 2  # places in a table of embeddings: unseen levels, missing values, the first level
FURTHEST = 10.0  # standard deviations beyond which a number counts as just so far


@dataclass(frozen=True)
class Inputs:
    """What is embedded and what is scaled; learned from the rows of fit.

    A level not seen in fit has the place OTHER, a missing value of a category the place MISSING. Numbers are centred,
    scaled and held within 10 standard deviations; a missing one is 0 beside a flag that says so.
    """

    names: list[str]
    nominal: list[bool]
    levels: list[list[Any]]
    centre: Floats  # of numeric columns, in order
    scale: Floats

    @classmethod
    def learned(cls, sample: Sample, names: list[str], nominal: set[str]) -> Inputs:
        """Look at the columns of the rows to fit on."""
        kinds, levels, centre, scale = [], [], [], []
        for name in names:
            column = sample.columns.find(name)
            embedded = column.nominal or name in nominal
            kinds.append(embedded)
            if embedded:
                column = column.as_levels()
                seen = np.unique(column.values[column.values >= 0])
                levels.append([_plain(column.levels[code]) for code in seen])
                continue
            levels.append([])
            known = column.values[~np.isnan(column.values)]
            centre.append(float(known.mean()) if known.size else 0.0)
            deviation = float(known.std()) if known.size else 0.0
            scale.append(1.0 / deviation if deviation > 1e-12 * (1.0 + abs(centre[-1])) else 0.0)
        return cls(names, kinds, levels, np.array(centre), np.array(scale))

    @property
    def sizes(self) -> list[int]:
        """Rows of each table of embeddings."""
        return [len(levels) + FIRST for levels, nominal in zip(self.levels, self.nominal, strict=True) if nominal]

    @property
    def width(self) -> int:
        """How many numbers a row has: values, then flags of missing ones."""
        return 2 * len(self.centre)

    def read(self, columns: Columns, rows: int) -> tuple[Codes, npt.NDArray[np.float32]]:
        """Codes (rows, categories) and numbers (rows, width)."""
        codes = np.empty((rows, len(self.sizes)), np.int32)
        numbers = np.zeros((rows, self.width), np.float32)
        category = number = 0
        for name, nominal, levels in zip(self.names, self.nominal, self.levels, strict=True):
            if nominal:
                codes[:, category] = _places(_category(columns, name), levels)
                category += 1
                continue
            values = find(columns, name, "numeric").values
            absent = np.isnan(values)
            scaled = np.clip((values - self.centre[number]) * self.scale[number], -FURTHEST, FURTHEST)
            numbers[:, number] = np.where(absent, 0.0, scaled)
            numbers[:, len(self.centre) + number] = absent
            number += 1
        return codes, numbers


def _category(columns: Columns, name: str) -> Column:
    column = columns.find(name)
    return find(columns, name, "nominal") if column.nominal else column.as_levels()


def _places(column: Column, levels: list[Any]) -> Codes:
    places = codes_of(column, levels, OTHER - FIRST) + FIRST
    return np.where(column.missing, MISSING, places).astype(np.int32)


def _plain(level: Any) -> Any:
    """A level as JSON can hold it; dates and the like as text."""
    level = level.item() if isinstance(level, np.generic) else level
    return level if isinstance(level, (str, int, float, bool)) else str(level)
