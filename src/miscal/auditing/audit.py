"""One audit of a table: the score, every column, pairs of them, and the places that are wrong beyond noise."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from miscal.aggregate.column_roles import ColumnRoles
from miscal.aggregate.in_memory import tally
from miscal.aggregate.sample import GatheredRows, default_memory_limit, gather, levels_that_fit, rows_that_fit
from miscal.aggregate.source import open_source, release_memory
from miscal.auditing import column_choice
from miscal.auditing.all_rows import AllRows, measured_on_all
from miscal.auditing.build_report import report_of
from miscal.auditing.column_choice import MAX_LEVELS, left_out, named
from miscal.auditing.compare import cells_of
from miscal.auditing.periods import (
    PeriodResult,
    by_period,
    check_every,
    period_cells,
    periods_of_sums,
    time_column,
)
from miscal.auditing.record import Audit
from miscal.auditing.search.build_findings import curves_of
from miscal.auditing.search.candidates import TargetSearch
from miscal.auditing.search.coded_columns import CodedColumn
from miscal.auditing.search.collect import (
    AuditOptions,
    Progress,
    ProgressReporter,
    SearchResult,
    judge,
    leave_out_by_effort,
    look,
)
from miscal.auditing.search.crossings import look_at_neighbourhoods, look_at_pairs, look_at_subpopulations
from miscal.auditing.search.explain import findings_of
from miscal.auditing.summary_files import look_at_tally
from miscal.cells.partitions import BinPooling, Ranges
from miscal.cells.ranges import shared_edges, united
from miscal.data.arrays import Plain, expanded, library_of
from miscal.data.checks import check_seed, number, one_of, whole
from miscal.data.errors import refusal
from miscal.data.predictions import Predictions
from miscal.data.sources import one_prediction, unnamed
from miscal.data.text_types import in_words
from miscal.report.findings import with_noun

__all__ = ["Audit", "audit"]

MOST_CLASSES = {"quick": 0, "normal": 10, "deep": 100}
# Rows beyond which a search gains nothing.
MOST_SAMPLED = {"quick": 200_000, "normal": 2_000_000, "deep": 2_000_000}


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
    prediction: str | None = None,
    response: str = "binary",
    exposure: str | None = None,
    **read_options: Any,
) -> Audit:
    """Find where the predictions of a table are wrong, over the score, every column and pairs of columns.

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
    every : "week" (from Monday), "month", "quarter" or "year"; by how long the table lasts if not given
    suppress_below : cells and findings of fewer rows are kept out of page, JSON and CSV
    source : what the page calls the data; the file's name by default
    memory : stay below this much memory, such as "600MB"; half of the machine's for a path if not given. A table that
        fits is loaded, and the answer is that of the loaded table. Of one that does not, places are searched on a
        sample of as many rows as fit, and then added up and tested on all rows
    max_levels : a field with more levels is set aside, with the reason
    progress : called with what is being looked at, how many steps are done, and how many there are
    prediction, response, exposure : in the place of `probability`, the column of predicted means; "real" (amounts,
        scores, soft labels) or "count"; and the column of exposures, of which the prediction is then a rate a unit

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
    one_of("effort", effort, MOST_CLASSES)
    number("level", level, 0.0, 1.0, above=True, below=True)
    whole("max_levels", max_levels, 1)
    check_seed(random_state)
    check_every(every, time)
    probability = one_prediction(probability, prediction, response)
    response = data.response if isinstance(data, Predictions) else response
    parts = {
        "outcome": outcome,
        "probability": probability,
        "weight": weight,
        "count": count,
        "exposure": exposure,
    }
    by, ignore = column_choice.asked_columns(by, ignore, time, **parts)
    wanted = AuditOptions(
        by,
        ignore,
        target,
        level,
        effort,
        random_state,
        time,
        every,
        max_levels,
        say=ProgressReporter(progress),
    )
    means = {} if response == "binary" else {"response": response}
    options = parts | {"cluster": cluster} | means | read_options
    if source_of(data) is not None and fspath(data).endswith(".tally"):
        seen = look_at_tally(Path(data), wanted, options | {"by": by, "ignore": ignore, "time": time})
    else:
        seen = look_at_table(data, wanted, options, memory)
    columns, positive = named(options["probability"]), read_options.get("positive")
    described = {
        "source": source or source_of(data), "outcome": options["outcome"], "probability": ", ".join(columns) or None,
        "weight_column": weight, "cluster": cluster, "probability_columns": columns, "count_column": count,
        "positive": None if positive is None else str(positive), "logit": bool(read_options.get("logit", False)),
        "ignore": ignore, **({"exposure": exposure} if exposure else {}), **means, **seen.about,
    }  # fmt: skip
    made = _judged(seen, wanted, described)
    return made.suppressed(suppress_below) if suppress_below else made


def _judged(seen: SearchResult, wanted: AuditOptions, described: Plain) -> Audit:
    """Run all tests, and put everything into one record."""
    looks, tests = seen.looks, judge(seen.looks, wanted.level)
    heads = [entry for looked in looks for entry in findings_of(looked)]
    found = [finding for _, finding in sorted(heads, key=lambda entry: -entry[0])]  # by what they are worth
    if described.get("response") == "count" and described["outcome"]:
        found = [with_noun(finding, described["outcome"]) for finding in found]
    wanted.say("")
    settings = {
        "level": wanted.level,
        "effort": wanted.effort,
        "random_state": wanted.random_state,
        "target": str(wanted.target),
        "tests": tests.total,
        "families": {name: tests.families[name].size for name in tests.names},
        **seen.settings,
    }
    report = report_of(seen, found, described, settings, curves_of(looks, found))
    results = [
        result
        for one in looks
        for result in (one.score, *(group.result for group in one.columns), *one.further)
    ]
    return Audit(report, results, _carriers(looks))


def _carriers(every: list[TargetSearch]) -> Plain:
    """The sums of cells of score, columns and periods, by the kind and the column; weeks are never taken for months."""
    made: Plain = {}
    for looked in every:
        suffix = f" ({looked.scope})" if looked.scope else ""
        clustered = looked.rows.raw.cluster is not None
        made[f"score{suffix}"] = cells_of(looked.score, clustered=clustered)
        for group in looked.columns:
            column, result = group.column, group.result
            cells, fine = result.tally.cells, None
            # Narrow ranges, some of which any audit has.
            if column.type.round_edges and isinstance(cells, Ranges):
                ranges = replace(cells, edges=united(cells.edges, shared_edges(cells.edges)))
                fine = result.fine or tally(looked.rows.raw, BinPooling(column.values, ranges))
            made[f"{result.kind}{suffix}:{column.name}"] = cells_of(result, fine, clustered=clustered)
        for dated in (result for result in looked.further if isinstance(result, PeriodResult)):
            made[f"period by {dated.every}:{dated.column}"] = cells_of(dated, clustered=clustered)
    return {name: cells for name, cells in made.items() if cells is not None}


def source_of(data: Any) -> str | None:
    """What the data are called where nobody says."""
    return Path(data).name if isinstance(data, (str, PathLike)) else None


def look_at_table(data: Any, wanted: AuditOptions, options: Plain, memory: Any) -> SearchResult:
    """Look at predictions, or at a table of which some columns are named; notes in `options` which are taken."""
    if isinstance(data, Predictions):
        return _look_at_rows(data, wanted)
    source = open_source(data, memory, wanted.say.progress)
    roles, about, notes = _named(data, source, options)
    if isinstance(roles.probability, str) and not roles.logit:  # it is the score as it stands
        wanted = replace(wanted, score=roles.probability)
    kept = column_choice.usable_columns(source, roles, wanted.by, wanted.ignore)
    kept = list(dict.fromkeys([*kept, *named(wanted.time)]))
    limit = None  # of rows to gather: none where the table is in memory already
    if memory is not None or source_of(data) is not None or source.rows is None:
        # Of a cluster's driver.
        ceiling = memory or ("1GB" if library_of(data) == "pyspark" else default_memory_limit())
        limit = rows_that_fit(ceiling, source.kinds, source.text_bytes)
        if (source.rows or 0) > limit:
            limit = min(limit, MOST_SAMPLED[wanted.effort])
    rows = gather(source, roles, kept, limit=limit, target=wanted.target)
    roles = rows.roles or roles
    release_memory(rows.predictions.rows)
    unread = [
        left_out(name, rows.rows, reason) for name, reason in rows.excluded if name not in wanted.ignore
    ]
    if memory is not None:
        wanted = replace(wanted, max_levels=min(wanted.max_levels, levels_that_fit(memory, rows.predictions)))
    if rows.complete:
        seen = _look_at_rows(rows.predictions, wanted, unread)
    else:
        seen = _look_at_sample(rows, source, roles, wanted, unread)
    return replace(seen, about=seen.about | about, notes=[*notes, *seen.notes])


def _named(data: Any, source: Any, options: Plain) -> tuple[ColumnRoles, Plain, list[str]]:
    """Which column is what: as named, or as it can only be; text of the table becomes what it stands for."""
    options["probability"] = expanded(options["probability"], source.names)
    spark, mean = library_of(data) == "pyspark", "response" in options
    forms = {} if spark else {name: in_words(form) for name, form in source.infer_text_types().items()}
    notes = [f"{name} is read as {form}: it is stored as text." for name, form in forms.items()]
    if options["outcome"] is None or options["probability"] is None:
        if spark or mean:
            raise unnamed("audit", source.names, *["prediction"] * mean)
        outcome, probability, said = column_choice.guessed(source, options["outcome"], options["probability"])
        options |= {"outcome": outcome, "probability": probability}
        notes.append(said)
    return ColumnRoles.from_options("audit", options), {"read_as": forms} if forms else {}, notes


def _look_at_rows(predictions: Predictions, wanted: AuditOptions, unread: Sequence[Any] = ()) -> SearchResult:
    """All rows are here: what is chosen is measured as it is chosen."""
    dated = None if wanted.time is None else time_column(predictions, wanted.time)
    looks, aside = _looked(predictions, wanted)
    first = looks[0]
    if dated is not None:
        first.further.append(by_period(first.rows.raw, dated, wanted))
    about: Plain = {"rows": predictions.rows, "fingerprint": predictions._fingerprint()}  # noqa: SLF001
    # Of outcomes and weights in their order: equal for models of one table.
    digest = hashlib.blake2b(digest_size=12)
    exposure = () if predictions.exposure is None else (predictions.exposure,)
    for values in (predictions.outcome, predictions.weight, predictions.count, *exposure):
        digest.update(b"-" if values is None else values.data)
    about["rows_fingerprint"] = digest.hexdigest()
    seen = SearchResult(looks, about, [*unread, *aside], {})
    if predictions.cluster is None:
        known = [group.column for group in first.columns]
        known += [
            predictions.columns[one["where"]] for one in aside if one["reason"].startswith("an identifier")
        ]
        key = column_choice.suggested(first.rows.beyond, known)
        if key is not None:
            about["cluster_suggested"] = key[0]
            seen.notes.append(key[1])
    return seen


def _look_at_sample(
    rows: GatheredRows, source: Any, roles: ColumnRoles, wanted: AuditOptions, unread: Sequence[Any]
) -> SearchResult:
    """Some of the rows are here: what is chosen on them is measured on all."""
    if roles.cluster is not None:
        raise refusal(
            "needs all rows of a cluster together",
            "'cluster'",
            got=f"{rows.rows:,} rows do not fit in the memory allowed, and a sample breaks clusters up",
            hint="allow more memory, or give a sample of whole clusters: see the page on large data",
        )
    further = [] if wanted.time is None else [period_cells(rows.predictions, wanted.time, wanted.every)]
    (looked, *_), aside = _looked(rows.predictions, wanted, judged=wanted.effort != "quick")
    wanted.say("all rows")
    event = looked.rows.raw.target
    every = AllRows(source, roles, rows, looked.target, event, wanted.max_levels, [*unread, *aside])
    summary, beside = measured_on_all(looked, every, further, wanted.random_state)
    if wanted.time is not None and beside[0] is not None:
        looked.further.append(periods_of_sums(beside[0], wanted.time, looked.rows.noise, wanted))
    settings = {"sample": {"rows": rows.predictions.rows, "of": rows.rows, "passes": source.passes}}
    about = {"rows": summary.rows, "fingerprint": summary.fingerprint}
    return SearchResult([looked], about, list(summary.aside), settings)


def _looked(
    predictions: Predictions, wanted: AuditOptions, *, judged: bool = True
) -> tuple[list[TargetSearch], list[Plain]]:
    """Everything that the effort allows to look at, on the rows that are here, and the columns set aside."""
    columns, aside = column_choice.chosen_columns(predictions, wanted.by, wanted.ignore, wanted.max_levels)
    # And none is named: each class as well.
    several = predictions.n_classes > 2 and wanted.target in ("auto", "top")
    classes = range(min(predictions.n_classes, MOST_CLASSES[wanted.effort])) if several else ()
    targets = [(wanted.target, ""), *((k, f"class {predictions.classes[k]}") for k in classes)]
    wanted.say.total = (len(columns) + 1) * len(targets) + (2 if wanted.effort != "quick" else 1)
    parts: dict[str, CodedColumn] = {}
    looks = [look(predictions, columns, target, wanted, parts, judged=judged) for target in targets]
    first = looks[0]
    if wanted.effort != "quick" and len(first.columns) > 1:
        look_at_pairs(first, wanted)
        look_at_subpopulations(predictions, first, wanted)
        if wanted.effort == "deep":
            look_at_neighbourhoods(predictions, first, wanted)
    leave_out_by_effort(first, wanted.effort, [str(name) for name in predictions.classes], len(looks) - 1)
    return looks, aside
