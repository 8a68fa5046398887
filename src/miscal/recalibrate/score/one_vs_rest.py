"""Binary methods for several classes: each class against the rest, then rows divided by their sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.recalibrate.base import Floats, Recalibrator, Sample, normalised
from miscal.recalibrate.export.formula import Each, Formula, Node, Probability
from miscal.recalibrate.fitting.logistic import Binary, binaries
from miscal.recalibrate.state import state, state_of


class OneVsRest(Recalibrator):
    """Base of recalibrators that map one probability to one.

    Two classes: one map, of P(class 1). More: one map a class against the rest, rows divided by their sums; a row whose
    mapped probabilities are all 0 keeps its own. A class that does not occur among the rows to fit on (or is all of
    them) keeps its probabilities before that division.

    Attributes
    ----------
    kept_ : (maps,) bool
        Which maps are the identity because their class does not occur; one map when binary, else K.
    """

    kept_: npt.NDArray[np.bool_] = state("bool", "maps")

    def _fit_one(self, rows: Binary) -> tuple[Any, ...]:
        """Fit one map; what it learned, in the order of the fitted attributes after kept_."""
        raise NotImplementedError

    def _map_one(self, score: Floats, which: int) -> Floats:
        """Apply one map to one column of probabilities, (n, 2): that it does not happen, and that it does."""
        raise NotImplementedError

    def _formula_of(self, which: int) -> Node:
        """The formula of one map."""
        raise NotImplementedError

    def _fit(self, sample: Sample) -> None:
        learned = [None if rows is None else self._fit_one(rows) for rows in binaries(sample)]
        found = sample.class_weights()
        self.kept_ = np.array([False]) if sample.n_classes == 2 else (found <= 0) | (found >= found.sum())
        fields = {name: field for name, field in self.all_fields().items() if name not in state_of(OneVsRest)}
        for at, (name, field) in enumerate(fields.items()):
            parts = [np.asarray(each[at]) for each in learned if each is not None]
            # A map that was not fitted has slope 1 and intercept 0, or no knots.
            blank = np.empty(0) if field.kind == "ragged" else np.full(parts[0].shape, float(parts[0].ndim > 0))
            filled = [blank if each is None else each[at] for each in learned]
            setattr(self, name, filled if field.kind == "ragged" else np.array(filled))

    def _map(self, probability: Floats) -> Floats:
        if probability.ndim == 1:
            return self._map_one(probability, 0)
        out = np.empty_like(probability)
        for k in range(self.n_classes_):
            score = np.ascontiguousarray(probability[:, k])
            out[:, k] = score if self.kept_[k] else self._map_one(score, k)[:, 1]
        return self._joined(out, probability)

    def _joined(self, values: Floats, probability: Floats) -> Floats:
        return normalised(values, probability)

    def _formula(self) -> Formula:
        if self.n_classes_ == 2:
            return self._formula_of(0)
        return Each(tuple(Probability() if kept else self._formula_of(k) for k, kept in enumerate(self.kept_)))
