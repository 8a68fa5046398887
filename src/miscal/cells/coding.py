"""From columns to cells: numbers into ranges, levels as they are, several columns crossed or nested; and to numbers.

A `Column` has named levels. A field of which only sums are wanted has levels known by number: whole numbers that are
small and not negative are their own codes, and nothing is sorted, hashed or copied.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from typing import Any, Self

import numpy as np

from miscal.cells.partitions import BinPooling, LevelPooling, Levels, Numbered, Pooling, Product, Ranges
from miscal.cells.ranges import Bins, Weight, edges_for, given_edges, numbered, quantile_edges
from miscal.data.arrays import Array, Floats, Integers, Plain, flat, is_table, library_of, numpy_of
from miscal.data.arrays import named_columns as vectors_of
from miscal.data.checks import check_lengths
from miscal.data.columns import Column, Columns, column
from miscal.data.errors import check_named, refusal
from miscal.data.libraries import pa, pc
from miscal.data.outcomes import are_words
from miscal.kernels.sorting import distinct_up_to

SPARE = 4  # codes may leave so many places unused for each row before they are made dense
LEAST = 1 << 16
MOST_CELLS = 10_000_000  # of columns that are crossed
UNSEEN = -1  # place of what is not among the levels, where no other is given


def range_pooling(
    column: Column,
    bins: Bins = 10,
    strategy: str = "quantile",
    *,
    weight: Weight = None,
    count: Weight = None,
    separate_common: bool = True,
) -> Pooling:
    """Ranges of a numeric column, missing a range of its own; a nominal column keeps its levels.

    Fewer distinct values than bins give one range for each. All values missing is one cell. With `separate_common` a
    lowest value that fills whole bins by itself (95% zeros) has its own range; without, equal edges are only merged.
    """
    if column.nominal:
        if not numbered(bins) or bins < 1:
            given_edges(bins)
        return level_pooling(column)
    values, missing = column.values, column.missing
    if missing.all():
        return LevelPooling(np.full(values.size, -1, np.int32), Levels((), missing=True, name=column.name))
    some = bool(missing.any())
    weight, count = (each[~missing] if some and each is not None else each for each in (weight, count))
    known = values[~missing] if some else values
    low, high = known.min() + 0.0, known.max()
    number = int(bins) if numbered(bins) else 0
    below = np.nextafter(low, -np.inf)
    if number < 1 or strategy != "quantile":
        edges = edges_for(known, bins, strategy, low=low, high=high, weight=weight, count=count)
    elif distinct_up_to(known, number + 1) <= number:
        distinct = np.unique(known) + 0.0
        edges = np.append(low if distinct.size == 1 else below, distinct)
    else:
        edges = quantile_edges(known, number, weight, count)
        if separate_common and edges.size <= number and np.mean(known == low) >= 1.0 / number:
            edges = np.append(below, edges)
    return BinPooling(values, Ranges(edges, some, column.name))


def level_pooling(column: Column) -> LevelPooling:
    """Levels of a column; each distinct number of a numeric column is a level, missing is a level of its own."""
    levels = column.as_levels()
    missing = bool(levels.missing.any())
    return LevelPooling(levels.values, Levels(tuple(map(str, levels.levels)), missing, column.name))


def crossed(parts: Sequence[Pooling]) -> Pooling:
    """Every combination of the parts' cells."""
    if len(parts) == 1:
        return parts[0]
    cells = Product(tuple(part.cells for part in parts))
    if cells.count > MOST_CELLS:
        got = f"they have {cells.count:,}"
        raise refusal(f"must have at most {MOST_CELLS:,} combinations", "the crossed columns", got=got)
    codes = parts[0].codes().astype(np.int64)
    for part in parts[1:]:
        codes = codes * part.cells.count + part.codes()
    return LevelPooling(codes, cells)


def named_columns(columns: Any, names: str | Sequence[str]) -> list[Column]:
    """The columns of these names."""
    wanted = [names] if isinstance(names, str) else list(names)
    check_named(wanted, columns, "the data")
    return [columns[name] for name in wanted]


def field_pooling(field: Any, bins: Bins | None = None, where: str = "'field'") -> LevelPooling:
    """Levels of one field, or of several crossed: a list of arrays, a table, or an (n, d) array.

    Parameters
    ----------
    field : (n,) values of any kind; or a list of such arrays, a frame, or an (n, d) array
    bins : ranges into which numeric fields are cut (a number of equal-support ranges, or edges); None: each distinct
        number is a level

    Examples
    --------
    >>> field_pooling(["b", "a", None]).codes().tolist()
    [1, 0, 2]
    >>> field_pooling([["u", "u", "v"], ["x", "y", "x"]]).cells.count  # u and x, u and y, v and x
    3
    """
    first, *others = (_level_codes(part, bins, name) for name, part in several(field, where).items())
    if not others:
        return first
    codes = reduce(_within, others, first.level_codes.astype(np.int64))
    return LevelPooling(codes, Numbered(int(codes.max(initial=0)) + 1))


def several(field: Any, where: str) -> Plain:
    """The fields one by one by how messages name them; a list of scalars is one field, a list of arrays several."""
    named: Plain = {}
    if isinstance(field, (list, tuple)):
        nested = [hasattr(item, "__len__") and not isinstance(item, (str, bytes)) for item in field]
        if nested and all(nested):
            named = {f"{where} number {place}": item for place, item in enumerate(field)}
            check_lengths(named)
    elif is_table(field) or (isinstance(field, np.ndarray) and field.ndim == 2):
        named = {f"{where} column '{name}'": values for name, values in vectors_of(field, where).items()}
    return named or {where: field}


def _level_codes(values: Any, bins: Bins | None, where: str) -> LevelPooling:
    """Levels of one field; small whole numbers that are not negative are codes as they stand."""
    type_of = str(getattr(values, "dtype", getattr(values, "type", ""))).lower()
    codes = np.asarray(values if bins is None and type_of.startswith(("int", "uint")) else ())
    if codes.dtype.kind in "iu" and codes.ndim == 1 and codes.size:
        kind = "4" if codes.dtype == np.int32 else "8"
        codes = np.ascontiguousarray(codes, f"i{kind}")
        most = int(codes.view(f"u{kind}").max())  # large where any code is negative
        if most < max(LEAST, SPARE * codes.size):
            return LevelPooling(codes, Numbered(most + 1))
    if bins is None and library_of(values) == "pyarrow" and pa.types.is_dictionary(values.type):
        # The indices of a dictionary of different texts, none of them missing; unused ones are empty cells.
        vector: Any = flat(values, where)
        entries = vector.dictionary
        if (
            are_words(entries)
            and not (vector.null_count or entries.null_count)
            and len(pc.unique(entries)) == len(entries)
        ):
            return LevelPooling(numpy_of(vector.indices.cast(pa.int32())), Numbered(len(entries)))
    made = column(where.strip("'"), values, where=where)
    pooling = level_pooling(made) if bins is None else range_pooling(made, bins)
    return LevelPooling(pooling.codes(), Numbered(pooling.cells.count))


def _within(codes: Integers, part: Pooling) -> Integers:
    """Codes of the combinations that occur, in order."""
    found = pa.array(codes * part.cells.count + part.codes()).dictionary_encode()
    places = np.argsort(np.argsort(found.dictionary.to_numpy()))
    return np.asarray(places[found.indices.to_numpy()])


@dataclass(frozen=True)
class Nested:
    """Levels with their ancestors: for each height, from the nearest up, the code of each level's; and the parents."""

    pooling: Pooling
    ancestors: tuple[Integers, ...] = ()
    parents: tuple[str, ...] = ()  # the name of each level's
    parts: tuple[tuple[str, ...], ...] = ()  # of crossed fields: each level's part by part


def nested_levels(
    columns: Sequence[Column], parents: Sequence[Column] = (), bins: Bins | None = None
) -> Nested:
    """Levels of crossed fields, nested in parents given from the outermost to the nearest.

    Examples
    --------
    >>> made = nested_levels([column("campaign", [1, 2, 1])], [column("advertiser", ["b", "b", "a"])])
    >>> made.pooling.cells.labels()
    ['a > 1', 'b > 1', 'b > 2']
    """
    pools = [
        level_pooling(each) if bins is None else range_pooling(each, bins) for each in (*parents, *columns)
    ]
    if len(pools) == 1:
        return Nested(pools[0])
    height = len(parents)
    # Of rows: everything, the outermost ancestor, the next in it, ..., the level.
    everything = np.zeros(len(columns[0]), np.int64)
    codes = list(accumulate(pools, _within, initial=everything))
    row = np.unique(codes[-1], return_index=True)[1]  # one row of each level
    texts = [np.array(pool.cells.labels(), object)[pool.codes()[row]].tolist() for pool in pools]
    above, own = texts[:height], texts[height:]
    ancestors = tuple(each[row] for each in codes[height:0:-1])
    names: Sequence[str] = own[0]
    parts: tuple[tuple[str, ...], ...] = ()
    if len(own) > 1:
        parts = tuple(map(tuple, own))
        named = zip(columns, own, strict=True)
        names = _joined(" and ", [[f"{each.name} {text}".strip() for text in mine] for each, mine in named])
    name = " and ".join(each.name for each in (*parents, *columns))
    levels = Levels(_joined(" > ", [*above, names]), name=name)
    return Nested(LevelPooling(codes[-1], levels), ancestors, _joined(" > ", above), parts)


def _joined(mark: str, texts: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """What several lists say at each place, joined."""
    return tuple(map(mark.join, zip(*texts, strict=True)))


# --------------------------------------------------------------------------------------------- columns as numbers
@dataclass(frozen=True)
class Encoding:
    """How one column becomes numbers.

    A number stays one, held within its ends; NaN is missing. A level of a category becomes its place in `levels`, in
    which None stands for missing; what is not there takes the place `unseen`. A column that changed its type since the
    encoding was learned is refused: its values would all be unseen.
    """

    name: str
    nominal: bool
    levels: list[Any]
    mean: float = 0.0  # what a missing number takes
    spread: float = 1.0
    standard: bool = True  # whether a number is scaled to (number - mean) / spread, or stays as it is
    missing: bool = False  # whether the rows learned from missed some
    ends: Any = (-np.inf, np.inf)
    unseen: float = UNSEEN

    @classmethod
    def learned(
        cls,
        column: Column,
        weight: Floats | None = None,
        *,
        nominal: bool = False,
        filled: bool = False,
        constant: float = 1.0,
        **given: Any,
    ) -> Self:
        """Look at a column of some rows: at the levels that occur, sorted and missing last, or at mean and spread.

        `nominal`: numbers are levels too; `filled`: the spread is that of all rows, missing numbers being at the mean;
        `constant`: the spread of numbers that are all equal. Other fields are as `given`.
        """
        absent = column.missing
        made = cls(column.name, nominal or column.nominal, [], missing=bool(absent.any()), **given)
        if made.nominal:
            # Levels that occur among the rows, in their order, as JSON can hold them, and None for missing.
            known = column.as_levels()
            seen = [known.levels[code] for code in np.unique(known.values) if code >= 0]
            return replace(made, levels=[*seen, *[None] * made.missing])
        values = np.clip(column.values, *made.ends)
        mean, spread = mean_and_spread(values[~absent], None if weight is None else weight[~absent], constant)
        if filled and made.missing:
            spread = mean_and_spread(np.where(absent, mean, values), weight, constant)[1]
        return replace(made, mean=mean, spread=spread if made.standard else 1.0)

    def read(self, columns: Columns) -> Array:
        """The column as numbers, NaN where missing; or as places, whole if `unseen` is."""
        column, known, where = columns.find(self.name), _kinds_of(self.levels), f"'X' column '{self.name}'"
        # Nothing but missing has no type.
        if self.nominal and not column.nominal and ("numbers" in known or column.missing.all()):
            column = column.as_levels()
        if column.nominal != self.nominal:  # numbers became words, or the other way round
            was = "a category" if self.nominal else "numeric"
            raise refusal(f"must be {was}, as it was in fit", where, got=f"now it is {column.kind}")
        if not self.nominal:
            return np.asarray(np.clip(column.values, *self.ends))
        now = _kinds_of(column.levels)
        if known and now and known.isdisjoint(now):
            what = f"must hold {' and '.join(sorted(known))}, as it did in fit"
            raise refusal(what, where, got=f"now it holds {min(now)}")
        place = {level: i for i, level in enumerate(self.levels)}
        table = [place.get(level, self.unseen) for level in (*column.levels, None)]
        return np.array(table)[column.values]  # the last entry serves code -1

    def scaled(self, values: Array) -> tuple[Floats, Array]:
        """Numbers that `read` gave, missing ones at the mean, in units of the spread; and which were missing."""
        absent = np.isnan(values)
        known = np.where(absent, self.mean, values)
        return (known - self.mean) / self.spread if self.standard else known, absent


def _kinds_of(levels: Sequence[Any]) -> set[str]:
    kinds = {type(level) for level in levels if level is not None}
    words = {"truth values": (bool, np.bool_), "numbers": (int, float, np.number)}
    return {
        next((word for word, these in words.items() if issubclass(kind, these)), "text") for kind in kinds
    }


def mean_and_spread(values: Floats, weight: Floats | None, constant: float = 1.0) -> tuple[float, float]:
    """Mean and standard deviation of numbers of any size, which is `constant` where all are equal or there are none."""
    if not values.size:
        return 0.0, constant
    size = float(np.abs(values).max()) or 1.0
    part = values / size
    mean = float(np.average(part, weights=weight))
    spread = float(np.sqrt(np.average((part - mean) ** 2, weights=weight))) * size
    moving = max(1e-14 * abs(mean * size), 1e-290) < spread < np.inf
    return mean * size, spread if moving else constant
