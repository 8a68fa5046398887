"""One audit of a table: the score, every column, pairs of them, and the places that are wrong beyond noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from miscal.auditing.column_choice import MAX_LEVELS, asked_columns
from miscal.auditing.document import document_of
from miscal.auditing.findings import Finding
from miscal.auditing.periods import check_every, period_carriers
from miscal.auditing.record import Audit
from miscal.auditing.search.finding import findings_of
from miscal.auditing.search.looking import Looked, Wanted, judge_columns, judge_searches
from miscal.auditing.search.places import Multiplicity
from miscal.data.checks import check_seed
from miscal.data.errors import refusal

__all__ = ["Audit", "audit"]

Progress = Callable[[str, int, int], None]
EFFORTS = ("quick", "normal", "deep")
TALLY = ".tally"


def audit(
    data: Any,
    *,
    outcome: str | None = None,
    probability: Any = None,
    weight: str | None = None,
    count: str | None = None,
    cluster: str | None = None,
    by: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    target: str | int = "auto",
    level: float = 0.05,
    effort: str = "normal",
    random_state: int = 0,
    time: str | None = None,
    every: str | None = None,
    suppress_below: int = 0,
    source: str | None = None,
    memory: str | int | None = None,
    max_levels: int = MAX_LEVELS,
    progress: Progress | None = None,
    **read_options: Any,
) -> Audit:
    """Find where the probabilities of a table are wrong, over the score, every column and pairs of columns.

    Every place is tested; p-values are adjusted over the whole audit, so that on calibrated data the chance of any
    finding is at most `level`. What is beyond noise is split into what is left when the score itself is put right
    (specific) and what is not (general, one finding about the whole table). Specific places are ranked by how many
    events they are off for certain; places that another one explains are listed under it.

    Parameters
    ----------
    data : frame of any library, path (also of a folder, a pattern or a tally), or Predictions
    outcome, probability, weight, count, cluster : names of columns, as in `miscal.read`
    by : columns to look at; all of them by default
    ignore : columns to leave out
    target : "auto", "positive", "top" or a class; with several classes and "auto" each class is looked at too
    level : chance of any false alarm in the whole audit
    effort : "quick" (score and columns), "normal" (pairs of columns and subpopulations too) or "deep" (neighbourhoods
        too, and a wider search): units of work, not of time, so that a seed gives the same answer anywhere
    time : a column of dates or times: the audit then says how far off each period was, and between which two
        neighbouring periods the model got better or worse (`sections["period"]` of the JSON)
    every : "week" (from Monday) or "month"; by how long the table lasts if not given
    suppress_below : cells and findings of fewer rows are kept out of page, JSON and CSV
    source : what the page calls the data; the file's name by default
    memory : stay below this much memory, such as "600MB"; half of the machine's for a path if not given. A table that
        fits is loaded, and the answer is that of the loaded table. Of one that does not, places are searched on a
        sample of as many rows as fit, and then added up and tested on all rows
    max_levels : a field with more levels is set aside, with the reason
    progress : called with what is being looked at, how many steps are done, and how many there are

    Returns
    -------
    Audit

    Examples
    --------
    >>> import miscal
    >>> found = miscal.audit(
    ...     {"y": [0, 1] * 50, "p": [0.4, 0.6] * 50, "g": ["a", "b"] * 50}, outcome="y", probability="p"
    ... )
    >>> [finding.where for finding in found.findings if finding.real][:1]
    ['the whole table']
    """
    if effort not in EFFORTS:
        raise refusal("must be 'quick', 'normal' or 'deep'", where="'effort'", got=f"it is {effort!r}")
    if not (isinstance(level, float) and 0.0 < level < 1.0):
        raise refusal("must lie between 0 and 1", where="'level'", got=f"it is {level!r}")
    if not (isinstance(max_levels, int) and max_levels >= 1):
        raise refusal("must be a whole number above 0", where="'max_levels'", got=f"it is {max_levels!r}")
    check_seed(random_state)
    check_every(every, time)
    by, ignore = asked_columns(by, ignore, time, outcome=outcome, probability=probability, weight=weight, count=count)
    wanted = Wanted(by, ignore, target, level, effort, random_state, time, every, max_levels)
    roles: dict[str, Any] = {
        "outcome": outcome, "probability": probability, "weight": weight, "count": count, "cluster": cluster,
    }  # fmt: skip
    steps = Steps(progress)
    if isinstance(data, (str, PathLike)) and fspath(data).endswith(TALLY):
        from miscal.auditing.all_rows import look_at_tally

        seen = look_at_tally(Path(fspath(data)), wanted, roles | {"by": by, "ignore": ignore, **read_options})
    else:
        from miscal.auditing.from_table import look_at_table

        seen = look_at_table(data, wanted, roles | read_options, memory, steps)
    columns, positive = probability_columns(probability), read_options.get("positive")
    described = {
        "source": source or source_of(data), "outcome": outcome, "probability": ", ".join(columns) or None,
        "weight_column": weight, "cluster": cluster, "probability_columns": columns, "count_column": count,
        "positive": None if positive is None else str(positive), "logit": bool(read_options.get("logit", False)),
        "ignore": [str(name) for name in ignore], **seen.about,
    }  # fmt: skip
    made = _judged(seen, wanted, described, steps)
    return made.suppressed(suppress_below) if suppress_below else made


@dataclass(frozen=True, eq=False)
class Seen:
    """What was seen of a table, before anything is judged.

    looks : one a target;  about : what the document says of the data;  aside : columns left out
    settings : how the table was read, where that matters
    """

    looks: list[Looked]
    about: dict[str, Any]
    aside: list[dict[str, Any]]
    settings: dict[str, Any]


class Steps:
    """What is being looked at, passed on with how far it is."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress, self.total, self.done = progress, 1, 0

    def __call__(self, what: str) -> None:
        if self.progress is not None:
            self.progress(what, min(self.done, self.total) if what else self.total, self.total)
        self.done += 1


def _judged(seen: Seen, wanted: Wanted, described: dict[str, Any], steps: Steps) -> Audit:
    """Run all tests, and put everything into one record."""
    looks, tests = seen.looks, Multiplicity(wanted.level)
    for looked in looks:
        judge_columns(looked, tests)
    judge_searches(looks[0], tests)
    tests.adjust()
    found = _findings(looks, tests, wanted.random_state)
    steps("")
    settings = {
        "level": wanted.level, "effort": wanted.effort, "random_state": wanted.random_state,
        "target": str(wanted.target), "tests": tests.total,
        "families": {name: tests.size(name) for name in tests.names}, **seen.settings,
    }  # fmt: skip
    document = document_of(looks, found, seen.aside, tests, settings, described)
    results = [result for one in looks for result in (one.score, *(r for _, r, _ in one.columns), *one.further)]
    return Audit(document, found, results, _carriers(looks))


def _findings(every: list[Looked], tests: Multiplicity, random_state: int) -> list[Finding]:
    """All findings, heads by what they are worth, each followed by what it explains."""
    heads = [entry for looked in every for entry in findings_of(looked, tests, random_state)]
    heads.sort(key=lambda entry: -entry[0])
    return [finding for _, items in heads for finding in items]


def _carriers(every: list[Looked]) -> dict[str, Any]:
    """The tallies of score and columns, by the kind and the column."""
    made: dict[str, Any] = {}
    for looked in every:
        suffix = f" (class {looked.name})" if looked.name else ""
        made[f"score{suffix}"] = looked.score.extra["tally"]
        for column, result, _ in looked.columns:
            made[f"{result.kind}{suffix}:{column.name}"] = result.extra["tally"]
    return made | period_carriers(every[0].further)


def probability_columns(probability: Any) -> list[str]:
    """The columns of probabilities, given as a name, several, or by class."""
    if probability is None or isinstance(probability, str):
        return [] if probability is None else [probability]
    return [str(name) for name in (probability.values() if isinstance(probability, Mapping) else probability)]


def source_of(data: Any) -> str | None:
    """What the data are called where nobody says."""
    return Path(fspath(data)).name if isinstance(data, (str, PathLike)) else None
