"""The second test on sums of all rows: cells of columns, and of pairs of them, crossed with cells of the score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from miscal.auditing.search.along import Along, ScoreGrid, along_of_tally
from miscal.auditing.search.groups import Group, Rows
from miscal.auditing.search.parts import Part
from miscal.carriers.tally import Tally
from miscal.engines import adding
from miscal.inference.shape import LEAST_EVENTS
from miscal.pooling.cells import Levels, Product

MOST_CELLS = 1 << 17  # of one group and the score: what a pass keeps room for


def score_cells(groups: Sequence[Group], grid: ScoreGrid, scale: float) -> list[adding.CrossedCells | None]:
    """What to add up for each group; None for a pair that has too many cells.

    Of a field with very many levels those are added that have rows enough to be tested, the largest first.
    """
    along = adding.RangeCells(adding.SCORE, grid.edges)
    made: list[adding.CrossedCells | None] = []
    for group in groups:
        most = MOST_CELLS // grid.cells
        if group.count <= most:
            made.append(adding.CrossedCells((*(cells_of_part(part) for part in group.parts), along)))
        elif len(group.parts) == 1 and not group.ordered:
            part = group.parts[0]
            rows = scale * np.bincount(part.codes, minlength=part.count)[: part.known]
            chosen = np.argsort(-rows, kind="stable")[:most]
            levels = tuple(part.labels[i] for i in chosen[rows[chosen] >= 2 * LEAST_EVENTS])
            made.append(adding.CrossedCells((adding.LevelCells(part.name, levels=levels), along)))
        else:
            made.append(None)
    return made


def cells_of_part(part: Part) -> adding.RangeCells | adding.LevelCells:
    """The cells of a column as a pass over all rows is asked for them."""
    if part.edges is None:
        return adding.LevelCells(part.name, levels=part.labels)
    return adding.RangeCells(part.name, part.edges)


def along_sums(group: Group, raw: Tally | None, beyond: Tally | None, rows: Rows) -> tuple[Along, Along] | None:
    """The sums of a group along the score, its cells in its own order; levels that were not added up stay empty."""
    if raw is None or beyond is None:
        return None
    assert isinstance(raw.cells, Product)
    *parts, score = raw.cells.parts
    shape = tuple(part.count for part in raw.cells.parts)
    places = [_places(own, cells) for own, cells in zip(group.parts, parts, strict=True)]

    def moved(values: np.ndarray) -> np.ndarray:
        made = np.zeros((*group.shape, score.count))
        kept = [np.flatnonzero(place >= 0) for place in places]
        made[np.ix_(*(place[one] for place, one in zip(places, kept, strict=True)))] = values[np.ix_(*kept)]
        return made.reshape(group.count, score.count)

    one, two = (along_of_tally(tally, rows, shape).map(moved) for tally in (raw, beyond))
    return one, two


def _places(part: Part, cells: object) -> np.ndarray:
    """The cell of a part that each cell of a tally is; -1 where it has none."""
    missing = part.known if part.missing else -1
    if isinstance(cells, Levels):
        known = {name: i for i, name in enumerate(part.labels)}
        return np.array([*(known.get(name, -1) for name in cells.names), *[missing] * cells.missing], np.int64)
    return np.append(np.arange(part.known), [missing] * (cells.count - part.known)).astype(np.int64)  # type: ignore[attr-defined]
