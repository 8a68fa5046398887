"""How a recalibrator declares its parameters and fitted attributes, and the checks that several of them share.

The rule: what a user sets is declared by `parameter`, with the check that rejects wrong values; what `fit` learns is
declared by `state`, with its type, shape and range. `__init__`, `check_parameters`, `clone` and JSON follow from the
declarations, so that a recalibrator writes none of them. Checks that are of use to several recalibrators stand here;
those of one stand beside it.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from miscal.cells.ranges import given_edges
from miscal.data.arrays import Array
from miscal.data.checks import whole
from miscal.data.columns import Column, Columns, columns_given
from miscal.data.errors import check_named, refusal

if TYPE_CHECKING:
    from miscal.recalibrate.base import Recalibrator

#: Largest absolute value of a coefficient: products and sums of a few stay finite.
MAX_COEFFICIENT = 1e100

#: Types by which a column may be chosen: its name, or its position.
COLUMN_REFERENCE = (str, int, np.integer)


# -------------------------------------------------------------------------------------------------------- parameters
def parameter(
    check: Callable[..., Any],
    *limits: Any,
    default: Any = dataclasses.MISSING,
    kw_only: bool = False,
    **options: Any,
) -> Any:
    """Declare a parameter of a recalibrator with its check.

    Parameters
    ----------
    check : callable
        Called as ``check(name, value, *limits, **options)``; raises `MiscalError` for a value that is not allowed.
        None is not checked where it is the default.
    *limits : object
        Passed to the check, such as the least and the largest value.
    default : object, optional
        Without one the parameter is required.
    kw_only : bool, default=False
        Whether it can be given by name only.
    **options : object
        Passed to the check.

    Returns
    -------
    dataclasses.Field
        The field of the recalibrator.

    Examples
    --------
    >>> from miscal.data.checks import number
    >>> share = parameter(number, 0.0, 1.0, default=0.5)
    >>> share.default
    0.5
    """

    def checked(name: str, value: Any) -> None:
        if value is not None or default is not None:
            check(name, value, *limits, **options)

    return dataclasses.field(default=default, kw_only=kw_only, metadata={"check": checked})


def check_that(name: str, value: Any, is_valid: Callable[[Any], bool], requirement: str) -> None:
    """Reject a value for which `is_valid` is false.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : object
        What it was set to.
    is_valid : callable
        Gives whether a value is allowed.
    requirement : str
        What the error says of the parameter, such as "must be a recalibrator".
    """
    if not is_valid(value):
        raise refusal(requirement, f"'{name}'", got=f"got {value!r}")


def check_list(name: str, value: Any, kind: type, min_length: int, requirement: str) -> None:
    """Reject what is not a list of objects of one kind, with at least `min_length` of them.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : object
        What it was set to.
    kind : type
        Of the list's items.
    min_length : int
        Fewest items.
    requirement : str
        What the error says of the parameter.
    """
    long_enough = isinstance(value, (list, tuple)) and len(value) >= min_length
    valid = long_enough and all(isinstance(item, kind) for item in value)
    check_that(name, value, lambda _: valid, requirement)


def bins_or_edges(name: str, value: Any) -> None:
    """Reject what is neither a number of bins nor an increasing list of at least two edges."""
    if isinstance(value, numbers.Integral):
        whole(name, value, 1, 10**7)
    else:
        given_edges(value)


# ----------------------------------------------------------------------------------------------------------- columns
def named_columns(X: Any, recalibrator: str, rows: int | None = None) -> Columns:
    """Read X as named columns; those of a plain array are named '0', '1', ...

    Parameters
    ----------
    X : frame, mapping or (n, d) array
        The columns.
    recalibrator : str
        Name of the class that needs them, for the error if X is None.
    rows : int, optional
        How many rows X must have.

    Returns
    -------
    Columns
        In the order of X.
    """
    if X is None:
        hint = "pass a frame, a dict or an array; to a RecalibratedClassifier say by="
        raise refusal(f"is needed by {recalibrator}", "'X'", got="got nothing (None)", hint=hint)
    return columns_given(X, "'X'", rows, "must have as many rows as 'y_prob'")


def check_column_choice(name: str, chosen: Any) -> None:
    """Reject a `columns` parameter that is not a name, a position, or a list of these."""
    items = _as_list(chosen)
    some = isinstance(items, (list, tuple, np.ndarray)) and len(items) > 0
    valid = some and all(isinstance(item, COLUMN_REFERENCE) and not isinstance(item, bool) for item in items)
    check_that(name, chosen, lambda _: valid, "must be None (all), or names or positions of columns")


def _as_list(chosen: Any) -> Any:
    return [chosen] if isinstance(chosen, COLUMN_REFERENCE) else chosen


def chosen_columns(columns: Columns, chosen: Any) -> list[Column]:
    """The columns that a `columns` parameter chooses; positions count from 0.

    Parameters
    ----------
    columns : Columns
        All columns of X.
    chosen : str, int, list of these, or None
        None for all.

    Returns
    -------
    list of Column
        In the order in which they were chosen.
    """
    known = list(columns)
    if not known:
        raise refusal("must have at least one column", "'X'", got="it has none")
    positions = range(-len(known), len(known))
    items: Any = known if chosen is None else _as_list(chosen)
    names = [known[item] if item in positions else str(item) for item in items]
    check_named(names, known, "'X' (by name or position)")
    if len(set(names)) < len(names):
        raise refusal("must name each column once", "'columns'", got=f"got {chosen!r}")
    return [columns[name] for name in names]


# ----------------------------------------------------------------------------------------------------- fitted state
@dataclass(frozen=True)
class StateField:
    """What a fitted attribute must be.

    Attributes
    ----------
    kind : str
        "float", "int" and "bool" are numbers and arrays of them; "labels" a list of words, numbers or truth values;
        "levels" a list of such lists; "inner" a list of fitted recalibrators; "word" the response of a mean.
    shape : tuple of int or str
        The dimensions: a number, "classes" (K) or "any". An "inner" list with a shape may hold null.
    low, high : float
        Range of the numbers.
    optional : bool
        Whether `fit` sets it only where there is reason to.
    binary : bool
        Of an "inner" list: its recalibrators have two classes, however many the outer one has.
    json_name : str
        Its key in JSON where that is not the attribute's name.
    """

    kind: str
    shape: tuple[int | str, ...] = ()
    low: float = -MAX_COEFFICIENT
    high: float = MAX_COEFFICIENT
    optional: bool = False
    binary: bool = False
    json_name: str = ""


def state(kind: str, *shape: int | str, init: Literal[False] = False, **options: Any) -> Any:
    """Declare a fitted attribute of a recalibrator: JSON carries it, and what is read is checked against it.

    Parameters
    ----------
    kind : str
        See `StateField`.
    *shape : int or str
        The dimensions: a number, "classes" (K) or "any". None for a plain number.
    init : bool, default=False
        Always False: type checkers must see that `__init__` does not take it.
    **options : object
        Other fields of `StateField`.

    Returns
    -------
    dataclasses.Field
        The field of the recalibrator.
    """
    return dataclasses.field(init=init, metadata={"state": StateField(kind, shape, **options)})


def declared_state(kind: type[Recalibrator]) -> dict[str, StateField]:
    """The fitted attributes of a class by name, those of its bases first."""
    return {
        field.name: field.metadata["state"] for field in dataclasses.fields(kind) if "state" in field.metadata
    }


def label_array(labels: Any) -> Array:
    """Labels as an array that keeps their type.

    Parameters
    ----------
    labels : sequence
        Words, numbers or truth values.

    Returns
    -------
    (K,) array
        Of dtype object where the types differ or a whole number does not fit 64 bits.
    """
    labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    types = {type(label) for label in labels}
    if len(types) == 1 and types <= {bool, float, str}:
        return np.array(labels)
    if types == {int} and all(-(2**63) <= label < 2**63 for label in labels):
        return np.array(labels, dtype=np.int64)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
