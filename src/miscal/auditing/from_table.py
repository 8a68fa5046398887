"""From a table to what an audit judges: rows that fit are searched as they are, of others a sample, then all rows."""

from __future__ import annotations

from os import PathLike
from typing import Any

from miscal.auditing.all_rows import AllRows, measured_on_all
from miscal.auditing.audit import Seen, Steps
from miscal.auditing.column_choice import chosen_columns, left_out
from miscal.auditing.document import rows_fingerprint
from miscal.auditing.periods import look_at_periods, period_cells, periods_of_sums, time_column
from miscal.auditing.search.looking import Looked, Wanted, look, look_at_pairs
from miscal.auditing.search.parts import Part
from miscal.auditing.search.searches import look_at_neighbourhoods, look_at_subpopulations
from miscal.data.columns import Column
from miscal.data.errors import check_named, refusal
from miscal.data.predictions import Predictions
from miscal.data.sources import unnamed
from miscal.data.vectors import library_of
from miscal.engines.gathering import Gathered, gather, half_of_memory, rows_that_fit
from miscal.engines.roles import Roles
from miscal.engines.source import give_back, opened

MOST_CLASSES = {"quick": 0, "normal": 10, "deep": 100}
CLUSTER_MEMORY = "1GB"  # of the driver, for what it gathers of a cluster's frame
MOST_SAMPLED = {"quick": 200_000, "normal": 2_000_000, "deep": 2_000_000}  # rows beyond which a search gains nothing


def look_at_table(data: Any, wanted: Wanted, options: dict[str, Any], memory: Any, steps: Steps) -> Seen:
    """Look at predictions, or at a table of which some columns are named."""
    if isinstance(data, Predictions):
        return _look_at_rows(data, wanted, steps)
    if options["outcome"] is None or options["probability"] is None:
        raise unnamed(data)
    only = options.pop("columns", None)
    roles = Roles(**options)
    source = opened(data, memory, steps.progress)
    known = [name for name in source.kinds if name not in roles.names]
    check_named([*(wanted.by or ()), *wanted.ignore], known, "the data", known)
    limit = _limit(data, source, memory, wanted)
    rows = gather(source, roles, _kept(wanted, known, only), limit=limit, target=wanted.target)
    give_back(rows.predictions.rows)
    if rows.complete:
        return _look_at_rows(rows.predictions, wanted, steps, rows)
    return _look_at_sample(rows, source, roles, wanted, steps)


def _kept(wanted: Wanted, known: list[str], only: Any) -> list[str]:
    """Columns to gather: those that are looked at, and that of the time."""
    names = known if wanted.by is None else [name for name in known if name in wanted.by]
    kept = [name for name in (names if only is None else only) if name not in wanted.ignore]
    return [*kept, wanted.time] if wanted.time is not None and wanted.time not in kept else kept


def _limit(data: Any, source: Any, memory: Any, wanted: Wanted) -> int | None:
    """Rows that may be gathered; None for a table that is in memory already."""
    in_memory = not isinstance(data, (str, PathLike)) and source.rows is not None
    if memory is None and in_memory:
        return None
    ceiling = memory or (CLUSTER_MEMORY if library_of(data) == "pyspark" else half_of_memory())
    fitting = rows_that_fit(ceiling, source.kinds)
    if source.rows is not None and source.rows <= fitting:
        return fitting
    return min(fitting, MOST_SAMPLED[wanted.effort]) if source.rows is not None else fitting


def _look_at_rows(predictions: Predictions, wanted: Wanted, steps: Steps, rows: Gathered | None = None) -> Seen:
    """All rows are here: what is chosen is measured as it is chosen."""
    looks, aside, dated = _looked(predictions, wanted, steps)
    if dated is not None:
        looks[0].further.append(look_at_periods(looks[0], dated, wanted))
    about = {
        "rows": predictions.rows,
        "fingerprint": predictions._fingerprint(),  # noqa: SLF001
        "rows_fingerprint": rows_fingerprint(predictions),
    }
    return Seen(looks, about, [*_unusable(rows), *aside], {})


def _look_at_sample(rows: Gathered, source: Any, roles: Roles, wanted: Wanted, steps: Steps) -> Seen:
    """Some of the rows are here: what is chosen on them is measured on all."""
    if roles.cluster is not None:
        raise refusal(
            "needs all rows of a cluster together", where="'cluster'",
            got=f"{rows.rows:,} rows do not fit in the memory allowed, and a sample breaks clusters up",
            hint="allow more memory, or give a sample of whole clusters: see the page on large data",
        )  # fmt: skip
    looks, aside, _ = _looked(rows.predictions, wanted, steps)
    looked = looks[0]
    steps("all rows")
    event = looked.rows.raw.target
    unread = [*_unusable(rows), *aside]
    every = AllRows(source, roles, rows, looked.target, event, wanted.max_levels, unread)
    further = [] if wanted.time is None else [period_cells(rows.predictions, wanted.time, wanted.every)]
    made, summary, beside = measured_on_all(looked, every, further, wanted.random_state)
    if wanted.time is not None and beside[0] is not None:
        made.further.append(periods_of_sums(beside[0], wanted.time, made.rows.noise, wanted))
    settings = {"sample": {"rows": rows.predictions.rows, "of": rows.rows, "passes": source.passes}}
    return Seen([made], {"rows": summary.rows, "fingerprint": summary.fingerprint}, list(summary.aside), settings)


def _unusable(rows: Gathered | None) -> list[dict[str, Any]]:
    if rows is None:
        return []
    return [left_out(name, rows.rows, reason) for name, reason in rows.aside]


def _looked(
    predictions: Predictions, wanted: Wanted, steps: Steps
) -> tuple[list[Looked], list[dict[str, Any]], Column | None]:
    """Everything that the effort allows to look at, on the rows that are here."""
    dated = None if wanted.time is None else time_column(predictions, wanted.time)
    columns, aside = chosen_columns(predictions, wanted.by, wanted.ignore, wanted.max_levels)
    targets = _targets(predictions, wanted)
    steps.total = (len(columns) + 1) * len(targets) + (2 if wanted.effort != "quick" else 1)
    parts: dict[str, Part] = {}
    looks = [look(predictions, columns, what, name, wanted, parts, steps) for what, name in targets]
    first = looks[0]
    if wanted.effort != "quick" and len(first.columns) > 1:
        look_at_pairs(first, wanted, steps)
        look_at_subpopulations(predictions, first, wanted, steps)
        if wanted.effort == "deep":
            look_at_neighbourhoods(predictions, first, wanted, steps)
    return looks, aside, dated


def _targets(predictions: Predictions, wanted: Wanted) -> list[tuple[str | int, str]]:
    """The target asked for; with several classes and none named, each class as well."""
    several = predictions.n_classes > 2 and wanted.target in ("auto", "top")
    classes = range(min(predictions.n_classes, MOST_CLASSES[wanted.effort])) if several else ()
    return [(wanted.target, ""), *((k, str(predictions.classes[k])) for k in classes)]
