"""Walk: the partial sums of residuals over rows ordered by a key, kept as total, highest and lowest.

The residual of a row is w * (observed - predicted). Partial sums are taken only between distinct keys, so the order
of tied rows does not matter. The range, highest minus lowest, is Kuiper's statistic times the total weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from miscal.data.errors import refusal


@dataclass(frozen=True)
class Walk:
    """Summary of a walk.

    Attributes
    ----------
    total, highest, lowest : partial sum at the end, its highest and lowest value (the start, 0, included)
    weight : Σw;  variance : Σw²p(1-p);  rows : how many
    expected : Σ of predicted and Σ of (1 - predicted) over rows, unweighted: events expected on both sides
    distinct : number of distinct keys, counted up to a limit
    highest_at, lowest_at : the last key before the walk stands there; NaN at the start
    first, last : smallest and largest key
    """

    total: float
    highest: float
    lowest: float
    weight: float
    variance: float
    rows: int
    expected: tuple[float, float]
    distinct: int
    highest_at: float = math.nan
    lowest_at: float = math.nan
    first: float = math.nan
    last: float = math.nan

    @property
    def range(self) -> float:
        """Highest minus lowest, divided by the weight: Kuiper's calibration error."""
        return (self.highest - self.lowest) / self.weight

    @property
    def deviation(self) -> float:
        """Standard deviation of the walk's end under calibration, divided by the weight."""
        return math.sqrt(self.variance) / self.weight

    def __add__(self, after: Walk) -> Walk:
        """Walk on: all keys of `after` must lie above all keys of this one."""
        if not isinstance(after, Walk):
            return NotImplemented
        if not self.last < after.first:
            raise refusal(
                "must follow one another without overlap to be added",
                where="the walks' keys",
                got=f"one ends at {self.last}, the next starts at {after.first}",
                hint="cut the rows between distinct keys",
            )
        high, low = self.total + after.highest, self.total + after.lowest
        return Walk(
            total=self.total + after.total,
            highest=max(self.highest, high),
            lowest=min(self.lowest, low),
            weight=self.weight + after.weight,
            variance=self.variance + after.variance,
            rows=self.rows + after.rows,
            expected=(self.expected[0] + after.expected[0], self.expected[1] + after.expected[1]),
            distinct=self.distinct + after.distinct,
            highest_at=self.highest_at if self.highest >= high else _or(after.highest_at, self.last),
            lowest_at=self.lowest_at if self.lowest <= low else _or(after.lowest_at, self.last),
            first=self.first,
            last=after.last,
        )


def _or(key: float, otherwise: float) -> float:
    return otherwise if math.isnan(key) else key
