"""Look at everything that one target offers, the score, columns, pairs of columns, and say what was not looked at."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from miscal.aggregate.source import release_memory
from miscal.auditing.search.candidates import (
    AVERAGE,
    Candidate,
    FamilyOfTests,
    Multiplicity,
    RowMaskSegment,
    TargetSearch,
    add_walk,
)
from miscal.auditing.search.cell_grids import (
    CellGrid,
    SearchContext,
    cluster_spread,
    group_of,
    score_grid,
    sums_of,
)
from miscal.auditing.search.coded_columns import CodedColumn, fine_part
from miscal.auditing.search.score_profiles import alongs, shapes_of, tested, whole_along
from miscal.auditing.search.score_tails import extreme_places, fine_sums
from miscal.cells.coding import range_pooling
from miscal.data.arrays import Array, Plain
from miscal.data.columns import Column
from miscal.data.predictions import Predictions
from miscal.data.target import TargetData, pair
from miscal.metrics.curves import curve_of
from miscal.metrics.field import FieldResult, by_field
from miscal.metrics.score import by_score
from miscal.metrics.variable import VariableResult, by_variable, density_of
from miscal.stats.cell_sums import EFFECTIVE_EVENTS
from miscal.stats.isotonic import cross_fitted_score
from miscal.stats.null_model import choose_null

Progress = Callable[[str, int, int], None]
RANGES = 10  # of a variable, where it is shown
MOST_ROWS = 100_000  # a curve of sixty points is not read more finely than this many rows show it
POINTS, LEAST_POINTS = 58, 12  # of a curve; with fewer the ranges say it all
SPAN = 0.3  # of the rows in a window: three of ten ranges, so that the curve can follow the dots
LEAST_ROWS = 100
KEPT = 1 << 11  # cells of a column whose sums along the score are kept


class ProgressReporter:
    """What is being looked at, passed on with how far it is."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress, self.total, self.done = progress, 1, 0

    def __call__(self, what: str) -> None:
        if self.progress is not None:
            self.progress(what, min(self.done, self.total) if what else self.total, self.total)
        self.done += 1


@dataclass(frozen=True)
class AuditOptions:
    """What an audit is asked for, beside the table; `say` is called with what is being looked at."""

    by: list[str] | None
    ignore: list[str]
    target: str | int
    level: float
    effort: str
    random_state: int
    time: str | None
    every: str | None
    max_levels: int
    score: str | None = None  # the column that is the score as it stands
    say: ProgressReporter = field(default_factory=ProgressReporter)


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What was seen of a table, before anything is judged.

    notes : what to know of the table before anything else
    looks : one a target;  about : what the document says of the data;  aside : columns left out
    settings : how the table was read, where that matters
    """

    looks: list[TargetSearch]
    about: Plain
    aside: list[Plain]
    settings: Plain
    notes: list[str] = field(default_factory=list)


def look(
    predictions: Predictions,
    columns: Sequence[Column],
    named: tuple[str | int, str],
    wanted: AuditOptions,
    parts: dict[str, CodedColumn],
    *,
    judged: bool = True,
) -> TargetSearch:
    """Score and columns of one target, with its scope; `parts` keeps how columns are cut from one to the next.

    judged : whether anything is tested; a sample whose columns are not crossed only says how they are cut
    """
    target, scope = named
    compared = pair(predictions, target)
    options: Any = {"target": target, "random_state": wanted.random_state}
    wanted.say("score")
    with warnings.catch_warnings():  # nobody asked for a number of bins
        warnings.filterwarnings("ignore", message=".*bins were asked for")
        score = by_score(predictions, **options) if judged else None
    mended = cross_fitted_score(compared, wanted.random_state)
    noise = choose_null(compared, "bernoulli"), cluster_spread(compared)
    rows = SearchContext(compared, replace(compared, predicted=mended), *noise, grid=score_grid(compared))
    release_memory(compared.rows)
    said = wanted.score if compared.target == "positive" else None
    looked = TargetSearch(target, scope, rows, score, fine_sums(compared), said)
    chosen = curve_rows(compared.rows, wanted.random_state)
    for column in columns:
        own = column.name
        wanted.say(own)
        if own not in parts:
            parts[own] = fine_part(column, compared.weight, compared.count)
        part = parts[own]
        result: VariableResult | FieldResult | None = None
        p_value = None
        if judged and column.nominal:
            result = by_field(predictions, own, **options)
            p_value = result.table["p_value"]
        elif judged:
            ranges = by_variable(predictions, own, bins=_shown(column), curve=False, **options)
            result = with_curve(ranges, compared, column, chosen) if wanted.effort != "quick" else ranges
        group = group_of([part], "field" if column.nominal else "variable", rows, p_value)
        if result is not None:
            group.result = result
            if group.count <= KEPT:  # the sums of a small one are kept
                group.along = alongs(group)
            shapes_of(group)
        looked.columns.append(group)
    return looked


def _shown(column: Column) -> Any:
    """How a variable is cut where it is shown: ranges of equal support, or what its type prefers."""
    return column.type.shown_bins(column.values, RANGES)


def shown_edges(column: Column, compared: TargetData) -> Array | None:
    """The edges of the ranges that are shown of a variable; None where all values are missing."""
    pooling = range_pooling(column, _shown(column), weight=compared.weight, count=compared.count)
    return getattr(pooling.cells, "edges", None)


def suspicion(group: CellGrid) -> float:
    """How surprising a column is by itself: the smaller of its own p-value and its worst cell's, corrected."""
    tested = group.p_value[~np.isnan(group.p_value)]
    cell = tested.min() * tested.size if tested.size else 1.0
    return float(np.nanmin([1.0, cell, group.suspect, group.result.p_value]))


def judge(looks: Sequence[TargetSearch], level: float) -> Multiplicity:
    """Test everything that was looked at; searches are of the first target alone."""
    tests = Multiplicity(level)
    for looked in looks:
        judge_columns(looked, tests)
    first = looks[0]
    for family, number in first.skipped:  # tests that were not run, because a first look left them out
        held = tests.families[family]
        held.size += number
        held.skipped += number
    families: dict[str, list[CellGrid]] = {}
    for group in sorted(first.pairs, key=lambda group: any(group.runs)):  # levels first
        families.setdefault(group.family, []).append(group)
    for groups in families.values():
        _judge_groups(first, groups)
    for family, (size, places) in first.searched.items():  # with noise of their own
        tests.families[family] = FamilyOfTests(size, places=places, searched=True)
        first.places += places
    tests.adjust()
    return tests


def judge_columns(looked: TargetSearch, tests: Multiplicity) -> None:
    """Test the score and every column."""
    looked.tests = tests
    rows, kuiper = looked.rows, looked.score.kuiper
    # A simulated p-value cannot be small enough to be seen among thousands of tests: it gets a share of its own.
    family, p_value = "score" if kuiper.simulated else "columns", kuiper.p_value
    along = whole_along(looked)
    every = np.arange(rows.raw.rows)
    sums = looked.all or (sums_of(rows.raw, every), sums_of(rows.beyond, every))
    own = RowMaskSegment("score", np.ones(every.size, bool), looked.scope or "the whole table")
    bound = kuiper.simulated_bound
    looked.whole = Candidate(own, (), p_value, family, *sums, along=along, bound=bound)
    chance = float(np.fmin(tested(along.raw, rows).p_value, 1.0))
    looked.bent = replace(looked.whole, p_value=chance, bound=False, family="columns")
    looked.extremes = extreme_places(looked)
    for place in (looked.whole, looked.bent, *looked.extremes):
        tests.families[place.family].add([place])
    _judge_groups(looked, looked.columns)


def _judge_groups(looked: TargetSearch, groups: Sequence[CellGrid]) -> None:
    """Test cells, stretches and boxes of groups of one family, on average and along the score."""
    tests = looked.tests
    tests.leave_out([group for group in groups if not any(group.runs)])
    for add in (AVERAGE.add_cells, AVERAGE.add_boxes, add_walk):
        for group in groups:
            looked.places += add(tests.families[group.family], group)
    for group in groups:
        along, places = shapes_of(group)
        tests.families[group.family].add(along.places, along.others)
        looked.places += places


def curve_rows(rows: int, random_state: int) -> Array:
    """The rows that the curves are drawn from: all of them, or a sample that all columns share."""
    if rows <= MOST_ROWS:
        return np.arange(rows)
    return np.sort(np.random.default_rng(random_state).choice(rows, MOST_ROWS, replace=False))


def with_curve(result: VariableResult, compared: TargetData, column: Column, chosen: Array) -> VariableResult:
    """The result with its curve, and `curve_rows` where not all rows were used."""
    rows = chosen[~np.isnan(column.values[chosen])]
    if rows.size < LEAST_ROWS:
        return result
    # Points where the rows are, from the 2.5% to the 97.5% quantile; none where few values are different, or so far
    # apart that there is no number between them.
    values = column.values[rows]
    grid = np.unique(np.quantile(values, np.linspace(0.025, 0.975, POINTS)))
    if grid.size < LEAST_POINTS or not np.isfinite(grid).all():
        return result
    taken, seed = compared.take(rows), result.settings["random_state"]
    smooth = curve_of(taken, values, grid=grid, span=SPAN, random_state=seed)
    return replace(
        result,
        curve=smooth.frame(),
        density=density_of(values, taken, integer=column.integer),
        curve_rows=rows.size if chosen.size < compared.rows else None,
    )


ALONE = {
    "quick": ("a quick audit looks at the score and at each column alone", "--effort normal"),
    "tally": ("a tally keeps the sums of each column alone", "audit the table itself"),
}
ONLY_DEEP = "neighbourhoods in the plane of two numbers are searched by a deep audit alone"
ONLY_FIRST = "pairs of columns are crossed for the event that is compared first"
ONE_CLASS = "miscal.audit(..., target=CLASS)"
MANY_CLASSES = "an audit of this effort looks at fewer classes one by one"
AVERAGES = "beyond memory so many cells are added up, and tested, on their average alone"
SEARCHED = "they are searched on a sample of the rows; the worst there are tested on all rows, on their average alone"


def leave_out_by_effort(looked: TargetSearch, effort: str, classes: Sequence[str], seen: int) -> None:
    """Note what the effort, or a file of sums, leaves out; `seen` is how many classes were looked at one by one."""
    names = [group.column.name for group in looked.columns]
    numbers = [group.column.name for group in looked.columns if group.numeric]
    if effort in ALONE and len(names) > 1:
        for one, two in combinations(names, 2):
            looked.leave_out("pairs", f"{one} and {two}", *ALONE[effort])
        looked.leave_out("subpopulations", "up to three columns", *ALONE[effort])
    if effort in ("quick", "normal"):
        for one, two in combinations(numbers, 2):
            looked.leave_out("neighbourhoods", f"{one} and {two}", ONLY_DEEP, "--effort deep")
    for name in classes[:seen] if len(names) > 1 and effort not in ALONE else ():
        looked.leave_out("pairs", f"class {name}", ONLY_FIRST, ONE_CLASS)
    if len(classes) > 2 and looked.target in ("auto", "top"):
        for name in classes[seen:]:
            looked.leave_out("classes", f"class {name}", MANY_CLASSES, f"--effort deep, or {ONE_CLASS}")


def leave_out_shapes(looked: TargetSearch) -> None:
    """Note what was not tested along the score, because a sample of the rows is here and their sums are too many."""
    what, more = "tests along the score", "allow more --memory, so that the table fits"
    for family in looked.searched:
        named = "conjunctions of up to three columns" if family == "subpopulations" else family
        looked.leave_out(what, named, SEARCHED, more)
    for group in [*looked.columns, *looked.pairs]:
        names = " and ".join(group.names)
        if group.along is None:
            looked.leave_out(what, names, AVERAGES, more)
            continue
        enough = group.raw.rows >= 2 * EFFECTIVE_EVENTS
        cells = np.arange(group.count) if group.seen is None else group.seen
        enough[cells[group.along.raw.rows.sum(axis=-1) > 0]] = False
        unseen = np.count_nonzero(enough)
        if unseen:
            looked.leave_out(what, f"{names}: {unseen:,} of {group.count:,} levels", AVERAGES, more)
