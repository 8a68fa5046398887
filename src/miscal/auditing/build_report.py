"""The report of an audit, built once from what the search, the tests and the explaining gave.

What is written here decides nothing about findings: it describes them, the columns without any, and the table. A
sentence is never made here; notes and reasons are codes with fields (`miscal.codes.audit`).
"""

import math
import platform
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

import miscal
from miscal.aggregate.in_memory import tally
from miscal.auditing.exclusions import remedy_of
from miscal.auditing.search.cell_grids import CellGrid
from miscal.auditing.search.collect import SearchResult
from miscal.auditing.search.judge import JudgedTarget
from miscal.auditing.search.score_tails import rounding_step
from miscal.auditing.search.search_context import SearchContext
from miscal.auditing.search.target_search import TargetSearch
from miscal.cells.partitions import LevelPooling, Numbered
from miscal.codes.audit import ExclusionReason, Family, GroupNote, Note, NoteCode, Reason
from miscal.data.arrays import Plain
from miscal.data.columns import Column
from miscal.metrics.score import ScoreResult
from miscal.report.findings import Finding, flat
from miscal.report.model import AuditReport, CleanColumn, Excluded, NotTested, ScoreNumbers
from miscal.report.result_tables import ResultView
from miscal.report.wording import number, plural
from miscal.results import Result
from miscal.stats.cell_sums import CellSums, effective_events, ignore_warnings
from miscal.stats.intervals import wald_p
from miscal.stats.multiplicity import adjusted_z, minimum_detectable_gap
from miscal.stats.normal import normal_interval
from miscal.words import sentence

#: Values of a calibrated score.
CALIBRATED_VALUES = {"slope": 1.0, "intercept": 0.0, "in_the_large": 0.0, "ratio": 1.0}
MAX_GROUPS = 20  # levels up to which a column's groups are compared with one another
MAX_LISTED_CELLS = 200  # cells too small to test that are listed one by one, per column
MIN_DAYS, MIN_ROWS_PER_DAY = 20, 5  # from which it is tested whether days are correlated
MIN_GROUP_EVENTS = 10.0  # expected events of a group, from which its interval means something
MIN_ROWS_PER_PURE_CELL = 20  # from which it is no accident that all rows have the same outcome
MAX_DATE_SPAN = 36_525  # days: a hundred years
ONE_ROW_SHARE = 0.5  # of the squared residuals of all rows
MIN_VARIANCE_RATIO = 2.0  # of daily sums, compared with independent rows


def report_of(
    search: SearchResult,
    targets: Sequence[JudgedTarget],
    findings: Sequence[Finding],
    n_unlisted: int,
    data: Plain,
    settings: Plain,
    along_score: Sequence[Any],
) -> AuditReport:
    """The report of a search and its findings.

    Parameters
    ----------
    search : SearchResult
        What was searched.
    targets : sequence of JudgedTarget
        What the tests say of each; the first is the one that sections and notes are about.
    n_unlisted : int
        Significant segments that are not listed.
    findings : sequence of Finding
        Best first.
    data, settings : dict
        How the table and the audit are described.
    along_score : sequence of dict
        The rows of each finding by bins of the score.
    """
    first = targets[0]
    columns_with_findings = {name for finding in flat(findings) for name in finding.columns}
    excluded = search.excluded
    clean, undetectable = _columns_without_findings(first, columns_with_findings)
    too_small = chain.from_iterable(_untestable_levels(grid, first) for grid in first.columns)
    return AuditReport(
        version=miscal.__version__,
        versions={"python": platform.python_version(), "numpy": np.__version__},
        data={"weight": float(first.score.table["weight"].sum()), **data},
        settings=settings,
        score=score_numbers(first.score),
        all_findings=tuple(findings),
        unlisted=n_unlisted,
        coded_notes=tuple(_notes(search, first, findings)),
        clean_columns=tuple(clean),
        excluded=(*excluded, *undetectable, *too_small),
        left_out=_not_tested(first.search, excluded),
        sections=_sections(targets),
        along_score_results=tuple(along_score),
    )


def _sections(targets: Sequence[JudgedTarget]) -> dict[str, list[ResultView]]:
    """The results of score, columns and whatever else was measured, by their kind."""
    first = targets[0]
    level = first.multiplicity.level
    sections: dict[str, list[ResultView]] = {"score": [], "variable": [], "field": []}
    for target in targets:
        scope = target.search.scope
        named = {"target_scope": scope, "name": f"Calibration by score, {scope}"} if scope else {}
        sections["score"].append(ResultView.from_dict(target.score.to_dict() | named, level, "score"))
    for grid in first.columns:
        values = grid.shown.to_dict()
        shown = grid.shown.tally
        cells = shown.cells  # the levels of a field, or the ranges that are shown of a variable
        if 2 <= cells.count <= MAX_GROUPS:
            coded = replace(grid.coded_columns[0], cells=cells)
            names = [coded.level(cell, cell) for cell in range(coded.n_cells)]
            values["extra"]["differences"] = differences(CellSums.of(shown), names, first.context)
        sections[grid.kind].append(ResultView.from_dict(values, level, grid.kind))
    for result in first.search.further_results:
        view = ResultView.from_dict(result.to_dict(), level, result.kind)
        sections.setdefault(result.kind, []).append(view)
    return sections


def _columns_without_findings(
    target: JudgedTarget, columns_with_findings: set[str]
) -> tuple[list[CleanColumn], list[Excluded]]:
    """Columns without a significant gap, and those so small that not even the largest gap would have been."""
    null_model, multiplicity = target.context.null_model, target.multiplicity
    mean, rows = target.score.predicted, int(target.score.table["rows"].sum())
    largest_gap = max(mean, 1.0 - mean) if null_model.binary else math.inf
    column_tests = multiplicity.sizes[Family.COLUMNS] * multiplicity.n_families
    clean, undetectable = [], []
    for grid in target.columns:
        name, result = grid.column.name, grid.shown
        profile_p = target.min_profile_p[grid.id]
        significant = min(profile_p, result.p_value) * len(target.columns) <= multiplicity.level
        if name in columns_with_findings or significant:
            continue
        with ignore_warnings():
            error = np.sqrt(target.context.variance(grid.raw)) / grid.raw.weight * null_model.units.scale
        tested = error if grid.n_ordered else error[~np.isnan(target.p_values(grid))]
        gaps = minimum_detectable_gap(tested, column_tests * grid.n_blocks, multiplicity.level)
        detectable = float(np.nanmin(gaps)) if gaps.size else math.nan  # the smallest of any cell
        if not detectable < largest_gap:
            undetectable.append(Excluded(name, rows, Reason(ExclusionReason.NOTHING_DETECTABLE)))
            continue
        note = None
        if result.p_value <= multiplicity.level:
            note = Note(NoteCode.SIGNIFICANT_BEFORE_CORRECTION)
        elif profile_p <= multiplicity.level:
            note = Note(NoteCode.SHAPE_SIGNIFICANT_BEFORE_CORRECTION)
        clean.append(
            CleanColumn(
                name, result.value, result.noise_floor, result.p_value, detectable, result.p_resolution, note
            )
        )
    return clean, undetectable


def _not_tested(search: TargetSearch, excluded: Iterable[Excluded]) -> list[NotTested]:
    """Everything that was not tested, by its kind and the code of its reason; excluded columns first."""
    segments: dict[tuple[object, ...], list[str]] = {}
    words: dict[tuple[object, ...], tuple[str, str, str]] = {}
    for column in excluded:
        reason = column.reason
        key: tuple[object, ...] = ("columns", reason.code, *sorted(reason.fields.items()))
        segments.setdefault(key, []).append(column.where)
        words[key] = ("columns", column.reason_words, sentence(remedy_of(reason.code)))
    for left_out in search.not_tested:
        key = (left_out.what, left_out.reason, left_out.remedy, left_out.limit)
        segments.setdefault(key, []).append(left_out.where)
        if key not in words:
            reason_words = sentence(left_out.reason, limit=left_out.limit)
            words[key] = (left_out.what.value, reason_words, sentence(left_out.remedy, limit=left_out.limit))
    entries = []
    for key, where in segments.items():
        what, reason_words, remedy = words[key]
        entries.append(NotTested(what, len(where), reason_words, remedy, where))
    return entries


def differences(raw: CellSums, names: Sequence[str], rows: SearchContext) -> Plain:
    """Each group against the rest of its column: how much larger its gap is, with simultaneous intervals.

    Largest first, by the lower bound of the size of the difference; `note` is a `GroupNote`.
    """
    scale = rows.null_model.units.scale
    noise, off, weight = rows.variance(raw) * scale**2, raw.off * scale, raw.weight
    rest = weight.sum() - weight
    kept = np.flatnonzero((weight > 0) & (rest > 0))
    with ignore_warnings():
        gap, others = off / weight, (off.sum() - off) / rest
        error = np.sqrt(noise / weight**2 + (noise.sum() - noise) / rest**2)
    reach = adjusted_z(max(kept.size, 1), 0.05) * error
    difference = gap - others
    low, high = difference - reach, difference + reach
    # Two groups are as far from each other, but for a last digit that the order of rows decides.
    least = (np.maximum(low, -high) / scale).round(12)
    events = effective_events(raw) if rows.null_model.binary else 0.5 * weight**2 / raw.weight2
    note = np.where(least > 0, GroupNote.SIGNIFICANT, GroupNote.NONE)
    columns = {
        "level": np.array(names, object),
        "rows": raw.rows,
        "gap": gap,
        "gap_rest": others,
        "difference": difference,
        "low": low,
        "high": high,
        "note": np.where(events < MIN_GROUP_EVENTS, GroupNote.TOO_SMALL, note),
    }
    kept = kept[np.argsort(-least[kept], kind="stable")]
    return {name: values[kept].tolist() for name, values in columns.items()}


def _untestable_levels(grid: CellGrid, target: JudgedTarget) -> list[Excluded]:
    """Levels of a column that no outcome could have made significant."""
    if grid.n_ordered:
        return []
    cells = np.flatnonzero(np.isnan(target.p_values(grid)) & (grid.raw.rows > 0))
    rows = grid.raw.rows[cells].astype(int)
    if cells.size > MAX_LISTED_CELLS:
        where = f"{grid.names[0]}: {cells.size:,} of {grid.n_cells:,} levels"
        return [Excluded(where, int(rows.sum()), Reason(ExclusionReason.EVERY_LEVEL_TOO_SMALL))]
    reason = Reason(ExclusionReason.TOO_FEW_EVENTS)
    return [
        Excluded(grid.words(grid.block_of_cell(cell)), n_rows, reason)
        for cell, n_rows in zip(cells.tolist(), rows.tolist(), strict=True)
    ]


def score_numbers(score: ScoreResult) -> ScoreNumbers:
    """The numbers by score, and what is known of the noise of each."""
    cells = score.tally
    total, scale = cells.weight.sum(), 1.0 if score.unit_scale is None else score.unit_scale
    variance = cells.residual2 if score.settings.get("null") == "residual" else cells.variance
    gap = float(cells.events_off.sum() / total) * scale
    error = float(np.sqrt(variance.sum()) / total) * scale
    fitted = {name: fit for name in CALIBRATED_VALUES if (fit := getattr(score, name)) is not None}
    values = {
        "expected": score.value,
        "kuiper": score.kuiper.value,
        "ratio": math.nan,  # not defined for amounts below 0
        **{name: estimate.value for name, estimate in fitted.items()},
        "predicted": score.predicted,
        "observed": score.observed,
        "gap": score.predicted - score.observed,
    }
    details: dict[str, Plain] = {
        "expected": {
            "noise_floor": score.noise_floor,
            "p_value": score.p_value,
            "interval": list(score.interval),
        },
        "kuiper": score.kuiper_noise(),
        "gap": {"interval": normal_interval(gap, error), "error": error},
    }
    for name, estimate in fitted.items():
        p_value = wald_p(estimate.value, estimate.interval, CALIBRATED_VALUES[name], name == "ratio")
        details[name] = {"interval": list(estimate.interval), "p_value": p_value}
    if score.brier is not None and score.log_loss is not None and score.smooth is not None:  # events only
        losses = {"brier": score.brier.score, "log_loss": score.log_loss.score}
        values |= {"smooth": score.smooth.value, **losses, "auc": score.auc}
        details["smooth"] = score.smooth.noise()
        details["log_loss"] = {}
        if math.isinf(score.log_loss.score):
            rows = {} if score.certain is None else {"rows": sum(_contradicted_rows(score))}
            details["log_loss"] = {"infinite": True, **rows}
    return ScoreNumbers(values, details)


def _contradicted_rows(score: ScoreResult) -> tuple[int, int]:
    """Events among rows with probability 0, and rows with probability 1 that had no event."""
    if score.certain is None:
        return 0, 0
    return score.certain.zero_happened or 0, score.certain.one_did_not or 0


def _notes(search: SearchResult, first: JudgedTarget, findings: Iterable[Finding]) -> list[Note]:
    """How the table was read, what is odd about it, and findings that a single row decides."""
    read = [
        note if isinstance(note, Note) else Note(NoteCode.TABLE_READ, {"text": note}) for note in search.notes
    ]
    decided = [
        Note(NoteCode.ONE_ROW_DECIDES, {"finding": str(finding)}) for finding in findings if finding.decided
    ]
    return [*read, *notes_of(first), *decided]


def notes_of(target: JudgedTarget) -> list[Note]:
    """What is odd about the table.

    Scores that run the wrong way, columns that give the outcome away, correlated days.
    """
    binary = target.context.null_model.binary
    notes = [*_certain_notes(target), *_slope_notes(target)] if binary else _largest_row_notes(target)
    for grid in target.columns:
        if binary and _is_pure(grid.shown):
            notes.append(Note(NoteCode.TARGET_LEAKAGE, {"column": grid.column.name}))
        if grid.column.type.calendar:
            notes += _date_span_notes(grid.column)
            notes += _correlated_day_notes(target, grid.column)
    return notes


def _certain_notes(target: JudgedTarget) -> list[Note]:
    """What rows with probability 0 or 1 do to the numbers: an infinite log loss, and a slope that leaves them out."""
    score = target.score
    notes: list[Note] = []
    zero_events, one_without = _contradicted_rows(score)
    if zero_events or one_without:
        parts = []
        if zero_events:
            events = plural(zero_events, "event")
            parts.append(f"{events} occurred in rows with predicted probability 0")
        if one_without:
            rows = plural(one_without, "row")
            parts.append(f"{rows} with predicted probability 1 had no event")
        fields: dict[str, str | int | float] = {"rows": ", ".join(parts)}
        step = rounding_step(target.context.raw.predicted)
        tails = (tail for tail in target.tails if tail.n_searched == 1)
        if step and not any(tail.adjusted_p <= target.multiplicity.level for tail in tails):
            notes.append(Note(NoteCode.LOG_LOSS_INFINITE_BY_ROUNDING, {**fields, "step": float(step)}))
        else:
            notes.append(Note(NoteCode.LOG_LOSS_INFINITE, fields))
    without_slope = 0 if score.certain is None else score.certain.without_slope
    if without_slope and score.slope is not None and not math.isnan(score.slope.value):
        notes.append(Note(NoteCode.NO_LOG_ODDS, {"rows": plural(without_slope, "row")}))
    return notes


def _slope_notes(target: JudgedTarget) -> list[Note]:
    """A slope below 0: most often a column of the other class."""
    slope = target.score.slope
    return [Note(NoteCode.SLOPE_BELOW_ZERO)] if slope is not None and slope.high < 0.0 else []


def _largest_row_notes(target: JudgedTarget) -> list[Note]:
    """The row that makes most of the variance of the whole table, if any does: an amount of a million."""
    weight, predicted, observed = target.context.largest_residuals([target.whole])[0]
    if (weight * (observed - predicted)) ** 2 <= ONE_ROW_SHARE * target.whole.raw.residual2[0]:
        return []
    units = target.context.null_model.units
    means = {"predicted": number(units.back(predicted)), "observed": number(units.back(observed))}
    return [Note(NoteCode.ONE_ROW_VARIANCE, means)]


def _is_pure(result: Result) -> bool:
    """Whether each level or range of a column has a single outcome, over enough rows to be no accident."""
    rows = result.table["rows"]
    filled = rows > 0
    pure = {*result.table["observed"][filled]} == {0.0, 1.0}
    return bool(pure and rows.sum() >= MIN_ROWS_PER_PURE_CELL * filled.sum())


def _date_span_notes(column: Column) -> list[Note]:
    """Dates that run over more than a hundred years, most often as some stand for none."""
    dates = column.values[~np.isnan(column.values)]
    if not dates.size or dates.max() - dates.min() <= MAX_DATE_SPAN:
        return []
    first, last = (str(np.datetime64(int(end), "D")) for end in (dates.min(), dates.max()))
    return [Note(NoteCode.DATES_FAR_APART, {"column": column.name, "first": first, "last": last})]


def _correlated_day_notes(target: JudgedTarget, column: Column) -> list[Note]:
    """Days whose errors are correlated: their sums vary more than those of independent rows."""
    dated = ~np.isnan(column.values)
    days, code = np.unique(np.floor(column.values[dated]), return_inverse=True)
    enough = days.size >= MIN_DAYS and code.size >= MIN_ROWS_PER_DAY * days.size
    rows = target.context.recalibrated
    if not enough or rows.cluster is not None or len(column) != rows.rows:
        return []
    compared = rows.take(dated)
    daily = tally(compared, LevelPooling(code, Numbered(days.size)))
    off, weight = daily.events_off, daily.weight
    off = off - weight * (off.sum() / weight.sum())
    independent = np.sum(daily.variance if compared.binary else daily.residual2)
    ratio = off @ off / max(independent, 1e-300)
    if ratio < MIN_VARIANCE_RATIO:
        return []
    return [Note(NoteCode.DAYS_CORRELATED, {"column": column.name, "times": float(ratio)})]
