"""How much outcomes vary around a prediction that is no probability: nobody says it, so the residuals do.

A cell of few rows that had no large outcome shows residuals that are too small: among amounts and rare counts it is
always the quiet cells that look certain. So no cell counts as quieter than residuals of such predictions are in the
whole table, and a cell that was not quiet counts as loud as it was. (Flipped signs alone, on lognormal amounts of
deviation 1.5 in 20 levels: `studies/any_mean.py`.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from miscal.carriers.tally import Tally
from miscal.data.responses import Units
from miscal.inference.sums import Floats, Sums
from miscal.pairs import Pair

BINS = 15  # of predictions, of as many rows each
LEAST = 200  # rows of a bin


@dataclass(frozen=True, eq=False)
class Spread:
    """Variance of residuals by prediction, a unit of weight squared; of exposure, where the weight is exposure.

    borders : between bins of the prediction;  values : of each bin
    units : of predictions and outcomes
    """

    borders: Floats
    values: Floats
    units: Units
    exposed: bool

    @classmethod
    def of(cls, pair: Pair) -> Spread:
        """As the rows of a pair show it."""
        share = np.linspace(0.0, 1.0, int(np.clip(pair.rows // LEAST, 1, BINS)) + 1)[1:-1]
        borders = np.unique(np.quantile(pair.predicted, share))
        bins = np.searchsorted(borders, pair.predicted)
        first, second = (np.ones(pair.rows) if each is None else each for each in (pair.first, pair.second))
        squares = np.bincount(bins, second * (pair.observed - pair.predicted) ** 2, borders.size + 1)
        size = np.bincount(bins, first if pair.exposed else second, borders.size + 1)
        every = squares.sum() / max(float(size.sum()), 1e-300)
        values = np.where(size > 0.0, squares / np.where(size > 0.0, size, 1.0), every)
        return cls(borders, np.asarray(values), pair.units, pair.exposed)

    def at(self, predicted: Floats, weight: Floats, weight2: Floats) -> Floats:
        """Variance of the sum of residuals of rows of a mean prediction and of weights that add up to so much."""
        return np.asarray(self.values[np.searchsorted(self.borders, predicted)] * (weight if self.exposed else weight2))

    def floor(self, sums: Sums) -> Floats:
        """Variance of the sum of residuals of each cell."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.at(np.nan_to_num(sums.predicted / sums.weight), sums.weight, sums.weight2)

    def sums(self, made: Sums | Tally) -> Sums:
        """The sums of cells, with the variance that their predictions let expect."""
        sums = made if isinstance(made, Sums) else Sums.of(made)
        return replace(sums, variance=self.floor(sums))

    def of_rows(self, pair: Pair) -> Floats:
        """Variance of each row's weighted residual."""
        first, second = (np.ones(pair.rows) if each is None else each for each in (pair.first, pair.second))
        return self.at(pair.predicted, first, second)
