"""Specs: what to measure, as frozen values, so that a list of them can be kept, compared and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from inspect import signature
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

from miscal.data.errors import refusal
from miscal.data.predictions import Predictions
from miscal.data.sources import one_prediction
from miscal.metrics.field import by_field
from miscal.metrics.neighbourhood.result import by_neighbourhood
from miscal.metrics.score.result import by_score
from miscal.metrics.subpopulation.result import by_subpopulation
from miscal.metrics.variable import by_variable
from miscal.metrics.variation import by_variation
from miscal.results import Result


@dataclass(frozen=True)
class Spec:
    """Base of all specs; `by` is the function that measures it, whose parameters are the spec's fields."""

    by: ClassVar[Callable[..., Result]]

    def run(self, predictions: Predictions) -> Result:
        """Measure."""
        return type(self).by(predictions, **vars(self))

    if TYPE_CHECKING:

        def __init__(self, *what: Any, **options: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...


def _spec(by: Callable[..., Result], what: str) -> type[Spec]:
    """The spec of a `by_` function: a frozen record of its parameters, with the same defaults."""
    word = by.__name__.removeprefix("by_")
    asked = list(signature(by).parameters.values())[1:]  # the first are the predictions
    fields = [
        (one.name, Any) if one.default is one.empty else (one.name, Any, field(default=one.default)) for one in asked
    ]
    space = {"by": staticmethod(by), "__doc__": f"{what}: see `{by.__name__}`."}
    made = make_dataclass(word.capitalize(), fields, bases=(Spec,), namespace=space, frozen=True)
    made.__module__ = __name__
    return made


Score = _spec(by_score, "Calibration by score")
Variable = _spec(by_variable, "Calibration along a variable")
Field = _spec(by_field, "Calibration by the levels of a field")
Subpopulation = _spec(by_subpopulation, "Multi-calibration over subpopulations")
Neighbourhood = _spec(by_neighbourhood, "Local calibration")
Variation = _spec(by_variation, "Calibration of the predictions' variation")


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
    source, roles, rows = _opened(p, dict(read_options), "measure")
    return [_measured(spec.run, source, roles, rows) for spec in specs]


def of_table(by: Callable[..., Result], data: Any, what: Sequence[Any], options: dict[str, Any]) -> Result:
    """What a `by_` function says of a table; options that are not its own say how to read it."""
    own = signature(by).parameters
    reading = {name: value for name, value in options.items() if name not in own}
    source, roles, rows = _opened(data, reading, by.__name__)
    asked = {name: value for name, value in options.items() if name in own}
    return _measured(lambda predictions: by(predictions, *what, **asked), source, roles, rows)


def _opened(data: Any, options: dict[str, Any], where: str) -> tuple[Any, Any, Any]:
    """A table, which columns mean what, and its rows: all of them, or a sample."""
    from miscal.engines.gathering import gather, half_of_memory, rows_that_fit
    from miscal.engines.roles import Roles
    from miscal.engines.source import opened

    _check_named(data, options, where)
    unknown = options.keys() - signature(Roles).parameters.keys() - {"memory", "columns", "prediction"}
    if unknown:
        raise TypeError(f"{where}() got an unexpected keyword argument '{min(unknown)}'")
    memory, columns = options.pop("memory", None), options.pop("columns", None)
    prediction = options.pop("prediction", None)
    response = options.get("response", "binary")
    options["probability"] = one_prediction(options.get("probability"), prediction, response, options.get("exposure"))
    roles = Roles(**options)
    source = opened(data, memory)
    in_memory = memory is None and source.rows is not None and not isinstance(data, (str, PathLike))
    limit = None if in_memory else rows_that_fit(memory or half_of_memory(), source.kinds, source.texts)
    return source, roles, gather(source, roles, columns, limit=limit)


def _measured(run: Callable[[Predictions], Result], source: Any, roles: Any, rows: Any) -> Result:
    made = run(rows.predictions)
    if rows.complete:
        return made
    from miscal.metrics.from_sums import of_all_rows

    found = of_all_rows(made, rows.predictions, source, rows.roles or roles)
    if found is not None:
        return found
    words = f" Of a sample of {rows.predictions.rows:,} of {rows.rows:,} rows, drawn with equal chance."
    sizes = {"sample_rows": rows.predictions.rows, "table_rows": rows.rows}
    return replace(made, method=made.method + words, settings={**made.settings, **sizes})


def _check_named(source: Any, options: dict[str, Any], where: str) -> None:
    given = {"probability" if name == "prediction" else name for name in options}
    missing = [name for name in ("outcome", "probability") if name not in given]
    if missing:
        kind = "a path" if isinstance(source, (str, PathLike)) else f"{type(source).__name__}, not Predictions"
        hint = "name the columns, outcome='y', probability='p', or give miscal.Predictions(y_true, y_prob, columns=...)"
        raise refusal(f"needs {' and '.join(missing)}", where=where, got=f"data is {kind}", hint=hint)
