"""Newton's method with step control for smooth convex losses of few parameters.

Fits are made in standardised coordinates (features centred and scaled), so one tolerance serves every unit of measure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Evaluate: TypeAlias = Callable[[Floats], tuple[float, Floats, Floats]]
Solve: TypeAlias = Callable[[Floats], Floats]
# Loss, gradient, a function that makes an approximate inverse of the Hessian, and the Hessian times a vector.
# The last in single precision if asked.
Products: TypeAlias = tuple[float, Floats, Callable[[], Solve], Callable[[Floats, bool], Floats]]
EvaluateProducts: TypeAlias = Callable[[Floats], Products]

MOST_STEPS = 100
MOST_HALVINGS = 40
MOST_PRODUCTS = 500  # with the Hessian, to a step
ROUGH = 1e-4  # what is left of the gradient after a step in single precision
NEAR = 1e-6  # gradients from which a step should leave little, unless rounding is in the way
WORTH_RENEWING = 40  # products after which an approximate inverse is made anew
SMALL_STEP = 1e-7  # the error after a step is of the order of the step's square: 1e-14
SMALL_GRADIENT = 1e-13  # of the mean loss
FLAT = 1e-12  # curvature for each unit of weight below which a direction is not followed


@dataclass(frozen=True)
class Minimum:
    """Where a fit ended: the parameters, and whether the loss only falls towards infinity (separable classes)."""

    theta: Floats
    separated: bool
    passes: int


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
        hessian = hessian + np.diag(penalty)
        return loss + 0.5 * float(penalty @ (at * at)), gradient + penalty * at, hessian

    state = penalised(theta)
    passes, flat_at_start, flat = 1, -1, 0
    for _ in range(MOST_STEPS):
        step, flat = _newton_step(state[1], state[2], free, total)
        flat_at_start = flat if flat_at_start < 0 else flat_at_start
        if np.abs(step).max(initial=0.0) <= SMALL_STEP:
            theta = theta - step
            break
        moved, state, used = _descend(penalised, theta, step, state)
        passes += used
        if moved is None:
            break
        theta = moved
    return Minimum(theta, flat > flat_at_start, passes)


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


def _descend(
    evaluate: Evaluate, theta: Floats, step: Floats, state: tuple[float, Floats, Floats]
) -> tuple[Floats | None, tuple[float, Floats, Floats], int]:
    """Take the step, or the largest of its halvings that does not raise the loss."""
    size = 1.0
    for used in range(1, MOST_HALVINGS + 1):
        there = theta - size * step
        new = evaluate(there)
        if new[0] <= state[0] + 1e-12 * abs(state[0]):
            return there, new, used
        size *= 0.5
    return None, state, MOST_HALVINGS


# ------------------------------------------------------------------------------------------------- many parameters
def minimise_large(evaluate: EvaluateProducts, start: Floats) -> Floats:
    """Minimise a smooth convex loss by Newton's method, each step by conjugate gradients: no Hessian is formed.

    Loss and gradient are exact; products with the Hessian are made in single precision as long as the gradient falls
    quickly with them, so that rounding moves the steps but not where they end.
    """
    theta = np.array(start, dtype=np.float64)
    loss, gradient, near_inverse, product = evaluate(theta)
    inverse, used, roughly = near_inverse(), 0, True
    length = float(np.linalg.norm(gradient))
    for _ in range(MOST_STEPS):
        if length <= SMALL_GRADIENT:
            break
        if used > WORTH_RENEWING:
            inverse = near_inverse()
        small = max(min(0.1, length), ROUGH if roughly else 0.0) * length
        step, used = _conjugate_gradients(lambda x: product(x, roughly), gradient, inverse, small)  # noqa: B023
        size = 1.0
        for _ in range(MOST_HALVINGS):
            there = theta - size * step
            new = evaluate(there)
            if new[0] <= loss + 1e-12 * abs(loss):
                break
            size *= 0.5
        else:
            break
        theta, (loss, gradient, near_inverse, product) = there, new
        before, length = length, float(np.linalg.norm(gradient))
        roughly = roughly and (length > NEAR or length < 0.3 * before)
    return theta


def _conjugate_gradients(
    product: Callable[[Floats], Floats], gradient: Floats, near_inverse: Solve, small: float
) -> tuple[Floats, int]:
    """Solve H step = gradient until the rest is small, given an approximate inverse of H; also the products used."""
    step = np.zeros(len(gradient))
    rest = gradient.copy()
    scaled = near_inverse(rest)
    along = scaled.copy()
    squared = float(rest @ scaled)
    used = 0
    while used < MOST_PRODUCTS:
        used += 1
        image = product(along)
        curvature = float(along @ image)
        if curvature <= 0.0:
            break
        share = squared / curvature
        step += share * along
        rest -= share * image
        if float(np.linalg.norm(rest)) <= small:
            break
        scaled = near_inverse(rest)
        before, squared = squared, float(rest @ scaled)
        along = scaled + (squared / before) * along
    return (step if step.any() else gradient.copy()), used
