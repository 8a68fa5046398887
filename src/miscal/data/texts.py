"""Text that stands for numbers or dates: percentages, decimal commas, days in the usual spellings."""

from __future__ import annotations

import re
from typing import Any

from miscal.data.errors import refusal

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
    if not some or not any(sign.isdigit() for sign in some[0]):
        return None
    for form, pattern in _FORMS.items():
        if all(map(pattern.fullmatch, some)) and not all(map(_NUMBER.fullmatch, some)):
            return form
    fitting = [form for form in DATES if _are_dates(some, form)]
    return fitting[0] if len(fitting) == 1 else None


def _are_dates(texts: list[str], form: str) -> bool:
    from datetime import datetime

    try:
        for text in texts:
            datetime.strptime(text.strip(), form)  # noqa: DTZ007
    except ValueError:
        return False
    return True


def in_words(form: str) -> str:
    """A form as a note says it."""
    return "dates" if "%" in form else form


def parsed(vector: Any, form: str, where: str) -> Any:
    """Text, of which the first rows have a form, as an Arrow array of numbers or of moments."""
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = vector if pa.types.is_dictionary(vector.type) else vector.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # no chunk at all, or several dictionaries
        encoded = pa.concat_arrays(encoded.unify_dictionaries().chunks)
    levels = encoded.dictionary.to_pylist()
    known = [level for level in levels if level is not None and level.strip()]
    wrong = next((level for level in known if not _fits(level, form)), None)
    if wrong is not None:
        hint = "make all values alike, or leave the column out"
        raise refusal(f"must hold {in_words(form)}, as its first rows do", where=where, got=f"'{wrong}'", hint=hint)
    made = _moments(levels, form) if "%" in form else _numbers(levels, form)
    return pc.take(made, encoded.indices)


def _fits(text: str, form: str) -> bool:
    return _are_dates([text], form) if "%" in form else _FORMS[form].fullmatch(text) is not None


def _numbers(levels: list[str | None], form: str) -> Any:
    import pyarrow as pa

    scale = 100.0 if form == PERCENT else 1.0
    plain = [None if not each or not each.strip() else each.replace("%", "").replace(",", ".") for each in levels]
    return pa.array([None if each is None else float(each) / scale for each in plain], pa.float64())


def _moments(levels: list[str | None], form: str) -> Any:
    from datetime import datetime

    import pyarrow as pa

    known = [each.strip() if each and each.strip() else None for each in levels]
    moments = [None if each is None else datetime.strptime(each, form) for each in known]  # noqa: DTZ007
    return pa.array(moments, pa.timestamp("us"))
