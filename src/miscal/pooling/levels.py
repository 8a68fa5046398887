"""Named levels of fields that are crossed or nested: the combinations that occur, and the ancestors of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from miscal.data.columns import Column
from miscal.pooling.cells import Levels
from miscal.pooling.columns import level_pooling, range_pooling
from miscal.pooling.fields import Bins
from miscal.pooling.poolings import LevelPooling, Pooling

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Nested:
    """Levels with their ancestors: for each height, from the nearest up, the ancestor's code and name of each level."""

    pooling: Pooling
    ancestors: tuple[Integers, ...] = ()
    names: tuple[tuple[str, ...], ...] = ()
    parts: tuple[tuple[str, ...], ...] = ()  # of crossed fields: each level's part by part


def nested_levels(columns: Sequence[Column], parents: Sequence[Column] = (), bins: Bins = None) -> Nested:
    """Levels of crossed fields, nested in parents given from the outermost to the nearest.

    Examples
    --------
    >>> from miscal.data.columns import column
    >>> made = nested_levels([column("campaign", [1, 2, 1])], [column("advertiser", ["b", "b", "a"])])
    >>> made.pooling.cells.labels()
    ['a > 1', 'b > 1', 'b > 2']
    """
    own = [_named(column, bins) for column in columns]
    above = [_named(column, bins) for column in parents]
    if len(own) == 1 and not above:
        return Nested(own[0])
    rows = len(columns[0])
    heights: list[Integers] = []  # codes of rows: the outermost ancestor, the next within it, ..., the level
    for parts in [*([part] for part in above), own]:
        codes = heights[-1] if heights else np.zeros(rows, np.int64)
        for part in parts:
            codes = np.unique(codes * part.cells.count + part.codes(0, rows), return_inverse=True)[1].astype(np.int64)
        heights.append(codes)
    row = np.unique(heights[-1], return_index=True)[1]  # one row of each level
    mine = [_texts(part, row) for part in own]
    ancestors: list[Integers] = []
    names: list[tuple[str, ...]] = []
    path = [""] * row.size
    for part, codes in zip(above, heights, strict=False):
        texts = _texts(part, row)
        path = [f"{one} > {two}" if one else two for one, two in zip(path, texts, strict=True)]
        ancestors.insert(0, codes[row])
        names.insert(0, tuple(path))
    full = _joined([column.name for column in columns], mine)
    full = [f"{one} > {two}" if one else two for one, two in zip(path, full, strict=True)]
    levels = Levels(tuple(full), name=" and ".join(column.name for column in [*parents, *columns]))
    crossed = tuple(tuple(part) for part in mine) if len(own) > 1 else ()
    return Nested(LevelPooling(heights[-1], levels), tuple(ancestors), tuple(names), crossed)


def _named(column: Column, bins: Bins) -> Pooling:
    if bins is not None and not column.nominal:
        return range_pooling(column, bins)
    return level_pooling(column)


def _texts(part: Pooling, rows: Integers) -> list[str]:
    """Names of a part's levels at some rows."""
    labels = part.cells.labels()
    return [labels[code] for code in part.codes(0, int(rows.max()) + 1)[rows].tolist()]


def _joined(names: Sequence[str], texts: Sequence[Sequence[str]]) -> list[str]:
    """'state CA and sex f' for crossed fields, 'CA' for one."""
    if len(texts) == 1:
        return list(texts[0])
    return [
        " and ".join(f"{name} {text}".strip() for name, text in zip(names, row, strict=True))
        for row in zip(*texts, strict=True)
    ]
