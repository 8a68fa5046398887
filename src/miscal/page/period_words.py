"""Periods and what changed between them, in words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from miscal.page import words
from miscal.page.entries import Entry
from miscal.page.reading import floats
from miscal.page.words import finite

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
          "December")  # fmt: skip
KIND = "period"  # of the section in the document
CHANGED = ("worse", "better", "moved")
_PERIOD = re.compile(r"(\d{4})-(0[1-9]|1[0-2])(?:-(\d\d))?", re.ASCII)
_BECAME = {"worse": "got worse", "better": "got better", "moved": "changed its direction"}


def period_words(label: object) -> str:
    """A period as people write it; any other text stays as it is.

    >>> period_words("2013-07"), period_words("2013-07-01")
    ('July 2013', '1 July 2013')
    """
    found = _PERIOD.fullmatch(str(label))
    if found is None:
        return str(label)
    year, month, day = found.groups()
    return f"{f'{int(day)} ' if day else ''}{MONTHS[int(month) - 1]} {year}"


def from_to(before: object, after: object) -> str:
    """The two periods of a step, the year once where it is the same.

    >>> from_to("2013-07", "2013-08"), from_to("2013-12-30", "2014-01-06")
    ('From July to August 2013', 'From the week of 30 December 2013 to that of 6 January 2014')
    """
    one, two = period_words(before), period_words(after)
    if one[-5:] == two[-5:] and one[-5:-4] == " ":
        one = one[:-5]
    week = len(str(after).split("-")) == 3
    return f"From the week of {one} to that of {two}" if week else f"From {one} to {two}"


def step_words(step: Mapping[str, Any], every: str) -> str:
    """One sentence on a period against the one before.

    step : before, label, verdict, gap_before, gap, change, change_low, change_high, the adjusted p-values
    """
    verdict = str(step["verdict"])
    if verdict in ("first", "no date"):
        return f"The first {every}: there is none before it." if verdict == "first" else "Rows without a date."
    start = from_to(step["before"], step["label"])
    if verdict == "too small":
        return f"{start}: too few rows or events to compare."
    if verdict == "same":
        return f"{start} no change beyond noise ({_p(step['change_p_adjusted'])})."
    what = f"the {'error' if verdict == 'moved' else 'model'} {_BECAME[verdict]}"
    p = step["change_p_adjusted" if verdict == "moved" else "size_p_adjusted"]
    names = ("gap_before", "gap", "change", "change_low", "change_high")
    before, after, change, low, high = signed_points([finite(step[name]) for name in names])
    return (
        f"{start} {what}: {words.percent(step['predicted_before'])} predicted and "
        f"{words.percent(step['observed_before'])} happened before, {words.percent(step['predicted'])} predicted and "
        f"{words.percent(step['observed'])} happened after. The gap went from {before} to "
        f"{after} points, by {change} ({low} to {high}); {_p(p)}."
    )


def _p(value: object) -> str:
    return words.p_value(value, "adjusted p")


def signed_points(gaps: list[float]) -> list[str]:
    """Gaps in percentage points with the same decimals: two digits of the largest, and one decimal at least.

    >>> signed_points([0.121, -0.00004, 0.05]), signed_points([0.0012, -0.0004])
    (['+12.1', '0.0', '+5.0'], ['+0.12', '−0.04'])
    """
    largest = max((100 * abs(gap) for gap in gaps if math.isfinite(gap)), default=0.0)
    places = max(1, 1 - math.floor(math.log10(largest))) if largest > 0 else 1
    made = [f"{100 * gap:+.{places}f}" if math.isfinite(gap) else words.NOTHING for gap in gaps]
    return [text[1:] if text.strip("+-0.") == "" else text.replace("-", words.MINUS) for text in made]


def periods_said(periods: Entry) -> str:
    """How many periods are off beyond noise, and how many steps changed: the sentence that a section opens with."""
    level = finite(periods.settings.get("level"))
    level = 0.05 if math.isnan(level) else level
    verdicts = periods.table["verdict"]
    off = int((floats(periods.table["p_adjusted"]) <= level).sum())
    dated = len(verdicts) - verdicts.count("no date")
    text = f"{words.plural(dated, periods.every)}, {off} of them off beyond noise."
    counts = {verdict: verdicts.count(verdict) for verdict in CHANGED}
    steps = sum(counts.values()) + verdicts.count("same")
    if not steps:
        return f"{text} No two of them could be compared."
    became = ", ".join(f"{many} {_BECAME[verdict]}" for verdict, many in counts.items() if many)
    return f"{text} Of {words.plural(steps, 'step')} from one to the next: {became or 'none changed beyond noise'}."


def changed_words(periods: Entry, most: int | None = None) -> list[str]:
    """The sentence of every step that changed beyond noise, in time; of the `most` largest where that is given."""
    columns = zip(*(periods.table[name] for name in ("verdict", "change", "words")), strict=True)
    found = [(abs(finite(change)), str(text)) for verdict, change, text in columns if verdict in CHANGED and text]
    least = sorted((size for size, _ in found), reverse=True)[:most][-1:]
    return [text for size, text in found if size >= least[0]][:most]
