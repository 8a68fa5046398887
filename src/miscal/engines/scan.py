"""A whole table in two passes: edges, tallies, walks, and a sketch of the score, whoever runs the passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from miscal.carriers.tally import Tally
from miscal.carriers.walk import Walk
from miscal.data.csv_files import TypesChanged
from miscal.data.errors import refusal
from miscal.engines.buckets import KeyMap
from miscal.engines.cells import CellSums, FieldSums
from miscal.engines.keys import Cuts, Given, Profile, Pulled, Quantiles, VariableRanges, finer
from miscal.engines.memory import mean_tally_of
from miscal.engines.plan import (
    SCORE,
    SKETCH_SHIFT,
    Extra,
    FieldCells,
    FirstPass,
    FirstState,
    Job,
    SecondPass,
    SecondState,
)
from miscal.engines.rows import Door
from miscal.engines.together import run_together
from miscal.engines.walking import stream_walk
from miscal.pairs import Pair
from miscal.pooling.bins import bin_index
from miscal.pooling.cells import Cells, Levels, Ranges

Request = Quantiles | Given | VariableRanges
Requests = Callable[[str, str, Profile, bool], dict[str, Request]]
BUDGET = 1_000_000  # rows pulled for one key, or for the small levels of one field
MOST_ROUNDS = 5
SMALL_CELL = 200
SAMPLE = 100_000


class Runner(Protocol):
    """Who runs passes: a stream in this process, or a cluster."""

    kinds: dict[str, str]
    rows: int | None
    words: str
    passes: int

    def check(self, columns: list[str]) -> None: ...

    def sample(self, columns: list[str]) -> Any: ...

    def run(self, job: Any) -> Any: ...


@dataclass(frozen=True, eq=False)
class KeyResult:
    """One key: tallies by what was asked for, as predicted and beyond the score; its walk; its profile."""

    name: str
    kind: str
    tallies: dict[str, Tally]
    beyond: dict[str, Tally]
    walk: Walk | None
    profile: Profile
    totals: Tally  # one cell for the rows with a value, one for the others
    pulled: int = 0


@dataclass(frozen=True, eq=False)
class FieldResult:
    """One field: its tallies, and the rows of its small levels (columns by name, cells in the tally's order)."""

    name: str
    tally: Tally
    beyond: Tally | None
    small: dict[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Scanned:
    """Everything that was kept of a table."""

    score: KeyResult
    sketch: Tally
    mended: np.ndarray
    variables: dict[str, KeyResult]
    fields: dict[str, FieldResult]
    sample: dict[str, np.ndarray]
    classes: tuple[str, ...]
    rows: int
    ignored: int
    weighted: bool
    outcome_weights: bool
    target: str
    passes: int
    extra: list[tuple[CellSums, CellSums]] = field(default_factory=list)  # as predicted and beyond the score
    beside: list[Any] = field(default_factory=list)  # states of the jobs that shared the second pass


def scan(
    runner: Runner,
    door: Door,
    *,
    variables: Sequence[str],
    fields: Sequence[str],
    requests: Requests,
    most_levels: int = 1_000_000,
    budget: int = BUDGET,
    sample: int = SAMPLE,
    buckets: int | None = None,
    mend: Callable[[Tally], np.ndarray] | None = None,
    extra: Extra | None = None,
    beside: Sequence[Job] = (),
) -> Scanned:
    """Read a table twice (once more where a column is so uneven that its buckets must be cut again)."""
    while True:
        try:
            return _Scan(
                runner,
                door,
                list(variables),
                list(fields),
                requests,
                most_levels,
                budget,
                sample,
                buckets,
                mend,
                extra,
                beside,
            ).run()
        except TypesChanged:
            runner.passes = 0


class _Scan:
    def __init__(
        self,
        runner: Runner,
        door: Door,
        variables: list[str],
        fields: list[str],
        requests: Requests,
        most_levels: int,
        budget: int,
        sample: int,
        buckets: int | None,
        mend: Callable[[Tally], np.ndarray] | None,
        extra: Extra | None,
        beside: Sequence[Job],
    ) -> None:
        self.runner, self.door, self.variables, self.fields = runner, door, variables, fields
        self.requests, self.most_levels, self.budget, self.sample = requests, most_levels, budget, sample
        self.buckets = buckets or _buckets(runner.rows)
        self.mend, self.extra, self.beside = mend, extra, beside
        self.kinds = {SCORE: "score", **{name: runner.kinds[name] for name in variables}}

    def run(self) -> Scanned:
        columns = [*self.door.columns, *self.variables, *self.fields]
        self.runner.check(columns)
        maps, target = self._maps()
        self.score_map = maps[SCORE]
        fields = {name: self.runner.kinds[name] == "boolean" for name in self.fields}
        first: FirstState = self.runner.run(FirstPass(self.door, maps, fields, self.most_levels))
        if not first.totals[0]:
            raise refusal("must have at least one row", where=self.runner.words, got="no row has weight")
        first.check_labels(f"column '{self.door.outcome}' of {self.runner.words}")
        self.weighted = self.door.weight is not None
        mended = np.empty(0) if self.mend is None else self.mend(self._first_sketch(first))
        self.maps = maps
        self.profiles: dict[str, Profile] = {}
        self.cuts: dict[str, Cuts] = {}
        self.asked: dict[str, dict[str, Request]] = {}
        self._cut(first, list(maps))
        self._refine(first)
        second, others = self._second(first, mended)
        self._check_rows(first, second)
        results = {key: self._key(key, second) for key in self.maps}
        return Scanned(
            score=results.pop(SCORE),
            sketch=self._sketch(first, second),
            mended=mended,
            variables=results,
            fields={name: self._field(name, each, second) for name, each in first.fields.items()},
            sample=self._sample(first, second),
            classes=_classes(first),
            rows=int(first.totals[0]),
            ignored=int(first.totals[1]),
            weighted=self.weighted,
            outcome_weights=first.outcome_weights,
            target=target,
            passes=self.runner.passes,
            extra=[sums.both() for sums in second.extra],
            beside=others,
        )

    def _second(self, first: FirstState, mended: np.ndarray) -> tuple[SecondState, list[Any]]:
        """The second pass, and the states of the jobs that share it."""
        step = max(1, int(first.totals[0]) // max(self.sample, 1)) if self.sample else 0
        keys = {key: (self.maps[key], self.cuts[key]) for key in self.maps}
        cells = {name: self._field_cells(each) for name, each in first.fields.items()}
        job = SecondPass(self.door, keys, cells, self.score_map, mended, step, self.extra)
        return run_together(self.runner, job, self.beside)

    def _first_sketch(self, first: FirstState) -> Tally:
        """The sketch of the score after the first pass; of rows of weight 1 its means alone."""
        assert first.sketch is not None
        cells = _numbered(first.sketch.count)
        if self.door.weight is None and self.door.count is None:
            return mean_tally_of(first.keys[SCORE].means(SKETCH_SHIFT), cells)
        return first.sketch.tally(cells, weighted=self.weighted)

    def _sketch(self, first: FirstState, second: SecondState) -> Tally:
        """All of the sketch: rows of weight 1 were added in the second pass, all others in the first."""
        assert first.sketch is not None
        second.sketch.settle()
        first.sketch.merge(second.sketch.raw.arrays())
        return first.sketch.tally(_numbered(first.sketch.count), weighted=self.weighted)

    def _check_rows(self, first: FirstState, second: SecondState) -> None:
        if int(second.rows[0]) != int(first.totals[0]):
            got = f"{int(second.rows[0]):,} rows, before {int(first.totals[0]):,}"
            hint = "a file that is still written, or a frame that draws its rows at random? store it first"
            raise refusal("changed between two passes", where=self.runner.words, got=got, hint=hint)

    def _maps(self) -> tuple[dict[str, KeyMap], str]:
        """Maps of all keys, fitted to a few batches, and the name of the target."""
        values: dict[str, list[np.ndarray]] = {key: [] for key in (SCORE, *self.variables)}
        target = str(self.door.target)
        for chunk in self.runner.sample([*self.door.columns, *self.variables]):
            batch = self.door.open(chunk)
            if batch is None:
                continue
            target = batch.pair.target
            for key, pieces in values.items():
                pieces.append(batch.pair.predicted if key == SCORE else batch.numbers(key))
        if not values[SCORE]:
            values = {key: [np.array([0.0, 1.0])] for key in values}
        return {key: KeyMap.fitted(np.concatenate(pieces), self.buckets) for key, pieces in values.items()}, target

    def _cut(self, first: FirstState, keys: list[str]) -> None:
        for key in keys:
            profile = Profile.of(first.keys[key])
            asked = (
                self.requests(key, self.kinds[key], profile, first.unequal and self.weighted)
                if profile.rows.size
                else {}
            )
            held = [request.wanted(profile) for request in asked.values()]
            held_all = np.concatenate(held) if held else np.empty(0, np.int64)
            self.profiles[key], self.asked[key] = profile, asked
            self.cuts[key] = Cuts.at(profile, held_all, profile.suspects())

    def _refine(self, first: FirstState) -> None:
        """Cut the heavy buckets of keys again until few enough rows are pulled."""
        for _ in range(MOST_ROUNDS):
            heavy = [key for key in self.maps if self.cuts[key].rows(self.profiles[key]) > self.budget]
            if not heavy:
                return
            made = {key: finer(self.profiles[key], self.cuts[key], self.budget, self.buckets) for key in heavy}
            again: FirstState = self.runner.run(FirstPass(self.door, made, {}, self.most_levels, sketch=False))
            for key in heavy:
                self.maps[key] = made[key]
                first.keys[key] = again.keys[key]
            self._cut(first, heavy)

    def _field_cells(self, each: FieldSums) -> FieldCells:
        rows = each.sums.plain[:, 0] + (each.sums.rows if each.sums.rows.size else 0)
        small = (rows > 0) & (rows <= SMALL_CELL)
        if rows[small].sum() > self.budget:
            small[:] = False
        small[-1] = False
        return FieldCells(tuple(each.names), small[: len(each.names) + 1], len(each.names) + 1)

    def _key(self, key: str, second: SecondState) -> KeyResult:
        profile, cuts = self.profiles[key], self.cuts[key]
        sums, lists = second.keys[key]
        sums.settle()
        raw, after, columns = sums.raw, sums.after, lists.arrays()
        places = np.searchsorted(profile.bucket, columns.pop("bucket", np.empty(0, np.int64)))
        pulled = Pulled(places, columns.pop("value", np.empty(0)), columns)
        name = "score" if key == SCORE else key
        tallies, beyond = {}, {}
        for word, request in self.asked[key].items():
            edges = request.edges(profile, pulled)
            cells = Ranges(edges, missing=profile.missing > 0, name=name)
            tallies[word] = self._tally(raw, cuts, profile, pulled, cells, "predicted")
            if second.job.mended.size:
                beyond[word] = self._tally(after, cuts, profile, pulled, cells, "mended")
        known = Ranges(np.array([-np.inf, np.inf]), missing=True)
        totals = self._tally(raw, cuts, profile, pulled, known, "predicted")
        walk = stream_walk(profile, pulled, profile.suspects(), totals) if profile.rows.size else None
        return KeyResult(name, self.kinds[key], tallies, beyond, walk, profile, totals, int(pulled.values.size))

    def _tally(self, sums: CellSums, cuts: Cuts, profile: Profile, pulled: Pulled, cells: Ranges, which: str) -> Tally:
        """Segments into the cells that hold them whole, and the pulled rows one by one."""
        groups = np.zeros(cuts.segments, np.int64)
        filled = cuts.of >= 0
        if profile.rows.size:
            groups[filled] = bin_index(profile.spans[cuts.of[filled], 1], cells.edges)
        groups[-1] = cells.count - 1
        total = sums.tally(_numbered(cuts.segments), weighted=self.weighted).coarsen(groups, cells)
        if pulled.values.size:
            own = CellSums(cells.count)
            own.add(bin_index(pulled.values, cells.edges), _pair(pulled.columns, which))
            total = total + own.tally(cells, weighted=self.weighted)
        return total

    def _field(self, name: str, each: FieldSums, second: SecondState) -> FieldResult:
        sums, lists = second.fields[name]
        sums.settle()
        tally = each.tally(weighted=self.weighted, sums=sums.raw)
        beyond = each.tally(weighted=self.weighted, sums=sums.after) if second.job.mended.size else None
        small = lists.arrays()
        if small:
            small["cell"] = _ranks(each)[small["cell"]]
        return FieldResult(name, tally, beyond, small)

    def _sample(self, first: FirstState, second: SecondState) -> dict[str, np.ndarray]:
        sample = second.sample.arrays()
        for name, each in first.fields.items():
            if f"f:{name}" in sample:
                sample[f"f:{name}"] = _ranks(each)[sample[f"f:{name}"]]
        return sample


def _ranks(each: FieldSums) -> np.ndarray:
    """From a field's cell to its place in the tally."""
    order = each.order()
    ranks = np.full(each.sums.count + 1, len(order) - 1, np.int64)
    ranks[order] = np.arange(order.size)
    return ranks


def _pair(columns: dict[str, np.ndarray], which: str) -> Pair:
    return Pair(columns[which], columns["observed"], columns.get("weight"), columns.get("count"))


def _numbered(count: int) -> Cells:
    return Levels(tuple(map(str, range(count))))


def _classes(first: FirstState) -> tuple[str, ...]:
    import json

    found = [tuple(json.loads(text)) for text in sorted(first.labels)]
    return max(found, key=lambda labels: (len(labels), -sum(label.startswith("not ") for label in labels)))


def _buckets(rows: int | None) -> int:
    if rows is None:
        return 1 << 15
    if rows < 30_000_000:
        return 1 << 12 if rows < 200_000 else 1 << 14 if rows < 3_000_000 else 1 << 16
    return 1 << 17  # the rows that are pulled grow with the square of the rows in a bucket
