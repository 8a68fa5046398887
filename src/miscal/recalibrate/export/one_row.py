"""One row at a time, for a service: the nodes of a formula evaluated on plain floats, microseconds a call.

Values that are not plain, or of another type than fit had, take the general way: a table of one row, which converts, or
refuses in words.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from miscal.data.errors import MiscalError, refusal
from miscal.recalibrate.export.formula import LEAST_SCORE, Floats, General, Row, settled

if TYPE_CHECKING:
    from miscal.recalibrate.base import Recalibrator

# Beside the recalibrators, not in them: predicting changes none. Each stands with the labels of the fit it belongs to.
_formulas: WeakKeyDictionary[Recalibrator, tuple[Any, Any]] = WeakKeyDictionary()


def apply_one(recalibrator: Recalibrator, y_prob: Any, x: Row | None) -> tuple[float, ...]:
    """The recalibrated probabilities of one row."""
    formula = formula_of(recalibrator)
    mean = recalibrator.is_mean()
    if mean:
        y_prob = float(recalibrator.checked([y_prob])[0])
    if not isinstance(y_prob, (int, float)):
        checked = recalibrator.checked([list(y_prob)])
        if checked.ndim == 2:
            return _general(recalibrator, checked, x)
        y_prob = float(checked[0])
    if not mean and not 0.0 <= y_prob <= 1.0:
        raise refusal("must lie in [0, 1]", where="'y_prob'", got=f"it is {y_prob}")
    if formula is not None and (x is not None or not recalibrator.uses_columns):
        try:
            score = float(y_prob) if mean or y_prob >= LEAST_SCORE else 0.0
            event = formula(score, {name: _plain(value) for name, value in (x or {}).items()}, {})
        except (General, KeyError, RecursionError):  # an unusual value, a column that is not there
            pass
        else:
            return (event,) if mean else (1.0 - event, event)
    given = np.array([float(y_prob)])
    return _general(recalibrator, given if mean else settled(given), x)


def _general(recalibrator: Recalibrator, checked: Floats, x: Row | None) -> tuple[float, ...]:
    """A table of one row."""
    row = {name: [value] for name, value in x.items()} if x is not None else None
    found = recalibrator.mapped(checked, row)[0]
    return tuple(found[1:].tolist() if recalibrator.is_mean() else found.tolist())


def formula_of(recalibrator: Recalibrator) -> Any:
    """The formula of a map of two classes; None where there is none."""
    labels, formula = _formulas.get(recalibrator, (None, None))
    if labels is None or labels is not getattr(recalibrator, "classes_", None):
        recalibrator.check_fitted()
        formula = None
        if recalibrator.n_classes_ == 2:
            with contextlib.suppress(MiscalError):
                formula = recalibrator.formula()
        _formulas[recalibrator] = recalibrator.classes_, formula
    return formula


def _plain(value: Any) -> Any:
    """A row's value as formulas take it: numbers as floats, None where missing; others stay what they are."""
    if type(value) is float:
        return value if math.isfinite(value) else None if math.isnan(value) else _ODD
    if type(value) is int:
        return float(value) if abs(value) < 2**53 else _ODD
    return value


_ODD = object()  # of a type that no column has
