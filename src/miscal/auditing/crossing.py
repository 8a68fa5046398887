"""What a streamed audit crosses: pairs of columns and conjunctions, chosen on a few batches, measured on all rows.

A few batches from all over the table tell which columns are suspect and where they are cut. The tallies of the pairs
and of the conjunctions are then added in the second pass of the scan, beside everything else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from miscal.auditing.search.groups import Rows, group_of
from miscal.auditing.search.looking import MOST_CELLS, SUSPECT, pair_tests
from miscal.auditing.search.parts import MOST_LEVELS_CROSSED, Part, coarse_part, fine_part
from miscal.auditing.search.subpopulations import DEPTH, HALVES, LEAST, MOST_LEVELS, NARROW, left_out
from miscal.data.columns import Column
from miscal.engines.buckets import KeyMap
from miscal.engines.crossing import Crossed, Crossings
from miscal.engines.crowd import CrowdPass
from miscal.engines.crowd_search import Limits, buckets_for, score_sample
from miscal.engines.members import Members
from miscal.engines.plan import Job
from miscal.engines.rows import Door
from miscal.engines.scan import Runner
from miscal.metrics.pooled import choose_null, walk_summary
from miscal.metrics.subpopulation.sampled import generated, joined, sample_columns
from miscal.pairs import Pair
from miscal.pooling.slots import compiled
from miscal.pooling.subpopulations import Conjunctions, Definition

PAIRS = {"normal": 40, "deep": 200}
MOST_ROWS = 100_000  # of the batches that the choice is made on
MOST_ATOMS = 2048


@dataclass(eq=False)
class Crossing:
    """What is crossed.

    pairs : places of the parts crossed;  skipped : families and numbers of tests left out, which count all the same
    definitions : conjunctions by their words;  factor : how many times more there are over all columns
    """

    door: Door
    parts: list[Part] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    skipped: list[tuple[str, int]] = field(default_factory=list)
    definitions: dict[str, Definition] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    members: Members | None = None
    factor: float = 1.0
    scores: np.ndarray = field(default_factory=lambda: np.array([0.0, 1.0]))
    rows: int = 0
    buckets: int = 256
    deep: bool = False

    @property
    def tallies(self) -> Crossings | None:
        """What the second pass tallies beside keys and fields."""
        if not self.pairs and self.members is None:
            return None
        parts = tuple(Crossed(part.name, part.edges, part.labels) for part in self.parts)
        return Crossings(parts, tuple(self.pairs), self.members)

    @property
    def jobs(self) -> Sequence[Job]:
        """The jobs that share the second pass: the walks of the conjunctions."""
        if self.members is None:
            return []
        return [CrowdPass(self.door, self.members, KeyMap.fitted(self.scores, self.buckets))]


def crossing_of(
    runner: Runner, door: Door, names: list[str], effort: str, random_state: int, limits: Limits
) -> Crossing | None:
    """Choose what to cross; None where there is nothing."""
    if effort == "quick" or len(names) < 2:
        return None
    batches, scores = score_sample(runner, door, names)
    if not batches:
        return None
    kinds = {name: runner.kinds[name] for name in names}
    every, table = joined([batch.pair for batch in batches]), sample_columns(batches, names, kinds)
    chosen = np.arange(0, every.rows, max(1, -(-every.rows // MOST_ROWS)))
    compared = every.take(chosen)
    found = [(name, one) for name in names if (one := _suspect(table[name].take(chosen), compared)) is not None]
    made = Crossing(door, scores=scores, rows=every.rows, deep=effort == "deep")
    _choose_pairs(made, [(part, p) for _, (part, p) in found], compared, PAIRS[effort])
    _choose_conjunctions(made, [(p, part.column) for _, (part, p) in found], batches, kinds, random_state)
    if made.members is not None:
        made.buckets = buckets_for(made.members, runner.rows, limits)
    return made


def _suspect(column: Column, compared: Pair) -> tuple[Part, float] | None:
    """A column cut finely, and how surprising it is on the sample: the worst cell or the walk along it, corrected."""
    part = fine_part(column, compared.weight, compared.count)
    if part.count < 2:
        return None
    noise = choose_null(compared, "bernoulli")
    group = group_of([part], "field" if column.nominal else "variable", Rows(compared, compared, noise))
    tested = group.p_value[~np.isnan(group.p_value)]
    p = min(1.0, float(tested.min() * tested.size)) if tested.size else 1.0
    if part.edges is not None:
        known = np.flatnonzero(~np.isnan(column.values))
        values = np.ascontiguousarray(column.values[known])
        along = walk_summary(compared.take(known), values, noise=noise, draws=199, locate=False)[1].p_value
        p = p if math.isnan(along) else min(p, along)
    return part, p


def _choose_pairs(made: Crossing, columns: list[tuple[Part, float]], compared: Pair, most: int) -> None:
    """The pairs of which one column is suspect, as `look_at_pairs` chooses them."""
    small = [
        (coarse_part(part, compared.first), p)
        for part, p in columns
        if part.ordered or part.count <= MOST_LEVELS_CROSSED
    ]
    # The cell of missing values is always there: rows that the sample did not have may lack a value.
    made.parts = [replace(part, missing=True) for part, _ in small]
    pairs = [
        (min(small[i][1], small[j][1]), small[i][1] + small[j][1], i, j)
        for i, j in combinations(range(len(small)), 2)
        if made.parts[i].count * made.parts[j].count <= MOST_CELLS
    ]
    for least, _, i, j in sorted(pairs):
        if least > SUSPECT or len(made.pairs) >= most:
            made.skipped.append(pair_tests(made.parts[i], made.parts[j]))
        else:
            made.pairs.append((i, j))


def _choose_conjunctions(
    made: Crossing, columns: list[tuple[float, Column]], batches: list[Any], kinds: dict[str, str], random_state: int
) -> None:
    """Conjunctions of up to three of the most suspect columns, each cut in two or by level."""
    fit = [(p, column) for p, column in columns if not column.nominal or len(column.levels) <= MOST_LEVELS]
    chosen: list[Column] = []
    atoms = 1.0
    for _, column in sorted(fit, key=lambda entry: entry[0]):
        cells = (len(column.levels) if column.nominal else HALVES) + 2
        if len(chosen) < NARROW and atoms * cells <= MOST_ATOMS:
            chosen.append(column)
            atoms *= cells
    if len(chosen) < 2:
        return
    made.names = [column.name for _, column in fit if any(column is one for one in chosen)]
    asked = Conjunctions(DEPTH, HALVES)
    made.definitions, _ = generated(batches, made.names, made.names, kinds, asked, None, LEAST, random_state)
    if not made.definitions:
        return
    rules = compiled([one.words() for one in made.definitions.values()], kinds)
    made.members = Members(rules, 2 * MOST_ATOMS, many=True)
    made.factor = left_out(fit, chosen)
    if not made.members.by_atoms:
        made.members = None
