"""Columns as features of a regression: powers of numbers, indicators of levels and of missing values.

Features are made in blocks of rows, one feature a row of the block, used and forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from miscal.data.columns import Columns
from miscal.kernels import logistic as kernels
from miscal.kernels.threads import over_blocks
from miscal.recalibrate.base import Array, Floats, Sample
from miscal.recalibrate.fitting.logistic import Binary, Evaluate, Features, LogisticFit
from miscal.recalibrate.fitting.tables import Coding, mean_and_spread

CELLS = 1 << 18  # numbers in a block


@dataclass(frozen=True)
class Design:
    """What each column contributes; `levels` are those with an indicator, all but the commonest."""

    names: list[str]
    nominal: list[bool]
    levels: list[list[Any]]
    means: list[float]  # of numeric columns: what a missing number takes
    offsets: list[float]  # powers are those of (number - offset) / spread
    spreads: list[float]
    missing: list[bool]  # whether missing has an indicator
    degree: int

    @classmethod
    def learned(cls, sample: Sample, names: list[str], degree: int, *, raw: bool) -> Design:
        """Look at the columns of the rows to fit on; unless `raw`, powers are those of standardised numbers."""
        made = cls(list(names), [], [], [], [], [], [], degree)
        weight = np.ones(sample.rows) if sample.weight is None else sample.weight
        for name in names:
            column = sample.columns.find(name)
            seen = ~column.missing
            levels, mean, spread = [], 0.0, 1.0
            if column.nominal:
                mass = np.bincount(column.values[seen], weights=weight[seen], minlength=max(len(column.levels), 1))
                commonest = int(np.argmax(mass))
                levels = [v for i, v in enumerate(column.levels) if i != commonest and mass[i] > 0]
            else:
                mean, spread = mean_and_spread(column.values[seen], weight[seen])
            made.nominal.append(column.nominal)
            made.levels.append(levels)
            made.means.append(mean)
            made.offsets.append(0.0 if raw else mean)
            made.spreads.append(1.0 if raw else spread)
            made.missing.append(not bool(seen.all()))
        return made

    @property
    def widths(self) -> list[int]:
        """How many features each column gives."""
        levels = zip(self.nominal, self.levels, self.missing, strict=True)
        return [(len(found) if nominal else self.degree) + missing for nominal, found, missing in levels]

    @property
    def width(self) -> int:
        """How many features all columns give."""
        return sum(self.widths)

    @property
    def block(self) -> int:
        """Rows in a block."""
        return max(256, min(8192, CELLS // (self.width + 3)))

    def ready(self, columns: Columns) -> list[Array]:
        """Each column as numbers (NaN missing) or as places among its levels (-1 commonest or unseen, -2 missing)."""
        described = zip(self.names, self.nominal, self.levels, strict=True)
        codings = [Coding(n, True, levels, -2, -1) if c else Coding(n, False, []) for n, c, levels in described]
        return [coding.read(columns) for coding in codings]

    def rows(self, ready: list[Array], start: int, stop: int) -> Floats:
        """Features of some rows, (width, rows)."""
        out = np.zeros((self.width, stop - start))
        most = 10.0 ** (99.0 / self.degree)  # powers, their products and sums stay finite
        at = 0
        for j, width in enumerate(self.widths):
            part, into = ready[j][start:stop], out[at : at + width]
            at += width
            if self.nominal[j]:
                marked = np.flatnonzero(part >= 0)
                into[part[marked], marked] = 1.0
                absent = part == -2
            else:
                absent = np.isnan(part)
                into[0] = (np.where(absent, self.means[j], part) - self.offsets[j]) / self.spreads[j]
                np.clip(into[0], -most, most, out=into[0])
                for power in range(1, self.degree):
                    np.multiply(into[power - 1], into[0], out=into[power])
            if self.missing[j]:
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
