"""Pairs of columns and conjunctions of a streamed audit: their tests and places, from tallies of all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.auditing.crossing import Crossing
from miscal.auditing.search.groups import NAMES, Group, Rows
from miscal.auditing.search.looking import Looked, Say, _one_tells_the_other, test_pairs
from miscal.auditing.search.neighbourhoods import look_at_neighbourhoods
from miscal.auditing.search.parts import Part
from miscal.auditing.search.places import Place, Tests
from miscal.auditing.search.subpopulations import FAMILY, INFORMATION, PLACES
from miscal.carriers.tally import Tally
from miscal.data.columns import Column, Columns
from miscal.data.predictions import Predictions
from miscal.engines.cells import CellSums
from miscal.engines.crowd import CrowdState
from miscal.engines.crowd_search import Limits, Settling
from miscal.engines.crowd_walks import Crowd
from miscal.engines.scan import Runner
from miscal.inference.sums import Sums
from miscal.metrics.subpopulation.scale import scaled_errors
from miscal.metrics.subpopulation.streamed import Found
from miscal.metrics.subpopulation.words import SubpopulationResult
from miscal.pairs import Pair
from miscal.pooling.bins import bin_index
from miscal.pooling.cells import Levels
from miscal.pooling.expressions import rows_where
from miscal.results import Result

MOST_PASSES = 3
NEIGHBOURS = 20_000  # rows of the sample whose neighbourhoods a deep audit searches


class SampledGroup(Group):
    """Cells whose sums are those of all rows and whose members are those of a sample."""

    def members(self, box: Any) -> np.ndarray:
        """Rows of the sample; one stands in for cells that it missed, so that averages over them exist."""
        found = super().members(box)
        return found if found.size else np.zeros(1, np.int64)


def all_sums(tally: Tally) -> Sums:
    """A tally's columns as plain arrays."""
    return Sums(*(np.asarray(getattr(tally, word), dtype=np.float64) for word in NAMES))


@dataclass(eq=False)
class CrossedSums:
    """What the second pass added for a crossing."""

    crossing: Crossing
    sums: list[tuple[CellSums, CellSums]]
    crowd: CrowdState | None
    runner: Runner
    weighted: bool

    def _both(self, place: int) -> tuple[Sums, Sums]:
        raw, beyond = (self._sums(own) for own in self.sums[place])
        return raw, beyond

    def _sums(self, own: CellSums) -> Sums:
        return all_sums(own.tally(Levels(("",) * own.count), weighted=self.weighted))

    def look_at_pairs(self, looked: Looked, tests: Tests) -> None:
        """Test the pairs crossed; those left out are counted."""
        for family, number in self.crossing.skipped:
            tests.count_only(family, number)
        columns = {column.name: column for column, _, _ in looked.columns}
        for place, (i, j) in enumerate(self.crossing.pairs):
            parts = [self.crossing.parts[i], self.crossing.parts[j]]
            if any(part.name not in columns for part in parts):
                continue
            raw, beyond = self._both(place)
            made = [_on_sample(part, columns[part.name]) for part in parts]
            made, raw, beyond = _without_empty(made, raw, beyond)
            group = SampledGroup(tuple(made), "subpopulation", raw, beyond, looked.rows.p_values(raw))
            if not _one_tells_the_other(group):
                looked.pairs.append(group)
        test_pairs(looked, tests)

    def look_at_subpopulations(self, looked: Looked, tests: Tests, random_state: int) -> Result | None:
        """Test the conjunctions; a third pass makes the walks exact that can be the worst, if there is one left."""
        crossing = self.crossing
        if self.crowd is None or crossing.members is None:
            return None
        crowd = Crowd(crossing.members, self.crowd)
        found = Found(crowd, list(crossing.definitions), INFORMATION)
        limits = Limits(passes=MOST_PASSES, partial=False)
        found.settle(Settling(self.runner, crossing.door, crowd, found.scale(), crossing.scores).run(limits))
        expressions = {name: one.words() for name, one in crossing.definitions.items()}
        settings = {
            "columns": crossing.names, "subpopulations": "Conjunctions(3, 2)", "simulations": 1, "min_size": None,
            "min_information": INFORMATION, "statistic": "range", "emphasis": None, "passes": self.runner.passes,
            "sample_rows": crossing.rows, "random_state": random_state,
        }  # fmt: skip
        residual = looked.rows.noise.null == "residual"
        made = found.result(settings, "range", 1, residual=residual, expressions=expressions, target=str(looked.target))
        places = self._places(found, made, looked)
        tests.add_searched(FAMILY, int(made.table.rows * crossing.factor), places)
        return made

    def _places(self, found: Found, result: SubpopulationResult, looked: Looked) -> list[Place]:
        """The worst conjunctions of two columns or more."""
        order = np.argsort(-scaled_errors(found.stats, "range"), kind="stable")
        definitions = list(self.crossing.definitions.values())
        table = Columns({column.name: column for column, _, _ in looked.columns})
        raw, beyond = self._both(len(self.crossing.pairs))
        places: list[Place] = []
        for row, p in enumerate(np.asarray(result.table["p_adjusted"], dtype=float)):
            if not p * self.crossing.factor <= 0.2 or len(places) >= PLACES:
                break
            k = int(found.numbers[order[row]])
            if k == 0 or len(definitions[k - 1].columns) < 2:
                continue
            one = definitions[k - 1]
            if any(name not in table for name in one.columns):
                continue
            inside = found.crowd.members.union(k)
            members = np.flatnonzero(rows_where(one.words(), table, strict=False))
            members = members if members.size else np.zeros(1, np.int64)
            sums = [Sums(*(getattr(s, word)[inside].sum(keepdims=True) for word in NAMES)) for s in (raw, beyond)]
            chance = min(1.0, float(p) * self.crossing.factor)
            made = Place(None, (), chance, 0.0, FAMILY, sums[0], sums[1], 1, members, "subpopulation", one.name)
            made.columns, made.definition = one.columns, one.words()
            made.levels = tuple(condition.words() for condition in one.conditions)
            places.append(made)
        return places


def neighbourhoods_of(
    looked: Looked, sample: dict[str, np.ndarray], rows: int, tests: Tests, random_state: int, say: Say
) -> list[Result]:
    """Neighbourhoods of some of the sample; each row counts once, so that sizes are those of these rows."""
    every = sample["predicted"].size
    size = int(min(every, NEIGHBOURS))
    chosen = np.sort(np.random.default_rng(random_state).choice(every, size, replace=False))
    weight = sample["weight"][chosen] if "weight" in sample else None
    raw = Pair(sample["predicted"][chosen], sample["observed"][chosen], weight)
    beside = {column.name: column.take(chosen) for column, _, _ in looked.columns}
    found = Predictions(raw.observed, raw.predicted, weight=weight, columns=beside)
    compared = Rows(raw, replace(raw, predicted=sample["mended"][chosen]), looked.rows.noise)
    # What is compared is the event already, whichever class it was.
    alone = replace(looked, rows=compared, target="positive")
    results = look_at_neighbourhoods(found, alone, tests, random_state, say)
    for place in tests.searched.get("neighbourhoods", (0, []))[1]:
        place.own_words += f" (in a sample of {size:,} rows)"
        assert place.own_rows is not None
        place.own_rows = chosen[place.own_rows]  # among the rows of the audit's sample
    words = f" Neighbourhoods of a sample of {size:,} of {rows:,} rows, drawn with equal chance."
    return [replace(result, method=result.method + words) for result in results]


def _on_sample(part: Part, column: Column) -> Part:
    """The same cut of a column of the audit's sample; a level that the cut does not know goes with the missing."""
    if part.edges is not None:
        codes = bin_index(np.nan_to_num(column.values), part.edges).astype(np.int32)
        codes[np.isnan(column.values)] = part.known
    else:
        place = {name: i for i, name in enumerate(part.labels)}
        table = [place.get(str(level), part.known) for level in column.levels]
        codes = np.array([*table, part.known], np.int32)[np.clip(column.values, -1, len(table))]
    return replace(part, column=column, codes=codes)


def _without_empty(parts: list[Part], raw: Sums, beyond: Sums) -> tuple[list[Part], Sums, Sums]:
    """Drop the cells of missing values where there are none."""
    shape = [part.count for part in parts]
    weight = raw.weight.reshape(shape)
    for axis in (0, 1):
        if not weight.take(-1, axis=axis).any():
            keep = np.arange(weight.shape[axis] - 1)
            weight = weight.take(keep, axis=axis)
            raw, beyond = (
                Sums(*(getattr(s, w).reshape(shape).take(keep, axis=axis).reshape(-1) for w in NAMES))
                for s in (raw, beyond)
            )
            last = parts[axis].known - 1
            parts[axis] = replace(parts[axis], missing=False, codes=np.minimum(parts[axis].codes, last))
            shape[axis] -= 1
    return parts, raw, beyond
