"""Check a document against the JSON Schema that ships with the package, once, when it is loaded.

The schema (`audit.schema.json`) is the contract of the JSON. Keys that it does not describe are allowed: a later
version may have written the file. What it describes must be of the type that it says. A key that is absent has a stated
default in the record that is read (`miscal.report.model`), unless the whole document is asked for.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list, tuple),
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
}
_NAMES = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
}


@cache
def audit_schema() -> dict[str, Any]:
    """The JSON Schema of an audit."""
    text = files("miscal.report").joinpath("audit.schema.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def first_fault(document: object, *, whole: bool = True) -> str:
    """The first thing in which a document differs from the schema; empty where there is none.

    Parameters
    ----------
    document : object
        Plain values, as JSON has them.
    whole : bool
        Whether all keys that the schema requires must be there.

    Examples
    --------
    >>> first_fault({"schema": "miscal.audit/1", "unlisted": "some"}, whole=False)
    "unlisted must be an integer, got 'some'"
    >>> first_fault({"schema": "miscal.audit/1", "unlisted": 3}, whole=False)
    ''
    """
    return _fault(document, audit_schema(), "", whole)


def _fault(value: Any, schema: Mapping[str, Any], path: str, whole: bool) -> str:
    """The first fault of a value below a path."""
    if "$ref" in schema:
        schema = audit_schema()["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    what = path or "the document"
    if fault := _type_fault(value, schema):
        return f"{what} {fault}"
    if isinstance(value, Mapping):
        return _object_fault(value, schema, path, whole)
    if isinstance(value, (list, tuple)):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return f"{what} must have {schema['minItems']} items, got {len(value)}"
        if "items" in schema:
            faults = (_fault(item, schema["items"], f"{path}[{k}]", whole) for k, item in enumerate(value))
            return next(filter(None, faults), "")
    return ""


def _type_fault(value: Any, schema: Mapping[str, Any]) -> str:
    """What is wrong with a value itself: its type, or that it is none of those allowed."""
    allowed = schema.get("type", [])
    kinds = [allowed] if isinstance(allowed, str) else allowed
    if kinds and not any(_is(value, kind) for kind in kinds):
        return f"must be {' or '.join(_NAMES.get(kind, f'a {kind}') for kind in kinds)}, got {_short(value)}".replace(
            "a integer", "an integer"
        )
    if "const" in schema and value != schema["const"]:
        return f"must be {schema['const']!r}, got {_short(value)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"must be one of {', '.join(map(repr, schema['enum']))}, got {_short(value)}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = schema.get("minimum", value), schema.get("maximum", value)
        if not low <= value <= high:
            return f"is out of range, got {_short(value)}"
    return ""


def _object_fault(value: Mapping[str, Any], schema: Mapping[str, Any], path: str, whole: bool) -> str:
    """The first fault among the keys of an object."""
    described = schema.get("properties", {})
    others = schema.get("additionalProperties")
    if whole:
        for name in schema.get("required", ()):
            if name not in value:
                return f"{path or 'the document'} lacks '{name}'"
    for name, item in value.items():
        below = described.get(name, others if isinstance(others, dict) else {})
        if fault := _fault(item, below, f"{path}.{name}" if path else str(name), whole):
            return fault
    return ""


def _is(value: object, kind: str) -> bool:
    """Whether a value is of a type of JSON Schema; a whole number may be written as a float."""
    if kind in ("number", "integer"):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return kind == "number" or float(value).is_integer()
    return isinstance(value, _TYPES[kind])


def _short(value: object) -> str:
    """A value as an error shows it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
