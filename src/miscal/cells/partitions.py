"""What the cells of a tally are: ranges of a number, levels of a field, or products of such; and the cell of each row.

Rows find their cell block by block, so that no array of codes as long as the data is needed.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product

import numpy as np

from miscal.cells.ranges import bin_index
from miscal.data.arrays import Array, Plain

MISSING = "(missing)"


OF_SCORE = "\0score"  # the name of ranges of the prediction, which no column has


def label_of(level: str) -> str:
    """What a level is called: in quotes where that is what missing values are called.

    >>> label_of("(missing)"), level_of(label_of("(missing)")), level_of("(missing)")
    ('"(missing)"', '(missing)', None)
    """
    return f'"{level}"' if level.strip('"') == MISSING else level


def level_of(label: str) -> str | None:
    """The level that a cell has by its label; None for missing values."""
    return None if label == MISSING else label[1:-1] if label.strip('"') == MISSING else label


@dataclass(frozen=True)
class Ranges:
    """Right-closed ranges between increasing edges, with one more cell for missing values if `missing`."""

    edges: Array
    missing: bool = False
    name: str = ""

    @cached_property
    def count(self) -> int:
        return len(self.edges) - 1 + self.missing

    def labels(self) -> list[str]:
        single = self.edges[0] == np.nextafter(self.edges[1], -np.inf)  # the lowest range holds one value
        given = self.edges[1:] if single else self.edges
        edges = [f"{edge:.6g}" for edge in given]
        if len(set(edges)) < len(edges):
            edges = [repr(float(edge)) for edge in given]
        edges = [edges[0], *edges] if single else edges
        names = [f"({low}, {high}]" for low, high in pairwise(edges)]
        names[0] = "[" + names[0][1:]
        return names + [MISSING] * self.missing

    def describe(self) -> Plain:
        edges = [float(edge).hex() for edge in self.edges]
        return {"kind": "ranges", "name": self.name, "edges": edges, "missing": self.missing}


@dataclass(frozen=True)
class Levels:
    """Levels of a field, with one more cell for missing values if `missing`. Tallies of levels merge by name."""

    names: tuple[str, ...]
    missing: bool = False
    name: str = ""

    @cached_property
    def count(self) -> int:
        return len(self.names) + self.missing

    def labels(self) -> list[str]:
        return [*map(label_of, self.names)] + [MISSING] * self.missing

    def describe(self) -> Plain:
        return {"kind": "levels", "name": self.name, "names": self.names, "missing": self.missing}


@dataclass(frozen=True)
class Numbered:
    """Levels known by number alone; places that no row has are empty cells."""

    count: int

    def labels(self) -> list[str]:
        return [str(number) for number in range(self.count)]

    def describe(self) -> Plain:
        return {"kind": "numbered", "name": "", "count": self.count}


@dataclass(frozen=True)
class Product:
    """Every combination of the parts' cells, the last part running fastest."""

    parts: tuple[Cells, ...]

    @cached_property
    def count(self) -> int:
        return math.prod(part.count for part in self.parts)

    def labels(self) -> list[str]:
        named = [
            [f"{part.describe()['name']} {label}".strip() for label in part.labels()] for part in self.parts
        ]
        return [" and ".join(labels) for labels in product(*named)]

    def describe(self) -> Plain:
        return {"kind": "product", "name": "", "parts": [part.describe() for part in self.parts]}


# How many, what they are called, and a description of them, which says when tallies may be added.
Cells = Ranges | Levels | Numbered | Product


def digest_of(content: object) -> str:
    """A short digest of plain data, such as what cells are: the same on any machine."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


@dataclass(frozen=True)
class BinPooling:
    """Rows pooled by the range their value lies in; missing values (NaN) in the last cell."""

    values: Array
    cells: Ranges
    even: bool = False  # whether the edges are equally wide: a quicker index

    def codes(self, start: int = 0, stop: int | None = None) -> Array:
        values = self.values[start:stop]
        codes = bin_index(values, self.cells.edges)
        if self.cells.missing:
            codes[np.isnan(values)] = self.cells.count - 1
        return codes


@dataclass(frozen=True)
class LevelPooling:
    """Rows pooled by cells given as codes; -1 is a missing level and goes to the last cell."""

    level_codes: Array
    cells: Levels | Numbered | Product

    def codes(self, start: int = 0, stop: int | None = None) -> Array:
        codes, missing = self.level_codes[start:stop], isinstance(self.cells, Levels) and self.cells.missing
        return np.where(codes < 0, self.cells.count - 1, codes) if missing else codes


Pooling = BinPooling | LevelPooling  # cells, and the cell of each row in a block
