"""From labels to class indices: which label is which class, and which is the event."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from miscal.codes.data import Response
from miscal.data.arrays import Array, Vector, factorise, numpy_of
from miscal.data.checks import inside, is_missing, plain, refuse_rows
from miscal.data.errors import listed, nearest, parameter, refusal, warn
from miscal.data.libraries import pa
from miscal.data.responses import needed_response

Classes = tuple[Any, ...]

MISSING_HINT = "drop the rows whose outcome is not known yet"


def encode(
    vector: Vector, n_classes: int, classes: Sequence[Any] | None, positive: Any, where: str
) -> tuple[Array, Classes]:
    """Return the class index of every row (uint8 or int64) and the classes in order."""
    refuse_missing(vector, where)
    order: Classes = tuple(range(n_classes))
    what, named = f"must be one of the {n_classes} classes", classes is not None or positive is not None
    if not named:
        quick = _indices(vector, n_classes)
        if quick is not None:
            return quick, order
        several = f"must be a class index, a whole number from 0 to {n_classes - 1}"
        what = "must be 0 or 1 (or true and false)" if n_classes == 2 else several
    codes, found = factorise(vector, where=where)
    if classes is not None:
        order = _classes(classes, n_classes)
    elif positive is not None:
        order = _from_positive(codes, found, positive, n_classes, where)
    index = [_place(label, order) for label in found]
    if None in index:
        code = index.index(None)
        near = nearest(str(found[code]), map(str, order))
        hint = near if named else _naming_hint(found, n_classes, where)
        refuse_rows(codes == code, what, where, np.array(found, dtype=object)[codes], hint)
    return np.array(index, dtype=np.uint8 if n_classes < 256 else np.int64)[codes], order


def refuse_missing(vector: Vector, where: str, hint: str = MISSING_HINT) -> None:
    """Refuse a label that is null, NaN or not a time."""
    if not isinstance(vector, np.ndarray):
        if vector.null_count:
            refuse_rows(numpy_of(vector.is_null()), "must not be missing", where, hint=hint)
    elif vector.dtype.kind == "c":
        got = f"its dtype is {vector.dtype} (row 0 has {vector[0]})"
        raise refusal("must hold labels", where, got=got)
    elif vector.dtype.kind in "fMm":
        refuse_rows(np.isnan(vector), "must not be missing", where, hint=hint)


def _indices(vector: Vector, n_classes: int) -> Array | None:
    """Take labels that already are 0..K-1; None where they are not."""
    if are_words(vector):
        return None
    values = vector if isinstance(vector, np.ndarray) else numpy_of(plain(vector))
    if values.dtype == np.bool_:
        return np.ascontiguousarray(values).view(np.uint8)
    kind = values.dtype.kind
    whole = kind in "iu" or (kind == "f" and bool((values == np.floor(values)).all()))
    if not whole or not inside(values, 0, n_classes - 1):
        return None
    return values if values.dtype == np.uint8 else np.ascontiguousarray(values, dtype=np.int64)


def _listed(labels: list[Any]) -> str:
    return listed([*map(repr, labels[:7])], 6)


def _naming_hint(labels: list[Any], n_classes: int, where: str) -> str:
    """How classes are named: a table has `positive=` for the event, a function of arrays has not."""
    if n_classes > 2:
        hint = "give the number of each row's column of probabilities, such as numpy.searchsorted(model.classes_, y), "
        hint += "or name the columns in order with Predictions(..., classes=[...])"
    elif len(labels) > 2:
        hint = "only two classes are possible with one column of probabilities; "
        hint += f"counts, amounts or shares? say {needed_response(Response.COUNT, Response.REAL)}"
    elif where.startswith("'y"):
        hint = f"give truth values, such as y == {labels[-1]!r}, or Predictions(..., positive={labels[-1]!r})"
    else:
        hint = f"name the event: {parameter('positive', 'LABEL')}, or give 0 and 1"
    return f"{hint}; labels found: {_listed(labels)}"


def _classes(classes: Sequence[Any], n_classes: int) -> Classes:
    if isinstance(classes, (str, bytes)) or not hasattr(classes, "__len__"):
        raise refusal("must be a sequence of labels", "'classes'", got=f"got {classes!r}")
    order = tuple(item.item() if isinstance(item, np.generic) else item for item in classes)
    if len(order) != n_classes:
        got = f"{len(order)} labels for {n_classes} classes"
        raise refusal("must name one label a class", "'classes'", got=got)
    for i, label in enumerate(order):
        if is_missing(label) or label in order[:i]:
            raise refusal("must name each label once", "'classes'", got=f"place {i} has {label!r}")
    return order


def _from_positive(codes: Array, found: list[Any], positive: Any, n_classes: int, where: str) -> Classes:
    """Both classes from the labels found and the one that is the event."""
    if n_classes != 2:
        got = f"there are {n_classes} columns of probabilities"
        hint = "pass classes=[...] in the order of the columns"
        raise refusal("needs two classes", "'positive'", got=got, hint=hint)
    event = next((label for label in found if _same(label, positive)), positive)
    others = [code for code, label in enumerate(found) if not _same(label, positive)]
    if len(others) > 1:  # the rarest is most likely the misspelt one
        rarest = min(others, key=np.bincount(codes).tolist().__getitem__)
        what = "must hold one other label beside the event, which is 'positive'"
        row = np.argmax(codes == rarest)
        got = f"it has {len(found):,}: {_listed(found)}; row {row} has {found[rarest]!r}"
        near = nearest(str(positive), [str(found[code]) for code in others])
        hint = f"map the labels to 0 and 1 yourself, or is {positive!r} misspelt? {near}"
        raise refusal(what, where, got=f"{got} (rows are counted from 0)", hint=hint)
    return (found[others[0]] if others else f"not {positive}", event)


def _same(label: Any, asked: Any) -> bool:
    """Whether a label is the one asked for; a command line can only ask in words, so '1' matches 1."""
    if isinstance(asked, str) and not isinstance(label, str):
        return str(label).casefold() == asked.casefold()  # such as "true"
    return bool(label == asked)


def _place(label: Any, order: Classes) -> int | None:
    return next((i for i, known in enumerate(order) if _same(label, known)), None)


def warn_single(outcome: Array, classes: Classes, where: str) -> None:
    """Warn when only one class occurs: allowed, and often a finding."""
    if not np.ptp(outcome[:4096]) and not np.ptp(outcome):  # most tables need no look at all rows
        warn(f"{where} has a single class: all {len(outcome):,} rows are {classes[outcome[0]]!r}")


def place_of(positive: Any, classes: Sequence[Any]) -> int:
    """Place of the positive label among two classes."""
    place = _place(positive, _classes(classes, 2))
    if place is None:
        hint = nearest(str(positive), [str(label) for label in classes])
        raise refusal("must be one of 'classes'", "'positive'", got=f"got {positive!r}", hint=hint)
    return place


def are_words(vector: Vector) -> bool:
    """Whether the labels are text."""
    if isinstance(vector, np.ndarray):
        return vector.dtype.kind not in "biuf"
    kind = vector.type.value_type if pa.types.is_dictionary(vector.type) else vector.type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
