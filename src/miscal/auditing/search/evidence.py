"""What the rows say of a candidate: its sums, as predicted and after global recalibration, and its profile by score.

The rule: evidence is numbers that add. The same sums come from rows in memory, from parts of a table and from a
cluster, and nothing here decides what they mean (`judge` does). Evidence is frozen and carries the id of its candidate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from miscal.stats.cell_sums import CellSums, Floats

SegmentId = tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class ScoreProfile:
    """Sums of segments in cells of the score, arrays of shape (..., cells of the score).

    Attributes
    ----------
    rows, weight : ndarray
        Number of rows, and their weight.
    predicted, observed : ndarray
        Sums of w·p and of w·y.
    noise : ndarray
        Variance of Σw(y - p) under the null model.
    usual : ndarray
        The least variance that is usual in the table where outcomes are not events, else 0.
    """

    rows: Floats
    weight: Floats
    predicted: Floats
    observed: Floats
    noise: Floats
    usual: Floats

    @property
    def variance(self) -> Floats:
        """Variance of Σw(y - p)."""
        return np.maximum(self.noise, self.usual)

    @property
    def off(self) -> Floats:
        """Σw(p - y)."""
        return self.predicted - self.observed

    def map(self, change: Callable[[Floats], Any]) -> "ScoreProfile":
        """Apply the same change to each of the sums."""
        return ScoreProfile(*map(change, vars(self).values()))


class RawAndRecalibrated(NamedTuple):
    """Score profiles as predicted, and after global recalibration."""

    raw: ScoreProfile
    recalibrated: ScoreProfile

    def select(self, *, recalibrated: bool) -> ScoreProfile:
        """One of the two."""
        return self.recalibrated if recalibrated else self.raw

    def map(self, change: Callable[[Floats], Any]) -> "RawAndRecalibrated":
        """Apply the same change to the sums of both."""
        return RawAndRecalibrated(self.raw.map(change), self.recalibrated.map(change))


@dataclass(frozen=True, eq=False)
class Evidence:
    """The sums of one candidate.

    Attributes
    ----------
    candidate_id : tuple
        Whose sums these are.
    raw, recalibrated : CellSums
        Sums of its rows as one cell, as predicted and after global recalibration.
    score_profile : RawAndRecalibrated or None
        The same in cells of the score; None where they were not collected.
    """

    candidate_id: SegmentId
    raw: CellSums
    recalibrated: CellSums
    score_profile: RawAndRecalibrated | None = None

    def sums(self, *, recalibrated: bool) -> CellSums:
        """One of the two sums."""
        return self.recalibrated if recalibrated else self.raw
