"""TODO cross_fitting."""

import numpy as np

from miscal.data.arrays import Array, Floats
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.training_sample import TrainingSample


def cross_fitted(recalibrator: Recalibrator, sample: TrainingSample, folds: Array) -> tuple[Floats, bool]:
    """What copies fitted on all folds but one say of the rows left out, and whether all of them keep the ranking."""
    found, keeps_ranking = np.empty((sample.rows, sample.n_classes)), True
    for fold in np.unique(folds):
        test = np.flatnonzero(folds == fold)
        fitted = recalibrator.fit_copy_quietly(sample.take(np.flatnonzero(folds != fold)))
        found[test] = fitted.map_checked(sample.probability[test], sample.columns.take(test))
        keeps_ranking &= fitted.keeps_ranking
    return found, keeps_ranking
