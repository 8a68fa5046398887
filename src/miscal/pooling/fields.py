"""From fields to the level of each row: quick where only sums are wanted and no level needs a name.

Whole numbers that are small and not negative are their own codes: nothing is sorted, hashed or copied. Missing values
are a level. Several fields are crossed, and only the combinations that occur are levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.data.checks import span
from miscal.data.columns import Column, column
from miscal.data.errors import MixedTypes, refusal
from miscal.data.vectors import Vector, flat
from miscal.pooling.columns import range_pooling

Bins = int | Sequence[float] | np.ndarray | None
Array = npt.NDArray[Any]
SPARE = 4  # codes may leave so many places unused for each row before they are made dense
LEAST = 1 << 16


@dataclass(frozen=True)
class Numbered:
    """Levels known by number alone; places that no row has are empty cells."""

    count: int

    def labels(self) -> list[str]:
        return [str(number) for number in range(self.count)]

    def describe(self) -> dict[str, Any]:
        return {"kind": "numbered", "name": "", "count": self.count}


@dataclass(frozen=True)
class CodePooling:
    """Rows pooled by a code, int32 or int64; -1 is missing and goes to the last cell."""

    level_codes: Array
    count: int
    missing: bool = False

    @property
    def cells(self) -> Numbered:
        return Numbered(self.count)

    def codes(self, start: int, stop: int) -> Array:
        codes = self.level_codes[start:stop]
        return np.where(codes < 0, self.count - 1, codes) if self.missing else codes

    def take(self, rows: Array) -> CodePooling:
        """The pooling of some rows."""
        return CodePooling(self.level_codes[rows], self.count, self.missing)


def field_pooling(field: Any, bins: Bins = None, where: str = "'field'") -> CodePooling:
    """Levels of one field, or of several crossed: a list of arrays, a table, or an (n, d) array.

    Parameters
    ----------
    field : (n,) values of any kind; or a list of such arrays, a frame, or an (n, d) array
    bins : ranges into which numeric fields are cut (a number of equal-support ranges, or edges); None: each distinct
        number is a level

    Examples
    --------
    >>> field_pooling(["b", "a", None]).codes(0, 3).tolist()
    [1, 0, 2]
    >>> field_pooling([["u", "u", "v"], ["x", "y", "x"]]).count  # u and x, u and y, v and x, (v and y: empty)
    4
    """
    parts = [level_codes(part, bins, name) for name, part in several(field, where)]
    made = parts[0]
    for part in parts[1:]:
        made = _crossed(made, part)
    return made


def several(field: Any, where: str) -> list[tuple[str, Any]]:
    """The fields one by one with how messages name them; a list of scalars is one field, a list of arrays several."""
    if isinstance(field, (list, tuple)):
        nested = [_is_vector(item) for item in field]
        if any(nested) and not all(nested):
            raise refusal("must hold one value a row, or one array a field", where=where, got="it mixes both")
        if nested and all(nested):
            return _equally_long([(f"{where} number {place}", item) for place, item in enumerate(field)])
        return [(where, field)]
    if isinstance(field, np.ndarray) and field.ndim == 2 and field.shape[1] > 0:
        return [(f"{where} column {place}", field[:, place]) for place in range(field.shape[1])]
    names = getattr(field, "column_names", None)
    names = getattr(field, "columns", None) if names is None else names
    if names is not None and not isinstance(field, np.ndarray) and len(names):
        from miscal.data.frames import frame_of

        frame = frame_of(field, where)
        return [(f"{where} column '{name}'", frame[name]) for name in frame]
    return [(where, field)]


def _is_vector(item: Any) -> bool:
    return isinstance(item, Column) or (hasattr(item, "__len__") and not isinstance(item, (str, bytes)))


def _equally_long(fields: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    first = len(fields[0][1])
    for name, values in fields:
        if len(values) != first:
            got = f"{len(values):,} against {first:,}"
            raise refusal("must have as many rows as the first field", where=name, got=got)
    return fields


def level_codes(values: Any, bins: Bins = None, where: str = "'field'") -> CodePooling:
    """Levels of one field."""
    if bins is not None:
        return _ranges(values, bins, where)
    if not isinstance(values, Column):
        try:
            values = flat(values, where)
        except MixedTypes:
            pass  # `column` takes them as text and says so
        else:
            quick = _own_codes(values)
            if quick is not None:
                return quick
    levels = column(where.strip("'"), values, where=where).as_levels()
    missing = bool((levels.values < 0).any())
    return CodePooling(levels.values, len(levels.levels) + missing, missing)


def _ranges(values: Any, bins: Bins, where: str) -> CodePooling:
    made = column(where.strip("'"), values, where=where)
    pooling = range_pooling(made, bins if bins is not None else 10)
    return CodePooling(pooling.codes(0, len(made)), pooling.cells.count)


def _own_codes(vector: Vector) -> CodePooling | None:
    """The codes that a vector already has: whole numbers that are small, or the indices of an Arrow dictionary."""
    if not isinstance(vector, np.ndarray):
        import pyarrow as pa

        if pa.types.is_dictionary(vector.type):
            return _dictionary(vector)
        if not pa.types.is_integer(vector.type) or vector.null_count:
            return None
        vector = vector.to_numpy(zero_copy_only=False)
    if vector.dtype.kind not in "iu" or vector.size == 0:
        return None
    low, high = span(vector)
    if low < 0 or high >= max(LEAST, SPARE * vector.size):
        return None
    kind = vector.dtype if vector.dtype in (np.int32, np.int64) and vector.dtype.isnative else np.dtype(np.int64)
    return CodePooling(np.ascontiguousarray(vector, dtype=kind), high + 1)


def _dictionary(vector: Any) -> CodePooling | None:
    """Indices of an Arrow dictionary without nulls or repeated entries; unused entries are empty cells."""
    import pyarrow as pa
    import pyarrow.compute as pc

    entries = vector.dictionary
    text = pa.types.is_string(entries.type) or pa.types.is_large_string(entries.type)
    if not text or vector.null_count or entries.null_count or len(pc.unique(entries)) < len(entries):
        return None
    return CodePooling(vector.indices.cast(pa.int32()).to_numpy(zero_copy_only=False), len(entries))


def _crossed(one: CodePooling, two: CodePooling) -> CodePooling:
    """Combinations of two fields' levels."""
    rows = len(one.level_codes)
    if one.count * two.count >= 1 << 62:
        one = _dense(one.codes(0, rows))
    codes = one.codes(0, rows).astype(np.int64)
    codes *= two.count
    codes += two.codes(0, rows)
    if one.count * two.count <= max(LEAST, SPARE * rows):
        return CodePooling(codes, one.count * two.count)
    return _dense(codes)


def _dense(codes: Array) -> CodePooling:
    import pyarrow as pa

    made = pa.array(codes).dictionary_encode()
    return CodePooling(made.indices.to_numpy(zero_copy_only=False), len(made.dictionary))
