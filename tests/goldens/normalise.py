"""The one place that says what of an answer is compared: numbers to the last bit, codes, structure, and no prose.

A redesign changes names and words. What it renames is entered here, so that the frozen files stay as they are:

- `RENAMED_KEYS` : a key as the code now has it -> the key when the answers were frozen
- `RENAMED_VALUES` : a coded string as the code now has it -> the string when the answers were frozen
- `NEW_KEYS` : keys which there were not when the answers were frozen; they are left out

Where a type changes (a `Result` whose `extra` becomes typed fields, a report in place of a dictionary), the function
below that takes it apart is changed, and nothing else. A changed *answer* is never entered here: it is frozen again, in
a commit of its own that says why.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from miscal.results import Result

RENAMED_KEYS: dict[str, str] = {}
RENAMED_VALUES: dict[str, str] = {"too moderate": "too timid"}  # the clinical literature's word
NEW_KEYS: frozenset[str] = frozenset({"coded_notes", "coded_note", "coded_reason", "target_scope"})

# Sentences and words made for a reader: never compared, whatever holds them.
PROSE = frozenset(
    {
        "notes", "reason", "headline", "sentence", "hint", "ask", "line", "noun", "definition_words",
        "no_p_value", "verdict_text", "title", "text", "words",
        "failed",
    }
)  # fmt: skip
# Words if they are one string; in a table, a code a cell ("exact", "too small to judge") or a name a row. The last
# three are settings that are described: columns of neighbourhoods, a spec, subpopulations.
PROSE_ALONE = frozenset({"method", "name", "note", "features", "spec", "subpopulations"})
# What identifies rows in words. A column's own name is kept, other words are dropped: rows and sums identify the
# segment, and of a finding its columns and its condition.
WORDS_OF_ROWS = frozenset({"where", "better", "worse", "new", "gone"})
# Levels of a finding and labels of its cells in words; its condition holds the same in structured form.
WORDS_OF_LEVELS = frozenset({"levels", "label", "level"})
# Cells of a table that are ranges in words.
PROSE_CELLS = frozenset({"worst"})
# Kinds of results whose labels are data (levels, classes, dates, expressions) and no ranges in words.
LABELLED = frozenset({"field", "period", "class", "subpopulation"})
# What depends on the installation and not on the answer.
ELSEWHERE = frozenset({"version", "versions"})

Plain = Any  # dictionaries with text keys, lists, text, whole numbers, truth values, None; numbers are Number
LONGEST, SAMPLED = 40, 12  # entries of a list that is frozen as it is; entries that stand for a longer one
DIGEST = "digest of the bits"
NUMBER = "~"  # before a number's hexadecimal digits, so that no text is taken for one


def plain(value: Any, columns: Collection[str] = ()) -> Plain:
    """An answer as it is frozen and compared.

    Parameters
    ----------
    value : Any
        A document, a result, an array, a record, or any nesting of them.
    columns : collection of str, default=()
        Names of the table's columns, which are kept where other words that identify rows are dropped.
    """
    return _Normaliser(frozenset(columns)).of(value)


def document(audit: Any, columns: Collection[str]) -> Plain:
    """An audit's JSON, as `Audit.to_json` writes it."""
    return plain(audit, columns)


def number(value: float) -> str:
    """A number as text that keeps each bit.

    >>> number(0.1), number(float("nan"))
    ('~0x1.999999999999ap-4', '~nan')
    """
    return NUMBER + float(value).hex()


def shortened(values: list[Plain]) -> Plain:
    """Many numbers as some of them, and a digest of the bits of all.

    >>> shortened([number(n / 3.0) for n in range(200)])["entries"]
    200
    """
    if len(values) <= LONGEST or not all(isinstance(value, str) and value.startswith(NUMBER) for value in values):
        return values
    digest = hashlib.blake2b(" ".join(values).encode(), digest_size=12).hexdigest()
    step = -(-len(values) // SAMPLED)
    return {"entries": len(values), DIGEST: digest, f"every {step}": values[::step]}


class _Normaliser:
    def __init__(self, columns: frozenset[str]) -> None:
        self.columns = columns

    def of(self, value: Any, kind: str = "") -> Plain:
        """Any value; `kind` is that of the result it is part of."""
        if isinstance(value, Result):
            return self.mapping(result_parts(value), kind)
        if isinstance(value, enum.Enum):
            return self.of(value.value, kind)
        if isinstance(value, str):
            return RENAMED_VALUES.get(value, value)
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, float):
            return number(value)
        if isinstance(value, np.generic):
            return self.of(value.item(), kind)
        if isinstance(value, np.ndarray):
            value = value.astype(str) if value.dtype.kind in "Mm" else value
            return self.of(value.tolist(), kind)
        if isinstance(value, Mapping):
            return self.mapping(value, kind)
        if isinstance(value, (list, tuple)):
            return shortened([self.of(item, kind) for item in value])
        if (fields := record_fields(value)) is not None:
            return self.mapping(fields, kind)
        return None  # a private object: a tally, a carrier, a curve that is drawn

    def mapping(self, given: Mapping[Any, Any], kind: str) -> Plain:
        """A dictionary, with its keys as they were and without prose."""
        kind = str(given.get("kind", kind) or kind)
        kept: dict[str, Plain] = {}
        for key, value in given.items():
            old = RENAMED_KEYS.get(str(key), str(key))
            if old in NEW_KEYS or old in PROSE or old in ELSEWHERE:
                continue
            if old in PROSE_ALONE and isinstance(value, str):
                continue
            if old in PROSE_CELLS and is_words(value):
                continue
            if old in WORDS_OF_LEVELS and not self.keeps_levels(old, given, kind):
                continue
            if old in WORDS_OF_ROWS:
                kept |= self.rows_in_words(old, value)
            elif old == "parent" and "explained" in given:  # a finding's: it stands under the one that explains it
                kept[old] = value is not None
            else:
                kept[old] = self.of(value, kind)
        return kept

    def keeps_levels(self, key: str, given: Mapping[Any, Any], kind: str) -> bool:
        """Whether levels or labels are data and not words."""
        if isinstance(given.get(key), (bool, int, float)):
            return True  # how many, or a level of significance
        if key == "levels":  # of a condition they are data, of a finding words
            return "explained" not in given
        return kind in LABELLED or (key == "level" and "test" in given)

    def rows_in_words(self, key: str, value: Any) -> dict[str, Plain]:
        """Column names, and how many entries there are."""
        if isinstance(value, str):
            return {key: value} if value in self.columns else {}
        if isinstance(value, (list, tuple, np.ndarray)):
            named = [str(item) for item in value]
            return {key: [item if item in self.columns else None for item in named]}
        return {key: self.of(value)}


def result_parts(result: Result) -> dict[str, Any]:
    """A result taken apart, as its JSON has it; carriers and other objects are left out."""
    return {
        "kind": result.kind,
        "value": result.value,
        "noise_floor": result.noise_floor,
        "p_value": result.p_value,
        "interval": result.interval,
        "table": dict(result.table),
        "tests": dict(result.tests),
        "settings": dict(result.settings),
        "extra": {name: value for name, value in result.extra.items() if name != "tests" and is_plain(value)},
    }


def is_plain(value: Any) -> bool:
    """Whether a value of a result's extra is numbers or text, and no private object."""
    return isinstance(value, (str, int, float, np.generic, np.ndarray, list, tuple, dict, type(None)))


def record_fields(value: Any) -> dict[str, Any] | None:
    """The fields of a public record (a curve, slope and intercept, a named tuple); None of other objects."""
    names = getattr(type(value), "__dataclass_fields__", None)
    if names is None or type(value).__name__.startswith("_"):
        return None
    return {name: getattr(value, name) for name in names}


def is_words(value: Any) -> bool:
    """Whether a value is text, or a list of texts."""
    return isinstance(value, str) or (isinstance(value, (list, tuple, np.ndarray)) and all(map(is_words, value)))


def empty(path: str, value: Plain) -> list[str]:
    """Where an answer holds nothing at all: a case that compares nothing, as its type is not taken apart."""
    if isinstance(value, dict) and value:
        return [line for key, item in value.items() for line in empty(f"{path}.{key}", item)]
    return [path] if value == {} else []


def state(text: str) -> Plain:
    """The JSON of a recalibrator."""
    return plain(json.loads(text))


def difference(path: str, frozen: Plain, now: Plain, tolerance: float) -> list[str]:
    """Where two answers differ: a line for each entry, with both values."""
    if isinstance(frozen, dict) and isinstance(now, dict):
        lines = []
        for key in [*frozen, *(key for key in now if key not in frozen)]:
            here = f"{path}.{key}"
            if key not in now:
                lines.append(f"{here}: frozen {shown(frozen[key])}, now missing")
            elif key == DIGEST and tolerance:
                continue  # its sampled entries are compared
            elif key not in frozen:
                lines.append(f"{here}: not frozen, now {shown(now[key])}")
            else:
                lines += difference(here, frozen[key], now[key], tolerance)
        return lines
    if isinstance(frozen, list) and isinstance(now, list):
        if len(frozen) != len(now):
            return [f"{path}: frozen {len(frozen)} entries, now {len(now)}"]
        pairs = enumerate(zip(frozen, now, strict=True))
        return [line for i, (old, new) in pairs for line in difference(f"{path}[{i}]", old, new, tolerance)]
    if type(frozen) is type(now) and (frozen == now or close(frozen, now, tolerance)):
        return []
    return [f"{path}: frozen {shown(frozen)}, now {shown(now)}"]


def close(frozen: Plain, now: Plain, tolerance: float) -> bool:
    """Whether two numbers, or two expressions with numbers in them, agree within a relative tolerance."""
    if not tolerance or not isinstance(frozen, str):
        return False
    if frozen.startswith(NUMBER) and now.startswith(NUMBER):
        return _close(float.fromhex(frozen[1:]), float.fromhex(now[1:]), tolerance)
    from tests.goldens.expressions import numbers_apart

    (words, values), (other_words, other_values) = numbers_apart(frozen), numbers_apart(now)
    if words != other_words:
        return False
    return all(_close(one, two, tolerance) for one, two in zip(values, other_values, strict=True))


def _close(one: float, two: float, tolerance: float) -> bool:
    return (math.isnan(one) and math.isnan(two)) or math.isclose(one, two, rel_tol=tolerance, abs_tol=tolerance * 1e-3)


def shown(value: Plain) -> str:
    """A value as a line of a failure has it: numbers as decimals beside their bits."""
    if isinstance(value, str) and value.startswith(NUMBER):
        return f"{float.fromhex(value[1:])!r} ({value[1:]})"
    text = repr(value)
    return text if len(text) <= 160 else text[:157] + "..."
