"""Laws that every metric of the registry keeps: order of rows, ties, weights, perfection, but for its exemptions."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import miscal.metrics
from miscal.metrics import METRICS

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")

CASES = [(kind, seed) for kind in ("plain", "ties") for seed in range(3)]
ROWS = 90
CLOSE = 1e-7
FOLDER = Path(miscal.metrics.__file__).parent


def table(kind: str, seed: int) -> dict[str, np.ndarray]:
    """Rows with all that a metric may take, and whole-number weights."""
    rng = np.random.default_rng([seed, len(kind)])
    p = rng.uniform(0.05, 0.95, ROWS) if kind == "plain" else rng.integers(1, 6, ROWS) / 8
    variable = rng.normal(size=ROWS) if kind == "plain" else rng.integers(0, 7, ROWS).astype(float)
    return {
        "y_true": (rng.random(ROWS) < p).astype(int),
        "y_prob": p,
        "variable": variable,
        "field": rng.integers(0, 4, ROWS),
        "groups": rng.integers(0, 3, ROWS),
        "features": np.round(rng.normal(size=(ROWS, 2)), 1 if kind == "ties" else 9),
        "frame": variable,
        "weight": rng.integers(1, 5, ROWS).astype(float),
    }


def take(rows: dict[str, np.ndarray], order: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[order] for name, values in rows.items()}


def takes_weight(name: str) -> bool:
    return "sample_weight" in inspect.signature(getattr(miscal.metrics, name)).parameters


def takes(name: str) -> list[str]:
    """What a metric is given by place: beside the predictions a variable, a field, groups, features or a frame."""
    asked = inspect.signature(getattr(miscal.metrics, name)).parameters.values()
    by_place = [each.name for each in asked if each.kind is each.POSITIONAL_OR_KEYWORD]
    return [each for each in by_place if each != "sample_weight"]


def call(name: str, rows: dict[str, np.ndarray], weight: np.ndarray | None = None) -> np.ndarray:
    """The numbers that a metric gives."""
    line = METRICS[name]
    given = [{"frame value": rows["frame"]} if part == "frame" else rows[part] for part in takes(name)]
    options: dict[str, Any] = dict(line.options)
    if weight is not None:
        options["sample_weight"] = weight
    return numbers(getattr(miscal.metrics, name)(*given, **options))


def numbers(found: Any) -> np.ndarray:
    """All numbers of a result but p-values, which are simulated from the rows in their order."""
    if dataclasses.is_dataclass(found):
        found = {each.name: getattr(found, each.name) for each in dataclasses.fields(found)}
    if isinstance(found, Mapping):
        found = tuple(values for name, values in found.items() if name != "p_value")
    if isinstance(found, tuple):
        return np.concatenate([numbers(each) for each in found])
    values = np.atleast_1d(np.asarray(found))
    return values.astype(float) if values.dtype.kind in "fiu" else np.empty(0)


def agree(one: np.ndarray, two: np.ndarray, *, exact: bool) -> None:
    if exact:
        np.testing.assert_array_equal(one, two)
    else:
        np.testing.assert_allclose(one, two, rtol=CLOSE, atol=CLOSE)


def keeping(law: str) -> list[str]:
    """The metrics that a law binds."""
    bound = [name for name, line in METRICS.items() if law not in line.exempt]
    return bound if law == "order" else [name for name in bound if takes_weight(name)]


def by_row(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """What is given a row moves with its row."""
    return values[order] if values.size == ROWS else values


@pytest.mark.parametrize("name", keeping("order"))
@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_row_order_does_not_matter(name, kind, seed):
    rows = table(kind, seed)
    order = np.random.default_rng(seed).permutation(ROWS)
    mixed = take(rows, order)
    exact = METRICS[name].exact
    agree(by_row(call(name, rows), order), call(name, mixed), exact=exact)
    if takes_weight(name):
        agree(by_row(call(name, rows, rows["weight"]), order), call(name, mixed, mixed["weight"]), exact=exact)


@pytest.mark.parametrize("name", keeping("repetition"))
@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_whole_weights_are_repetition(name, kind, seed):
    rows = table(kind, seed)
    again = np.repeat(np.arange(ROWS), rows["weight"].astype(int))
    agree(by_row(call(name, rows, rows["weight"]), again), call(name, take(rows, again)), exact=METRICS[name].exact)


@pytest.mark.parametrize("name", keeping("scale"))
@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_the_scale_of_weights_does_not_matter(name, kind, seed):
    rows = table(kind, seed)
    agree(call(name, rows, rows["weight"]), call(name, rows, 0.37 * rows["weight"]), exact=False)


@pytest.mark.parametrize("name", keeping("zero"))
@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_rows_of_weight_zero_are_ignored(name, kind, seed):
    rows = table(kind, seed)
    more = take(rows, np.concatenate([np.arange(ROWS), np.arange(ROWS)]))
    more["y_true"][ROWS:] = 1 - more["y_true"][ROWS:]
    found = call(name, more, np.concatenate([rows["weight"], np.zeros(ROWS)]))
    plain = call(name, rows, rows["weight"])
    agree(plain, found[:ROWS] if plain.size == ROWS else found, exact=False)


@pytest.mark.parametrize("name", [name for name, line in METRICS.items() if line.perfect is not None])
@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_perfect_predictions_give_what_the_line_says(name, kind, seed):
    rows = table(kind, seed)
    rows["y_prob"] = rows["y_true"].astype(float)
    found = call(name, rows)
    expected = np.full(found.shape, METRICS[name].perfect)
    if found.size > 1 and found.size != ROWS:  # a curve: its gap is in the table, beside values and rates
        found = np.array([getattr(miscal.metrics, name)(*(rows[k] for k in takes(name))).worst_gap])
        expected = expected[:1]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_every_metric_has_a_line_and_every_line_a_metric():
    """A public function of a module that a line names is in the registry, or it is one of the modules' own helpers."""
    assert sorted(METRICS) == list(miscal.metrics.__all__) == dir(miscal.metrics)
    for name in METRICS:
        assert callable(getattr(miscal.metrics, name)), name
    for file in FOLDER.rglob("*.py"):
        for line in file.read_text().splitlines():
            if line.startswith("def ") and line.removeprefix("def ").partition("(")[0].endswith("_calibration_error"):
                assert line.removeprefix("def ").partition("(")[0] in METRICS


def test_exemptions_name_laws():
    for line in METRICS.values():
        assert set(line.exempt) <= {"order", "repetition", "scale", "zero"}


def test_the_laws_can_fail():
    """A metric that leaves out the last row breaks the law of order."""
    rows = table("plain", 0)
    broken = lambda rows: call("brier_score", take(rows, np.arange(ROWS - 1)))
    with pytest.raises(AssertionError):
        agree(broken(rows), broken(take(rows, np.arange(ROWS)[::-1])), exact=False)
