"""Isotonic regression: the best map among all that never decrease."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from miscal.data.errors import refusal
from miscal.recalibrate.base import Floats
from miscal.recalibrate.export.formula import Line, Probability
from miscal.recalibrate.fitting import parameters
from miscal.recalibrate.fitting.logistic import Binary
from miscal.recalibrate.score.one_vs_rest import OneVsRest
from miscal.recalibrate.state import Field


class IsotonicCalibration(OneVsRest):
    """Fit the non-decreasing map of least squared error (Zadrozny and Elkan 2002).

    Equal scores are pooled, then adjacent violators. Between the blocks the map is linear, as scikit-learn's is; beyond
    the scores seen in fit it is constant. Several classes: each against the rest, rows divided by their sums.

    Keeps the ranking of binary probabilities, with ties where the map is flat. Whole weights give the bits of
    repetition.

    Parameters
    ----------
    out_of_bounds : {"clip", "raise"}
        What happens to scores beyond those seen in fit.

    Attributes
    ----------
    knots_, values_ : lists of arrays, one a map
        Scores at the ends of the blocks, and the probability there.

    Examples
    --------
    >>> IsotonicCalibration().fit([0.1, 0.2, 0.3, 0.8], [0, 1, 0, 1]).predict_proba([0.25, 0.55])[:, 1]
    array([0.5 , 0.75])
    """

    candidate_for_two: ClassVar[bool] = True
    in_blends: ClassVar[bool] = False
    fields: ClassVar[dict[str, Field]] = OneVsRest.fields | {
        "knots_": Field("ragged", (), 0.0, 1.0),
        "values_": Field("ragged", (), 0.0, 1.0),
    }

    knots_: list[Floats]
    values_: list[Floats]

    def __init__(self, out_of_bounds: str = "clip") -> None:
        self.out_of_bounds = out_of_bounds

    def check_parameters(self) -> None:
        """Refuse wrong parameters."""
        parameters.one_of("out_of_bounds", self.out_of_bounds, ("clip", "raise"))

    def check_state(self) -> None:
        """Refuse knots that do not increase, and values that fall."""
        for knots, values, kept in zip(self.knots_, self.values_, self.kept_, strict=True):
            if len(knots) != len(values) or not (len(knots) or kept):
                raise ValueError("'knots_' and 'values_' differ in length or are empty")
            if (np.diff(knots) <= 0).any() or (np.diff(values) < 0).any():
                raise ValueError("'knots_' must increase and 'values_' must not decrease")

    def _fit_one(self, rows: Binary) -> tuple[Any, ...]:
        from miscal.kernels.order import rising_rates, sorted_order

        order = sorted_order(rows.score)
        sorted_scores = rows.score[order]
        starts = np.flatnonzero(np.append(True, sorted_scores[1:] != sorted_scores[:-1]))
        weight = rows.weights[order]
        rates = np.empty(len(starts))
        rising_rates(np.add.reduceat(weight * rows.outcome[order], starts), np.add.reduceat(weight, starts), rates)
        # A block of one score has one knot, the others one at either end.
        change = rates[1:] != rates[:-1]
        ends = np.append(True, change) | np.append(change, True)
        return sorted_scores[starts][ends], rates[ends]

    def _unlearned(self) -> tuple[Any, ...]:
        return np.empty(0), np.empty(0)

    def _map_one(self, score: Floats, which: int) -> Floats:
        knots, values = self.knots_[which], self.values_[which]
        if self.out_of_bounds == "raise" and score.size:
            low, high = float(score.min()), float(score.max())
            if low < knots[0] or high > knots[-1]:
                what = f"must lie in [{knots[0]:g}, {knots[-1]:g}], the scores seen in fit"
                got = f"got {low if low < knots[0] else high:g}"
                raise refusal(what, where="'y_prob'", got=got, hint="or use out_of_bounds='clip'")
        return np.interp(score, knots, values)

    def _formula_of(self, which: int) -> Line:
        if self.out_of_bounds == "raise":
            hint = "use out_of_bounds='clip'"
            raise refusal("cannot refuse scores", where="a formula", got="out_of_bounds is 'raise'", hint=hint)
        return Line(Probability(), tuple(self.knots_[which].tolist()), tuple(self.values_[which].tolist()))

    def _keeps_ranking(self) -> bool:
        return not self.is_fitted() or self.n_classes_ == 2

    def _summary(self) -> str:
        return f"{sum(len(knots) for knots in self.knots_)} knots"
