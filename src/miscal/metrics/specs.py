"""Specs: what to measure, as frozen values, so that a list of them can be kept, compared and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from miscal.data.errors import refusal
from miscal.data.predictions import Predictions
from miscal.results import Result

Bins = int | Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Spec:
    """Base of all specs; `by` names the function that measures it."""

    by: ClassVar[tuple[str, str]]
    subject: ClassVar[str | None] = None
    in_parts: ClassVar[tuple[str, str] | None] = None  # what measures a table that is not loaded

    def run(self, predictions: Predictions) -> Result:
        """Measure."""
        module, name = self.by
        options = {item.name: getattr(self, item.name) for item in fields(self)}
        subject = [options.pop(self.subject)] if self.subject else []
        result: Result = getattr(import_module(module), name)(predictions, *subject, **options)
        return result


@dataclass(frozen=True)
class Score(Spec):
    """Calibration by score: see `by_score`."""

    by: ClassVar = ("miscal.metrics.score.result", "by_score")
    bins: Bins = 15
    strategy: str = "quantile"
    norm: str | float = "l1"
    target: str | int = "auto"
    null: str = "bernoulli"
    random_state: int = 0


@dataclass(frozen=True)
class Variable(Spec):
    """Calibration along a variable: see `by_variable`."""

    by: ClassVar = ("miscal.metrics.variable", "by_variable")
    subject: ClassVar = "variable"
    variable: str | Sequence[str]
    bins: Bins = 10
    strategy: str = "quantile"
    norm: str | float = "l1"
    target: str | int = "auto"
    null: str = "bernoulli"
    random_state: int = 0
    curve: bool = True


@dataclass(frozen=True)
class Field(Spec):
    """Calibration by the levels of a field: see `by_field`."""

    by: ClassVar = ("miscal.metrics.field.result", "by_field")
    subject: ClassVar = "field"
    field: str | Sequence[str]
    parent: str | Sequence[str] | None = None
    bins: Bins | None = None
    norm: str | float = "l1"
    target: str | int = "auto"
    null: str = "bernoulli"
    random_state: int = 0


@dataclass(frozen=True)
class Subpopulation(Spec):
    """Multi-calibration over subpopulations: see `by_subpopulation`."""

    by: ClassVar = ("miscal.metrics.subpopulation.result", "by_subpopulation")
    in_parts: ClassVar = ("miscal.metrics.subpopulation.streamed", "subpopulations_in_parts")
    subject: ClassVar = "columns"
    columns: str | Sequence[str] | None = None
    subpopulations: Any = 1000
    simulations: int = 999
    min_size: int = 10
    min_information: float = 5.0
    nominal: Any = None
    statistic: str = "range"
    emphasis: str | None = None
    rho: float = 0.01
    regularise: str = "max"
    target: str | int = "auto"
    null: str = "bernoulli"
    random_state: int = 0


@dataclass(frozen=True)
class Neighbourhood(Spec):
    """Local calibration: see `by_neighbourhood`."""

    by: ClassVar = ("miscal.metrics.neighbourhood.result", "by_neighbourhood")
    in_parts: ClassVar = ("miscal.metrics.neighbourhood.streamed", "neighbourhoods_in_parts")
    subject: ClassVar = "columns"
    columns: Any = None
    bandwidth: float = 0.2
    reduce: str | None = None
    dimensions: int | None = None
    scale: str | None = "standard"
    bins: Bins = 15
    strategy: str = "uniform"
    kernel: Any = "laplacian"
    simulations: int = 999
    min_information: float = 5.0
    target: str | int = "auto"
    null: str = "bernoulli"
    random_state: int = 0
    device: str = "auto"


@dataclass(frozen=True)
class Variation(Spec):
    """Calibration of the predictions' variation: see `by_variation`."""

    by: ClassVar = ("miscal.metrics.variation.result", "by_variation")
    variation: str | Callable[[np.ndarray], Any] = "entropy"
    bins: Bins = 10
    strategy: str = "uniform"
    range: tuple[float, float] | None = None
    norm: str | float = "l1"
    bias_correction: bool = False
    target: str = "auto"
    null: str = "bernoulli"
    random_state: int = 0


def measure(p: Any, *specs: Spec, **read_options: Any) -> list[Result]:
    """Measure several things of one set of predictions.

    Parameters
    ----------
    p : Predictions, a path, or a frame of any library
    specs : Score(...), Variable("age"), Field("state"), ...
    read_options : for a path or frame, what `miscal.read` takes (outcome=, probability=, ...); with memory="1GB", and
        for folders, patterns and Spark frames always, the table is read in parts: subpopulations are exact or bounded,
        neighbourhoods are those of a sample, and all else is what `miscal.audit` gives

    Examples
    --------
    >>> import numpy as np, miscal
    >>> p = miscal.Predictions([0, 1, 1, 0], [0.2, 0.7, 0.6, 0.4], columns={"sex": ["f", "m", "f", "m"]})
    >>> [result.kind for result in miscal.measure(p, miscal.Score(bins=2), miscal.Field("sex"))]
    ['score', 'field']
    """
    for spec in specs:
        if not isinstance(spec, Spec):
            raise refusal("must be specs such as Score() or Field('state')", where="what to measure", got=repr(spec))
    if not isinstance(p, Predictions) and _in_parts(p, read_options.get("memory")):
        return [measure_in_parts(spec, p, read_options) for spec in specs]
    predictions = p if isinstance(p, Predictions) else _read(p, read_options)
    return [spec.run(predictions) for spec in specs]


def _in_parts(source: Any, memory: Any) -> bool:
    from miscal.engines.runners import in_parts

    return in_parts(source, memory)


def measure_in_parts(spec: Spec, source: Any, options: dict[str, Any]) -> Result:
    """Measure a table that is not loaded."""
    _check_named(source, options)
    if spec.in_parts is None:
        name = type(spec).__name__
        hint = "miscal.audit(..., memory=) has its result; or load the table"
        raise refusal("is not measured by itself where a table is read in parts", where=name, hint=hint)
    module, name = spec.in_parts
    own = {item.name: getattr(spec, item.name) for item in fields(spec)}
    subject = own.pop(str(spec.subject))
    result: Result = getattr(import_module(module), name)(source, subject, **own, **options)
    return result


def _read(source: Any, options: dict[str, Any]) -> Predictions:
    from miscal.data.sources import read

    _check_named(source, options)
    return read(source, **options)


def _check_named(source: Any, options: dict[str, Any]) -> None:
    missing = [name for name in ("outcome", "probability") if name not in options]
    if missing:
        kind = "a path" if isinstance(source, (str, Path)) else "a frame"
        raise refusal(f"needs {' and '.join(missing)}", where="measure", got=f"data is {kind}", hint="name the columns")
