"""Tables of every library, seen as a mapping of column names to vectors."""

import fnmatch
import glob
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from miscal.data.errors import nearest, refusal, refusing
from miscal.data.libraries import pa
from miscal.data.vectors import described, library_of

if TYPE_CHECKING:
    from miscal.data.predictions import Predictions


def is_table(thing: Any) -> bool:
    """Whether something has named columns; arrays and mappings do not count."""
    return not isinstance(thing, np.ndarray) and (hasattr(thing, "columns") or hasattr(thing, "column_names"))


def frame_of(table: Any, where: str, only: Sequence[str] | None = None) -> Mapping[str, Any]:
    """A table of any library as a mapping of names to vectors; `only` limits what lazy tables must compute.

    The columns are taken out now: what the user replaces later does not change what was validated.
    """
    names = names_of(table, where)
    unique(names, where)
    arrow = library_of(table) == "pyarrow" and type(table).__name__ in ("Table", "RecordBatch")
    if isinstance(table, (Mapping, np.ndarray)) or library_of(table) == "pandas" or arrow:
        return {str(name): table[name] for name in names}
    import narwhals as nw

    with refusing("cannot be read as a table", where=where):
        frame = nw.from_native(table)
        if isinstance(frame, nw.LazyFrame):
            frame = (frame if only is None else frame.select(*only)).collect("pyarrow")
    return {name: frame[name].to_native() for name in frame.columns}


def named_columns(table: Any, where: str) -> Mapping[str, Any]:
    """As `frame_of`, for arrays, lists and series too: the columns of a plain array are named '0', '1', ..."""
    if hasattr(table, "to_frame") and not hasattr(table, "columns"):  # a series of pandas or polars
        return {str(table.name or 0): table}
    if not isinstance(table, (list, tuple)) and (not isinstance(table, np.ndarray) or table.dtype.names):
        return frame_of(table, where)
    with refusing("must be a table", where=where, got="its rows differ in length"):
        array = np.asarray(table)
    if array.ndim not in (1, 2):
        raise refusal("must be (n,) or (n, d)", where=where, got=f"its shape is {array.shape}")
    columns = array[:, None] if array.ndim == 1 else array
    return {str(j): columns[:, j] for j in range(columns.shape[1])}


def names_of(table: Any, where: str) -> list[Any]:
    """Names of the columns of a table, without computing anything."""
    if library_of(table) == "narwhals" and hasattr(table, "to_native"):
        return names_of(table.to_native(), where)
    if isinstance(table, Mapping):
        return list(table)
    if isinstance(table, np.ndarray):
        if not table.dtype.names:
            got = f"got an array of shape {table.shape}"
            raise refusal("must name its columns", where=where, got=got, hint="pass a dict: {'age': ages, ...}")
        return list(table.dtype.names)
    if library_of(table) == "polars" and hasattr(table, "collect_schema"):
        return list(table.collect_schema().names())
    names = getattr(table, "column_names", None)
    names = getattr(table, "columns", None) if names is None else names
    if names is None or callable(names):
        got, hint = f"got {described(table)}", "a frame, or a dict of name: values"
        raise refusal("must be a table with named columns", where=where, got=got, hint=hint)
    return list(names)


def unique(names: Sequence[Any], where: str) -> None:
    """Refuse a name that occurs twice."""
    seen: set[str] = set()
    for name in map(str, names):
        if name in seen:
            raise refusal("must have columns of different names", where=where, got=f"column '{name}' occurs twice")
        seen.add(name)


def require(name: str, known: Sequence[str], role: str) -> None:
    """Refuse what is no name, and a name that is not a column, with the nearest one."""
    if not isinstance(name, str):
        raise refusal("must be the name of a column", where=f"'{role}'", got=f"got {type(name).__name__}")
    if name not in known:
        raise refusal(f"names column '{name}', which is not in the table", where=f"'{role}'", hint=nearest(name, known))


def expanded(probability: Any, names: Sequence[str]) -> Any:
    """The columns that a name stands for which is none itself: a pattern ("p_*"), or the beginning of several ("p").

    >>> expanded("p", ["y", "p_a", "p_b"]), expanded("q_*", ["y", "q_2", "q_10"]), expanded("y", ["y", "y_1", "y_2"])
    (['p_a', 'p_b'], ['q_2', 'q_10'], 'y')
    """
    if not isinstance(probability, str) or probability in names:
        return probability
    pattern = probability if "*" in probability else f"{glob.escape(probability)}_*"
    found = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    if pattern == probability and not found:
        raise refusal(f"has no column like '{pattern}'", where="the table", hint=nearest(pattern, names))
    one = found[0] if pattern == probability and found else probability
    return _in_order(found, pattern) if len(found) > 1 else one


def named_by(name: str, names: Sequence[str]) -> list[str]:
    """As `expanded`, always a list."""
    found = expanded(name, names)
    return [found] if isinstance(found, str) else list(found)


def _in_order(found: list[str], pattern: str) -> list[str]:
    """Columns in the order of the table; those of numbered classes in the order of their numbers."""
    start = pattern.index("*") if pattern.endswith("*") else 0
    ends = [name[start:] for name in found]
    return sorted(found, key=lambda name: int(name[start:])) if all(end.isdecimal() for end in ends) else found


def to_arrow(p: "Predictions") -> "pa.Table":
    """Everything a `Predictions` holds as an Arrow table."""
    arrays: dict[str, Any] = {"outcome": pa.array(p.outcome)}
    if p.probability.ndim == 1:
        arrays["probability"] = pa.array(p.probability)
    else:
        for k, label in enumerate(p.classes):
            arrays[f"probability_{label}"] = pa.array(np.ascontiguousarray(p.probability[:, k]))
    for word in ("weight", "count", "cluster", "exposure", "id"):
        if getattr(p, word) is not None:
            arrays[word] = getattr(p, word) if word == "id" else pa.array(getattr(p, word))
    for name, column in p.columns.items():
        key = name if name not in arrays else f"column_{name}"
        arrays[key] = _column_to_arrow(column)
    return pa.table(arrays)


def _column_to_arrow(column: Any) -> "pa.Array":
    missing = column.missing
    if column.kind == "boolean":
        return pa.array(column.values == 1, mask=missing)
    if column.kind == "category":
        codes = pa.array(np.where(missing, 0, column.values), mask=missing)
        try:
            levels = pa.array(list(column.levels))
        except (pa.ArrowException, OverflowError):  # whole numbers beyond int64
            levels = pa.array([str(level) for level in column.levels])
        return pa.DictionaryArray.from_arrays(codes, levels)
    if column.kind == "date" and np.nanmax(np.abs(column.values), initial=0) < 1e8:  # else not a date Arrow can hold
        micros = np.where(missing, 0, np.round(column.values * 86_400_000_000)).astype(np.int64)
        return pa.array(micros, mask=missing).cast(pa.timestamp("us"))
    return pa.array(column.values, mask=missing)
