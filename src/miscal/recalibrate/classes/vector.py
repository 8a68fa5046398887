"""Vector scaling: a slope and a shift for each class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from miscal.data.errors import warn
from miscal.recalibrate.base import Floats, Recalibrator, Sample
from miscal.recalibrate.classes.softmax import fitted, moments, softmax_map
from miscal.recalibrate.export.formula import Formula, softmax_of
from miscal.recalibrate.fitting.logistic import SEPARATED
from miscal.recalibrate.state import Field


class VectorScaling(Recalibrator):
    """Scale and shift the logarithm of each class's probability (Guo et al. 2017).

    P_k is proportional to exp(w_k ln p_k + b_k), minimising the sum of log losses; p is held at 1e-12 or more. The last
    class has b = 0, because only differences count. Does not keep the ranking. A class that does not occur among
    the rows to fit on, and classes that are separated perfectly, have no finite optimum: the fit stops where the
    loss is flat, with a warning.

    Attributes
    ----------
    slopes_, shifts_ : (K,)

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.dirichlet(np.ones(3), 2000)
    >>> y = (y_prob.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
    >>> VectorScaling().fit(y_prob, y).slopes_.round(1)
    array([1. , 0.9, 1.1])
    """

    fields: ClassVar[dict[str, Field]] = {
        "slopes_": Field("float", ("classes",)),
        "shifts_": Field("float", ("classes",)),
    }

    slopes_: Floats
    shifts_: Floats

    def _fit(self, sample: Sample) -> None:
        centre, scale = moments(sample)
        share = (sample.class_weights() + 0.5) / (sample.total + 0.5 * sample.n_classes)
        start = np.stack([np.zeros(sample.n_classes), np.log(share / share[-1])], axis=1)
        nothing = np.zeros(start.shape)
        theta, separated = fitted(sample, start, nothing, nothing, centre, scale)
        if separated:
            warn(SEPARATED.replace(" Pass l2=1 to fit a finite optimum", " DirichletCalibration has a finite optimum"))
        self.slopes_ = theta[:, 0] * scale
        shifts = theta[:, 1] - self.slopes_ * centre
        self.shifts_ = shifts - shifts[-1]

    def _map(self, probability: Floats) -> Floats:
        return softmax_map(probability, self.slopes_, self.shifts_)

    def _formula(self) -> Formula:
        return softmax_of(np.diag(self.slopes_), self.shifts_)

    def _summary(self) -> str:
        return f"slopes {self.slopes_.min():.3g} to {self.slopes_.max():.3g}"
