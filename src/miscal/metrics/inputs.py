"""From what a metric was given to the pair it compares, checked once; and gaps of cells made into one number.

A `by_` function takes a table as well as predictions: what it is not asked itself says how that is read.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

import numpy as np

from miscal.cells.ranges import Bins
from miscal.data.arrays import Array, named_columns
from miscal.data.checks import check_seed, refuse_rows
from miscal.data.columns import Column, column
from miscal.data.errors import refusal, refusing
from miscal.data.predictions import METRIC, Predictions, RawPredictions
from miscal.data.target import TargetData, select_target
from miscal.results import Result


class MetricInput:
    """Checked arrays of one metric call; rows of weight 0 are left out of everything alike."""

    def __init__(
        self,
        y_true: Any,
        y_prob: Any,
        sample_weight: Any = None,
        response: str = "binary",
        exposure: Any = None,
    ) -> None:
        raw = RawPredictions(
            y_true, y_prob, sample_weight, names=METRIC, response=response, exposure=exposure
        )
        self.predictions = Predictions.validated(raw)
        # What an error is multiplied by to be in the units of the response.
        self.scale = self.predictions.units.scale
        self.rows = self.predictions.rows + self.predictions.ignored  # those of weight 0 among them
        self.kept: Array | None = None  # the rows of positive weight, where not all are
        if self.predictions.ignored:
            self.kept = np.flatnonzero(np.asarray(sample_weight, float) > 0)

    def pair(self, target: str | int, correct: Any = None) -> TargetData:
        """The pair that the target asks for, with other observed values where `correct` has them."""
        data = select_target(self.predictions, target)
        if correct is None:
            return data
        if self.predictions.response != "binary":
            raise refusal("needs response='binary'", "'correct'", hint="give the outcomes as 'y_true'")
        values = self.kept_rows(np.asarray(correct), "'correct'")
        with refusing("must be numbers in [0, 1]", "'correct'"):
            values = values.astype(float)
        refuse_rows(~((values >= 0) & (values <= 1)), "must lie in [0, 1]", "'correct'", values)
        events = values.astype(np.uint8)
        return replace(data, observed=events if np.array_equal(events, values) else values)

    def numbers(self, values: Any, where: str) -> Array:
        """A finite number a row."""
        converted = column(where.strip("'"), values, where=where)
        if converted.nominal:
            raise refusal("must hold numbers", where, got=f"it holds {converted.kind} values")
        array = np.ascontiguousarray(self.kept_rows(converted.values, where), float)
        refuse_rows(np.isnan(array), "must not be missing", where)
        return array

    def column(self, column: Column) -> Column:
        """A column of the same rows."""
        return replace(column, values=self.kept_rows(column.values, f"column '{column.name}'"))

    def kept_rows(self, values: Array, where: str) -> Array:
        """Those of the rows given that have a weight."""
        if values.shape[:1] != (self.rows,):
            requirement = f"must have one value a row ({self.rows})"
            raise refusal(requirement, where, got=f"its shape is {values.shape}")
        return values if self.kept is None else values[self.kept]


Norm = str | float


def norm_power(norm: Norm) -> float:
    """The exponent a norm stands for: 1 for "l1", 2 for "l2", infinity for "max", or the number itself."""
    power = {"l1": 1.0, "l2": 2.0, "max": np.inf}.get(norm) if isinstance(norm, str) else norm
    if isinstance(power, (int, float, np.number)) and not isinstance(power, bool) and power >= 1:
        return float(power)
    requirement = "must be 'l1', 'l2', 'max' or a number of at least 1"
    raise refusal(requirement, "'norm'", got=f"it is {norm!r}")


def aggregate(gaps: Array, weight: Array, norm: Norm = "l1") -> Array:
    """(Σ share·|gap|^p)^(1/p) over the last axis, share = weight / Σ weight; cells without weight do not count.

    >>> float(aggregate(np.array([0.1, -0.3]), np.array([3.0, 1.0])))
    0.15
    """
    power = norm_power(norm)
    sizes = np.where(weight > 0, np.abs(gaps), 0.0)
    if np.isinf(power):
        return np.asarray(sizes.max(axis=-1))
    share = weight / weight.sum(axis=-1, keepdims=True)
    return np.asarray((sizes**power * share).sum(axis=-1) ** (1.0 / power))


def bins_asked(bins: Bins | None) -> int | list[float] | None:
    """A number of bins, or their edges, as settings record them."""
    return bins if bins is None or isinstance(bins, int) else np.asarray(bins, float).tolist()


def variable_columns(variable: Any) -> list[Column]:
    """The columns of what was given as a variable: one, the columns of a frame, or those of a matrix."""
    if not isinstance(variable, dict) and len(getattr(variable, "shape", ())) != 2:
        return [column("variable", variable, where="'variable'")]
    start = "variable " if isinstance(variable, np.ndarray) else ""
    named = named_columns(variable, "'variable'")
    if not named:
        raise refusal("must have at least one column", "'variable'")
    return [column(f"{start}{name}", values) for name, values in named.items()]


Asked = ParamSpec("Asked")
Made_co = TypeVar("Made_co", bound=Result, covariant=True)


class By(Protocol[Asked, Made_co]):
    """A `by_` function: of predictions; or of a frame or a path, with what `miscal.read` takes."""

    @overload
    def __call__(self, p: Predictions, *what: Asked.args, **options: Asked.kwargs) -> Made_co: ...
    @overload
    def __call__(self, p: object, *what: Any, outcome: str, probability: Any, **options: Any) -> Made_co: ...


def also_of_tables(by: Callable[Concatenate[Predictions, Asked], Made_co]) -> By[Asked, Made_co]:
    """Let a function of predictions take a table too; its seed is checked here."""

    @wraps(by)
    def either(p: Any, *what: Any, **options: Any) -> Any:
        if isinstance(p, Predictions):
            check_seed(options.get("random_state", 0))
            return by(p, *what, **options)
        from miscal.metrics.specs import of_table

        return of_table(either, p, what, options)

    return cast("By[Asked, Made_co]", either)
