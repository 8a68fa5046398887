"""One scan for many metrics: what the first and the second pass add, as jobs that any engine can run.

A job is a plain, picklable description; `start` gives an empty state, `add` puts a batch into it, `arrays` packs it and
`merge` adds what another worker packed. Nothing but packed states ever leaves a worker.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from miscal.data.errors import refusal
from miscal.data.vectors import locked
from miscal.engines.buckets import KeyMap, KeySums
from miscal.engines.cells import CellSums, FieldSums
from miscal.engines.keys import Cuts
from miscal.engines.packed import PackedSums, TwinSums
from miscal.engines.rows import Batch, Door
from miscal.engines.seeds import sampled_rows

SCORE = ""  # the key that is the prediction itself
SKETCH_SHIFT = 2  # buckets of the score that share a cell of its sketch: 4
Packed = dict[str, np.ndarray]


class State(Protocol):
    """Sums of some batches."""

    def add(self, batch: Batch) -> None:
        """Add a batch."""

    def arrays(self) -> Packed:
        """Everything, as arrays by name."""

    def merge(self, packed: Packed) -> None:
        """Add what another state packed."""


class Job(Protocol):
    """What a pass adds."""

    @property
    def door(self) -> Door:
        """How its batches are opened."""

    @property
    def columns(self) -> list[str]:
        """Columns that it reads."""

    def start(self) -> State:
        """An empty state."""


def _under(packed: Packed, head: str) -> Packed:
    return {name[len(head) :]: values for name, values in packed.items() if name.startswith(head)}


def _text(value: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _value(packed: np.ndarray) -> Any:
    return json.loads(packed.tobytes())


def values_of(batch: Batch, key: str) -> np.ndarray:
    """The values of a key: the prediction, or a column."""
    return batch.pair.predicted if key == SCORE else batch.numbers(key)


@dataclass(frozen=True, eq=False)
class FirstPass:
    """Buckets of every key, the levels of the fields and their rows; with weights, the sketch of the score."""

    door: Door
    maps: dict[str, KeyMap]
    fields: dict[str, bool] = field(default_factory=dict)  # name: whether it holds truth values
    most_levels: int = 1_000_000
    sketch: bool = True

    @property
    def columns(self) -> list[str]:
        return self.door.and_columns([*(key for key in self.maps if key != SCORE), *self.fields])

    def start(self) -> FirstState:
        return FirstState(self)


class FirstState:
    """Sums of the first pass."""

    def __init__(self, job: FirstPass) -> None:
        self.job = job
        self.keys = {key: KeySums(made.count) for key, made in job.maps.items()}
        self.fields = {name: FieldSums(name, job.most_levels, boolean=truth) for name, truth in job.fields.items()}
        self.sketch = CellSums((job.maps[SCORE].count >> SKETCH_SHIFT) + 1) if job.sketch else None
        # Smallest and largest weight of non-events and events: whether weights differ, and depend on the outcome.
        self.weights = np.array([[np.inf, -np.inf, 0.0]] * 2)
        self.labels: set[str] = set()
        self.totals = np.zeros(2, np.int64)  # rows of the table, rows left out

    def add(self, batch: Batch) -> None:
        pair = batch.pair
        for key, sums in self.keys.items():
            sums.add(values_of(batch, key), self.job.maps[key], batch)
        if self.sketch is not None and not pair.plain:
            self.sketch.add(self.job.maps[SCORE].codes(pair.predicted) >> SKETCH_SHIFT, pair)
        for each in self.fields.values():
            each.count(batch)
        if pair.weight is not None:
            for outcome in (0, 1):
                inside = pair.weight[pair.observed == outcome]
                if inside.size:
                    low, high, rows = self.weights[outcome]
                    self.weights[outcome] = min(low, inside.min()), max(high, inside.max()), rows + inside.size
        self.labels.add(json.dumps([str(label) for label in batch.classes]))
        self.totals += (batch.rows, batch.ignored)

    def arrays(self) -> Packed:
        packed = {"weights": self.weights, "labels": _text(sorted(self.labels)), "totals": self.totals}
        for place, sums in enumerate(self.keys.values()):
            packed |= {f"key{place}:{name}": values for name, values in sums.arrays().items()}
        for place, each in enumerate(self.fields.values()):
            packed[f"names{place}"] = _text(each.names)
            packed |= {f"field{place}:{name}": values for name, values in each.sums.arrays().items()}
        if self.sketch is not None:
            packed |= {f"sketch:{name}": values for name, values in self.sketch.arrays().items()}
        return packed

    def merge(self, packed: Packed) -> None:
        other = packed["weights"]
        self.weights[:, 0] = np.minimum(self.weights[:, 0], other[:, 0])
        self.weights[:, 1] = np.maximum(self.weights[:, 1], other[:, 1])
        self.weights[:, 2] += other[:, 2]
        self.labels |= set(_value(packed["labels"]))
        self.totals += packed["totals"]
        for place, sums in enumerate(self.keys.values()):
            sums.merge(_under(packed, f"key{place}:"))
        for place, each in enumerate(self.fields.values()):
            each.merge(_value(packed[f"names{place}"]), _under(packed, f"field{place}:"))
        if self.sketch is not None:
            self.sketch.merge(_under(packed, "sketch:"))

    @property
    def unequal(self) -> bool:
        """Whether weights differ."""
        return bool(self.weights[:, 0].min() < self.weights[:, 1].max())

    @property
    def outcome_weights(self) -> bool:
        """Whether weights are constant within each outcome and differ between them."""
        low, high, rows = self.weights.T
        if not self.unequal or rows.min() < 2 or np.any(high - low > 1e-9 * low):
            return False
        return bool(low.max() > low.min() * (1.0 + 1e-9))

    def check_labels(self, where: str) -> None:
        """Refuse batches whose labels together are more than two: each batch by itself had at most two."""
        found = {label for text in self.labels for label in json.loads(text) if not label.startswith("not ")}
        classes = max(len(json.loads(text)) for text in self.labels) if self.labels else 0
        if self.labels and len(found) > classes:
            shown = ", ".join(repr(label) for label in sorted(found)[:6])
            raise refusal(f"must have {classes} labels", where=where, got=f"it has {len(found):,}: {shown}")


@dataclass(frozen=True, eq=False)
class FieldCells:
    """The levels of a field as the first pass found them, and which of its cells have few rows (they are pulled)."""

    names: tuple[str, ...]
    small: np.ndarray
    cells: int


class Extra(Protocol):
    """Further cells of the rows, tallied beside those of keys and fields."""

    @property
    def columns(self) -> list[str]:
        """Columns that it reads."""

    def cells(self) -> list[int]:
        """How many cells each tally has."""

    def fill(self, batch: Batch, codes: np.ndarray) -> None:
        """Write the cell of each row, (tallies, rows) int32; the number of cells itself means none."""


@dataclass(frozen=True, eq=False)
class SecondPass:
    """Segments of every key and cells of every field, as predicted and beyond the score; rows pulled; a sample."""

    door: Door
    keys: dict[str, tuple[KeyMap, Cuts]]
    fields: dict[str, FieldCells]
    score: KeyMap
    mended: np.ndarray  # the recalibrated score of each cell of the sketch; empty: nothing beyond the score
    step: int  # one row in so many is in the sample; 0: none
    extra: Extra | None = None

    @property
    def columns(self) -> list[str]:
        more = [] if self.extra is None else self.extra.columns
        names = [*self.door.columns, *(key for key in self.keys if key != SCORE), *self.fields, *more]
        return list(dict.fromkeys(names))

    def start(self) -> SecondState:
        return SecondState(self)


class _Lists:
    """Columns that grow by pieces."""

    def __init__(self) -> None:
        self.pieces: dict[str, list[np.ndarray]] = {}

    def add(self, **columns: np.ndarray | None) -> None:
        for name, values in columns.items():
            if values is not None:
                # A view would keep the whole batch alive.
                own = values if values.base is None else np.array(values)
                self.pieces.setdefault(name, []).append(own)

    def arrays(self) -> Packed:
        return {name: np.concatenate(pieces) for name, pieces in self.pieces.items()}

    def merge(self, packed: Packed) -> None:
        self.add(**packed)


class SecondState:
    """Sums of the second pass."""

    def __init__(self, job: SecondPass) -> None:
        self.job = job
        self.keys = {key: (TwinSums(cuts.segments), _Lists()) for key, (_, cuts) in job.keys.items()}
        self.fields = {name: (TwinSums(each.cells), _Lists()) for name, each in job.fields.items()}
        self.sketch = TwinSums((job.score.count >> SKETCH_SHIFT) + 1)
        self.places = {
            name: FieldSums(name, len(each.names) + 1, names=each.names) for name, each in job.fields.items()
        }
        self.extra = [] if job.extra is None else [TwinSums(count) for count in job.extra.cells()]
        self.sample = _Lists()
        self.rows = np.zeros(1, np.int64)
        self.packed: PackedSums | None = None

    def add(self, batch: Batch) -> None:
        self.rows += batch.rows
        values = {key: values_of(batch, key) for key in self.job.keys}
        add = self._add_plain if batch.pair.plain else self._add_any
        picked, cells = add(batch, values)
        for key, (made, _) in self.job.keys.items():
            chosen = values[key][picked[key]]
            self._pull(self.keys[key][1], picked[key], batch, bucket=made.codes(chosen), value=chosen)
        for name, each in self.job.fields.items():
            if each.small.any():
                rows = np.flatnonzero(each.small[cells[name]])
                self._pull(self.fields[name][1], rows, batch, cell=cells[name][rows])
        if self.job.step:
            rows = sampled_rows(batch, self.job.step)
            sampled = {f"v:{key}": values[key][rows] for key in values if key != SCORE}
            sampled |= {f"f:{name}": cells[name][rows] for name in cells}
            self._pull(self.sample, rows, batch, **sampled)

    def _add_plain(self, batch: Batch, values: Packed) -> tuple[Packed, Packed]:
        """Rows of weight 1: which rows are to be pulled, by key, and the cells of the fields."""
        from miscal.kernels.packed import sketch_cells

        pair = batch.pair
        if self.packed is None:
            columns = (*self.keys.values(), *self.fields.values())
            self.packed = PackedSums([self.sketch, *(sums for sums, _ in columns), *self.extra])
        codes = self.packed.codes(batch.rows)
        self.job.score.codes(pair.predicted, codes[0])
        sketch_cells(codes[0], SKETCH_SHIFT)
        picked, cells = {}, {}
        for place, (key, (made, cuts)) in enumerate(self.job.keys.items()):
            picked[key] = cuts.segments_of(values[key], made, codes[1 + place])
        for place, name in enumerate(self.job.fields):
            cells[name] = self.places[name].codes(batch, grow=False, out=codes[1 + len(values) + place])
        if self.job.extra is not None:
            self.job.extra.fill(batch, codes[1 + len(values) + len(cells) :])
        self.packed.add(pair, codes, self.job.mended if self.job.mended.size else np.zeros(self.sketch.count))
        return picked, cells

    def _add_any(self, batch: Batch, values: Packed) -> tuple[Packed, Packed]:
        """As `_add_plain`, rows of any weights."""
        pair, picked, cells = batch.pair, {}, {}
        beyond = replace(pair, predicted=self._mended(pair.predicted)) if self.job.mended.size else None
        for key, (made, cuts) in self.job.keys.items():
            codes = np.empty(batch.rows, np.int32)
            picked[key] = cuts.segments_of(values[key], made, codes)
            self.keys[key][0].add(codes, pair, beyond)
        for name in self.job.fields:
            cells[name] = self.places[name].codes(batch, grow=False)
            self.fields[name][0].add(cells[name], pair, beyond)
        if self.job.extra is not None:
            more = np.empty((len(self.extra), batch.rows), np.int32)
            self.job.extra.fill(batch, more)
            for sums, own in zip(self.extra, more, strict=True):
                sums.add(own, pair, beyond)
        return picked, cells

    def _mended(self, predicted: np.ndarray) -> np.ndarray:
        if not self.job.mended.size:
            return predicted
        return locked(self.job.mended[self.job.score.codes(predicted) >> SKETCH_SHIFT])

    def _pull(self, lists: _Lists, rows: np.ndarray, batch: Batch, **columns: np.ndarray) -> None:
        """Keep some rows, with columns that have been cut to them."""
        pair, predicted = batch.pair, batch.pair.predicted[rows]
        lists.add(
            predicted=predicted,
            observed=pair.observed[rows],
            weight=None if pair.weight is None else pair.weight[rows],
            count=None if pair.count is None else pair.count[rows],
            mended=self._mended(predicted),
            **columns,
        )

    def _parts(self) -> Sequence[tuple[str, Any]]:
        parts: list[tuple[str, Any]] = [("sample:", self.sample), ("sketch:", self.sketch)]
        parts += [(f"extra{place}:", sums) for place, sums in enumerate(self.extra)]
        for head, pairs in (("key", self.keys), ("field", self.fields)):
            for place, (sums, pulled) in enumerate(pairs.values()):
                parts += [(f"{head}{place}s:", sums), (f"{head}{place}p:", pulled)]
        return parts

    def arrays(self) -> Packed:
        found = {head + name: values for head, part in self._parts() for name, values in part.arrays().items()}
        return found | {"rows": self.rows}

    def merge(self, packed: Packed) -> None:
        self.rows += packed["rows"]
        for head, part in self._parts():
            part.merge(_under(packed, head))
