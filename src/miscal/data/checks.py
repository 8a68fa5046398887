"""The rules for single vectors: probabilities, weights, counts; each returns the validated array or refuses.

Rows are counted from 0 in every message. Vectors already of the right type are not copied.
"""

import math
import re
from collections.abc import Collection, Mapping, Sized
from numbers import Integral, Real
from typing import Any

import numpy as np

from miscal.data.arrays import (
    Array,
    Floats,
    Integers,
    Vector,
    flat,
    frame_of,
    is_number,
    is_table,
    numpy_of,
    unmasked,
)
from miscal.data.errors import nearest, parameter, refusal, refusing
from miscal.data.libraries import pa, pc

BLOCK = 1 << 17  # rows: a megabyte of numbers
SUM_TOLERANCE = 1e-4
LARGEST_WEIGHT = 1e100  # squares of weights and their sums must stay finite
SMALLEST_WEIGHT = 1e-100  # and those of the others must not be lost
LARGEST_COUNT = 1 << 53
LEAST = 400 * 10**6  # bytes: the interpreter and the libraries need nearly as much
NUMBER = r"^\s*[-+]?\.?[0-9][-+.0-9eE]*\s*$"
SIZE = re.compile(r"(\d+(?:\.\d*)?(?:E\d+)?|\.\d+)(?:([KMGT])(I?))?B?")


def check_seed(random_state: Any) -> None:
    """Refuse what cannot seed a generator."""
    whole("random_state", random_state, 0)


def whole(name: str, value: Any, low: int, high: float = np.inf) -> int:
    """A parameter that must be a whole number in [low, high]."""
    fine = isinstance(value, Integral) and not isinstance(value, bool)
    if not fine or not low <= int(value) <= high:
        limits = f"of at least {low}"
        limits += f" and at most {high}" if high < np.inf else ""
        raise refusal(f"must be a whole number {limits}", f"'{name}'", got=f"got {value!r}")
    return int(value)


def number(
    name: str,
    value: Any,
    low: float,
    high: float = np.inf,
    *,
    above: bool = False,
    below: bool = False,
    hint: str = "",
) -> float:
    """A parameter that must be a finite number in [low, high], without `low` if `above`, without `high` if `below`."""
    real = isinstance(value, Real) and not isinstance(value, bool)
    found = float(value) if real else np.nan
    outside = [-np.inf, np.inf, *[low] * above, *[high] * below]
    if not low <= found <= high or found in outside:
        limits = f"{'above' if above else 'of at least'} {low:g}"
        limits += f" and {'below' if below else 'at most'} {high:g}" if high < np.inf else ""
        raise refusal(f"must be a finite number {limits}", f"'{name}'", got=f"got {value!r}", hint=hint)
    return found


def truth(name: str, value: Any) -> None:
    """Refuse what is not True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise refusal("must be True or False", f"'{name}'", got=f"got {value!r}")


def one_of(name: str, value: Any, options: Collection[str]) -> None:
    """Refuse a word that is not an option."""
    if not isinstance(value, str) or value not in options:
        words = [*map(repr, options)]
        known = f"one of {', '.join(words)}" if len(words) > 2 else " or ".join(words)
        hint = nearest(str(value), options)
        raise refusal(f"must be {known}", f"'{name}'", got=f"got {value!r}", hint=hint)


def memory_bytes(text: Any) -> int:
    """A ceiling such as "600MB", "1G" or "1GiB" in bytes; units with an i are powers of 1024, the others of 1000.

    >>> memory_bytes("600MB"), memory_bytes("1G"), memory_bytes("1 GiB")
    (600000000, 1000000000, 1073741824)
    """
    found = SIZE.fullmatch(str(text).upper().replace(" ", ""))
    number, unit, binary = found.groups() if found else ("nan", "", "")
    size = float(number) * (1024 if binary else 1000) ** " KMGT".index(unit or " ")
    if not LEAST <= size < math.inf:
        what = "must be a size of at least 400MB, such as 600MB or 1GB"
        raise refusal(what, "'memory'", got=f"it is {text!r}")
    return int(size)


def inside(values: Array, low: float, high: float) -> bool:
    """Whether all values lie in [low, high]; NaN does not. Both looks at a block find it in the cache.

    >>> [
    ...     inside(np.array([0.5, value]), 0.0, 1.0)
    ...     for value in (0.0, -0.0, 1.0, np.nan, -1e-300, np.inf, 1 + 1e-15)
    ... ]
    [True, True, True, False, False, False, False]
    """
    blocks = (values[start : start + BLOCK] for start in range(0, len(values), BLOCK))
    return all(block.min() >= low and block.max() <= high for block in blocks)


def refuse_rows(bad: Array, what: str, where: str, values: Any = None, hint: str = "") -> None:
    """Refuse the rows marked as bad, if there are any: 'row 3 has 1.2 (7 such rows, counted from 0)'.

    values : what the rows hold; None: they are missing
    """
    rows = np.flatnonzero(bad)
    if not rows.size:
        return
    row = rows[0]
    value = None if values is None else values[row]
    text = repr(value) if isinstance(value, str) else str(value)
    has = "is missing" if is_missing(value) else f"has {text}"
    many = "rows are counted from 0" if rows.size == 1 else f"{rows.size:,} such rows, counted from 0"
    raise refusal(what, where, got=f"row {row} {has} ({many})", hint=hint)


def is_missing(value: Any) -> bool:
    """Whether one value is None, NaN or not a time."""
    return value is None or bool(value != value)  # noqa: PLR0124  # NaN alone differs from itself


def plain(vector: Any) -> Any:
    """Take a category of numbers or truth values for what it holds."""
    if pa.types.is_dictionary(vector.type) and pa.types.is_primitive(vector.type.value_type):
        return vector.dictionary_decode()
    return vector


def numbers(vector: Vector, where: str, what: str) -> Array:
    """Take a vector as float64 with NaN for missing; `what` says what it should have been."""
    if isinstance(vector, np.ndarray):
        if vector.dtype.kind in "iuf":
            return np.ascontiguousarray(vector, dtype=np.float64)
        raise refusal(what, where, got=f"its dtype is {vector.dtype}")
    vector = plain(vector)
    kind = vector.type
    if is_number(kind):
        with refusing(what, where):
            # A decimal is the number that its text is: Arrow's own conversion misses it in the last digit.
            exact = vector.cast(pa.string()) if pa.types.is_decimal(kind) else vector
            return numpy_of(exact.cast(pa.float64(), safe=False))
    with refusing(what, where, got=f"its type is {kind}"):
        texts = vector.cast(pa.large_string())
        # The row that made a column text.
        odd = pc.index(pc.match_substring_regex(texts, NUMBER), False).as_py()
        row = odd if odd >= 0 else pc.index(texts.is_valid(), True).as_py()
        raise refusal(what, where, got=f"its type is {kind} and row {row} has {texts[row].as_py()!r}")


def bounded(thing: Any, where: str, what: str, low: float, high: float, hint: str = "") -> Floats:
    """Validate numbers in [low, high], none of them missing."""
    values = numbers(flat(thing, where), where, what)
    if not inside(values, low, high):
        refuse_rows(~((values >= low) & (values <= high)), what, where, values, hint)
    return values


LOGIT = parameter("logit", "True", "miscal.read")
PROBABILITY = "must lie in [0, 1], as probabilities do"
OUTSIDE_HINT = f"logits? use {LOGIT}. Percent? divide by 100. Rounding noise? " + parameter(
    "clip", "1e-6", "miscal.read", otherwise="bring the values into [0, 1] first"
)


def one_probability(thing: Any, where: str) -> Floats:
    """Validate probabilities (n,)."""
    values = numbers(flat(thing, where), where, PROBABILITY)
    if not inside(values, 0.0, 1.0):
        nothing = "drop these rows, or find out why the model gave no probability"
        refuse_rows(~np.isfinite(values), "must not be missing or infinite", where, values, nothing)
        refuse_rows((values < 0.0) | (values > 1.0), PROBABILITY, where, values, OUTSIDE_HINT)
    return values


def probability_matrix(thing: Any, where: str) -> tuple[Floats, tuple[str, ...] | None]:
    """Validate probabilities of any shape: (n,) or (n, K); with the names of the columns where there are any."""
    if is_table(thing) or isinstance(thing, Mapping):
        frame = frame_of(thing, where)
        if not frame:
            raise refusal("must have at least one column", where, got="it has none")
        singles = {}
        for name, values in frame.items():
            place = f"column '{name}' of {where}"
            singles[place] = one_probability(values, place)
        check_lengths(singles)
        return check_matrix(np.column_stack([*singles.values()]), where), tuple(frame)
    if isinstance(thing, (list, tuple)) and thing and isinstance(thing[0], (list, tuple, np.ndarray)):
        lengths = np.array([np.size(row) for row in thing])
        refuse_rows(lengths != lengths[0], "must have rows of one length", where, lengths)
        with refusing(PROBABILITY, where):
            thing = np.asarray(thing)
    if getattr(thing, "ndim", 1) != 2 or not hasattr(thing, "__array__"):
        return one_probability(thing, where), None
    matrix = unmasked(thing, where)
    if matrix.dtype.kind not in "iufO":
        raise refusal(PROBABILITY, where, got=f"its dtype is {matrix.dtype}")
    with refusing(PROBABILITY, where):  # None is NaN
        matrix = np.ascontiguousarray(matrix, dtype=np.float64)
    return check_matrix(matrix, where), None


def check_matrix(matrix: Floats, where: str) -> Floats:
    """Validate an (n, K) matrix of probabilities."""
    if matrix.shape[1] < 2:
        shape = f"it has shape {matrix.shape}"
        raise refusal("must be (n,) or (n, K) with K >= 2", where, got=shape, hint="pass y_prob[:, 0]")
    if not inside(matrix, 0.0, 1.0):
        for k, column in enumerate(matrix.T):
            one_probability(column, f"column {k} of {where}")
    sums = np.einsum("ij->i", matrix)  # of short rows four times as quick as their sum
    hint = f"logits? use {LOGIT}. Independent labels? audit one class at a time"
    bounded(
        sums, where, "must have rows of sum 1 within 1e-4", 1.0 - SUM_TOLERANCE, 1.0 + SUM_TOLERANCE, hint
    )
    return matrix


def weights(thing: Any, where: str, *, part: bool = False) -> Floats:
    """Validate sampling weights: finite, not negative, not all zero (unless `part` of more)."""
    what = "must hold numbers, finite and not negative"
    values = bounded(thing, where, what, 0.0, LARGEST_WEIGHT, "drop these rows or mend them")
    tiny = (values > 0) & (values < SMALLEST_WEIGHT)
    refuse_rows(
        tiny, "must be 0 or at least 1e-100", where, values, "multiply all weights by the same large number"
    )
    if values.size and not part and not values.any():
        raise refusal("must not all be zero", where, got=f"all {values.size:,} rows have weight 0")
    return values


def whole_numbers(thing: Any, where: str, what: str) -> Integers:
    """Validate a vector of counts as int64."""
    vector = flat(thing, where)
    if isinstance(vector, np.ndarray) and vector.dtype.kind in "biu" and inside(vector, 0, LARGEST_COUNT):
        return np.ascontiguousarray(vector, dtype=np.int64)
    values = bounded(vector, where, what, 0, LARGEST_COUNT)
    refuse_rows(values != np.floor(values), what, where, values)
    return values.astype(np.int64)


def row_numbers(thing: Any, rows: int, where: str) -> Integers:
    """Which of so many rows are chosen: by truth values, or by numbers, those below 0 counted from the end."""
    chosen = flat(thing, where)
    if not len(chosen):
        return np.empty(0, np.int64)
    with refusing(f"must hold row numbers below {rows:,}, or as many truth values", where):
        return np.asarray(np.arange(rows)[np.asarray(chosen)])


def check_lengths(vectors: Mapping[str, Sized]) -> int:
    """Refuse vectors of different lengths and no rows at all; return the number of rows."""
    (first, rows), *others = zip(vectors, map(len, vectors.values()), strict=True)
    for where, length in others:
        if length != rows:
            got = f"{length:,} against {rows:,}"
            raise refusal(f"must have as many rows as {first}", where, got=got)
    if rows == 0:
        raise refusal("must have at least one row", first, got="it is empty")
    return rows
