"""From a column to a pooling: numbers into ranges, levels as they are, several columns crossed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from miscal.data.columns import Column
from miscal.data.errors import check_named, refusal
from miscal.pooling.bins import edges_for, quantile_edges
from miscal.pooling.cells import Levels, Ranges
from miscal.pooling.poolings import BinPooling, LevelPooling, Pooling, ProductPooling


def range_pooling(
    column: Column,
    bins: int | Sequence[float] | np.ndarray = 10,
    strategy: str = "quantile",
    *,
    weight: np.ndarray | None = None,
    count: np.ndarray | None = None,
    separate_common: bool = True,
) -> Pooling:
    """Ranges of a numeric column, missing a range of its own; a nominal column keeps its levels.

    Fewer distinct values than bins give one range for each. All values missing is one cell. With `separate_common` a
    lowest value that fills whole bins by itself (95% zeros) has its own range; without, equal edges are only merged.
    """
    if column.nominal:
        return level_pooling(column)
    values = np.ascontiguousarray(column.values, dtype=np.float64)
    missing = np.isnan(values)
    some = bool(missing.any())
    if missing.all():
        return LevelPooling(np.full(values.size, -1, np.int32), Levels((), missing=True, name=column.name))
    known = values[~missing] if some else values
    weight = weight[~missing] if some and weight is not None else weight
    count = count[~missing] if some and count is not None else count
    edges = value_edges(known, bins, strategy, weight, count, separate_common=separate_common)
    return BinPooling(values, Ranges(edges, missing=some, name=column.name))


def value_edges(
    known: np.ndarray,
    bins: int | Sequence[float] | np.ndarray,
    strategy: str,
    weight: np.ndarray | None,
    count: np.ndarray | None,
    *,
    separate_common: bool = True,
) -> np.ndarray:
    """Edges for a variable: one range a distinct value where there are few, and one for a very common lowest value."""
    if isinstance(bins, (int, np.integer)) and strategy == "quantile" and not isinstance(bins, bool) and bins >= 1:
        from miscal.kernels.buckets import distinct_up_to

        if distinct_up_to(known, int(bins) + 1) <= bins:
            distinct = np.unique(known) + 0.0
            return np.append(distinct[0], distinct) if distinct.size == 1 else _between(distinct)
    low, high = float(known.min()), float(known.max())
    if not (isinstance(bins, (int, np.integer)) and strategy == "quantile" and bins >= 1):
        return edges_for(known, bins, strategy, low=low, high=high, weight=weight, count=count)
    edges = quantile_edges(known, int(bins), weight, count)
    if separate_common and edges.size <= bins and np.mean(known == low) >= 1.0 / int(bins):
        edges = np.concatenate([[np.nextafter(low, -np.inf)], edges])
    return edges


def _between(distinct: np.ndarray) -> np.ndarray:
    """Edges such that each distinct value has a right-closed range of its own, ending at the value."""
    below = np.nextafter(distinct[0], -np.inf)
    return np.concatenate([[below], distinct])


def level_pooling(column: Column) -> LevelPooling:
    """Levels of a column; each distinct number of a numeric column is a level, missing is a level of its own."""
    levels = column.as_levels()
    codes = levels.values
    names = tuple(str(name) for name in levels.levels)
    return LevelPooling(codes, Levels(names, missing=bool((codes < 0).any()), name=column.name))


def crossed(parts: Sequence[Pooling], limit: int = 10_000_000) -> Pooling:
    """Every combination of the parts' cells."""
    if len(parts) == 1:
        return parts[0]
    cells = int(np.prod([float(part.cells.count) for part in parts]))
    if cells > limit:
        raise refusal(
            f"must have at most {limit:,} combinations",
            where="the crossed columns",
            got=f"they have {cells:,}",
            hint="cross fewer columns, or columns with fewer levels",
        )
    return ProductPooling(tuple(parts))


def named_columns(columns: Any, names: str | Sequence[str]) -> list[Column]:
    """The columns of these names."""
    wanted = [names] if isinstance(names, str) else list(names)
    check_named(wanted, columns, "the data", columns)
    return [columns[name] for name in wanted]
