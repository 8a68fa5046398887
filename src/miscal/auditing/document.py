"""The audit's dictionary: the JSON of the contract."""

import math
import platform
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

import miscal
from miscal.aggregate.in_memory import tally
from miscal.auditing.column_choice import asked_for, left_out
from miscal.auditing.disclosure import GIVEN_AWAY, INFINITE
from miscal.auditing.search.candidates import TargetSearch
from miscal.auditing.search.cell_grids import CellGrid, SearchContext
from miscal.auditing.search.collect import SearchResult
from miscal.auditing.search.score_tails import rounding_step
from miscal.cells.partitions import LevelPooling, Numbered
from miscal.data.arrays import Plain
from miscal.data.columns import Column
from miscal.metrics.score import ScoreResult
from miscal.report.codec import SCHEMA
from miscal.report.findings import Finding, flat
from miscal.report.wording import number, plural
from miscal.stats.cell_sums import CellSums, effective_events, ignore_warnings
from miscal.stats.intervals import wald_p
from miscal.stats.multiplicity import adjusted_z, minimum_detectable_gap
from miscal.stats.normal import normal_interval

RIGHT = {"slope": 1.0, "intercept": 0.0, "in_the_large": 0.0, "ratio": 1.0}  # values of a calibrated score
MOST_GROUPS = 20  # levels up to which a column's groups are compared with one another
ALONE = "off by its own p-value, not among all that were tested"
ALONG = "off along the score by its own p-value, not among all that were tested"
BLIND = "too few rows for any gap in it to be beyond noise"
MOST_LISTED = 200  # cells too small to judge that are listed one by one, for each column
LEAST_DAYS, LEAST_ROWS = 20, 5  # days, and rows a day, from which it can be seen
# Expected events of a group, from which its interval means something.
LEAST_GROUP, SMALL = 10.0, "too small to judge"
LEAST_EACH = 20  # rows a cell from which it is no accident that all have the same outcome
FAR_OFF = 36_525  # days: a hundred years
ONE_ROW = 0.5  # of the squared residuals of all rows
TOGETHER = 2.0  # times the variance of independent rows


def document_of(seen: SearchResult, found: Sequence[Finding], data: Plain, settings: Plain) -> Plain:
    """Put everything that was found into one dictionary, with `data` and `settings` as they are described."""
    first = seen.looks[0]
    guilty = {name for finding in flat(found) for name in finding.columns}
    sections: dict[str, list[Any]] = {"score": [], "variable": [], "field": []}
    for looked in seen.looks:
        named = {"name": f"Calibration by score, {looked.scope}"} if looked.scope else {}
        sections["score"].append(looked.score.to_dict() | named)
    for group in first.columns:
        made, shown = group.result.to_dict(), group.result.tally
        cells = shown.cells  # the levels of a field, or the ranges that are shown of a variable
        if 2 <= cells.count <= MOST_GROUPS:
            part = replace(group.parts[0], cells=cells)
            names = [part.level(cell, cell) for cell in range(part.count)]
            made["extra"]["differences"] = differences(CellSums.of(shown), names, first.rows)
        sections[group.kind].append(made)
    for result in first.further:
        sections.setdefault(result.kind, []).append(result.to_dict())
    return {
        "schema": SCHEMA,
        "version": miscal.__version__,
        "versions": {"python": platform.python_version(), "numpy": np.__version__},
        "data": {"weight": float(first.score.table["weight"].sum()), **data},
        "settings": settings,
        "score": score_numbers(first.score),
        "findings": [finding.to_dict() for finding in found],
        "unlisted": sum(looked.left for looked in seen.looks),
        "notes": [*seen.notes, *notes_of(first), *(str(one) for one in found if one.decided)],
        **_quiet(first, guilty, seen.aside),
        "left_out": _left_out(first, seen.aside),
        "sections": sections,
    }


def _quiet(looked: TargetSearch, guilty: set[str], aside: list[Plain]) -> dict[str, list[Plain]]:
    """Columns in which nothing was found: clean, or so small that not even the largest gap would have been."""
    mean, rows, noise = (
        looked.score.predicted,
        int(looked.score.table["rows"].sum()),
        looked.rows.noise,
    )
    tests, most = looked.tests, max(mean, 1.0 - mean) if noise.binary else math.inf
    columns = tests.families["columns"].size * tests.factor
    clean, blind = [], []
    for group in looked.columns:
        column, result = group.column, group.result
        if column.name in guilty or min(group.suspect, result.p_value) * len(looked.columns) <= tests.level:
            continue
        with ignore_warnings():
            error = np.sqrt(looked.rows.variance(group.raw)) / group.raw.weight * noise.units.scale
        tested = error if group.ordered else error[~np.isnan(group.p_value)]
        gaps = minimum_detectable_gap(tested, columns * group.searched, tests.level)
        detectable = float(np.nanmin(gaps)) if gaps.size else math.nan  # the smallest of any cell
        if not detectable < most:
            blind.append(left_out(column.name, rows, BLIND))
            continue
        told = {name: getattr(result, name) for name in ("value", "noise_floor", "p_value")}
        least = {} if result.p_resolution is None else {"p_least": result.p_resolution}
        along = ALONG if group.suspect <= tests.level else ""
        note = ALONE if result.p_value <= tests.level else along
        clean.append({"where": column.name, **told, "detectable": detectable, **least, "note": note})
    return {"clean": clean, "too_small": [*aside, *blind, *chain(*map(_too_small, looked.columns))]}


def _left_out(looked: TargetSearch, aside: list[Plain]) -> list[Plain]:
    """Everything that was not looked at, by its kind and reason, as the document has it; columns set aside first."""
    every: dict[tuple[str, str, str], list[str]] = {}
    for entry in aside:
        every.setdefault(("columns", entry["reason"], asked_for(entry["reason"])), []).append(entry["where"])
    return [
        {"what": what, "count": len(where), "reason": reason, "ask": ask, "where": where}
        for (what, reason, ask), where in [*every.items(), *looked.left_out.items()]
    ]


def differences(raw: CellSums, names: Sequence[str], rows: SearchContext) -> Plain:
    """Each group against the rest of its column: how much larger its gap is, with intervals that hold all at once.

    Worst first, by what the difference is at least. `note` says of a group whether that is beyond noise, or whether it
    is too small to be judged by an interval.
    """
    scale = rows.noise.units.scale
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
    events = effective_events(raw) if rows.noise.binary else 0.5 * weight**2 / raw.weight2
    beyond = np.where(least > 0, "beyond noise", "")
    columns = {
        "level": np.array(names, object),
        "rows": raw.rows,
        "gap": gap,
        "gap_rest": others,
        "difference": difference,
        "low": low,
        "high": high,
        "note": np.where(events < LEAST_GROUP, SMALL, beyond),
    }
    kept = kept[np.argsort(-least[kept], kind="stable")]
    return {name: values[kept].tolist() for name, values in columns.items()}


def _too_small(group: CellGrid) -> list[Plain]:
    """Levels of a column that no outcome could have made significant."""
    if group.ordered:
        return []
    cells = np.flatnonzero(np.isnan(group.p_value) & (group.raw.rows > 0))
    rows = group.raw.rows[cells].astype(int)
    if cells.size > MOST_LISTED:
        where = f"{group.parts[0].name}: {cells.size:,} of {group.count:,} levels"
        return [left_out(where, int(rows.sum()), "each has too few rows or events to be judged alone")]
    reason = "too few rows or events for any outcome to be beyond noise"
    return [
        left_out(group.words(group.box(cell)), many, reason)
        for cell, many in zip(cells.tolist(), rows.tolist(), strict=True)
    ]


def score_numbers(score: ScoreResult) -> Plain:
    """The numbers by score, and under `details` what is known of their noise."""
    cells = score.tally
    total, scale = cells.weight.sum(), 1.0 if score.unit_scale is None else score.unit_scale
    noise = cells.residual2 if score.settings.get("null") == "residual" else cells.variance
    gap, error = (float(each / total) * scale for each in (cells.events_off.sum(), np.sqrt(noise.sum())))
    fitted = {name: fit for name in RIGHT if (fit := getattr(score, name)) is not None}
    made = {
        "expected": score.value,
        "kuiper": score.kuiper.value,
        "ratio": math.nan,  # of amounts below 0 there is none
        **{name: each.value for name, each in fitted.items()},
        "predicted": score.predicted,
        "observed": score.observed,
        "gap": score.predicted - score.observed,
    }
    details = {
        "expected": {
            "noise_floor": score.noise_floor,
            "p_value": score.p_value,
            "interval": list(score.interval),
        },
        "kuiper": score.kuiper_noise(),
        "gap": {"interval": normal_interval(gap, error), "error": error},
    }
    for name, each in fitted.items():
        p_value = wald_p(each.value, each.interval, RIGHT[name], name == "ratio")
        details[name] = {"interval": list(each.interval), "p_value": p_value}
    if score.brier is not None and score.log_loss is not None and score.smooth is not None:  # of events
        losses = {"brier": score.brier.score, "log_loss": score.log_loss.score}
        made |= {"smooth": score.smooth.value, **losses, "auc": score.auc}
        known = {} if score.certain is None else {"rows": sum(_wrong(score).values())}
        infinite = {"infinite": True, **known} if math.isinf(score.log_loss.score) else {}
        details |= {"smooth": score.smooth.noise(), "log_loss": infinite}
    return {**made, "details": details}


def _wrong(score: ScoreResult) -> dict[str, int]:
    """Rows said to be certain that went the other way."""
    certain = score.certain
    if certain is None:
        return {}
    wrong = {"said 0% happened": certain.zero_happened, "said 100% did not happen": certain.one_did_not}
    return {words: rows for words, rows in wrong.items() if rows}


def _certain_notes(looked: TargetSearch) -> list[str]:
    """What rows said to be certain do to the numbers: an infinite log loss, and a slope that leaves them out."""
    score, made = looked.score, []
    wrong = _wrong(score)
    if wrong:
        rows = ", ".join(f"{plural(many, 'row')} {words}" for words, many in wrong.items())
        step = rounding_step(looked.rows.raw.predicted)
        beyond = any(place.adjusted <= looked.tests.level for place in looked.extremes if place.searched == 1)
        within = f" The scores are rounded to {step:g}, which can explain it." if step and not beyond else ""
        made.append(f"{INFINITE}: {rows}.{within}")
    left = 0 if score.certain is None else score.certain.without_slope
    if left and not math.isnan(score.slope.value):
        are = plural(left, "row said 0% or 100% is", "rows said 0% or 100% are")
        made.append(f"{are} left out of slope and intercept: certainties have no log-odds.")
    return made


def notes_of(looked: TargetSearch) -> list[str]:
    """What is odd about the table: scores that run the wrong way, columns that give the outcome away, days that err."""
    noise = looked.rows.noise
    made = []
    if noise.binary:
        made = _certain_notes(looked)
        if looked.score.slope.high < 0.0:  # most often a column of the other class
            made.append(
                "The higher the score, the fewer events: the slope is below 0 beyond noise. Is this the probability of "
                "the other class, or is the event the other label?"
            )
    # The row that makes most of the noise of the whole table, where one does: an amount of a million.
    else:
        weight, *means = looked.rows.largest([looked.whole])[0]
        if (weight * np.diff(means)[0]) ** 2 > ONE_ROW * looked.whole.raw.residual2[0]:
            said, was = (number(noise.units.back(mean)) for mean in means)
            made.append(
                f"One row ({said} predicted, {was} happened) makes more than half of the noise of the whole table: no "
                "place that holds it can be judged, and what else is off there cannot be seen. Cap it, or leave it out."
            )
    for group in looked.columns:
        column, result = group.column, group.result
        rows = result.table["rows"]
        filled = rows > 0
        # Each level or range has one outcome only.
        alone = {*result.table["observed"][filled]} == {0.0, 1.0}
        if noise.binary and alone and rows.sum() >= LEAST_EACH * filled.sum():
            made.append(
                f"{column.name} {GIVEN_AWAY}: every value of it goes with one outcome only. No model can "
                "know it; if it was written after the outcome, leave it out, and if it is a sampling weight, say so."
            )
        if column.type.calendar:
            made += _dated(looked, column)
    return made


def _dated(looked: TargetSearch, column: Column) -> list[str]:
    """Dates that run over more than a hundred years, most often as some stand for none; and days that err together."""
    dated, made = ~np.isnan(column.values), []
    known = column.values[dated]
    if known.size and known.max() - known.min() > FAR_OFF:
        first, last = (str(np.datetime64(int(end), "D")) for end in (known.min(), known.max()))
        made.append(
            f"{column.name} runs from {first} to {last}: periods without a row are joined to the one before. If "
            "one of these dates stands for no date, make it missing."
        )
    days, code = np.unique(np.floor(known), return_inverse=True)
    enough = days.size >= LEAST_DAYS and known.size >= LEAST_ROWS * days.size
    rows = looked.rows.beyond
    if not enough or rows.cluster is not None or len(column) != rows.rows:
        return made
    compared = rows.take(dated)
    daily = tally(compared, LevelPooling(code, Numbered(days.size)))
    off, weight = daily.events_off, daily.weight
    off = off - weight * (off.sum() / weight.sum())
    noise = np.sum(daily.variance if compared.binary else daily.residual2)  # as if rows were independent
    times = off @ off / max(noise, 1e-300)
    if times >= TOGETHER:
        made.append(
            f"Rows of one day of {column.name} err together: daily sums vary {times:.0f} times as much as those of "
            "independent rows. Beyond noise means beyond the noise of these rows; for what will hold on other "
            f"days, give --cluster {column.name}."
        )
    return made
