"""Newton's method with step control for smooth convex losses of few parameters.

Fits are made in standardised coordinates (features centred and scaled), so one tolerance serves every unit of measure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Evaluate: TypeAlias = Callable[[Floats], tuple[float, Floats, Floats]]

MOST_STEPS = 100
MOST_HALVINGS = 40
SMALL_STEP = 1e-7  # the error after a step is of the order of the step's square: 1e-14
FLAT = 1e-12  # curvature for each unit of weight below which a direction is not followed


class Minimum(NamedTuple):
    """Where a fit ended: the parameters, and whether the loss only falls towards infinity (separable classes)."""

    theta: Floats
    separated: bool


def minimise(
    evaluate: Evaluate, start: Floats, penalty: Floats, total: float, free: npt.NDArray[np.bool_] | None = None
) -> Minimum:
    """Minimise loss(theta) + sum_j penalty_j theta_j^2 / 2.

    `evaluate` gives the loss, its gradient and Hessian; `total` is the sum of the weights. Parameters outside `free`
    keep their start. A direction whose curvature per unit of weight is under 1e-12 is not followed: collinear features
    keep the share they started with, and separable classes stop at certainty instead of overflowing.
    """
    free = np.ones(len(start), dtype=bool) if free is None else free
    theta = np.array(start, dtype=np.float64)

    def penalised(at: Floats) -> tuple[float, Floats, Floats]:
        loss, gradient, hessian = evaluate(at)
        return loss + 0.5 * float(penalty @ (at * at)), gradient + penalty * at, hessian + np.diag(penalty)

    state = penalised(theta)
    flat_at_start, flat = -1, 0
    for _ in range(MOST_STEPS):
        step, flat = _newton_step(state[1], state[2], free, total)
        flat_at_start = flat if flat_at_start < 0 else flat_at_start
        if np.abs(step).max(initial=0.0) <= SMALL_STEP:
            theta = theta - step
            break
        for _ in range(MOST_HALVINGS):
            new = penalised(theta - step)
            if new[0] <= state[0] + 1e-12 * abs(state[0]):
                break
            step *= 0.5
        else:
            break
        theta, state = theta - step, new
    return Minimum(theta, flat > flat_at_start)


def _newton_step(gradient: Floats, hessian: Floats, free: npt.NDArray[np.bool_], total: float) -> tuple[Floats, int]:
    """Solve H step = g on the free parameters, leaving out flat directions; also how many were flat.

    The Hessian is first scaled to a unit diagonal: penalties and features may differ by many orders of magnitude.
    """
    diagonal = np.diag(hessian)
    used = np.flatnonzero(free & (diagonal > FLAT * total))
    flat = int(np.count_nonzero(free)) - len(used)
    step = np.zeros(len(gradient))
    if not len(used):
        return step, flat
    root = np.sqrt(diagonal[used])
    values, vectors = np.linalg.eigh(hessian[np.ix_(used, used)] / np.outer(root, root))
    steep = values > FLAT
    along = vectors[:, steep]
    step[used] = along @ ((along.T @ (gradient[used] / root)) / values[steep]) / root
    return step, flat + int(np.count_nonzero(~steep))
