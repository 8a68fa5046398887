"""How much outcomes vary around a prediction that is no probability: nobody says it, so the residuals do.

A cell of few rows that had no large outcome shows residuals that are too small: among amounts and rare counts it is
always the quiet cells that look certain. So no cell counts as quieter than residuals of such predictions are in the
whole table, and a cell that was not quiet counts as loud as it was. (Judged by their own residuals alone, some level of
ten is beyond noise in a quarter of calibrated tables of lognormal amounts: `studies/any_mean.py`.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from miscal.carriers.tally import Tally
from miscal.data.responses import Units
from miscal.inference.sums import Floats, Sums
from miscal.pairs import Pair
from miscal.pooling.cells import Ranges

BINS = 15  # of predictions, of as many rows each
LEAST = 200  # rows of a bin


@dataclass(frozen=True, eq=False)
class Spread:
    """Variance of residuals by prediction, a unit of weight squared; of exposure, where the weight is exposure.

    borders : between bins of the prediction;  values : of each bin
    units : of predictions and outcomes
    mixed : how much more a cell of all predictions varies than one of their mean
    """

    borders: Floats
    values: Floats
    units: Units
    exposed: bool
    mixed: float = 1.0

    @classmethod
    def of(cls, pair: Pair) -> Spread:
        """As the rows of a pair show it; rows of one cluster and one prediction are parts of one."""
        predicted, first, second, squares = _units(pair)
        share = np.linspace(0.0, 1.0, int(np.clip(predicted.size // LEAST, 1, BINS)) + 1)[1:-1]
        borders = np.unique(np.quantile(predicted, share))
        bins = np.searchsorted(borders, predicted)
        squares = np.bincount(bins, squares, borders.size + 1).astype(np.float64, copy=False)
        size = np.bincount(bins, first if pair.exposed else second, borders.size + 1)
        every = squares.sum() / max(float(size.sum()), 1e-300)
        values = np.where(size > 0.0, squares / np.where(size > 0.0, size, 1.0), every)
        made = cls(borders, np.asarray(values), pair.units, pair.exposed)
        one = (np.array([each]) for each in (np.average(predicted, weights=first), first.sum(), second.sum()))
        return replace(made, mixed=max(1.0, float(squares.sum() / max(made.at(*one)[0], 1e-300))))

    def at(self, predicted: Floats, weight: Floats, weight2: Floats) -> Floats:
        """Variance of the sum of residuals of rows of a mean prediction and of weights that add up to so much."""
        return np.asarray(self.values[np.searchsorted(self.borders, predicted)] * (weight if self.exposed else weight2))

    def floor(self, sums: Sums, *, narrow: bool = False) -> Floats:
        """Variance of the sum of residuals of each cell; `narrow` ones hold predictions that are much the same."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.nan_to_num(sums.predicted / sums.weight)
        return self.at(mean, sums.weight, sums.weight2) * (1.0 if narrow else self.mixed)

    def sums(self, made: Sums | Tally) -> Sums:
        """The sums of cells, with the variance that their predictions let expect."""
        if isinstance(made, Sums):
            return replace(made, variance=self.floor(made))
        sums = Sums.of(made)
        narrow = isinstance(made.cells, Ranges) and made.cells.name == "score"
        return replace(sums, variance=self.floor(sums, narrow=narrow))

    def of_rows(self, pair: Pair) -> Floats:
        """Variance of each row's weighted residual."""
        first, second = (np.ones(pair.rows) if each is None else each for each in (pair.first, pair.second))
        return self.at(pair.predicted, first, second)


def _units(pair: Pair) -> tuple[Floats, Floats, Floats, Floats]:
    """Prediction, weight, weight squared and squared residual of what varies by itself."""
    first, second = (np.ones(pair.rows) if each is None else each for each in (pair.first, pair.second))
    residual = pair.observed - pair.predicted
    if pair.cluster is None:
        return pair.predicted, first, second, second * residual**2
    order = np.lexsort((pair.predicted, pair.cluster))
    cluster, predicted = pair.cluster[order], pair.predicted[order]
    starts = np.flatnonzero(np.append(True, (np.diff(cluster) != 0) | (np.diff(predicted) != 0.0)))
    weight, sums = (np.add.reduceat(values[order], starts) for values in (first, first * residual))
    return predicted[starts], weight, weight**2, sums**2
