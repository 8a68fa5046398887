"""Text that stands for numbers or dates: percentages, decimal commas, days in the usual spellings."""

import re
from contextlib import suppress
from datetime import datetime
from typing import Any

from miscal.codes.data import ColumnKind
from miscal.data.arrays import settled
from miscal.data.errors import refusing
from miscal.data.libraries import pa, pc

PERCENT, COMMA = "percentages", "numbers with a decimal comma"
_FORMS = {
    PERCENT: re.compile(r"\s*[-+]?\d+([.,]\d+)?\s*%\s*"),
    COMMA: re.compile(r"\s*[-+]?\d+(,\d+)?([eE][-+]?\d+)?\s*"),
}
_NUMBER = re.compile(r"\s*[-+]?\d+\s*")
DATES = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y",
         "%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S")  # fmt: skip
MOST = 5000  # levels that are tried


def form_of(levels: list[str]) -> str | None:
    """What all of some texts stand for: percentages, numbers with a decimal comma, or a form of dates; else None.

    Dates that could be read day first or month first are no dates: nobody can tell.

    Examples
    --------
    >>> form_of(["12.5%", "7 %"]), form_of(["0,25", "1"]), form_of(["31.12.2024"]), form_of(["a", "1"])
    ('percentages', 'numbers with a decimal comma', '%d.%m.%Y', None)
    >>> form_of(["03/04/2024"]), form_of(["03/14/2024"])
    (None, '%m/%d/%Y')
    """
    some = levels[:MOST]
    if not some or not any(sign.isdigit() for sign in some[0]) or all(map(_NUMBER.fullmatch, some)):
        return None
    fitting = [form for form in (*_FORMS, *DATES) if _fit(some, form)]
    return fitting[0] if len(fitting) == 1 else None


def _value(text: str, form: str) -> Any:
    """The number or the moment that a text stands for; ValueError where it does not have the form."""
    if form not in _FORMS:
        return datetime.strptime(text.strip(), form)  # noqa: DTZ007
    if not _FORMS[form].fullmatch(text):
        raise ValueError(f"'{text}'")
    return float(text.replace("%", "").replace(",", ".")) / (100.0 if form == PERCENT else 1.0)


def _fit(texts: list[str], form: str) -> bool:
    with suppress(ValueError):
        return all(_value(text, form) is not None for text in texts)
    return False


def kind_of_form(form: str) -> ColumnKind:
    """The kind of a column whose text has a form."""
    return ColumnKind.DATE if form in DATES else ColumnKind.NUMERIC


def in_words(form: str) -> str:
    """A form as a note says it."""
    return "dates" if form in DATES else form


def parsed(vector: Any, form: str, where: str) -> Any:
    """Text, of which the first rows have a form, as an Arrow array of numbers or of moments."""
    encoded = settled(vector, where).dictionary_encode()
    what = f"must hold {in_words(form)}, as its first rows do"
    levels = encoded.dictionary.to_pylist()
    with refusing(what, where, hint="make all values alike, or leave the column out"):
        values = [_value(level, form) if level and level.strip() else None for level in levels]
    return pc.take(pa.array(values, pa.timestamp("us") if form in DATES else pa.float64()), encoded.indices)
