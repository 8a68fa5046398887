"""Edges of bins: equal width, equal support, or given; and which bin each value falls in."""

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np

from miscal.data.arrays import Array
from miscal.data.checks import number, one_of
from miscal.data.errors import refusal, refusing, warn
from miscal.kernels.order import bucket_codes, edge_cells, edge_index
from miscal.kernels.sorting import BucketMap, order_statistics, sorted_order

Bins = int | Sequence[float] | np.ndarray
Weight = Array | None
MANY, WORTH = 24, 500_000  # edges, and edges times values, from which on buckets beat counting
BUCKETS = 8  # for each edge: hardly any holds two
GRID_CELLS = 1024  # of a variable, beside the edges that are asked for


def numbered(bins: Bins) -> TypeGuard[int]:
    """Whether bins are given by their number, and not by their edges."""
    return isinstance(bins, (int, np.integer)) and not isinstance(bins, bool)


def uniform_edges(bins: int, low: float, high: float) -> Array:
    """Equal-width edges low + (high - low) * m / bins; the last is `high` itself.

    >>> uniform_edges(4, 0.0, 1.0)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    edges = low + (high - low) * np.arange(bins + 1) / bins
    edges[-1] = high
    return edges


def quantile_edges(
    values: Array, bins: int, weight: Weight = None, count: Weight = None, *, apart: bool = False
) -> Array:
    """Edges that put about equally much in each bin; duplicates are merged, so ties are never split.

    apart : the lowest value has a bin of its own where it fills one, as the highest always has

    Linear interpolation between order statistics when weights are equal (as `numpy.quantile`), the inverted weighted
    distribution function otherwise. At least two edges come back; two equal ones when all values are equal.
    """
    shares = np.arange(bins + 1) / bins
    if weight is None or (weight == weight[0]).all():
        total = values.size if count is None else int(count.sum())
        found = order_statistics(values, quantile_ranks(shares, total), count)
        edges = interpolated(found, shares, total)
    else:
        order = sorted_order(values)
        cumulated = np.cumsum((weight if count is None else weight * count)[order])
        places = np.searchsorted(cumulated, shares * cumulated[-1], side="left")
        edges = values[order[np.minimum(places, values.size - 1)]]
    filled = apart and edges.size > 2 and edges[1] == edges[0] < edges[-1]
    edges = np.unique(edges) + 0.0  # -0.0 becomes 0.0: which of them stands at an edge is chance
    if filled:
        edges = np.append(np.nextafter(edges[0], -np.inf), edges)
    return edges if edges.size > 1 else np.repeat(edges, 2)


def quantile_ranks(shares: Array, total: int) -> Array:
    """The 0-based ranks just below, then those just above, each quantile of `total` rows."""
    below = np.floor(shares * (total - 1)).astype(np.int64)
    return np.concatenate([below, np.minimum(below + 1, total - 1)])


def interpolated(found: Array, shares: Array, total: int) -> Array:
    """Quantiles from the values at `quantile_ranks`, by linear interpolation."""
    low, high = found[: shares.size], found[shares.size :]
    places = shares * (total - 1)
    part = places - np.floor(places)
    rise = high - low
    # Computed from the nearer end, so that part = 0 and part = 1 give the values themselves.
    return np.asarray(np.where(part < 0.5, low + rise * part, high - rise * (1.0 - part)))


def ends_of(range: Any) -> tuple[float, float]:  # noqa: A002
    """Both ends of a range that the user gave."""
    what, got = "must be (low, high) with low < high", f"it is {range!r}"
    with refusing(what, "'range'", got=got):
        low, high = range
    if not number("range", low, -np.inf) < number("range", high, -np.inf):
        raise refusal(what, "'range'", got=got)
    return float(low), float(high)


def edges_for(
    values: Array,
    bins: Bins,
    strategy: str,
    *,
    low: float,
    high: float,
    weight: Weight = None,
    count: Weight = None,
    apart: bool = False,
) -> Array:
    """The edges that `bins`, `strategy` and `range` ask for, with a warning when fewer bins were possible."""
    if not numbered(bins):
        return given_edges(bins)
    asked = int(bins)
    if asked < 1:
        raise refusal("must be at least 1", "'bins'", got=f"it is {bins}")
    if strategy == "uniform":
        return uniform_edges(asked, low, high) if high > low else np.array([low, high])
    one_of("strategy", strategy, ("uniform", "quantile"))
    edges = quantile_edges(values, asked, weight, count, apart=apart)
    if edges.size - 1 < values.size:
        warn_of_merged(asked, edges.size - 1)
    return edges


def warn_of_merged(asked: int, left: int) -> None:
    """Warn when ties left fewer bins than asked for."""
    if left < asked:
        warn(f"{asked} bins were asked for; ties leave {left}.")


def given_edges(bins: object) -> Array:
    """Check edges that the user gave."""
    with refusing(
        "must be a whole number or increasing edges",
        "'bins'",
        got=f"it is {bins!r}",
        hint="give a number of bins, or edges such as [0, 0.5, 1]",
    ):
        edges = np.asarray(bins, dtype=np.float64)
        several = edges.ndim == 1 and edges.size > 1
        if not (several and (np.diff(edges) > 0).all() and np.isfinite(edges).all()):
            raise ValueError(bins)
    return edges


class EdgeIndex:
    """How many of some increasing edges lie strictly below a value, found by a bucket of the value and a look or two.

    The code of NaN is one more than any number of edges.
    """

    def __init__(self, edges: Array) -> None:
        self.edges = edges = np.ascontiguousarray(edges, np.float64)
        if edges.size == 0:
            return
        buckets = min(64 + BUCKETS * edges.size, 1 << 17)
        self._buckets = BucketMap(edges, buckets).arguments
        own = np.empty(edges.size, np.int32)
        bucket_codes(edges, *self._buckets, own)
        lower = np.searchsorted(own, np.arange(buckets + 1)).astype(np.int32)
        lower[-1] = edges.size + 1
        self._within = lower, np.append(edges, [np.inf, np.inf])

    def codes(self, values: Array, out: Array) -> None:
        """Write the code of each value, int32."""
        if self.edges.size == 0:
            out[:] = np.isnan(values)
        else:
            bucket_codes(values, *self._buckets, out)
            edge_cells(values, *self._within, out)


def bin_index(values: Array, edges: Array) -> Array:
    """The bin of each value as int32: the number of interior edges strictly below it.

    >>> bin_index(np.array([0.0, 0.5, 0.51, 2.0]), np.array([0.0, 0.5, 1.0])).tolist()
    [0, 0, 1, 1]
    """
    codes = np.empty(values.size, np.int32)
    if len(edges) > MANY and len(edges) * values.size > WORTH:
        EdgeIndex(edges[1:-1]).codes(np.ascontiguousarray(values, float), codes)
    else:
        edge_index(values, edges, codes)
    return codes


def even_groups(rows: Array, groups: int) -> Array:
    """The group of each of some neighbours in order: at most so many of about equally many rows, none of them empty.

    >>> even_groups(np.array([5, 1, 1, 1, 8]), 2).tolist()
    [0, 0, 0, 0, 1]
    """
    middle = np.cumsum(rows) - 0.5 * rows
    place = np.minimum((groups * middle / max(rows.sum(), 1e-300)).astype(np.int64), groups - 1)
    return np.unique(place, return_inverse=True)[1]


def grid_quantiles(known: Array) -> Array:
    """The quantiles of a variable's fine grid, beside which the edges that are asked for stand.

    >>> grid_quantiles(np.array([-1.7e308, 1.7e308]))[[0, 512, 1024]].tolist()
    [-1.7e+308, 0.0, 1.7e+308]
    """
    # Of half the values: between the largest numbers of either sign lies more than a number holds.
    return 2.0 * np.quantile(0.5 * known, np.linspace(0.0, 1.0, GRID_CELLS + 1))


def united(edges: Array, *others: Array) -> Array:
    """Edges and others, increasing; those of a single value stay one range, from itself to itself.

    >>> united(np.array([0.0, 1.0]), np.array([0.5])).tolist()
    [0.0, 0.5, 1.0]
    >>> united(np.array([3.0, 3.0]), np.empty(0)).tolist()
    [3.0, 3.0]
    """
    every = np.unique(np.concatenate([edges, *others]) + 0.0)
    return every if every.size > 1 else edges


def shared_edges(edges: Array) -> Array:
    """Round edges that any two tables share: multiples of 1 or 5 times a power of ten, within the given edges.

    5 to 25 of them lie between the quartiles of the given ones. Steps nest, and numbers are made from their digits, so
    that the bits of common edges agree; whole numbers are not cut finer than themselves.

    >>> shared_edges(np.array([0.0, 0.2, 0.7, 1.3])).tolist()
    [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2]
    """
    if not np.isfinite(edges).all():  # of nothing but missing values
        return np.empty(0)
    low, high = (2.0 * np.quantile(0.5 * edges, [0.25, 0.75])).tolist()
    room = high - low
    if not 1e-290 < room < 1e290:
        return np.empty(0)
    power = math.floor(math.log10(room / 5.0))
    unit = 5 if 5.0 * 10.0**power <= room / 5.0 else 1
    if power < 0 and (edges == np.floor(edges)).all():
        unit, power = 1, 0
    step = unit * 10.0**power
    first = math.floor(max(low - room, edges[0]) / step)
    last = math.ceil(min(high + room, edges[-1]) / step)
    made = np.unique([float(f"{unit * number}e{power}") for number in range(first, last + 1)])
    return np.asarray(made[(made > edges[0]) & (made < edges[-1])])
