"""Specs: what to measure, as frozen values, so that a list of them can be kept, compared and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from os import PathLike
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

    def run(self, predictions: Predictions) -> Result:
        """Measure."""
        module, name = self.by
        result: Result = getattr(import_module(module), name)(predictions, **vars(self))
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

    by: ClassVar = ("miscal.metrics.field", "by_field")
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

    by: ClassVar = ("miscal.metrics.variation", "by_variation")
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
    p : Predictions, a path (a file, a folder, a pattern), a frame of any library, a lazy or a Spark frame
    specs : Score(...), Variable("age"), Field("state"), ...
    read_options : for a table, what `miscal.read` takes (outcome=, probability=, ...), and memory="1GB", a ceiling. Of
        a table that does not fit, a sample of as many rows as may be is taken: edges are chosen on it, and score,
        variables and fields are measured on all rows; what needs rows is that of the sample, and says so

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
    if isinstance(p, Predictions):
        return [spec.run(p) for spec in specs]
    table = _Table.opened(p, dict(read_options))
    return [table.measured(spec) for spec in specs]


@dataclass(frozen=True, eq=False)
class _Table:
    """A table of which all rows are here, or a sample."""

    source: Any
    roles: Any
    rows: Any

    @classmethod
    def opened(cls, data: Any, options: dict[str, Any]) -> _Table:
        from miscal.engines.gathering import gather, half_of_memory, rows_that_fit
        from miscal.engines.roles import Roles
        from miscal.engines.source import opened

        _check_named(data, options)
        memory, columns = options.pop("memory", None), options.pop("columns", None)
        roles = Roles(**options)
        source = opened(data, memory)
        in_memory = memory is None and source.rows is not None and not isinstance(data, (str, PathLike))
        limit = None if in_memory else rows_that_fit(memory or half_of_memory(), source.kinds)
        return cls(source, roles, gather(source, roles, columns, limit=limit))

    def measured(self, spec: Spec) -> Result:
        made = spec.run(self.rows.predictions)
        if self.rows.complete:
            return made
        from miscal.metrics.from_sums import of_all_rows

        found = of_all_rows(made, self.rows.predictions, self.source, self.roles)
        if found is not None:
            return found
        words = f" Of a sample of {self.rows.predictions.rows:,} of {self.rows.rows:,} rows, drawn with equal chance."
        rows = {"sample_rows": self.rows.predictions.rows, "table_rows": self.rows.rows}
        return replace(made, method=made.method + words, settings={**made.settings, **rows})


def _check_named(source: Any, options: dict[str, Any]) -> None:
    missing = [name for name in ("outcome", "probability") if name not in options]
    if missing:
        kind = "a path" if isinstance(source, (str, PathLike)) else "a frame"
        raise refusal(f"needs {' and '.join(missing)}", where="measure", got=f"data is {kind}", hint="name the columns")
