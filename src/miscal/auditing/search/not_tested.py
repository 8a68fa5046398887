"""What a search leaves out, why, and how to have it tested.

The rule: whatever is not tested is listed, as a `LeftOut` with codes. Its words are made when a report is written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from miscal.auditing.search.cell_grids import CellGrid
from miscal.auditing.search.target_search import LeftOut, TargetSearch
from miscal.codes.audit import Family, NotTestedKind, NotTestedReason, Remedy
from miscal.stats.cell_sums import EFFECTIVE_EVENTS


@dataclass(frozen=True)
class _NotCrossed:
    """Why columns are not crossed in audits that test single columns only."""

    reason: NotTestedReason
    remedy: Remedy


SINGLE_COLUMNS = {
    "quick": _NotCrossed(NotTestedReason.QUICK_AUDIT, Remedy.EFFORT_NORMAL),
    "tally": _NotCrossed(NotTestedReason.SUMMARY_FILE, Remedy.AUDIT_TABLE),
}


def names_of(*grids: CellGrid) -> str:
    """The columns of grids in words."""
    return " and ".join(name for grid in grids for name in grid.names)


def not_tested_by_effort(
    search: TargetSearch, effort: str, classes: Sequence[str], n_audited_classes: int
) -> list[LeftOut]:
    """What the effort, or a summary file, leaves out."""
    left_out: list[LeftOut] = []
    several = len(search.columns) > 1
    single = SINGLE_COLUMNS.get(effort)
    if single is not None and several:
        for one, two in combinations(search.columns, 2):
            left_out.append(LeftOut(NotTestedKind.PAIRS, names_of(one, two), single.reason, single.remedy))
        left_out.append(
            LeftOut(NotTestedKind.SUBPOPULATIONS, "up to three columns", single.reason, single.remedy)
        )
    if effort in ("quick", "normal"):
        numeric = [grid for grid in search.columns if grid.is_numeric]
        left_out += [
            LeftOut(
                NotTestedKind.NEIGHBOURHOODS,
                names_of(one, two),
                NotTestedReason.ONLY_DEEP,
                Remedy.EFFORT_DEEP,
            )
            for one, two in combinations(numeric, 2)
        ]
    if several and single is None:
        left_out += [
            LeftOut(
                NotTestedKind.PAIRS, f"class {name}", NotTestedReason.ONLY_FIRST_TARGET, Remedy.NAME_CLASS
            )
            for name in classes[:n_audited_classes]
        ]
    if len(classes) > 2 and search.target in ("auto", "top"):
        left_out += [
            LeftOut(
                NotTestedKind.CLASSES,
                f"class {name}",
                NotTestedReason.MANY_CLASSES,
                Remedy.EFFORT_DEEP_OR_CLASS,
            )
            for name in classes[n_audited_classes:]
        ]
    return left_out


def shapes_not_tested(search: TargetSearch) -> list[LeftOut]:
    """What was not tested for its shape, because only a sample of the rows is in memory and their sums are too many."""
    left_out = []
    for family in search.row_searches:
        name = "conjunctions of up to three columns" if family == Family.SUBPOPULATIONS else str(family)
        left_out.append(_no_shape(name, NotTestedReason.SEARCHED_ON_SAMPLE))
    for grid in search.grids:
        if grid.profiles is None:
            left_out.append(_no_shape(names_of(grid), NotTestedReason.MEANS_ONLY))
            continue
        untested = grid.raw.rows >= 2 * EFFECTIVE_EVENTS
        cells = np.arange(grid.n_cells) if grid.profiled_cells is None else grid.profiled_cells
        untested[cells[grid.profiles.raw.rows.sum(axis=-1) > 0]] = False
        number = np.count_nonzero(untested)
        if number:
            where = f"{names_of(grid)}: {number:,} of {grid.n_cells:,} levels"
            left_out.append(_no_shape(where, NotTestedReason.MEANS_ONLY))
    return left_out


def _no_shape(where: str, reason: NotTestedReason) -> LeftOut:
    return LeftOut(NotTestedKind.SHAPES, where, reason, Remedy.MORE_MEMORY)
