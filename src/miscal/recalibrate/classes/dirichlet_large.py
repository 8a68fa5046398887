"""Dirichlet calibration of many classes: Newton's method without the Hessian, which would have K^4 entries."""

from __future__ import annotations

import numpy as np

from miscal.recalibrate.base import Array, Floats
from miscal.recalibrate.classes.dirichlet import block_of
from miscal.recalibrate.classes.softmax import Rows, summed
from miscal.recalibrate.fitting.newton import Products, Solve, minimise_large

MOST_KEPT = 1 << 23  # probabilities held between products with the Hessian
MOST_BLOCKS = 1 << 24  # numbers in the Hessian's blocks, one a class


def large_fit(rows: Rows, start: Floats, penalty: Floats) -> Floats:
    """The parameters of least penalised mean loss; penalty (free classes, K + 1)."""
    if not start.any():  # better than even chances: half way to the probabilities as they are
        whole = np.eye(rows.classes, rows.classes + 1)
        if len(penalty) < rows.classes:
            whole -= whole[-1]
        start = 0.5 * whole[: len(penalty)].reshape(-1)
    return minimise_large(lambda theta: _Point(rows, theta, penalty).products(), start)


class _Point:
    """The loss and its derivatives at one point; features and probabilities are kept if they fit."""

    def __init__(self, rows: Rows, theta: Floats, penalty: Floats) -> None:
        self.rows, self.penalty, self.matrix = rows, penalty, theta.reshape(penalty.shape)
        self.keeping = rows.size * rows.classes <= MOST_KEPT
        self.kept: dict[tuple[int, bool], tuple[Array, Array]] = {}

    def products(self) -> Products:
        """What `minimise_large` asks for."""

        def slope(start: int, stop: int) -> tuple[float, Floats]:
            features, likely, off, loss, _ = block_of(self.rows, self.matrix, start, stop)
            if self.keeping:
                self.kept[start, False] = features, likely
            return loss, off.T @ features

        loss, gradient = summed(self.rows.size, slope)
        value = float(loss) + 0.5 * float((self.penalty * self.matrix * self.matrix).sum())
        return value, (gradient + self.penalty * self.matrix).reshape(-1), self.near_inverse, self.product

    def block(self, start: int, stop: int, single: bool) -> tuple[Array, Array]:
        """Features and probabilities of some rows, in single precision if asked."""
        key = start, single
        if key in self.kept:
            return self.kept[key]
        features, likely = (
            self.block(start, stop, False) if single else block_of(self.rows, self.matrix, start, stop)[:2]
        )
        made = (features.astype(np.float32), likely.astype(np.float32)) if single else (features, likely)
        if self.keeping:
            self.kept[key] = made
        return made

    def weight(self, start: int, stop: int, like: Array) -> Array:
        """Weights of some rows, of the precision of another array."""
        weight = self.rows.weight
        return np.ones((1, 1), like.dtype) if weight is None else weight[start:stop, None].astype(like.dtype)

    def product(self, direction: Floats, single: bool) -> Floats:
        """The Hessian times a vector."""
        along = direction.reshape(self.penalty.shape)

        def work(start: int, stop: int) -> tuple[Floats]:
            features, likely = self.block(start, stop, single)
            change = features @ along.T.astype(features.dtype)
            change -= np.einsum("ij,ij->i", likely, change)[:, None]
            change *= likely
            change *= self.weight(start, stop, change)
            return ((change.T @ features).astype(np.float64),)

        return (summed(self.rows.size, work)[0] / self.rows.total + self.penalty * along).reshape(-1)

    def near_inverse(self) -> Solve:
        """Solve nearly, class by class: the parts of the Hessian in which a class meets itself, inverted."""
        classes, width = self.penalty.shape
        if classes * width * width > MOST_BLOCKS:
            return self.product_inverse()

        def work(start: int, stop: int) -> tuple[Floats]:
            features, likely = self.block(start, stop, True)
            weight = likely * (1.0 - likely) * self.weight(start, stop, likely)
            made = [features.T @ (features * weight[:, k, None]) for k in range(classes)]
            return (np.stack(made).astype(np.float64),)

        own = summed(self.rows.size, work)[0] / self.rows.total
        least = 1e-9 * own.diagonal(axis1=1, axis2=2).max(axis=1)[:, None] + 1e-300  # above the rounding of singles
        place = np.arange(width)
        own[:, place, place] += np.maximum(self.penalty, least)
        inverse = np.linalg.inv(own)
        return lambda gradient: np.asarray(inverse @ gradient.reshape(classes, width, 1)).reshape(-1)

    def product_inverse(self) -> Solve:
        """Solve nearly, in little memory: a sum over rows of (diag p - p p') x (f f') taken for a product of two sums.

        With the features' sum weighted by the trace of diag p - p p' it has the Hessian's trace. In the bases in which
        both sums are diagonal the penalty is one more diagonal.
        """

        def work(start: int, stop: int) -> tuple[Floats, Floats, float]:
            features, likely = self.block(start, stop, False)
            weight = np.broadcast_to(self.weight(start, stop, likely)[:, 0], stop - start) / self.rows.total
            spread = weight * (likely * (1.0 - likely)).sum(axis=1)
            between = np.diag(weight @ likely) - likely.T @ (likely * weight[:, None])
            return between, features.T @ (features * spread[:, None]), float(spread.sum())

        between, within, spread = summed(self.rows.size, work)
        own, classes = np.linalg.eigh(between)
        other, directions = np.linalg.eigh(within / max(float(spread), 1e-300))
        curvature = np.outer(np.maximum(own, 0.0), np.maximum(other, 0.0))
        curvature += max(float(self.penalty[:, :-1].mean()), 1e-9 * float(curvature.max()), 1e-300)

        def solve(gradient: Floats) -> Floats:
            turned = classes.T @ gradient.reshape(self.penalty.shape) @ directions
            return np.asarray(classes @ (turned / curvature) @ directions.T).reshape(-1)

        return solve
