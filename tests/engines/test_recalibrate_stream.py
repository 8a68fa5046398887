"""Recalibrators fitted in parts: histogram binning has the bits of memory, the others are within the sketch's error."""

from __future__ import annotations

import numpy as np
import pytest

from miscal.data.errors import MiscalError
from miscal.recalibrate import (
    BetaCalibration,
    HistogramBinning,
    IsotonicCalibration,
    PlattScaling,
    ScalingBinning,
    VariableTree,
)
from miscal.recalibrate.carried import fit_to
from tests.engines import tables


@pytest.fixture(scope="module")
def made():
    return tables.table(40_000)


@pytest.fixture(scope="module")
def path(made, tmp_path_factory):
    return tables.write(made, tmp_path_factory.mktemp("fit") / "t.parquet", 6000)


@pytest.mark.parametrize("options", [{"bins": 7}, {"bins": 12, "strategy": "quantile"}, {"bins": [0.0, 0.1, 0.5, 1.0]}])
@pytest.mark.parametrize("weight", [None, "whole_weight"])
def test_histogram_binning_has_the_bits_of_memory(made, path, options, weight):
    weights = None if weight is None else made[weight]
    memory = HistogramBinning(**options).fit(made["p"], made["y"], sample_weight=weights)
    found = fit_to(HistogramBinning(**options), path, outcome="y", probability="p", weight=weight)
    assert found.to_json() == memory.to_json()


@pytest.mark.parametrize(
    ("kind", "within"),
    [(IsotonicCalibration, 5e-3), (PlattScaling, 1e-4), (BetaCalibration, 5e-4), (ScalingBinning, 2e-3)],
)
def test_other_maps_are_close_to_those_of_memory(made, path, kind, within):
    memory = kind().fit(made["p"], made["y"])
    found = fit_to(kind(), path, outcome="y", probability="p")
    grid = np.quantile(made["p"].to_numpy(), np.linspace(0.02, 0.98, 200))
    off = np.abs(found.predict_proba(grid) - memory.predict_proba(grid))[:, 1]
    assert np.mean(off) < within
    assert found.n_rows_ == memory.n_rows_
    assert type(found).from_json(found.to_json()).predict_proba(grid).tolist() == found.predict_proba(grid).tolist()


def test_a_recalibrator_that_needs_columns_is_refused(path):
    with pytest.raises(MiscalError, match="VariableTree cannot be fitted in parts"):
        fit_to(VariableTree(), path, outcome="y", probability="p")
