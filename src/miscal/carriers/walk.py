"""Walk: the partial sums of residuals over rows ordered by a key, kept as total, highest and lowest.

The residual of a row is w * (observed - predicted). Partial sums are taken only between distinct keys, so the order
of tied rows does not matter. The range, highest minus lowest, is Kuiper's statistic times the total weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


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
    first : smallest key
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

    @property
    def range(self) -> float:
        """Highest minus lowest, divided by the weight: Kuiper's calibration error."""
        return (self.highest - self.lowest) / self.weight

    @property
    def deviation(self) -> float:
        """Standard deviation of the walk's end under calibration, divided by the weight."""
        return math.sqrt(self.variance) / self.weight
