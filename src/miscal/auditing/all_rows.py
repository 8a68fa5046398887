"""Evidence from all rows for what a search proposed on a sample of them.

Beyond memory the search runs on as many rows as the memory limit allows, by the same program as on a table that fits.
Its cells, pairs and segments are then added up over all rows in one pass, in parts of a table or on a cluster, and
tested on those sums. Which rows segments share is estimated from the sample, each row of which stands for as many as it
was taken from.

The rule: what is added up is asked for by request and looked up by request; the search on the sample is not changed.
"""

from collections.abc import Mapping, Sequence
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
from miscal.auditing.column_choice import is_constant
from miscal.auditing.exclusions import to_plain
from miscal.auditing.search.cell_grids import CellGrid, GridId
from miscal.auditing.search.coded_columns import CodedColumn, smallest_dtype
from miscal.auditing.search.collect import shown_edges
from miscal.auditing.search.evidence import RawAndRecalibrated
from miscal.auditing.search.not_tested import shapes_not_tested
from miscal.auditing.search.score_profiles import profile_of_tally
from miscal.auditing.search.search_context import ScoreGrid, SearchContext
from miscal.auditing.search.target_search import RowSearch, TargetSearch
from miscal.auditing.search.tested_segments import segment_with_sums
from miscal.cells.partitions import BinPooling, Levels
from miscal.cells.ranges import grid_quantiles, quantile_edges, shared_edges, united
from miscal.codes.audit import ExclusionReason, Family, FindingKind, Reason
from miscal.codes.data import ColumnKind
from miscal.data.arrays import Plain
from miscal.data.column_types import column_type
from miscal.data.columns import Column
from miscal.data.target import TargetData
from miscal.metrics import from_sums
from miscal.metrics.cell_evaluation import grid_edges
from miscal.metrics.field import FieldResult
from miscal.metrics.variable import VariableResult
from miscal.report.model import Excluded
from miscal.stats.cell_sums import EFFECTIVE_EVENTS, CellSums, Floats
from miscal.stats.null_model import weights_depend_on_outcome

MAX_PROFILE_SUMS = 1 << 17  # cells of one grid by the score: what a pass keeps room for


class ColumnBinning(NamedTuple):
    """How one column is cut.

    Attributes
    ----------
    name, kind : str
        The column.
    bins, fine : ndarray
        Edges of the ranges that are shown, and of those that are searched; empty for levels.
    grid : ndarray or None
        Edges of a grid that has all of them, and more; None for levels.
    """

    name: str
    kind: ColumnKind
    bins: Floats
    fine: Floats
    grid: Floats | None


def score_edges(target: TargetData) -> Floats:
    """The edges of the bins of the score that are shown: fifteen, of about equal weight."""
    return quantile_edges(target.predicted, 15, target.weight, target.count, apart=True)


def column_binning(
    coded: CodedColumn, target: TargetData, *, constant_as_level: bool = False
) -> ColumnBinning:
    """How a column of a sample was cut, with a grid that has all of its edges."""
    column, fine = coded.column, coded.edges
    kind = ColumnKind.INTEGER if column.integer else column.kind
    if column.nominal or (constant_as_level and is_constant(column)):
        return ColumnBinning(column.name, kind, np.empty(0), np.empty(0), None)
    known = column.values[~np.isnan(column.values)]
    bins = shown_edges(column, target)
    if bins is None or fine is None:  # all of the sample's values are missing
        bins = fine = np.array([-np.inf, np.inf])
    edges = [fine]
    if known.size:
        edges.append(grid_quantiles(known))
        if column.type.round_edges:
            edges.append(shared_edges(bins))
    return ColumnBinning(column.name, kind, bins, fine, united(bins, *edges))


def binning_like(name: str, summary: Summary) -> ColumnBinning:
    """How a column was cut for another summary, so that both can be added."""
    sums = (summary.variables | summary.fields)[name]
    return ColumnBinning(name, sums.kind, sums.bins, sums.fine, getattr(sums.tally.cells, "edges", None))


@dataclass(frozen=True, eq=False)
class AllRows:
    """All rows of a table, to be added up.

    Attributes
    ----------
    source : Source
        Where they are.
    roles : ColumnRoles
        Which column is what.
    gathered : GatheredRows
        The sample.
    target, event : str or int, str
        What is compared, and the same in words.
    max_levels : int
        Columns of more levels are excluded.
    excluded : sequence of Excluded
        Columns excluded so far.
    like : Tally, optional
        The scores of another table, whose recalibration map is used, so that the summaries of both can be added up.
    """

    source: Any
    roles: ColumnRoles
    gathered: GatheredRows
    target: str | int
    event: str
    max_levels: int
    excluded: Sequence[Excluded]
    like: Tally | None = None

    def add(
        self,
        score_edges: Floats,
        binnings: Sequence[ColumnBinning],
        further: Sequence[Request] = (),
        ranks: Floats | None = None,
    ) -> tuple[Summary, streaming.StreamedSums]:
        """Add up all rows by the score, by the columns and by `further` cells, as predicted and recalibrated.

        Parameters
        ----------
        score_edges : ndarray
            Edges of the bins of the score that the report shows.
        binnings : sequence of ColumnBinning
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
            LevelCells(binning.name, self.max_levels)
            if binning.grid is None
            else RangeCells(binning.name, binning.grid)
            for binning in binnings
        ]
        requests = [score_cells, *column_cells, *further]
        added = streaming.add_up(self.source, self.roles, self.target, requests, recalibration)
        score = added.tallies[score_cells]
        if ranks is not None:
            scores, score = score, coarsened(score, score_edges)
        too_many = Reason(ExclusionReason.TOO_MANY_LEVELS, {"limit": self.max_levels})
        excluded = [*self.excluded, *(Excluded(name, added.rows, too_many) for name, _ in added.excluded)]
        variables: dict[str, ColumnSums] = {}
        fields: dict[str, ColumnSums] = {}
        for binning, request in zip(binnings, column_cells, strict=True):
            if request not in added.tallies:  # too many levels
                continue
            raw, recalibrated = added.tallies[request], added.recalibrated[request]
            columns = fields if binning.grid is None else variables
            columns[binning.name] = ColumnSums(binning.kind, raw, recalibrated, binning.bins, binning.fine)
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
            aside=tuple(map(to_plain, excluded)),
            outcome_weights=weights_depend_on_outcome(added.weights),
        )
        return summary, added


def collect_on_all_rows(
    search: TargetSearch, all_rows: AllRows, further: Sequence[Request], random_state: int
) -> tuple[TargetSearch, Summary, list[Tally | None]]:
    """Collect the evidence of all rows for what was proposed on a sample of them.

    Parameters
    ----------
    search : TargetSearch
        What was proposed on the sample.
    all_rows : AllRows
        Where the rows are.
    further : sequence of Request
        Cells whose sums are needed as well.

    Returns
    -------
    search : TargetSearch
        The same proposals with the evidence of all rows.
    summary : Summary
        Sums of score and columns.
    further : list of Tally or None
        Those of `further`.
    """
    sampled = search.context
    sampling_ratio = all_rows.gathered.rows / max(sampled.raw.rows, 1)
    requests = _EvidenceRequests.of(search, sampling_ratio)
    edges = score_edges(sampled.raw)
    ranks = None if sampled.raw.binary else grid_edges(sampled.raw.predicted, edges)
    binnings = [column_binning(grid.coded_columns[0], sampled.raw) for grid in search.columns]
    summary, sums = all_rows.add(edges, binnings, [*requests.every, *further], ranks)
    null_model = from_sums.noise_of_sums(
        summary.grid, outcome_weights=summary.outcome_weights, sampled=sampled.null_model
    )
    context = replace(
        sampled,
        null_model=null_model,
        sampling_ratio=sampling_ratio,
        find_largest=partial(largest_residual_rows, all_rows.source, all_rows.roles),
    )
    columns = [(grid.column, grid.result) for grid in search.columns]
    search = search_of_sums(search, context, columns, summary, random_state)
    pairs = [_crossed_grid(grid, *_both(sums, requests.crossings[grid.id]), context) for grid in search.pairs]
    # A column with too many levels among all rows is not in `search.columns` any more.
    note = f" Of a sample of {sampled.raw.rows:,} of {all_rows.gathered.rows:,} rows."
    search = replace(
        search,
        columns=tuple(
            _with_profiles(grid, *_both(sums, requests.profiles[grid.id])) for grid in search.columns
        ),
        pairs=tuple(_with_profiles(grid, *_both(sums, requests.profiles[grid.id])) for grid in pairs),
        row_searches=_row_searches(search, requests, sums),
        further_results=tuple(
            replace(result, method=result.method + note) for result in search.further_results
        ),
    )
    search = search.extended(not_tested=shapes_not_tested(search))
    return search, summary, [sums.tallies.get(request) for request in further]


@dataclass(frozen=True)
class _EvidenceRequests:
    """The cells that one pass over all rows adds up for a search, by what they are for.

    Attributes
    ----------
    crossings : mapping of grid id to CrossedCells
        Cells of pairs.
    profiles : mapping of grid id to CrossedCells
        Cells of columns and pairs, each by the score.
    conditions : ConditionCells or None
        Segments of row searches, in their order.
    """

    crossings: Mapping[GridId, CrossedCells]
    profiles: Mapping[GridId, CrossedCells]
    conditions: ConditionCells | None

    @classmethod
    def of(cls, search: TargetSearch, sampling_ratio: float) -> "_EvidenceRequests":
        """What a search needs."""
        conjunctions = tuple(
            segment.conjunction
            for row_search in search.row_searches.values()
            for segment in row_search.segments
        )
        return cls(
            crossings={
                grid.id: CrossedCells(tuple(cells_of_coded(coded) for coded in grid.coded_columns))
                for grid in search.pairs
            },
            profiles={
                grid.id: profile_cells(grid, search.context.score_grid, sampling_ratio)
                for grid in search.grids
            },
            conditions=ConditionCells(conjunctions) if conjunctions else None,
        )

    @property
    def every(self) -> list[Request]:
        """All requests."""
        conditions = [] if self.conditions is None else [self.conditions]
        return [*self.crossings.values(), *self.profiles.values(), *conditions]


def _both(sums: streaming.StreamedSums, request: Request) -> tuple[Tally, Tally]:
    """The sums of a request, as predicted and after global recalibration."""
    return sums.tallies[request], sums.recalibrated[request]


def search_of_sums(
    search: TargetSearch,
    context: SearchContext,
    columns: Sequence[tuple[Column, VariableResult | FieldResult | None]],
    summary: Summary,
    random_state: int,
) -> TargetSearch:
    """A search with score and columns from sums.

    Parameters
    ----------
    search : TargetSearch
        Proposals, whose score and columns are replaced.
    columns : sequence of tuple
        The columns in order, with what a sample shows of them; those that the summary lacks are dropped.
    """
    sums = summary.variables | summary.fields
    common: Plain = {"target": str(summary.about["target"]), "random_state": random_state}
    grid = summary.grid
    grids = []
    for column, sampled in columns:
        if column.name not in sums:
            continue
        if column.nominal:
            grids.append(_categorical_grid(column, sums[column.name], context, common))
        else:
            grids.append(_numeric_grid(column, sums[column.name], context, sampled, common))
    raw = recalibrated = CellSums.of(grid.coarsen(np.zeros(grid.counts.size), Levels(("",))))
    if grids:
        recalibrated = grids[0].recalibrated.map(lambda values: values.sum(keepdims=True))
    return replace(
        search,
        context=context,
        score=from_sums.score_from_sums(summary.score, grid, context.null_model, **common),
        score_sums=CellSums.of(grid),
        columns=tuple(grids),
        shape_tests={},
        whole_sums=(raw, recalibrated),
    )


def stand_in(name: str, sums: ColumnSums, rows: int) -> Column:
    """A column of the kind that sums were made of, with nothing but missing values."""
    if not sums.bins.size:  # a categorical column
        return Column(name, ColumnKind.CATEGORY, np.full(rows, -1, np.int32))
    return column_like(name, sums, np.full(rows, np.nan))


def column_like(name: str, sums: ColumnSums, values: Floats) -> Column:
    """A column of numbers, or of days, of the kind that sums were made of."""
    stored = column_type(sums.kind)
    kind = ColumnKind.NUMERIC if stored.categorical else stored.column_kind
    return Column(name, kind, values, integer=sums.kind == ColumnKind.INTEGER)


def _numeric_grid(
    column: Column,
    sums: ColumnSums,
    context: SearchContext,
    sampled: VariableResult | FieldResult | None,
    common: Any,
) -> CellGrid:
    grid = sums.tally
    bins, fine = coarsened(grid, sums.bins), coarsened(grid, sums.fine)
    cells: Any = fine.cells
    # Edges that other audits may have too.
    shared = np.intersect1d(shared_edges(sums.bins), grid.cells.edges)  # type: ignore[union-attr]
    result = from_sums.variable_from_sums(
        column.name, bins, grid, context.null_model, column_kind=column.kind, integer=column.whole, **common
    )
    result = replace(result, fine=coarsened(grid, united(sums.bins, shared)))
    if isinstance(sampled, VariableResult) and sampled.curve is not None:
        result = replace(result, curve=sampled.curve, density=sampled.density, curve_rows=len(column))
    codes = smallest_dtype(BinPooling(column.values, cells).codes(), cells.count)
    return CellGrid(
        coded_columns=(CodedColumn(column, codes, cells),),
        kind=FindingKind.VARIABLE,
        context=context,
        raw=(raw := CellSums.of(fine)),
        recalibrated=CellSums.of(coarsened(sums.beyond, sums.fine)),
        p_value=context.p_values(raw),
        result=result,
    )


def _categorical_grid(column: Column, sums: ColumnSums, context: SearchContext, common: Any) -> CellGrid:
    cells: Any = sums.tally.cells
    cell_of_name = {name: cell for cell, name in enumerate(cells.names)}
    cell_of_level = [cell_of_name.get(str(level), 0) for level in column.levels]
    table = np.array([*cell_of_level, cells.count - 1], np.int32)  # the last are missing values
    result = from_sums.field_from_sums(column.name, sums.tally, context.null_model, **common)
    return CellGrid(
        coded_columns=(CodedColumn(column, table[column.values], cells),),
        kind=FindingKind.FIELD,
        context=context,
        raw=CellSums.of(sums.tally),
        recalibrated=CellSums.of(sums.beyond),
        p_value=result.table["p_value"],
        result=result,
    )


def _crossed_grid(grid: CellGrid, raw: Tally, recalibrated: Tally, context: SearchContext) -> CellGrid:
    """The same pair of columns with the sums of all rows, which may lack values where the sample has none."""
    crossed: Any = raw.cells
    coded_columns = []
    for coded, cells in zip(grid.coded_columns, crossed.parts, strict=True):
        missing = cells.missing
        codes = coded.codes if missing else np.minimum(coded.codes, max(coded.n_known - 1, 0))
        if coded.truncated:
            codes = np.where(coded.codes == coded.n_cells, coded.n_known + missing, codes)
        coded_columns.append(replace(coded, codes=codes, cells=cells))
    sums = CellSums.of(raw)
    p_value = context.p_values(sums)
    return CellGrid(tuple(coded_columns), grid.kind, context, sums, CellSums.of(recalibrated), p_value)


def _row_searches(
    search: TargetSearch, requests: _EvidenceRequests, sums: streaming.StreamedSums
) -> dict[Family, RowSearch]:
    """The segments of row searches, tested by their sums over all rows among all that were searched."""
    if requests.conditions is None:
        return dict(search.row_searches)
    raw, recalibrated = map(CellSums.of, _both(sums, requests.conditions))
    p_values = np.nan_to_num(search.context.p_values(raw), nan=1.0).tolist()
    cells = iter(range(len(p_values)))
    measured = {}
    for family, row_search in search.row_searches.items():
        segments = [
            segment_with_sums(
                segment.candidate,
                raw.cell(cell),
                recalibrated.cell(cell),
                p_values[cell] * row_search.n_searched * segment.n_searched,
                p_resolution_reached=segment.judgement.p_resolution_reached,
            )
            for segment, cell in zip(row_search.segments, cells, strict=False)
        ]
        with_rows = tuple(segment for segment in segments if segment.weight > 0)
        measured[family] = RowSearch(row_search.n_searched, with_rows)
    return measured


def profile_cells(grid: CellGrid, scores: ScoreGrid, sampling_ratio: float) -> CrossedCells:
    """What to add up for a grid by the score.

    Of a column with very many levels those are added that have rows enough to be tested, the largest first. Ranges are
    few, and pairs have no more cells than are kept.
    """
    cells: list[RangeCells | LevelCells] = [cells_of_coded(coded) for coded in grid.coded_columns]
    max_cells = MAX_PROFILE_SUMS // scores.n_cells
    if grid.n_cells > max_cells:
        coded = grid.coded_columns[0]
        rows = sampling_ratio * np.bincount(coded.codes, minlength=coded.n_cells)[: coded.n_known]
        largest = np.argsort(-rows, kind="stable")[:max_cells]
        levels = tuple(coded.cells.names[cell] for cell in largest[rows[largest] >= 2 * EFFECTIVE_EVENTS])
        cells = [LevelCells(coded.name, levels=levels)]
    return CrossedCells((*cells, RangeCells(SCORE, scores.edges)))


def cells_of_coded(coded: CodedColumn) -> RangeCells | LevelCells:
    """The cells of a column as a pass over all rows is asked for them."""
    if coded.edges is None:
        return LevelCells(coded.name, levels=coded.cells.names)
    return RangeCells(coded.name, coded.edges)


def _with_profiles(grid: CellGrid, raw: Tally, recalibrated: Tally) -> CellGrid:
    """A grid with its sums by the score; of a categorical column those of the levels in the sample were added."""
    crossed: Any = raw.cells
    cells, *_, scores = crossed.parts
    profiles = RawAndRecalibrated(
        profile_of_tally(raw, grid.context), profile_of_tally(recalibrated, grid.context)
    ).map(lambda values: values.reshape(-1, scores.count))
    coded = grid.coded_columns[0]
    if grid.kind == FindingKind.FIELD:
        number_of_name = {name: number for number, name in enumerate(coded.cells.names)}
        known = [number_of_name.get(name, -1) for name in cells.names]
        profiled = np.array([*known, *[coded.n_known] * cells.missing], np.int64)
        order = np.argsort(profiled, kind="stable")[np.count_nonzero(profiled < 0) :]
        return replace(
            grid, profiles=profiles.map(lambda values: values[order]), profiled_cells=profiled[order]
        )
    if not grid.is_crossed and coded.edges is not None and isinstance(cells, Levels):
        # Numbers of which the sample has no values: only missing ones were added, and they come last.
        def padded(values: Floats) -> Floats:
            return np.concatenate([np.zeros((grid.n_cells - len(values), scores.count)), values])

        profiles = profiles.map(padded)
    return replace(grid, profiles=profiles)
