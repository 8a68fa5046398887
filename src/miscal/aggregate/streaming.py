"""Add all rows of a table into cells that were chosen before, in one pass; and find extremes of all rows in another.

Each request for cells gives a `Tally` with the bits that the same rows in memory give. Extremes are the range of the
predicted and observed values, and the row with the largest residual of each segment.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from miscal.aggregate.column_roles import Batch, Chunk, ColumnRoles, level_array
from miscal.aggregate.exact_sums import ExactCellSums
from miscal.aggregate.requests import (
    CONJUNCTIONS_PER_CODER,
    SCORE,
    ConditionCells,
    LevelCoder,
    Request,
    coders_of,
    edge_positions,
)
from miscal.aggregate.source import Excluded, Packed, check_row_count
from miscal.aggregate.summary import BORDERS, weight_sums
from miscal.aggregate.tally import Tally
from miscal.cells.condition import Conjunction
from miscal.cells.partitions import Levels
from miscal.data.arrays import Array
from miscal.data.errors import refusal
from miscal.data.responses import Units

MIN_PIECE_ROWS = 1 << 14
CODE_BYTES = 16 << 20  # of codes that each worker holds at a time


@dataclass(frozen=True, eq=False)
class Recalibration:
    """A step function of the score.

    Attributes
    ----------
    borders : ndarray
        Increasing scores.
    values : ndarray
        values[i] is the recalibrated score of scores in (borders[i - 1], borders[i]].
    """

    borders: Array
    values: Array


@dataclass(frozen=True, eq=False)
class StreamedSums:
    """The sums of one pass over all rows, by request: look them up with the very request that was given.

    Attributes
    ----------
    tallies : mapping of Request to Tally
        A request is absent if its column has more levels than it allows; `excluded` names that column.
    recalibrated : mapping of Request to Tally
        Sums of the same rows with the recalibrated score. Empty if no recalibration was given.
    rows : int
        Rows of the table.
    ignored : int
        How many of them have weight 0 or count 0.
    weights : ndarray
        Sums of the weights by score and outcome, see `weight_sums`.
    excluded : tuple of (str, str)
        Columns with more levels than allowed, with the reason.
    """

    tallies: Mapping[Request, Tally]
    recalibrated: Mapping[Request, Tally]
    rows: int
    ignored: int
    weights: Array
    excluded: Excluded = ()


def add_up(
    source: Any,
    roles: ColumnRoles,
    target: str | int,
    requests: Sequence[Request],
    recalibration: Recalibration | None = None,
) -> StreamedSums:
    """Add all rows of a table into the requested cells, in one pass.

    Parameters
    ----------
    source : Source
        What `open_source` returned.
    roles : ColumnRoles
    target : str or int
        The event that is compared, as in `miscal.data.target.select_target`.
    requests : sequence of Request
        The cells.
    recalibration : Recalibration, optional
        The same cells are then also summed with the recalibrated score.

    Returns
    -------
    StreamedSums
    """
    start = partial(CellSumsState, roles, target, tuple(requests), recalibration)
    source.check_columns(start().columns)
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
        excluded=state.excluded(),
    )


@dataclass(eq=False)
class CellSumsState:
    """Sums of some batches over the cells of every request."""

    roles: ColumnRoles
    target: str | int
    requests: tuple[Request, ...]
    recalibration: Recalibration | None = None

    def __post_init__(self) -> None:
        borders = None if self.recalibration is None else self.recalibration.borders
        self.positions = edge_positions(self.requests, borders)
        self.recalibrated: Array | None = None  # the recalibrated score at each position between edges
        if self.recalibration is not None:
            step = self.positions[SCORE].range_numbers(self.recalibration.borders)
            self.recalibrated = self.recalibration.values[step[:-1]]  # no score is missing
        self.coders: list[Any] = []
        self.coder_numbers = []  # of each request
        for request in self.requests:
            first = len(self.coders)
            self.coders += coders_of(request, self.positions)
            self.coder_numbers.append(range(first, len(self.coders)))
        counts = [coder.count for coder in self.coders]
        self.sums = ExactCellSums(counts, recalibrated=self.recalibrated is not None)
        # Classes of each batch: at most two if the event was named.
        self.labels: set[tuple[str, ...]] = set()
        self.totals = np.zeros(3, np.int64)  # rows of the table, rows left out, batches with weights
        self.weights = np.zeros((BORDERS.size + 1, 2, 5))
        requested = [name for request in self.requests for name in request.columns]
        self.columns = list(dict.fromkeys([*self.roles.summed_columns, *requested]))
        self._code_buffer = np.empty(0, np.int32)

    def add(self, chunk: Chunk) -> None:
        """Add a chunk, in pieces if the codes of many columns would take much memory."""
        piece_rows = max(CODE_BYTES // (4 * len(self.coders)), MIN_PIECE_ROWS)
        for start in range(0, chunk.table.num_rows, piece_rows):
            piece = Chunk(
                chunk.table.slice(start, piece_rows),
                chunk.location,
                chunk.row_in_part + start,
                chunk.row_in_table + start,
            )
            self.add_batch(self.roles.open(piece, self.target))

    def add_batch(self, batch: Batch) -> None:
        """Add the rows of a batch."""
        self.labels.add(tuple(map(str, batch.classes)))
        self.totals += [batch.chunk.table.num_rows, batch.ignored, 0]
        target_data = batch.target_data
        if target_data.weight is not None:
            self.totals[2] += 1
            if target_data.binary:
                self.weights += weight_sums(
                    target_data.weight, target_data.observed, target_data.predicted, target_data.count
                )
        recalibrated = self.recalibrated
        if recalibrated is not None:
            recalibrated = recalibrated[self.positions[SCORE].positions(batch)]
        codes = self._codes_of(batch.rows)
        for column, coder in enumerate(self.coders):
            coder.put(batch, codes[column])
            self._fit_levels(column)
        self.sums.add(codes, target_data, recalibrated)

    def _codes_of(self, rows: int) -> Array:
        """A buffer for the codes of a batch, reused: newly allocated memory would be cleared each time."""
        shape = len(self.coders), rows
        if self._code_buffer.size < shape[0] * rows:
            self._code_buffer = np.empty(shape, np.int32).ravel()
        return self._code_buffer[: shape[0] * rows].reshape(shape)

    def _fit_levels(self, column: int) -> None:
        """Make room for levels that were not known before, and for as many again."""
        count = self.coders[column].count
        if count > self.sums.counts[column]:
            self.sums.grow(column, 2 * count)

    def check_labels(self) -> None:
        """Reject an outcome whose batches together have more labels than there are classes."""
        labels = {label for classes in self.labels for label in classes if not label.startswith("not ")}
        n_classes = max(map(len, self.labels), default=0)
        if len(labels) > n_classes:
            shown = ", ".join(map(repr, sorted(labels)[:6]))
            what, where = f"must have {n_classes} labels", f"column '{self.roles.outcome}'"
            raise refusal(what, where, got=f"it has {len(labels):,}: {shown}")

    def arrays(self) -> Packed:
        """Everything, as arrays by name."""
        levels = [(coder.names.to_pylist(), coder.overflow) for _, coder in self._growing_coders()]
        text = json.dumps([sorted(self.labels), levels])
        packed = {"totals": self.totals, "weights": self.weights}
        packed["text"] = np.frombuffer(text.encode(), np.uint8)
        return packed | self.sums.arrays()

    def _growing_coders(self) -> list[tuple[int, LevelCoder]]:
        """The coders to which levels are added as they occur, with their numbers."""
        return [
            (column, coder)
            for column, coder in enumerate(self.coders)
            if isinstance(coder, LevelCoder) and not coder.given
        ]

    def merge(self, packed: Packed) -> None:
        """Add what another state packed; levels are matched by name."""
        labels, levels = json.loads(packed["text"].tobytes())
        self.labels |= set(map(tuple, labels))
        self.totals += packed["totals"]
        self.weights += packed["weights"]
        positions = [np.arange(count) for count in packed["counts"].tolist()]
        for (column, coder), (names, overflow) in zip(self._growing_coders(), levels, strict=True):
            coder.overflow |= overflow
            cells = coder.register_levels(level_array(names), np.arange(len(names)))[:-1]
            positions[column] = np.append(0, np.maximum(cells, 0))
            self._fit_levels(column)
        self.sums.merge(packed, positions)

    def excluded(self) -> Excluded:
        """Columns with more levels than allowed."""
        requests = [coder.request for _, coder in self._growing_coders() if coder.overflow]
        return tuple(
            (request.name, f"it has more than {request.max_levels:,} levels") for request in requests
        )

    def tallies(self, *, recalibrated: bool) -> dict[Request, Tally]:
        """The tally of each request whose column does not have too many levels."""
        read = partial(self.sums.tally, weighted=bool(self.totals[2]), recalibrated=recalibrated)
        tallies: dict[Request, Tally] = {}
        for request, columns in zip(self.requests, self.coder_numbers, strict=True):
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
            conjunction, combination = np.nonzero(self.coders[column].membership())
            combinations = read(column).take(combination)
            tallies.append(combinations.coarsen(conjunction + CONJUNCTIONS_PER_CODER * number, cells))
        return sum(tallies[1:], tallies[0])


def with_units(source: Any, roles: ColumnRoles) -> ColumnRoles:
    """Roles with the units of predicted and observed means, so that all parts of a table are in the same units."""
    if roles.response == "binary" or roles.units is not None:
        return roles
    smallest, largest = source.run(partial(LargestResidualState, roles)).ends
    return replace(roles, units=Units.of(float(smallest), float(largest)))


def largest_residual_rows(source: Any, roles: ColumnRoles, conjunctions: Sequence[Conjunction]) -> Array:
    """Weight, predicted and observed of the row with the largest residual of each conjunction, (conjunctions, 3)."""
    state: LargestResidualState = source.run(partial(LargestResidualState, roles, tuple(conjunctions)))
    return state.rows


@dataclass(eq=False)
class LargestResidualState:
    """The smallest and the largest predicted or observed value, and the largest residual of each conjunction.

    Attributes
    ----------
    ends : ndarray, (2,)
        Smallest and largest value.
    rows : ndarray, (conjunctions, 3)
        Weight, predicted and observed of the row with the largest residual.
    """

    roles: ColumnRoles
    conjunctions: tuple[Conjunction, ...] = ()

    def __post_init__(self) -> None:
        self.ends = np.zeros(2)
        self.rows = np.zeros((len(self.conjunctions), 3))
        requested = ConditionCells(self.conjunctions).columns
        self.columns = list(dict.fromkeys([*self.roles.summed_columns, *requested]))

    def add(self, chunk: Chunk) -> None:
        """Add a chunk."""
        batch = self.roles.open(chunk)
        target_data = batch.target_data
        weight, _ = target_data.all_weights
        rows = np.stack([weight, target_data.predicted, target_data.observed], axis=1)
        values = target_data.units.back(rows[:, 1:])
        largest = np.zeros_like(self.rows)
        for number, conjunction in enumerate(self.conjunctions):
            inside = rows[batch.satisfies(conjunction)]
            if inside.size:
                largest[number] = inside[np.argmax(_residual_sizes(inside))]
        ends = values.min(initial=0.0), values.max(initial=0.0)
        self.merge({"ends": np.array(ends), "rows": largest})

    def arrays(self) -> Packed:
        """Everything, as arrays by name."""
        return {"ends": self.ends, "rows": self.rows}

    def merge(self, packed: Packed) -> None:
        """Add what another state packed."""
        ends = np.append(self.ends, packed["ends"])
        self.ends = np.array([ends.min(), ends.max()])
        larger = _residual_sizes(packed["rows"]) > _residual_sizes(self.rows)
        self.rows[larger] = packed["rows"][larger]


def _residual_sizes(rows: Array) -> Array:
    """The absolute weighted residual of each row of weight, predicted and observed."""
    weight, predicted, observed = rows.T
    return np.asarray(np.abs(weight * (observed - predicted)))
