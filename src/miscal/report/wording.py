"""Numbers and short sentences, written the same way in report, Markdown and terminal.

Units: a rate is written in percent (`percent`), a difference of rates in percentage points, "pp" (`points`, `size`,
`error`), a metric that has no unit as a number (`number`). Inside `showing("count")` or `showing("real")` rates and
differences are means, and are written as the numbers they are. A function here takes numbers and returns text; it
decides nothing, and no caller compares what it returns.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

MINUS = "\N{MINUS SIGN}"
NOTHING = "\N{EM DASH}"
MONTHS = "January February March April May June July August September October November December"
#: What became of a segment after recalibration, by verdict: unresolved ones first.
LEFT_FIRST = ("new", "larger", "remaining", "smaller", "gone")
RESOLUTION = {
    "new": "new",
    "larger": "worsened",
    "remaining": "unchanged",
    "smaller": "improved",
    "gone": "resolved",
}
CHANGED = ("worse", "better", "moved")
_PERIOD = re.compile(r"(\d{4})-(0[1-9]|1[0-2])(?:-(\d\d))?", re.ASCII)
BECAME = {"worse": "got worse", "better": "got better", "moved": "changed direction"}


def finite(value: object) -> float:
    """Read a number that may be missing; what is not a finite number is NaN.

    Examples
    --------
    >>> finite(None), finite("x"), finite(2)
    (nan, nan, 2.0)
    """
    try:
        known = not isinstance(value, (str, bytes)) and math.isfinite(value)  # type: ignore[arg-type]
        return float(value) if known else math.nan  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _written(
    value: object, digits: int, *, times: int = 1, unit: str = "", sign: bool = False, most: int = 8
) -> str:
    """Write a number with so many significant digits and at most so many decimals; what rounds to 0 has no sign."""
    number = finite(times * finite(value))  # per cent of what is nearly too large
    if math.isnan(number):
        return NOTHING
    size = abs(number)
    places = min(max(0, digits - 1 - math.floor(math.log10(size))), most) if size else 0
    text = f"{size:.{digits - 1}g}" if 0 < size < 1e-5 and most and not unit else f"{size:,.{places}f}"
    before = "" if not text.strip("0.") else MINUS if number < 0 else "+" if sign else ""
    return f"{before}{text}{unit}"


def number(value: object, digits: int = 3, *, sign: bool = False) -> str:
    """Write a number with about three significant digits.

    Examples
    --------
    >>> number(0.012345), number(-1234.5), number(12345.6), number(0.0), number(None)
    ('0.0123', '−1,234', '12,346', '0', '—')
    """
    return "infinite" if value == math.inf else _written(value, digits, sign=sign)


_MEANS: ContextVar[bool] = ContextVar("means", default=False)


@contextmanager
def showing(response: str) -> Iterator[None]:
    """Write rates and gaps as the numbers they are while means of amounts or counts are shown.

    Examples
    --------
    >>> with showing("count"):
    ...     percent(0.2412), points(-0.0004)
    ('0.241', '−0.00040')
    """
    token = _MEANS.set(response in ("real", "count"))
    try:
        yield
    finally:
        _MEANS.reset(token)


def means() -> bool:
    """Whether what is shown are means of amounts or counts, not rates of an event."""
    return _MEANS.get()


def gap_unit() -> str:
    """The unit of a difference of rates, to stand after the label of an axis; nothing where means are shown."""
    return "" if means() else " (pp)"


def counted(off: float) -> str:
    """The size of a sum of events: whole, unless it is small."""
    return count(abs(off)) if abs(off) >= 10 else number(abs(off), 2)


def percent(value: object) -> str:
    """Write a rate as a percentage, and a mean as the number it is (see `showing`).

    Examples
    --------
    >>> percent(0.2412), percent(0.00031), percent(1.0), percent(0.0)
    ('24.1%', '0.031%', '100%', '0%')
    """
    if means():
        return _written(value, 3)
    return _written(value, 3 - (abs(finite(value)) < 0.01), times=100, unit="%")


def points(value: object) -> str:
    """Write a signed gap between two rates in percentage points.

    Examples
    --------
    >>> points(0.0281), points(-0.0004)
    ('+2.8 pp', '−0.040 pp')
    """
    if means():
        return _written(value, 2, sign=True)
    return _written(value, 2, times=100, unit=" pp", sign=True, most=6)


def size(value: object) -> str:
    """Write the size of a gap without its sign, in percentage points.

    Examples
    --------
    >>> size(0.0281), size(-0.0004)
    ('2.8 pp', '0.040 pp')
    """
    return points(abs(finite(value))).removeprefix("+")


def error(value: object) -> str:
    """Write a calibration error, an average or range of differences of rates, in percentage points.

    Examples
    --------
    >>> error(0.0318), error(0.00029)
    ('3.18 pp', '0.029 pp')
    """
    if means():
        return _written(value, 3)
    return _written(value, 3 - (abs(finite(value)) < 0.01), times=100, unit=" pp")


def count(value: object) -> str:
    """Write a count with thousands separators; a fractional one (weights) is rounded.

    Examples
    --------
    >>> count(12345), count(64.6)
    ('12,345', '65')
    """
    return _written(value, 1, most=0)


def rows(value: object) -> str:
    """Write a number of rows with its noun.

    Examples
    --------
    >>> rows(1), rows(12345.0)
    ('1 row', '12,345 rows')
    """
    written = count(value)
    return f"{written} row{'s' * (written != '1')}"


def p_value(value: object, name: str = "p", *, bound: bool = False) -> str:
    """Write a p-value the way a statistician would; as a bound where it is the end of its scale.

    Examples
    --------
    >>> p_value(0.034), p_value(1e-9), p_value(None), p_value(0.006, bound=True)
    ('p = 0.034', 'p ≤ 0.001', 'no p-value', 'p ≤ 0.006')
    """
    text = p_cell(value, value if bound else None)
    if text == NOTHING:
        return "no p-value"
    return f"{name} {text}" if text.startswith("≤") else f"{name} = {text}"


def p_cell(value: object, least: object = None) -> str:
    """The p-value alone, for a table's cell; `least` is the smallest one that its simulations can give.

    Examples
    --------
    >>> p_cell(0.0), p_cell(0.5), p_cell(0.005, 0.005)
    ('≤ 0.001', '0.50', '≤ 0.005')
    """
    p = finite(value)
    if math.isnan(p):
        return NOTHING
    if p <= 0.001:  # also the end of the scale of 999 simulations, where p can only be bounded
        return "≤ 0.001"
    text = f"{p:.3f}" if p < 0.0995 else f"{p:.2f}"
    return f"≤ {text}" if p <= finite(least) else text


def interval(low: object, high: object, write: Callable[[object], str] = number) -> str:
    """Write an interval as 'low to high', which no minus sign can garble.

    Examples
    --------
    >>> interval(-0.1, 0.25), interval(None, 1)
    ('−0.100 to 0.250', '')
    """
    if math.isnan(finite(low) + finite(high)):
        return ""
    return f"{write(low)} to {write(high)}"


def plural(number: int, noun: str, several: str = "") -> str:
    """Write a count with its noun.

    Examples
    --------
    >>> plural(1, "segment"), plural(1200, "segment")
    ('1 segment', '1,200 segments')
    """
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"


def events_off(value: object, noun: str = "") -> str:
    """Write the excess of predicted over observed events, or amounts in total, and its direction.

    Examples
    --------
    >>> events_off(65.3), events_off(-312.2, "claims")
    ('65 more predicted than observed', '312 more claims observed than predicted')
    """
    off = finite(value)
    if math.isnan(off):
        return NOTHING
    what = f"{counted(off)} more {noun}".rstrip()
    return f"{what} {'predicted than observed' if off >= 0 else 'observed than predicted'}"


def edge(value: float) -> str:
    """Write an edge of a range.

    Examples
    --------
    >>> edge(0.123456), edge(12345.6), edge(-5e-324)
    ('0.1235', '12,346', '0')
    """
    if abs(value) < 1e-300:  # moved off 0 by the least possible amount, so that a tie at 0 has its own range
        return "0"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def span(low: float, high: float, write: Callable[[float], str] = edge) -> str:
    """Write a range; an end that is NaN is open.

    Examples
    --------
    >>> span(0.0, 3.0), span(math.nan, 3.0), span(3.0, math.nan), span(7.0, 7.0)
    ('0 to 3', 'up to 3', 'above 3', '7')
    """
    if math.isnan(low) and math.isnan(high):
        return "missing"
    if math.isnan(low):
        return f"up to {write(high)}"
    if math.isnan(high):
        return f"above {write(low)}"
    first, last = write(low), write(high)
    return last if low >= high or first == last else f"{first} to {last}"


def listed(names: Sequence[str], most: int) -> str:
    """The first of some names, and how many more there are.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def not_compared(columns: Sequence[str]) -> str:
    """Name columns that a comparison had to leave out.

    >>> not_compared(["age", "day"])
    'Not compared, because no range or category has enough rows in both audits: age, day.'
    """
    return f"Not compared, because no range or category has enough rows in both audits: {listed(columns, 8)}."


def became(verdicts: Sequence[str]) -> str:
    """Count what became of the segments that were miscalibrated before recalibration, and those that are new.

    >>> became(["gone", "new", "gone"])
    'Of 2 miscalibrated segments: 2 resolved; 1 new.'
    >>> became([])
    'No segment was significantly miscalibrated before; 0 new.'
    """
    counts = {verdict: verdicts.count(verdict) for verdict in reversed(LEFT_FIRST)}
    n_new = counts.pop("new")
    resolutions = ", ".join(f"{count} {RESOLUTION[verdict]}" for verdict, count in counts.items() if count)
    before = f"Of {plural(sum(counts.values()), 'miscalibrated segment')}: {resolutions}"
    return f"{before if resolutions else 'No segment was significantly miscalibrated before'}; {n_new} new."


def period_words(label: object) -> str:
    """A period as people write it; any other text stays as it is.

    >>> period_words("2013-07"), period_words("2013-07-01")
    ('July 2013', '1 July 2013')
    """
    match = _PERIOD.fullmatch(str(label))
    if match is None:
        return str(label)
    year, month, day = match.groups()
    return f"{f'{int(day)} ' if day else ''}{MONTHS.split()[int(month) - 1]} {year}"


def from_to(before: object, after: object) -> str:
    """The two periods of a step, the year once where it is the same.

    >>> from_to("2013-07", "2013-08"), from_to("2013-12-30", "2014-01-06")
    ('From July to August 2013', 'From the week of 30 December 2013 to that of 6 January 2014')
    """
    first, second = period_words(before), period_words(after)
    if first[-5:] == second[-5:] and first[-5:-4] == " ":
        first = first[:-5]
    is_week = len(str(after).split("-")) == 3
    return f"From the week of {first} to that of {second}" if is_week else f"From {first} to {second}"


def step_words(step: Mapping[str, Any], every: str) -> str:
    """One sentence on a period against the one before.

    step : before, label, verdict, gap_before, gap, change, change_low, change_high, the adjusted p-values
    """
    verdict = str(step["verdict"])
    if verdict in ("first", "no date"):
        return (
            f"The first {every}: nothing to compare with." if verdict == "first" else "Rows without a date."
        )
    start = from_to(step["before"], step["label"])
    if verdict == "too small":
        return f"{start}: too few rows or events to compare."
    if verdict == "same":
        return f"{start}: no significant change ({p_value(step['change_p_adjusted'], 'adjusted p')})."
    what = f"the {'error' if verdict == 'moved' else 'model'} {BECAME[verdict]}"
    p = p_value(step["change_p_adjusted" if verdict == "moved" else "size_p_adjusted"], "adjusted p")
    names = ("gap_before", "gap", "change", "change_low", "change_high")
    before, after, change, low, high = signed_points([finite(step[name]) for name in names])
    return (
        f"{start} {what}: {percent(step['predicted_before'])} predicted and "
        f"{percent(step['observed_before'])} observed before, {percent(step['predicted'])} predicted and "
        f"{percent(step['observed'])} observed after. The gap changed by {change}{'' if means() else ' pp'} "
        f"(95% CI {low} to {high}), from {before} to {after}{'' if means() else ' pp'}; {p}."
    )


def signed_points(gaps: list[float]) -> list[str]:
    """Gaps in percentage points with the same decimals: two digits of the largest, and one decimal at least.

    >>> signed_points([0.121, -0.00004, 0.05]), signed_points([0.0012, -0.0004])
    (['+12.1', '0.0', '+5.0'], ['+0.12', '−0.04'])
    """
    times = 1 if means() else 100
    largest = max((times * abs(gap) for gap in gaps if math.isfinite(gap)), default=0.0)
    places = 1
    if largest > 0:
        least = 1 if times > 1 or largest < 10 else 0
        places = max(least, 1 - math.floor(math.log10(largest)))
    texts = [f"{times * gap:+,.{places}f}" if math.isfinite(gap) else NOTHING for gap in gaps]
    return [text[1:] if text.strip("+-0.") == "" else text.replace("-", MINUS) for text in texts]
