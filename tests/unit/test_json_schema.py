"""The JSON Schema that ships with the package describes every audit that is written, key by key."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

import miscal
from miscal.recalibrate import BetaCalibration
from miscal.report.codec import plain

SCHEMA: dict[str, Any] = json.loads(files("miscal.report").joinpath("audit.schema.json").read_text())
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
KNOWN = {"$schema", "$defs", "title", "description", "type", "properties", "required", "additionalProperties", "items",
         "enum", "const", "$ref", "minimum", "maximum", "minItems", "maxItems"}  # fmt: skip


def _is(value: object, kind: str) -> bool:
    if kind in ("number", "integer"):
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole or (kind == "number" and isinstance(value, float))
    return isinstance(value, TYPES[kind])


def faults(value: Any, schema: dict[str, Any], at: str = "$") -> list[str]:
    """What is wrong with a value, by the part of JSON Schema that the file uses; keys that are not described are."""
    assert not set(schema) - KNOWN, f"{at}: this validator does not know {set(schema) - KNOWN}"
    if "$ref" in schema:
        return faults(value, SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]], at)
    kinds = schema.get("type", [])
    if kinds and not any(_is(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return [f"{at}: {value!r} is no {kinds}"]
    found = [f"{at}: {value!r}"] if "const" in schema and value != schema["const"] else []
    found += [f"{at}: {value!r}"] if "enum" in schema and value not in schema["enum"] else []
    if isinstance(value, (int, float)) and not schema.get("minimum", -np.inf) <= value <= schema.get("maximum", np.inf):
        found.append(f"{at}: {value!r} is out of range")
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", np.inf):
            found.append(f"{at}: {len(value)} items")
        for place, item in enumerate(value):
            found += faults(item, schema.get("items", {}), f"{at}[{place}]")
    if isinstance(value, dict):
        described = schema.get("properties", {})
        other = schema.get("additionalProperties", not described)
        found += [f"{at}: lacks '{name}'" for name in schema.get("required", []) if name not in value]
        found += [f"{at}: '{name}' is not described" for name in value if name not in described and other is False]
        for name, item in value.items():
            own = described.get(name, other if isinstance(other, dict) else {})
            found += faults(item, own, f"{at}.{name}")
    return found


def _table(rows: int = 1_600) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    p = rng.beta(2, 4, rows)
    group = np.array(list("abcd"), object)[rng.integers(0, 4, rows)]
    x, day = rng.normal(size=rows), rng.integers(19_000, 19_120, rows).astype("M8[D]")
    truth = np.clip(p + 0.25 * ((group == "b") & (x > 0)), 0, 1)
    y = (rng.random(rows) < truth).astype(int)
    weight = rng.integers(1, 4, rows).astype(float)
    return {"y": y, "p": p, "group": group, "x": x, "z": rng.normal(size=rows), "day": day, "w": weight}


ASKED: dict[str, Any] = {"outcome": "y", "probability": "p"}
AUDITS = {
    "plain": {},
    "quick": {"effort": "quick"},
    "deep": {"effort": "deep"},
    "weights and time": {"weight": "w", "time": "day"},
    "clusters": {"cluster": "day", "ignore": ["w"]},
    "small cells hidden": {"suppress_below": 20},
}


@pytest.mark.parametrize("options", AUDITS.values(), ids=list(AUDITS))
def test_an_audit_is_what_the_schema_says(options, tmp_path):
    found = miscal.audit(_table(), **ASKED, **options)
    found.to_json(tmp_path / "a.json")
    assert faults(json.loads((tmp_path / "a.json").read_text()), SCHEMA) == []
    assert found.findings


@pytest.mark.parametrize("response", ["real", "count"])
def test_amounts_and_counts_are_too(response):
    table = _table()
    happened = np.random.default_rng(0).poisson(5 * table["p"] * np.where(table["group"] == "b", 1.5, 1.0))
    amounts = {**table, "y": happened.astype(float if response == "real" else int), "m": 5 * table["p"]}
    found = miscal.audit(amounts, outcome="y", prediction="m", response=response, ignore=["p"], effort="quick")
    assert faults(plain(found.document), SCHEMA) == []
    assert found.findings


def test_classes_comparisons_and_repairs_are_too(tmp_path):
    rng = np.random.default_rng(1)
    classes = rng.dirichlet([2, 1, 1], 900)
    several = miscal.audit(
        {"y": rng.integers(0, 3, 900), **{f"p{k}": classes[:, k] for k in range(3)}, "g": rng.integers(0, 5, 900)},
        outcome="y", probability=["p0", "p1", "p2"],
    )  # fmt: skip
    assert faults(plain(several.document), SCHEMA) == []
    table = _table()
    before = miscal.audit(table, **ASKED)
    after = miscal.audit({**table, "p": table["p"] * 0.9}, **ASKED).with_comparison(before)
    assert after.document["comparison"]
    assert faults(plain(after.document), SCHEMA) == []
    half = {name: values[800:] for name, values in table.items()}
    rows = miscal.Predictions(half["y"], half["p"], columns={"group": half["group"]})
    repair = miscal.repair(rows, BetaCalibration().fit(table["p"][:800], table["y"][:800]))
    assert faults(plain(repair.document), SCHEMA) == []


def test_the_schema_finds_what_is_wrong():
    document = plain(miscal.audit(_table(), **ASKED, effort="quick").document)
    document["findings"][0]["p_value"] = "small"
    document["settings"].pop("level")
    document["score"]["kuiper"] = True
    document["left_out"][0]["what"] = "rows"
    assert len(faults(document, SCHEMA)) == 4


def test_every_key_is_described():
    assert all(name in SCHEMA["properties"] for name in miscal.audit(_table(), **ASKED).document)
