"""What the generators return, and the checks of their parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from miscal.data.errors import refusal

if TYPE_CHECKING:
    from miscal.data.predictions import Predictions

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Synthetic:
    """Outcomes drawn from known probabilities, with predictions that are right or wrong by a known amount.

    Attributes
    ----------
    y_true : array (n,)
        0 or 1, or the class 0..K-1; drawn from ``truth``.
    y_prob : array (n,) or (n, K)
        What the model is said to predict.
    truth : array, shaped like y_prob
        The probability that the outcome was drawn from, given everything but a cluster's own effect.
    columns : mapping of name to array (n,)
        What the rows can be pooled by.
    where : str
        The planted place in words; "nowhere" for calibrated data, "everywhere" for a distorted score.
    planted : boolean array (n,)
        The rows of that place.
    gap : float
        Mean of predicted - true over the planted rows: the amount that a perfect audit of endless data would report.
        0 where nothing is planted.
    weight, cluster : array (n,) or None
        Sampling weights; codes of the clusters.
    """

    y_true: Codes
    y_prob: Floats
    truth: Floats
    columns: Mapping[str, npt.NDArray[Any]]
    where: str
    planted: Booleans
    gap: float
    weight: Floats | None = None
    cluster: Codes | None = None

    def predictions(self) -> Predictions:
        """Return the same data as validated predictions."""
        from miscal.data.predictions import Predictions

        return Predictions(
            self.y_true, self.y_prob, weight=self.weight, cluster=self.cluster, columns=dict(self.columns)
        )

    def __repr__(self) -> str:
        return f"Synthetic({len(self.y_true)} rows, where={self.where!r}, gap={self.gap:.4g})"


def whole(name: str, value: object, least: int) -> int:
    """Return a parameter that must be a whole number of at least ``least``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < least:
        raise refusal(f"must be a whole number >= {least}", where=f"'{name}'", got=f"got {value!r}")
    return int(value)


def number(name: str, value: object, low: float, high: float, *, closed: bool = False) -> float:
    """Return a parameter that must lie between two numbers, ends included only if ``closed``."""
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if real and math.isfinite(value) and (low <= value <= high if closed else low < value < high):  # type: ignore[arg-type,operator]
        return float(value)  # type: ignore[arg-type]
    brackets = f"[{low:g}, {high:g}]" if closed else f"({low:g}, {high:g})"
    raise refusal(f"must be a number in {brackets}", where=f"'{name}'", got=f"got {value!r}")


def generator(random_state: object) -> np.random.Generator:
    """Return the stream of random numbers that a seed names."""
    try:
        return np.random.default_rng(random_state)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise refusal(
            "must be None, a whole number >= 0 or a numpy Generator",
            where="'random_state'",
            got=f"got {random_state!r}",
        ) from None
