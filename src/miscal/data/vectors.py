"""From whatever the user holds to one flat vector: a numpy array, or a pyarrow array where there is text or a null.

Nothing is copied that already is a flat array of numbers. `where` is how messages name the vector, such as "'y_prob'"
or "column 'p'".
"""

from __future__ import annotations

import datetime as dt
import decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from miscal.data.errors import MixedTypes, refusal

if TYPE_CHECKING:
    import pyarrow as pa

Vector: TypeAlias = "np.ndarray[Any, Any] | pa.Array"


def library_of(thing: object) -> str:
    """Name the package that defines the type of an object, without importing it."""
    return type(thing).__module__.partition(".")[0]


def flat(thing: Any, where: str) -> Vector:
    """Turn any one-dimensional container into a vector, or refuse."""
    if isinstance(thing, np.ndarray):
        return _from_numpy(thing, where)
    library = library_of(thing)
    if library == "narwhals" and hasattr(thing, "to_native"):
        return flat(thing.to_native(), where)
    if hasattr(thing, "columns") or hasattr(thing, "column_names"):
        raise refusal("must be one-dimensional", where=where, got=f"got a {library} {type(thing).__name__}")
    if library == "pandas":
        return _from_pandas(thing, where)
    if library == "polars" and hasattr(thing, "to_arrow"):
        return one_chunk(thing.to_arrow())
    if library == "pyarrow" and hasattr(thing, "null_count"):
        return one_chunk(thing)
    if isinstance(thing, (list, tuple, range)):
        return _from_list(thing, where)
    return _from_numpy(_as_array(thing, where), where)


def _as_array(thing: Any, where: str) -> np.ndarray[Any, Any]:
    if thing is None or not hasattr(thing, "__array__"):
        raise refusal(
            "must be an array, a list or a series",
            where=where,
            got=f"got {_described(thing)}",
            hint="one value a row, such as list(...)",
        )
    try:
        return np.asarray(thing)
    except Exception as error:  # foreign code: a tensor that requires gradients, a device array, ...
        raise refusal("cannot be turned into an array", where=where, got=f"{type(error).__name__}: {error}") from error


def _described(thing: Any) -> str:
    return "nothing (None)" if thing is None else f"an object of type {type(thing).__name__}"


def _from_numpy(array: np.ndarray[Any, Any], where: str) -> Vector:
    if isinstance(array, np.ma.MaskedArray):
        if np.ma.is_masked(array):
            row = int(np.argmax(np.ma.getmaskarray(array).reshape(len(array), -1).any(axis=1)))
            raise refusal("must have no masked value", where=where, got=f"row {row} is masked")
        array = array.data
    if array.ndim != 1:
        raise refusal("must be one-dimensional", where=where, got=f"it has shape {array.shape}")
    kind = array.dtype.kind
    if kind in "biufMmc":
        return np.asarray(array)
    if kind == "V":
        raise refusal("must hold one value a row", where=where, got=f"its dtype is {array.dtype}")
    return _from_objects(array.tolist() if kind in "ST" else array, where)


def _from_pandas(series: Any, where: str) -> Vector:
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biufMmc":
        return np.asarray(series.to_numpy())
    return _from_objects(series, where)


def _from_list(values: list[Any] | tuple[Any, ...] | range, where: str) -> Vector:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError) as error:
        raise refusal("must hold one value a row", where=where, got="its rows differ in length") from error
    if array.ndim == 1 and array.dtype.kind not in "biufc":
        return _from_objects(list(values), where)
    return _from_numpy(array, where)


def _from_objects(values: Any, where: str) -> Vector:
    import pyarrow as pa

    try:
        return one_chunk(pa.array(values, from_pandas=True))
    except (pa.ArrowException, ValueError, TypeError, OverflowError, UnicodeError) as error:
        first, row, other = _first_mixture(values)
        if other is None:
            raise refusal("holds values that cannot be read", where=where, got=str(error).splitlines()[0]) from error
        raise MixedTypes(where, first, row, other) from error


def one_chunk(array: Any) -> Any:
    """Join the chunks of an Arrow array and take extension types for what they store."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks > 1 and pa.types.is_string(array.type):
            array = array.cast(pa.large_string())  # 32-bit offsets end at 2 GB of text
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = array.chunk(0)
    return array.storage if isinstance(array, pa.ExtensionArray) else array


_FAMILIES: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("booleans", (bool, np.bool_)),
    ("numbers", (int, float, np.integer, np.floating, decimal.Decimal)),
    ("text", (str, bytes)),
    ("dates", (dt.date, np.datetime64)),
)


def _first_mixture(values: Any) -> tuple[str, int, Any]:
    """Find the first row whose type differs from the rows above it (only ever called to word a refusal)."""
    seen = ""
    for row, value in enumerate(values):
        if type(value).__name__ in ("NoneType", "NAType", "NaTType") or value != value:  # noqa: PLR0124
            continue
        family = next((name for name, types in _FAMILIES if isinstance(value, types)), type(value).__name__)
        if seen and family != seen:
            return seen, row, value
        seen = family
    return seen, -1, None
