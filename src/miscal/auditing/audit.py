"""One audit of a table: the score, every column, pairs of them, and the places that are wrong beyond noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from miscal.auditing.column_choice import asked, chosen_columns
from miscal.auditing.document import document_of
from miscal.auditing.findings import Finding
from miscal.auditing.large import audit_large, is_large, read_as
from miscal.auditing.memory import give_back
from miscal.auditing.periods import check_every, look_at_periods, period_carriers, time_column
from miscal.auditing.record import Audit
from miscal.auditing.search.finding import findings_of
from miscal.auditing.search.looking import Looked, look, look_at_pairs, test_columns, test_pairs
from miscal.auditing.search.neighbourhoods import look_at_neighbourhoods
from miscal.auditing.search.parts import Part
from miscal.auditing.search.places import Tests
from miscal.auditing.search.subpopulations import look_at_subpopulations
from miscal.data.checks import check_seed
from miscal.data.errors import refusal
from miscal.data.predictions import Predictions
from miscal.data.sources import read, unnamed, with_clusters

__all__ = ["Audit", "audit"]

Progress = Callable[[str, int, int], None]
EFFORTS = ("quick", "normal", "deep")
MOST_CLASSES = {"quick": 0, "normal": 10, "deep": 100}


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
    memory : read the table in parts and stay below this much memory, such as "600MB"; pairs of columns and
        subpopulations are then chosen on a few batches and measured on all rows, neighbourhoods are those of a sample.
        Tables too large to load are always read so. With `max_levels` (a million) a field with more levels is refused
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
    check_seed(random_state)
    check_every(every, time)
    by, ignore = asked(by, ignore, time, outcome=outcome, probability=probability, weight=weight, count=count)
    if is_large(data, memory):
        return audit_large(
            data, outcome=outcome, probability=probability, weight=weight, count=count, cluster=cluster, by=by,
            ignore=ignore, target=target, level=level, effort=effort, random_state=random_state, time=time, every=every,
            suppress_below=suppress_below, source=source, memory=memory, progress=progress, **read_options,
        )  # fmt: skip
    clustered_days = time is not None and time == cluster and not isinstance(data, Predictions)
    predictions = _predictions(data, outcome, probability, weight, count, cluster, read_options, days=clustered_days)
    dated = None if time is None else time_column(predictions, time)
    columns, aside = chosen_columns(predictions, by, [*ignore, str(time)] if clustered_days else ignore)
    targets = _targets(predictions, target, effort)
    steps = _Steps(progress, (len(columns) + 1) * len(targets) + (2 if effort != "quick" else 1))
    tests = Tests(level)
    parts: dict[str, Part] = {}
    common: Any = {"effort": effort, "random_state": random_state, "parts": parts, "say": steps}
    looks = [look(predictions, columns, what, name, **common) for what, name in targets]
    _search(predictions, looks, tests, effort, random_state, steps)
    if dated is not None:
        looks[0].further.append(look_at_periods(looks[0], dated, every, level, random_state))
    found = _findings(looks, tests, random_state)
    steps("")
    settings = {
        "level": level, "effort": effort, "random_state": random_state, "target": str(target), "tests": tests.total,
        "families": {name: tests.size(name) for name in tests.names},
    }  # fmt: skip
    described = {
        "source": source or _source(data), "outcome": outcome, "probability": _named(probability),
        "weight_column": weight, "cluster": cluster, **read_as(probability, count, ignore, read_options),
    }  # fmt: skip
    document = document_of(predictions, looks, found, aside, tests, settings, described)
    results = [result for one in looks for result in (one.score, *(r for _, r, _ in one.columns), *one.further)]
    made = Audit(document, found, results, _carriers(looks))
    return made.suppressed(suppress_below) if suppress_below else made


class _Steps:
    """What is being looked at, passed on with how far it is."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self, what: str) -> None:
        if self.progress is not None:
            self.progress(what, min(self.done, self.total) if what else self.total, self.total)
        self.done += 1


def _search(
    predictions: Predictions, every: list[Looked], tests: Tests, effort: str, random_state: int, say: _Steps
) -> None:
    """Run all tests: columns first, then what the effort allows."""
    for looked in every:
        test_columns(looked, tests)
    if effort != "quick" and len(every[0].columns) > 1:
        look_at_pairs(every[0], tests, effort, say)
        test_pairs(every[0], tests)
        extra = look_at_subpopulations(predictions, every[0], tests, effort, random_state, say)
        if effort == "deep":
            every[0].further += look_at_neighbourhoods(predictions, every[0], tests, random_state, say)
        every[0].places += [place for _, places in tests.searched.values() for place in places]
        every[0].further += [extra] if extra is not None else []
    tests.adjust()


def _findings(every: list[Looked], tests: Tests, random_state: int) -> list[Finding]:
    """All findings, heads by what they are worth, each followed by what it explains."""
    heads = [entry for looked in every for entry in findings_of(looked, tests, random_state)]
    heads.sort(key=lambda entry: -entry[0])
    return [finding for _, items in heads for finding in items]


def _targets(predictions: Predictions, target: str | int, effort: str) -> list[tuple[str | int, str]]:
    """The target asked for; with several classes and none named, each class as well."""
    several = predictions.n_classes > 2 and target in ("auto", "top")
    classes = range(min(predictions.n_classes, MOST_CLASSES[effort])) if several else ()
    return [(target, ""), *((k, str(predictions.classes[k])) for k in classes)]


def _carriers(every: list[Looked]) -> dict[str, Any]:
    """The tallies of score and columns, by the kind and the column."""
    made: dict[str, Any] = {}
    for looked in every:
        suffix = f" (class {looked.name})" if looked.name else ""
        made[f"score{suffix}"] = looked.score.extra["tally"]
        for column, result, _ in looked.columns:
            made[f"{result.kind}{suffix}:{column.name}"] = result.extra["tally"]
    return made | period_carriers(every[0].further)


def _source(data: Any) -> str | None:
    return Path(fspath(data)).name if isinstance(data, (str, PathLike)) else None


def _named(probability: Any) -> str | None:
    if probability is None or isinstance(probability, str):
        return probability
    return ", ".join(str(name) for name in (probability.values() if isinstance(probability, Mapping) else probability))


def _predictions(
    data: Any,
    outcome: str | None,
    probability: Any,
    weight: Any,
    count: Any,
    cluster: Any,
    options: dict[str, Any],
    *,
    days: bool = False,
) -> Predictions:
    if "max_levels" in options:
        hint = "give memory= (--memory), or leave it out"
        raise refusal("is for a table that is read in parts", where="'max_levels'", got="this one is loaded", hint=hint)
    if isinstance(data, Predictions):
        return data
    if outcome is None or probability is None:
        raise unnamed(data)
    if days and options.get("columns") is None:  # the clusters are the days of the periods as well
        roles: Any = {"outcome": outcome, "probability": probability, "weight": weight, "count": count}
        options = {**options, "columns": with_clusters(data, cluster=cluster, **roles)}
    made = read(data, outcome=outcome, probability=probability, weight=weight, count=count, cluster=cluster, **options)
    give_back(made.rows)
    return made
