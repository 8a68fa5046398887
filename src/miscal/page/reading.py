"""Reading the audit's dictionary: the shapes that page, figures and markdown rely on, in one place.

The dictionary comes from JSON as often as from memory, so everything here tolerates None for NaN, lists for arrays and
keys that are absent. Nothing is computed that the dictionary does not hold, apart from sums over its own tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miscal.data.errors import refusal
from miscal.page.markup import ellipsis
from miscal.page.words import finite

#: Characters of a user's name that page and figures carry; the JSON has it whole.
LONGEST_NAME = 160
SCHEMA = "miscal.audit/1"
Floats = NDArray[np.float64]
Document = Mapping[str, Any]

#: Names under which a table may hold each column; the first is the name that `cells` gives back.
_ALIASES = {
    "rows": ("rows", "n_rows", "n"),
    "weight": ("weight", "sum_weight"),
    "predicted": ("predicted", "mean_predicted"),
    "observed": ("observed", "mean_observed"),
    "gap": ("gap",),
    "gap_low": ("gap_low", "interval_low"),
    "gap_high": ("gap_high", "interval_high"),
    "band_low": ("band_low", "consistency_low", "null_low"),
    "band_high": ("band_high", "consistency_high", "null_high"),
    "low": ("low", "from", "lower", "edge_low"),
    "high": ("high", "to", "upper", "edge_high"),
    "p_value": ("p_adjusted", "adjusted_p_value", "p_value"),
}
_BRACKETS = re.compile(r"^[\[(].*, .*[\])]$")
_LABELS = ("label", "level", "cell", "range", "bin", "where", "name")


def checked(document: object) -> Document:
    """Refuse what is not an audit's dictionary.

    Examples
    --------
    >>> checked({"schema": "miscal.audit/1"})["schema"]
    'miscal.audit/1'
    """
    if not isinstance(document, Mapping):
        raise refusal("must be the dictionary of an audit", where="document", got=f"found {type(document).__name__}")
    schema = document.get("schema")
    if schema != SCHEMA:
        raise refusal(f"must have the schema '{SCHEMA}'", where="document", got=f"found {schema!r}")
    return document


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """The value as a list: a sequence's items, nothing for None, a mapping's values."""
    if value is None or isinstance(value, str):
        return []
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, (Sequence, np.ndarray)) else []


def floats(value: object) -> Floats:
    """An array of floats, None and text as NaN.

    Examples
    --------
    >>> floats([1, None, "x"])
    array([ 1., nan, nan])
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return value.astype(np.float64)
    return np.array([finite(item) for item in items(value)], dtype=np.float64)


@dataclass(frozen=True)
class Cells:
    """The rows of a result's table: one entry per bin, range or level; columns that are absent are NaN."""

    label: list[str]
    rows: Floats
    weight: Floats
    predicted: Floats
    observed: Floats
    gap: Floats
    gap_low: Floats
    gap_high: Floats
    band_low: Floats
    band_high: Floats
    low: Floats
    high: Floats
    p_value: Floats

    def __len__(self) -> int:
        return len(self.label)

    def take(self, index: NDArray[np.intp]) -> Cells:
        """Keep some cells, in the order given."""
        columns = {key: getattr(self, key)[index] for key in _ALIASES}
        return Cells(label=[self.label[i] for i in index], **columns)

    def beyond(self, level: float) -> NDArray[np.bool_]:
        """Cells beyond noise: by the adjusted p-value, else the interval of the gap, else the band."""
        by_interval = (self.gap_low > 0) | (self.gap_high < 0)
        by_band = (self.observed < self.band_low) | (self.observed > self.band_high)
        without_p = np.where(np.isnan(self.gap_low), by_band, by_interval)
        return np.asarray(np.where(np.isnan(self.p_value), without_p, self.p_value <= level), dtype=bool)

    def strength(self) -> Floats:
        """What orders cells: events off at least (the interval's nearer end) where positive, then raw events off."""
        weight = np.nan_to_num(np.where(np.isnan(self.weight), self.rows, self.weight), nan=1.0)
        least = np.where(self.gap >= 0, self.gap_low, -self.gap_high) * weight
        raw = np.nan_to_num(np.abs(self.gap)) * weight
        return np.asarray(
            np.where(least > 0, least, -1.0 / (1.0 + raw)), dtype=np.float64
        )  # the raw ones below every bound, in their own order

    def table(self) -> dict[str, list[object]]:
        """The columns that hold anything, as lists, for the data behind a figure."""
        kept: dict[str, list[object]] = {"label": list(self.label)}
        for key in _ALIASES:
            column = getattr(self, key)
            if not np.isnan(column).all():
                kept[key] = [None if np.isnan(item) else float(item) for item in column]
        return kept


def cells(result: Mapping[str, Any]) -> Cells:
    """Read a result's table, whatever subset of the columns it has.

    Conventions: `gap` is predicted minus observed and is filled in from the two where absent; `low`, `high` are the
    edges of a range; `gap_low`, `gap_high` the simultaneous interval of the gap; `band_low`, `band_high` the range in
    which a calibrated model's observed rate would fall.
    """
    table = mapping(result.get("table"))
    found = {key: _first(table, names) for key, names in _ALIASES.items()}
    labels = _first(table, _LABELS)
    sizes = [len(items(column)) for column in (*found.values(), labels) if column is not None]
    size = max(sizes, default=0)
    columns = {key: _fitted(column, size) for key, column in found.items()}
    columns["gap"] = np.where(np.isnan(columns["gap"]), columns["predicted"] - columns["observed"], columns["gap"])
    write = edge_writer(result)
    starts = _integer_starts(columns["low"]) if is_integer(result) else columns["low"]
    ends = _last_days(columns["high"]) if _is_date(result) else columns["high"]
    ranges = [_range(low, high, write) for low, high in zip(starts, ends, strict=True)]
    names = [_name(item) for item in items(labels)] + [""] * size
    # A label such as "(1, 2]" only repeats the edges, which read better in words.
    label = [own if own and not _BRACKETS.match(own) else words for own, words in zip(names, ranges, strict=False)]
    return Cells(label=label, **columns)


def _name(item: object) -> str:
    return "missing" if item is None or (isinstance(item, float) and np.isnan(item)) else ellipsis(item, LONGEST_NAME)


def _first(table: Mapping[str, Any], names: Sequence[str]) -> object:
    return next((table[name] for name in names if name in table and table[name] is not None), None)


def _fitted(column: object, size: int) -> Floats:
    values = floats(column) if column is not None else np.empty(0)
    return np.concatenate([values, np.full(size - len(values), np.nan)]) if len(values) < size else values


def edge_writer(result: Mapping[str, Any]) -> Callable[[float], str]:
    """How to write an edge of this column: as a date where `extra["column_kind"]` says so (days since 1970)."""
    if _is_date(result):
        return lambda days: str(np.datetime64("1970-01-01") + np.timedelta64(int(np.floor(days + 1e-6)), "D"))
    return _number


def padded(table: Mapping[str, Any], name: str, many: int) -> list[Any]:
    """A column of a table in a document, as long as the table; None where the document has nothing."""
    return [*items(table.get(name)), *[None] * many][:many]


def _is_date(result: Mapping[str, Any]) -> bool:
    return bool(mapping(result.get("extra")).get("column_kind") == "date")


def is_integer(result: Mapping[str, Any]) -> bool:
    """Whether the column holds whole numbers only, so that its ranges name the first and the last of them."""
    return bool(mapping(result.get("extra")).get("integer"))


def _integer_starts(low: Floats) -> Floats:
    """The first whole number of each right-closed range; the lowest range includes its lower edge."""
    starts = np.floor(low) + 1
    if len(low) and np.isfinite(low[0]):
        starts[0] = np.ceil(low[0]) + 0.0
    return starts


def _last_days(high: Floats) -> Floats:
    """The last day of ranges that end just before the first moment of the next; other ends stay.

    >>> _last_days(np.array([np.nextafter(31.0, 0.0), 12.5])).tolist()
    [30.0, 12.5]
    """
    after = np.ceil(high)
    return np.where((after > high) & (after - high < 1e-6), after - 1.0, high)


def _number(value: float) -> str:
    if abs(value) < 1e-300:  # an edge moved off 0 by the least possible amount, so that a tie at 0 has its own range
        return "0"
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _range(low: float, high: float, write: Callable[[float], str]) -> str:
    if np.isnan(low) and np.isnan(high):
        return "missing"
    if np.isnan(low):
        return f"up to {write(high)}"
    if np.isnan(high):
        return f"above {write(low)}"
    first, last = write(low), write(high)
    return last if low >= high or first == last else f"{first} to {last}"


def column_name(result: Mapping[str, Any]) -> str:
    """The column or columns that a result is about."""
    settings, extra = mapping(result.get("settings")), mapping(result.get("extra"))
    for source, key in (
        (extra, "column"),
        (settings, "column"),
        (settings, "variable"),
        (settings, "field"),
        (settings, "columns"),
    ):
        value = source.get(key)
        if isinstance(value, (list, tuple)) and value:
            return ellipsis(" × ".join(str(item) for item in value), LONGEST_NAME)
        if value is not None and not isinstance(value, (list, tuple, dict)):
            return ellipsis(value, LONGEST_NAME)
    return ellipsis(result.get("name", ""), LONGEST_NAME)
