"""What is predicted: an event, a number, or a count; and the units in which numbers that are no probabilities add.

Sums put every value on one grid in [0, 1]. Outcomes and predictions of another response are brought there by a power of
two, which changes no digit of them, and results come back by the same power: whatever is said of probabilities below
the door is then said of any mean.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.codes.data import Response
from miscal.data import checks
from miscal.data.arrays import Array, Floats, Plain, Vector, flat
from miscal.data.errors import parameter

RESPONSES = ("binary", "real", "count")
LARGEST = 1e100  # squares of values and their sums must stay finite
# Columns that are means; those that are differences:
SHIFTED = ("predicted", "observed", "band_low", "band_high")
SCALED = (
    "gap",
    "gap_low",
    "gap_high",
    "error",
    "detectable",
    "events_off",
    "gap_beyond_score",
    "standard_error",
    "kuiper",
    "deviation",
    "scaled",
    "expected",
    "interval_off",
)


def needed_response(*choices: Response) -> str:
    """The responses that are needed, as messages name them."""
    return " or ".join(parameter("response", f"'{choice}'") for choice in choices)


def check_response(response: Any) -> str:
    """One of the three words."""
    checks.one_of("response", response, RESPONSES)
    return str(response)


@dataclass(frozen=True)
class Units:
    """Where values lie on the grid: (value - low) / scale is in [0, 1], and `scale` a power of two."""

    scale: float = 1.0
    low: float = 0.0

    @classmethod
    def of(cls, least: float, most: float) -> "Units":
        """The smallest that hold values from `least` to `most`.

        >>> Units.of(0.0, 1.0), Units.of(0.2, 5.0), Units.of(-3.0, 1.0)
        (Units(scale=1.0, low=0.0), Units(scale=8.0, low=0.0), Units(scale=8.0, low=-4.0))
        """
        part, power = math.frexp(max(abs(least), abs(most)))
        scale = math.ldexp(1.0, power - (part == 0.5))
        return cls(2.0 * scale, -scale) if least < 0.0 else cls(scale)

    @classmethod
    def holding(cls, *arrays: Array) -> "Units":
        """Those of all values of some arrays."""
        least = min(each.min(initial=0.0) for each in arrays)
        return cls.of(least, max(each.max(initial=0.0) for each in arrays))

    def inside(self, values: Array) -> Floats:
        """Values on the grid."""
        values = np.asarray(values, dtype=np.float64)
        return values if self == Units() else (values - self.low) / self.scale

    def back(self, values: Any) -> Any:
        """Means on the grid as means of values."""
        return values * self.scale + self.low if self.low else values * self.scale

    def of_cells(self, columns: Plain) -> Plain:
        """The columns of a table of cells, each as a mean, as a difference of means, or as it is."""
        made = columns | {
            name: self.back(np.asarray(columns[name], np.float64)) for name in SHIFTED if name in columns
        }
        made |= {name: np.asarray(made[name], np.float64) * self.scale for name in SCALED if name in made}
        if self.low and "ratio" in made:
            with np.errstate(divide="ignore", invalid="ignore"):
                made["ratio"] = made["predicted"] / made["observed"]
        return made


def numbers(thing: Vector, where: str, *, count: bool = False) -> Floats:
    """Validate outcomes or predictions that are numbers: finite, and whole and not negative for counts."""
    vector = flat(thing, where)
    if isinstance(vector, np.ndarray) and vector.dtype == np.bool_:
        vector = vector.astype(np.float64)
    what = "must hold numbers, finite, below 1e100 and none missing"
    values = checks.bounded(vector, where, what, -LARGEST, LARGEST, "drop these rows or mend them")
    if count:
        bad = (values < 0.0) | (values != np.floor(values))
        hint = f"amounts? use {needed_response(Response.REAL)}"
        checks.refuse_rows(bad, "must hold whole numbers, 0 or more", where, values, hint)
    return values
