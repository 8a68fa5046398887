"""Columns as features of a regression: powers of numbers, indicators of levels and of missing values.

Features are made in blocks of rows, one feature a row of the block, used and forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from miscal.data.columns import Columns
from miscal.kernels import logistic as kernels
from miscal.kernels.threads import over_blocks
from miscal.pooling.encoding import Encoding
from miscal.recalibrate.base import Array, Floats, Sample
from miscal.recalibrate.fitting.logistic import Binary, Evaluate, Features, LogisticFit

CELLS = 1 << 18  # numbers in a block


@dataclass(frozen=True)
class Design:
    """What each column contributes; all levels but the commonest have an indicator, missing among them."""

    encodings: list[Encoding]
    degree: int

    @classmethod
    def learned(cls, sample: Sample, names: list[str], degree: int, *, raw: bool) -> Design:
        """Look at the columns of the rows to fit on; unless `raw`, powers are those of standardised numbers."""
        made = []
        for column in map(sample.columns.find, names):
            each = Encoding.learned(column, sample.weight, standard=not raw)
            if column.nominal and column.levels:
                mass = np.bincount(column.values + 1, weights=sample.weight, minlength=len(column.levels) + 1)[1:]
                commonest = column.levels[int(np.argmax(mass))]
                each = replace(each, levels=[level for level in each.levels if level != commonest])
            made.append(each)
        return cls(made, degree)

    @property
    def widths(self) -> list[int]:
        """How many features each column gives."""
        return [len(each.levels) if each.nominal else self.degree + each.missing for each in self.encodings]

    @property
    def width(self) -> int:
        """How many features all columns give."""
        return sum(self.widths)

    @property
    def block(self) -> int:
        """Rows in a block."""
        return max(256, min(8192, CELLS // (self.width + 3)))

    def ready(self, columns: Columns) -> list[Array]:
        """Each column as numbers (NaN missing) or as places among its levels (-1 commonest or unseen)."""
        return [each.read(columns) for each in self.encodings]

    def rows(self, ready: list[Array], start: int, stop: int) -> Floats:
        """Features of some rows, (width, rows)."""
        out = np.zeros((self.width, stop - start))
        most = 10.0 ** (99.0 / self.degree)  # powers, their products and sums stay finite
        at = 0
        for each, column, width in zip(self.encodings, ready, self.widths, strict=True):
            part, into = column[start:stop], out[at : at + width]
            at += width
            if each.nominal:
                marked = np.flatnonzero(part >= 0)
                into[part[marked], marked] = 1.0
                continue
            scaled, absent = each.scaled(part)
            np.clip(scaled, -most, most, out=into[0])
            for power in range(1, self.degree):
                np.multiply(into[power - 1], into[0], out=into[power])
            if each.missing:
                into[-1] = absent
        return out

    def moments(self, sample: Sample) -> tuple[Floats, Floats]:
        """Mean of each feature, and 1 / its standard deviation (0 where it is constant)."""
        ready = self.ready(sample.columns)
        shift = self.rows(ready, 0, 1)[:, 0]

        def work(start: int, stop: int) -> Floats:
            features = self.rows(ready, start, stop) - shift[:, None]
            weight = np.ones(stop - start) if sample.weight is None else sample.weight[start:stop]
            return np.stack([features @ weight, (features * features) @ weight])

        first, second = np.sum(over_blocks(sample.rows, work, self.block), axis=0) / sample.total
        centre = shift + first
        variance = second - first * first
        moving = variance > 1e-24 * (1.0 + centre * centre)
        return centre, np.where(moving, 1.0 / np.sqrt(np.where(moving, variance, 1.0)), 0.0)


class DesignFit(LogisticFit):
    """One logistic regression on features of a score and of columns, all centred and scaled."""

    def __init__(
        self,
        rows: Binary,
        features: Features,
        design: Design,
        ready: list[Array],
        standard: tuple[Floats, Floats],
        l2: float,
    ) -> None:
        super().__init__(rows, features, l2)
        self.design, self.ready = design, ready
        self.centre = np.concatenate([self.centre, standard[0]])
        self.scale = np.concatenate([np.zeros(features.count) if self.constant else self.scale, standard[1]])

    def thinned(self) -> Binary | None:
        """None: the columns are those of all rows."""
        return None

    def _sums(self, theta: Floats, start: int, stop: int) -> tuple[float, Floats, Floats]:
        rows, size = self.rows, stop - start
        beside = self.design.rows(self.ready, start, stop)
        matrix = np.concatenate([self.features.rows(rows.score[start:stop]), beside])
        matrix -= self.centre[:, None]
        matrix *= self.scale[:, None]
        x = theta[1:] @ matrix + theta[0]
        weight = rows.weight[start:stop] if rows.weight.size else np.ones(size)
        scratch, off, curvature, loss = (np.empty(size) for _ in range(4))
        kernels.residuals(x, rows.outcome[start:stop], weight, scratch, off, curvature, loss)
        whole = np.concatenate([np.ones((1, size)), matrix])
        return float(weight @ loss), whole @ off, (whole * curvature) @ whole.T

    def evaluator(self, rows: Binary) -> Evaluate:
        """Sum of log losses, its gradient and Hessian."""

        def evaluate(theta: Floats) -> tuple[float, Floats, Floats]:
            parts = over_blocks(len(rows.score), lambda start, stop: self._sums(theta, start, stop), self.design.block)
            loss, gradient, hessian = zip(*parts, strict=True)
            return sum(loss), np.sum(gradient, axis=0), np.sum(hessian, axis=0)

        return evaluate

    def solved(self, *, positive: bool) -> tuple[Floats, float, bool]:
        """Coefficients, intercept with the columns at their centres, and whether the classes are separated."""
        theta, separated = self.best(positive=positive)
        coefficients = theta[1:] * self.scale
        own = self.features.count
        return coefficients, float(theta[0] - coefficients[:own] @ self.centre[:own]), separated
