"""`choose` as a recalibrator, for pipelines, grids and `RecalibratedClassifier`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from miscal.data.columns import Columns
from miscal.data.errors import refusal
from miscal.data.predictions import Predictions, Raw
from miscal.recalibrate.base import Array, Floats, Recalibrator
from miscal.recalibrate.compose.choose import choose
from miscal.recalibrate.export import formula as nodes
from miscal.recalibrate.fitting.parameters import number, parameter, whole
from miscal.recalibrate.fitting.tables import columns_of
from miscal.recalibrate.sample import Sample
from miscal.recalibrate.state import label_array, state


def _names(name: str, value: Any) -> None:
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise refusal("must be a list of names of columns", where=f"'{name}'", got=f"got {value!r}")


def _anything(name: str, value: Any) -> None:
    """`choose` itself says what candidates may be."""


class Choose(Recalibrator):
    """Compare recalibrators on held-out rows and keep the best, or none: `choose` with the methods of the others.

    Columns are looked at where `fit` is given any. See `miscal.recalibrate.choose` for how it is decided.

    Parameters
    ----------
    by, allowed, candidates, cv, random_state, top_error : as in `choose`

    Attributes
    ----------
    chosen_ : list of the one fitted recalibrator
    name, table, reason : as of what `choose` returns; not in JSON

    Examples
    --------
    >>> import numpy as np
    >>> from miscal.recalibrate import BetaCalibration, Choose, PlattScaling
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(2, 3, 3000)
    >>> made = Choose(candidates=[PlattScaling(), BetaCalibration()]).fit(p, rng.random(3000) < p**2)
    >>> made.name
    'BetaCalibration'
    """

    pulls_in: ClassVar[bool] = False  # what is chosen does
    broken_laws: ClassVar[Mapping[str, str]] = {
        "repetition": "folds are drawn of rows",
        "order": "folds are drawn by the rows' places",
    }

    by: Any = parameter(_names, default=None)
    allowed: Any = parameter(_names, default=None)
    candidates: Any = parameter(_anything, default="auto")
    cv: int = parameter(whole, 2, default=5)
    random_state: int = parameter(whole, 0, 2**31 - 1, default=0)
    top_error: float | None = parameter(number, 0.0, default=None)
    chosen_: list[Any] = state("inner")

    @property
    def uses_columns(self) -> bool:  # type: ignore[override]
        """Whether what was chosen looks at columns."""
        return hasattr(self, "chosen_") and bool(self.chosen_[0].uses_columns)

    def check_state(self) -> None:
        """Refuse what is not one fitted map of these classes."""
        if len(self.chosen_) != 1 or self.chosen_[0] is None or not self.chosen_[0].is_fitted():
            raise ValueError("there must be one fitted recalibrator")
        if self.chosen_[0].n_classes_ != self.n_classes_:
            raise ValueError("what was chosen is not fitted to these classes")

    def _sample(self, given: Raw, X: Any) -> tuple[Sample, Array]:
        given.columns = None if X is None else columns_of(X, None, "Choose")
        rows = Predictions.validated(given)
        return Sample.of(rows, rows.columns), label_array(rows.classes)

    def _fit(self, sample: Sample) -> None:
        options = {name: getattr(self, name) for name in ("by", "allowed", "candidates", "cv", "random_state")}
        beside = sample.columns if len(sample.columns) else None
        if beside is None:
            options.update(by=None, allowed=None)
        found: Any = choose(
            sample.probability, sample.outcome, beside, sample_weight=sample.weight, top_error=self.top_error, **options
        )
        self.chosen_, self.name, self.table, self.reason = [found], found.name, found.table, found.reason

    def _map_beside(self, probability: Floats, columns: Columns) -> Floats:
        found: Floats = self.chosen_[0].mapped(probability, columns)
        return found

    def _keeps_ranking(self) -> bool:
        return self.is_fitted() and bool(self.chosen_[0].keeps_ranking)

    def _formula(self) -> nodes.Formula:
        found: nodes.Formula = self.chosen_[0].formula()
        return found

    @classmethod
    def _examples(cls) -> list[Recalibrator]:
        from miscal.recalibrate.score.curves import PlattScaling, TemperatureScaling

        return [cls(candidates=[PlattScaling(), TemperatureScaling()], cv=2)]

    def _summary(self) -> str:
        return repr(self.chosen_[0])
