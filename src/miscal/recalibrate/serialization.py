"""A fitted recalibrator as JSON text, and back.

The document is

    {"schema": "miscal.recalibrator/1", "class": name, "params": {...}, "state": {...} or null}

The rule: data only. Classes are looked up by name among the known ones, every field is checked against its declaration
by `state`, and no code from the text is ever run. Numbers are written in the shortest form that reads back to the same
bits. Keys of `state` are the attributes' names (or their `json_name`): a key that files have cannot be renamed, and a
parameter that older files lack is listed in `LATER_PARAMETERS`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from miscal import recalibrate
from miscal.data.arrays import Array, Plain
from miscal.data.errors import nearest, refusal, refusing
from miscal.recalibrate.parameters import StateField, declared_state, label_array

if TYPE_CHECKING:
    from miscal.recalibrate.base import Recalibrator

SCHEMA = "miscal.recalibrator/1"
#: How a parameter of infinite size is written: JSON has no such number.
JSON_INFINITY = "Infinity"
#: Levels of recalibrators inside recalibrators.
MAX_NESTING = 8

#: Parameters that files of version 1.0 and before lack; reading them gives the default.
LATER_PARAMETERS = {
    "judges",
    "keep_certain",
    "knots",
    "rescale",
    "smooth",
    "start",
    "strategy",
    "towards",
    "weights",
}

#: The dtype kinds of numpy that a declared kind of number may be read from.
_DTYPE_KINDS = {"float": "iuf", "int": "iu", "bool": "b"}


# ------------------------------------------------------------------------------------------------------------- write
def dumps(recalibrator: Recalibrator) -> str:
    """Write a recalibrator as JSON text.

    Parameters
    ----------
    recalibrator : Recalibrator
        Fitted or not.

    Returns
    -------
    str
        What `loads` reads.
    """
    return json.dumps({"schema": SCHEMA, **_encoded(recalibrator)}, allow_nan=False, ensure_ascii=True)


def _encoded(recalibrator: Recalibrator) -> Plain:
    """Class, parameters and fitted state as plain data."""
    kind = type(recalibrator)
    params = {name: _plain_value(name, value) for name, value in recalibrator.get_params(deep=False).items()}
    state: Plain | None = None
    if recalibrator.is_fitted():
        keys = _json_names(kind)
        state = {
            keys[name]: _plain_value(name, getattr(recalibrator, name)) for name in recalibrator.state_names()
        }
    # Classes of the library are written by name, all others by module and name: none can take the place of another.
    name = (
        kind.__name__ if _library_class(kind.__name__) is kind else f"{kind.__module__}.{kind.__qualname__}"
    )
    return {"class": name, "params": params, "state": state}


def _json_names(kind: type[Recalibrator]) -> dict[str, str]:
    """The key of each fitted attribute in JSON."""
    return {name: field.json_name or name for name, field in declared_state(kind).items()}


def _library_class(name: str) -> type[Recalibrator] | None:
    return getattr(recalibrate, name) if name in recalibrate.kinds() else None


def _plain_value(name: str, value: Any) -> Any:
    if isinstance(value, recalibrate.Recalibrator):
        return _encoded(value)
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain_value(name, item) for item in value]
    if value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float) and np.isfinite(value):
        return value
    if value == np.inf:
        return JSON_INFINITY
    raise refusal("cannot be written as JSON", f"'{name}'", got=f"it is {value!r}")


# -------------------------------------------------------------------------------------------------------------- read
def loads(text: str, base: type[Recalibrator]) -> Recalibrator:
    """Read a recalibrator from JSON text.

    Parameters
    ----------
    text : str
        What `dumps` wrote. Anything else is rejected, whatever it brings about.
    base : type
        The class that the result must be an instance of.

    Returns
    -------
    Recalibrator
        Equal to what was written, bit for bit.

    Raises
    ------
    MiscalError
        If the text is damaged, hostile, or holds a recalibrator of another class.
    """
    with refusing("is not a model written by `miscal recalibrate` or to_json", "the saved model"):
        document = json.loads(text, parse_constant=_reject_constant, object_pairs_hook=_distinct_names)
        if not isinstance(document, dict):
            raise TypeError("it holds no JSON object")
        schema = document.pop("schema", None)
        if schema != SCHEMA:
            raise ValueError(f"its schema is {schema!r:.60}, not '{SCHEMA}'")
        return _decoded(document, base, 0)


def _decoded(document: Any, base: type[Recalibrator], depth: int) -> Recalibrator:
    """Build a recalibrator from plain data, every part checked."""
    if depth > MAX_NESTING or set(document) != {"class", "params", "state"}:
        raise ValueError(
            f"a recalibrator has exactly 'class', 'params' and 'state', {MAX_NESTING} in each other at most"
        )
    name, params, external = document["class"], document["params"], recalibrate.Recalibrator.external_classes
    kind = _library_class(name) or external.get(name)
    if kind is None:
        known = sorted({*recalibrate.kinds(), *external})
        raise ValueError(f"there is no recalibrator {name!r:.60}; {nearest(str(name)[:100], known)}")
    if not issubclass(kind, base):
        raise TypeError(f"it holds a {name}, not a {base.__name__}")
    declared = kind._get_param_names()  # noqa: SLF001  # scikit-learn's own list of the parameters of a class
    if not set(declared) - LATER_PARAMETERS <= set(params) <= set(declared):
        raise ValueError(f"the parameters of {kind.__name__} must be exactly {', '.join(declared) or 'none'}")
    recalibrator = kind(**{name: _parameter_value(value, depth) for name, value in params.items()})
    recalibrator.check_parameters()
    if document["state"] is not None:
        _set_state(recalibrator, document["state"], depth)
    return recalibrator


def _parameter_value(value: Any, depth: int) -> Any:
    """A plain value, a recalibrator, or a list of recalibrators."""
    if isinstance(value, dict):
        return _decoded(value, recalibrate.Recalibrator, depth + 1)
    if value == JSON_INFINITY:
        return np.inf
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return [_parameter_value(item, depth) for item in value]
    return value


def _set_state(recalibrator: Recalibrator, state: Plain, depth: int) -> None:
    """Set the fitted attributes of a recalibrator, each checked against its declaration, then all together."""
    recalibrator.classes_ = _labels(state["classes_"])
    kind, classes = type(recalibrator), recalibrator.n_classes_
    if classes < 2 or len(set(map(repr, recalibrator.classes_.tolist()))) != classes:
        raise ValueError("'classes_' must hold at least two different labels")
    fields, keys = declared_state(kind), _json_names(kind)
    attributes = {key: name for name, key in keys.items()}
    for key, value in state.items():
        name = attributes[key]
        setattr(recalibrator, name, _state_value(key, value, fields[name], classes, depth))
    expected = [keys[name] for name in recalibrator.state_names()]
    if set(state) != set(expected):
        raise ValueError(f"the state of {kind.__name__} must be exactly {', '.join(expected)}")
    if recalibrator.identity_:
        return
    has_class_maps = hasattr(recalibrator, "per_class_")
    n_maps = classes if recalibrator.one_vs_rest and classes > 2 else 0
    maps = [type(class_map) for class_map in recalibrator.per_class_] if has_class_maps else []
    if maps != [kind] * n_maps:
        raise ValueError(f"there must be one {kind.__name__} per class, if there are several")
    if hasattr(recalibrator, "clip_range_"):
        low, high = recalibrator.clip_range_
        if low > high or classes > 2:
            raise ValueError(f"'{keys['clip_range_']}' must be a range, of two classes")
    if not has_class_maps:
        recalibrator.check_state()


def _state_value(key: str, value: Any, field: StateField, n_classes: int, depth: int) -> Any:
    """One fitted attribute from plain data."""
    if field.kind == "labels":
        return _labels(value)
    if field.kind == "levels":
        return _levels(value)
    if field.kind == "inner":
        return _inner_recalibrators(key, value, field, n_classes, depth)
    if field.kind == "word":
        if value not in ("real", "count"):
            raise ValueError(f"'{key}' must be 'real' or 'count'")
        return value
    return _numbers(key, value, field, n_classes)


def _numbers(key: str, value: Any, field: StateField, n_classes: int) -> Any:
    """A number or an array of the declared shape and range."""
    array = np.array(value)
    shape = tuple(n_classes if length == "classes" else length for length in field.shape)
    fits = [length in ("any", actual) for length, actual in zip(shape, array.shape, strict=True)]
    if not all(fits) or (array.size and array.dtype.kind not in _DTYPE_KINDS[field.kind]):
        raise ValueError(f"'{key}' must be a table of {field.kind} of shape {shape}")
    if field.kind != "bool":
        inside = (array >= field.low) & (array <= field.high) & np.isfinite(array)
        if not inside.all():
            raise ValueError(f"'{key}' must hold finite numbers in [{field.low:g}, {field.high:g}]")
    array = array.astype(field.kind)
    return array if field.shape else array.item()


def _levels(value: Any) -> list[Any]:
    """The levels of each categorical column, in their order; missing, where it is a level, is null."""
    for levels in value:
        if levels.count(None) > 1:
            raise ValueError("levels must be a list with at most one null")
        _labels([level for level in levels if level is not None])
    return list(value)


def _inner_recalibrators(
    key: str, value: Any, field: StateField, n_classes: int, depth: int
) -> list[Recalibrator | None]:
    """Fitted recalibrators inside another; one of a class against the rest has two classes."""
    n_classes = 2 if field.binary else n_classes
    recalibrators = [
        None if item is None and field.shape else _decoded(item, recalibrate.Recalibrator, depth + 1)
        for item in value
    ]
    for inner in recalibrators:
        if inner is not None and not (inner.is_fitted() and inner.n_classes_ == n_classes):
            raise ValueError(f"'{key}' must hold recalibrators that are fitted to {n_classes} classes")
    return recalibrators


def _labels(value: Any) -> Array:
    if not isinstance(value, list) or not all(isinstance(item, (str, int, float, bool)) for item in value):
        raise ValueError("labels must be a list of words, numbers or truth values")
    return label_array(value)


def _reject_constant(word: str) -> Any:
    raise ValueError(f"it holds {word}, which is not a number")


def _distinct_names(pairs: list[tuple[str, Any]]) -> Plain:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return document
