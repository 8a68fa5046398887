"""Sums of all rows: what a search chose on a sample of them, on average and along the score.

Beyond memory the search runs on as many rows as the ceiling allows, by the same program as on a table that fits. Its
cells, pairs and places are then added up over all rows in one pass and tested on those sums. Which rows places share
is told from the sample, each row of which stands for as many as it was taken from.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from miscal.aggregate import streaming
from miscal.aggregate.column_roles import ColumnRoles
from miscal.aggregate.requests import SCORE, ConditionCells, CrossedCells, LevelCells, RangeCells, Request
from miscal.aggregate.sample import GatheredRows
from miscal.aggregate.streaming import largest_residual_rows
from miscal.aggregate.summary import ColumnSums, Summary, coarsened
from miscal.aggregate.tally import Tally
from miscal.auditing.column_choice import left_out, reason_aside
from miscal.auditing.search.candidates import Candidate, TargetSearch
from miscal.auditing.search.cell_grids import CellGrid, RawAndRecalibrated, SearchContext
from miscal.auditing.search.coded_columns import CodedColumn, small
from miscal.auditing.search.collect import leave_out_shapes, shown_edges
from miscal.auditing.search.score_profiles import along_of_tally
from miscal.cells.partitions import BinPooling, Levels
from miscal.cells.ranges import grid_quantiles, quantile_edges, shared_edges, united
from miscal.codes.data import ColumnKind
from miscal.data.arrays import Plain
from miscal.data.column_types import column_type
from miscal.data.columns import Column
from miscal.data.target import TargetData
from miscal.metrics import from_sums
from miscal.metrics.cell_evaluation import grid_edges
from miscal.metrics.field import FieldResult
from miscal.metrics.variable import VariableResult
from miscal.stats.cell_sums import EFFECTIVE_EVENTS, CellSums, Floats
from miscal.stats.null_model import weights_depend_on_outcome

MOST_CELLS = 1 << 17  # of one group and the score: what a pass keeps room for


class ColumnBinning(NamedTuple):
    """How one column is looked at: edges of the ranges shown, of those searched, and of a grid; none: its levels."""

    name: str
    kind: ColumnKind
    bins: Floats
    fine: Floats
    grid: Floats | None


def score_edges(compared: TargetData) -> Floats:
    """The edges of the bins of the score that are shown: fifteen, of about equal weight."""
    return quantile_edges(compared.predicted, 15, compared.weight, compared.count, apart=True)


def cuts_of(part: CodedColumn, compared: TargetData, *, alone: bool = False) -> ColumnBinning:
    """How a column of a sample was cut, with a grid that has all of its edges; one value `alone` stays a level."""
    column, fine = part.column, part.edges
    kind = ColumnKind.INTEGER if column.integer else column.kind
    if column.nominal or (alone and reason_aside(column) == "constant"):
        return ColumnBinning(column.name, kind, np.empty(0), np.empty(0), None)
    known = column.values[~np.isnan(column.values)]
    bins = shown_edges(column, compared)
    if bins is None or fine is None:  # all of the sample's values are missing
        bins = fine = np.array([-np.inf, np.inf])
    asked = [fine]
    if known.size:
        asked.append(grid_quantiles(known))
        if column.type.round_edges:
            asked.append(shared_edges(bins))
    return ColumnBinning(column.name, kind, bins, fine, united(bins, *asked))


def cuts_like(name: str, summary: Summary) -> ColumnBinning:
    """How a column was cut for another summary, so that both can be added."""
    each = (summary.variables | summary.fields)[name]
    return ColumnBinning(name, each.kind, each.bins, each.fine, getattr(each.tally.cells, "edges", None))


@dataclass(frozen=True, eq=False)
class AllRows:
    """All rows of a table, to be added up: where they are, what was gathered of them, and columns left out so far.

    event : what is compared, in words
    like : the scores of another table, whose own recalibration is used: tables that are to be added up share one, or
        what differs between them would be put right in each
    """

    source: Any
    roles: ColumnRoles
    gathered: GatheredRows
    target: str | int
    event: str
    max_levels: int
    aside: Sequence[Plain]
    like: Tally | None = None

    def add(
        self,
        score_edges: Floats,
        cuts: Sequence[ColumnBinning],
        further: Sequence[Request] = (),
        ranks: Floats | None = None,
    ) -> tuple[Summary, streaming.StreamedSums]:
        """Add up all rows by the score, by the columns and by `further` cells, as predicted and recalibrated.

        Parameters
        ----------
        score_edges : ndarray
            Edges of the bins of the score that the report shows.
        cuts : sequence of ColumnBinning
            How the values of each column are divided.
        further : sequence of Request
            More cells to add up.
        ranks : ndarray, optional
            Edges of a fine grid of predicted means. A grid of probabilities would hold all of them in a few cells
            where one outcome is far out.

        Returns
        -------
        summary : Summary
        sums : StreamedSums
            Holds the sums of `further`, by request.
        """
        scores: Any = self.gathered.scores
        known: Any = self.like or scores
        recalibration = streaming.Recalibration(known.cells.edges[1:-1], from_sums.recalibrated_scores(known))
        score_cells = RangeCells(SCORE, score_edges if ranks is None else ranks)
        column_cells: list[Request] = [
            LevelCells(cut.name, self.max_levels) if cut.grid is None else RangeCells(cut.name, cut.grid)
            for cut in cuts
        ]
        requests = [score_cells, *column_cells, *further]
        added = streaming.add_up(self.source, self.roles, self.target, requests, recalibration)
        score = added.tallies[score_cells]
        if ranks is not None:
            scores, score = score, coarsened(score, score_edges)
        unread = (left_out(name, added.rows, reason) for name, reason in added.excluded)
        variables: dict[str, ColumnSums] = {}
        fields: dict[str, ColumnSums] = {}
        for cut, request in zip(cuts, column_cells, strict=True):
            if request not in added.tallies:  # too many levels
                continue
            raw, recalibrated = added.tallies[request], added.recalibrated[request]
            columns = fields if cut.grid is None else variables
            columns[cut.name] = ColumnSums(cut.kind, raw, recalibrated, cut.bins, cut.fine)
        about = {
            "outcome": self.roles.outcome,
            "probability": ", ".join(map(str, self.roles.probabilities)),
            "weight_column": self.roles.weight,
            "count_column": self.roles.count,
            "target": self.event,
            "classes": [str(label) for label in self.gathered.predictions.classes],
        }
        summary = Summary(
            about=about,
            rows=int(score.counts.sum()),
            ignored=added.ignored,
            score=score,
            grid=scores,
            variables=variables,
            fields=fields,
            aside=(*self.aside, *unread),
            outcome_weights=weights_depend_on_outcome(added.weights),
        )
        return summary, added


def measured_on_all(
    looked: TargetSearch, every: AllRows, further: Sequence[Request], random_state: int
) -> tuple[Summary, list[Tally | None]]:
    """Replace the sums of a search by those of all rows, and build its results from them.

    further : cells whose sums are wanted as well, given in the end
    """
    sampled, groups = looked.rows, [*looked.columns, *looked.pairs]
    compared = sampled.raw
    scale = every.gathered.rows / max(compared.rows, 1)
    cuts = [cuts_of(group.parts[0], compared) for group in looked.columns]
    crossings = {
        group.names: CrossedCells(tuple(cells_of_part(part) for part in group.parts))
        for group in looked.pairs
    }
    profiles = {group.names: score_cells(group, sampled.grid, scale) for group in groups}
    conjunctions = [candidate.conjunction for _, family in looked.searched.values() for candidate in family]
    searched = ConditionCells(tuple(conjunctions))
    requests: list[Request] = [*crossings.values(), *profiles.values(), *further]
    if conjunctions:
        requests.append(searched)
    edges = score_edges(compared)
    ranks = None if compared.binary else grid_edges(compared.predicted, edges)
    summary, added = every.add(edges, cuts, requests, ranks)
    noise = from_sums.noise_of_sums(
        summary.grid, outcome_weights=summary.outcome_weights, sampled=sampled.noise
    )
    lookup = partial(largest_residual_rows, every.source, every.roles)
    rows = looked.rows = replace(sampled, noise=noise, scale=scale, lookup=lookup)
    look_at_sums(looked, summary, random_state)
    looked.pairs = [
        _crossed(group, added.tallies[request], added.recalibrated[request], rows)
        for group, request in zip(looked.pairs, crossings.values(), strict=True)
    ]
    if conjunctions:
        raw, recalibrated = CellSums.of(added.tallies[searched]), CellSums.of(added.recalibrated[searched])
        looked.searched = _searched(looked, raw, recalibrated)
    # A column with too many levels among all rows has been dropped from `looked.columns`.
    for group in [*looked.columns, *looked.pairs]:
        request = profiles[group.names]
        see_sums(group, (added.tallies[request], added.recalibrated[request]))
    leave_out_shapes(looked)
    of = f" Of a sample of {compared.rows:,} of {every.gathered.rows:,} rows."
    looked.further = [replace(result, method=result.method + of) for result in looked.further]
    return summary, [added.tallies.get(request) for request in further]


def look_at_sums(looked: TargetSearch, summary: Summary, random_state: int) -> None:
    """Score and columns from sums of all rows, in the place of what a sample of them, if there is one, says."""
    rows, sums = looked.rows, summary.variables | summary.fields
    common: Any = {"target": str(summary.about["target"]), "random_state": random_state}
    grid = summary.grid
    looked.score = from_sums.score_from_sums(summary.score, grid, rows.noise, **common)
    looked.scores = CellSums.of(grid)
    seen = [(group.column, group.result) for group in looked.columns]
    if not seen:  # a summary file: columns whose values are all missing stand in for the rows
        seen = [(_stand_in(name, each, rows.raw.rows), None) for name, each in sums.items()]
    looked.columns = []
    for column, sampled in seen:
        if column.name in sums:
            look = _field if column.nominal else _variable
            looked.columns.append(look(column, sums[column.name], rows, sampled, common))
    whole = beyond = CellSums.of(grid.coarsen(np.zeros(grid.counts.size), Levels(("",))))
    if looked.columns:
        beyond = looked.columns[0].beyond.map(lambda values: values.sum(keepdims=True))
    looked.all = whole, beyond


def _stand_in(name: str, each: ColumnSums, rows: int) -> Column:
    """A column of the kind that sums were made of, with nothing but missing values."""
    if not each.bins.size:  # a field
        return Column(name, ColumnKind.CATEGORY, np.full(rows, -1, np.int32))
    return column_like(name, each, np.full(rows, np.nan))


def column_like(name: str, each: ColumnSums, values: Floats) -> Column:
    """A column of numbers, or of days, of the kind that sums were made of."""
    stored = column_type(each.kind)
    kind = ColumnKind.NUMERIC if stored.categorical else stored.column_kind
    return Column(name, kind, values, integer=each.kind == ColumnKind.INTEGER)


def _variable(
    column: Column, each: ColumnSums, rows: SearchContext, sampled: VariableResult | None, common: Any
) -> CellGrid:
    grid = each.tally
    bins, fine = coarsened(grid, each.bins), coarsened(grid, each.fine)
    cells: Any = fine.cells
    # Those that other audits may have.
    shared = np.intersect1d(shared_edges(each.bins), grid.cells.edges)  # type: ignore[union-attr]
    result = from_sums.variable_from_sums(
        column.name, bins, grid, rows.noise, column_kind=column.kind, integer=column.whole, **common
    )
    result = replace(result, fine=coarsened(grid, united(each.bins, shared)))
    if sampled is not None and sampled.curve is not None:
        result = replace(result, curve=sampled.curve, density=sampled.density, curve_rows=len(column))
    part = CodedColumn(column, small(BinPooling(column.values, cells).codes(), cells.count), cells)
    raw, beyond = CellSums.of(fine), CellSums.of(coarsened(each.beyond, each.fine))
    return CellGrid((part,), "variable", rows, raw, beyond, rows.p_values(raw), result=result)


def _field(
    column: Column, each: ColumnSums, rows: SearchContext, _: FieldResult | None, common: Any
) -> CellGrid:
    cells: Any = each.tally.cells
    place = {name: i for i, name in enumerate(cells.names)}
    table = np.array([*(place.get(str(level), 0) for level in column.levels), cells.count - 1], np.int32)
    result = from_sums.field_from_sums(column.name, each.tally, rows.noise, **common)
    part = CodedColumn(column, table[column.values], cells)
    sums = CellSums.of(each.tally), CellSums.of(each.beyond)
    return CellGrid((part,), "field", rows, *sums, result.table["p_value"], result=result)


def _crossed(group: CellGrid, raw: Any, beyond: Any, rows: SearchContext) -> CellGrid:
    """The same pair of columns with the sums of all rows, which may lack values where the sample has none."""
    parts = []
    for part, cells in zip(group.parts, raw.cells.parts, strict=True):
        missing = cells.missing
        codes = part.codes if missing else np.minimum(part.codes, max(part.known - 1, 0))
        if part.some:
            codes = np.where(part.codes == part.count, part.known + missing, codes)
        parts.append(replace(part, codes=codes, cells=cells))
    sums = CellSums.of(raw)
    return CellGrid(tuple(parts), group.kind, rows, sums, CellSums.of(beyond), rows.p_values(sums))


def _searched(
    looked: TargetSearch, raw: CellSums, beyond: CellSums
) -> dict[str, tuple[int, list[Candidate]]]:
    """The places of searches, tested by their sums over all rows among all that were searched."""
    made = {}
    cells = enumerate(np.nan_to_num(looked.rows.p_values(raw), nan=1.0).tolist())
    for family, (size, places) in looked.searched.items():
        moved = []
        for place, (cell, p) in zip(places, cells, strict=False):
            own = raw.cell(cell), beyond.cell(cell)
            moved.append(replace(place, raw=own[0], beyond=own[1], p_value=p * size * place.searched))
        made[family] = size, [place for place in moved if place.raw.weight[0] > 0]
    return made


def score_cells(group: CellGrid, grid: Any, scale: float) -> CrossedCells:
    """What to add up for a group along the score.

    Of a field with very many levels those are added that have rows enough to be tested, the largest first. Ranges are
    few, and pairs have no more cells than are kept.
    """
    cells, most = [cells_of_part(part) for part in group.parts], MOST_CELLS // grid.cells
    if group.count > most:
        part = group.parts[0]
        rows = scale * np.bincount(part.codes, minlength=part.count)[: part.known]
        chosen = np.argsort(-rows, kind="stable")[:most]
        levels = tuple(part.cells.names[i] for i in chosen[rows[chosen] >= 2 * EFFECTIVE_EVENTS])
        cells = [LevelCells(part.name, levels=levels)]
    return CrossedCells((*cells, RangeCells(SCORE, grid.edges)))


def cells_of_part(part: CodedColumn) -> RangeCells | LevelCells:
    """The cells of a column as a pass over all rows is asked for them."""
    if part.edges is None:
        return LevelCells(part.name, levels=part.cells.names)
    return RangeCells(part.name, part.edges)


def see_sums(group: CellGrid, both: Any) -> None:
    """Give a group its sums along the score; a field, of whose levels those of the sample were added, in its order."""
    cells, *_, score = both[0].cells.parts
    along = RawAndRecalibrated(*(along_of_tally(sums, group.rows) for sums in both))
    group.along = along.map(lambda values: values.reshape(-1, score.count))
    if group.kind == "field":
        part = group.parts[0]
        place = {name: number for number, name in enumerate(part.cells.names)}
        own = np.array(
            [*(place.get(name, -1) for name in cells.names), *[part.known] * cells.missing], np.int64
        )
        order = np.argsort(own, kind="stable")[np.count_nonzero(own < 0) :]
        group.seen, group.along = own[order], group.along.map(lambda values: values[order])
    elif len(group.parts) == 1 and group.parts[0].edges is not None and isinstance(cells, Levels):
        # A number whose values the sample lacks: only those that are missing were added, and they come last.
        def padded(values: Floats) -> Floats:
            return np.concatenate([np.zeros((group.count - len(values), score.count)), values])

        group.along = group.along.map(padded)
