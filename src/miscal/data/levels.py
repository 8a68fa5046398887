"""From labels to codes that do not depend on the order of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.data.errors import refusal
from miscal.data.vectors import Vector


def factorise(
    vector: Vector, order: list[Any] | None = None, where: str = "the labels"
) -> tuple[npt.NDArray[np.int32], list[Any]]:
    """Return int32 codes and the sorted levels that occur; -1 where missing.

    The levels are sorted (or in the stated order), never in order of appearance: codes are the same for any row order.
    """
    codes, dictionary = encoded(vector, order, where)
    try:
        return codes, dictionary.to_pylist()
    except (OverflowError, ValueError) as error:  # a time that Python cannot express
        raise refusal("holds values that cannot be shown", where=where, got=str(error)) from error


def encoded(vector: Vector, order: list[Any] | None, where: str) -> tuple[npt.NDArray[np.int32], Any]:
    """Return codes as `factorise` does, with the levels as an Arrow array."""
    import pyarrow as pa

    try:
        return _encoded(pa.array(vector, from_pandas=True) if isinstance(vector, np.ndarray) else vector, order)
    except (pa.ArrowException, OverflowError) as error:
        got = str(error).splitlines()[0]
        raise refusal("holds values that cannot be told apart", where=where, got=got) from error


def _encoded(array: Any, order: list[Any] | None) -> tuple[npt.NDArray[np.int32], Any]:
    import pyarrow as pa
    import pyarrow.compute as pc

    made = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    if made is array and len(pc.unique(made.dictionary)) < len(made.dictionary):
        made = made.dictionary_decode().dictionary_encode()
    dictionary = made.dictionary
    codes = made.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    used = np.bincount(codes + 1, minlength=len(dictionary) + 1)[1:] > 0
    if dictionary.null_count:  # a null inside the dictionary is a missing value too
        used &= dictionary.is_valid().to_numpy(zero_copy_only=False)
    place = {level: i for i, level in enumerate(order)} if order else {}
    levels = dictionary.to_pylist() if order else []
    if levels and all(level in place for level in levels):
        sequence = np.array(sorted(range(len(levels)), key=lambda i: place[levels[i]]), dtype=np.int64)
    else:
        sequence = pc.array_sort_indices(dictionary).to_numpy(zero_copy_only=False).astype(np.int64)
    sequence = sequence[used[sequence]]
    rank = np.full(len(dictionary) + 1, -1, dtype=np.int32)  # the last entry serves code -1
    rank[sequence] = np.arange(len(sequence), dtype=np.int32)
    return rank[codes], dictionary.take(pa.array(sequence))
