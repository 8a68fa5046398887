"""A classifier and a recalibrator as one scikit-learn classifier."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing, assert_all_finite, get_tags, indexable, validation
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, _routing_enabled, process_routing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_method_params, _check_sample_weight

from miscal.data.arrays import Array, Plain
from miscal.data.errors import refusal, warn
from miscal.recalibrate.base import Recalibrator
from miscal.recalibrate.by_columns.augmentation import class_probabilities
from miscal.recalibrate.logistic_curves import PlattScaling
from miscal.recalibrate.parameters import chosen_columns, named_columns


class RecalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a classifier, and recalibrate its probabilities on rows that it was not trained on.

    Parameters
    ----------
    estimator : classifier
        With `predict_proba`.
    recalibrator : Recalibrator, optional
        Platt scaling by default.
    by : str, int, or list of these, optional
        Names or positions of the columns of X that the recalibrator may use; none by default.
    cv : int, splitter, list of splits, or "prefit", default=5
        The recalibrator learns from held-out probabilities of the folds, then the classifier is fitted on all rows.
        "prefit" (or a `FrozenEstimator`) takes the classifier as it is: give `fit` rows that it was not trained on.

    Attributes
    ----------
    estimator_ : classifier
        Fitted.
    recalibrator_ : Recalibrator
        Fitted.
    classes_ : (K,) array
        Labels.
    n_features_in_ : int
        As in scikit-learn.
    feature_names_in_ : (d,) array of str
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from miscal.recalibrate import BetaCalibration, RecalibratedClassifier
    >>> X, y = make_classification(500, random_state=0)
    >>> RecalibratedClassifier(GaussianNB(), BetaCalibration()).fit(X, y).predict_proba(X[:1]).shape
    (1, 2)
    """

    def __init__(
        self, estimator: Any, recalibrator: Recalibrator | None = None, by: Any = None, cv: Any = 5
    ) -> None:
        self.estimator = estimator
        self.recalibrator = recalibrator
        self.by = by
        self.cv = cv

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> Self:
        """Fit the classifier and the recalibrator.

        Parameters
        ----------
        X : frame or (n, d) array
            Features.
        y : (n,) array
            Labels.
        sample_weight : (n,) array, optional
            For both parts; the classifier gets it if it takes weights (with metadata routing: if it requests them).
        **params : object
            Passed to the classifier's `fit`; `groups` goes to a splitter of groups. With scikit-learn's metadata
            routing each part gets what it requested.

        Returns
        -------
        RecalibratedClassifier
            Itself.
        """
        X, y = indexable(X, y)
        _check_table(self, X, reset=True)
        y = validation.column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise refusal(
                "must have at least two classes", "'y'", got=f"it has one class: {self.classes_[0]}"
            )
        estimator = self.estimator
        if not hasattr(estimator, "predict_proba"):
            got = f"it is {type(estimator).__name__}"
            hint = (
                "use a classifier with probabilities, such as one that wraps yours in CalibratedClassifierCV"
            )
            raise refusal("must have predict_proba", "'estimator'", got=got, hint=hint)
        fit_params, split_params = self._routed(sample_weight, params)
        if self._prefit():
            self.estimator_, held_out = estimator, class_probabilities(estimator, X, self.classes_)
        else:
            held_out = self._held_out(X, y, fit_params, split_params)
            self.estimator_ = clone(estimator).fit(X, y, **fit_params)
        recalibrator = self.recalibrator or PlattScaling()
        self.recalibrator_ = clone(recalibrator).fit(
            held_out, codes, self._recalibrator_columns(X), sample_weight
        )
        return self

    def predict_proba(self, X: Any) -> Array:
        """Recalibrated probabilities.

        Parameters
        ----------
        X : frame or (n, d) array
            Features.

        Returns
        -------
        (n, K) array
            One column per class.
        """
        validation.check_is_fitted(self)
        (X,) = indexable(X)
        _check_table(self, X, reset=False)
        base = class_probabilities(self.estimator_, X, self.classes_)
        return np.asarray(self.recalibrator_.predict_proba(base, self._recalibrator_columns(X)))

    def predict(self, X: Any) -> Array:
        """The label of the largest recalibrated probability.

        Parameters
        ----------
        X : frame or (n, d) array
            Features.

        Returns
        -------
        (n,) array
            Labels.
        """
        probability = self.predict_proba(X)
        return np.asarray(self.classes_[np.argmax(probability, axis=1)])

    def _prefit(self) -> bool:
        from sklearn.frozen import FrozenEstimator

        return (isinstance(self.cv, str) and self.cv == "prefit") or isinstance(
            self.estimator, FrozenEstimator
        )

    def _routed(self, sample_weight: Any, params: Plain) -> tuple[Plain, Plain]:
        """The parameters of the classifier's `fit` and of the splitter's `split`."""
        if _routing_enabled():
            routed = process_routing(self, "fit", sample_weight=sample_weight, **params)
            return dict(routed.estimator.fit), dict(routed.splitter.split)
        split = {"groups": params.pop("groups")} if "groups" in params else {}
        if sample_weight is None:
            return params, split
        if validation.has_fit_parameter(self.estimator, "sample_weight"):
            params["sample_weight"] = sample_weight
        elif not self._prefit():
            what = f"{type(self.estimator).__name__} does not take sample_weight, so only the recalibrator has weights"
            warn(f"{what}. With sklearn.set_config(enable_metadata_routing=True) pipelines pass them on")
        return params, split

    def _held_out(self, X: Any, y: Array, fit_params: Plain, split_params: Plain) -> Array:
        """Probabilities of rows by classifiers that were not fitted on them."""
        splitter = check_cv(self.cv, y, classifier=True)
        held_out = np.full((len(y), len(self.classes_)), np.nan)
        for train, test in splitter.split(X, y, **split_params):
            # Parameters with one value per row are cut to these rows.
            fold_params = _check_method_params(X, fit_params, indices=train)
            fitted = clone(self.estimator).fit(_safe_indexing(X, train), y[train], **fold_params)
            held_out[test] = class_probabilities(fitted, _safe_indexing(X, test), self.classes_)
        if np.isnan(held_out).any():
            row = np.flatnonzero(np.isnan(held_out).any(axis=1))[0]
            raise refusal("must test every row once", "'cv'", got=f"row {row} is in no test part")
        return held_out

    def _recalibrator_columns(self, X: Any) -> Any:
        """The columns that the recalibrator may use, by name."""
        if self.by is None:
            return None
        columns = named_columns(X, "RecalibratedClassifier")
        return {column.name: column for column in chosen_columns(columns, self.by)}

    def get_metadata_routing(self) -> MetadataRouter:
        """Weights are for this object too; the rest goes to the classifier's `fit` and the splitter's `split`."""
        splitter = check_cv(5 if isinstance(self.cv, str) else self.cv)
        router = MetadataRouter(owner=self).add_self_request(self)
        router.add(estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        router.add(splitter=splitter, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        return router

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def _check_table(owner: RecalibratedClassifier, X: Any, *, reset: bool) -> None:
    """Reject what has no rows, is not a table or has other columns, with scikit-learn's errors."""
    if hasattr(X, "shape"):  # a table of zeros of that shape takes no room, and no value of X is touched
        validation.check_array(np.broadcast_to(0.0, X.shape), ensure_all_finite=False, input_name="X")
    validation.validate_data(owner, X, reset=reset, skip_check_array=True)
