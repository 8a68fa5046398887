"""Recalibration along variables: tables of every library, missing values, unseen levels, leaves of one class."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from miscal.data.errors import MiscalError
from miscal.recalibrate import AugmentedBeta, AugmentedLogistic, BetaCalibration, Recalibrator, VariableTree
from miscal.recalibrate.by_columns.variable_tree import LEAF_PENALTY

KINDS = [VariableTree(max_depth=2), AugmentedLogistic(degree=2), AugmentedBeta()]
EACH = pytest.mark.parametrize("made", KINDS, ids=repr)


def table(size=600, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.05, 0.95, size)
    age = rng.integers(18, 80, size).astype(float)
    state = rng.choice(["NY", "CA", "TX"], size, p=[0.5, 0.3, 0.2])
    tilt = np.where(age > 50, 1.0, -0.5) + np.where(state == "TX", 1.5, 0.0)
    y = (rng.random(size) < 1 / (1 + np.exp(-np.log(p / (1 - p)) - tilt))).astype(int)
    return p, y, {"age": age, "state": state}


@EACH
def test_every_library_gives_the_same_bits(made):
    p, y, X = table()
    expected = made.fit(p, y, X).predict_proba(p, X)
    arrow = pa.table({"age": X["age"], "state": X["state"]})
    for frame in (pd.DataFrame(X), pl.DataFrame(X), arrow, pl.DataFrame(X).lazy()):
        np.testing.assert_array_equal(made.fit(p, y, frame).predict_proba(p, frame), expected)
    categories = pd.DataFrame(X).astype({"state": "category"})
    np.testing.assert_array_equal(made.fit(p, y, categories).predict_proba(p, X), expected)


@EACH
def test_columns_by_name_and_by_position(made):
    p, y, X = table()
    alone = made.fit(p, y, {"age": X["age"]}).predict_proba(p, {"age": X["age"]})
    for columns in ("age", ["age"], 0, [0], [-2], ("age",), np.array([0])):
        chosen = type(made)(**{**made.get_params(deep=False), "columns": columns})
        np.testing.assert_array_equal(chosen.fit(p, y, X).predict_proba(p, X), alone)
    plain = made.fit(p, y, X["age"]).predict_proba(p, X["age"][:, None])
    np.testing.assert_array_equal(plain, alone)
    np.testing.assert_array_equal(made.fit(p, y, pd.Series(X["age"], name="age")).predict_proba(p, X), alone)


@EACH
def test_wrong_tables_are_refused(made):
    p, y, X = table()
    fitted = made.fit(p, y, X)
    short = {name: values[:-1] for name, values in X.items()}
    wrong = [(None, "'X'"), ({"age": X["age"]}, "state"), (short, "rows"), ({**X, "age": X["state"]}, "numeric")]
    for bad, named in wrong:
        with pytest.raises(MiscalError, match=named):
            fitted.predict_proba(p, bad)
    for bad in (None, short, {}, 3, np.zeros((2, 2, 2)), {**X, "age": np.full(600, np.inf)}):
        with pytest.raises(MiscalError):
            made.fit(p, y, bad)
    for columns, named in ((["agee"], "did you mean 'age'"), ([7], "position"), (["age", "age"], "once")):
        chosen = type(made)(**{**made.get_params(deep=False), "columns": columns})
        with pytest.raises(MiscalError, match=named):
            chosen.fit(p, y, X)


@EACH
@pytest.mark.parametrize(
    "values",
    [
        np.full(600, 3.0),
        np.full(600, np.nan),
        [None] * 600,
        ["same"] * 600,
        np.arange(600) % 2 == 0,
        np.where(np.arange(600) < 570, 0.0, 1500.0),
        [datetime.date(2024, 1, 1) + datetime.timedelta(days=i) for i in range(600)],
        np.where(np.arange(600) % 5 == 0, np.nan, 1.0),
        np.where(np.arange(600) % 2 == 0, 1e300, -1e300),
    ],
    ids=["constant", "missing", "none", "one level", "boolean", "mostly zero", "dates", "holes", "huge"],
)
def test_poor_columns(made, values):
    p, y, _ = table()
    fitted = made.fit(p, y, {"v": values})
    out = fitted.predict_proba(p, {"v": values})
    assert np.isfinite(out).all()
    again = Recalibrator.from_json(fitted.to_json())
    np.testing.assert_array_equal(again.predict_proba(p, {"v": values}), out)


@EACH
def test_a_column_that_says_nothing_changes_nothing(made):
    """A constant column leaves what the score alone gives."""
    p, y, _ = table()
    towards = {} if isinstance(made, AugmentedBeta) else {"l2": LEAF_PENALTY, "towards": "identity"}
    alone = BetaCalibration("positive" if towards else "none", **towards).fit(p, y).predict_proba(p)
    out = made.fit(p, y, {"v": np.full(600, 3.0)}).predict_proba(p, {"v": np.full(600, 3.0)})
    if isinstance(made, AugmentedLogistic):
        assert made.coefficients_[0, 1:].tolist() == [0.0, 0.0]
    else:
        np.testing.assert_allclose(out, alone, atol=1e-10)


# ------------------------------------------------------------------------------------------------------------- tree
def test_values_beyond_the_range_go_to_the_end_leaf():
    p, y, X = table()
    made = VariableTree("age").fit(p, y, X)
    low, high = X["age"].min(), X["age"].max()
    for far, end in ((-1e9, low), (1e9, high)):
        np.testing.assert_array_equal(
            made.predict_proba(p, {"age": np.full(600, far)}), made.predict_proba(p, {"age": np.full(600, end)})
        )


def test_missing_numbers_come_after_the_largest():
    p, _, X = table(2000)
    age = np.where(np.arange(2000) % 4 == 0, np.nan, X["age"])
    y = (np.random.default_rng(5).random(2000) < np.where(np.isnan(age), 0.97, 0.2)).astype(int)
    made = VariableTree(leaf=BetaCalibration(), max_depth=1).fit(p, y, {"age": age})
    assert made.cuts_[0, 0] == np.nanmax(age)  # the cut sets the missing apart
    gone = made.predict_proba(p, {"age": np.full(2000, np.nan)})
    alone = BetaCalibration().fit(p[np.isnan(age)], y[np.isnan(age)]).predict_proba(p)
    np.testing.assert_array_equal(gone, alone)
    # A number beyond the range of fit is not taken for a missing one.
    large = made.predict_proba(p, {"age": np.full(2000, 1e6)})
    np.testing.assert_array_equal(large, made.predict_proba(p, {"age": np.full(2000, np.nanmax(age))}))


def test_missing_numbers_where_fit_had_none_go_to_the_end_leaf():
    p, y, X = table()
    made = VariableTree("age").fit(p, y, X)
    np.testing.assert_array_equal(
        made.predict_proba(p, {"age": np.full(600, np.nan)}), made.predict_proba(p, {"age": np.full(600, 1e9)})
    )


def test_levels_missing_and_unseen():
    p, y, X = table(1500)
    state = X["state"].astype(object)
    state[::7] = None
    made = VariableTree(min_leaf=0.05).fit(p, y, {"state": state})
    assert None in made.levels_[0]
    common = made.predict_proba(p, {"state": np.full(1500, "NY")})
    np.testing.assert_array_equal(made.predict_proba(p, {"state": np.full(1500, "ZZ")}), common)
    whole = VariableTree(min_leaf=0.05).fit(p, y, X | {"age": np.zeros(1500)})
    nothing = {"state": [None] * 1500, "age": np.zeros(1500)}
    np.testing.assert_array_equal(
        whole.predict_proba(p, nothing), whole.predict_proba(p, {**nothing, "state": ["NY"] * 1500})
    )


def test_levels_not_seen_go_with_the_commonest_wherever_it_is():
    """The commonest level has the highest rate, so that it is in the last leaf."""
    rng = np.random.default_rng(2)
    state = rng.choice(["NY", "CA"], 1500, p=[0.7, 0.3])
    p = rng.uniform(0.1, 0.9, 1500)
    y = (rng.random(1500) < np.where(state == "NY", 0.9, 0.1)).astype(int)
    made = VariableTree().fit(p, y, {"state": state})
    common, rare = (made.predict_proba(p, {"state": [name] * 1500}) for name in ("NY", "CA"))
    assert (common != rare).any()
    for other in ("ZZ", None):
        np.testing.assert_array_equal(made.predict_proba(p, {"state": [other] * 1500}), common)


def test_levels_are_cut_by_their_rate():
    p, y, X = table(4000)
    made = VariableTree(leaf=BetaCalibration(), max_depth=1).fit(p, y, {"state": X["state"]})
    assert made.levels_[0][-1] == "TX"
    assert made.nodes_[0].tolist() == [0, -1, -1]  # one cut, of the one column
    alone = BetaCalibration().fit(p[X["state"] == "TX"], y[X["state"] == "TX"]).predict_proba(p)
    np.testing.assert_array_equal(made.predict_proba(p, {"state": np.full(4000, "TX")}), alone)


def test_a_leaf_of_one_class_uses_its_parent():
    rng = np.random.default_rng(0)
    v = np.repeat([0.0, 1.0, 2.0], 200)
    p = rng.uniform(0.1, 0.9, 600)
    y = np.where(v == 0, 0, (rng.random(600) < p).astype(int))
    made = VariableTree(leaf=BetaCalibration(), max_depth=1, min_leaf=0.1).fit(p, y, {"v": v})
    assert made.cuts_[0, 0] == 0.5
    np.testing.assert_array_equal(
        made.predict_proba(p, {"v": np.zeros(600)}), BetaCalibration().fit(p, y).predict_proba(p)
    )


def test_the_smallest_leaf():
    p, y, X = table(1000)
    made = VariableTree("age", max_depth=8, min_leaf=120).fit(p, y, X)
    assert min(leaf.n_rows_ for leaf in made.leaves_ if leaf is not None) >= 120
    made = VariableTree("age", max_depth=8, min_leaf=0.2).fit(p, y, X)
    assert min(leaf.n_rows_ for leaf in made.leaves_ if leaf is not None) >= 200


def test_a_leaf_of_the_users_choice_is_copied():
    p, y, X = table()
    leaf = BetaCalibration(l2=2.0)
    made = VariableTree(leaf=leaf).fit(p, y, X)
    assert not leaf.is_fitted()
    assert all(other.l2 == 2.0 for other in made.leaves_ if other is not None)


# -------------------------------------------------------------------------------------------------------- augmented
def test_missing_numbers_take_the_mean_with_an_indicator():
    p, y, X = table(1000)
    age = np.where(np.arange(1000) % 3 == 0, np.nan, X["age"])
    made = AugmentedLogistic().fit(p, y, {"age": age})
    filled = np.where(np.isnan(age), np.nanmean(age), age)
    twin = AugmentedLogistic().fit(p, y, {"age": filled, "gone": np.isnan(age).astype(float)})
    expected = twin.predict_proba(p, {"age": filled, "gone": np.isnan(age).astype(float)})
    np.testing.assert_allclose(made.predict_proba(p, {"age": age}), expected, atol=1e-10)


def test_missing_numbers_where_fit_had_none_take_the_mean():
    p, y, X = table()
    made = AugmentedLogistic("age", degree=2).fit(p, y, X)
    middle = made.predict_proba(p, {"age": np.full(600, X["age"].mean())})
    np.testing.assert_allclose(made.predict_proba(p, {"age": np.full(600, np.nan)}), middle, rtol=1e-13)


def test_levels_not_seen_count_as_the_commonest():
    p, y, X = table()
    made = AugmentedBeta("state").fit(p, y, X)
    common = made.predict_proba(p, {"state": ["NY"] * 600})
    np.testing.assert_array_equal(made.predict_proba(p, {"state": ["ZZ"] * 600}), common)
    np.testing.assert_array_equal(made.predict_proba(p, {"state": [None] * 600}), common)


def test_missing_is_a_level():
    p, y, X = table(1000)
    state = X["state"].astype(object)
    state[::4] = None
    made = AugmentedBeta().fit(p, y, {"state": state})
    named = np.where(np.arange(1000) % 4 == 0, "gone", X["state"])
    twin = AugmentedBeta().fit(p, y, {"state": named}).predict_proba(p, {"state": named})
    np.testing.assert_allclose(made.predict_proba(p, {"state": state}), twin, atol=1e-10)


def test_too_many_levels_are_refused():
    p = np.random.default_rng(0).uniform(0.1, 0.9, 3000)
    with pytest.raises(MiscalError, match="at most 2,000 features"):
        AugmentedBeta().fit(p, np.arange(3000) % 2, {"id": [f"r{i}" for i in range(3000)]})


def test_units_do_not_matter_without_a_penalty():
    p, y, X = table(1000)
    one = AugmentedBeta("age", degree=2).fit(p, y, X).predict_proba(p, X)
    far = {"age": 1e4 + 1e-3 * X["age"]}
    np.testing.assert_allclose(AugmentedBeta(degree=2).fit(p, y, far).predict_proba(p, far), one, atol=1e-6)
