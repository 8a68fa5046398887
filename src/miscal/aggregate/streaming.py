"""Add all rows of a table into cells that were chosen before, in one pass; and find extremes of all rows in another.

Each request for cells gives a `Tally` with the bits that the same rows in memory give. Extremes are how far values
reach, and the largest residual of places.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from miscal.aggregate.column_roles import Batch, Chunk, ColumnRoles, array_of
from miscal.aggregate.exact_sums import ExactCellSums
from miscal.aggregate.requests import (
    SCORE,
    TOGETHER,
    ConditionCells,
    LevelCoder,
    Request,
    coders_of,
    lookups_of,
)
from miscal.aggregate.source import Aside, Packed, check_row_count
from miscal.aggregate.summary import BORDERS, weight_sums
from miscal.aggregate.tally import Tally
from miscal.cells.condition import Conjunction
from miscal.cells.partitions import Levels
from miscal.data.arrays import Array
from miscal.data.errors import refusal
from miscal.data.responses import Units

LEAST_ROWS = 1 << 14
ROOM = 16 << 20  # bytes of codes that each worker holds at a time


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A map of the score: values[i] for scores in (borders[i - 1], borders[i]]."""

    borders: Array
    values: Array


@dataclass(frozen=True, eq=False)
class StreamedSums:
    """The sums of one pass over all rows, by request: look them up with the very request that was given.

    Attributes
    ----------
    tallies : mapping of Request to Tally
        A request is absent if its column has more levels than it allows; `aside` names that column.
    recalibrated : mapping of Request to Tally
        Sums of the same rows with the recalibrated score. Empty if no recalibration was given.
    rows : int
        Rows of the table.
    ignored : int
        How many of them have weight 0 or count 0.
    weights : ndarray
        Sums of the weights by score and outcome, see `weight_sums`.
    aside : tuple of (str, str)
        Columns with more levels than allowed, with the reason.
    """

    tallies: Mapping[Request, Tally]
    recalibrated: Mapping[Request, Tally]
    rows: int
    ignored: int
    weights: Array
    aside: Aside = ()


def add_up(
    source: Any,
    roles: ColumnRoles,
    target: str | int,
    requests: Sequence[Request],
    recalibration: Recalibration | None = None,
) -> StreamedSums:
    """Add all rows of a table into the cells that are asked for.

    Parameters
    ----------
    source : what `open_source` gives
    target : which event is compared, as in `miscal.data.target.pair`
    requests : cells
    recalibration : a map of the score; the sums are then also those of the mapped score
    """
    start = partial(AddState, roles, target, tuple(requests), recalibration)
    source.check(start().columns)
    state = source.run(start)
    state.check_labels()
    rows, ignored, _ = state.totals.tolist()
    check_row_count(source, rows)
    return StreamedSums(
        tallies=state.tallies(recalibrated=False),
        recalibrated={} if recalibration is None else state.tallies(recalibrated=True),
        rows=rows,
        ignored=ignored,
        weights=state.weights,
        aside=state.aside(),
    )


@dataclass(eq=False)
class AddState:
    """Sums of some batches over the cells of every request."""

    roles: ColumnRoles
    target: str | int
    requests: tuple[Request, ...]
    recalibration: Recalibration | None = None

    def __post_init__(self) -> None:
        borders = None if self.recalibration is None else self.recalibration.borders
        self.lookups = lookups_of(self.requests, borders)
        self.recalibrated: Array | None = None  # the score after it, at each place between edges
        if self.recalibration is not None:
            number = self.lookups[SCORE].numbers(self.recalibration.borders)
            self.recalibrated = self.recalibration.values[number[:-1]]  # no score is missing
        self.coders: list[Any] = []
        self.places = []  # the numbers of each request's coders
        for request in self.requests:
            first = len(self.coders)
            self.coders += coders_of(request, self.lookups)
            self.places.append(range(first, len(self.coders)))
        counts = [coder.count for coder in self.coders]
        self.sums = ExactCellSums(counts, recalibrated=self.recalibrated is not None)
        # Classes of each batch: at most two where the event was named.
        self.labels: set[tuple[str, ...]] = set()
        self.totals = np.zeros(3, np.int64)  # rows of the table, rows left out, batches with weights
        self.weights = np.zeros((BORDERS.size + 1, 2, 5))
        asked = [name for request in self.requests for name in request.columns]
        self.columns = list(dict.fromkeys([*self.roles.added, *asked]))
        self._held = np.empty(0, np.int32)

    def add(self, chunk: Chunk) -> None:
        """Add a batch, piece by piece where the codes of many columns would take much room."""
        block = max(ROOM // (4 * len(self.coders)), LEAST_ROWS)
        for start in range(0, chunk.table.num_rows, block):
            piece = chunk.table.slice(start, block)
            here = Chunk(piece, chunk.place, chunk.first + start, chunk.row + start)
            self.add_batch(self.roles.open(here, self.target))

    def add_batch(self, batch: Batch) -> None:
        """Add the rows of a batch."""
        self.labels.add(tuple(map(str, batch.classes)))
        self.totals += [batch.chunk.table.num_rows, batch.ignored, 0]
        pair = batch.pair
        if pair.weight is not None:
            self.totals[2] += 1
            if pair.binary:
                self.weights += weight_sums(pair.weight, pair.observed, pair.predicted, pair.count)
        recalibrated = self.recalibrated
        if recalibrated is not None:
            recalibrated = recalibrated[self.lookups[SCORE].places(batch)]
        codes = self._room(batch.rows)
        for place, coder in enumerate(self.coders):
            coder.put(batch, codes[place])
            self._fit(place)
        self.sums.add(codes, pair, recalibrated)

    def _room(self, rows: int) -> Array:
        """For the codes of a batch: memory asked for anew would have to be cleared each time."""
        shape = len(self.coders), rows
        if self._held.size < shape[0] * rows:
            self._held = np.empty(shape, np.int32).ravel()
        return self._held[: shape[0] * rows].reshape(shape)

    def _fit(self, place: int) -> None:
        """Make room for levels that were not known before, and for as many again."""
        count = self.coders[place].count
        if count > self.sums.counts[place]:
            self.sums.grow(place, 2 * count)

    def check_labels(self) -> None:
        """Refuse labels that together are more than the classes."""
        labels = {label for one in self.labels for label in one if not label.startswith("not ")}
        classes = max(map(len, self.labels), default=0)
        if len(labels) > classes:
            shown = ", ".join(map(repr, sorted(labels)[:6]))
            what, where = f"must have {classes} labels", f"column '{self.roles.outcome}'"
            raise refusal(what, where, got=f"it has {len(labels):,}: {shown}")

    def arrays(self) -> Packed:
        levels = [(one.names.to_pylist(), one.overflow) for _, one in self._growing()]
        words = json.dumps([sorted(self.labels), levels])
        packed = {"totals": self.totals, "weights": self.weights}
        packed["words"] = np.frombuffer(words.encode(), np.uint8)
        return packed | self.sums.arrays()

    def _growing(self) -> list[tuple[int, LevelCoder]]:
        return [
            (place, one)
            for place, one in enumerate(self.coders)
            if isinstance(one, LevelCoder) and not one.given
        ]

    def merge(self, packed: Packed) -> None:
        labels, levels = json.loads(packed["words"].tobytes())
        self.labels |= set(map(tuple, labels))
        self.totals += packed["totals"]
        self.weights += packed["weights"]
        places = [np.arange(count) for count in packed["counts"].tolist()]
        for (place, coder), (names, overflow) in zip(self._growing(), levels, strict=True):
            coder.overflow |= overflow
            cells = coder.register_levels(array_of(names), np.arange(len(names)))[:-1]
            places[place] = np.append(0, np.maximum(cells, 0))
            self._fit(place)
        self.sums.merge(packed, places)

    def aside(self) -> Aside:
        """Columns with more levels than allowed."""
        found = [coder.request for _, coder in self._growing() if coder.overflow]
        return tuple((one.name, f"it has more than {one.max_levels:,} levels") for one in found)

    def tallies(self, *, recalibrated: bool) -> dict[Request, Tally]:
        """The tally of each request whose column does not have too many levels."""
        read = partial(self.sums.tally, weighted=bool(self.totals[2]), after=recalibrated)
        tallies: dict[Request, Tally] = {}
        for request, columns in zip(self.requests, self.places, strict=True):
            if isinstance(request, ConditionCells):
                tallies[request] = self._conditions(read, request, columns)
                continue
            (column,) = columns
            coder = self.coders[column]
            if not coder.overflow:
                cell_sums = read(column)
                tallies[request] = cell_sums.coarsen(*coder.cells(cell_sums.counts))
        return tallies

    def _conditions(self, read: Callable[..., Tally], request: ConditionCells, columns: range) -> Tally:
        """The tally of conjunctions, from the sums of the combinations in which rows satisfy them."""
        words = tuple(conjunction.words() for conjunction in request.conjunctions)
        cells = Levels(words, name="subpopulation")
        tallies = []
        for number, column in enumerate(columns):
            conjunction, combination = np.nonzero(self.coders[column].members())
            combinations = read(column).take(combination)
            tallies.append(combinations.coarsen(conjunction + TOGETHER * number, cells))
        return sum(tallies[1:], tallies[0])


def in_units(source: Any, roles: ColumnRoles) -> ColumnRoles:
    """Roles that know how far predictions and outcomes reach, so that all parts of a table are in the same units."""
    if roles.response == "binary" or roles.units is not None:
        return roles
    least, most = source.run(partial(LargestState, roles)).ends
    return replace(roles, units=Units.of(float(least), float(most)))


def largest_rows(source: Any, roles: ColumnRoles, conjunctions: Sequence[Conjunction]) -> Array:
    """Weight, prediction and outcome of the row with the largest residual of each conjunction, (conjunctions, 3)."""
    state: LargestState = source.run(partial(LargestState, roles, tuple(conjunctions)))
    return state.rows


@dataclass(eq=False)
class LargestState:
    """The smallest and the largest value of predictions and outcomes, and the largest residual of conjunctions."""

    roles: ColumnRoles
    conjunctions: tuple[Conjunction, ...] = ()

    def __post_init__(self) -> None:
        self.ends = np.zeros(2)
        self.rows = np.zeros((len(self.conjunctions), 3))
        asked = ConditionCells(self.conjunctions).columns
        self.columns = list(dict.fromkeys([*self.roles.added, *asked]))

    def add(self, chunk: Chunk) -> None:
        batch = self.roles.open(chunk)
        pair = batch.pair
        weight, _ = pair.weights
        rows = np.stack([weight, pair.predicted, pair.observed], axis=1)
        values = pair.units.back(rows[:, 1:])
        largest = np.zeros_like(self.rows)
        for place, one in enumerate(self.conjunctions):
            inside = rows[batch.inside(one)]
            if inside.size:
                largest[place] = inside[np.argmax(_residuals(inside))]
        ends = values.min(initial=0.0), values.max(initial=0.0)
        self.merge({"ends": np.array(ends), "rows": largest})

    def arrays(self) -> Packed:
        return {"ends": self.ends, "rows": self.rows}

    def merge(self, packed: Packed) -> None:
        ends = np.append(self.ends, packed["ends"])
        self.ends = np.array([ends.min(), ends.max()])
        larger = _residuals(packed["rows"]) > _residuals(self.rows)
        self.rows[larger] = packed["rows"][larger]


def _residuals(rows: Array) -> Array:
    """The sizes of weighted residuals, of weight, prediction and outcome."""
    weight, predicted, observed = rows.T
    return np.asarray(np.abs(weight * (observed - predicted)))
