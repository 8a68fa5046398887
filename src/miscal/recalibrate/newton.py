"""Newton's method with step control, for losses that may fall towards infinity."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from miscal.data.arrays import Array, Floats
from miscal.metrics.losses import SMALL_STEP, descended
from miscal.recalibrate.training_sample import FitResult

#: Loss, gradient and Hessian at a point.
Derivatives: TypeAlias = tuple[float, Floats, Floats]

#: Directions whose curvature per unit of weight is less than this are not followed.
MIN_CURVATURE = 1e-12


def newton_minimise(
    evaluate: Callable[[Floats], Derivatives],
    start: Floats,
    total: float,
    penalty: Floats | float = 0.0,
    free: Array | bool = True,
    target: Floats | float = 0.0,
) -> FitResult:
    """Minimise loss(theta) + sum_j penalty_j (theta_j - target_j)^2 / 2.

    A direction whose curvature per unit of weight is under 1e-12 is not followed: collinear features keep the share
    they started with, and separable classes stop where the loss is flat instead of overflowing.

    Parameters
    ----------
    evaluate : callable
        Gives the loss, its gradient and Hessian at a point.
    start : (d,) array
        Where to start.
    total : float
        Sum of the weights.
    penalty : float or (d,) array, default=0.0
        Of each parameter.
    free : bool or (d,) array of bool, default=True
        Parameters that may move; the others keep their start.
    target : float or (d,) array, default=0.0
        What the penalty shrinks to.

    Returns
    -------
    theta : (d,) array
        The optimum, or where the loss is flat.
    diverges : bool
        Whether the loss falls towards infinity: fewer directions were followed at the end than at the start.
    """
    ranks: list[int] = []  # directions followed, at each step
    penalties = np.broadcast_to(penalty, len(start))

    def penalised(theta: Floats) -> Derivatives:
        loss, gradient, hessian = evaluate(theta)
        deviation = theta - target
        pull = penalties * deviation
        penalised_loss = loss + 0.5 * float(penalties @ (deviation * deviation))
        return penalised_loss, gradient + pull, hessian + np.diag(penalties)

    def step_at(_: Floats, state: Derivatives) -> FitResult:
        gradient, hessian = state[1:]
        diagonal = np.diag(hessian)
        used = np.flatnonzero(free & (diagonal > MIN_CURVATURE * total))
        # Scaled to a unit diagonal: penalties and features may differ by many orders of magnitude.
        root, step = np.sqrt(diagonal[used]), np.zeros(len(gradient))
        scaled = hessian[np.ix_(used, used)] / np.outer(root, root)
        solution, _, rank, _ = np.linalg.lstsq(scaled, gradient[used] / root, rcond=MIN_CURVATURE)
        step[used] = solution / root
        ranks.append(rank)
        return step, np.abs(step).max(initial=0.0) <= SMALL_STEP

    theta = descended(penalised, start, step_at)
    return theta, ranks[-1] < ranks[0]
