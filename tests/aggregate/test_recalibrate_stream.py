"""Recalibrators fitted in parts: exact where the rows fit the ceiling, else within the error of a fine grid."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from miscal.cli import main
from miscal.data.errors import MiscalError
from miscal.recalibrate import (
    BetaCalibration,
    GroupWise,
    HistogramBinning,
    IsotonicCalibration,
    PlattScaling,
    ScalingBinning,
    VariableTree,
)
from miscal.recalibrate.out_of_core import fit_to
from tests.aggregate import tables


@pytest.fixture(scope="module")
def made():
    return tables.table(40_000)


@pytest.fixture(scope="module")
def path(made, tmp_path_factory):
    return tables.write(made, tmp_path_factory.mktemp("fit") / "t.parquet", 6000)


@pytest.fixture
def few_rows(monkeypatch):
    """A ceiling under which the rows do not fit."""
    monkeypatch.setattr("miscal.recalibrate.out_of_core.rows_that_fit", lambda *_: 10_000)


def weights(made, weight):
    return None if weight is None else made[weight]


@pytest.mark.parametrize("options", [{"bins": 7}, {"bins": 12, "strategy": "quantile"}, {"bins": [0.0, 0.1, 0.5, 1.0]}])
@pytest.mark.parametrize("weight", [None, "whole_weight"])
def test_histogram_binning_has_the_bits_of_memory(made, path, options, weight):
    memory = HistogramBinning(**options).fit(made["p"], made["y"], sample_weight=weights(made, weight))
    found = fit_to(HistogramBinning(**options), path, outcome="y", probability="p", weight=weight)
    assert found.to_json() == memory.to_json()
    assert found.fitted_from_ == {"how": "all rows"}


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("options", [{"bins": 7}, {"bins": [0.0, 0.1, 0.5, 1.0]}])
def test_beyond_the_ceiling_bins_have_the_rates_of_all_rows(made, path, options):
    memory = HistogramBinning(**options).fit(made["p"], made["y"])
    found = fit_to(HistogramBinning(**options), path, outcome="y", probability="p")
    assert found.to_json() == memory.to_json()
    assert found.fitted_from_ == {"how": "bins"}


@pytest.mark.parametrize("weight", [None, "whole_weight"])
def test_isotonic_regression_has_the_bits_of_memory(made, path, weight):
    memory = IsotonicCalibration().fit(made["p"], made["y"], sample_weight=weights(made, weight))
    found = fit_to(IsotonicCalibration(), path, outcome="y", probability="p", weight=weight)
    assert found.to_json() == memory.to_json()
    assert found.fitted_from_["how"] == "all rows"


@pytest.mark.parametrize("weight", [None, "whole_weight", "real_weight"])
@pytest.mark.parametrize("kind", [IsotonicCalibration, ScalingBinning, PlattScaling, BetaCalibration])
def test_maps_are_those_of_memory(made, path, kind, weight):
    memory = kind().fit(made["p"], made["y"], sample_weight=weights(made, weight))
    found = fit_to(kind(), path, outcome="y", probability="p", weight=weight)
    grid = np.quantile(made["p"].to_numpy(), np.linspace(0.0, 1.0, 301))
    assert np.max(np.abs(found.predict_proba(grid) - memory.predict_proba(grid))) < 1e-9
    assert found.n_rows_ == memory.n_rows_


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize(
    ("kind", "within"),
    [(IsotonicCalibration, 5e-3), (PlattScaling, 1e-4), (BetaCalibration, 5e-4), (ScalingBinning, 2e-3)],
)
def test_beyond_the_ceiling_maps_are_those_of_the_grid(made, path, kind, within):
    memory = kind().fit(made["p"], made["y"])
    found = fit_to(kind(), path, outcome="y", probability="p")
    assert found.fitted_from_["how"] == "grid"
    grid = np.quantile(made["p"].to_numpy(), np.linspace(0.02, 0.98, 200))
    off = np.abs(found.predict_proba(grid) - memory.predict_proba(grid))[:, 1]
    assert np.mean(off) < within
    assert found.n_rows_ == memory.n_rows_
    assert type(found).from_json(found.to_json()).predict_proba(grid).tolist() == found.predict_proba(grid).tolist()


@pytest.mark.usefixtures("few_rows")
def test_sums_of_an_isotonic_map_keep_the_bound_of_the_grid(made, path):
    memory = IsotonicCalibration().fit(made["p"], made["y"])
    found = fit_to(IsotonicCalibration(), path, outcome="y", probability="p")
    score = np.sort(made["p"].to_numpy())
    off = np.cumsum(found.predict_proba(score)[:, 1] - memory.predict_proba(score)[:, 1])
    assert off.max() - min(off.min(), 0.0) <= 2 * found.fitted_from_["largest_share"] * score.size


@pytest.mark.parametrize("weight", [None, "whole_weight"])
@pytest.mark.parametrize(
    "inner",
    [HistogramBinning(bins=5), HistogramBinning(bins=4, strategy="quantile"), IsotonicCalibration(), PlattScaling()],
    ids=["uniform", "quantile", "isotonic", "platt"],
)
def test_maps_within_groups_are_those_of_memory(made, path, inner, weight):
    if weight is not None and getattr(inner, "strategy", "") == "quantile":
        weight = None  # with weights the edges are weighted quantiles: compared below by predictions alone
    asked = {"columns": ["flag", "state"], "min_rows": 40, "pooling": False}
    memory = GroupWise(inner, **asked).fit(made["p"], made["y"], made.select(["flag", "state"]), weights(made, weight))
    found = fit_to(GroupWise(inner, **asked), path, outcome="y", probability="p", weight=weight)
    assert found.groups_ == memory.groups_ > 20
    one, two = (json.loads(model.to_json()) for model in (found, memory))
    for name in ("names_", "levels_", "keys_", "strength_"):
        assert one["state"][name] == two["state"][name], name
    assert [each.n_rows_ for each in found.maps_] == [each.n_rows_ for each in memory.maps_]
    some = made.slice(0, 5000)
    after = [model.predict_proba(some["p"], some.select(["flag", "state"])) for model in (found, memory)]
    assert np.max(np.abs(after[0] - after[1])) < 1e-9
    assert found.fitted_from_["how"] == "all rows"
    assert found.n_rows_ == memory.n_rows_
    if weight is None and not isinstance(inner, PlattScaling):
        assert found.to_json() == memory.to_json()


def test_pooled_groups_are_fitted_and_carried_as_json(made, path):
    asked = {"columns": ["whole"], "min_rows": 100}
    found = fit_to(GroupWise(PlattScaling(), **asked), path, outcome="y", probability="p")
    memory = GroupWise(PlattScaling(), **asked).fit(made["p"], made["y"], made.select(["whole"]))
    assert found.levels_ == memory.levels_
    assert [one.n_rows_ for one in found.maps_] == [one.n_rows_ for one in memory.maps_]
    again = GroupWise.from_json(found.to_json())
    some = made.slice(0, 500)
    assert np.array_equal(again.predict_proba(some["p"], some), found.predict_proba(some["p"], some))


@pytest.mark.usefixtures("few_rows")
def test_groups_beyond_the_ceiling_are_those_of_a_sample(made, path):
    asked = {"columns": "flag", "pooling": False}
    found = fit_to(GroupWise(PlattScaling(), **asked), path, outcome="y", probability="p")
    assert found.fitted_from_["how"] == "sample"
    assert 9_700 < found.fitted_from_["rows"] < 10_300
    memory = GroupWise(PlattScaling(), **asked).fit(made["p"], made["y"], made.select(["flag"]))
    some = made.slice(0, 2000)
    off = found.predict_proba(some["p"], some) - memory.predict_proba(some["p"], some.select(["flag"]))
    assert np.max(np.abs(off)) < 0.1


def test_threads_and_row_groups_change_no_bit(made, path, tmp_path, monkeypatch):
    first = fit_to(IsotonicCalibration(), path, outcome="y", probability="p").to_json()
    other = tables.write(made, tmp_path / "t.parquet", 1700)
    monkeypatch.setattr("miscal.aggregate.source.thread_count", lambda: 3)
    assert fit_to(IsotonicCalibration(), other, outcome="y", probability="p").to_json() == first


def test_what_cannot_be_fitted_in_parts_is_refused(path):
    with pytest.raises(MiscalError, match="VariableTree cannot be fitted in parts"):
        fit_to(VariableTree(), path, outcome="y", probability="p")
    with pytest.raises(MiscalError, match="VariableTree cannot be fitted in parts"):
        fit_to(GroupWise(VariableTree(), columns="flag"), path, outcome="y", probability="p")
    with pytest.raises(MiscalError, match="'columns' must name the columns"):
        fit_to(GroupWise(PlattScaling()), path, outcome="y", probability="p")
    with pytest.raises(MiscalError, match="has no column 'flags'"):
        fit_to(GroupWise(PlattScaling(), columns="flags"), path, outcome="y", probability="p")
    with pytest.raises(MiscalError, match="has no column 'q'"):
        fit_to(PlattScaling(), path, outcome="y", probability="q")


@pytest.mark.filterwarnings("ignore:.*single class", "always:.*one class")
def test_one_class_alone_leaves_probabilities_as_they_are(made, tmp_path):
    only = tables.write(made.set_column(0, "y", pa.array(np.zeros(made.num_rows, np.int8))), tmp_path / "t.parquet")
    for model in (IsotonicCalibration(), GroupWise(PlattScaling(), columns="flag")):
        with pytest.warns(match="one class"):
            assert fit_to(model, only, outcome="y", probability="p").identity_
        assert (model.n_rows_, model.fitted_from_["how"]) == (made.num_rows, "all rows")
    arguments = ["fit", only, "--method", "beta", "--group", "flag", "--outcome", "y", "--probability", "p"]
    found = CliRunner().invoke(main, [*map(str, arguments), "--out", str(tmp_path / "model.json")])
    assert found.exit_code == 0, found.output
    assert "one class" in found.output


def test_a_model_is_fitted_and_applied_from_the_command_line(made, path, tmp_path):
    roles = ["--outcome", "y", "--probability", "p"]
    model = tmp_path / "model.json"

    def run(*arguments):
        found = CliRunner().invoke(main, [str(argument) for argument in arguments])
        return found.exit_code, found.output

    code, text = run("fit", path, "--method", "isotonic", *roles, "--memory", "500MB", "--out", model)
    assert code == 0, text
    assert "40,000 rows, from all rows" in text
    assert model.read_text() == IsotonicCalibration().fit(made["p"], made["y"]).to_json()
    code, text = run("fit", path, "--method", "histogram", "--bins", 4, "--group", "flag", *roles, "--out", model)
    assert code == 0, text
    code, text = run("apply", model, path, "--probability", "p", "--out", tmp_path / "out.parquet")
    assert code == 0, text
    code, text = run("fit", path, "--method", "platt", "--bins", 4, *roles, "--out", tmp_path / "none.json")
    assert (code, len(text.strip().splitlines())) == (2, 1)
    code, text = run("fit", path, "--method", "platt", "--group", "flags", *roles, "--out", tmp_path / "none.json")
    assert code == 2
    assert "has no column 'flags'" in text
    assert not (tmp_path / "none.json").exists()
