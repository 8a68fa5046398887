"""Sums in cells of the score: of all rows, of a tally, and of the cells of any partition crossed with the score."""

import numpy as np

from miscal.aggregate.in_memory import mean_tally, tally
from miscal.aggregate.tally import Tally
from miscal.auditing.search.evidence import RawAndRecalibrated, ScoreProfile
from miscal.auditing.search.search_context import SearchContext
from miscal.cells.partitions import LevelPooling, Numbered
from miscal.codes.inference import Null
from miscal.data.arrays import Array
from miscal.stats.cell_sums import CellSums


def profiles_of_codes(context: SearchContext, codes: Array, n_cells: int) -> RawAndRecalibrated:
    """Sums of all rows by a partition and the score, each of shape (cells, cells of the score).

    Parameters
    ----------
    context : SearchContext
        Gives the rows and their cell of the score.
    codes : ndarray of int or bool
        The cell of each row.
    n_cells : int
        Number of cells.
    """
    grid = context.score_grid
    crossed = codes.astype(np.int32) * np.int32(grid.n_cells) + grid.codes
    pooling = LevelPooling(crossed, Numbered(n_cells * grid.n_cells))
    means_suffice = (
        context.raw.is_unweighted and context.raw.binary and context.null_model.null == Null.BERNOULLI
    )
    count = mean_tally if means_suffice else tally
    profiles = RawAndRecalibrated(
        profile_of_tally(count(context.raw, pooling), context),
        profile_of_tally(count(context.recalibrated, pooling), context),
    )
    return profiles.map(lambda values: values.reshape(n_cells, -1))


def profile_of_tally(sums: Tally, context: SearchContext) -> ScoreProfile:
    """The sums of a tally of cells of the score, or of segments and such cells, one after the other."""
    weight, predicted = sums.weight, sums.predicted
    null_model = context.null_model
    if "variance" in sums.columns:
        noise = sums.residual2 if null_model.null == Null.RESIDUAL else sums.variance
    else:  # scores of one cell taken for their mean, which overstates their variance and never understates it
        noise = predicted * (1.0 - predicted / np.maximum(weight, 1e-300))
    usual = 0.0 * noise
    if null_model.residual_variance is not None:
        usual = null_model.residual_variance.of_cells(CellSums.of(sums), narrow=True) * context.variance_ratio
    noise = np.maximum(noise, 0.0) * context.variance_ratio
    return ScoreProfile(sums.rows, weight, predicted, sums.observed, noise, usual)
