"""Vectors and tables of every library: arrays of numbers, and mappings of column names to vectors."""

import datetime as dt
import decimal
import fnmatch
import glob
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from miscal.data.errors import MixedTypes, NotPlain, nearest, refusal, refusing
from miscal.data.libraries import pa, pc

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Plain = dict[str, Any]  # what is named, as JSON has it
Integers = npt.NDArray[np.int64]
Vector: TypeAlias = "Array | pa.Array"
Codes = npt.NDArray[np.int32]


def numpy_of(array: Any, missing: float = math.nan) -> Array:
    """An Arrow array as numpy has it: a view of flat numbers, nulls as NaN or the number given.

    Arrow's own conversion loads pandas where it is installed, which takes longer than small tables do.
    """
    kind = array.type
    if not (pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    if array.null_count == 0:
        return np.from_dlpack(array)
    held = pa.Array.from_buffers(kind, len(array), [None, array.buffers()[1]], offset=array.offset)
    there = np.from_dlpack(array.is_valid().cast(pa.uint8()))
    return np.where(there, np.from_dlpack(held), missing)


def is_number(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers; what is missing everywhere may be taken for one."""
    is_ = pa.types
    return bool(is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind) or is_.is_null(kind))


def arrow_of(values: Array) -> Any:
    """Whole numbers (int64) as an Arrow array, without pandas."""
    return pa.Array.from_buffers(
        pa.int64(), values.size, [None, pa.py_buffer(np.ascontiguousarray(values, np.int64))]
    )


def texts_of(texts: Sequence[str]) -> Any:
    """Texts as an Arrow array, without pandas."""
    packed = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, packed)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(packed), pa.py_buffer(ends), pa.py_buffer(b"".join(packed)))


def library_of(thing: object) -> str:
    """Name the package that defines the type of an object, without importing it."""
    return type(thing).__module__.partition(".")[0]


def flat(thing: Any, where: str) -> Vector:
    """Turn any one-dimensional container into a vector, or refuse."""
    library = library_of(thing)
    if library == "narwhals" and hasattr(thing, "to_native"):
        return flat(thing.to_native(), where)
    if is_table(thing):
        raise refusal("must be one-dimensional", where, got=f"got a {library} {type(thing).__name__}")
    if library == "pandas":
        return _from_pandas(thing, where)
    if library == "polars" and str(getattr(thing, "dtype", "")) == "Object":
        return _from_objects(thing.to_list(), where)  # Arrow would be handed the addresses of the objects
    if (library == "polars" and hasattr(thing, "to_arrow")) or (
        library == "pyarrow" and hasattr(thing, "null_count")
    ):
        with refusing("holds values of a type that cannot be read", where):
            return settled(thing if library == "pyarrow" else thing.to_arrow(), where)
    if isinstance(thing, (list, tuple, range)):
        with refusing("must hold one value a row", where, got="its rows differ in length"):
            array = np.asarray(thing)
        if array.ndim == 1 and array.dtype.kind not in "biufc":
            return _from_objects(thing, where)
        return _from_numpy(array, where)
    if not hasattr(thing, "__array__"):
        got, hint = f"got {described(thing)}", "one value a row, such as list(...)"
        raise refusal("must be an array, a list or a series", where, got=got, hint=hint)
    with refusing("cannot be turned into an array", where):  # a tensor that requires gradients, ...
        return _from_numpy(np.asanyarray(thing), where)


def described(thing: Any) -> str:
    """What a thing that cannot be used is, in a message."""
    return "nothing (None)" if thing is None else f"an object of type {type(thing).__name__}"


def unmasked(array: Any, where: str) -> Array:
    """An array without its mask, refused where that hides a value."""
    if np.ma.is_masked(array):
        row = np.argmax(np.ma.getmaskarray(array).reshape(len(array), -1).any(axis=1))
        raise refusal("must have no masked value", where, got=f"row {row} is masked")
    return np.asarray(array)


def _from_numpy(array: Array, where: str) -> Vector:
    array = unmasked(array, where)
    if array.ndim != 1:
        raise refusal("must be one-dimensional", where, got=f"it has shape {array.shape}")
    kind = array.dtype.kind
    if kind == "f" and array.dtype.itemsize > 8:
        return np.asarray(array, dtype=np.float64)
    if kind in "biufMmc":
        return array
    return _from_objects(array.tolist() if kind in "ST" else array, where)


def _from_pandas(series: Any, where: str) -> Vector:
    name = str(series.dtype)
    if isinstance(series.dtype, np.dtype) or name.startswith("Sparse"):
        return _from_numpy(np.asarray(series), where)
    if name.startswith("period") and hasattr(series, "dt"):
        return flat(series.dt.to_timestamp(), where)
    if name.startswith(("interval", "period")):
        return _from_objects(series.astype(str), where)
    if name == "category":
        held = series.dtype.categories
        if held.dtype.kind not in "biufM" and getattr(held, "inferred_type", "") != "string":
            # Intervals and pairs are taken as text.
            series = (series.cat if hasattr(series, "cat") else series).rename_categories([*map(str, held)])
    return _from_objects(series, where)


def _from_objects(values: Any, where: str) -> Vector:
    with refusing("holds values that cannot be read", where):
        try:
            made = pa.array(values, from_pandas=True)
        except Exception:
            _refuse_mixture(values, where)
            raise
        return settled(made, where)


def settled(array: Any, where: str) -> Any:
    """Join the chunks of an Arrow array and bring it to a type that every computation knows."""
    if isinstance(array, pa.ChunkedArray):
        if array.num_chunks > 1 and pa.types.is_string(array.type):
            array = array.cast(pa.large_string())  # 32-bit offsets end at 2 GB of text
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    is_, kind = pa.types, array.type
    if is_.is_run_end_encoded(kind):
        return settled(pc.run_end_decode(array), where)
    held = kind.value_type if is_.is_dictionary(kind) else kind
    if is_.is_nested(held) or is_.is_interval(held) or isinstance(held, pa.ExtensionType):
        raise NotPlain(refusal("must hold one plain value a row", where, got=f"its type is {kind}"))
    if str(held) in _WIDER:
        return (array.dictionary_decode() if held is not kind else array).cast(_WIDER[str(held)])
    return array


_WIDER = {"string_view": "large_string", "binary_view": "large_binary", "halffloat": "float64"}
_FAMILIES: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("booleans", (bool, np.bool_)),
    ("numbers", (int, float, np.integer, np.floating, decimal.Decimal)),
    ("text", (str, bytes)),
    ("dates", (dt.date, np.datetime64)),
)


def _refuse_mixture(values: Any, where: str) -> None:
    """Refuse the first row whose type differs from the rows above it."""
    seen = ""
    for row, value in enumerate(values):
        if type(value).__name__ in ("NoneType", "NAType", "NaTType") or value != value:  # noqa: PLR0124
            continue
        family = next((name for name, types in _FAMILIES if isinstance(value, types)), type(value).__name__)
        if seen and family != seen:
            got = f"row {row} has {value!r} ({type(value).__name__}) after {seen}"
            hint = "convert it to numbers or to text first"
            raise MixedTypes(refusal("must hold values of one type", where, got=got, hint=hint))
        seen = family


def locked(values: Array) -> Array:
    """A read-only view (of a copy if there are gaps): no result changes beneath its reader, kernels meet one kind."""
    view = np.ascontiguousarray(values).view()
    view.flags.writeable = False
    return view


def factorise(
    vector: Vector, order: Sequence[Any] = (), where: str = "the labels"
) -> tuple[Codes, list[Any]]:
    """Return int32 codes and the sorted levels that occur; -1 where missing.

    The levels are sorted (or in the stated order), never in order of appearance: codes are the same for any row order.
    """
    codes, dictionary = encoded(vector, order, where)
    with refusing("holds values that cannot be shown", where):  # a time that Python cannot express
        return codes, dictionary.to_pylist()


def encoded(vector: Vector, order: Sequence[Any], where: str) -> tuple[Codes, Any]:
    """Return codes as `factorise` does, with the levels as an Arrow array."""
    with refusing("holds values that cannot be told apart", where):
        array = pa.array(vector, from_pandas=True) if isinstance(vector, np.ndarray) else vector
        made = array.dictionary_encode()
        held = made.dictionary
        # A null in it is missing, too.
        if held.null_count or (made is array and len(pc.unique(held)) < len(held)):
            made = made.dictionary_decode().dictionary_encode()
        dictionary = made.dictionary
        codes = numpy_of(made.indices.cast(pa.int32()), -1)
        used = np.bincount(codes + 1, minlength=len(dictionary) + 1)[1:] > 0
        place = {level: i for i, level in enumerate(order)}
        levels = dictionary.to_pylist() if order else []
        if levels and all(level in place for level in levels):
            sequence = np.argsort([place[level] for level in levels])
        else:
            sequence = numpy_of(pc.array_sort_indices(dictionary))
        sequence = sequence[used[sequence]]
        rank = np.full(len(dictionary) + 1, -1, dtype=np.int32)  # the last entry serves code -1
        rank[sequence] = np.arange(len(sequence))
        return rank[codes], dictionary.take(arrow_of(sequence))


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x)) without overflow, both ends accurate.

    >>> sigmoid(np.array([-800.0, 0.0, 800.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def logit(probability: Floats, edge: float) -> Floats:
    """ln(p / (1 - p)) of probabilities held within [edge, 1 - edge]."""
    held = np.clip(probability, edge, 1.0 - edge)
    return np.log(held) - np.log1p(-held)


def is_table(thing: Any) -> bool:
    """Whether something has named columns; arrays and mappings do not count."""
    return not isinstance(thing, np.ndarray) and (hasattr(thing, "columns") or hasattr(thing, "column_names"))


def frame_of(table: Any, where: str, only: Sequence[str] | None = None) -> Mapping[str, Any]:
    """A table of any library as a mapping of names to vectors; `only` limits what lazy tables must compute.

    The columns are taken out now: what the user replaces later does not change what was validated.
    """
    names = names_of(table, where)
    unique(names, where)
    if isinstance(table, (Mapping, np.ndarray)) or library_of(table) in ("pandas", "pyarrow"):
        return {str(name): table[name] for name in names}
    import narwhals as nw

    with refusing("cannot be read as a table", where):
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
    with refusing("must be a table", where, got="its rows differ in length"):
        array = unmasked(table, where)
    if array.ndim not in (1, 2):
        hint = "of images and sequences give one row each: X.reshape(len(X), -1)" if array.ndim > 2 else ""
        raise refusal("must be (n,) or (n, d)", where, got=f"its shape is {array.shape}", hint=hint)
    return {str(j): column for j, column in enumerate(np.atleast_2d(array.T))}


def names_of(table: Any, where: str) -> list[Any]:
    """Names of the columns of a table, without computing anything."""
    names: Any
    if isinstance(table, Mapping):
        names = table
    elif isinstance(table, np.ndarray):
        names = table.dtype.names
    elif hasattr(table, "collect_schema"):  # of polars and narwhals, lazy or not
        names = table.collect_schema().names()
    else:
        names = getattr(table, "column_names", getattr(table, "columns", None))
    if names is None or callable(names):
        got, hint = f"got {described(table)}", "a frame, or a dict of name: values"
        raise refusal("must be a table with named columns", where, got=got, hint=hint)
    return list(names)


def unique(names: Sequence[Any], where: str) -> None:
    """Refuse a name that occurs twice."""
    for name, times in Counter(map(str, names)).items():
        if times > 1:
            got = f"column '{name}' occurs twice"
            raise refusal("must have columns of different names", where, got=got)


def expanded(probability: Any, names: Sequence[str]) -> Any:
    """The columns that a name stands for which is none itself: a pattern ("p_*"), or the beginning of several ("p").

    >>> (
    ...     expanded("p", ["y", "p_a", "p_b"]),
    ...     expanded("q_*", ["y", "q_2", "q_10"]),
    ...     expanded("y", ["y", "y_1", "y_2"]),
    ... )
    (['p_a', 'p_b'], ['q_2', 'q_10'], 'y')
    """
    if not isinstance(probability, str) or probability in names:
        return probability
    pattern = probability if "*" in probability else f"{glob.escape(probability)}_*"
    found = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    if pattern == probability and not found:
        raise refusal(f"has no column like '{pattern}'", "the table", hint=nearest(pattern, names))
    if len(found) < 2:
        return found[0] if pattern == probability else probability
    # In the order of the table; those of numbered classes in the order of their numbers.
    start = pattern.index("*") if pattern.endswith("*") else 0
    numbered = all(name[start:].isdecimal() for name in found)
    return sorted(found, key=lambda name: int(name[start:])) if numbered else found


def named_by(name: str, names: Sequence[str]) -> list[str]:
    """As `expanded`, always a list."""
    found = expanded(name, names)
    return [found] if isinstance(found, str) else list(found)
