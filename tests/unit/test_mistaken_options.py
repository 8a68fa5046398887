"""Options that cannot be meant are refused in words, by the name they were given under."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import miscal
from miscal import metrics
from miscal.recalibrate import LocalRecalibration

Y, P = [0, 1] * 50, [0.3, 0.6] * 50
SHARES = np.tile([0.2, 0.3, 0.5], (100, 1))
TABLE = miscal.Predictions(Y, P, columns={"state": ["CA", "NY"] * 50, "age": list(range(100))})
NEAR = np.random.default_rng(0).normal(size=(100, 2))


RANGED = {
    "score": lambda given: metrics.expected_calibration_error(Y, P, range=given),
    "classes": lambda given: metrics.classwise_calibration_error(Y, SHARES, range=given),
    "variation": lambda given: metrics.variation_calibration_error(Y, SHARES, range=given),
    "variable": lambda given: metrics.variable_calibration_error(Y, P, NEAR[:, 0], strategy="uniform", range=given),
}


NO_RANGES = [(0.2,), "all", 0.5, (0.1, "x"), (0.9, 0.1), ([0.1, 0.2], 0.9)]


# To the other two None says the range of the values.
@pytest.mark.parametrize(("measured", "given"), [*product(RANGED, NO_RANGES), ("score", None), ("classes", None)])
def test_a_range_has_two_ends(measured, given):
    with pytest.raises(miscal.MiscalError, match="'range' must be"):
        RANGED[measured](given)


def test_the_ends_of_a_range_may_be_an_array():
    for response in ("binary", "real"):
        ends = metrics.expected_calibration_error(Y, P, range=(0.0, 1.0), response=response)
        assert metrics.expected_calibration_error(Y, P, range=np.array([0.0, 1.0]), response=response) == ends


@pytest.mark.parametrize("bins", ["many", 0, -2, 2.5, [0.3, 0.1, 1.0], True])
@pytest.mark.parametrize("column", ["state", "age"])
def test_ranges_of_a_field_are_looked_at_whatever_it_holds(column, bins):
    with pytest.raises(miscal.MiscalError, match="bins"):
        miscal.by_field(TABLE, column, bins=bins)


@pytest.mark.parametrize("least", [-1, 2.5, "x"])
def test_a_least_number_of_rows_is_a_whole_number(least):
    with pytest.raises(miscal.MiscalError, match="min_count"):
        metrics.groupwise_maximum_calibration_error(Y, P, ["a", "b"] * 50, min_count=least)


@pytest.mark.parametrize("seed", [-1, 1.5, "today"])
@pytest.mark.parametrize(
    "asked",
    [
        lambda seed: metrics.multicalibration_error(Y, P, NEAR, subpopulations=5, random_state=seed),
        lambda seed: metrics.variable_calibration_curve(Y, P, NEAR[:, 0], random_state=seed),
        lambda seed: metrics.variable_calibration_curve(Y, P, NEAR[:, 0], band="simultaneous", random_state=seed),
        lambda seed: metrics.rank_variables(Y, P, {"age": NEAR[:, 0]}, random_state=seed),
        lambda seed: metrics.rank_variables(Y, P, {"state": ["CA", "NY"] * 50}, random_state=seed),
        lambda seed: miscal.by_class(TABLE, miscal.Score(bins=[0, 0.5, 1], random_state=seed)),
        lambda seed: miscal.by_class(TABLE, miscal.Score(bins=[0, 0.5, 1], null="residual", random_state=seed)),
    ],
)
def test_a_seed_is_a_whole_number_wherever_it_is_given(asked, seed):
    with pytest.raises(miscal.MiscalError, match="random_state"):
        asked(seed)


@pytest.mark.parametrize("other", [3, "audit.miscal", None])
def test_an_audit_is_compared_with_an_audit(other):
    audit = miscal.audit(TABLE, effort="quick")
    with pytest.raises(miscal.MiscalError, match="must be an Audit"):
        audit.compare(other)


@pytest.mark.parametrize("function", [miscal.audit, miscal.by_score], ids=lambda one: one.__name__)
def test_an_option_that_a_function_lacks_is_its_own(function):
    with pytest.raises(TypeError, match=rf"^{function.__name__}\(\) got an unexpected keyword argument 'colour'$"):
        function({"y": Y, "p": P}, outcome="y", probability="p", colour=1)


def test_several_classes_have_no_positive_one():
    with pytest.raises(miscal.MiscalError, match="needs two classes"):
        LocalRecalibration(target="positive").fit(SHARES, np.arange(100) % 3, NEAR)


@pytest.mark.parametrize("given", ["predictions", "table"])
def test_no_columns_asked_for_are_no_columns_looked_at(given):
    columns = {"age": NEAR[:, 0].round(1)}
    table = miscal.Predictions(Y, P, columns=columns) if given == "predictions" else {"y": Y, "p": P, **columns}
    roles = {} if given == "predictions" else {"outcome": "y", "probability": "p"}
    looked_at, none = (
        miscal.audit(table, by=by, effort="quick", **roles).document["sections"]["variable"] for by in (None, [])
    )
    assert [len(looked_at), len(none)] == [1, 0]
