"""The first look at a table: which columns are outcome and probability, where nobody says it and one choice is left."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from miscal.auditing.column_choice import PANDAS, separated
from miscal.data.errors import refusal
from miscal.engines.source import Source

MOST_CLASSES = 1000
CERTAINLY = 0.999  # rows that name the class predicted, from which a column is that and not the outcome
SUM_OF_ONE = 1e-3  # how far the classes' probabilities of a row may be from 1 in all
# A name that settles it where several columns could be meant.
_OUTCOME = re.compile(r"y|(y|is|has)?_?(true|truth|target|labels?|class|outcome|actual|event|observed)", re.IGNORECASE)
_PROBABILITY = re.compile(r"p|.*(prob|score|pred|forecast|confidence|y_?hat|risk).*|p_.*|.*_p", re.IGNORECASE)


def guessed(source: Source, outcome: str | None, probability: Any) -> tuple[str, Any, str]:
    """The outcome, the probability, and a sentence that says what was taken; refused where more than one is left."""
    table = source.head([name for name, kind in source.kinds.items() if kind])
    columns = {} if table is None else {name: _values(table[name]) for name in table.column_names}
    usable = {name: values for name, values in columns.items() if values is not None and not PANDAS.fullmatch(name)}
    numbers = {name: values for name, values in usable.items() if values.dtype != object}
    inside = {name: values for name, values in numbers.items() if values.min() >= 0 and values.max() <= 1}
    chances = [name for name, values in inside.items() if np.any(values % 1.0)]  # not all whole
    if probability is None:
        outcome, probability = _classes(usable, chances, outcome) or (outcome, None)
    if probability is None:
        probability = _one(chances, _PROBABILITY, "probability", columns)
    taken = [probability] if isinstance(probability, str) else list(probability)
    if outcome is None:
        events = [name for name, values in inside.items() if name not in taken and np.unique(values).tolist() == [0, 1]]
        scores = [usable[name] for name in taken if name in chances]
        free = [name for name in events if not any(separated(usable[name] > 0, score) for score in scores)]
        outcome = _one(_distinct(free or events, usable), _OUTCOME, "outcome", columns)
    shown = ", ".join(taken[:4]) + (f" and {len(taken) - 4} more" if len(taken) > 4 else "")
    return outcome, probability, f"Taken as outcome: {outcome}; as probability: {shown}. Name others if they are meant."


def _values(column: Any) -> np.ndarray | None:
    """Numbers as float64, text as text; None where values are missing."""
    import pyarrow as pa

    kind = column.type
    if column.null_count:
        return None
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        made = column.cast(pa.float64(), safe=False).to_numpy()
        return None if np.isnan(made).any() else made
    text = kind.value_type if pa.types.is_dictionary(kind) else kind
    return np.array(column.cast(pa.string()).to_pylist(), object) if pa.types.is_string(text) else None


def _one(found: list[str], pattern: re.Pattern[str], role: str, columns: Mapping[str, Any]) -> str:
    """The only one, or the only one of that name."""
    settled = found if len(found) == 1 else [name for name in found if pattern.fullmatch(name)]
    if len(settled) == 1:
        return settled[0]
    what = {"outcome": "whole numbers 0 and 1", "probability": "numbers from 0 to 1"}[role]
    listed, every = (", ".join(f"'{name}'" for name in names[:12]) for names in (found, list(columns)))
    several = f"several could be the {role}: {listed}"
    none = f"no column could be the {role}, of {what} without missing values; the columns are {every}"
    hint = "say outcome=NAME and probability=NAME"
    needs = "needs the names of the outcome and probability columns"
    raise refusal(needs, where="audit", got=several if found else none, hint=hint)


def _distinct(names: list[str], usable: Mapping[str, np.ndarray]) -> list[str]:
    """Columns that are not one of the others once more; the one with a telling name stays, else the first."""
    kept: list[str] = []
    for name in sorted(names, key=lambda each: _OUTCOME.fullmatch(each) is None):
        if not any(np.array_equal(usable[name], usable[other]) for other in kept):
            kept.append(name)
    return [name for name in names if name in kept]


def _classes(usable: Mapping[str, np.ndarray], chances: list[str], outcome: str | None) -> tuple[str, Any] | None:
    """Columns `name_<label>` that add up to 1, one for each label of a column; the second of two where labels are 0, 1.

    None where there are no such columns, or where no column or several could have these labels.
    """
    groups: dict[str, list[str]] = {}
    for name in chances:
        head, mark, _ = name.rpartition("_")
        if mark:
            groups.setdefault(f"{head}_", []).append(name)
    found = []
    for head, names in groups.items():
        table = np.stack([usable[name] for name in names], axis=1)
        if not 2 <= len(names) <= MOST_CLASSES or np.abs(table.sum(axis=1) - 1.0).max() > SUM_OF_ONE:
            continue
        labels = [name[len(head) :] for name in names]
        said = np.array(labels, object)[np.argmax(table, axis=1)]
        fit = [name for name in usable if name not in names and _labelled(usable[name], labels)]
        free = [name for name in fit if np.mean(_words(usable[name]) == said) < CERTAINLY] or fit
        free = [outcome] if outcome in fit else _distinct(free, usable)
        settled = free if len(free) == 1 else [name for name in free if _OUTCOME.fullmatch(name)]
        found += [(name, _ordered(names, labels)) for name in settled]
    return found[0] if len(found) == 1 else None


def _words(values: np.ndarray) -> np.ndarray:
    """Values as labels are written in the names of columns."""
    if values.dtype == object:
        return values
    return np.array([f"{value:.0f}" if value % 1 == 0 else str(value) for value in values.tolist()], object)


def _labelled(values: np.ndarray, labels: list[str]) -> bool:
    """Whether every value is one of the labels, and two at least occur."""
    if values.dtype != object and np.any(values % 1):
        return False
    words = set(_words(np.unique(values) if values.dtype != object else values).tolist())
    return len(words) > 1 and words <= set(labels)


def _ordered(names: list[str], labels: list[str]) -> Any:
    """Columns of numbered classes by their numbers; of the classes 0 and 1 the column of 1."""
    if not all(label.isdecimal() for label in labels):
        return names
    listed = [name for _, name in sorted(zip(map(int, labels), names, strict=True))]
    numbers = sorted(map(int, labels))
    whole = all(two == one + 1 for one, two in pairwise(numbers))
    return listed[1] if numbers == [0, 1] else listed if whole else names
