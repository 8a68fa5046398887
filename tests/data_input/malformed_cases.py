# ruff: noqa: E501  # the table of arguments reads best with one case a line
"""Malformed inputs, generated: kind of fault x container x place, and a choice of them that covers every pair.

The test and the printed table share this list.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from miscal.data.predictions import Predictions
from miscal.data.sources import read
from miscal.metrics.inputs import MetricInput

ROWS = 12
PLACES = {"first": 0, "middle": 6, "last": ROWS - 1}
Table = dict[str, list[Any]]


@dataclass(frozen=True)
class Case:
    """One malformed input: `call(folder)` must end in MiscalError whose text holds every one of `says`."""

    kind: str
    container: str
    place: str
    call: Callable[[Path], Any]
    says: tuple[str, ...]
    about: str = ""  # the columns or options that are wrong
    value: str = ""  # what sort of value stands there

    def __str__(self) -> str:
        return f"{self.kind} | {self.container} | {self.place}"

    def pairs(self) -> set[tuple[str, str]]:
        """What the case tries together, two by two; every kind of fault with every function and at every place.

        Of kind and container alone not every pair is asked for: a kind is a column and a value, and those are.
        """
        function = (
            "read" if self.container in TABLES else "Predictions" if self.container in VECTORS else self.container
        )
        made = {
            "function": function, "container": self.container, "place": self.place, "about": self.about,
            "value": self.value,
        }  # fmt: skip
        named = [f"{name} {value}" for name, value in made.items() if value]
        return set(combinations(named, 2)) | {(self.kind, f"function {function}"), (self.kind, f"place {self.place}")}


def chosen(cases: list[Case]) -> list[Case]:
    """Few of the cases that together hold every pair which any of them holds: always one that adds the most pairs."""
    left = set().union(*(case.pairs() for case in cases))
    waiting = [(-len(case.pairs()), number) for number, case in enumerate(cases)]
    heapify(waiting)
    made: list[int] = []
    while left:
        gain, number = heappop(waiting)
        new = cases[number].pairs() & left
        if len(new) == -gain:
            made.append(number)
            left -= new
        elif new:  # what it adds has become less since it was counted
            heappush(waiting, (-len(new), number))
    return [cases[number] for number in sorted(made)]


def sort_of(value: Any) -> str:
    """What sort of value stands where it must not."""
    if value is None or isinstance(value, str):
        return "null" if value is None else "text"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinite"
    return "negative" if value < 0 else "whole" if value == int(value) else "fraction"


def good() -> Table:
    """A table without fault, in plain lists."""
    return {
        "y": [i % 2 for i in range(ROWS)],
        "p": [0.05 + 0.07 * i for i in range(ROWS)],
        "w": [1.0 + 0.5 * (i % 3) for i in range(ROWS)],
        "k": [3 + i for i in range(ROWS)],
        "c": [f"patient {i // 3}" for i in range(ROWS)],
        "i": [f"row{i}" for i in range(ROWS)],
        "x": [i / 4 for i in range(ROWS)],
        "label": ["ok" if i % 2 else "late" for i in range(ROWS)],
        "animal": ["cat", "dog", "eel"] * (ROWS // 3),
        "class": [0, 1, 2] * (ROWS // 3),
        "cat": [0.5, 0.25] * (ROWS // 2),
        "dog": [0.25, 0.25] * (ROWS // 2),
        "eel": [0.25, 0.5] * (ROWS // 2),
    }


# ---------------------------------------------------------------------------------------------------- containers
def _csv(table: Table, folder: Path) -> Path:
    lines = [
        ",".join(table),
        *(",".join("" if v is None else str(v) for v in row) for row in zip(*table.values(), strict=True)),
    ]
    path = folder / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def _parquet(table: Table, folder: Path) -> Path:
    pyarrow.parquet.write_table(pa.table(table), folder / "table.parquet")
    return folder / "table.parquet"


def _feather(table: Table, folder: Path) -> Path:
    pyarrow.feather.write_feather(pa.table(table), str(folder / "table.feather"))
    return folder / "table.feather"


def _duckdb(table: Table, folder: Path) -> Any:
    return duckdb.from_arrow(pa.table(table))


TABLES: dict[str, Callable[[Table, Path], Any]] = {
    "dict": lambda table, _: table,
    "pandas": lambda table, _: pd.DataFrame(table),
    "pandas nullable": lambda table, _: pd.DataFrame(table).convert_dtypes(),
    "polars": lambda table, _: pl.DataFrame(table),
    "polars lazy": lambda table, _: pl.LazyFrame(table),
    "pyarrow": lambda table, _: pa.table(table),
    "csv": _csv,
    "parquet": _parquet,
    "feather": _feather,
    "duckdb": _duckdb,
}
ARRAYS: dict[str, Callable[[list[Any]], Any]] = {
    "numpy": lambda v: np.array(v, dtype=object) if None in v or len({type(x) for x in v}) > 1 else np.array(v),
    "list": lambda v: v,
    "pandas series": lambda v: pd.Series(v, index=range(100, 100 + len(v))),
    "polars series": lambda v: pl.Series(v, strict=False),
    "pyarrow array": lambda v: pa.array(v),
}
VECTORS = {*ARRAYS, "numpy matrix", "list of rows", "pandas frame", "polars frame", "pyarrow table"}
PARAMETER = {"y": "y_true", "p": "y_prob", "w": "weight", "k": "count", "c": "cluster", "i": "id", "x": "x"}
ROLE = {"y": "outcome", "p": "probability", "w": "weight", "k": "count", "c": "cluster", "i": "id"}


# ------------------------------------------------------------------------------------------ one bad value in a row
@dataclass(frozen=True)
class Fault:
    """A bad value in one row of one column."""

    kind: str
    column: str
    value: Any
    uses: str = ""  # further columns in use, by letter
    options: tuple[tuple[str, Any], ...] = ()
    text: bool = False  # the whole column is text
    only_read: bool = False


NAN, INF = math.nan, math.inf
FAULTS = [
    Fault("probability is NaN", "p", NAN),
    Fault("probability is null", "p", None),
    Fault("probability is infinite", "p", INF),
    Fault("probability is minus infinity", "p", -INF),
    Fault("probability above 1", "p", 1.2),
    Fault("probability below 0", "p", -0.01),
    Fault("probability above 1 by rounding", "p", 1 + 2**-40),
    Fault("probability in percent", "p", 55.0),
    Fault("probability beyond the tolerance", "p", 1.01, options=(("clip", 1e-3),), only_read=True),
    Fault("probability is text", "p", "high", text=True),
    Fault("logit is NaN", "p", NAN, options=(("logit", True),), only_read=True),
    Fault("logit is infinite", "p", INF, options=(("logit", True),), only_read=True),
    Fault("outcome is null", "y", None),
    Fault("outcome is NaN", "y", NAN),
    Fault("outcome is 2", "y", 2),
    Fault("outcome is negative", "y", -1),
    Fault("outcome is a fraction", "y", 0.5),
    Fault("outcome is infinite", "y", INF),
    Fault("weight is negative", "w", -1.0, "w"),
    Fault("weight is NaN", "w", NAN, "w"),
    Fault("weight is null", "w", None, "w"),
    Fault("weight is infinite", "w", INF, "w"),
    Fault("weight is text", "w", "heavy", "w", text=True),
    Fault("count is negative", "k", -3, "k"),
    Fault("count is a fraction", "k", 2.5, "k"),
    Fault("count is null", "k", None, "k"),
    Fault("count is text", "k", "many", "k", text=True),
    Fault("count is infinite", "k", INF, "k"),
    Fault("more events than count", "y", 99, "k"),
    Fault("events are a fraction", "y", 1.5, "k"),
    Fault("events are negative", "y", -1, "k"),
    Fault("events are null", "y", None, "k"),
    Fault("cluster is null", "c", None, "c"),
    Fault("id is null", "i", None, "i"),
    Fault("variable is infinite", "x", INF, "x"),
    Fault("variable is minus infinity", "x", -INF, "x"),
]


def _with(values: list[Any], row: int, value: Any, text: bool) -> list[Any]:
    made = [str(v) for v in values] if text else list(values)
    made[row] = value
    if any(isinstance(v, float) for v in made):
        made = [float(v) if isinstance(v, (int, float)) else v for v in made]
    return made


def _binary_table(fault: Fault, row: int) -> Table:
    table = {name: values for name, values in good().items() if name in "ypx" + fault.uses}
    table[fault.column] = _with(table[fault.column], row, fault.value, fault.text)
    return table


def _read_binary(make: Callable[[Table, Path], Any], fault: Fault, row: int, folder: Path) -> Any:
    roles = {ROLE[letter]: letter for letter in "yp" + fault.uses if letter in ROLE}
    made = read(make(_binary_table(fault, row), folder), **roles, **dict(fault.options))
    return made.columns["x"]


def _arrays_binary(make: Callable[[list[Any]], Any], fault: Fault, row: int) -> Any:
    table = {name: make(values) for name, values in _binary_table(fault, row).items()}
    extra = {PARAMETER[letter]: table[letter] for letter in fault.uses if letter in "wkci"}
    return Predictions(table["y"], table["p"], **extra, columns={"x": table["x"]}).columns["x"]


def single_values() -> Iterator[Case]:
    for fault in FAULTS:
        for place, row in PLACES.items():
            for name, make in TABLES.items():
                call = lambda folder, f=fault, r=row, m=make: _read_binary(m, f, r, folder)
                says = (f"'{fault.column}'", f"row {row} ")
                yield Case(fault.kind, name, place, call, says, fault.column + fault.uses, sort_of(fault.value))
            if fault.only_read:
                continue
            for name, make in ARRAYS.items():
                call = lambda _, f=fault, r=row, m=make: _arrays_binary(m, f, r)
                says = (f"'{PARAMETER[fault.column]}'", f"row {row} ")
                yield Case(fault.kind, name, place, call, says, fault.column + fault.uses, sort_of(fault.value))


# --------------------------------------------------------------------------------------------- words and classes
WORDS = [
    ("label misspelt beside a stated event", "label", "Late", {"positive": "late"}, "p"),
    ("label is null", "label", None, {"positive": "late"}, "p"),
    ("unknown class", "animal", "cow", {}, "cde"),
    ("class is null", "animal", None, {}, "cde"),
    ("class index too large", "class", 3, {}, "cde"),
    ("class index negative", "class", -1, {}, "cde"),
    ("class index is a fraction", "class", 1.5, {}, "cde"),
]
MATRIX = [
    ("row sums to less than 1", "dog", 0.1),
    ("row sums to 1.001", "dog", 0.251),
    ("class probability is NaN", "eel", NAN),
    ("class probability is null", "eel", None),
    ("class probability negative", "cat", -0.25),
    ("class probability above 1", "cat", 1.25),
    ("class probability infinite", "dog", INF),
]
CLASSES = ["cat", "dog", "eel"]


def _class_table(outcome: str, column: str, row: int, value: Any) -> Table:
    table = {name: values for name, values in good().items() if name in (outcome, "p", *CLASSES)}
    table[column] = _with(table[column], row, value, text=False)
    return table


def words() -> Iterator[Case]:
    for kind, column, value, options, shape in WORDS:
        for place, row in PLACES.items():
            says = f"row {row} "
            probability: Any = "p" if shape == "p" else CLASSES
            for name, make in TABLES.items():
                call = lambda folder, c=column, r=row, v=value, m=make, o=options, q=probability: read(
                    m(_class_table(c, c, r, v), folder), outcome=c, probability=q, **o
                )
                yield Case(kind, name, place, call, (f"'{column}'", says), column, sort_of(value))
            for name, make in ARRAYS.items():
                call = lambda _, c=column, r=row, v=value, m=make, o=options, s=shape: Predictions(
                    m(_class_table(c, c, r, v)[c]),
                    good()["p"] if s == "p" else np.array([good()[k] for k in CLASSES]).T,
                    classes=CLASSES if c == "animal" else None,
                    **o,
                )
                yield Case(kind, name, place, call, ("'y_true'", says), column, sort_of(value))


def matrices() -> Iterator[Case]:
    shapes: dict[str, Callable[[Table], Any]] = {
        "numpy matrix": lambda t: np.array([t[k] for k in CLASSES], dtype=float).T,
        "list of rows": lambda t: [list(row) for row in zip(*(t[k] for k in CLASSES), strict=True)],
        "pandas frame": lambda t: pd.DataFrame({k: t[k] for k in CLASSES}),
        "polars frame": lambda t: pl.DataFrame({k: t[k] for k in CLASSES}),
        "pyarrow table": lambda t: pa.table({k: t[k] for k in CLASSES}),
    }
    for kind, column, value in MATRIX:
        for place, row in PLACES.items():
            says = f"row {row} "
            for name, make in TABLES.items():
                call = lambda folder, c=column, r=row, v=value, m=make: read(
                    m(_class_table("animal", c, r, v), folder), outcome="animal", probability=CLASSES
                )
                yield Case(kind, name, place, call, (f"'{column}'", says), column, sort_of(value))
            for name, shape in shapes.items():
                call = lambda _, c=column, r=row, v=value, s=shape: Predictions(
                    good()["class"], s(_class_table("class", c, r, v))
                )
                yield Case(kind, name, place, call, ("'y_prob'", says), column, sort_of(value))


# ----------------------------------------------------------------------------------------------- whole tables
WHOLE_READ: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("outcome column unknown", {"outcome": "yy"}, ("'outcome'", "'yy'", "'y'")),
    ("probability column unknown", {"probability": "prob"}, ("'probability'", "'prob'")),
    ("class column unknown", {"probability": ["cat", "dog", "eels"]}, ("'probability'", "'eels'", "'eel'")),
    ("weight column unknown", {"weight": "ww"}, ("'weight'", "'ww'")),
    ("count column unknown", {"count": "kk"}, ("'count'", "'kk'")),
    ("cluster column unknown", {"cluster": "cc"}, ("'cluster'", "'cc'")),
    ("id column unknown", {"id": "ii"}, ("'id'", "'ii'")),
    ("kept column unknown", {"columns": ["x", "z"]}, ("'columns'", "'z'")),
    ("kept column twice", {"columns": ["x", "x"]}, ("'columns'", "'x'")),
    ("kept column is the outcome", {"columns": ["y"]}, ("'columns'", "'y'")),
    ("kept columns are one word", {"columns": "x"}, ("'columns'",)),
    ("probability is the outcome", {"probability": "y"}, ("'probability'", "'y'")),
    ("weight is the outcome", {"weight": "y"}, ("'weight'", "'y'")),
    ("count is the probability", {"count": "p"}, ("'count'", "'p'")),
    ("probability names one column twice", {"probability": ["cat", "cat"]}, ("'probability'", "'cat'")),
    ("probability names no column", {"probability": []}, ("'probability'",)),
    ("probability is a number", {"probability": 3}, ("'probability'",)),
    ("outcome is an array", {"outcome": [0, 1]}, ("'outcome'",)),
    ("tolerance negative", {"clip": -1e-3}, ("'clip'", "-0.001")),
    ("tolerance too large", {"clip": 0.7}, ("'clip'", "0.7")),
    ("tolerance is NaN", {"clip": NAN}, ("'clip'", "nan")),
    ("tolerance is text", {"clip": "little"}, ("'clip'", "little")),
    ("logit is text", {"logit": "yes"}, ("'logit'", "yes")),
    ("words without a stated event", {"outcome": "label"}, ("'label'", "row 0 ", "'late'", "'ok'")),
    ("stated event unknown", {"outcome": "label", "positive": "lat"}, ("'positive'", "'lat'", "'late'")),
    ("three labels for one probability", {"outcome": "animal", "positive": "cat"}, ("'animal'", "'eel'")),
    ("event stated beside classes", {"outcome": "class", "probability": CLASSES, "positive": 1}, ("'positive'",)),
    ("event stated beside counts", {"count": "k", "positive": 1}, ("'positive'", "'k'")),
    ("counts beside classes", {"count": "k", "probability": CLASSES}, ("'k'",)),
    ("probability is a column of words", {"probability": "c"}, ("'c'", "row 0 ")),
    ("weight is a column of words", {"weight": "c"}, ("'c'", "row 0 ")),
]


def whole_tables() -> Iterator[Case]:
    for kind, options, says in WHOLE_READ:
        for name, make in TABLES.items():
            call = lambda folder, m=make, o=options: read(
                m(good(), folder), **({"outcome": "y", "probability": "p"} | o)
            )
            yield Case(kind, name, "whole", call, says, " ".join(options))
    for name, make in TABLES.items():
        zeros = {"y": [0, 1], "p": [0.5, 0.5], "w": [0.0, 0.0], "k": [0, 0]}
        empty = {"y": np.array([], dtype=np.int64), "p": np.array([], dtype=np.float64)}
        yield Case(
            "weights all zero", name, "whole",
            lambda folder, m=make, t=zeros: read(m(t, folder), outcome="y", probability="p", weight="w"), ("'w'",),
        )  # fmt: skip
        yield Case(
            "counts all zero", name, "whole",
            lambda folder, m=make, t=zeros | {"y": [0, 0]}: read(
                m(t, folder), outcome="y", probability="p", count="k"
            ),
            ("'k'",),
        )  # fmt: skip
        yield Case(
            "no rows", name, "whole",
            lambda folder, m=make, t=empty: read(m(t, folder), outcome="y", probability="p"), ("'y'",),
        )  # fmt: skip


def lengths() -> Iterator[Case]:
    names = {"y": "y_true", "p": "y_prob", "w": "weight", "k": "count", "c": "cluster", "i": "id", "x": "x"}
    for change, word in ((-1, "one row too few"), (1, "one row too many")):
        for letter, parameter in names.items():
            for container, make in ARRAYS.items():
                call = lambda _, c=change, x=letter, m=make: _uneven(m, x, c)
                # The outcome is what the others are compared with.
                says = "'y_prob'" if letter == "y" else f"'{parameter}'"
                yield Case(f"{parameter} has {word}", container, "whole", call, (says,))


def _uneven(make: Callable[[list[Any]], Any], letter: str, change: int) -> Any:
    table = good()
    table[letter] = table[letter][:-1] if change < 0 else [*table[letter], table[letter][-1]]
    made = {name: make(table[name]) for name in "ypwkcix"}
    return Predictions(
        made["y"],
        made["p"],
        weight=made["w"],
        count=made["k"],
        cluster=made["c"],
        id=made["i"],
        columns={"x": made["x"]},
    )


# -------------------------------------------------------------------------------------- types, shapes, parameters
def _masked() -> Any:
    return np.ma.masked_array(good()["p"], mask=[i == 5 for i in range(ROWS)])


P, Y = good()["p"], good()["y"]
MATRIX2 = np.array([good()[k] for k in CLASSES]).T
ARGUMENTS: list[tuple[str, Callable[[], Any], tuple[str, ...]]] = [
    ("y_prob complex", lambda: Predictions(Y, np.array(P, dtype=complex)), ("'y_prob'", "complex")),
    ("y_prob boolean", lambda: Predictions(Y, np.array(Y, dtype=bool)), ("'y_prob'", "bool")),
    ("y_prob dates", lambda: Predictions(Y, np.array(Y, dtype="datetime64[D]")), ("'y_prob'", "datetime")),
    ("y_prob strings", lambda: Predictions(Y, np.array(P).astype(str)), ("'y_prob'", "row 0 ")),
    ("y_prob bytes", lambda: Predictions(Y, np.array(P).astype("S")), ("'y_prob'", "row 0 ")),
    ("y_prob objects", lambda: Predictions(Y, np.array([object()] * ROWS)), ("'y_prob'",)),
    ("y_prob mixed", lambda: Predictions(Y, [*P[:4], "x", *P[5:]]), ("'y_prob'", "row 4 ")),
    ("y_prob masked", lambda: Predictions(Y, _masked()), ("'y_prob'", "row 5 ")),
    ("y_prob None", lambda: Predictions(Y, None), ("'y_prob'", "None")),
    ("y_prob a number", lambda: Predictions(Y, 0.5), ("'y_prob'", "float")),
    ("y_prob a word", lambda: Predictions(Y, "0.5"), ("'y_prob'", "str")),
    ("y_prob a set", lambda: Predictions(Y, set(P)), ("'y_prob'", "set")),
    ("y_prob a generator", lambda: Predictions(Y, (v for v in P)), ("'y_prob'", "generator")),
    ("y_prob of no dimension", lambda: Predictions(Y, np.array(0.5)), ("'y_prob'", "shape ()")),
    ("y_prob (n, 1)", lambda: Predictions(Y, np.array(P)[:, None]), ("'y_prob'", "(12, 1)")),
    ("y_prob (1, n)", lambda: Predictions([1], np.full((1, ROWS), 0.5)), ("'y_prob'", "row 0 ")),
    ("y_prob (n, 2, 2)", lambda: Predictions(Y, np.full((ROWS, 2, 2), 0.5)), ("'y_prob'", "(12, 2, 2)")),
    ("y_prob (n, 0)", lambda: Predictions(Y, np.empty((ROWS, 0))), ("'y_prob'", "(12, 0)")),
    ("y_prob ragged", lambda: Predictions(Y, [[0.5, 0.5]] * 7 + [[1.0]] + [[0.5, 0.5]] * 4), ("'y_prob'", "row 7 ")),
    ("y_prob a dict", lambda: Predictions(Y, {"p": P}), ("'y_prob'", "(12, 1)")),
    ("y_prob strings in a matrix", lambda: Predictions(Y, [["0.5", "0.5"]] * ROWS), ("'y_prob'",)),
    ("y_prob complex matrix", lambda: Predictions(Y, MATRIX2 + 0j), ("'y_prob'", "complex")),
    ("y_true complex", lambda: Predictions(np.array(Y, dtype=complex), P), ("'y_true'", "complex")),
    ("y_true two-dimensional", lambda: Predictions(np.array(Y)[:, None], P), ("'y_true'", "(12, 1)")),
    ("y_true one-hot", lambda: Predictions(np.eye(3)[good()["class"]], MATRIX2), ("'y_true'", "(12, 3)")),
    ("y_true a frame", lambda: Predictions(pd.DataFrame({"y": Y}), P), ("'y_true'", "DataFrame")),
    ("y_true a polars frame", lambda: Predictions(pl.DataFrame({"y": Y}), P), ("'y_true'", "DataFrame")),
    ("y_true a table", lambda: Predictions(pa.table({"y": Y}), P), ("'y_true'", "Table")),
    ("y_true None", lambda: Predictions(None, P), ("'y_true'", "None")),
    ("y_true nested", lambda: Predictions([[1]] * ROWS, P), ("'y_true'",)),
    ("y_true mixed", lambda: Predictions([*Y[:3], "late", *Y[4:]], P), ("'y_true'", "row 3 ")),
    ("y_true words", lambda: Predictions(good()["label"], P), ("'y_true'", "positive=", "'late'", "'ok'")),
    ("y_true words for classes", lambda: Predictions(good()["animal"], MATRIX2), ("'y_true'", "classes=", "'eel'")),
    ("y_true structured", lambda: Predictions(np.zeros(ROWS, dtype=[("a", int)]), P), ("'y_true'",)),
    ("no rows", lambda: Predictions([], []), ("'y_true'",)),
    ("no rows in numpy", lambda: Predictions(np.array([]), np.array([])), ("'y_true'",)),
    ("no rows in pandas", lambda: Predictions(pd.Series([], dtype=int), pd.Series([], dtype=float)), ("'y_true'",)),
    ("no rows in polars", lambda: Predictions(pl.Series([], dtype=pl.Int64), pl.Series([], dtype=pl.Float64)), ("'y_true'",)),
    ("no rows in pyarrow", lambda: Predictions(pa.array([], pa.int64()), pa.array([], pa.float64())), ("'y_true'",)),
    ("classes too few", lambda: Predictions(good()["animal"], MATRIX2, classes=["cat", "dog"]), ("'classes'", "2")),
    ("classes too many", lambda: Predictions(good()["label"], P, classes=["a", "b", "c"]), ("'classes'", "3")),
    ("classes repeated", lambda: Predictions(good()["animal"], MATRIX2, classes=["cat", "dog", "dog"]), ("'classes'", "'dog'")),
    ("classes with a missing", lambda: Predictions(good()["animal"], MATRIX2, classes=["cat", "dog", None]), ("'classes'",)),
    ("classes one word", lambda: Predictions(good()["label"], P, classes="ok"), ("'classes'", "'ok'")),
    ("classes a number", lambda: Predictions(good()["label"], P, classes=2), ("'classes'", "2")),
    ("positive outside classes", lambda: Predictions(good()["label"], P, classes=["ok", "late"], positive="lat"), ("'positive'", "'lat'", "'late'")),
    ("positive for three classes", lambda: Predictions(good()["animal"], MATRIX2, positive="cat"), ("'positive'",)),
    ("classes beside counts", lambda: Predictions(Y, P, count=good()["k"], classes=[0, 1]), ("'classes'", "'count'")),
    ("counts for three classes", lambda: Predictions(good()["class"], MATRIX2, count=good()["k"]), ("'count'", "3")),
    ("weight a number", lambda: Predictions(Y, P, weight=2.0), ("'weight'", "float")),
    ("weight two-dimensional", lambda: Predictions(Y, P, weight=np.ones((ROWS, 1))), ("'weight'", "(12, 1)")),
    ("weight boolean", lambda: Predictions(Y, P, weight=np.ones(ROWS, dtype=bool)), ("'weight'", "bool")),
    ("weight huge", lambda: Predictions(Y, P, weight=[1e300] * ROWS), ("'weight'", "row 0 ")),
    ("weight all zero", lambda: Predictions(Y, P, weight=[0.0] * ROWS), ("'weight'",)),
    ("sample_weight negative", lambda: MetricInput(Y, P, [-1.0] + [1.0] * 11), ("'sample_weight'", "row 0 ")),
    ("sample_weight too short", lambda: MetricInput(Y, P, [1.0]), ("'sample_weight'", "1 against 12")),
    ("sample_weight all zero", lambda: MetricInput(Y, P, np.zeros(ROWS)), ("'sample_weight'",)),
    ("count a number", lambda: Predictions(Y, P, count=3), ("'count'", "int")),
    ("count all zero", lambda: Predictions([0] * ROWS, P, count=[0] * ROWS), ("'count'",)),
    ("cluster a word", lambda: Predictions(Y, P, cluster="c"), ("'cluster'", "str")),
    ("cluster two-dimensional", lambda: Predictions(Y, P, cluster=np.zeros((ROWS, 2))), ("'cluster'", "(12, 2)")),
    ("cluster mixed", lambda: Predictions(Y, P, cluster=[1] * 6 + ["a"] * 6), ("'cluster'", "row 6 ")),
    ("columns unnamed", lambda: Predictions(Y, P, columns=np.zeros((ROWS, 2))), ("'columns'", "ndarray")),
    ("columns a list", lambda: Predictions(Y, P, columns=[1, 2]), ("'columns'", "list")),
    ("columns a number", lambda: Predictions(Y, P, columns=7), ("'columns'", "int")),
    ("columns a scalar value", lambda: Predictions(Y, P, columns={"x": 3}), ("'x'",)),
    ("columns two-dimensional", lambda: Predictions(Y, P, columns={"x": np.zeros((ROWS, 2))}).columns["x"], ("'x'",)),
    ("columns complex", lambda: Predictions(Y, P, columns={"x": np.zeros(ROWS) + 1j}).columns["x"], ("'x'", "complex")),
    ("columns of lists", lambda: Predictions(Y, P, columns={"x": pa.array([[1]] * ROWS)}).columns["x"], ("'x'", "list")),
    ("columns of broken text", lambda: Predictions(Y, P, columns={"x": pa.array([b"\xff"] * ROWS)}).columns["x"], ("'x'",)),
    ("columns same name in words", lambda: Predictions(Y, P, columns={1: P, "1": P}), ("'columns'", "'1'")),
    ("columns same name in pandas", lambda: Predictions(Y, P, columns=pd.DataFrame([[1, 2]] * ROWS, columns=["x", "x"])), ("'columns'", "'x'")),
    ("columns same name in pyarrow", lambda: Predictions(Y, P, columns=pa.table([P, P], names=["x", "x"])), ("'columns'", "'x'")),
    ("unknown column asked for", lambda: Predictions(Y, P, columns={"age": P}).columns.find("agee"), ("'agee'", "'age'")),
    ("take beyond the end", lambda: Predictions(Y, P).take([0, ROWS]), ("'indices'", "12")),
    ("take before the start", lambda: Predictions(Y, P).take([-ROWS - 1]), ("'indices'", "-13")),
    ("take nothing", lambda: Predictions(Y, P).take([]), ("'indices'",)),
    ("take an empty mask", lambda: Predictions(Y, P).take(np.zeros(ROWS, dtype=bool)), ("'indices'",)),
    ("take a short mask", lambda: Predictions(Y, P).take([True, False]), ("'indices'", "12", "is 2")),
    ("take fractions", lambda: Predictions(Y, P).take([0.5]), ("'indices'",)),
    ("source None", lambda: read(None, outcome="y", probability="p"), ("'source'", "None")),
    ("source a number", lambda: read(3, outcome="y", probability="p"), ("'source'", "int")),
    ("source a list", lambda: read([1, 2], outcome="y", probability="p"), ("'source'", "list")),
    ("source unnamed", lambda: read(np.zeros((3, 2)), outcome="y", probability="p"), ("'source'", "ndarray")),
    ("source validated already", lambda: read(Predictions(Y, P), outcome="y", probability="p"), ("'source'", "Predictions")),
    ("source without columns", lambda: read({}, outcome="y", probability="p"), ("columns",)),
    ("source same name in pandas", lambda: read(pd.DataFrame([[1, 2]], columns=["y", "y"]), outcome="y", probability="p"), ("'y'", "twice")),
    ("source same name in pyarrow", lambda: read(pa.table([Y, P], names=["y", "y"]), outcome="y", probability="p"), ("'y'", "twice")),
    ("source of a scalar", lambda: read({"y": 1, "p": 0.5}, outcome="y", probability="p"), ("'y'",)),
    ("source of uneven lists", lambda: read({"y": [0, 1], "p": P}, outcome="y", probability="p"), ("'p'", "12 against 2")),
    ("event differs from the class", lambda: read(good(), outcome="label", probability={"late": "p"}, positive="ok"), ("'positive'", "'late'")),
]  # fmt: skip


def arguments() -> Iterator[Case]:
    for kind, call, says in ARGUMENTS:
        yield Case(kind, "argument", "whole", lambda _, c=call: c(), says)


# ------------------------------------------------------------------------------------------------------- files
def _write(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def _cut(container: str, folder: Path, share: float) -> Path:
    if container == "csv.gz":
        content = gzip.compress(_csv(good(), folder).read_bytes(), mtime=0)
        path = folder / "table.csv.gz"
    else:
        path = TABLES[container](good(), folder)
        content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    return path


def _damaged(container: str, folder: Path, where: str) -> Path:
    path = TABLES[container](good(), folder)
    content = bytearray(path.read_bytes())
    span = slice(0, 40) if where == "start" else slice(len(content) - 40, len(content))
    content[span] = bytes(255 - byte for byte in content[span])
    path.write_bytes(content)
    return path


FILES: list[tuple[str, Callable[[Path], Any], str]] = [
    ("missing", lambda f: f / "nowhere.csv", "nowhere.csv"),
    ("missing parquet", lambda f: f / "nowhere.parquet", "nowhere.parquet"),
    ("missing folder", lambda f: f / "no" / "table.csv", "table.csv"),
    ("a directory", lambda f: f, "directory"),
    ("empty csv", lambda f: _write(f, "t.csv", b""), "t.csv"),
    ("empty parquet", lambda f: _write(f, "t.parquet", b""), "t.parquet"),
    ("empty feather", lambda f: _write(f, "t.feather", b""), "t.feather"),
    ("unknown ending", lambda f: _write(f, "t.xlsx", b"PK\x03\x04 and more"), "t.xlsx"),
    ("no ending", lambda f: _write(f, "t", b"y,p\n0,0.5\n"), "t'"),
    ("CSV named parquet", lambda f: _csv(good(), f).rename(f / "t.parquet"), "t.parquet"),
    ("CSV named feather", lambda f: _csv(good(), f).rename(f / "t.feather"), "t.feather"),
    ("parquet named CSV", lambda f: _parquet(good(), f).rename(f / "t.csv"), "t.csv"),
    ("feather named CSV", lambda f: _feather(good(), f).rename(f / "t.csv"), "t.csv"),
    ("feather named parquet", lambda f: _feather(good(), f).rename(f / "t.parquet"), "t.parquet"),
    ("parquet named feather", lambda f: _parquet(good(), f).rename(f / "t.feather"), "t.feather"),
    ("CSV named gz", lambda f: _csv(good(), f).rename(f / "t.csv.gz"), "t.csv.gz"),
    ("CSV with a long row", lambda f: _write(f, "t.csv", b"y,p\n0,0.5\n1,0.5,3\n"), "Row #3"),
    ("CSV with a short row", lambda f: _write(f, "t.csv", b"y,p\n0\n1,0.5\n"), "Row #2"),
    ("CSV in UTF-16", lambda f: _write(f, "t.csv", "y,p\n0,0.5\n".encode("utf-16")), "t.csv"),
    ("CSV of zero bytes", lambda f: _write(f, "t.csv", b"\0" * 100), "t.csv"),
    ("CSV with the same name twice", lambda f: _write(f, "t.csv", b"y,p,p\n0,0.5,0.5\n"), "'p'"),
    ("CSV with a header only", lambda f: _write(f, "t.csv", b"y,p\n"), "'y'"),
    ("CSV with one empty cell", lambda f: _write(f, "t.csv", b"y,p\n0,0.5\n1,\n"), "row 1 "),
    ("CSV with decimal commas", lambda f: _write(f, "t.csv", b"y;p\n0;0,5\n1;0,25\n"), "'p'"),
    ("a name with a zero byte", lambda f: str(f) + "/t\0.csv", "file"),
]


def files() -> Iterator[Case]:
    for kind, make, says in FILES:
        call = lambda folder, m=make: read(m(folder), outcome="y", probability="p")
        yield Case(f"file: {kind}", "file", "whole", call, (says,))
    for container in ("parquet", "feather", "csv.gz"):
        for share in (0.1, 0.25, 0.5, 0.75, 0.9, 0.98):
            call = lambda folder, c=container, s=share: read(_cut(c, folder, s), outcome="y", probability="p")
            yield Case("file: cut off", container, f"{share:.0%}", call, (f"table.{container}",))
    for container in ("parquet", "feather"):
        for where in ("start", "end"):
            call = lambda folder, c=container, w=where: read(_damaged(c, folder, w), outcome="y", probability="p")
            yield Case("file: bytes inverted", container, where, call, (f"table.{container}",))


def all_cases() -> list[Case]:
    """Every malformed input."""
    makers = (single_values, words, matrices, whole_tables, lengths, arguments, files)
    return [case for make in makers for case in make()]
