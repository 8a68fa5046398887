"""What a search chose on a sample of rows, measured on all of them.

Beyond memory the search runs on as many rows as the ceiling allows, by the same program as on a table that fits. Its
cells, pairs and places are then added up over all rows in one pass and tested on those sums. Which rows places share
is told from the sample, each row of which stands for as many as it was taken from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.auditing.search.groups import NAMES, Group, Rows
from miscal.auditing.search.looking import Looked, walk_of
from miscal.auditing.search.parts import Part
from miscal.auditing.search.places import Place
from miscal.carriers.summary import FieldSums, Summary, VariableSums, coarsened
from miscal.carriers.tally import Tally
from miscal.data.columns import Column
from miscal.engines.adding import (
    SCORE,
    Added,
    ConditionCells,
    CrossedCells,
    LevelCells,
    RangeCells,
    Recalibration,
    Request,
    add_up,
)
from miscal.engines.roles import Roles
from miscal.inference.sums import Sums
from miscal.metrics.from_sums import (
    field_from_sums,
    noise_of_sums,
    recalibrated_scores,
    score_from_sums,
    variable_from_sums,
)
from miscal.pooling.bins import bin_index
from miscal.pooling.cells import Levels, Product, Ranges
from miscal.results import Result

CELLS = 1024  # of the grid of a variable, beside the edges that are asked for
FROM_SAMPLE = ("curve", "density", "curve_rows")  # what a variable's figure draws beside its ranges


@dataclass(frozen=True, eq=False)
class Cuts:
    """How one column is looked at: edges of the ranges shown, of those searched, and of a grid; none: its levels."""

    name: str
    kind: str
    bins: np.ndarray | None = None
    fine: np.ndarray | None = None
    grid: np.ndarray | None = None

    def request(self, max_levels: int) -> Request:
        """Its cells."""
        return LevelCells(self.name, max_levels) if self.grid is None else RangeCells(self.name, self.grid)


def cuts_of(column: Column, bins: np.ndarray | None, fine: np.ndarray | None) -> Cuts:
    """How a column of a sample was cut, with a grid that has all of its edges."""
    if column.nominal:
        return Cuts(column.name, column.kind)
    kind = "integer" if column.integer else column.kind
    known = column.values[~np.isnan(column.values)]
    nothing = np.array([-np.inf, np.inf])  # all of the sample's values are missing
    bins, fine = (nothing if edges is None else edges for edges in (bins, fine))
    quantiles = np.quantile(known, np.linspace(0.0, 1.0, CELLS + 1)) if known.size else np.empty(0)
    return Cuts(column.name, kind, bins, fine, np.unique(np.concatenate([bins, fine, quantiles]) + 0.0))


def cuts_like(name: str, summary: Summary) -> Cuts:
    """How a column was cut for another summary, so that both can be added."""
    if name in summary.fields:
        return Cuts(name, "category")
    each = summary.variables[name]
    assert isinstance(each.grid.cells, Ranges)
    return Cuts(name, each.kind, each.bins, each.fine, each.grid.cells.edges)


def summarise(
    source: Any,
    roles: Roles,
    target: str | int,
    *,
    score_edges: np.ndarray,
    scores: Tally,
    cuts: Sequence[Cuts],
    further: Sequence[Request] = (),
    max_levels: int,
    about: dict[str, Any],
    aside: Sequence[dict[str, Any]] = (),
) -> tuple[Summary, Added]:
    """Add all rows up: the score, the columns and, in the end of what was added, `further` cells."""
    assert isinstance(scores.cells, Ranges)
    recalibration = Recalibration(scores.cells.edges[1:-1], recalibrated_scores(scores))
    requests = [RangeCells(SCORE, score_edges), *(one.request(max_levels) for one in cuts), *further]
    added = add_up(source, roles, target, requests, recalibration)
    score = added.tallies[0]
    assert score is not None
    left_out = [*aside, *({"where": name, "rows": added.rows, "reason": reason} for name, reason in added.aside)]
    variables, fields = {}, {}
    for one, tally, beyond in zip(cuts, added.tallies[1:], added.recalibrated[1:], strict=False):
        if tally is None or beyond is None:
            continue
        if one.bins is None or one.fine is None:
            fields[one.name] = FieldSums(tally, beyond)
        else:
            variables[one.name] = VariableSums(one.kind, one.bins, one.fine, tally, beyond)
    rows = int(score.counts.sum())
    made = Summary(
        about, rows, added.ignored, score, scores, variables, fields, tuple(left_out), added.outcome_weights
    )  # fmt: skip
    return made, added


def measured_on_all(
    looked: Looked,
    source: Any,
    roles: Roles,
    *,
    scores: Tally,
    rows: int,
    further: Sequence[Request],
    max_levels: int,
    about: dict[str, Any],
    aside: Sequence[dict[str, Any]],
    random_state: int,
) -> tuple[Looked, Summary, list[Tally | None]]:
    """Replace the sums of a search by those of all rows, and build its results from them.

    scores : all rows by a fine grid of the score;  further : cells whose sums are wanted as well, given in the end
    """
    edges = looked.score.extra["tally"].cells.edges
    cuts = [_cuts(column, result, group) for column, result, group in looked.columns]
    places = [place for _, found in looked.searched.values() for place in found]
    crossed = [CrossedCells(tuple(_cells(part) for part in group.parts)) for group in looked.pairs]
    chosen = [*crossed, ConditionCells(tuple(place.conjunction for place in places)), *further]
    summary, added = summarise(
        source, roles, looked.target, score_edges=edges, scores=scores, cuts=cuts, further=chosen,
        max_levels=max_levels, about=about, aside=aside,
    )  # fmt: skip
    made = look_at_sums(summary, _standing_for(looked, summary, rows), random_state, looked)
    first = 1 + len(cuts)
    for place, group in enumerate(looked.pairs, first):
        raw, beyond = added.tallies[place], added.recalibrated[place]
        assert raw is not None and beyond is not None  # noqa: PT018  # levels were given
        made.pairs.append(_crossed(group, raw, beyond, made.rows))
    raw, beyond = added.tallies[first + len(crossed)], added.recalibrated[first + len(crossed)]
    assert raw is not None and beyond is not None  # noqa: PT018
    made.skipped, made.further = looked.skipped, [_of_sample(result, looked, rows) for result in looked.further]
    made.searched = _searched(looked, made.rows, all_sums(raw), all_sums(beyond))
    return made, summary, list(added.tallies[first + len(crossed) + 1 :])


def look_at_sums(summary: Summary, rows: Rows, random_state: int, sample: Looked | None = None) -> Looked:
    """Score and columns from sums of all rows; rows of a sample, if there is one, are those of `rows`."""
    target = str(summary.about["target"])
    common: Any = {"target": target, "random_state": random_state}
    score = score_from_sums(summary.score, summary.grid, rows.noise, **common)
    whole = all_sums(summary.grid.coarsen(np.zeros(summary.grid.counts.size), Levels(("",))))
    made = Looked(target, "", rows, score, all=(whole, whole))
    seen = {} if sample is None else {column.name: (column, result) for column, result, _ in sample.columns}
    for name, each in summary.variables.items():
        column, result = seen.get(name, (_stand_in(name, each.kind, rows.raw.rows), None))
        made.columns.append(_variable(column, each, rows, result, **common))
    for name, field in summary.fields.items():
        column, _ = seen.get(name, (_stand_in(name, "category", rows.raw.rows), None))
        made.columns.append(_field(column, field, rows, **common))
    if made.columns:
        beyond = made.groups[0].beyond
        made.all = whole, Sums(*(getattr(beyond, word).sum(keepdims=True) for word in NAMES))
    if sample is not None:  # in the order of the table
        order = {column.name: place for place, (column, _, _) in enumerate(sample.columns)}
        made.columns.sort(key=lambda entry: order[entry[0].name])
    return made


def all_sums(tally: Tally) -> Sums:
    """A tally's columns as plain arrays."""
    return Sums(*(np.asarray(getattr(tally, word), dtype=np.float64) for word in NAMES))


def _cuts(column: Column, result: Result, group: Group) -> Cuts:
    cells = result.extra["tally"].cells
    bins = cells.edges if isinstance(cells, Ranges) else None
    return cuts_of(column, bins, group.parts[0].edges)


def _cells(part: Part) -> RangeCells | LevelCells:
    return LevelCells(part.name, levels=part.labels) if part.edges is None else RangeCells(part.name, part.edges)


def _standing_for(looked: Looked, summary: Summary, rows: int) -> Rows:
    """The sample, each row standing for as many as it was taken from, judged by the noise of all rows."""
    found = looked.rows
    return replace(
        found, noise=noise_of_sums(outcome_weights=summary.outcome_weights), scale=rows / max(found.raw.rows, 1)
    )


def _stand_in(name: str, kind: str, rows: int) -> Column:
    if kind in ("category", "boolean"):
        return Column(name, "category", np.full(rows, -1, np.int32), ())
    return Column(name, "date" if kind == "date" else "numeric", np.full(rows, np.nan), integer=kind == "integer")


def _variable(
    column: Column, each: VariableSums, rows: Rows, sampled: Result | None, *, target: str, random_state: int
) -> tuple[Column, Result, Group]:
    extra: dict[str, Any] = {"column_kind": column.kind, "integer": column.integer}
    if sampled is not None:
        extra |= {name: sampled.extra[name] for name in FROM_SAMPLE if name in sampled.extra}
        extra |= {"curve_rows": len(column)} if "curve" in extra else {}
    bins, fine = coarsened(each.grid, each.bins), coarsened(each.grid, each.fine)
    result = variable_from_sums(
        column.name, bins, each.grid, rows.noise, target=target, random_state=random_state, extra=extra
    )
    codes = bin_index(np.nan_to_num(column.values), each.fine).astype(np.int16)
    codes[np.isnan(column.values)] = fine.cells.count - 1
    part = Part(column, codes, (), each.fine, fine.cells.missing)  # type: ignore[attr-defined]
    raw = all_sums(fine)
    group = Group((part,), "variable", raw, all_sums(coarsened(each.beyond, each.fine)), rows.p_values(raw))
    group.walk = walk_of(result, part)
    return column, result, group


def _field(
    column: Column, each: FieldSums, rows: Rows, *, target: str, random_state: int
) -> tuple[Column, Result, Group]:
    cells = each.tally.cells
    assert isinstance(cells, Levels)
    place = {name: i for i, name in enumerate(cells.names)}
    table = np.array([*(place.get(str(level), 0) for level in column.levels), cells.count - 1], np.int32)
    result = field_from_sums(column.name, each.tally, rows.noise, target=target, random_state=random_state)
    part = Part(column, table[column.values], tuple(cells.names), None, cells.missing)
    p_value = np.asarray(result.table["p_value"], dtype=float)
    return column, result, Group((part,), "field", all_sums(each.tally), all_sums(each.beyond), p_value)


def _crossed(group: Group, raw: Tally, beyond: Tally, rows: Rows) -> Group:
    """The same pair of columns with the sums of all rows, which may lack values where the sample has none."""
    assert isinstance(raw.cells, Product)
    parts = []
    for part, cells in zip(group.parts, raw.cells.parts, strict=True):
        missing = bool(getattr(cells, "missing", False))
        codes = part.codes if missing else np.minimum(part.codes, max(part.known - 1, 0))
        parts.append(replace(part, codes=codes, missing=missing))
    sums = all_sums(raw)
    return Group(tuple(parts), group.kind, sums, all_sums(beyond), rows.p_values(sums))


def _searched(looked: Looked, rows: Rows, raw: Sums, beyond: Sums) -> dict[str, tuple[int, list[Place]]]:
    """The places of searches, tested by their sums over all rows among all that were searched."""
    made: dict[str, tuple[int, list[Place]]] = {}
    chances = np.nan_to_num(rows.p_values(raw), nan=1.0)
    number = 0
    for family, (size, places) in looked.searched.items():
        moved = []
        for place in places:
            own, after = (Sums(*(getattr(sums, word)[number : number + 1] for word in NAMES)) for sums in (raw, beyond))
            chance = min(1.0, float(chances[number]) * size * max(place.searched, 1))
            number += 1
            if own.weight[0] > 0:
                moved.append(replace(place, raw=own, beyond=after, p_value=chance))
        made[family] = size, moved
    return made


def _of_sample(result: Result, looked: Looked, rows: int) -> Result:
    """A result that needs the rows: that of the sample, which says so."""
    words = f" Of a sample of {looked.rows.raw.rows:,} of {rows:,} rows."
    return replace(result, method=result.method + words)


def no_rows(summary: Summary) -> Rows:
    """What stands in for rows where a file keeps sums alone."""
    from miscal.pairs import Pair

    one = Pair(np.array([0.5]), np.array([0], np.uint8), weight=np.ones(1) if summary.grid.weighted else None)
    return Rows(one, one, noise_of_sums(outcome_weights=summary.outcome_weights), scale=math.nan)
