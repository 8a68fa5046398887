"""`by_` functions take a table as well as predictions: what they are not asked themselves says how it is read."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

from miscal.data.predictions import Predictions
from miscal.results import Result

Asked = ParamSpec("Asked")
Made_co = TypeVar("Made_co", bound=Result, covariant=True)


class By(Protocol[Asked, Made_co]):
    """A `by_` function: of predictions; or of a frame or a path, with what `miscal.read` takes."""

    @overload
    def __call__(self, p: Predictions, *what: Asked.args, **options: Asked.kwargs) -> Made_co: ...
    @overload
    def __call__(self, p: object, *what: Any, outcome: str, probability: Any, **options: Any) -> Made_co: ...


def also_of_tables(by: Callable[Concatenate[Predictions, Asked], Made_co]) -> By[Asked, Made_co]:
    """Let a function of predictions take a table too."""

    @wraps(by)
    def either(p: Any, *what: Any, **options: Any) -> Any:
        if isinstance(p, Predictions):
            return by(p, *what, **options)
        from miscal.metrics.specs import of_table

        return of_table(by, p, what, options)

    return cast("By[Asked, Made_co]", either)
