"""Predictions and columns: what is accepted, what it becomes, and that nothing is copied or changed behind the user."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from miscal.data.columns import Column, column, factorise
from miscal.data.errors import MiscalError, MiscalWarning
from miscal.data.predictions import Predictions
from miscal.metrics.inputs import MetricInput

Y = [0, 1, 1, 0]
P = [0.25, 0.5, 0.75, 1.0]
THREE = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5], [1.0, 0.0, 0.0]])


# ------------------------------------------------------------------------------------------------------- arrays
@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_arrays_of_the_right_type_are_not_copied(dtype):
    y, p, w = np.array(Y, dtype=dtype), np.array(P), np.array([1.0, 2.0, 3.0, 4.0])
    made = Predictions(y, p, weight=w)
    assert made.outcome.dtype == dtype
    assert np.shares_memory(made.outcome, y)
    assert np.shares_memory(made.probability, p)
    assert np.shares_memory(made.weight, w)


def test_truth_values_are_seen_as_bytes_without_a_copy():
    y = np.array(Y, dtype=bool)
    made = Predictions(y, P)
    assert made.outcome.dtype == np.uint8
    assert np.shares_memory(made.outcome, y)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16, np.uint64, np.float32, np.float64, ">i4", ">f8"])
def test_other_number_types_become_int64(dtype):
    made = Predictions(np.array(Y, dtype=dtype), P)
    assert made.outcome.dtype == np.int64
    assert made.outcome.tolist() == Y


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble, ">f8"])
def test_other_float_types_become_float64(dtype):
    made = Predictions(Y, np.array(P, dtype=dtype))
    assert made.probability.dtype == np.float64
    assert made.probability.dtype.isnative
    assert made.probability.tolist() == P


def test_strided_input_becomes_contiguous():
    wide = np.arange(8).reshape(4, 2) / 8
    made = Predictions(Y, wide[:, 1])
    assert made.probability.flags.c_contiguous
    assert made.probability.tolist() == wide[:, 1].tolist()


def test_the_result_cannot_be_changed():
    y, p = np.array(Y), np.array(P)
    made = Predictions(y, p, weight=[1.0] * 4, columns={"x": P})
    for values in (made.outcome, made.probability, made.weight, made.columns["x"].values):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.weight = None
    p[0] = 0.5  # the user's own array stays the user's
    assert y.flags.writeable


@pytest.mark.parametrize(
    "container", [list, tuple, np.array, pd.Series, pl.Series, pa.array, lambda v: pa.chunked_array([v[:1], v[1:]])]
)
def test_every_container_gives_the_same(container):
    made = Predictions(container(Y), container(P), weight=container(P), columns={"x": container(P)})
    reference = Predictions(np.array(Y), np.array(P), weight=np.array(P), columns={"x": np.array(P)})
    assert made._fingerprint() == reference._fingerprint()
    assert made.columns["x"].values.tolist() == P


def test_nullable_and_decimal_numbers_are_accepted():
    made = Predictions(pd.array([False, True, True, False], dtype="boolean"), [Decimal(str(p)) for p in P])
    assert made.outcome.tolist() == Y
    assert made.probability.tolist() == P
    assert Predictions(pd.Series(Y, dtype="Int64"), pd.Series(P, dtype="Float64")).outcome.tolist() == Y
    assert Predictions(pd.Series(Y, dtype="category"), P).outcome.tolist() == Y


# ------------------------------------------------------------------------------------------------------ meanings
def test_two_columns_mean_the_second():
    made = Predictions(Y, np.stack([1 - np.array(P), P], axis=1))
    assert made.probability.tolist() == P
    assert made.n_classes == 2


def test_several_columns_stay_as_they_are_and_are_never_renormalised():
    off = THREE.copy()
    off[0] = [0.5, 0.25, 0.25 + 9e-5]
    made = Predictions([0, 1, 2, 0], off)
    assert np.array_equal(made.probability, off)
    assert made.n_classes == 3
    assert made.classes == (0, 1, 2)


@pytest.mark.parametrize(("off", "accepted"), [(0.99e-4, True), (1.01e-4, False), (-0.99e-4, True), (-1.01e-4, False)])
@pytest.mark.parametrize("rows", [4, 40_000])
def test_rows_sum_to_one_within_the_tolerance(off, accepted, rows):
    matrix = np.tile(THREE, (rows // 4, 1))
    matrix[-2, 0] += off
    if accepted:
        assert len(Predictions([0, 1, 2, 0] * (rows // 4), matrix)) == rows
    else:
        with pytest.raises(MiscalError, match=f"row {rows - 2} "):
            Predictions([0, 1, 2, 0] * (rows // 4), matrix)


def test_the_stated_event_is_class_one():
    made = Predictions(["late", "ok", "late", "ok"], P, positive="late")
    assert made.outcome.tolist() == [1, 0, 1, 0]
    assert made.classes == ("ok", "late")
    assert Predictions([2, 1, 2, 1], P, positive=2).outcome.tolist() == [1, 0, 1, 0]
    assert Predictions(Y, P, positive=0).outcome.tolist() == [1, 0, 0, 1]
    assert Predictions(Y, P, positive="1").outcome.tolist() == Y  # a command line can only say it in words
    assert Predictions(np.array(Y, dtype=bool), P, positive="true").outcome.tolist() == Y


def test_classes_give_the_order_of_the_columns():
    made = Predictions(["eel", "cat", "dog", "eel"], THREE, classes=["dog", "eel", "cat"])
    assert made.outcome.tolist() == [1, 2, 0, 1]
    named = Predictions(["b", "a", "c", "a"], pd.DataFrame(THREE, columns=["c", "a", "b"]))
    assert named.outcome.tolist() == [2, 1, 0, 1]
    assert named.classes == ("c", "a", "b")


def test_the_event_may_be_the_first_of_two_columns():
    both = np.stack([1 - np.array(P), P], axis=1)
    made = Predictions(["ok", "late", "ok", "late"], both, classes=["ok", "late"], positive="ok")
    assert made.outcome.tolist() == [1, 0, 1, 0]
    assert made.probability.tolist() == [1 - p for p in P]
    assert made.classes == ("late", "ok")


def test_a_single_class_is_accepted_with_a_warning():
    with pytest.warns(MiscalWarning, match="single class: all 3 rows are 0"):
        assert Predictions([0, 0, 0], [0.1, 0.2, 0.3]).outcome.sum() == 0
    with pytest.warns(MiscalWarning, match="single class"):
        assert Predictions(["no", "no"], [0.1, 0.2], positive="yes").classes == ("no", "yes")
    with pytest.warns(MiscalWarning, match="single class"):
        MetricInput(np.ones(10_000, dtype=np.int64), np.full(10_000, 0.5))


def test_a_rare_class_far_down_is_seen():
    y = np.zeros(400_000, dtype=np.int64)
    y[-1] = 1
    MetricInput(y, np.full(y.size, 0.5))  # a warning would be an error here


# --------------------------------------------------------------------------------------- weights, counts, clusters
def test_rows_of_weight_zero_are_left_out():
    made = Predictions(Y, P, weight=[1.0, 0.0, 2.0, 0.0], cluster=list("aabb"), id=[7, 8, 9, 10], columns={"x": P})
    assert made.rows == len(made) == 2
    assert made.ignored == 2
    assert made.outcome.tolist() == [0, 1]
    assert made.weight.tolist() == [1.0, 2.0]
    assert made.cluster.tolist() == [0, 1]
    assert made.id.tolist() == [7, 9]
    assert made.columns["x"].values.tolist() == [0.25, 0.75]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 8)), min_size=1, max_size=30))
def test_aggregated_rows_keep_their_sums(rows):
    events = [min(k, n) for k, n, _ in rows]
    trials = [n for _, n, _ in rows]
    if sum(trials) in (0, sum(events)) or sum(events) == 0:
        return
    p = [q / 8 for _, _, q in rows]
    made = Predictions(events, p, count=trials, columns={"row": list(range(len(rows)))})
    origin = made.columns["row"].values.astype(int)
    assert set(made.outcome.tolist()) == {0, 1}
    assert made.count.min() > 0
    assert made.ignored == trials.count(0)
    for row in range(len(rows)):
        here = origin == row
        assert made.count[here].sum() == trials[row]
        assert (made.count * made.outcome)[here].sum() == events[row]
        assert set(made.probability[here]) <= {p[row]}


def test_clusters_become_codes_that_do_not_depend_on_row_order():
    a = Predictions(Y, P, cluster=["y", "x", "x", "z"])
    b = Predictions(Y[::-1], P[::-1], cluster=["z", "x", "x", "y"])
    assert a.cluster.tolist() == [1, 0, 0, 2]
    assert a.cluster.tolist() == b.cluster.tolist()[::-1]
    assert a.cluster.dtype == np.int64


def test_ids_may_be_words_and_follow_their_rows():
    made = Predictions(Y, P, id=["a", "b", "c", "d"]).take([3, 1])
    assert made.id.to_pylist() == ["d", "b"]


# ------------------------------------------------------------------------------------------- large inputs, in blocks
@pytest.mark.parametrize("row", [0, 262_143, 262_144, 299_999])
def test_compiled_scans_find_the_row(row):
    n = 300_000
    y, p, w = np.tile([0, 1], n // 2), np.full(n, 0.5), np.ones(n)
    for value in (np.nan, np.inf, -1e-9, 1 + 1e-9):
        bad = p.copy()
        bad[row] = value
        with pytest.raises(MiscalError, match=rf"'y_prob'.*row {row} "):
            MetricInput(y, bad)
    for value in (-1.0, np.nan, np.inf):
        bad = w.copy()
        bad[row] = value
        with pytest.raises(MiscalError, match=rf"'sample_weight'.*row {row} "):
            MetricInput(y, p, bad)
    for value in (-1, 2):
        bad = y.copy()
        bad[row] = value
        with pytest.raises(MiscalError, match=rf"'y_true'.*row {row} "):
            MetricInput(bad, p)
    w[row] = 0.0
    assert MetricInput(y, p, w).predictions.ignored == 1


def test_the_number_of_bad_rows_is_said():
    p = np.full(300_000, 0.5)
    p[100::1000] = 1.5
    with pytest.raises(MiscalError, match=r"row 100 has 1\.5 \(300 such rows, counted from 0\)"):
        MetricInput(np.tile([0, 1], 150_000), p)


# ------------------------------------------------------------------------------------------------ take, frame, repr
def test_take_by_indices_and_by_mask():
    made = Predictions(Y, P, columns={"s": ["b", "a", None, "c"]})
    assert made.take([-1, 0]).probability.tolist() == [1.0, 0.25]
    masked = made.take(np.array([True, False, True, True]))
    assert masked.probability.tolist() == [0.25, 0.75, 1.0]
    assert masked.columns["s"].levels == ("a", "b", "c")  # levels stay those of all rows
    assert masked.columns["s"].values.tolist() == [1, -1, 2]
    assert masked.take([2]).columns["s"].values.tolist() == [2]


def test_with_probability_keeps_the_rest():
    made = Predictions(Y, P, weight=P, columns={"x": P})
    other = made.with_probability([0.5] * 4)
    assert other.probability.tolist() == [0.5] * 4
    assert other.outcome is made.outcome
    assert other._fingerprint() != made._fingerprint()
    with pytest.raises(MiscalError, match="shape"):
        made.with_probability([0.5] * 3)


def test_repr_says_what_matters():
    text = repr(Predictions(Y, P, weight=[1.0, 2.0, 1.0, 0.0], columns={"age": P}))
    assert text == "Predictions(3 rows, 2 events (75.0%), mean probability 50.0%, weight, 1 ignored, columns: age)"
    assert repr(Predictions([0, 1, 2, 0], THREE)) == "Predictions(4 rows, 3 classes)"
    counted = Predictions([2, 0], [0.5, 0.25], count=[4, 4])
    assert repr(counted) == "Predictions(3 rows, 2 events (25.0%), mean probability 37.5%, count)"


def test_fingerprint_follows_the_content():
    one = Predictions(Y, P)
    assert one._fingerprint() == Predictions(np.array(Y, dtype=np.uint8), pa.array(P))._fingerprint()
    assert one._fingerprint() != Predictions([1, 1, 1, 0], P)._fingerprint()
    assert one._fingerprint() != Predictions(Y, [0.25, 0.5, 0.75, 0.999])._fingerprint()
    assert one._fingerprint() != Predictions(Y, P, weight=[1.0] * 4)._fingerprint()
    assert one._fingerprint() == "12bce2fb34a577b86c711c42711869d8"  # the same in every release


def test_copies_and_pickles():
    made = Predictions(Y, P, columns=pd.DataFrame({"s": list("abca")}))
    for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert other._fingerprint() == made._fingerprint()
        assert other.columns["s"].levels == ("a", "b", "c")


def test_columns_replaced_later_do_not_change_what_was_validated():
    frame = pd.DataFrame({"x": P})
    made = Predictions(Y, P, columns=frame)
    frame["x"] = "other"
    assert made.columns["x"].values.tolist() == P


# ------------------------------------------------------------------------------------------------------ columns
@pytest.mark.parametrize(
    ("values", "kind", "converted", "levels"),
    [
        ([3, 1, 2], "numeric", [3.0, 1.0, 2.0], ()),
        ([True, False, True], "boolean", [1, 0, 1], (False, True)),
        ([True, None, False], "boolean", [1, -1, 0], (False, True)),
        (["b", "a", None], "category", [1, 0, -1], ("a", "b")),
        (np.array(["b", "a", "é"]), "category", [1, 0, 2], ("a", "b", "é")),
        (pd.Series(["b", "a", None]), "category", [1, 0, -1], ("a", "b")),
        (pd.Categorical(["b", "a", None], categories=["b", "a", "unused"]), "category", [1, 0, -1], ("a", "b")),
        (
            pd.Series(pd.Categorical(["low", "high", "low"], categories=["low", "mid", "high"], ordered=True)),
            "category", [0, 1, 0], ("low", "high"),
        ),
        (pl.Series(["b", "a", None], dtype=pl.Categorical), "category", [1, 0, -1], ("a", "b")),
        (
            pl.Series(["low", "high", "low"], dtype=pl.Enum(["low", "mid", "high"])),
            "category", [0, 1, 0], ("low", "high"),
        ),
        (pa.array(["b", "a", None]).dictionary_encode(), "category", [1, 0, -1], ("a", "b")),
        (pa.array([b"b", b"a", b"b"]), "category", [1, 0, 1], ("a", "b")),
        ([2**60 + 1, 2**60, 2**60 + 1], "category", [1, 0, 1], (2**60, 2**60 + 1)),
        (pa.array([2**60 + 1, None, 2**60]), "category", [1, -1, 0], (2**60, 2**60 + 1)),
        (pa.array([dt.date(1970, 1, 2), dt.date(2000, 1, 1)]), "date", [1.0, 10957.0], ()),
        (np.array(["1970-01-02T12", "1969-12-31"], dtype="datetime64[s]"), "date", [1.5, -1.0], ()),
        (pd.Series(pd.to_datetime(["1970-01-02"]).tz_localize("UTC")), "date", [1.0], ()),
        (pd.Series(pd.to_timedelta(["36h"])), "numeric", [1.5], ()),
        (pa.array([dt.time(6, 30)]), "numeric", [6.5], ()),
        ([Decimal("1.5"), Decimal(2)], "numeric", [1.5, 2.0], ()),
    ],
)  # fmt: skip
def test_kinds_of_columns(values, kind, converted, levels):
    made = column("x", values)
    assert made.kind == kind
    assert made.values.tolist() == converted
    assert made.levels == levels


def test_missing_numbers_and_dates_are_nan():
    for values in ([1.0, None], pa.array([1, None]), pd.array([1, None], dtype="Int64"), pl.Series([1, None])):
        made = column("x", values)
        assert made.kind == "numeric"
        assert made.values.dtype == np.float64
        assert made.missing.tolist() == [False, True]
    days = column("t", [dt.date(1970, 1, 2), None])
    assert days.missing.tolist() == [False, True]
    assert column("none", [None, None]).missing.all()


def test_whole_numbers_are_remembered():
    assert column("x", [1, 2]).integer
    assert column("x", pa.array([1, None])).integer
    assert not column("x", [1.0, 2.0]).integer
    assert column("hour", [23, 7, 7]).as_levels().levels == (7, 23)
    assert column("x", [0.5, None, 0.25]).as_levels().values.tolist() == [1, -1, 0]


def test_mixed_types_become_words_with_a_warning():
    with pytest.warns(MiscalWarning, match="column 'x'.*row 1 has 'a'"):
        made = column("x", [1, "a", None, 2.5])
    assert made.levels == ("1", "2.5", "a")
    assert made.values.tolist() == [0, 2, -1, 1]


def test_broken_dictionaries_are_understood():
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(["a", "b", "a"]))
    assert column("x", twice).values.tolist() == [0, 1, 0]
    null_inside = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    assert column("x", null_inside).values.tolist() == [0, -1, 0]
    parts = pa.chunked_array([pa.array(["b"]).dictionary_encode(), pa.array(["a"]).dictionary_encode()])
    assert column("x", parts).values.tolist() == [1, 0]


@given(st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1, max_size=30), st.randoms())
def test_codes_do_not_depend_on_row_order(values, random):
    order = list(range(len(values)))
    random.shuffle(order)
    codes, levels = factorise(pa.array(values, pa.large_string()))
    again, same = factorise(pa.array([values[i] for i in order], pa.large_string()))
    assert levels == same == sorted({v for v in values if v is not None})
    assert again.tolist() == codes[order].tolist()
    assert [None if c < 0 else levels[c] for c in codes] == values


def test_columns_are_converted_once_and_named():
    made = Predictions(Y, P, columns={"x": P, 3: Y})
    assert list(made.columns) == ["x", "3"]
    assert made.columns["x"] is made.columns["x"]
    assert isinstance(made.columns.find("3"), Column)
    assert "z" not in made.columns


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_no_logit(value: float) -> None:
    with pytest.raises(MiscalError, match="must not be missing or infinite; row 1") as said:
        Predictions([0, 1], [0.2, value])
    assert "logit" not in str(said.value)
