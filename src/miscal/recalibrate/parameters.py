"""How parameters and fitted attributes are declared and checked, and a fitted recalibrator as JSON, and back.

Data only, every field checked, no code is ever run. Numbers are written in the shortest form that reads back to the
same bits. The document is

    {"schema": "miscal.recalibrator/1", "class": name, "params": {...}, "state": {...} or null}
"""

from __future__ import annotations

import dataclasses
import json
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from miscal import recalibrate
from miscal.cells.ranges import given_edges
from miscal.data.arrays import Array, Plain
from miscal.data.checks import whole
from miscal.data.columns import Column, Columns, columns_given
from miscal.data.errors import check_named, nearest, refusal, refusing

if TYPE_CHECKING:
    from miscal.recalibrate.base import Recalibrator

SCHEMA = "miscal.recalibrator/1"
LARGEST = 1e100  # of a coefficient: products and sums of a few stay finite
INFINITE = "Infinity"  # a parameter of that size: JSON has no such number
DEEPEST = 8  # a recalibrator inside a recalibrator inside ...

# Parameters that files of version 1.0 and before lack.
LATER = {"judges", "keep_certain", "knots", "rescale", "smooth", "start", "strategy", "towards", "weights"}

ONE = (str, int, np.integer)  # what may say which column is meant


def parameter(
    check: Callable[..., Any],
    *limits: Any,
    default: Any = dataclasses.MISSING,
    kw_only: bool = False,
    **more: Any,
) -> Any:
    """Declare a parameter of a recalibrator with its check, called with name, value and limits.

    None is let through where it is the default.
    """

    def checked(name: str, value: Any) -> None:
        if value is not None or default is not None:
            check(name, value, *limits, **more)

    return dataclasses.field(default=default, kw_only=kw_only, metadata={"check": checked})


def such(name: str, value: Any, fine: Callable[[Any], bool], what: str) -> None:
    """Refuse what `fine` says no to."""
    if not fine(value):
        raise refusal(what, f"'{name}'", got=f"got {value!r}")


def list_of(name: str, value: Any, kind: type, least: int, what: str) -> None:
    """Refuse what is no list of objects of one kind, so many of them at least."""
    some = isinstance(value, (list, tuple)) and len(value) >= least
    fine = some and all(isinstance(each, kind) for each in value)
    such(name, value, lambda _: fine, what)


def bins_or_edges(name: str, value: Any) -> None:
    """Refuse what is neither a number of bins nor their increasing edges, at least two of them."""
    if isinstance(value, numbers.Integral):
        whole(name, value, 1, 10**7)
    else:
        given_edges(value)


def columns_of(X: Any, who: str, rows: int | None = None) -> Columns:
    """See X as named columns, of so many rows; those of a plain array are named '0', '1', ..."""
    if X is None:
        hint = "pass a frame, a dict or an array; to a RecalibratedClassifier say by="
        raise refusal(f"is needed by {who}", "'X'", got="got nothing (None)", hint=hint)
    return columns_given(X, "'X'", rows, "must have as many rows as 'y_prob'")


def check_chosen(name: str, chosen: Any) -> None:
    """Refuse a `columns` parameter that is not a name, a position, or a list of these."""
    items = _items(chosen)
    some = isinstance(items, (list, tuple, np.ndarray)) and len(items) > 0
    fine = some and all(isinstance(each, ONE) and not isinstance(each, bool) for each in items)
    such(name, chosen, lambda _: fine, "must be None (all), or names or positions of columns")


def _items(chosen: Any) -> Any:
    return [chosen] if isinstance(chosen, ONE) else chosen


def chosen_columns(columns: Columns, chosen: Any) -> list[Column]:
    """The columns that were asked for; positions count from 0."""
    known = list(columns)
    if not known:
        raise refusal("must have at least one column", "'X'", got="it has none")
    places = range(-len(known), len(known))
    asked: Any = known if chosen is None else _items(chosen)
    names = [known[item] if item in places else str(item) for item in asked]
    check_named(names, known, "'X' (by name or position)")
    if len(set(names)) < len(names):
        raise refusal("must name each column once", "'columns'", got=f"got {chosen!r}")
    return [columns[name] for name in names]


# ----------------------------------------------------------------------------------------------------------- state
@dataclass(frozen=True)
class Field:
    """What one fitted attribute must be.

    `shape` names the dimensions: a number, "classes" (K) or "any". "labels" is a list of words, numbers or truth
    values; "levels" a list of such lists; "inner" a list of fitted recalibrators, with a shape some of them null;
    "word" what the outcome of a mean is. An `optional` one is there where fit had reason to set it.
    """

    kind: str
    shape: tuple[int | str, ...] = ()
    low: float = -LARGEST
    high: float = LARGEST
    optional: bool = False


def state(kind: str, *shape: int | str, init: Literal[False] = False, **more: Any) -> Any:
    """Declare a fitted attribute of a recalibrator: JSON carries it, and what is read is checked against it."""
    return dataclasses.field(init=init, metadata={"state": Field(kind, shape, **more)})


def state_of(kind: type[Recalibrator]) -> dict[str, Field]:
    """The fitted attributes of a class, those of its bases first."""
    return {
        each.name: each.metadata["state"] for each in dataclasses.fields(kind) if "state" in each.metadata
    }


def dumps(recalibrator: Recalibrator) -> str:
    """Write a recalibrator as JSON text."""
    return json.dumps({"schema": SCHEMA, **_encoded(recalibrator)}, allow_nan=False, ensure_ascii=True)


def _encoded(recalibrator: Recalibrator) -> Plain:
    """Class, parameters and fitted state as plain data."""
    params = {name: _plain(name, value) for name, value in recalibrator.get_params(deep=False).items()}
    state: Plain | None = None
    if recalibrator.is_fitted():
        state = {name: _plain(name, getattr(recalibrator, name)) for name in recalibrator.all_fields()}
    kind = type(recalibrator)
    # A class of ours by its name, any other by module and name: none can take the place of another.
    name = kind.__name__ if _ours(kind.__name__) is kind else f"{kind.__module__}.{kind.__qualname__}"
    return {"class": name, "params": params, "state": state}


def _ours(name: str) -> type[Recalibrator] | None:
    return getattr(recalibrate, name) if name in recalibrate.kinds() else None


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, recalibrate.Recalibrator):
        return _encoded(value)
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(name, item) for item in value]
    if value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    if value == np.inf:
        return INFINITE
    raise refusal("cannot be written as JSON", f"'{name}'", got=f"it is {value!r}")


def loads(text: Any, wanted: type[Recalibrator]) -> Recalibrator:
    """Read a recalibrator from JSON text, or refuse: so does whatever hostile text brings about."""
    with refusing("is not a recalibrator written by to_json", "the saved model"):
        document = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_distinct)
        if not isinstance(document, dict):
            raise TypeError("it holds no JSON object")
        schema = document.pop("schema", None)
        if schema != SCHEMA:
            raise ValueError(f"its schema is {schema!r:.60}, not '{SCHEMA}'")
        return _decoded(document, wanted, 0)


def _decoded(document: Any, wanted: type[Recalibrator], depth: int) -> Recalibrator:
    """Build a recalibrator from plain data, every part checked."""
    if depth > DEEPEST or set(document) != {"class", "params", "state"}:
        raise ValueError(
            f"a recalibrator has exactly 'class', 'params' and 'state', {DEEPEST} in each other at most"
        )
    name, given, others = document["class"], document["params"], recalibrate.Recalibrator.others
    kind = _ours(name) or others.get(name)
    if kind is None:
        known = sorted({*recalibrate.kinds(), *others})
        raise ValueError(f"there is no recalibrator {name!r:.60}; {nearest(str(name)[:100], known)}")
    if not issubclass(kind, wanted):
        raise TypeError(f"it holds a {name}, not a {wanted.__name__}")
    known = kind._get_param_names()  # noqa: SLF001  # scikit-learn's own list of the parameters of a class
    # One of an earlier version has no word on what came later: the default.
    if not set(known) - LATER <= set(given) <= set(known):
        raise ValueError(f"the parameters of {kind.__name__} must be exactly {', '.join(known) or 'none'}")
    made = kind(**{name: _parameter(value, depth) for name, value in given.items()})
    made.check_parameters()
    if document["state"] is not None:
        _fill(made, document["state"], depth)
    return made


def _parameter(value: Any, depth: int) -> Any:
    """A plain value, a recalibrator, or a list of recalibrators."""
    if isinstance(value, dict):
        return _decoded(value, recalibrate.Recalibrator, depth + 1)
    if value == INFINITE:
        return np.inf
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return [_parameter(item, depth) for item in value]
    return value


def _fill(made: Recalibrator, state: Plain, depth: int) -> None:
    made.classes_ = _labels(state["classes_"])
    kind, classes = type(made), made.n_classes_
    if classes < 2 or len(set(map(repr, made.classes_.tolist()))) != classes:
        raise ValueError("'classes_' must hold at least two different labels")
    fields = state_of(kind)
    for name, value in state.items():
        setattr(made, name, _value(name, value, fields[name], classes, depth))
    if set(state) != set(made.all_fields()):
        raise ValueError(f"the state of {kind.__name__} must be exactly {', '.join(made.all_fields())}")
    if made.identity_:
        return
    asked = classes if made.against_rest and classes > 2 else 0
    maps = [type(one) for one in made.each_] if hasattr(made, "each_") else []
    if maps != [kind] * asked:
        raise ValueError(f"there must be one {kind.__name__} a class, if there are several")
    if hasattr(made, "held_") and (made.held_[0] > made.held_[1] or classes > 2):
        raise ValueError("'held_' must be a range, of two classes")
    if not hasattr(made, "each_"):
        made.check_state()


_KINDS = {"float": "iuf", "int": "iu", "bool": "b"}  # what numpy may call them


def _value(name: str, value: Any, field: Field, n_classes: int, depth: int) -> Any:
    kind = field.kind
    if kind == "labels":
        return _labels(value)
    if kind == "levels":
        for levels in value:  # of a category, in their order; missing, where it is a level, is null
            if levels.count(None) > 1:
                raise ValueError("levels must be a list with at most one null")
            _labels([item for item in levels if item is not None])
        return list(value)
    if kind == "inner":
        return _inner(name, value, field, 2 if name == "each_" else n_classes, depth)
    if kind == "word":
        if value not in ("real", "count"):
            raise ValueError(f"'{name}' must be 'real' or 'count'")
        return value
    array = np.array(value)
    shape = tuple(n_classes if asked == "classes" else asked for asked in field.shape)
    fits = [asked in ("any", found) for asked, found in zip(shape, array.shape, strict=True)]
    if not all(fits) or (array.size and array.dtype.kind not in _KINDS[kind]):
        raise ValueError(f"'{name}' must be a table of {kind} of shape {shape}")
    if kind != "bool" and not ((array >= field.low) & (array <= field.high) & np.isfinite(array)).all():
        raise ValueError(f"'{name}' must hold finite numbers in [{field.low:g}, {field.high:g}]")
    array = array.astype(kind)
    return array if field.shape else array.item()


def _inner(name: str, value: Any, field: Field, n_classes: int, depth: int) -> list[Recalibrator | None]:
    made = [
        None if item is None and field.shape else _decoded(item, recalibrate.Recalibrator, depth + 1)
        for item in value
    ]
    if any(one is not None and not (one.is_fitted() and one.n_classes_ == n_classes) for one in made):
        raise ValueError(f"'{name}' must hold recalibrators that are fitted to {n_classes} classes")
    return made


def _labels(value: Any) -> Array:
    if not isinstance(value, list) or not all(isinstance(item, (str, int, float, bool)) for item in value):
        raise ValueError("labels must be a list of words, numbers or truth values")
    return label_array(value)


def label_array(labels: Any) -> Array:
    """Labels as an array that keeps their type."""
    labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    kinds = {type(label) for label in labels}
    if len(kinds) == 1 and kinds <= {bool, float, str}:
        return np.array(labels)
    if kinds == {int} and all(-(2**63) <= label < 2**63 for label in labels):
        return np.array(labels, dtype=np.int64)
    made = np.empty(len(labels), dtype=object)
    made[:] = labels
    return made


def _no_constant(word: str) -> Any:
    raise ValueError(f"it holds {word}, which is not a number")


def _distinct(pairs: list[tuple[str, Any]]) -> Plain:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return made
