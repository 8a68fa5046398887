"""The rules for single vectors: probabilities, weights, counts; each returns the validated array or refuses.

Rows are counted from 0 in every message. Vectors already of the right type are not copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.data.errors import MiscalError, refusal
from miscal.data.vectors import Vector, flat, library_of, numpy_of
from miscal.kernels.threads import over_blocks

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Array = npt.NDArray[Any]

SUM_TOLERANCE = 1e-4
LARGEST_WEIGHT = 1e100  # squares of weights and their sums must stay finite
LARGEST_COUNT = 1 << 53


def any_outside(values: Floats, low: float, high: float) -> bool:
    """Whether a value lies outside [low, high]; NaN does."""
    return not all(over_blocks(values.size, lambda i, j: bool(values[i:j].min() >= low and values[i:j].max() <= high)))


def any_infinite(values: Floats) -> bool:
    """Whether a value is infinite; NaN is not."""
    return any(over_blocks(values.size, lambda i, j: bool(np.isinf(values[i:j]).any())))


def span(values: Array) -> tuple[int, int]:
    """Smallest and largest of a non-empty vector of integers."""
    ends = over_blocks(values.size, lambda i, j: (int(values[i:j].min()), int(values[i:j].max())))  # read once
    return min(low for low, _ in ends), max(high for _, high in ends)


def check_seed(random_state: Any) -> None:
    """Refuse what cannot seed a generator."""
    whole = isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool)
    if not whole or random_state < 0:
        raise refusal("must be a whole number of at least 0", where="'random_state'", got=f"it is {random_state!r}")


def first_row(rows: int, bad: Callable[[int, int], Array], block: int = 1 << 18) -> tuple[int, int]:
    """Find the first row for which `bad(start, stop)` holds, and how many there are."""
    first, total = -1, 0
    for start in range(0, rows, block):
        marks = bad(start, min(start + block, rows))
        here = int(np.count_nonzero(marks))
        if here and first < 0:
            first = start + int(np.argmax(marks))
        total += here
    return first, total


def row_refusal(
    what: str, where: str, row: int, value: Any, total: int = 1, hint: str = "", words: str = ""
) -> MiscalError:
    """Refuse one row: 'row 3 has 1.2 (7 such rows, counted from 0)'; `words` in place of the value."""
    shown = words or (repr(value) if isinstance(value, str) else str(value))
    has = "is missing" if not words and is_missing(value) else f"has {shown}"
    return refusal(what, where=where, got=f"row {row} {has} ({_rows(total)})", hint=hint)


def is_missing(value: Any) -> bool:
    """Whether one value is None, NaN or not a time."""
    return value is None or bool(value != value)  # noqa: PLR0124  # NaN alone differs from itself


def _rows(total: int) -> str:
    return "rows are counted from 0" if total == 1 else f"{total:,} such rows, counted from 0"


def first_null(vector: Any) -> int:
    """Row of the first null of an Arrow array."""
    return int(np.argmax(vector.is_null().to_numpy(zero_copy_only=False)))


def plain(vector: Any) -> Any:
    """Take a category of numbers or truth values for what it holds."""
    import pyarrow as pa

    if pa.types.is_dictionary(vector.type) and pa.types.is_primitive(vector.type.value_type):
        return vector.dictionary_decode()
    return vector


def numbers(vector: Vector, where: str, what: str, hint: str = "") -> Array:
    """Take a vector as float64 with NaN for missing; `what` says what it should have been."""
    if isinstance(vector, np.ndarray):
        if vector.dtype.kind in "iuf":
            return np.ascontiguousarray(vector, dtype=np.float64)
        shown = vector[0] if vector.size else "nothing"
        raise refusal(what, where=where, got=f"its dtype is {vector.dtype} (row 0 has {shown})", hint=hint)
    import pyarrow as pa

    vector = plain(vector)
    kind = vector.type
    if pa.types.is_null(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        try:
            converted = vector.cast(pa.float64(), safe=False)
        except pa.ArrowException as error:
            raise refusal(what, where=where, got=str(error), hint=hint) from error
        return np.ascontiguousarray(numpy_of(converted))
    row, value = _first_not_a_number(vector)
    raise refusal(what, where=where, got=f"its type is {kind} and row {row} has {value!r}", hint=hint)


def _first_not_a_number(vector: Any) -> tuple[int, Any]:
    """Show the row that made a column text: the first value that is not a number, else the first value."""
    fallback: tuple[int, Any] | None = None
    for row, value in enumerate(_values(vector)):
        if value is None:
            continue
        fallback = fallback or (row, value)
        try:
            float(value)
        except (TypeError, ValueError):
            return row, value
    return fallback or (0, None)


def _values(vector: Any) -> list[Any]:
    import pyarrow as pa

    try:
        return list(vector.to_pylist())
    except (OverflowError, ValueError):  # a time that Python cannot express
        return list(vector.cast(pa.large_string()).to_pylist())


PROBABILITY = "must hold probabilities, numbers in [0, 1]"
UNIT = "must lie in [0, 1]"
OUTSIDE_HINT = "logits? use miscal.read(..., logit=True). Rounding noise? use miscal.read(..., clip=1e-6) or numpy.clip"


def probabilities(vector: Vector, where: str, hint: str = OUTSIDE_HINT) -> Floats:
    """Validate one vector of probabilities."""
    values = numbers(vector, where, PROBABILITY)
    check_unit(values, where, hint)
    return values


def check_unit(values: Floats, where: str, hint: str = OUTSIDE_HINT, clip: float = 0.0) -> None:
    """Refuse what is not a finite number in [0, 1], naming the first that is further out than the tolerance."""
    if not any_outside(values, 0.0, 1.0):
        return
    for test, what, advice in (
        (np.isnan, "must not be missing", "drop these rows, or find out why the model gave no probability"),
        (np.isinf, "must be finite", "an overflow in the model? find out where it comes from"),
        (lambda v: (v < -clip) | (v > 1 + clip), UNIT + (f" within the tolerance clip={clip:g}" if clip else ""), hint),
    ):
        row, total = first_row(values.size, lambda i, j, t=test: t(values[i:j]))  # type: ignore[misc]
        if total:
            raise row_refusal(what, where, row, values[row], total, advice)


def check_sums(matrix: Floats, where: str) -> None:
    """Refuse rows of an (n, K) matrix that do not sum to 1 within 1e-4."""

    def bad(i: int, j: int) -> Array:
        return np.asarray(~(np.abs(np.einsum("ij->i", matrix[i:j]) - 1.0) <= SUM_TOLERANCE))

    row, total = first_row(len(matrix), bad)
    if not total:
        return
    raise row_refusal(
        "must have rows that sum to 1 within 1e-4",
        where,
        row,
        None,
        total,
        words=f"the sum {matrix[row].sum():.6g}",
        hint="logits? use miscal.read(..., logit=True). Independent labels? audit one class at a time",
    )


def probability_matrix(thing: Any, where: str) -> tuple[Floats, tuple[str, ...] | None]:
    """Validate probabilities of any shape: (n,) or (n, K); with the names of the columns where there are any."""
    if hasattr(thing, "to_native") and library_of(thing) == "narwhals":
        thing = thing.to_native()
    names = getattr(thing, "column_names", None)
    names = getattr(thing, "columns", None) if names is None else names
    if names is not None and not isinstance(thing, np.ndarray):
        from miscal.data.frames import frame_of

        frame = frame_of(thing, where)
        vectors = {name: flat(frame[name], f"{where} column '{name}'") for name in frame}
        return stack_probabilities(vectors, where), tuple(vectors)
    if isinstance(thing, (list, tuple)) and thing and hasattr(thing[0], "__len__") and not isinstance(thing[0], str):
        thing = _nested(thing, where)
    if getattr(thing, "ndim", 1) == 2 and hasattr(thing, "__array__"):
        if np.ma.is_masked(thing):
            row = int(np.argmax(np.ma.getmaskarray(thing).any(axis=1)))
            raise refusal("must have no masked value", where=where, got=f"row {row} is masked")
        matrix = np.asarray(thing)
        if matrix.dtype.kind not in "iuf":
            raise refusal(PROBABILITY, where=where, got=f"its dtype is {matrix.dtype}")
        return check_matrix(np.ascontiguousarray(matrix, dtype=np.float64), where), None
    return probabilities(flat(thing, where), where), None


def _nested(rows: Any, where: str) -> Array:
    try:
        matrix = np.asarray(rows)
    except (ValueError, TypeError, OverflowError) as error:
        width = len(rows[0])
        row = next((i for i, r in enumerate(rows) if not hasattr(r, "__len__") or len(r) != width), 0)
        raise refusal("must have rows of one length", where=where, got=f"row {row} differs from row 0") from error
    if matrix.ndim == 2 and matrix.dtype.kind == "O":
        for row, values in enumerate(rows):
            if any(value is None for value in values):
                raise refusal("must not be missing", where=where, got=f"row {row} is missing a value")
    return matrix


def stack_probabilities(vectors: dict[str, Vector], where: str) -> Floats:
    """Put columns of probabilities side by side, checked."""
    if not vectors:
        raise refusal("must have at least one column", where=where, got="it has none")
    singles = [probabilities(vector, f"{where} column '{name}'") for name, vector in vectors.items()]
    matrix = np.stack(singles, axis=1)
    return check_matrix(matrix, where)


def check_matrix(matrix: Floats, where: str) -> Floats:
    """Validate an (n, K) matrix of probabilities."""
    if matrix.shape[1] < 2:
        shape = f"it has shape {matrix.shape}"
        raise refusal("must be (n,) or (n, K) with K >= 2", where=where, got=shape, hint="pass y_prob[:, 0]")
    if any_outside(matrix.reshape(-1), 0.0, 1.0):
        for test in (np.isfinite, None):
            for k in range(matrix.shape[1]):
                if test is None or not test(matrix[:, k]).all():
                    check_unit(matrix[:, k], f"{where} column {k}")
    check_sums(matrix, where)
    return matrix


def weights(thing: Any, where: str, *, part: bool = False) -> tuple[Floats, int]:
    """Validate sampling weights: finite, not negative, not all zero (unless `part` of more); and how many are zero."""
    values = numbers(flat(thing, where), where, "must hold numbers")
    if any_outside(values, 0.0, LARGEST_WEIGHT):
        row, total = first_row(values.size, lambda i, j: ~((values[i:j] >= 0) & (values[i:j] <= LARGEST_WEIGHT)))
        raise row_refusal(
            "must be finite and not negative", where, row, values[row], total, "drop these rows or mend them"
        )
    zeros = sum(over_blocks(values.size, lambda i, j: int(np.count_nonzero(values[i:j] == 0.0))))
    if zeros == values.size and zeros and not part:
        raise refusal("must not all be zero", where=where, got=f"all {zeros:,} rows have weight 0")
    return values, zeros


def whole_numbers(thing: Any, where: str, what: str = "must hold whole numbers that are not negative") -> Integers:
    """Validate a vector of counts as int64."""
    vector = flat(thing, where)
    if isinstance(vector, np.ndarray) and vector.dtype.kind in "iu" and vector.size:
        low, high = span(vector)
        if low >= 0 and high <= LARGEST_COUNT:
            return np.ascontiguousarray(vector, dtype=np.int64)
    if isinstance(vector, np.ndarray) and vector.dtype.kind == "b":
        return vector.astype(np.int64)
    values = numbers(vector, where, what)

    def bad(i: int, j: int) -> Array:
        part = values[i:j]
        return np.asarray(~((part >= 0) & (part <= LARGEST_COUNT) & (part == np.floor(part))))

    row, total = first_row(values.size, bad)
    if total:
        raise row_refusal(what, where, row, values[row], total)
    return values.astype(np.int64)


def check_lengths(lengths: dict[str, int]) -> int:
    """Refuse vectors of different lengths and no rows at all; return the number of rows."""
    (first, rows), *others = lengths.items()
    for where, length in others:
        if length != rows:
            raise refusal(f"must have as many rows as {first}", where=where, got=f"{length:,} against {rows:,}")
    if rows == 0:
        raise refusal("must have at least one row", where=first, got="it is empty")
    return rows
