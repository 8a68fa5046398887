"""Searches beyond single columns: pairs of them, conjunctions of up to three, and planes of two numbers.

The rule: each search takes a `TargetSearch` and returns one with what it adds. Tests that a screening leaves out count
as if they were made, and what is left out is listed.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, islice
from operator import attrgetter

import numpy as np

from miscal.aggregate.source import release_memory
from miscal.aggregate.subpopulations import ordered
from miscal.auditing.options import AuditOptions
from miscal.auditing.search.candidates import Candidate, RowMaskSegment
from miscal.auditing.search.cell_grids import CellGrid, best_blocks, family_of, sums_of_rows, tally_grid
from miscal.auditing.search.coded_columns import CodedColumn, coarse_coding, smallest_dtype
from miscal.auditing.search.collect import screening_p
from miscal.auditing.search.not_tested import names_of
from miscal.auditing.search.target_search import LeftOut, RowSearch, TargetSearch
from miscal.auditing.search.tested_segments import TestedSegment, block_with_sums, segment_with_sums
from miscal.cells.condition import FULL
from miscal.cells.subpopulations import Conjunctions
from miscal.codes.audit import Family, FindingKind, NotTestedKind, NotTestedReason, Remedy
from miscal.codes.inference import Null
from miscal.data.arrays import Array
from miscal.data.columns import Column
from miscal.data.libraries import special
from miscal.data.predictions import Predictions
from miscal.metrics.neighbourhood import MapGrid, NeighbourhoodResult, by_neighbourhood
from miscal.metrics.subpopulation import SubpopulationResult, by_subpopulation, subpopulation_curve
from miscal.results import CumulativeCurve, Result
from miscal.stats.metric_null import at_resolution

# Pairs of columns.
MAX_SCREENING_P = 0.25  # a column with a larger p-value is crossed only with one that has a smaller one
REDUNDANT_SHARE = 0.6  # of its information that a column may have in common with another
MAX_PAIR_CELLS = 1 << 12  # combinations of one pair: as many as a pass over all rows keeps by the score too
MAX_CROSSED_CELLS, MIN_CROSSED_CELLS = 150, 64  # of a column, and of the larger of two large ones
SUSPECT_SHARE, MAX_SUSPECT_P = 1 / 3, 0.05  # of the crossed categories: those with so small p-values alone
MAX_PAIRS = {"quick": 0, "normal": 200, "deep": 2000}


@dataclass(frozen=True, eq=False)
class _CrossingCandidate:
    """A column that may be crossed: how it is cut, and how surprising it is alone."""

    coded: CodedColumn
    screening_p: float
    grid: CellGrid
    truncations: dict[int, CodedColumn] = field(default_factory=dict)

    @cached_property
    def priority(self) -> Array:
        """Its categories in the order in which they are crossed.

        First those with small p-values, at most a third of those that are crossed, then the others, largest first.
        """
        grid, n_known = self.grid, self.coded.n_known
        p_value = np.nan_to_num(grid.p_value[:n_known], nan=1.0)
        max_suspect = int(SUSPECT_SHARE * min(n_known, MAX_CROSSED_CELLS))
        suspect = np.argsort(p_value, kind="stable")[:max_suspect]
        suspect = suspect[p_value[suspect] <= MAX_SUSPECT_P]
        largest = np.argsort(-grid.raw.weight[:n_known], kind="stable")
        return np.concatenate([suspect, largest[~np.isin(largest, suspect)]])

    def truncated(self, max_cells: int) -> CodedColumn:
        """The column with at most so many cells."""
        coded = self.coded
        if coded.n_cells <= max_cells:
            return coded
        if max_cells not in self.truncations:
            chosen = np.sort(self.priority[: max_cells - coded.cells.missing])
            new_code = np.full(coded.n_cells, chosen.size + coded.cells.missing)
            new_code[chosen] = np.arange(chosen.size)
            new_code[coded.n_known :] = chosen.size  # missing values
            names = tuple(coded.cells.names[cell] for cell in chosen.tolist())
            codes = smallest_dtype(new_code[coded.codes], chosen.size + 2)
            cells = replace(coded.cells, names=names)
            self.truncations[max_cells] = CodedColumn(coded.column, codes, cells, truncated=True)
        return self.truncations[max_cells]

    def not_crossed(self) -> LeftOut | None:
        """The categories that were not crossed, if any."""
        if not self.truncations:
            return None
        n_known = self.coded.n_known
        crossed = [coded.n_known for coded in self.truncations.values()]
        numbers = sorted({n_known - max(crossed), n_known - min(crossed)})
        left_out = " to ".join(f"{number:,}" for number in numbers)
        where = f"{self.coded.name} ({left_out} of {n_known:,} levels)"
        return LeftOut(NotTestedKind.LEVELS, where, NotTestedReason.SMALL_CATEGORIES, Remedy.JOIN_COLUMNS)


def search_pairs(search: TargetSearch, options: AuditOptions) -> TargetSearch:
    """Cross columns of which one is surprising by itself; pairs left out are counted as if they were tested.

    Of a column with many categories those with small p-values are crossed, and the largest; the others count as tested.
    """
    columns = [
        _CrossingCandidate(
            coarse_coding(grid.coded_columns[0], search.context.table_weight), screening_p(search, grid), grid
        )
        for grid in search.columns
    ]
    pairs = sorted(combinations(columns, 2), key=lambda pair: sorted(column.screening_p for column in pair))
    suspect = sum(min(one.screening_p, two.screening_p) <= MAX_SCREENING_P for one, two in pairs)
    n_eligible = len(pairs) if options.by else suspect
    n_crossed = min(MAX_PAIRS[options.effort], n_eligible)
    grids: list[CellGrid] = []
    skipped: list[tuple[Family, int]] = []
    left_out: list[LeftOut] = []
    for number, (one, two) in enumerate(pairs[:n_crossed]):
        if number % 10 == 0:
            options.report_progress(f"pairs of columns, {number + 1} of {n_crossed}")
        grid = _crossed(search, one, two)
        if grid is None:
            reason, remedy = NotTestedReason.REDUNDANT, Remedy.JOIN_COLUMNS
            left_out.append(LeftOut(NotTestedKind.PAIRS, names_of(one.grid, two.grid), reason, remedy))
            continue
        grids.append(grid)
        if any(coded.truncated for coded in grid.coded_columns):
            n_skipped = _n_tests(one.coded, two.coded) - _n_tests(*grid.coded_columns)
            skipped.append((grid.family, n_skipped))
    for number, (one, two) in enumerate(pairs[n_crossed:], n_crossed):
        reason = NotTestedReason.MANY_PAIRS if number < n_eligible else NotTestedReason.NOT_SUSPECT
        where = names_of(one.grid, two.grid)
        left_out.append(LeftOut(NotTestedKind.PAIRS, where, reason, Remedy.NAME_COLUMNS))
        too_large = any(
            column.coded.n_cells > max_cells
            for column, max_cells in zip((one, two), max_cells_per_side(one, two), strict=True)
        )
        family = Family.LARGE_FIELDS if too_large else family_of((one.coded, two.coded))
        skipped.append((family, _n_tests(one.coded, two.coded)))
    left_out += [entry for column in columns if (entry := column.not_crossed()) is not None]
    return search.extended(pairs=grids, skipped_tests=skipped, not_tested=left_out)


def _crossed(search: TargetSearch, one: _CrossingCandidate, two: _CrossingCandidate) -> CellGrid | None:
    """Two columns crossed; None where they are nearly redundant (a date and its month)."""
    sizes = max_cells_per_side(one, two)
    coded = [column.truncated(size) for column, size in zip((one, two), sizes, strict=True)]
    grid = tally_grid(coded, FindingKind.SUBPOPULATION, search.context)
    joint = grid.raw.weight.reshape(grid.shape) / max(grid.raw.weight.sum(), 1e-300)
    first, second, both = (special.entr(shares).sum() for shares in (joint.sum(0), joint.sum(1), joint))
    shared_information = first + second - both
    return None if shared_information > REDUNDANT_SHARE * min(first, second) else grid


def max_cells_per_side(one: _CrossingCandidate, two: _CrossingCandidate) -> tuple[int, int]:
    """How many cells each of two columns may have, so that the pair has few enough."""
    first, second = (min(column.coded.n_cells, MAX_CROSSED_CELLS) for column in (one, two))
    larger, smaller = max(first, second), min(first, second)
    larger = min(larger, max(MAX_PAIR_CELLS // max(smaller, 1), MIN_CROSSED_CELLS))
    smaller = min(smaller, MAX_PAIR_CELLS // max(larger, 1))
    return (smaller, larger) if second > first else (larger, smaller)


def _n_tests(one: CodedColumn, two: CodedColumn) -> int:
    """How many tests a pair makes: one for each combination of categories; a plane of two numbers is one."""
    return math.prod(coded.n_cells for coded in (one, two) if coded.edges is None)


# Conjunctions of up to three columns.
MAX_DEPTH, HALVES = 3, 2
MAX_COLUMNS = {"normal": 8, "deep": 12}  # that are combined, those with the smallest p-values
MANY_ROWS, MAX_COLUMNS_OF_MANY_ROWS = 300_000, 4  # each partition holds a number per row
MAX_CATEGORIES = 20
DRAWS = {"normal": 999, "deep": 1999}
MAX_WORK = 3e9  # rows times draws times partitions; beyond it Bonferroni's inequality
MIN_DRAWS = 199
MAX_SEGMENTS, MAX_SEGMENT_P = 60, 0.2  # of the worst that become candidates
MAX_DRAWN, MAX_DRAWN_FROM = 3, 40  # worst conjunctions whose curves are drawn, among so many
SAME_ROWS_SHARE = 0.5  # of the rows in either that are in both, from which two are drawn once
DRAWN_POINTS = 200


def search_subpopulations(
    predictions: Predictions, search: TargetSearch, options: AuditOptions
) -> TargetSearch:
    """Search conjunctions; where some columns had to be left out, those are counted as if they had been tested."""
    screening: dict[Column, float] = {}
    left_out = []
    for grid in search.columns:
        if grid.n_ordered or len(grid.column.levels) <= MAX_CATEGORIES:
            screening[grid.column] = screening_p(search, grid)
        else:
            reason, remedy = NotTestedReason.MANY_CATEGORIES, Remedy.GROUP_CATEGORIES
            left_out.append(_not_combined(grid.column, reason, remedy, MAX_CATEGORIES))
    if len(screening) < 2:
        return search.extended(not_tested=left_out)
    options.report_progress("subpopulations")
    rows = predictions.rows
    n_columns = MAX_COLUMNS[options.effort] if rows <= MANY_ROWS else MAX_COLUMNS_OF_MANY_ROWS
    ranked = sorted(screening, key=screening.__getitem__)
    chosen = ranked[:n_columns]
    left_out += [
        _not_combined(column, NotTestedReason.LESS_SUSPECT, Remedy.FEWER_COLUMNS)
        for column in ranked[n_columns:]
    ]
    names = [column.name for column in screening if column in chosen]
    release_memory(rows)
    result = by_subpopulation(
        predictions,
        names,
        subpopulations=Conjunctions(MAX_DEPTH, HALVES),
        simulations=_n_draws(search, rows, len(names), DRAWS[options.effort]),
        target=search.target,
        random_state=options.random_state,
    )
    factor = _times_more(screening, chosen)
    release_memory(rows)
    segments = tuple(_conjunctions(predictions, search, result, factor))
    curves = _cumulative_differences(predictions, search, result)
    return search.extended(
        row_searches={Family.SUBPOPULATIONS: RowSearch(int(result.table.rows * factor), segments)},
        further_results=[replace(result, cumulative=curves)],
        not_tested=left_out,
    )


def _not_combined(column: Column, reason: NotTestedReason, remedy: Remedy, limit: int = 0) -> LeftOut:
    return LeftOut(NotTestedKind.SUBPOPULATIONS, column.name, reason, remedy, limit)


def _n_draws(search: TargetSearch, rows: int, n_columns: int, draws: int) -> int:
    """How many draws there is time for."""
    partitions = sum(math.comb(n_columns, depth) for depth in range(1, MAX_DEPTH + 1))
    if rows * draws * partitions <= MAX_WORK:
        return draws
    if search.context.null_model.null == Null.RESIDUAL:  # signs are flipped by simulation alone
        return max(MIN_DRAWS, int(MAX_WORK / (rows * partitions)))
    return int(2e8 / rows) + 2  # more draws than are ever made, so that Bonferroni's inequality takes over


def _cumulative_differences(
    predictions: Predictions, search: TargetSearch, result: SubpopulationResult
) -> list[CumulativeCurve]:
    """Cumulative differences of the whole table, and of the worst conjunctions that are not about the same rows."""
    rows, units = ordered(search.context.raw), search.context.null_model.units
    drawn = [(FULL, np.ones(predictions.rows, bool))]
    labelled = zip(result.table["label"], result.definitions.ordered, strict=True)
    for label, definition in islice(labelled, MAX_DRAWN_FROM):
        if not definition.conditions or len(drawn) > MAX_DRAWN:
            continue
        inside = definition.rows(predictions.columns)
        if all(np.sum(inside & other) < SAME_ROWS_SHARE * np.sum(inside | other) for _, other in drawn[1:]):
            drawn.append((label, inside))
    return [
        replace(
            subpopulation_curve(rows, np.flatnonzero(inside[rows.order]), units, DRAWN_POINTS), label=label
        )
        for label, inside in drawn
    ]


def _times_more(columns: Iterable[Column], chosen: Iterable[Column]) -> float:
    """How many times more conjunctions there are over all columns than over those chosen."""
    of_all, of_chosen = (
        np.poly([-len(column.levels) if column.nominal else -HALVES for column in some])
        for some in (columns, chosen)
    )  # of up to three of the columns: elementary symmetric polynomials
    depths = slice(1, MAX_DEPTH + 1)
    return max(1.0, float(of_all[depths].sum() / max(of_chosen[depths].sum(), 1.0)))


def _conjunctions(
    predictions: Predictions, search: TargetSearch, result: SubpopulationResult, factor: float
) -> Iterator[TestedSegment]:
    """The worst conjunctions of two columns or more, with their sums."""
    table, definitions = result.table, result.definitions.ordered
    number = 0
    for definition, label, p_value in zip(definitions, table["label"], table["p_adjusted"], strict=True):
        if not p_value * factor <= MAX_SEGMENT_P or number >= MAX_SEGMENTS:
            return
        if len(definition.columns) < 2:  # the whole table and single columns are tested elsewhere
            continue
        number += 1
        levels = tuple(condition.words() for condition in definition.conditions)
        segment = RowMaskSegment(
            FindingKind.SUBPOPULATION,
            definition.rows(predictions.columns),
            label,
            definition.columns,
            levels,
            definition,
        )
        members = segment.members
        yield segment_with_sums(
            Candidate(segment, Family.SUBPOPULATIONS),
            sums_of_rows(search.context.raw, members),
            sums_of_rows(search.context.recalibrated, members),
            p_value * factor,
            p_resolution_reached=_at_resolution(result, p_value),
        )


def _at_resolution(result: Result, p_value: float) -> bool:
    """Whether a p-value is the smallest that the simulations of a result can give."""
    draws = result.settings.get("draws")
    return bool(draws and at_resolution(p_value, draws))


# Planes of two numbers.
BANDWIDTH = 0.3  # in standard deviations, times the two dimensions
MAX_PLANES = 15
MAP_CELLS = 24  # along each side
EFFECTIVE_BLOCKS = (
    1000  # blocks in a plane that do not share most of their rows, roughly: the cost of the search
)
MAX_MAPPED_ROWS = 200_000
PLANES_PER_SIMULATIONS = 3  # for which 999 simulations can be significant; more planes get more
MAX_SHOWN_MAPS = 3


def search_neighbourhoods(
    predictions: Predictions, search: TargetSearch, options: AuditOptions
) -> TargetSearch:
    """Test the plane of every pair of numbers, the most surprising first; pairs left out are counted."""
    screening = {grid: screening_p(search, grid) for grid in search.columns if grid.is_numeric}
    pairs = sorted(combinations(screening, 2), key=lambda pair: sorted(screening[grid] for grid in pair))
    too_many_rows = predictions.rows > MAX_MAPPED_ROWS
    left_out = _planes_left_out(pairs, too_many_rows=too_many_rows)
    if not pairs or too_many_rows:
        return search.extended(not_tested=left_out)
    draws = 999 * max(1, math.ceil(len(pairs) / PLANES_PER_SIMULATIONS))
    maps: list[NeighbourhoodResult] = []
    segments: list[TestedSegment] = []
    for one, two in pairs[:MAX_PLANES]:
        options.report_progress(f"neighbourhoods of {names_of(one, two)}")
        result = by_neighbourhood(
            predictions,
            [*one.names, *two.names],
            bins=search.context.null_model.units.back(np.array([0.0, 1.0])),
            bandwidth=BANDWIDTH,
            simulations=draws,
            target=search.target,
            random_state=options.random_state,
        )
        if result.table.rows and not math.isnan(result.p_value):
            segments.append(_worst_block(search, one, two, result, len(pairs)))
            maps.append(_mapped(predictions, result))
    maps.sort(key=attrgetter("p_value"))
    return search.extended(
        row_searches={Family.NEIGHBOURHOODS: RowSearch(len(pairs), tuple(segments))},
        further_results=[result for result in maps[:MAX_SHOWN_MAPS] if result.p_value <= options.level],
        not_tested=left_out,
    )


def _planes_left_out(pairs: Sequence[tuple[CellGrid, CellGrid]], *, too_many_rows: bool) -> list[LeftOut]:
    kind = NotTestedKind.NEIGHBOURHOODS
    if too_many_rows:
        reason, remedy, limit = NotTestedReason.MANY_ROWS, Remedy.SAMPLE_ROWS, MAX_MAPPED_ROWS
        return [LeftOut(kind, names_of(*pair), reason, remedy, limit) for pair in pairs]
    reason, remedy = NotTestedReason.MANY_PLANES, Remedy.FEWER_COLUMNS
    return [LeftOut(kind, names_of(*pair), reason, remedy, MAX_PLANES) for pair in pairs[MAX_PLANES:]]


def _worst_block(
    search: TargetSearch, one: CellGrid, two: CellGrid, result: Result, n_pairs: int
) -> TestedSegment:
    """The worst block of a plane, with the p-value of the plane."""
    grid = tally_grid([*one.coded_columns, *two.coded_columns], FindingKind.NEIGHBOURHOOD, search.context)
    best = best_blocks(grid, recalibrated=True)
    block = best[0][0] if best else tuple((0, size - 1) for size in grid.ordered_sizes)
    resolution_reached = _at_resolution(result, result.p_value)
    p_value = result.p_value * n_pairs
    return block_with_sums(grid, block, EFFECTIVE_BLOCKS, p_value, p_resolution_reached=resolution_reached)


def _mapped(predictions: Predictions, result: NeighbourhoodResult) -> NeighbourhoodResult:
    """The result with its map as a grid: mean gap and standard errors of the rows in each cell of the plane."""
    values = np.stack([predictions.columns[name].values for name in result.settings["columns"]])
    local, known = result.local_map, ~np.isnan(values).any(axis=0)
    low, high = np.nanquantile(values, [0.01, 0.99], axis=1)
    if (low >= high).any():
        return result
    x, y = np.linspace(low, high, MAP_CELLS + 1, axis=1)
    across, up = np.clip(values[:, known], low[:, None], high[:, None])
    gap, error = np.nan_to_num(local.gap[known]), local.error[known]

    with np.errstate(divide="ignore", invalid="ignore"):
        weights = None, gap, np.nan_to_num(gap / error)
        rows, *sums = (np.histogram2d(up, across, bins=[y, x], weights=weight)[0] for weight in weights)
        mean_gap, mean_z = sums / rows
    return replace(result, grid=MapGrid(*(values.tolist() for values in (x, y, mean_gap, mean_z, rows))))
