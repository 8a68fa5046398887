"""What every recalibrator is: fit on probabilities and outcomes, then map probabilities to better ones."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from miscal import recalibrate
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


class NotFitted(MiscalError, NotFittedError):  # type: ignore[misc]
    """What was asked needs `fit` first; scikit-learn's error too, so that its tools know it."""


@dataclass_transform(eq_default=False, field_specifiers=(parameter, state))
class Recalibrator(BaseEstimator):  # type: ignore[misc]
    """Base of all recalibrators.

    A subclass declares its parameters, each with a default or by `parameter` with its check, and its fitted attributes
    by `state`: it is a dataclass, and `__init__`, the checks and JSON come from there. It writes `_fit`, and `_map`
    (or, with `uses_columns`, `_map_with_columns`), none of which may change it but `_fit`. One more line, in
    `recalibrate/__init__.py`, and it can be read from JSON, its laws are tested and its line stands in the docs; what
    it may write besides: `_formula` (SQL, ONNX and one row quickly) and `_candidates` (of `choose`). Where only one
    class occurs among the rows to fit on nothing can be learned: with a warning, the recalibrator then leaves
    probabilities as they are.

    With ``response="real"`` or ``"count"`` those whose `responses` say so are fitted to means that are no
    probabilities, and `predict` gives means.

    Certainties are pulled in: of two classes, scores of exactly 0 and 1, and the lowest and highest ones where more (or
    less) happened than they said (chance below 1e-4), are first moved to the rate that their rows bear out, half an
    event added. Maps of free shape (bins, isotonic, local) do without: none of their rates comes nearer to 0 or 1 than
    half an event. With ``keep_certain=True``, a parameter of every recalibrator, scores are taken for what they say, as
    the papers do.

    Attributes
    ----------
    classes_ : (K,) labels, in the order of the columns of `predict_proba`
    identity_ : bool
        Only one class was seen, so probabilities are left as they are.
    n_rows_ : int
        How many rows of positive weight were fitted on.
    keeps_ranking : bool
        Binary: a larger probability never becomes a smaller one than a lower's (ties may appear). Several classes: the
        order of the classes within each row is kept. Before fitting: whether that is guaranteed; afterwards: whether
        it holds for the fitted map.
    """

    external_classes: ClassVar[
        "dict[str, type[Recalibrator]]"
    ] = {}  # classes that are not ours, by module and name
    uses_columns: ClassVar[bool] = False  # whether X is looked at
    binary_only: ClassVar[bool] = False
    responses: ClassVar[tuple[str, ...]] = ("binary",)  # kinds of outcome that it can be fitted to
    one_vs_rest: ClassVar[bool] = False  # of several classes: one map of two for each class against the rest
    normalises_classes: ClassVar[bool] = True  # whether what these maps give is divided by its sum
    # Fewest and most classes for which `choose` tries it as it is.
    candidate_classes: ClassVar[tuple[float, float]] = 0, 0
    blendable: ClassVar[bool] = True  # whether `choose` may mix it: a map to certainties spoils a mean
    moves_certain_scores: ClassVar[bool] = (
        True  # whether scores that are certain are moved before they are mapped
    )
    always_keeps_ranking: ClassVar[bool] = False  # whether any fit keeps the ranking

    keep_certain: bool = parameter(checks.truth, default=False, kw_only=True)

    classes_: Array = state("labels")
    identity_: bool = state("bool")
    n_rows_: int = state("int", low=1)
    per_class_: list[Self] = state("inner", optional=True, binary=True, json_name="each_")
    response_: str = state("word", optional=True)  # of means
    clip_range_: Floats = state("float", 2, low=0.0, high=1.0, optional=True, json_name="held_")

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
        y_prob : (n,) or (n, K) numbers
            The model's probabilities on rows that it was not trained on. (n,): of class 1. With a `response` that is
            not binary: predicted means, with `exposure` rates a unit of it.
        y : (n,) labels
            0/1, truth values or class indices; real numbers or counts where `response` says so.
        X : frame, mapping or (n, d) array, optional
            What else is known of the rows; recalibrators of the score alone do not look at it.
        sample_weight : (n,) numbers, optional
            A row of weight 2 counts as two rows; rows of weight 0 are ignored.
        response : {"binary", "real", "count"}
            What the outcome is. Of "real" (amounts, scores) and "count" `predict` gives the repaired means.
        exposure : (n,) numbers above 0, optional
            Of a mean: what the outcome was collected over, such as years.
        """
        self.check_parameters()
        nodes.formulas.pop(self, None)  # it is no longer true
        for name in list(vars(self)):
            if name.endswith("_") and not name.startswith("_"):
                delattr(self, name)
        columns = self._validated_columns(X)
        given = RawPredictions(
            y, y_prob, sample_weight, columns=columns, names=METRIC, response=response, exposure=exposure
        )
        rows = Predictions.validated(given)
        return self._fit_validated(
            TrainingSample.from_predictions(rows, rows.columns), label_array(rows.classes)
        )

    def _fit_validated(self, sample: TrainingSample, classes: Array) -> Self:
        """Itself, fitted on validated rows."""
        response, name = sample.response, type(self).__name__
        if response not in self.responses:
            can = [kind for kind in recalibrate.kinds() if response in getattr(recalibrate, kind).responses]
            what, got = f"fits no outcome that is {response}", f"'response' is {response!r}"
            raise refusal(what, name, got=got, hint=f"such as {', '.join(can)}")
        one_class = not sample.has_variation
        if one_class:
            warn(f"{name} saw one class only and leaves probabilities as they are")
        elif self.binary_only and sample.n_classes > 2:
            got = f"there are {sample.n_classes}"
            raise refusal("is for two classes", name, got=got)
        elif self.one_vs_rest and sample.n_classes > 2:
            self.per_class_ = [self._fit_one_vs_rest(sample, k) for k in range(sample.n_classes)]
        else:
            held = (
                certain_score_range(sample) if self.moves_certain_scores and not self.keep_certain else None
            )
            if held is not None:  # it is kept for the rows to come
                self.clip_range_ = held
                sample = replace(sample, probability=np.clip(sample.probability, *held))
            self._fit(sample)
        if response != "binary":
            self.response_ = response
        self.classes_, self.identity_, self.n_rows_ = classes, one_class, sample.rows
        return self

    def predict_proba(self, y_prob: Any, X: Any = None) -> Floats:
        """Recalibrated probabilities, (n, K), one column a class; rows sum to 1."""
        self.check_fitted()
        if self.predicts_means():
            raise refusal("gives probabilities", "'predict_proba'", got="it has means", hint="predict()")
        return self.map_checked(self.check_prediction(y_prob), X)

    def predict(self, prediction: Any, X: Any = None) -> Floats:
        """Repaired means, (n,), of a recalibrator that was fitted to means (`response` "real" or "count").

        With exposure, predictions and answers are rates a unit of it.
        """
        self.check_fitted()
        if not self.predicts_means():
            raise refusal("gives means", "'predict'", got="it has classes", hint="predict_proba()")
        return np.ascontiguousarray(self.map_checked(self.check_prediction(prediction), X)[:, 1])

    def apply_one(self, y_prob: Any, x: Mapping[str, Any] | None = None) -> tuple[float, ...]:
        """Recalibrated probabilities of one row: for a service.

        A map with a formula takes microseconds. Any other is given a table of one row, and so are values that are not
        plain, or of another type than fit had: a table converts them, or refuses in words.

        Parameters
        ----------
        y_prob : float = P(class 1), or one probability a class
        x : the row's columns by name, for recalibrators that use columns

        Examples
        --------
        >>> from miscal.recalibrate import HistogramBinning
        >>> HistogramBinning(bins=2).fit([0.1, 0.3, 0.6, 0.8], [0, 1, 1, 1]).apply_one(0.2)
        (0.5, 0.5)
        """
        formula, mean = nodes.formula_of(self), self.predicts_means()
        one = isinstance(y_prob, (int, float))
        checked: Any = [y_prob]
        if mean or not one or not nodes.LEAST_SCORE <= y_prob <= 1.0:
            checked = self.check_prediction([y_prob if one else list(y_prob)])
        if formula is not None and (x is not None or not self.uses_columns):
            plain = {name: nodes.plain(value) for name, value in (x or {}).items()}
            try:
                event = formula(nodes.Row(plain, {nodes.STEP: float(checked[0])}))
            except (
                nodes.NeedsTablePath,
                KeyError,
                RecursionError,
            ):  # an unusual value, a column that is not there
                pass
            else:
                return (event,) if mean else (1.0 - event, event)
        table = {name: [value] for name, value in x.items()} if x is not None else None
        found = self.map_checked(np.array(checked, np.float64), table)[0].tolist()
        return tuple(found[1:] if mean else found)

    def to_json(self) -> str:
        """Everything that was learned, as JSON text; `from_json` gives back the same predictions bit for bit."""
        return serialization.dumps(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote. Text is checked field by field, and no code in it is run."""
        return serialization.loads(text, cls)

    def to_sql(
        self, column: str | Sequence[str] = "probability", *, dialect: str = "duckdb"
    ) -> str | list[str]:
        """The map as an SQL expression: the recalibrated probability of class 1, or one expression a class.

        Plain SQL (CASE, LN, EXP, LEAST, GREATEST) in doubles; numbers keep all their digits. A score that
        `predict_proba` would refuse (NULL, NaN, outside [0, 1]) gives NULL, and so does a level where
        `handle_unknown="error"` would raise. Maps that look at columns name them as fit did; missing is NULL (of
        numbers NaN too). Rounds of trees and steps of a chain are nested in a scalar subquery, or what the database
        has for it. Refuses where there is no formula, and names that the database would take for one.

        Parameters
        ----------
        column : name of the column of probabilities, or of several classes one name each; they are quoted
        dialect : {"duckdb", "postgres", "sqlite", "spark", "bigquery", "snowflake"}
            SQLite needs its mathematical functions (3.35, compiled in).

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

        Of several classes both are (n, K).

        Maps that look at columns have one more input (n,) a column, under its name: numbers as float64 (NaN missing),
        whole numbers of which some are 2**53 or more as int64 (none missing), words as strings (the empty string
        missing), truth values as booleans. Where `predict_proba` would refuse the score, or `handle_unknown="error"`
        the level, the output is NaN. Needs the onnx extra. Refuses where there is no formula.

        Parameters
        ----------
        dtype : {"float64", "float32"}
            Of the scores in and out. Single precision cannot tell 1 - 1e-9 from 1; inside all is double.
        """
        from miscal.export.formula_onnx import to_onnx

        return to_onnx(self, dtype)

    @property
    def keeps_ranking(self) -> bool:
        """Whether the order of probabilities is kept (see the class)."""
        if self.is_fitted() and self.identity_:
            return True
        return bool(not hasattr(self, "per_class_") and self._keeps_ranking())

    def __repr__(self) -> str:
        text = unboxed(super().__repr__())
        if not self.is_fitted():
            return text
        learned = "one class only, so nothing was changed"
        if not self.identity_:
            learned = (
                f"{self.n_classes_} maps, one a class" if hasattr(self, "per_class_") else self._summary()
            )
        return f"{text} fitted on {self.n_rows_:,} rows" + (f": {learned}" if learned else "")

    # ------------------------------------------------------------------------------------------- for the subclasses
    def _fit(self, sample: TrainingSample) -> None:
        """Learn from validated rows of at least two classes and set every attribute that is declared by `state`."""

    def _map(self, probability: Floats) -> Floats:
        """Map validated probabilities, (n,) when binary, to (n, K); of two classes the second's are enough."""
        raise NotImplementedError

    def _map_with_columns(self, probability: Floats, columns: Columns) -> Floats:  # noqa: ARG002
        """As `_map`, for recalibrators that use columns; of others they are empty."""
        return self._map(probability)

    def _formula(self) -> nodes.Formula:
        """What the fitted map is, in nodes that Python, SQL and ONNX can read; here of those that have none."""
        hint = "use predict_proba or apply_one"
        raise refusal("has no formula", f"what {type(self).__name__} learns", hint=hint)

    @classmethod
    def _candidates(cls, sample: TrainingSample) -> "dict[str, Recalibrator]":
        """What `choose` tries of this class for such rows, by name."""
        fewest, most = cls.candidate_classes
        return {cls.__name__: cls()} if fewest <= sample.n_classes <= most else {}

    def check_parameters(self) -> None:
        """Refuse the first parameter whose check does."""
        for each in fields(self):
            if "check" in each.metadata:
                each.metadata["check"](each.name, getattr(self, each.name))

    def check_state(self) -> None:
        """Refuse a state read from JSON whose parts do not fit together."""

    def predicts_means(self) -> bool:
        """Whether it was fitted to means that are not probabilities; inside, one is carried as (1 - mean, mean)."""
        return hasattr(self, "response_")

    def outcome_family(self) -> OutcomeFamily:
        """The kind of outcome that it was fitted to."""
        return FAMILIES[getattr(self, "response_", "binary")]

    def _fit_one_vs_rest(self, sample: TrainingSample, k: int) -> Self:
        """A map of one class; that of a class that does not occur leaves probabilities as they are."""
        happened = sample.outcome == k
        part = replace(sample, probability=sample.probability[:, k], outcome=happened, n_classes=2)
        return self.fit_copy(part) if happened.any() else self.fit_copy_quietly(part)

    def _keeps_ranking(self) -> bool:
        return self.always_keeps_ranking

    def _summary(self) -> str:
        return ""

    def is_fitted(self) -> bool:
        """Whether `fit` was called."""
        return hasattr(self, "n_rows_")

    def check_fitted(self) -> None:
        """Refuse unless `fit` was called."""
        if not self.is_fitted():
            said = refusal("is not fitted", type(self).__name__, hint="call fit(y_prob, y) first")
            raise NotFitted(str(said))

    def formula(self) -> nodes.Formula:
        """The fitted map in nodes of `miscal.export.formula`, or a refusal that says why there are none."""
        self.check_fitted()
        if self.identity_:
            return nodes.untouched(self.n_classes_)
        found: Any = None
        if not hasattr(self, "per_class_"):
            found = self._formula()
        elif not self.uses_columns:
            found = nodes.Each([one.formula() for one in self.per_class_], self.normalises_classes)
        whole = nodes.Node if self.n_classes_ == 2 else (nodes.Softmax, nodes.Each)
        if not isinstance(found, whole):
            raise refusal(
                "can be written for two classes, or of the score alone",
                "a map",
                got=f"this {type(self).__name__} has {self.n_classes_}",
                hint="ship its JSON: to_json() and from_json()",
            )
        if hasattr(self, "clip_range_"):
            found = nodes.then(nodes.Clipped(nodes.PROBABILITY, *self.clip_range_.tolist()), found)
        return found  # type: ignore[no-any-return]

    def state_names(self) -> list[str]:
        """Fitted attributes that JSON carries; a map that changes nothing has none of its own."""
        plain = hasattr(self, "per_class_") or getattr(self, "identity_", False)
        found = declared_state(Recalibrator if plain else type(self))
        there = [name for name, field in found.items() if not field.optional or hasattr(self, name)]
        # Those that may be missing come last.
        return sorted(there, key=lambda name: found[name].optional)

    @property
    def n_classes_(self) -> int:
        """How many classes; of a mean as of two."""
        return len(self.classes_)

    def output_names(self, column: str) -> list[str]:
        """The columns of a table that hold what it makes of a prediction: one, or one a class."""
        return [column] if self.n_classes_ == 2 else [f"{column}_{label}" for label in self.classes_]

    def _validated_columns(self, X: Any) -> Columns | None:
        return named_columns(X, type(self).__name__) if self.uses_columns else None

    def map_checked(self, probability: Floats, X: Any = None) -> Floats:
        """What `predict_proba` gives for probabilities that are already checked."""
        if self.identity_:
            return normalised_matrix(probability)
        columns = (
            named_columns(X, type(self).__name__, len(probability)) if self.uses_columns else Columns({})
        )
        if hasattr(self, "clip_range_"):
            probability = np.clip(probability, *self.clip_range_)
        if not hasattr(self, "per_class_"):
            return as_two_columns(self._map_with_columns(probability, columns))
        each = zip(np.ascontiguousarray(probability.T), self.per_class_, strict=True)
        found = np.stack([one.map_checked(p, columns)[:, 1] for p, one in each], axis=1)
        return normalise_rows(found, probability) if self.normalises_classes else found

    def fit_copy(self, sample: TrainingSample) -> Self:
        """A copy fitted on rows."""
        made: Self = clone(self)
        made.check_parameters()
        return made._fit_validated(sample, np.arange(sample.n_classes))

    def fit_copy_quietly(self, sample: TrainingSample) -> Self:
        """As `fit_copy`, where what it has to say of the rows is not for the user."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MiscalWarning)
            return self.fit_copy(sample)

    def check_prediction(self, y_prob: Any) -> Floats:
        """Probabilities as `predict_proba` takes them, with fit's classes: (n,) of two, or (n, K)."""
        if self.predicts_means():
            found = responses.numbers(y_prob, "'prediction'")
            if self.response_ == "count":
                checks.refuse_rows(found < 0.0, "must not be negative", "'prediction'", found)
            return found
        probability = nodes.settled(checks.probability_matrix(y_prob, "'y_prob'")[0])
        classes = 2 if probability.ndim == 1 else probability.shape[1]
        if classes != self.n_classes_:
            got = f"it has {classes}, fit had {self.n_classes_}"
            raise refusal("must have the classes that fit had", "'y_prob'", got=got)
        if probability.ndim == 2 and classes == 2:
            return np.ascontiguousarray(probability[:, 1])
        return probability


dataclass(eq=False, repr=False)(Recalibrator)  # as `__init_subclass__` does to all others
