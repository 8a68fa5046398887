"""Certainties: rates kept half an event away from 0 and 1, and scores of 0 and 1 moved to what their rows bear out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
HALF = 0.5  # events
NEAR = 0.01  # scores beyond it are no certainties, whatever happened
FURTHEST = 0.05  # that a score is moved: what is wrong beyond it is the map's to mend
SURPRISE = 1e-4  # chance of as many events at scores that said there would be hardly any


def unit_of(total: float, rows: float) -> float:
    """The weight that counts as one row: 1, or the mean weight where that is less (weights that are shares)."""
    return min(1.0, total / rows) if rows else 1.0


def inside(rate: Floats, mass: Floats, smooth: float) -> Floats:
    """Rates of cells of so many rows, held `smooth` of an event away from certainty: e / (n + 2 e) at least."""
    edge = smooth / (np.maximum(mass, 0.0) + 2.0 * smooth) if smooth else 0.0
    return np.asarray(np.clip(rate, edge, 1.0 - np.asarray(edge)))


def limits(probability: Floats, outcome: npt.NDArray[Any], weight: Floats | None) -> Floats | None:
    """Within what scores are held before they are mapped: (low, high), or None where none is certain or refuted.

    Rows said exactly 0 (and 1, the other way round) are moved to the rate that they bear out, half an event added, but
    not past the next score; where more of the lowest scores happened than a Poisson of their sum allows (chance 1e-4)
    past it: to the least such rate among all the scores up to some point, 0.05 at most.
    """
    mass = None if weight is None else weight / unit_of(float(weight.sum()), len(weight))
    happened = outcome.astype(np.float64)
    low, rest = _floor(probability, happened, mass), _floor(1.0 - probability, 1.0 - happened, mass)
    return np.array([low, 1.0 - rest]) if low > 0.0 or rest > 0.0 else None


def _floor(score: Floats, happened: Floats, mass: Floats | None) -> float:
    from scipy.special import gammainc

    if score.min() > 0.0 and not happened[score <= NEAR].any():
        return 0.0
    rows = np.flatnonzero(score <= FURTHEST)
    order = rows[np.argsort(score[rows], kind="stable")]
    at, weight = score[order], np.ones(order.size) if mass is None else mass[order]
    starts = np.flatnonzero(np.append(True, at[1:] != at[:-1]))
    total, events, expected = (
        np.cumsum(np.add.reduceat(part, starts)) for part in (weight, weight * happened[order], weight * at)
    )
    at = at[starts]
    refuted = (at <= NEAR) & (events >= 1.0) & (gammainc(np.maximum(events, 1e-9), expected) <= SURPRISE)
    found = np.flatnonzero(refuted | (at == 0.0))
    if not found.size:
        return 0.0
    last = int(found[-1])
    low = float(((events[last:] + HALF) / (total[last:] + 2.0 * HALF)).min())
    if not refuted.any() and last + 1 < at.size:
        low = min(low, float(at[last + 1]))
    return min(low, FURTHEST)
