"""The learning pipeline of paper 003, section 5, as one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from miscal.data.columns import column
from miscal.data.errors import refusal
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.classifier import RecalibratedClassifier
from miscal.recalibrate.fitting import parameters


def learning_pipeline(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    recalibrator: Recalibrator | None = None,
    by: Any = None,
    validation: float = 0.25,
    order: Any = None,
    sample_weight: Any = None,
    random_state: int = 0,
) -> RecalibratedClassifier:
    """Split, train a model on the first part, train a recalibrator on the other; the result predicts new rows.

    Step 1: split the rows into training and validation. Step 2: fit a copy of `estimator` on the training rows. Step 3:
    fit the recalibrator on the validation rows, from the model's probabilities and the columns. Step 4:
    ``learning_pipeline(...).predict_proba(X_new)``.

    Parameters
    ----------
    estimator : classifier with `fit` and `predict_proba`
    X : frame or (n, d) array
    y : (n,) labels
    recalibrator : Recalibrator, optional
        None: `NeuralCalibration()`.
    by : names or positions of columns, optional
        What the recalibrator may look at; None: all columns.
    validation : share of the rows
    order : (n,) dates or numbers, optional
        The validation rows are the last in this order, as they should be when the model is to serve later rows; rows
        that tie at the border are all among them. None: at random.
    sample_weight : (n,) numbers, optional
    random_state : int

    Returns
    -------
    RecalibratedClassifier
        Fitted; ``estimator_`` and ``recalibrator_`` are the two models, ``validation_rows_`` the rows of step 3.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from miscal.recalibrate import IsotonicLinePlotScaling, learning_pipeline
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = rng.random(2000) < 1 / (1 + np.exp(-X[:, 0]))
    >>> made = learning_pipeline(GaussianNB(), X, y, recalibrator=IsotonicLinePlotScaling(knots=5))
    >>> made.predict_proba(X[:3]).shape, made.validation_rows_.size
    ((3, 2), 500)
    """
    from sklearn.base import clone
    from sklearn.utils import _safe_indexing, indexable

    parameters.number("validation", validation, 0.0, 0.95, above=True)
    X, y = indexable(X, y)
    labels = np.asarray(y)
    held = _validation_rows(len(labels), float(validation), order, random_state)
    own = np.setdiff1d(np.arange(len(labels)), held)
    _check_classes(labels, own, "training")
    _check_classes(labels, held, "validation")
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    options = {} if weight is None else {"sample_weight": weight[own]}
    model = clone(estimator).fit(_safe_indexing(X, own), labels[own], **options)
    if recalibrator is None:
        from miscal.recalibrate.by_columns.neural import NeuralCalibration

        recalibrator = NeuralCalibration(random_state=random_state)
    chosen = by if by is not None or not recalibrator.uses_columns else _all_columns(X)
    made = RecalibratedClassifier(model, recalibrator, by=chosen, cv="prefit")
    made.fit(_safe_indexing(X, held), labels[held], sample_weight=None if weight is None else weight[held])
    made.validation_rows_ = held
    return made


def _validation_rows(rows: int, share: float, order: Any, random_state: int) -> np.ndarray:
    number = max(1, round(share * rows))
    if number >= rows:
        raise refusal("must leave rows to train on", where="'validation'", got=f"it takes {number} of {rows} rows")
    if order is None:
        return np.sort(np.random.default_rng(random_state).permutation(rows)[:number])
    key = column("order", order, where="'order'")
    if len(key) != rows:
        raise refusal(f"must have one value a row ({rows})", where="'order'", got=f"it has {len(key)}")
    if key.missing.any():
        raise refusal("must not be missing", where="'order'", got=f"row {int(np.argmax(key.missing))} is missing")
    border = np.partition(key.values, rows - number)[rows - number]
    late = np.flatnonzero(key.values >= border)
    if late.size == rows:
        raise refusal("must differ between rows", where="'order'", got="its values tie across the whole split")
    return late


def _check_classes(labels: np.ndarray, rows: np.ndarray, part: str) -> None:
    absent = np.setdiff1d(np.unique(labels), np.unique(labels[rows]))
    if absent.size:
        got = f"class {absent[0]!r} is not among them"
        raise refusal("must hold every class", where=f"the {part} rows", got=got, hint="change 'validation' or 'order'")


def _all_columns(X: Any) -> list[Any]:
    names = getattr(X, "columns", None)
    return list(names) if names is not None else list(range(np.asarray(X).shape[1]))
