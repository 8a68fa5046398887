"""One condition: its words are read back, its rows are those of its SQL, its data survive JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miscal import MiscalError
from miscal.cells.condition import Condition, Conjunction
from miscal.cells.parse import parse, rows_where
from miscal.data.columns import Columns, column
from miscal.export.predicate import where_clause

HARD = [
    "O'Hare", "Yahoo!", "New  York", "New York", "x and", "and", "or x", "18 to 25", 'say "no"', "both ' and \"",
    "`tick`",
    "\u200fright\u200e", "line\nbreak", " lead", "tail ", "", "a, b", "{x}", "(y)", "a=b", "<3", "missing", "not", "in",
    "5", "5.0", "nan", "NULL", "tab\tbed", "\u00a0", "\u2028",
]  # fmt: skip
NAMES = ["age", "the state", "in", "O'Hare", "tick`ed", 'quo"ted', "5", "a=b", "größe", "x and y"]
numbers = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True).map(lambda value: value + 0.0)
seconds = st.integers(-(10**9), 4 * 10**9)
days = seconds.map(lambda value: value // 86400 + (value % 86400) / 86400)
texts = st.sampled_from(HARD) | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@st.composite
def conditions(draw: Any, name: str, kind: str) -> Condition:
    missing = draw(st.booleans())
    if kind in ("category", "boolean"):
        values = st.sampled_from(["True", "False"]) if kind == "boolean" else texts
    else:
        values = days if kind == "date" else numbers | st.integers(-100, 100).map(float)
        if draw(st.booleans()):
            low, high = draw(st.none() | values), draw(st.none() | values)
            if low is not None and high is not None and low > high:
                low, high = high, low
            return Condition(name, kind, low=low, high=high, missing=missing and (low, high) != (None, None))
    some = tuple(draw(st.lists(values, min_size=1, max_size=4, unique=True)))
    form = draw(st.sampled_from(["levels", "excluded", "missing", "known"]))
    if form == "missing":
        return Condition(name, kind, levels=(), missing=True)
    return Condition(name, kind) if form == "known" else Condition(name, kind, missing=missing, **{form: some})


@st.composite
def conjunctions(draw: Any) -> tuple[Conjunction, dict[str, str]]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    kinds = {name: draw(st.sampled_from(["numeric", "date", "category", "boolean"])) for name in names}
    return Conjunction(tuple(draw(conditions(name, kind)) for name, kind in kinds.items())), kinds


@given(conjunctions())
@settings(max_examples=200, deadline=None)
def test_words_and_json_are_read_back(made: tuple[Conjunction, dict[str, str]]) -> None:
    conjunction, kinds = made
    assert parse(conjunction.words(), kinds) == conjunction
    assert Conjunction.from_dict(json.loads(json.dumps(conjunction.to_dict()))) == conjunction


def values_near(conjunction: Conjunction, name: str, kind: str) -> Any:
    """Values at, just below and just above what the conditions name, and a missing one."""
    one = next(condition for condition in conjunction.conditions if condition.column == name)
    if kind == "category":
        return pa.array([*(one.levels or ()), *(one.excluded or ()), *HARD[:8], None], pa.string())
    if kind == "boolean":
        return pa.array([True, False, None])
    named = [*(one.levels or ()), *(one.excluded or ()), *(end for end in (one.low, one.high) if end is not None), 0.0]
    if kind == "date":
        ticks = [round(value * 86400) + step for value in named for step in (-1, 0, 1)]
        return pa.array([*ticks, None], pa.int64()).cast(pa.timestamp("s"))
    near = [math.nextafter(value, way) for value in named for way in (-math.inf, math.inf)]
    return pa.array([*named, *(value for value in near if not math.isinf(value)), math.nan])


@given(conjunctions())
@settings(max_examples=100, deadline=None)
def test_rows_are_those_of_the_sql(made: tuple[Conjunction, dict[str, str]]) -> None:
    conjunction, kinds = made
    arrays = {name: values_near(conjunction, name, kind) for name, kind in kinds.items()}
    size = max(len(values) for values in arrays.values())
    rng = np.random.default_rng(0)
    table = pa.table(
        {name: values.take(pa.array(rng.permutation(size) % len(values))) for name, values in arrays.items()}
    )
    columns = Columns({name: column(name, table[name]) for name in kinds})
    rows = table.append_column("#", pa.array(np.arange(size)))  # noqa: F841  # found by the query
    found = duckdb.sql(f'SELECT "#" FROM rows WHERE {where_clause(conjunction, "duckdb")} ORDER BY 1').fetchall()
    assert [row for (row,) in found] == np.flatnonzero(conjunction.rows(columns)).tolist()


@pytest.mark.parametrize("level", HARD)
def test_every_level_is_found_by_its_words(level: str) -> None:
    columns = Columns({"where": column("where", ["other", level, None, "a"])})
    words = Condition("where", "category", levels=(level,)).words()
    assert rows_where(words, columns).tolist() == [False, True, False, False]
    assert rows_where(Condition("where", "category", excluded=(level,), missing=True).words(), columns).tolist() == [
        True, False, True, True,
    ]  # fmt: skip


def test_words_say_it_as_people_do() -> None:
    below = math.nextafter(31.0, -math.inf)
    assert Condition("age", high=below).words() == "age < 31"
    assert Condition("age", low=below, high=below).words() == "31 <= age < 31"
    assert Condition("age", low=below, high=31.0).words() == "age = 31"
    assert Condition("age", low=20.0, high=31.0, missing=True).words() == "(20 < age <= 31 or missing)"
    assert Condition("hour", levels=(7.0, 8.0)).words() == "hour in {7, 8}"
    assert Condition("zero", low=math.nextafter(0.0, -math.inf)).words() == "zero >= 0"
    assert Condition("s", "category", excluded=("a",)).words() == "s != a and s is not missing"
    assert Condition("day", "date", high=math.nextafter(19000.0, -math.inf)).words() == "day < 2022-01-08"
    many = Condition("s", "category", levels=tuple("abcdefghij"))
    assert many.words(6) == "s in {a, b, c, d, e, ... 5 more}"
    assert Conjunction().words() == "full population"


def test_conditions_on_one_column_become_one() -> None:
    kinds = {"age": "integer", "s": "category"}
    assert parse("age > 3 and age <= 5", kinds) == Conjunction((Condition("age", low=3.0, high=5.0),))
    expected = Condition("s", "category", excluded=("a", "b"))
    assert parse("s not in {a, b} and s is not missing", kinds) == Conjunction((expected,))


def test_refusals() -> None:
    columns = Columns({"age": column("age", [1, 2]), "s": column("s", ["a", "b"])})
    for text in ("", "age <", "s < 3", "age = red", "s = c", "nobody = 3", "age ? 3", "s in {a"):
        with pytest.raises(MiscalError):
            parse(text, columns)
