"""Days since 1970-01-01 as dates, dates as days, and the edges of days, weeks, months, quarters and years."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from miscal.data.arrays import Array

MICROSECONDS_PER_DAY = 86_400_000_000
EPOCH, DAY = datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=1)
MAX_PERIODS = 1_200  # a hundred years of months
MONTHS_OF = {"month": 1, "quarter": 3, "year": 12}
NUMPY_UNITS = {"day": "D", "week": "W", "month": "M", "quarter": "3M", "year": "Y"}


def moment_of(days: float) -> str | None:
    """A number of days since 1970-01-01 as an ISO date, with its time where it has one; None beyond the calendar."""
    try:
        moment = EPOCH + timedelta(microseconds=round(days * MICROSECONDS_PER_DAY))
    except (OverflowError, ValueError):
        return None
    return moment.replace(tzinfo=None).isoformat().removesuffix("T00:00:00")


def moment_text(days: float) -> str:
    """As `moment_of`; beyond the calendar the number itself."""
    return moment_of(days) or shortest_text(days)


def shortest_text(number: float) -> str:
    """The shortest text from which `number_of` reads exactly this number."""
    return repr(float(number) + 0.0).removesuffix(".0")


def number_of(text: str) -> float | None:
    """A number, or a date in days since 1970-01-01; None where the text is neither."""
    with suppress(ValueError):
        return float(text)
    with suppress(ValueError):
        moment = datetime.fromisoformat(text)
        days, rest = divmod((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH, DAY)
        return days + rest / DAY
    return None


def day_text(days: float) -> str:
    """The date of a day; an edge that stands just before the first moment of a day is that day.

    >>> day_text(31.0), day_text(np.nextafter(31.0, 0.0))
    ('1970-02-01', '1970-02-01')
    """
    return str(np.datetime64(int(np.floor(days + 1e-6)), "D"))


def monday(day: Any) -> Any:
    """The Monday on which the week of a day began; day 0, the first of 1970, was a Thursday."""
    return day - (day + 3) % 7


def calendar_edges(days: Array, every: str, max_periods: int = MAX_PERIODS) -> Array:
    """Edges of the days, weeks (from Monday), months, quarters or years that hold some days.

    Ranges are closed on the right, so that an edge stands just before the first moment of its period. Where there are
    more than `max_periods`, those without a day are joined to the one before (a date of 9999 gives no 96,000 months),
    then neighbours.
    """
    unit, shift = f"M8[{NUMPY_UNITS[every]}]", 3 * (every == "week")  # numpy's weeks begin on a Thursday
    place = (np.floor(days).astype(np.int64) + shift).astype("M8[D]").astype(unit).astype(np.int64)
    first, last = place.min(), place.max()
    starts = np.arange(first, last + 1) if last - first < max_periods else np.unique(place)
    starts = np.append(starts[:: -(-starts.size // max_periods)], last + 1)
    days = starts.astype(unit).astype("M8[D]").astype(np.int64) - shift
    return np.nextafter(days.astype(np.float64), -np.inf)
