"""Types that real tables hold now and then: each is understood, or refused by name; never another exception."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import uuid
import warnings

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

import miscal
from miscal.data.columns import column
from miscal.data.errors import MiscalError, MiscalWarning
from miscal.data.predictions import Predictions

Y, P = [0, 1, 1, 0], [0.25, 0.5, 0.75, 1.0]
MONTHS = pd.period_range("2024-01", periods=4, freq="M")
DAYS = pd.date_range("2024-01-01", periods=4)

UNDERSTOOD = {
    "pandas cut": (pd.Series(pd.cut([1, 5, 9, 120], [0, 2, 10, 20])), "category", [0, 1, 1, -1], ("(0, 2]", "(2, 10]")),
    "pandas interval": (pd.Series(pd.interval_range(0, 2)), "category", [0, 1], ("(0, 1]", "(1, 2]")),
    "pandas sparse": (pd.Series(pd.arrays.SparseArray([0.0, 1.0])), "numeric", [0.0, 1.0], ()),
    "pandas period": (pd.Series(MONTHS[:2]), "date", [19723.0, 19754.0], ()),
    "pandas category of periods": (pd.Series(pd.Categorical(MONTHS[:2])), "category", [0, 1], ("2024-01", "2024-02")),
    "pandas category of pairs": (pd.Series(pd.Categorical([(1, 2), (0, 1)])), "category", [1, 0], ("(0, 1)", "(1, 2)")),
    "pandas category of numbers": (pd.Series(pd.Categorical([1.5, 0.5, None])), "category", [1, 0, -1], (0.5, 1.5)),
    "pandas time zone": (pd.Series(DAYS[:1].tz_localize("Europe/Paris")), "date", [19723 - 1 / 24], ()),
    "pandas index": (pd.CategoricalIndex(["b", "a"]), "category", [1, 0], ("a", "b")),
    "arrow text view": (pa.array(["b", "a"], pa.string_view()), "category", [1, 0], ("a", "b")),
    "arrow bytes view": (pa.array([b"b", b"a"], pa.binary_view()), "category", [1, 0], ("a", "b")),
    "arrow runs": (pa.RunEndEncodedArray.from_arrays([2, 3], ["b", "a"]), "category", [1, 1, 0], ("a", "b")),
    "arrow half": (pa.array(np.array([0.5], dtype=np.float16)), "numeric", [0.5], ()),
    "arrow far away": (pa.array([2**60], pa.timestamp("s")), "date", [2**60 / 86_400], ()),
    "arrow nanoseconds": (pa.array([86_400 * 10**9], pa.timestamp("ns")), "date", [1.0], ()),
    "numpy text": (np.array(["b", "a"], dtype=np.dtypes.StringDType()), "category", [1, 0], ("a", "b")),
    "numpy months": (np.array(["1970-02"], dtype="datetime64[M]"), "date", [31.0], ()),
    "numpy half days": (np.array([3], dtype="timedelta64[12h]"), "numeric", [1.5], ()),
    "numpy foreign bytes": (np.array([86_400], dtype=">M8[s]"), "date", [1.0], ()),
    "numpy long": (np.array([0.5], dtype=np.longdouble), "numeric", [0.5], ()),
    "polars time": (pl.Series([dt.time(6, 30)]), "numeric", [6.5], ()),
    "polars duration": (pl.Series([dt.timedelta(hours=36)]), "numeric", [1.5], ()),
}


@pytest.mark.parametrize("name", UNDERSTOOD)
def test_odd_columns_are_understood(name):
    values, kind, converted, levels = UNDERSTOOD[name]
    made = column("x", values)
    assert (made.kind, made.values.tolist(), made.levels) == (kind, converted, levels)


ODD = {name: values for name, (values, *_) in UNDERSTOOD.items()} | {
    "pandas lists": pd.Series([[1], [2], [1], [2]]),
    "pandas dicts": pd.Series([{"a": 1}] * 4),
    "pandas sets": pd.Series([{1}] * 4),
    "pandas pairs": pd.MultiIndex.from_tuples([(1, 2)] * 4),
    "pandas mixed categories": pd.Series(pd.Categorical([1, "a", 2, "a"])),
    "pandas no category": pd.Series(pd.Categorical([None] * 4)),
    "pandas uuid": pd.Series([uuid.UUID(int=i) for i in range(4)]),
    "polars list": pl.Series([[1]] * 4),
    "polars struct": pl.Series([{"a": 1}] * 4),
    "polars object": pl.Series([object()] * 4, dtype=pl.Object),
    "polars wide": pl.Series([1, 2, 3, 4], dtype=pl.Int128),
    "polars large": pl.Series([2**63] * 4, dtype=pl.UInt64),
    "arrow map": pa.array([[("a", 1)]] * 4, pa.map_(pa.string(), pa.int64())),
    "arrow union": pa.UnionArray.from_sparse(pa.array([0] * 4, pa.int8()), [pa.array([1] * 4)]),
    "arrow interval": pa.array([(1, 2, 3)] * 4, pa.month_day_nano_interval()),
    "arrow dictionary of lists": pa.DictionaryArray.from_arrays(pa.array([0] * 4), pa.array([[1]])),
    "arrow scalar": pa.scalar(1),
    "arrow nothing": pa.chunked_array([], pa.float64()),
    "arrow decimal": pa.array([decimal.Decimal("1.5")] * 4, pa.decimal256(50, 3)),
    "numpy never": np.array(["NaT"] * 4, dtype="datetime64"),
    "numpy far away": np.array([2**62] * 4, dtype="datetime64[D]"),
    "numpy void": np.zeros(4, "V3"),
    "numpy fractions": np.array([fractions.Fraction(1, 2)] * 4, dtype=object),
    "numpy broken text": np.array([b"\xff"] * 4),
    "numpy huge": np.array([2**70] * 4, dtype=object),
    "list of surrogates": ["\ud800"] * 4,
    "list of years": [np.datetime64("2024")] * 4,
    "list of holes": [[1], None, [2], [3]],
    "list of nothing": [pd.NaT, pd.NA, None, float("nan")],
    "sparse matrix": scipy.sparse.csr_matrix(np.full((4, 2), 0.5)),
    "masked matrix": np.ma.masked_array(np.full((4, 2), 0.5), mask=[[0, 0], [1, 0], [0, 0], [0, 0]]),
    "memory": memoryview(b"abcd"),
    "function": len,
    "type": int,
}
PLACES = {
    "y_true": lambda v: Predictions(v, P),
    "y_true with positive": lambda v: Predictions(v, P, positive="a"),
    "y_true with classes": lambda v: Predictions(v, P, classes=["b", "a"]),
    "y_prob": lambda v: Predictions(Y, v),
    "weight": lambda v: Predictions(Y, P, weight=v),
    "count": lambda v: Predictions([0, 0, 0, 0], P, count=v),
    "cluster": lambda v: Predictions(Y, P, cluster=v),
    "id": lambda v: Predictions(Y, P, id=v).take([0]),
    "columns": lambda v: Predictions(Y, P, columns=v),
    "one column": lambda v: Predictions(Y, P, columns={"x": v}).columns["x"],
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ODD)
def test_odd_values_in_every_place_end_in_predictions_or_a_refusal(name, place):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MiscalWarning)
        try:
            PLACES[place](ODD[name])
        except MiscalError as error:
            named = {"one": ("'x'",), "y_true": ("'y_true'", "'positive'")}.get(place.split()[0], (f"'{place}'",))
            assert any(word in str(error) for word in named)  # noqa: PT017


def test_masked_matrices_are_refused_by_row():
    with pytest.raises(MiscalError, match=r"'y_prob'.*row 1 is masked"):
        Predictions(Y, ODD["masked matrix"])


def test_objects_of_polars_are_never_read_as_addresses():
    with pytest.raises(MiscalError, match="'x'"):
        column("x", ODD["polars object"])


def test_missing_values_of_narwhals_do_not_make_floats_of_whole_numbers():
    native = pl.Series([2**53, 2**53 + 1, 2**53 + 2, None])
    made = column("k", nw.from_native(native, series_only=True))
    assert (made.kind, made.levels) == ("category", (2**53, 2**53 + 1, 2**53 + 2))
    assert made.missing.tolist() == [False, False, False, True]


def test_a_date_with_a_part_of_a_day_keeps_it():
    made = column("d", pa.array([86_400_000, 43_200_000, None], pa.date64()))
    assert made.kind == "date"
    np.testing.assert_array_equal(made.values, [1.0, 0.5, np.nan])


def test_complex_numbers_in_a_frame_are_refused_by_name():
    with pytest.raises(MiscalError, match="column 's' must hold numbers"):
        miscal.audit({"y": Y, "p": P, "s": np.arange(4) * 1j}, outcome="y", probability="p")


@pytest.mark.filterwarnings("ignore:15 bins were asked for")
def test_quantiles_of_trials_that_add_up_to_more_than_a_float_holds():
    rng = np.random.default_rng(0)
    count = rng.integers(2**44, 2**45, 70_000)
    p = rng.choice([0.2, 0.4], count.size)
    found = miscal.by_score(Predictions(np.rint(p * count).astype(np.int64), p, count=count))
    assert found.value == pytest.approx(0.0, abs=1e-12)
