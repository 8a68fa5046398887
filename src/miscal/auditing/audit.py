"""One audit of a table: the score, every column, pairs of them, and the segments that are miscalibrated.

The flow: options, load or sample, propose candidates, collect evidence, judge, explain, report. Each step takes frozen
values and returns new ones; nothing is filled in later.
"""

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
from miscal.auditing.all_rows import AllRows, collect_on_all_rows
from miscal.auditing.build_report import report_of
from miscal.auditing.column_choice import named
from miscal.auditing.compare import cells_of
from miscal.auditing.exclusions import of_plain, unusable
from miscal.auditing.options import MAX_LEVELS, AuditOptions, Progress, ProgressReporter
from miscal.auditing.periods import (
    PeriodResult,
    by_period,
    check_every,
    period_cells,
    periods_of_sums,
    time_column,
)
from miscal.auditing.record import Audit
from miscal.auditing.search.build_findings import curves_of, findings_of
from miscal.auditing.search.coded_columns import CodedColumn, fine_coding
from miscal.auditing.search.collect import SearchResult, search_target
from miscal.auditing.search.crossings import search_neighbourhoods, search_pairs, search_subpopulations
from miscal.auditing.search.judge import JudgedTarget, judge
from miscal.auditing.search.not_tested import not_tested_by_effort
from miscal.auditing.search.target_search import TargetSearch
from miscal.auditing.summary_files import search_summary_file
from miscal.cells.partitions import BinPooling, Ranges
from miscal.cells.ranges import shared_edges, united
from miscal.data.arrays import Plain, expanded, library_of
from miscal.data.checks import check_seed, number, one_of, whole
from miscal.data.errors import refusal
from miscal.data.predictions import Predictions
from miscal.data.sources import one_prediction, unnamed
from miscal.data.target import select_target
from miscal.data.text_types import in_words
from miscal.metrics.variable import VariableResult
from miscal.report.findings import with_noun
from miscal.report.model import Excluded

__all__ = ["Audit", "audit"]

MAX_CLASSES = {"quick": 0, "normal": 10, "deep": 100}
# Rows beyond which a search gains nothing.
MAX_SAMPLED = {"quick": 200_000, "normal": 2_000_000, "deep": 2_000_000}


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
    """Find where the predictions of a table are miscalibrated: by score, by every column and by pairs of columns.

    Every segment is tested; p-values are adjusted over the whole audit, so that on calibrated data the chance of any
    finding is at most `level`. A significant segment is specific if it is still significant after global
    recalibration; what is not is one finding about the whole table. Specific segments are ranked by the lower bound
    of their events off; segments that another one explains are listed under it.

    Parameters
    ----------
    data : frame, path or Predictions
        A frame of any library; a path, also of a folder, a pattern or a summary file.
    outcome, weight, count, cluster : str, optional
        Names of columns, as in `miscal.read`.
    probability : str, sequence or mapping, optional
        Names of the columns of probabilities, as in `miscal.read`.
    by : sequence of str, optional
        Columns to audit; by default all of them.
    ignore : sequence of str
        Columns to leave out.
    target : str or int
        "auto", "positive", "top" or a class; with several classes and "auto" each class is audited too.
    level : float
        Chance of any false finding in the whole audit.
    effort : str
        "quick" (score and columns), "normal" (pairs of columns and subpopulations too) or "deep" (neighbourhoods too,
        and a wider search). These are units of work, not of time, so that a seed gives the same answer anywhere.
    random_state : int
        Seed.
    time : str, optional
        Column of dates or times: the audit then gives the gap of each period, and says between which two neighbouring
        periods it became larger or smaller (`sections["period"]` of the JSON).
    every : str, optional
        "week" (from Monday), "month", "quarter" or "year"; by default chosen from the range of dates.
    suppress_below : int
        Cells and findings of fewer rows are left out of report, JSON and CSV.
    source : str, optional
        What the report calls the data; by default the file's name.
    memory : str or int, optional
        Limit, such as "600MB"; for a path by default half of the machine's memory. A table that fits is loaded, and
        the answer is that of the loaded table. Otherwise segments are searched on a sample of as many rows as fit, and
        then added up and tested on all rows.
    max_levels : int
        A categorical column with more levels is excluded.
    progress : callable, optional
        Called with what is being tested, how many steps are done, and how many there are.
    prediction : str, optional
        In the place of `probability`, the column of predicted means.
    response : str
        "binary"; "real" (amounts, scores, soft labels) or "count" for predicted means.
    exposure : str, optional
        Column of exposures, of which the prediction is then a rate per unit.
    **read_options
        Other options of `miscal.read`.

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
    one_of("effort", effort, MAX_CLASSES)
    number("level", level, 0.0, 1.0, above=True, below=True)
    whole("max_levels", max_levels, 1)
    check_seed(random_state)
    check_every(every, time)
    probability = one_prediction(probability, prediction, response)
    roles = {
        "outcome": outcome,
        "probability": probability,
        "weight": weight,
        "count": count,
        "exposure": exposure,
    }
    by, ignore = column_choice.asked_columns(by, ignore, time, **roles)
    options = AuditOptions(
        **roles,
        cluster=cluster,
        response=data.response if isinstance(data, Predictions) else response,
        by=by,
        ignore=ignore,
        target=target,
        level=level,
        effort=effort,
        random_state=random_state,
        time=time,
        every=every,
        max_levels=max_levels,
        suppress_below=suppress_below,
        source=source,
        memory=memory,
        read_options=read_options,
        report_progress=ProgressReporter(progress),
    )
    if source_of(data) is not None and fspath(data).endswith(".tally"):
        result = search_summary_file(Path(data), options)
    else:
        result, options = search_table(data, options)
    audited = _tested(result, options, _described(data, options) | result.about)
    return audited.suppressed(suppress_below) if suppress_below else audited


def _described(data: Any, options: AuditOptions) -> Plain:
    """What the document says of the data: their source, and which column is what."""
    columns, positive = named(options.probability), options.read_options.get("positive")
    return {
        "source": options.source or source_of(data),
        "outcome": options.outcome,
        "probability": ", ".join(columns) or None,
        "weight_column": options.weight,
        "cluster": options.cluster,
        "probability_columns": columns,
        "count_column": options.count,
        "positive": None if positive is None else str(positive),
        "logit": bool(options.read_options.get("logit", False)),
        "ignore": options.ignore,
        **({"exposure": options.exposure} if options.exposure else {}),
        **({"response": options.response} if options.is_mean else {}),
    }


def _tested(result: SearchResult, options: AuditOptions, described: Plain) -> Audit:
    """Run all tests, and put everything into one record."""
    targets = judge(result.searches, options.level)
    explained = [(findings_of(target), target) for target in targets]
    heads = [entry for (ordered, _), _ in explained for entry in ordered]
    found = [finding for _, finding in sorted(heads, key=lambda entry: -entry[0])]  # largest bound first
    n_unlisted = sum(explanation.n_unlisted for (_, explanation), _ in explained)
    if described.get("response") == "count" and described["outcome"]:
        found = [with_noun(finding, described["outcome"]) for finding in found]
    options.report_progress("")
    multiplicity = targets[0].multiplicity
    settings = {
        "level": options.level,
        "effort": options.effort,
        "random_state": options.random_state,
        "target": str(options.target),
        "tests": multiplicity.n_tests,
        "families": {family.value: multiplicity.sizes[family] for family in multiplicity.families},
        **result.settings,
    }
    curves = curves_of(targets, found)
    report = report_of(result, targets, found, n_unlisted, described, settings, curves)
    results = [
        shown
        for target in targets
        for shown in (
            target.score,
            *(grid.shown for grid in target.columns),
            *target.search.further_results,
        )
    ]
    return Audit(report, results, _cell_sums(targets))


def _cell_sums(targets: Sequence[JudgedTarget]) -> Plain:
    """Sums of cells of score, columns and periods, by the kind and the column; weeks are never taken for months."""
    sums: Plain = {}
    for target in targets:
        suffix = f" ({target.search.scope})" if target.search.scope else ""
        context = target.context
        sums[f"score{suffix}"] = cells_of(target.score, clustered=context.clustered)
        for grid in target.columns:
            column, result = grid.column, grid.shown
            cells, fine = result.tally.cells, None
            # Narrow ranges, some of which any audit has.
            if isinstance(result, VariableResult) and column.type.round_edges and isinstance(cells, Ranges):
                ranges = replace(cells, edges=united(cells.edges, shared_edges(cells.edges)))
                fine = result.fine or tally(context.raw, BinPooling(column.values, ranges))
            sums[f"{result.kind}{suffix}:{column.name}"] = cells_of(result, fine, clustered=context.clustered)
        for dated in target.search.further_results:
            if isinstance(dated, PeriodResult):
                name = f"period by {dated.every}:{dated.column}"
                sums[name] = cells_of(dated, clustered=context.clustered)
    return {name: cells for name, cells in sums.items() if cells is not None}


def source_of(data: Any) -> str | None:
    """What the data are called where the user does not say."""
    return Path(data).name if isinstance(data, (str, PathLike)) else None


def search_table(data: Any, options: AuditOptions) -> tuple[SearchResult, AuditOptions]:
    """Search predictions, or a table of which some columns are named.

    Returns
    -------
    result : SearchResult
    options : AuditOptions
        The same with the outcome and the probability that were taken where they were not named.
    """
    if isinstance(data, Predictions):
        return _search_rows(data, options), options
    source = open_source(data, options.memory, options.report_progress.progress)
    options, about, notes = _with_roles(data, source, options)
    roles = ColumnRoles.from_options("audit", options.reading)
    if isinstance(roles.probability, str) and not roles.logit:
        options = replace(options, score_column=roles.probability)
    columns = column_choice.usable_columns(source, roles, options.by, options.ignore)
    columns = list(dict.fromkeys([*columns, *named(options.time)]))
    limit = _max_gathered(data, source, options)
    rows = gather(source, roles, columns, limit=limit, target=options.target)
    roles = rows.roles or roles
    release_memory(rows.predictions.rows)
    unread = [
        unusable(name, rows.rows, reason) for name, reason in rows.excluded if name not in options.ignore
    ]
    searched = options
    if options.memory is not None:
        max_levels = min(options.max_levels, levels_that_fit(options.memory, rows.predictions))
        searched = replace(options, max_levels=max_levels)
    if rows.complete:
        result = _search_rows(rows.predictions, searched, unread)
    else:
        result = _search_sample(rows, source, roles, searched, unread)
    return replace(result, about=result.about | about, notes=[*notes, *result.notes]), options


def _max_gathered(data: Any, source: Any, options: AuditOptions) -> int | None:
    """How many rows are gathered at most; None where the table is in memory already."""
    if options.memory is None and source_of(data) is None and source.rows is not None:
        return None
    # On Spark the limit applies to the driver.
    memory = options.memory or ("1GB" if library_of(data) == "pyspark" else default_memory_limit())
    limit = rows_that_fit(memory, source.kinds, source.text_bytes)
    if (source.rows or 0) > limit:
        limit = min(limit, MAX_SAMPLED[options.effort])
    return limit


def _with_roles(data: Any, source: Any, options: AuditOptions) -> tuple[AuditOptions, Plain, list[str]]:
    """The options with outcome and probability, as named or as they can only be; and how columns of text are read."""
    options = replace(options, probability=expanded(options.probability, source.names))
    is_spark = library_of(data) == "pyspark"
    types = {} if is_spark else {name: in_words(type_) for name, type_ in source.infer_text_types().items()}
    notes = [f"{name} is read as {type_}: it is stored as text." for name, type_ in types.items()]
    if options.outcome is None or options.probability is None:
        if is_spark or options.is_mean:
            raise unnamed("audit", source.names, *["prediction"] * options.is_mean)
        outcome, probability, note = column_choice.guessed(source, options.outcome, options.probability)
        options = replace(options, outcome=outcome, probability=probability)
        notes.append(note)
    return options, {"read_as": types} if types else {}, notes


def _search_rows(
    predictions: Predictions, options: AuditOptions, unread: Sequence[Excluded] = ()
) -> SearchResult:
    """All rows are in memory: evidence is counted as segments are proposed."""
    dated = None if options.time is None else time_column(predictions, options.time)
    searches, excluded = _search_targets(predictions, options)
    first = searches[0]
    if dated is not None:
        first = first.extended(further_results=[by_period(first.context.raw, dated, options)])
    about: Plain = {
        "rows": predictions.rows,
        "fingerprint": predictions._fingerprint(),  # noqa: SLF001
        "rows_fingerprint": _rows_fingerprint(predictions),
    }
    notes = []
    if predictions.cluster is None:
        candidates = [grid.column for grid in first.columns]
        candidates += [
            predictions.columns[column.where]
            for column in excluded
            if column.reason.code in column_choice.IDENTIFIERS
        ]
        key = column_choice.suggested(first.context.recalibrated, candidates)
        if key is not None:
            about["cluster_suggested"] = key[0]
            notes.append(key[1])
    return SearchResult([first, *searches[1:]], about, [*unread, *excluded], {}, notes)


def _rows_fingerprint(predictions: Predictions) -> str:
    """Of outcomes and weights in their order: equal for models of one table."""
    digest = hashlib.blake2b(digest_size=12)
    exposure = () if predictions.exposure is None else (predictions.exposure,)
    for values in (predictions.outcome, predictions.weight, predictions.count, *exposure):
        digest.update(b"-" if values is None else values.data)
    return digest.hexdigest()


def _search_sample(
    rows: GatheredRows, source: Any, roles: ColumnRoles, options: AuditOptions, unread: Sequence[Excluded]
) -> SearchResult:
    """Some of the rows are in memory: evidence for what is proposed on them is collected on all."""
    if roles.cluster is not None:
        raise refusal(
            "needs all rows of a cluster together",
            "'cluster'",
            got=f"{rows.rows:,} rows do not fit in the memory allowed, and a sample breaks clusters up",
            hint="allow more memory, or give a sample of whole clusters: see the page on large data",
        )
    periods = [] if options.time is None else [period_cells(rows.predictions, options.time, options.every)]
    (search, *_), excluded = _search_targets(rows.predictions, options, tested=options.effort != "quick")
    options.report_progress("all rows")
    all_rows = AllRows(
        source=source,
        roles=roles,
        gathered=rows,
        target=search.target,
        event=search.context.raw.label,
        max_levels=options.max_levels,
        excluded=[*unread, *excluded],
    )
    search, summary, period_sums = collect_on_all_rows(search, all_rows, periods, options.random_state)
    if options.time is not None and period_sums[0] is not None:
        by_time = periods_of_sums(period_sums[0], options.time, search.context.null_model, options)
        search = search.extended(further_results=[by_time])
    settings = {"sample": {"rows": rows.predictions.rows, "of": rows.rows, "passes": source.passes}}
    about = {"rows": summary.rows, "fingerprint": summary.fingerprint}
    return SearchResult(
        [search], about, [of_plain(entry, entry["rows"]) for entry in summary.aside], settings
    )


def _search_targets(
    predictions: Predictions, options: AuditOptions, *, tested: bool = True
) -> tuple[list[TargetSearch], list[Excluded]]:
    """Everything that the effort allows, on the rows in memory, and the columns that are excluded."""
    columns, excluded = column_choice.chosen_columns(
        predictions, options.by, options.ignore, options.max_levels
    )
    # With several classes and none named, each class is audited too.
    several = predictions.n_classes > 2 and options.target in ("auto", "top")
    classes = range(min(predictions.n_classes, MAX_CLASSES[options.effort])) if several else ()
    targets: list[tuple[str | int, str]] = [(options.target, "")]
    targets += [(k, f"class {predictions.classes[k]}") for k in classes]
    n_further = 2 if options.effort != "quick" else 1
    options.report_progress.n_steps = (len(columns) + 1) * len(targets) + n_further
    searches: list[TargetSearch] = []
    coded: list[CodedColumn] | None = None
    for target, scope in targets:
        compared = select_target(predictions, target)
        if coded is None:
            coded = [fine_coding(column, compared.weight, compared.count) for column in columns]
        searches.append(search_target(predictions, compared, coded, target, scope, options, tested=tested))
    first = searches[0]
    if options.effort != "quick" and len(first.columns) > 1:
        first = search_pairs(first, options)
        first = search_subpopulations(predictions, first, options)
        if options.effort == "deep":
            first = search_neighbourhoods(predictions, first, options)
    names = [str(name) for name in predictions.classes]
    not_tested = not_tested_by_effort(first, options.effort, names, len(searches) - 1)
    return [first.extended(not_tested=not_tested), *searches[1:]], excluded
