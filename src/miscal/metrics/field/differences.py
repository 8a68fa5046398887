"""What sets levels apart from each other, whatever they have in common.

All predictions are shifted in log-odds by one number, such that they are right in total, and each level is tested
again: what is left is what sets it apart from the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.carriers.tally import Tally
from miscal.engines.memory import tally
from miscal.inference.adjust import holm
from miscal.inference.aggregates import NullSummary, PooledError, aggregate_null
from miscal.inference.cells import cell_p_values
from miscal.inference.sums import CellRows
from miscal.metrics.norms import Norm, norm_power
from miscal.metrics.pooled import Pooled
from miscal.pairs import Pair
from miscal.pooling.poolings import Pooling

Floats = npt.NDArray[np.float64]
BLOCK = 1 << 16
STEPS = 50
SETTLED = 1e-12


@dataclass(frozen=True)
class Differences:
    """What sets each level apart: sums and rows after the shift, the gap left, its p-value and Holm's.

    `summary` asks whether any levels differ.
    """

    shift: float
    sums: Tally
    rows: CellRows | None
    gap: Floats
    p_value: Floats
    adjusted: Floats
    summary: NullSummary


def level_differences(
    pair: Pair, pooling: Pooling, found: Pooled, *, norm: Norm, draws: int, random_state: int
) -> Differences | None:
    """Compare each level with the rest; None where the total cannot be made right (no events, or nothing else)."""
    shift = common_shift(pair)
    if math.isnan(shift):
        return None
    moved = replace(pair, predicted=shifted(pair.predicted, shift))
    sums = tally(moved, pooling)
    rows = None if found.rows is None else replace(found.rows, probability=shifted(found.rows.probability, shift))
    common: Any = {"weighted": sums.weighted, "null": found.noise.null, "rows": rows, "random_state": random_state}
    tests = cell_p_values(
        sums, outcome_weights=found.noise.outcome_weights, response="binary" if pair.binary else "real", **common
    )
    model = pair.binary and not found.noise.outcome_weights
    summary = aggregate_null(sums, PooledError(norm_power(norm)), draws=draws, model_variance=model, **common)
    return Differences(shift, sums, rows, sums.gap, tests.p_value, holm(tests.p_value), summary)


def shifted(probability: Floats, shift: float) -> Floats:
    """Add a number to the log-odds: p·e^δ/(1 + p(e^δ - 1)).

    >>> shifted(np.array([0.0, 0.5, 1.0]), np.log(3)).round(6).tolist()
    [0.0, 0.75, 1.0]
    """
    factor = math.exp(-abs(shift))  # of the side on which nothing overflows
    if shift >= 0:
        return np.asarray(probability / (probability + (1.0 - probability) * factor))
    less = probability * factor
    return np.asarray(less / ((1.0 - probability) + less))


def common_shift(pair: Pair) -> float:
    """The shift in log-odds after which as many events are predicted as were observed; NaN where there is none."""
    first = pair.first
    observed = float(pair.observed.sum(dtype=np.float64) if first is None else first @ pair.observed)
    certain = pair.predicted[(pair.predicted <= 0.0) | (pair.predicted >= 1.0)]
    total = float(pair.rows if first is None else first.sum())
    if not 0.0 < observed < total or certain.size == pair.rows:
        return math.nan
    shift = 0.0
    for _ in range(STEPS):
        predicted, slope = _moments(pair.predicted, first, shift)
        if slope <= 1e-300:
            return math.nan
        step = float(np.clip((observed - predicted) / slope, -2.0, 2.0))
        shift += step
        if abs(step) <= SETTLED * max(1.0, abs(shift)):
            break
        if abs(shift) > 500.0:
            return math.nan
    return shift


def _moments(probability: Floats, weight: Floats | None, shift: float) -> tuple[float, float]:
    """Σw·q and Σw·q(1-q) of the shifted probabilities, block by block."""
    total = slope = 0.0
    for start in range(0, probability.size, BLOCK):
        q = shifted(probability[start : start + BLOCK], shift)
        spread = q * (1.0 - q)
        if weight is None:
            total, slope = total + float(q.sum()), slope + float(spread.sum())
        else:
            part = weight[start : start + BLOCK]
            total, slope = total + float(part @ q), slope + float(part @ spread)
    return total, slope
