"""What differs by the type of a column."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

MICROSECONDS_PER_DAY = 86_400_000_000
EPOCH, DAY = datetime(1970, 1, 1, tzinfo=UTC), timedelta(days=1)


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
