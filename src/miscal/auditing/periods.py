"""Calibration by week, month, quarter or year: the gap of each period, and what changed from one to the next.

Days are added up first. Periods are joined from days, and tested by the variance of daily sums where that is larger
than that of independent rows. Dates may be a column of dates, text such as 2024-03, or years as numbers.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miscal.aggregate.in_memory import tally
from miscal.aggregate.requests import LevelCells, RangeCells
from miscal.aggregate.tally import Tally
from miscal.auditing.options import AuditOptions
from miscal.cells.partitions import LevelPooling, Levels, Numbered, Ranges
from miscal.codes.audit import PeriodVerdict
from miscal.codes.data import ColumnKind
from miscal.data.arrays import Plain
from miscal.data.calendar import MONTHS_OF, calendar_edges, monday
from miscal.data.checks import one_of
from miscal.data.columns import Column
from miscal.data.errors import check_named, parameter, refusal
from miscal.data.predictions import Predictions
from miscal.data.target import TargetData
from miscal.metrics.cell_evaluation import CellEvaluation, evaluate_cells, evaluate_tally
from miscal.report.wording import showing, step_words
from miscal.results import CellResult, Table
from miscal.stats.cell_sums import Floats
from miscal.stats.changes import Changes, DayNoise, changes, day_noise, tests_by_days
from miscal.stats.metric_null import seminorm_interval
from miscal.stats.null_model import NullModel, choose_null

MIN_DAYS_FOR_MONTHS = 75  # between the first and the last day; weeks are shown below
# As text: 2024, 2024-03, 2024-Q1, 2024-03-31 with anything of a time after it, 2024/03/31, 20240331.
DATE = re.compile(r"(\d{4})(?:-?Q([1-4])|[-/]?(\d{2})(?:[-/]?(\d{2})(?:[T ].*)?)?)?")
# As a number: 2024, with a month (202403), with a day (20240331).
YEAR = re.compile(r"(1[89]|2[01])\d\d(\d{2}){0,2}")
MAX_DAYS = 40_000  # that are added up one by one
UNITS = {"week": "M8[D]", "month": "M8[M]", "quarter": "M8[Y]", "year": "M8[Y]"}  # as periods are written


def check_every(every: str | None, time: str | None) -> None:
    """Reject an unknown period, and a period without a column of times."""
    if every is not None:
        one_of("every", every, ("week", *MONTHS_OF))
        if time is None:
            raise refusal(
                "needs the column of the time", "'every'", hint=f"add {parameter('time', 'COLUMN')}"
            )


def time_column(predictions: Predictions, time: str) -> Column:
    """The column of the time, as days; text that is a date on every row is read as one."""
    check_named([time], predictions.columns, "the data")
    given = predictions.columns[time]
    days = given.values
    if not given.type.calendar:
        categories = given.as_levels()
        levels = [level if isinstance(level, str) else f"{level:.15g}" for level in categories.levels]
        if not given.nominal and not all(map(YEAR.fullmatch, levels)):
            raise _no_dates(time, "it holds numbers that are not years")
        days = np.append(level_days(levels, time), np.nan)[categories.values]
    if np.isnan(days).all():
        raise _no_dates(time, "all values are missing")
    return Column(time, ColumnKind.DATE, days)


def level_days(levels: Sequence[str], time: str) -> Floats:
    """Days since 1970 of dates written as text; a year, quarter or month is its first day.

    >>> level_days(("1970-01-02", "1970-02", "1970-Q2", "1971", "19700103"), "when").tolist()
    [1.0, 31.0, 90.0, 365.0, 2.0]
    """
    texts = []
    for level in levels:  # the time of the day and its zone are left out; blank text is missing
        text = level.strip()
        match = DATE.fullmatch(text)
        if match:
            year, quarter, month, day = match.groups()
            text = f"{year}-{month or f'{3 * int(quarter or 1) - 2:02d}'}-{day or '01'}"
        elif text:
            raise _no_dates(time, f"it holds {text[:40]!r}")
        texts.append(text or "NaT")
    try:
        days = np.array(texts, "M8[D]")
    except ValueError as error:  # such as the 31st of a short month
        raise _no_dates(time, str(error)) from error
    return np.where(np.isnat(days), np.nan, days.astype(np.int64))


def _no_dates(time: str, got: str) -> Exception:
    return refusal(
        "must be dates or times",
        f"column '{time}' of 'time'",
        got=got,
        hint="give a column of dates, or of text such as 2024-03-31",
    )


def chosen_every(days: Floats, every: str | None) -> str:
    """As asked; else years or quarters where no day is within one, weeks for less than two and a half months, months.

    >>> chosen_every(np.array([0.0, 40.0]), None), chosen_every(np.array([0.0, 400.0]), None)
    ('week', 'month')
    >>> chosen_every(np.array([0.0, 365.0]), None)
    'year'
    """
    if every is not None:
        return every
    known = np.unique(np.floor(days[~np.isnan(days)]))
    day = known.astype(np.int64).astype("M8[D]")
    month = day.astype("M8[M]")
    # First days of months alone.
    if known.size > 1 and np.array_equal(month, day):
        for word in ("year", "quarter"):
            if not (month.astype(np.int64) % MONTHS_OF[word]).any():
                return word
    return "month" if known.max() - known.min() >= MIN_DAYS_FOR_MONTHS else "week"


def period_names(days: Floats, every: str) -> np.ndarray:
    """The year, quarter or month of each day, or the Monday its week began on, as text that sorts in time.

    >>> period_names(np.array([0.0, 4.0, 31.5]), "week").tolist()
    ['1969-12-29', '1970-01-05', '1970-01-26']
    >>> (
    ...     period_names(np.array([0.0, 31.5]), "month").tolist(),
    ...     period_names(np.array([100.0]), "quarter").tolist(),
    ... )
    (['1970-01', '1970-02'], ['1970-Q2'])
    """
    whole = np.floor(days).astype(np.int64)
    start = (monday(whole) if every == "week" else whole).astype("M8[D]").astype(UNITS[every])
    names: np.ndarray = start.astype(str)
    if every == "quarter":
        month = whole.astype("M8[D]").astype("M8[M]").astype(np.int64) % 12
        names = np.char.add(names, np.array(["-Q1", "-Q2", "-Q3", "-Q4"])[month // 3])
    return names


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PeriodResult(CellResult):
    """Calibration by week, month, quarter or year.

    Attributes
    ----------
    column : str
        The column of the time.
    every : str
        The unit of time.
    note : str or None
        What is said of days whose rows are correlated.
    """

    kind: str = "period"
    column: str
    every: str
    note: str | None = None


def by_period(compared: TargetData, column: Column, wanted: AuditOptions) -> PeriodResult:
    """Test every week or month, and every change from one to the next."""
    # Days are few and rows are many: each day is named once; rows without one come last.
    days, day = np.unique(np.floor(column.values), return_inverse=True)
    daily = tally(compared, LevelPooling(day, Numbered(days.size)))
    return _periods(daily, days, column.name, (compared, day), wanted)


def period_cells(predictions: Predictions, time: str, every: str | None) -> RangeCells | LevelCells:
    """What is added up over all rows, so that their periods can be judged: days, or dates written as text."""
    days = time_column(predictions, time).values
    if not predictions.columns[time].type.calendar:
        return LevelCells(time)
    known = days[~np.isnan(days)]
    by_day = known.max() - known.min() <= MAX_DAYS
    return RangeCells(time, calendar_edges(known, "day" if by_day else chosen_every(known, every)))


def periods_of_sums(tally: Tally, time: str, noise: NullModel, wanted: AuditOptions) -> PeriodResult:
    """The periods of a table that is not in memory, from what `period_cells` added up."""
    cells: Any = tally.cells  # a period ends just before the one that follows
    known = cells.edges[1:] if isinstance(cells, Ranges) else level_days(cells.names, time)
    days = np.append(known, [np.nan] * cells.missing)
    return _periods(tally, days, time, noise, wanted)


def _periods(daily: Tally, days: Floats, column: str, rows: Any, wanted: AuditOptions) -> PeriodResult:
    """Join days to periods, and judge these by the noise of days where those vary more than independent rows.

    Of dates that are text each has the day, or only the period: days are told apart where they are more than periods.

    rows : the rows and the day of each; or the noise of the sums, where they are not at hand
    """
    filled, undated = daily.counts > 0, np.isnan(days)
    full = filled & ~undated
    word = chosen_every(days[full], wanted.every)
    names, period = np.unique(period_names(days[full], word), return_inverse=True)
    missing = bool(filled[undated].any())
    groups = np.where(undated & missing, names.size, 0)  # empty ones add nothing to the first
    groups[full] = period
    levels = Levels(tuple(map(str, names)), missing, column)
    judged: Plain = {"level": wanted.level, "random_state": wanted.random_state}
    if isinstance(rows, NullModel):
        found = evaluate_tally(daily.coarsen(groups, levels), rows, **judged)
    else:
        found = evaluate_cells(
            rows[0], LevelPooling(groups[rows[1]], levels), choose_null(rows[0], "bernoulli"), **judged
        )
    clustered = found.rows is not None and found.rows.cluster is not None
    noisy = None if clustered else day_noise(found.null_model.sums(daily).take(full), period)
    times = None if noisy is None else noisy.times(np.bincount(period).astype(np.float64))
    return _result_of(found, column, word, noisy, times, judged)


def _result_of(
    found: CellEvaluation,
    column: str,
    every: str,
    days: DayNoise | None,
    times: Floats | None,
    judged: Mapping[str, Any],
) -> PeriodResult:
    """The record of periods in time.

    days, times : the noise of days, where they vary more than independent rows, and how much wider it makes each period
    """
    names, level, noise = found.tally.cells.names, judged["level"], found.null_model  # type: ignore[union-attr]
    rows, known = found.rows, len(names)
    if rows is not None:  # of the periods that are known
        rows = replace(rows.take(slice(rows.offsets[known])), offsets=rows.offsets[: known + 1])
    sums, how = found.sums.take(slice(known)), replace(found.test_settings, rows=rows)
    stepped = changes(sums, how, level, times, None if days is None else days.freedom).scaled(
        noise.units.scale
    )
    columns = dict(found.columns)
    note = None
    words = ""
    if days is not None and times is not None:
        words = "Judged by the noise of days, of which neighbours vary together. "
        columns |= noise.units.of_cells(tests_by_days(found.sums, times, days.freedom, level))
        typical, whole = np.median(times), found.summary
        note = (
            f"Rows of one day of {column} err together: around the mean of their {every}, sums of a day vary "
            f"{days.first:.1f} times as much as those of independent rows, and sums of a {every} {typical:.1f} times. "
            "Periods and steps are judged by that noise."
        )
        summary = replace(
            whole,
            p_value=float(np.nanmin(columns["p_adjusted"])),
            exceedances=1,
            noise_floor=whole.noise_floor * math.sqrt(typical),
            interval=seminorm_interval(whole.value, whole.quantile * math.sqrt(typical)),
        )
        found = replace(found, summary=summary)
    with showing("" if noise.binary else "real"):
        table = _table(Table(columns), stepped, names, every, level)
    summed = " summed over clusters" if rows is not None and rows.cluster is not None else ""
    words += (
        f"Periods: Holm over {table.rows}. Changes: differences of the gaps of two sets of rows, Student's t over "
        f"residuals{summed}, Holm over {int(np.count_nonzero(~np.isnan(stepped.p_value)))}."
    )
    settings = {"column": column, "every": every, "null": noise.null, **judged}
    common = found.common_fields(f"Calibration by {every}", settings, words=words, table=table)
    return PeriodResult(**common, column=column, every=every, note=note)


def _table(cells: Table, stepped: Changes, names: tuple[str, ...], every: str, level: float) -> Table:
    """One row a period, with what changed since the one before."""
    unknown = ("ratio", "error", "detectable")  # of a period
    made: dict[str, Any] = {name: each for name, each in cells.items() if name not in unknown}
    made["noise"] = 0.5 * (cells["band_high"] - cells["band_low"])
    undated = np.full(cells.rows - len(names), np.nan)
    for word in ("change", "low", "high", "p_value", "p_adjusted", "size_p_adjusted"):
        name = word if word.startswith(("change", "size")) else f"change_{word}"
        made[name] = np.concatenate([getattr(stepped, word), undated])
    made["before"] = [None, *names[:-1], *[None] * undated.size]
    # What became of the error: better and worse are about its size, moved about its sign.
    size = np.abs(cells["gap"])
    cases = {
        PeriodVerdict.NO_DATE: np.arange(size.size) >= len(names),
        PeriodVerdict.FIRST: np.arange(size.size) == 0,
        PeriodVerdict.TOO_SMALL: np.isnan(made["change"]),
        PeriodVerdict.SAME: ~(made["change_p_adjusted"] <= level),
        PeriodVerdict.MOVED: ~(made["size_p_adjusted"] <= level),
        PeriodVerdict.WORSE: size > np.roll(size, 1),
    }
    made["verdict"] = np.select(list(cases.values()), list(cases), PeriodVerdict.BETTER).tolist()
    past = {f"{word}_before": [None, *made[word][:-1]] for word in ("gap", "predicted", "observed")}
    steps = {**made, **past}.items()
    made["words"] = [step_words({name: each[k] for name, each in steps}, every) for k in range(cells.rows)]
    return Table(made)
