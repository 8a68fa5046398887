"""What every recalibrator is: fit on probabilities and outcomes, then map probabilities to better ones.

`Recalibrator` validates, splits several classes into one map per class, moves scores that are certain, and offers
prediction, JSON, SQL and ONNX. A subclass writes `_fit` and `_map` (see the package's docstring).
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from miscal import recalibrate
from miscal.codes.data import Response
from miscal.codes.recalibration import Choice
from miscal.data import checks, responses
from miscal.data.arrays import Array, Floats
from miscal.data.columns import Columns
from miscal.data.errors import MiscalError, MiscalWarning, refusal, unboxed, warn
from miscal.data.predictions import METRIC, Predictions, RawPredictions
from miscal.export import formula as nodes
from miscal.recalibrate import serialization
from miscal.recalibrate.certain_scores import certain_score_range
from miscal.recalibrate.outcome_families import FAMILIES, OutcomeFamily
from miscal.recalibrate.parameters import declared_state, label_array, named_columns, parameter, state
from miscal.recalibrate.probability_arrays import as_two_columns, normalise_rows, normalised_matrix
from miscal.recalibrate.training_sample import TrainingSample
from miscal.results import Table


class NotFitted(MiscalError, NotFittedError):  # type: ignore[misc]
    """A method was called that needs `fit` first; scikit-learn's error too, so that its tools know it."""


@dataclass_transform(eq_default=False, field_specifiers=(parameter, state, field))
class Recalibrator(BaseEstimator):  # type: ignore[misc]
    """Base class of all recalibrators.

    With ``response="real"`` or ``"count"``, recalibrators whose `responses` say so are fitted to means that are not
    probabilities, and `predict` gives means.

    Where only one class occurs among the rows to fit on, nothing can be learned: with a warning, the recalibrator then
    leaves probabilities as they are.

    Scores that are certain are moved before they are mapped: of two classes, scores of exactly 0 and 1, and the lowest
    (highest) ones where significantly more (fewer) events were observed than they predict (p below 1e-4), are moved to
    the rate that their rows support, half an event added. Maps of free shape (bins, isotonic, local) do without: none
    of their rates comes nearer to 0 or 1 than half an event.

    Parameters
    ----------
    keep_certain : bool, default=False
        Whether scores that are certain are left as they are, as in the papers. Every recalibrator has it.

    Attributes
    ----------
    classes_ : (K,) array
        Labels, in the order of the columns of `predict_proba`.
    identity_ : bool
        Whether only one class was observed, so that probabilities are left as they are.
    n_rows_ : int
        How many rows of positive weight it was fitted on.
    per_class_ : list of Recalibrator
        Of several classes, where each has a map of its own: one fitted recalibrator per class.
    clip_range_ : (2,) array
        The range into which certain scores are moved, where there were any.
    keeps_ranking : bool
        Two classes: a larger probability never becomes a smaller one than a lower's (ties may appear). Several classes:
        the order of the classes within each row is kept. Before fitting: whether that is guaranteed; afterwards:
        whether it holds for the fitted map.
    name : str
        Of what `choose` gives: the name of the chosen candidate.
    table : Table
        Of what `choose` gives: one row per candidate.
    choice : miscal.codes.recalibration.Choice
        Of what `choose` gives: why, in codes and numbers.
    reason : str
        Of what `choose` gives: why, as a sentence.

    Examples
    --------
    >>> from miscal.recalibrate import PlattScaling
    >>> fitted = PlattScaling(l2=1).fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> fitted.predict_proba([0.5]).round(2)
    array([[0.5, 0.5]])
    """

    #: Classes of other packages, by module and name: what JSON may name besides the library's.
    external_classes: ClassVar["dict[str, type[Recalibrator]]"] = {}

    # What a subclass declares where it differs.
    #: Whether X is used.
    uses_columns: ClassVar[bool] = False
    #: Whether several classes are rejected.
    binary_only: ClassVar[bool] = False
    #: Kinds of outcome that it can be fitted to.
    responses: ClassVar[tuple[str, ...]] = (Response.BINARY,)
    #: Whether several classes get one binary map each, of the class against the rest.
    one_vs_rest: ClassVar[bool] = False
    #: Whether rows of these maps are divided by their sums.
    normalises_classes: ClassVar[bool] = True
    #: Fewest and most classes for which `choose` tries it with its defaults.
    candidate_classes: ClassVar[tuple[float, float]] = 0, 0
    #: Whether `choose` may blend it: a map to probabilities of exactly 0 and 1 spoils a geometric mean.
    blendable: ClassVar[bool] = True
    #: Whether certain scores are moved before they are mapped.
    moves_certain_scores: ClassVar[bool] = True
    #: Whether every fit keeps the ranking.
    always_keeps_ranking: ClassVar[bool] = False

    keep_certain: bool = parameter(checks.truth, default=False, kw_only=True)

    classes_: Array = state("labels")
    identity_: bool = state("bool")
    n_rows_: int = state("int", low=1)
    per_class_: list[Self] = state("inner", optional=True, binary=True, json_name="each_")
    response_: str = state("word", optional=True)  # only of means
    clip_range_: Floats = state("float", 2, low=0.0, high=1.0, optional=True, json_name="held_")

    # What `choose` says of its result.
    name: str = field(init=False)
    table: Table = field(init=False)
    choice: Choice = field(init=False)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(eq=False, repr=False)(cls)
        if not cls.__module__.startswith("miscal.recalibrate."):
            Recalibrator.external_classes[f"{cls.__module__}.{cls.__qualname__}"] = cls

    # ------------------------------------------------------------------------------------------------ for the user
    def fit(
        self,
        y_prob: Any,
        y: Any,
        X: Any = None,
        sample_weight: Any = None,
        *,
        response: str = "binary",
        exposure: Any = None,
    ) -> Self:
        """Learn the map from probabilities (or predicted means) to better ones.

        Parameters
        ----------
        y_prob : (n,) or (n, K) array
            The model's probabilities on rows that it was not trained on. (n,): of class 1. With a `response` that is
            not binary: predicted means, with `exposure` rates per unit of it.
        y : (n,) array
            0/1, truth values or class indices; numbers or counts where `response` says so.
        X : frame, mapping or (n, d) array, optional
            Columns beside the score; recalibrators of the score alone do not use them.
        sample_weight : (n,) array, optional
            A row of weight 2 counts as two rows; rows of weight 0 are ignored.
        response : {"binary", "real", "count"}, default="binary"
            What the outcome is. Of "real" (amounts, scores) and "count" `predict` gives recalibrated means.
        exposure : (n,) array, optional
            Of a mean: what the outcome was collected over, such as years. Numbers above 0.

        Returns
        -------
        Recalibrator
            Itself.
        """
        self.check_parameters()
        nodes.formulas.pop(self, None)  # the formula of an earlier fit
        for name in list(vars(self)):
            if name.endswith("_") and not name.startswith("_"):
                delattr(self, name)
        columns = self._validated_columns(X)
        raw = RawPredictions(
            y, y_prob, sample_weight, columns=columns, names=METRIC, response=response, exposure=exposure
        )
        rows = Predictions.validated(raw)
        sample = TrainingSample.from_predictions(rows, rows.columns)
        return self._fit_validated(sample, label_array(rows.classes))

    def predict_proba(self, y_prob: Any, X: Any = None) -> Floats:
        """Recalibrated probabilities.

        Parameters
        ----------
        y_prob : (n,) or (n, K) array
            The model's probabilities, of the classes that `fit` had.
        X : frame, mapping or (n, d) array, optional
            The columns, for recalibrators that use them.

        Returns
        -------
        (n, K) array
            One column per class; rows sum to 1.
        """
        self.check_fitted()
        if self.predicts_means():
            raise refusal("gives probabilities", "'predict_proba'", got="it has means", hint="predict()")
        return self.map_checked(self.check_prediction(y_prob), X)

    def predict(self, prediction: Any, X: Any = None) -> Floats:
        """Recalibrated means, of a recalibrator that was fitted to means (`response` "real" or "count").

        Parameters
        ----------
        prediction : (n,) array
            Predicted means; with exposure, rates per unit of it.
        X : frame, mapping or (n, d) array, optional
            The columns, for recalibrators that use them.

        Returns
        -------
        (n,) array
            Means, or rates.
        """
        self.check_fitted()
        if not self.predicts_means():
            raise refusal("gives means", "'predict'", got="it has classes", hint="predict_proba()")
        return np.ascontiguousarray(self.map_checked(self.check_prediction(prediction), X)[:, 1])

    def apply_one(self, y_prob: Any, x: Mapping[str, Any] | None = None) -> tuple[float, ...]:
        """Recalibrated probabilities of one row: for a service.

        A map with a formula takes microseconds. Any other is given a table of one row, and so are values that are not
        plain, or of another type than fit had: a table converts or rejects them.

        Parameters
        ----------
        y_prob : float or sequence of float
            P(class 1), or one probability per class.
        x : mapping, optional
            The row's columns by name, for recalibrators that use columns.

        Returns
        -------
        tuple of float
            One probability per class; of means one number.

        Examples
        --------
        >>> from miscal.recalibrate import HistogramBinning
        >>> HistogramBinning(bins=2).fit([0.1, 0.3, 0.6, 0.8], [0, 1, 1, 1]).apply_one(0.2)
        (0.5, 0.5)
        """
        formula, means = nodes.formula_of(self), self.predicts_means()
        is_number = isinstance(y_prob, (int, float))
        scores: Any = [y_prob]
        if means or not is_number or not nodes.LEAST_SCORE <= y_prob <= 1.0:
            scores = self.check_prediction([y_prob if is_number else list(y_prob)])
        if formula is not None and (x is not None or not self.uses_columns):
            plain = {name: nodes.plain(value) for name, value in (x or {}).items()}
            try:
                event = formula(nodes.Row(plain, {nodes.STEP: float(scores[0])}))
            except (nodes.NeedsTablePath, KeyError, RecursionError):  # an unusual value, or a missing column
                pass
            else:
                return (event,) if means else (1.0 - event, event)
        table = {name: [value] for name, value in x.items()} if x is not None else None
        row = self.map_checked(np.array(scores, np.float64), table)[0].tolist()
        return tuple(row[1:] if means else row)

    def to_json(self) -> str:
        """Everything that was learned, as JSON text; `from_json` gives the same predictions bit for bit."""
        return serialization.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote. Text is checked field by field, and no code in it is run."""
        return serialization.loads(text, cls)

    def to_sql(
        self, column: str | Sequence[str] = "probability", *, dialect: str = "duckdb"
    ) -> str | list[str]:
        """The map as an SQL expression: the recalibrated probability of class 1, or one expression per class.

        Plain SQL (CASE, LN, EXP, LEAST, GREATEST) in doubles; numbers keep all their digits. A score that
        `predict_proba` would reject (NULL, NaN, outside [0, 1]) gives NULL, and so does a level where
        `handle_unknown="error"` would raise. Maps that use columns name them as fit did; missing is NULL (of numbers
        NaN too). Rounds of trees and steps of a chain are nested in a scalar subquery, or what the database has for it.

        Parameters
        ----------
        column : str or sequence of str, default="probability"
            Name of the column of probabilities, or of several classes one name each; they are quoted.
        dialect : {"duckdb", "postgres", "sqlite", "spark", "bigquery", "snowflake"}
            SQLite needs its mathematical functions (3.35, compiled in).

        Returns
        -------
        str or list of str
            The expression, or one per class.

        Raises
        ------
        MiscalError
            Where there is no formula, and for names that the database would take for one.

        Examples
        --------
        >>> from miscal.recalibrate import HistogramBinning
        >>> HistogramBinning(bins=2).fit([0.1, 0.3, 0.8], [0, 1, 1]).to_sql("p")
        '(CASE WHEN "p" >= 0 AND "p" <= 1 THEN (CASE WHEN CAST("p" AS DOUBLE) <= 0.5e0 THEN 0.5e0 ELSE 0.75e0 END) END)'
        """
        from miscal.export.formula_sql import to_sql

        return to_sql(self, column, dialect)

    def to_onnx(self, *, dtype: str = "float64") -> bytes:
        """The map as a serialised ONNX model: input `probability` (n,), output `recalibrated` (n, 2).

        Of several classes both are (n, K). Maps that use columns have one more input (n,) per column, under its name:
        numbers as float64 (NaN missing), whole numbers of which some are 2**53 or more as int64 (none missing), words
        as strings (the empty string missing), truth values as booleans. Where `predict_proba` would reject the score,
        or `handle_unknown="error"` the level, the output is NaN. Needs the onnx extra.

        Parameters
        ----------
        dtype : {"float64", "float32"}
            Type of the scores in and out. Single precision cannot tell 1 - 1e-9 from 1; inside, all is double.

        Returns
        -------
        bytes
            The model.

        Raises
        ------
        MiscalError
            Where there is no formula.
        """
        from miscal.export.formula_onnx import to_onnx

        return to_onnx(self, dtype)

    @property
    def keeps_ranking(self) -> bool:
        """Whether the order of probabilities is kept (see the class)."""
        if self.is_fitted() and self.identity_:
            return True
        return bool(not hasattr(self, "per_class_") and self._keeps_ranking())

    @property
    def reason(self) -> str:
        """Why `choose` gave it, as a sentence; only of what `choose` gives."""
        from miscal.words.recalibration import choice_sentence

        return choice_sentence(self.choice)

    @property
    def each_(self) -> list[Self]:
        """The old name of `per_class_`."""
        per_class = self.per_class_
        warn("use per_class_: each_ was renamed")
        return per_class

    def __repr__(self) -> str:
        text = unboxed(super().__repr__())
        if not self.is_fitted():
            return text
        learned = "one class only, so nothing was changed"
        if not self.identity_:
            several = hasattr(self, "per_class_")
            learned = f"{self.n_classes_} maps, one per class" if several else self._summary()
        return f"{text} fitted on {self.n_rows_:,} rows" + (f": {learned}" if learned else "")

    # --------------------------------------------------------------------------------------------- for subclasses
    def _fit(self, sample: TrainingSample) -> None:
        """Learn from validated rows of at least two classes and set every attribute that is declared by `state`."""

    def _map(self, probability: Floats) -> Floats:
        """Map validated probabilities, (n,) of two classes, to (n, K); of two classes P(class 1) is enough."""
        raise NotImplementedError

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:  # noqa: ARG002
        """As `_map`, for recalibrators that use columns; of others the columns are empty."""
        return self._map(probability)

    def _formula(self) -> nodes.Formula:
        """The fitted map as an expression that Python, SQL and ONNX can read; here of those that have none."""
        hint = "use predict_proba or apply_one"
        raise refusal("has no formula", f"what {type(self).__name__} learns", hint=hint)

    @classmethod
    def _candidates(cls, sample: TrainingSample) -> "dict[str, Recalibrator]":
        """What `choose` tries of this class for such rows, by name."""
        fewest, most = cls.candidate_classes
        return {cls.__name__: cls()} if fewest <= sample.n_classes <= most else {}

    def _keeps_ranking(self) -> bool:
        """Whether the fitted map keeps the ranking; before fitting, whether every fit does."""
        return self.always_keeps_ranking

    def _summary(self) -> str:
        """What was learned, in a few words for `repr`."""
        return ""

    def check_parameters(self) -> None:
        """Reject the first parameter whose check does."""
        for declared in fields(self):
            if "check" in declared.metadata:
                declared.metadata["check"](declared.name, getattr(self, declared.name))

    def check_state(self) -> None:
        """Reject a state read from JSON whose parts do not fit together."""

    # ------------------------------------------------------------------------------------------- for other modules
    @property
    def n_classes_(self) -> int:
        """How many classes; of a mean as of two."""
        return len(self.classes_)

    def predicts_means(self) -> bool:
        """Whether it was fitted to means that are not probabilities; inside, one is carried as (1 - mean, mean)."""
        return hasattr(self, "response_")

    def outcome_family(self) -> OutcomeFamily:
        """The kind of outcome that it was fitted to."""
        return FAMILIES[getattr(self, "response_", Response.BINARY)]

    def is_fitted(self) -> bool:
        """Whether `fit` was called."""
        return hasattr(self, "n_rows_")

    def check_fitted(self) -> None:
        """Raise `NotFitted` unless `fit` was called."""
        if not self.is_fitted():
            error = refusal("is not fitted", type(self).__name__, hint="call fit(y_prob, y) first")
            raise NotFitted(str(error))

    def state_names(self) -> list[str]:
        """Fitted attributes that JSON carries; a map that changes nothing has none beside those of all."""
        common_only = hasattr(self, "per_class_") or getattr(self, "identity_", False)
        declared = declared_state(Recalibrator if common_only else type(self))
        present = [name for name, entry in declared.items() if not entry.optional or hasattr(self, name)]
        return sorted(present, key=lambda name: declared[name].optional)

    def output_names(self, column: str) -> list[str]:
        """The columns of a table that hold recalibrated predictions: `column`, or one per class."""
        return [column] if self.n_classes_ == 2 else [f"{column}_{label}" for label in self.classes_]

    def formula(self) -> nodes.Formula:
        """The fitted map as an expression of `miscal.export.formula`.

        Returns
        -------
        Formula
            Of P(class 1) for two classes and means; of all classes for several.

        Raises
        ------
        MiscalError
            Where there is none, with the reason.
        """
        self.check_fitted()
        if self.identity_:
            return nodes.untouched(self.n_classes_)
        formula: Any = None
        if not hasattr(self, "per_class_"):
            formula = self._formula()
        elif not self.uses_columns:
            formula = nodes.Each(
                [class_map.formula() for class_map in self.per_class_], self.normalises_classes
            )
        exportable = nodes.Node if self.n_classes_ == 2 else (nodes.Softmax, nodes.Each)
        if not isinstance(formula, exportable):
            raise refusal(
                "can be written for two classes, or of the score alone",
                "a map",
                got=f"this {type(self).__name__} has {self.n_classes_}",
                hint="ship its JSON: to_json() and from_json()",
            )
        if hasattr(self, "clip_range_"):
            formula = nodes.then(nodes.Clipped(nodes.PROBABILITY, *self.clip_range_.tolist()), formula)
        return formula  # type: ignore[no-any-return]

    def check_prediction(self, y_prob: Any) -> Floats:
        """Validate predictions to be mapped: probabilities of fit's classes, or means.

        Parameters
        ----------
        y_prob : (n,) or (n, K) array
            What the user gave.

        Returns
        -------
        (n,) or (n, K) array
            (n,) for two classes and means.
        """
        if self.predicts_means():
            means = responses.numbers(y_prob, "'prediction'")
            if self.response_ == Response.COUNT:
                checks.refuse_rows(means < 0.0, "must not be negative", "'prediction'", means)
            return means
        probability = nodes.settled(checks.probability_matrix(y_prob, "'y_prob'")[0])
        classes = 2 if probability.ndim == 1 else probability.shape[1]
        if classes != self.n_classes_:
            got = f"it has {classes}, fit had {self.n_classes_}"
            raise refusal("must have the classes that fit had", "'y_prob'", got=got)
        if probability.ndim == 2 and classes == 2:
            return np.ascontiguousarray(probability[:, 1])
        return probability

    def map_checked(self, probability: Floats, X: Any = None) -> Floats:
        """Map predictions that were validated by `check_prediction`.

        Parameters
        ----------
        probability : (n,) or (n, K) array
            (n,) for two classes and means.
        X : frame, mapping or (n, d) array, optional
            The columns, for recalibrators that use them.

        Returns
        -------
        (n, K) array
            As `predict_proba` gives; of means (1 - mean, mean).
        """
        if self.identity_:
            return normalised_matrix(probability)
        columns = Columns({})
        if self.uses_columns:
            columns = named_columns(X, type(self).__name__, len(probability))
        if hasattr(self, "clip_range_"):
            probability = np.clip(probability, *self.clip_range_)
        if not hasattr(self, "per_class_"):
            return as_two_columns(self._map_with_columns(probability, columns))
        class_scores = np.ascontiguousarray(probability.T)
        mapped = np.stack(
            [
                class_map.map_checked(score, columns)[:, 1]
                for score, class_map in zip(class_scores, self.per_class_, strict=True)
            ],
            axis=1,
        )
        return normalise_rows(mapped, probability) if self.normalises_classes else mapped

    def fit_copy(self, sample: TrainingSample) -> Self:
        """A copy of it, fitted on validated rows.

        Parameters
        ----------
        sample : TrainingSample
            The rows.

        Returns
        -------
        Recalibrator
            Of the same class and parameters.
        """
        copy: Self = clone(self)
        copy.check_parameters()
        return copy._fit_validated(sample, np.arange(sample.n_classes))

    def fit_copy_quietly(self, sample: TrainingSample) -> Self:
        """As `fit_copy`, without warnings: for fits that the user did not ask for one by one."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MiscalWarning)
            return self.fit_copy(sample)

    # ----------------------------------------------------------------------------------------------------- private
    def _validated_columns(self, X: Any) -> Columns | None:
        return named_columns(X, type(self).__name__) if self.uses_columns else None

    def _fit_validated(self, sample: TrainingSample, classes: Array) -> Self:
        """Fit on validated rows; gives itself."""
        response, name = sample.response, type(self).__name__
        if response not in self.responses:
            able = [kind for kind in recalibrate.kinds() if response in getattr(recalibrate, kind).responses]
            requirement, got = f"fits no outcome that is {response}", f"'response' is {response!r}"
            raise refusal(requirement, name, got=got, hint=f"such as {', '.join(able)}")
        one_class = not sample.has_variation
        if one_class:
            warn(f"{name} saw one class only and leaves probabilities as they are")
        elif self.binary_only and sample.n_classes > 2:
            raise refusal("is for two classes", name, got=f"there are {sample.n_classes}")
        elif self.one_vs_rest and sample.n_classes > 2:
            self.per_class_ = [self._fit_one_vs_rest(sample, k) for k in range(sample.n_classes)]
        else:
            self._fit(self._with_certain_scores_moved(sample))
        if response != Response.BINARY:
            self.response_ = response
        self.classes_, self.identity_, self.n_rows_ = classes, one_class, sample.rows
        return self

    def _with_certain_scores_moved(self, sample: TrainingSample) -> TrainingSample:
        """The rows with certain scores moved into `clip_range_`, which is kept for the rows to come."""
        if not self.moves_certain_scores or self.keep_certain:
            return sample
        clip_range = certain_score_range(sample)
        if clip_range is None:
            return sample
        self.clip_range_ = clip_range
        return replace(sample, probability=np.clip(sample.probability, *clip_range))

    def _fit_one_vs_rest(self, sample: TrainingSample, k: int) -> Self:
        """The map of class k; that of a class that does not occur leaves probabilities as they are."""
        is_class = sample.outcome == k
        binary = replace(sample, probability=sample.probability[:, k], outcome=is_class, n_classes=2)
        return self.fit_copy(binary) if is_class.any() else self.fit_copy_quietly(binary)


dataclass(eq=False, repr=False)(Recalibrator)  # as `__init_subclass__` does to all others
