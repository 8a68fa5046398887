"""Predictions of rows by recalibrators that were not fitted on them."""

import numpy as np

from miscal.data.arrays import Array, Floats
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.training_sample import TrainingSample


def cross_fitted(recalibrator: Recalibrator, sample: TrainingSample, folds: Array) -> tuple[Floats, bool]:
    """What copies fitted on all folds but one predict for the fold left out.

    Parameters
    ----------
    recalibrator : Recalibrator
        It is not changed.
    sample : TrainingSample
        All rows.
    folds : (n,) array of int
        The fold of each row.

    Returns
    -------
    probability : (n, K) array
        Of each row.
    keeps_ranking : bool
        Whether all copies keep the ranking.
    """
    probability, keeps_ranking = np.empty((sample.rows, sample.n_classes)), True
    for fold in np.unique(folds):
        test = np.flatnonzero(folds == fold)
        fitted = recalibrator.fit_copy_quietly(sample.take(np.flatnonzero(folds != fold)))
        probability[test] = fitted.map_checked(sample.probability[test], sample.columns.take(test))
        keeps_ranking &= fitted.keeps_ranking
    return probability, keeps_ranking
