"""The second test of every place: how it errs along the score, by sums in cells of place and score.

The sums add, so that they are the same in memory, in parts and on a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from miscal.carriers.tally import Tally
from miscal.engines.memory import mean_tally, tally
from miscal.inference.residual import LEAST_EVENTS, Shape, shape_test
from miscal.inference.sums import Floats, Sums
from miscal.kernels.order import add_stretches
from miscal.pairs import Pair
from miscal.pooling.bins import bin_index
from miscal.pooling.cells import LevelPooling, Numbered

if TYPE_CHECKING:
    from miscal.auditing.search.groups import Group, Rows

CELLS = 32  # of the score, of about equal weight
MOST_CELLS = 1 << 20  # of place and score; beyond, only places that have enough rows to be tested


@dataclass(frozen=True, eq=False)
class ScoreGrid:
    """Cells of the score: their edges, and the cell of each row."""

    edges: np.ndarray
    codes: np.ndarray

    @property
    def cells(self) -> int:
        return self.edges.size - 1


@dataclass(frozen=True, eq=False)
class Along:
    """Sums of places in cells of the score, arrays (..., cells of the score).

    noise : variance of Σw(y - p);  usual : its least, where outcomes are no events, else 0
    """

    rows: Floats
    weight: Floats
    predicted: Floats
    observed: Floats
    noise: Floats
    usual: Floats

    @property
    def variance(self) -> Floats:
        """Variance of Σw(y - p)."""
        return np.maximum(self.noise, self.usual)

    @property
    def off(self) -> Floats:
        """Σw(p - y)."""
        return self.predicted - self.observed

    @property
    def test(self) -> Shape:
        """Whether they err along the score."""
        return shape_test(self.off, self.variance)

    def map(self, change: Any) -> Along:
        """The same change made to each of the sums."""
        return Along(*map(change, vars(self).values()))


class Both(NamedTuple):
    """Sums along the score, as predicted and beyond the score."""

    raw: Along
    beyond: Along

    def map(self, change: Any) -> Both:
        """The same change made to both."""
        return Both(self.raw.map(change), self.beyond.map(change))


def score_grid(compared: Pair, cells: int = CELLS) -> ScoreGrid:
    """Cells of about equal weight; tied scores are never split."""
    share = np.linspace(0.0, 1.0, cells + 1)[1:-1]
    inner = np.unique(np.quantile(compared.predicted, share))
    inner = inner[(inner > 0.0) & (inner < 1.0)]
    edges = np.concatenate([[0.0], inner, [1.0]])
    return ScoreGrid(edges, bin_index(compared.predicted, edges).astype(np.int16))


def along_of(rows: Rows, codes: np.ndarray, places: int) -> Both:
    """Sums of all rows in cells of place and score, (places, cells of the score)."""
    grid = rows.grid
    assert grid is not None
    crossed = codes.astype(np.int32) * np.int32(grid.cells) + grid.codes
    pooling = LevelPooling(crossed, Numbered(places * grid.cells))

    def added(pair: Pair) -> Along:
        plain = pair.plain and pair.binary and rows.noise.null == "bernoulli"
        made = mean_tally(pair, pooling) if plain else tally(pair, pooling)
        return along_of_tally(made, rows, (places, grid.cells))

    return Both(added(rows.raw), added(rows.beyond))


def along_of_tally(made: Tally, rows: Rows, shape: tuple[int, ...]) -> Along:
    """The sums of a tally of places and cells of the score."""
    sums = [np.asarray(values, dtype=np.float64) for values in (made.rows, made.weight, made.predicted, made.observed)]
    if "variance" in made.columns:
        noise = made.residual2 if rows.noise.null == "residual" else made.variance
    else:  # scores of one cell taken for their mean, which overstates their noise and never understates it
        noise = sums[2] * (1.0 - sums[2] / np.maximum(sums[1], 1e-300))
    spread = rows.noise.spread
    usual = 0.0 * noise if spread is None else spread.floor(Sums.of(made), narrow=True) * rows.spread
    return Along(*(values.reshape(shape) for values in (*sums, np.maximum(noise, 0.0) * rows.spread, usual)))


def alongs(group: Group, rows: Rows, cells: np.ndarray | None = None) -> Both:
    """How cells of a group err along the score, as predicted and beyond the score; `cells` picks some of them."""
    if group.along is not None:
        return group.along if cells is None else group.along.map(lambda values: _picked(values, cells, group.seen))
    codes, count = group.codes(), group.count
    if cells is not None:
        table = np.full(count + 1, cells.size)
        table[cells] = np.arange(cells.size)
        codes, count = table[codes], cells.size
    rest = group.some or cells is not None  # rows in no cell that is asked for
    both = along_of(rows, codes, count + rest)
    return both.map(lambda values: values[:count]) if rest else both


def _picked(values: Floats, cells: np.ndarray, seen: np.ndarray | None) -> Floats:
    """The sums of some cells; nothing where a cell is not among those seen."""
    if seen is None:
        return values.take(cells, axis=0)
    places = np.minimum(np.searchsorted(seen, cells), seen.size - 1)
    known = np.equal(seen[places], cells)
    return np.where(known[:, np.newaxis], values[places], 0.0)


def testable(group: Group) -> np.ndarray | None:
    """The cells that have enough rows to be tested along the score; None for all, where that is not too many."""
    if group.along is not None or group.count * CELLS <= MOST_CELLS:
        return group.seen
    return np.flatnonzero(group.raw.rows >= 2 * LEAST_EVENTS)


def tested(along: Along, rows: Rows) -> Shape:
    """The test of places, NaN where too few events are expected on either side."""
    return _with_enough(along.test, rows, *(values.sum(axis=-1) for values in _totals(along)))


def tested_boxes(along: Along, rows: Rows, group: Group) -> Shape:
    """The test of every box of the cells of a group: of its sums only those that the test reads are added up."""

    def boxes(values: Floats) -> Floats:
        return over_stretches(values.reshape(*group.shape, *values.shape[1:]), group.runs)

    variance = boxes(along.noise)
    if along.usual.any():
        variance = np.maximum(variance, boxes(along.usual))
    totals = (boxes(values.sum(axis=-1)) for values in _totals(along))
    return _with_enough(shape_test(boxes(along.off), variance), rows, *totals)


def _totals(along: Along) -> tuple[Floats, Floats, Floats]:
    return along.rows, along.weight, along.predicted


def _with_enough(found: Shape, rows: Rows, count: Floats, weight: Floats, predicted: Floats) -> Shape:
    rate = predicted / np.maximum(weight, 1e-300) if rows.noise.binary else 0.5
    enough = count * rows.kish * np.minimum(rate, 1.0 - rate) >= LEAST_EVENTS
    return Shape(np.where(enough, found.p_value, np.nan), found.moment)


def over_stretches(values: Floats, cells: Sequence[int]) -> Floats:
    """Sums over the stretches of each of the first axes: `cells` says how many cells are joined, 0: none."""
    for axis, size in enumerate(cells):
        if size:
            before, after = values.shape[:axis], values.shape[axis + 1 :]
            known = np.ascontiguousarray(values[(slice(None),) * axis + (slice(0, size),)])
            made = np.empty((*before, size * (size + 1) // 2, *after))
            flat = math.prod(before), -1, math.prod(after)
            add_stretches(known.reshape(flat), made.reshape(flat))
            values = made
    return values
