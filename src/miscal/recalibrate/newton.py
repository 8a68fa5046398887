"""TODO newton."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from miscal.data.arrays import Array, Floats
from miscal.metrics.losses import SMALL_STEP, descended
from miscal.recalibrate.training_sample import FitResult

Derivatives: TypeAlias = tuple[float, Floats, Floats]  # loss, gradient and Hessian at a point

MIN_CURVATURE = 1e-12  # curvature for each unit of weight below which a direction is not followed


def newton_minimise(
    evaluate: Callable[[Floats], Derivatives],
    start: Floats,
    total: float,
    penalty: Floats | float = 0.0,
    free: Array | bool = True,
    target: Floats | float = 0.0,
) -> FitResult:
    """Minimise loss(theta) + sum_j penalty_j (theta_j - target_j)^2 / 2; also whether it falls towards infinity.

    `evaluate` gives the loss, its gradient and Hessian; `total` is the sum of the weights. Parameters outside `free`
    keep their start. A direction whose curvature per unit of weight is under 1e-12 is not followed: collinear features
    keep the share they started with, and separable classes stop at certainty instead of overflowing.
    """
    followed: list[int] = []  # directions, at each step
    penalties = np.broadcast_to(penalty, len(start))

    def penalised(at: Floats) -> Derivatives:
        loss, gradient, hessian = evaluate(at)
        off = at - target
        pull = penalties * off
        return loss + 0.5 * float(penalties @ (off * off)), gradient + pull, hessian + np.diag(penalties)

    def step_at(_: Floats, state: Derivatives) -> FitResult:
        gradient, hessian = state[1:]
        diagonal = np.diag(hessian)
        used = np.flatnonzero(free & (diagonal > MIN_CURVATURE * total))
        # Scaled to a unit diagonal: penalties and features may differ by many orders of magnitude.
        root, step = np.sqrt(diagonal[used]), np.zeros(len(gradient))
        scaled = hessian[np.ix_(used, used)] / np.outer(root, root)
        found, _, rank, _ = np.linalg.lstsq(scaled, gradient[used] / root, rcond=MIN_CURVATURE)
        step[used] = found / root
        followed.append(rank)
        return step, np.abs(step).max(initial=0.0) <= SMALL_STEP

    theta = descended(penalised, start, step_at)
    return theta, followed[-1] < followed[0]
