"""What an audit did not look at, beside what its searches left out one by one: by effort, by class, along the score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from miscal.auditing.column_choice import asked_for
from miscal.auditing.search.looking import Looked
from miscal.inference.shape import LEAST_EVENTS

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


def leave_out_by_effort(looked: Looked, effort: str, classes: Sequence[str], seen: int) -> None:
    """Note what the effort, or a file of sums, leaves out; `seen` is how many classes were looked at one by one."""
    names = [column.name for column, _, _ in looked.columns]
    numbers = [column.name for column, _, group in looked.columns if column.kind == "numeric" and group.ordered]
    if effort in ALONE and len(names) > 1:
        for one, two in combinations(names, 2):
            looked.leave_out("pairs", f"{one} and {two}", *ALONE[effort])
        looked.leave_out("subpopulations", "up to three columns", *ALONE[effort])
    if effort in ("quick", "normal"):
        for one, two in combinations(numbers, 2):
            looked.leave_out("neighbourhoods", f"{one} and {two}", ONLY_DEEP, "--effort deep")
    if seen:
        for name in classes[:seen] if len(names) > 1 and effort not in ALONE else ():
            looked.leave_out("pairs", f"class {name}", ONLY_FIRST, ONE_CLASS)
    if len(classes) > 2 and looked.target in ("auto", "top"):
        for name in classes[seen:]:
            looked.leave_out("classes", f"class {name}", MANY_CLASSES, f"--effort deep, or {ONE_CLASS}")


def leave_out_shapes(looked: Looked) -> None:
    """Note what was not tested along the score, because a sample of the rows is here and their sums are too many."""
    what, more = "tests along the score", "allow more --memory, so that the table fits"
    for family in looked.searched:
        named = "conjunctions of up to three columns" if family == "subpopulations" else family
        looked.leave_out(what, named, SEARCHED, more)
    for group in [*looked.groups, *looked.pairs]:
        names = " and ".join(group.names)
        if group.along is None:
            looked.leave_out(what, names, AVERAGES, more)
            continue
        enough = group.raw.rows >= 2 * LEAST_EVENTS
        unseen = int(np.count_nonzero(enough & (group.along[0].rows.sum(axis=-1) == 0)))
        if unseen:
            looked.leave_out(what, f"{names}: {unseen:,} of {group.count:,} levels", AVERAGES, more)


def left_out_list(looked: Looked, aside: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Everything that was not looked at, by its kind and reason, as the document has it; columns set aside first."""
    every: dict[tuple[str, str, str], list[str]] = {}
    for entry in aside:
        every.setdefault(("columns", entry["reason"], asked_for(entry["reason"])), []).append(entry["where"])
    return [
        {"what": what, "count": len(where), "reason": reason, "ask": ask, "where": where}
        for (what, reason, ask), where in [*every.items(), *looked.left_out.items()]
    ]
