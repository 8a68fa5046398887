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
Products: TypeAlias = tuple[float, Floats, Floats, Callable[[Floats], Floats]]  # loss, gradient, diagonal, H times
EvaluateProducts: TypeAlias = Callable[[Floats], Products]

MOST_STEPS = 100
MOST_HALVINGS = 40
MOST_PRODUCTS = 500  # with the Hessian, to a step
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
    """Minimise a smooth convex loss by Newton's method, each step by conjugate gradients: no Hessian is formed."""
    theta = np.array(start, dtype=np.float64)
    loss, gradient, diagonal, product = evaluate(theta)
    for _ in range(MOST_STEPS):
        length = float(np.linalg.norm(gradient))
        if length <= SMALL_GRADIENT:
            break
        step = _conjugate_gradients(product, gradient, np.maximum(diagonal, 1e-300), min(0.1, length) * length)
        size = 1.0
        for _ in range(MOST_HALVINGS):
            there = theta - size * step
            new = evaluate(there)
            if new[0] <= loss + 1e-12 * abs(loss):
                break
            size *= 0.5
        else:
            break
        theta, (loss, gradient, diagonal, product) = there, new
    return theta


def _conjugate_gradients(
    product: Callable[[Floats], Floats], gradient: Floats, diagonal: Floats, small: float
) -> Floats:
    """Solve H step = gradient until the rest is small, preconditioned by the diagonal of H."""
    step = np.zeros(len(gradient))
    rest = gradient.copy()
    scaled = rest / diagonal
    along = scaled.copy()
    squared = float(rest @ scaled)
    for _ in range(MOST_PRODUCTS):
        image = product(along)
        curvature = float(along @ image)
        if curvature <= 0.0:
            break
        share = squared / curvature
        step += share * along
        rest -= share * image
        if float(np.linalg.norm(rest)) <= small:
            break
        scaled = rest / diagonal
        before, squared = squared, float(rest @ scaled)
        along = scaled + (squared / before) * along
    return step if step.any() else gradient.copy()
