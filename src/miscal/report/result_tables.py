"""One result in a section of an audit, read once: its cells, running totals, curves and maps.

Results come from JSON as often as from memory, and may be damaged or somebody else's: whatever is not what the schema
says becomes nothing here (NaN, no text, no rows), so that nobody need check again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miscal.data.column_types import ColumnType, column_type
from miscal.report.html.markup import ellipsis
from miscal.report.values import Data, Floats, JsonMapping, TableColumns, floats, items, mapping, text
from miscal.report.wording import BECAME, CHANGED, edge, finite, plural, span
from miscal.stats.normal import NORMAL_95

#: Characters of a user's name that page and figures carry; the JSON has it whole.
LONGEST_NAME = 160
DEFAULT_LEVEL = 0.05  # of significance, where an audit does not say another


@dataclass(frozen=True)
class Cells:
    """The rows of a result's table: one entry per bin, range or level; columns that are absent are NaN.

    `gap` is predicted minus observed; `low`, `high` are the edges of a range; `gap_low`, `gap_high` the simultaneous
    interval of the gap; `band_low`, `band_high` the range in which a calibrated model's observed rate would fall;
    `p_value` is the adjusted one where there is one, and `level` what it is judged at.
    """

    level: float
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

    @property
    def size(self) -> Floats:
        """Weight, or rows where there is none."""
        return _known(self.weight, self.rows)

    def take(self, index: NDArray[np.intp]) -> Cells:
        """Keep some cells, in the order given."""
        numbers = (getattr(self, key)[index] for key in _NUMBERS)
        return Cells(self.level, [self.label[i] for i in index], *numbers)

    @cached_property
    def beyond(self) -> NDArray[np.bool_]:
        """Cells beyond noise: by the adjusted p-value, else the interval of the gap, else the band."""
        by_interval = (self.gap_low > 0) | (self.gap_high < 0)
        by_band = (self.observed < self.band_low) | (self.observed > self.band_high)
        without_p = np.where(np.isnan(self.gap_low), by_band, by_interval)
        return np.where(np.isnan(self.p_value), without_p, self.p_value <= self.level)

    def summary(self, noun: str, several: str = "") -> str:
        """How many cells there are, and how many of them have a significant gap.

        Parameters
        ----------
        noun, several : str
            What a cell is called, and what cells are called where that is not the noun and an s.
        """
        return f"{plural(len(self), noun, several)}, {self.beyond.sum()} with a significant gap."

    def strength(self) -> Floats:
        """What orders cells: events off at least (the interval's nearer end) where positive, then raw events off."""
        weight = np.nan_to_num(self.size, nan=1.0)
        gap = self.gap
        least = np.where(gap >= 0, self.gap_low, -self.gap_high) * weight
        raw = np.nan_to_num(np.abs(gap)) * weight
        # The raw ones stand below every bound, in their own order.
        return np.where(least > 0, least, -1.0 / (1.0 + raw))

    def table(self) -> Data:
        """The columns that hold anything, as lists, for the data behind a figure."""
        return {"label": [*self.label], **_listed({key: getattr(self, key) for key in _NUMBERS})}


_NUMBERS = [field.name for field in fields(Cells)][2:]


def _known(numbers: Floats, others: Floats) -> Floats:
    return np.where(np.isnan(numbers), others, numbers)


def _listed(columns: dict[str, Floats]) -> Data:
    return {name: column.tolist() for name, column in columns.items() if np.isfinite(column).any()}


@dataclass(frozen=True)
class CumulativeDifferences:
    """A running total of predicted minus happened, over rows in the order of the score, with the band of its noise.

    share : of the weight up to a point;  total : the sum so far over all weight;  score : at that point
    band : half its width
    size : the exact range, which a walk of few points may not quite reach
    """

    label: str
    share: Floats
    total: Floats
    score: Floats
    band: Floats
    size: float

    @property
    def deviation(self) -> float:
        """Standard deviation of noise at the end of the walk; NaN where there is no band."""
        return float(self.band[-1]) / NORMAL_95

    def in_deviations(self) -> CumulativeDifferences:
        """The same in standard deviations of noise at its end."""
        scaled = {key: getattr(self, key) / self.deviation for key in ("total", "band", "size")}
        return replace(self, **scaled)

    def table(self) -> Data:
        """What is known of its points, for the data behind a figure."""
        every = {"share_of_rows": self.share, "score": self.score, "running_total": self.total}
        return _listed(every | {"noise_low": -self.band, "noise_high": self.band})


@dataclass(frozen=True, eq=False)
class ResultView:
    """One result in a section of the audit.

    table : its columns as they are;  cells : the same read as cells with rates
    column : the column or columns that it is about;  columns : those of a neighbourhood
    """

    name: str
    kind: str
    method: str
    settings: JsonMapping
    extra: JsonMapping
    table: TableColumns
    value: float
    noise_floor: float
    p_value: float
    level: float
    values: JsonMapping

    @classmethod
    def from_dict(cls, values: JsonMapping, level: float = DEFAULT_LEVEL, kind: str = "") -> ResultView:
        """A result from the plain values of `Result.to_dict`, or of its JSON.

        Parameters
        ----------
        values : mapping
        level : float
            At which the audit tests.
        kind : str
            The section that it is in; by default as the values say.
        """
        return cls(
            name=text(values.get("name")),
            kind=kind or text(values.get("kind")),
            method=text(values.get("method")),
            settings=mapping(values.get("settings")),
            extra=mapping(values.get("extra")),
            table=TableColumns(values.get("table")),
            value=finite(values.get("value")),
            noise_floor=finite(values.get("noise_floor")),
            p_value=finite(values.get("p_value")),
            level=level,
            values=values,
        )

    @property
    def columns(self) -> list[str]:
        return [str(name) for name in items(self.settings.get("columns"))]

    @property
    def column(self) -> str:
        asked = [self.settings.get(key) for key in ("column", "variable", "field")]
        named = next(filter(None, [self.extra.get("column"), *asked, self.columns]), self.name)
        return ellipsis(" × ".join(map(str, items(named))) or named, LONGEST_NAME)

    @property
    def every(self) -> str:
        """What its cells are, if they are in order: week or month, as the result of periods says, or range."""
        word = self.extra.get("every")
        return word if word in ("week", "month", "quarter", "year") else "range"

    @property
    def note(self) -> str:
        return text(self.extra.get("note"))

    @cached_property
    def cells(self) -> Cells:
        """The table as cells; ranges are named in words."""
        table = self.table
        columns = {name: floats(table[name]) for name in _NUMBERS}
        columns["rows"] = _known(columns["rows"], columns["weight"])
        columns["p_value"] = floats(table["p_adjusted" if "p_adjusted" in table else "p_value"])
        columns["gap"] = _known(columns["gap"], columns["predicted"] - columns["observed"])
        # A label such as "(1, 2]" only repeats the edges, which read better in words.
        given = self.labels if "low" not in table else []
        named = [_name(label) for label in given] or self._ranges(columns["low"], columns["high"])
        return Cells(self.level, named, **columns)

    def _ranges(self, low: Floats, high: Floats) -> list[str]:
        """Ranges in words."""
        if self.extra.get("integer"):  # the column holds whole numbers only: the first and the last of them
            starts = np.floor(low) + 1
            starts[:1] = _known(np.ceil(low[:1]) + 0.0, starts[:1])
            low = starts
        high = self._column_type.inclusive_high(high)
        return [span(*ends, self.write_edge) for ends in zip(low.tolist(), high.tolist(), strict=True)]

    @property
    def labels(self) -> list[Any]:
        """The names of its cells as the data have them; none where they are ranges alone."""
        return self.table.get("label") or self.table.get("level") or []

    def write_edge(self, value: float) -> str:
        """An edge of this column in words: as a date where its numbers are days since 1970."""
        return self._column_type.value_text(value, edge)

    @property
    def _column_type(self) -> ColumnType:
        return column_type(str(self.extra.get("column_kind")))

    def period_summary(self) -> str:
        """How many periods are significantly miscalibrated, and how many steps changed significantly."""
        verdicts = self.table["verdict"]
        n_significant = sum(finite(p) <= self.level for p in self.table["p_adjusted"])
        periods = plural(len(verdicts) - verdicts.count("no date"), self.every)
        text = f"Significant miscalibration in {n_significant} of {periods}."
        if not n_significant:
            text = f"No significant miscalibration in any of {periods}."
        counts = {verdict: verdicts.count(verdict) for verdict in CHANGED}
        steps = sum(counts.values()) + verdicts.count("same")
        changes = ", ".join(f"{many} {BECAME[verdict]}" for verdict, many in counts.items() if many)
        if not steps:
            return f"{text} No two of them could be compared."
        return f"{text} Of {plural(steps, 'step')} that could be compared, {changes or 'none changed significantly'}."

    def changed(self, most: int) -> tuple[list[str], int]:
        """The sentences of the `most` largest significant steps, ordered by time, and how many others there are."""
        said = self.table["words"]
        change = floats(self.table["change"])
        found = [i for i, verdict in enumerate(self.table["verdict"]) if verdict in CHANGED and said[i]]
        largest = sorted(found, key=lambda i: -abs(change[i]))[:most]
        return [str(said[i]) for i in sorted(largest)], len(found) - len(largest)

    @cached_property
    def worst(self) -> tuple[str, float]:
        """The place where a column is worst, the strongest of its cells, and its gap."""
        every = self.cells
        if np.isnan(every.gap).all():
            return "", math.nan
        cell = np.argmax(np.where(np.isnan(every.gap), -np.inf, every.strength()))
        return every.label[cell], every.gap[cell]

    @property
    def strength(self) -> float:
        """Value over its noise floor: what orders the columns in which nothing was found."""
        strength = self.value / (self.noise_floor if self.noise_floor > 0 else 1.0)
        return -1.0 if math.isnan(strength) else strength

    @cached_property
    def walks(self) -> list[CumulativeDifferences]:
        """The running total along the score, or those of subpopulations."""
        given = self.extra.get("cumulative")
        size = finite(self.extra.get("kuiper"))
        every: list[CumulativeDifferences] = []
        for curve in map(mapping, items(given) or [given]):
            table = TableColumns(curve)
            points = np.array([floats(table[key]) for key in ("x", "y", "score", "band")])
            # Those that are numbers.
            share, total, score, band = points[:, np.isfinite(points[:2]).all(axis=0)]
            exact = float(np.ptp(np.append(total, 0.0))) if math.isnan(size) else size
            if len(share):
                every.append(
                    CumulativeDifferences(text(curve.get("label")), share, total, score, band, exact)
                )
        return every

    @cached_property
    def curve(self) -> dict[str, Floats]:
        """The smooth curve of what happened with its band; empty where the audit has none."""
        given = TableColumns(self.extra.get("curve"))
        names = ("value", "observed", "observed_low", "observed_high")
        return {name: floats(given[name]) for name in names} if given.rows > 1 else {}

    @property
    def grid(self) -> dict[str, Floats]:
        """The map of a neighbourhood: edges x and y, and of each cell (lowest y first) its gap, deviations and rows.

        Empty where there is none.
        """
        given = mapping(self.extra.get("grid"))
        x = floats(given.get("x"))
        y = floats(given.get("y"))
        grid = {"x": x, "y": y}
        wide, high = len(x) - 1, len(y) - 1
        for key in ("gap", "deviations", "rows"):
            lines = [floats(line) for line in items(given.get(key))]
            if min(wide, high) < 1 or [len(line) for line in lines] != [wide] * high:
                return {}
            grid[key] = np.array(lines)
        return grid


def _name(item: object) -> str:
    named = item is not None and not (isinstance(item, float) and math.isnan(item))
    return (named and ellipsis(item, LONGEST_NAME)) or "missing"
