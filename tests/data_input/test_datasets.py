"""Bundled flights and generators: what they promise, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import miscal.datasets as datasets
from miscal.data.errors import MiscalError
from studies import simulated
from studies.constructions import nested_subpopulations, one_sided
from studies.wave import local_wave, local_wave_error

PLACES = ["field", "variable", "pair", "subpopulation", "neighbourhood"]


@pytest.fixture(scope="module")
def table():
    return datasets.flights()


def test_flights_file_is_small():
    assert (files("miscal.datasets") / "flights.parquet").stat().st_size <= 3_000_000


def test_flights_are_the_second_half_of_the_year(table):
    assert (table.num_rows, table.num_columns) == (166_668, 22)
    assert sorted(set(table["month"].to_pylist())) == [7, 8, 9, 10, 11, 12]
    dates = table["date"].to_pylist()
    assert dates == sorted(dates)
    assert all(d.year == 2013 for d in dates)
    assert [d.month for d in dates] == table["month"].to_pylist()
    assert [d.strftime("%A") for d in dates[::997]] == table["weekday"].to_pylist()[::997]


def test_flights_hold_nothing_that_happened_after_departure(table):
    assert not {"dep_delay", "arr_delay", "dep_time", "arr_time", "air_time"} & set(table.column_names)


def test_flights_probabilities_are_dyadic_and_miscalibrated_by_season(table):
    p = table["probability"].to_numpy()
    y = table["late"].to_numpy().astype(float)
    assert 0 < p.min() < p.max() < 1
    assert np.array_equal(p * 2**20, np.round(p * 2**20))
    assert set(np.unique(y)) == {0.0, 1.0}
    month = table["month"].to_numpy()
    gap = {m: (p - y)[month == m].mean() for m in range(7, 13)}
    assert gap[9] > 0.05 > 0 > -0.05 > gap[12]
    assert round(float(y.mean()), 4) == 0.2257
    assert round(float(p.mean()), 4) == 0.2506


def test_flights_docstring_tells_the_truth_about_the_columns(table):
    text = datasets.flights.__doc__
    for name in table.column_names:
        assert name in text
    for name, claim in (("destination", "103 levels"), ("carrier", "16 levels"), ("tail_number", "3,823 levels")):
        assert claim in text
        assert len(table[name].unique()) == int(claim.split()[0].replace(",", ""))
    shares = {name: round(100 * table[name].null_count / table.num_rows) for name in table.column_names}
    assert (shares["pressure"], shares["plane_year"], shares["manufacturer"], shares["seats"]) == (11, 16, 14, 14)


def test_flights_predictions_carry_every_column(table):
    predictions = datasets.flights_predictions()
    assert predictions.rows == table.num_rows
    assert set(predictions.columns) == set(table.column_names) - {"late", "probability"}
    assert np.array_equal(predictions.probability, table["probability"].to_numpy())
    assert np.array_equal(predictions.outcome, table["late"].to_numpy())


def test_flights_are_those_of_the_package(table):
    """Rows, outcome and columns come again from the source; only the model's probabilities are taken as shipped."""
    from scripts import build_flights as script

    joined = script.join(*script.read_package())
    rows = joined[joined["arr_delay"].notna() & joined["month"].ge(7)]
    rows = rows.assign(late=(rows["arr_delay"] > 15).astype(int), probability=0.0)
    rows = rows.sort_values(["date", "sched_dep_time", "carrier", "flight"], kind="stable")
    again = script.table(rows)
    assert again.column_names == table.column_names
    for name in table.column_names:
        if name != "probability":
            assert again[name].equals(table[name]), name


def test_importing_the_package_is_light():
    code = "import sys, miscal.datasets; print(sorted({'pyarrow','scipy','pandas','sklearn'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_found_and_unknown_ones_are_not():
    for name in datasets.__all__:
        assert callable(getattr(datasets, name))
    assert set(dir(datasets)) >= set(datasets.__all__)
    with pytest.raises(AttributeError, match="weather"):
        datasets.weather  # noqa: B018


def sigmas(data, rows=None):
    """Distance of Σ(y - truth) from 0 in standard deviations."""
    rows = slice(None) if rows is None else rows
    q = data.truth[rows]
    return (data.y_true[rows] - q).sum() / np.sqrt((q * (1 - q)).sum())


GENERATORS = {
    "wide": lambda n, s: datasets.calibrated(n, random_state=s),
    "rare": lambda n, s: datasets.calibrated(n, rate=0.01, random_state=s),
    "very rare": lambda n, s: datasets.calibrated(n, rate=0.001, random_state=s),
    "tenths": lambda n, s: datasets.calibrated(n, step=0.1, random_state=s),
    "hundredths": lambda n, s: datasets.calibrated(n, step=0.01, random_state=s),
    "weighted": lambda n, s: simulated.weighted(n, random_state=s),
    "clustered": lambda n, s: simulated.clustered(n, random_state=s),
    "distorted": lambda n, s: simulated.distorted(n, slope=0.6, intercept=0.4, random_state=s),
    "wave": lambda n, s: local_wave(n, random_state=s),
    **{place: (lambda n, s, place=place: datasets.planted(n, place=place, random_state=s)) for place in PLACES},
}


@pytest.mark.parametrize("name", GENERATORS)
def test_outcomes_are_drawn_from_the_truth(name):
    data = GENERATORS[name](50_000, 5)
    limit = 4.5 if name != "clustered" else 4.5 * np.sqrt(5)
    assert abs(sigmas(data)) < limit
    for low in (0.0, 0.2, 0.5):
        rows = (data.truth > low) & (data.truth <= low + 0.3)
        if rows.any():
            assert abs(sigmas(data, rows)) < limit
    assert len(data.y_true) == len(data.y_prob) == len(data.truth) == len(data.planted) == 50_000
    assert all(len(values) == 50_000 for values in data.columns.values())


@pytest.mark.parametrize("name", GENERATORS)
def test_the_seed_decides_everything(name):
    first, again, other = GENERATORS[name](500, 7), GENERATORS[name](500, 7), GENERATORS[name](500, 8)
    assert np.array_equal(first.y_true, again.y_true)
    assert np.array_equal(first.y_prob, again.y_prob)
    assert all(np.array_equal(first.columns[c], again.columns[c]) for c in first.columns)
    assert not np.array_equal(first.columns[next(iter(first.columns))], other.columns[next(iter(other.columns))])


@pytest.mark.parametrize("name", ["wide", "rare", "very rare", "tenths", "hundredths", "weighted", "clustered"])
def test_calibrated_means_predicted_is_the_truth(name):
    data = GENERATORS[name](1000, 0)
    assert np.array_equal(data.y_prob, data.truth)
    assert data.gap == 0
    assert data.where == "nowhere"
    assert not data.planted.any()


@pytest.mark.parametrize("rate", [0.01, 0.001])
def test_rare_events_have_their_rate(rate):
    p = datasets.calibrated(200_000, rate=rate).y_prob
    assert abs(p.mean() - rate) < 5 * rate / np.sqrt(200_000)  # Beta(1, b): the standard deviation is below the mean


@pytest.mark.parametrize("step", [0.1, 0.01, 0.25])
def test_steps_tie_the_scores_on_their_grid(step):
    p = datasets.calibrated(5000, step=step).y_prob
    parts = round(1 / step)
    assert set(np.unique(p)) <= set(np.arange(parts + 1) / parts)


@pytest.mark.parametrize("concentration", ["flat", "skewed", (2.0, 3.0, 0.5)])
def test_classes_are_drawn_from_their_probabilities(concentration):
    data = datasets.calibrated_classes(50_000, n_classes=3, concentration=concentration, random_state=2)
    assert np.abs(data.y_prob.sum(axis=1) - 1).max() < 1e-12
    for k in range(3):
        p = data.y_prob[:, k]
        for rows in (p < 0.3, p >= 0.3):
            z = ((data.y_true == k) - p)[rows].sum() / np.sqrt((p * (1 - p))[rows].sum())
            assert abs(z) < 4.5
    alpha = {"flat": (1, 1, 1), "skewed": (10, 1, 1)}.get(concentration, concentration)
    assert np.abs(data.y_prob.mean(axis=0) - np.array(alpha) / sum(alpha)).max() < 0.01


@settings(max_examples=40, deadline=None)
@given(
    place=st.sampled_from(PLACES),
    gap=st.floats(-0.5, 0.25),
    balanced=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_planted_gap_is_exactly_the_one_asked_for(place, gap, balanced, seed):
    data = datasets.planted(2000, place=place, gap=gap, balanced=balanced, random_state=seed)
    difference = data.y_prob - data.truth
    rows = data.planted
    assert 0 < rows.sum() < len(rows)
    assert abs(difference[rows].mean() - gap) < 1e-9
    assert abs(data.gap - gap) < 1e-9
    assert ((data.truth >= 0) & (data.truth <= 1)).all()
    if balanced:
        assert abs(difference.mean()) < 1e-9
    else:
        assert not difference[~rows].any()


def test_planted_places_are_where_the_words_say():
    made = {place: datasets.planted(100_000, place=place) for place in PLACES}
    c = made["field"].columns
    assert np.array_equal(made["field"].planted, c["region"] == "South")
    c = made["variable"].columns
    assert np.array_equal(made["variable"].planted, (c["age"] >= 50) & (c["age"] < 60))
    c = made["pair"].columns
    assert np.array_equal(made["pair"].planted, (c["region"] == "East") & (c["product"] == "plus"))
    c = made["subpopulation"].columns
    assert np.array_equal(made["subpopulation"].planted, (c["age"] >= 54) & c["member"] & (c["income"] < 30_000))
    c = made["neighbourhood"].columns
    assert np.array_equal(made["neighbourhood"].planted, np.hypot(c["x"] - 0.7, c["y"] - 0.3) <= 0.2)
    shares = [round(100 * float(made[place].planted.mean())) for place in PLACES]
    assert shares == [16, 14, 5, 13, 13]  # as the docstring says


def test_planted_place_cannot_be_told_from_the_score():
    data = datasets.planted(100_000, place="field")
    p, rows = data.y_prob, data.planted
    spread = p.std() * np.sqrt(1 / rows.sum() + 1 / (~rows).sum())
    assert abs(p[rows].mean() - p[~rows].mean()) < 4.5 * spread


def test_distorted_has_its_slope_and_intercept():
    data = simulated.distorted(1000, slope=0.6, intercept=-0.3)
    logit = lambda p: np.log(p) - np.log1p(-p)
    keep = (data.y_prob > 1e-6) & (data.y_prob < 1 - 1e-6)
    assert np.abs(logit(data.truth[keep]) - (-0.3 + 0.6 * logit(data.y_prob[keep]))).max() < 1e-8
    assert data.gap == pytest.approx((data.y_prob - data.truth).mean())


def test_clusters_share_an_effect_and_are_calibrated():
    data = simulated.clustered(50_000, correlation=0.6, random_state=1)
    residual = (data.y_true - data.truth) / np.sqrt(data.truth * (1 - data.truth))
    by_patient = residual.reshape(-1, 5)
    pairs = np.mean([np.mean(by_patient[:, i] * by_patient[:, j]) for i in range(5) for j in range(i)])
    assert 0.25 < pairs < 0.6  # independent rows would give 0 ± .005
    assert np.array_equal(np.bincount(data.cluster), np.full(10_000, 5))
    assert np.array_equal(data.columns["age"].reshape(-1, 5).std(axis=1), np.zeros(10_000))
    assert set(data.columns["visit"]) == {1, 2, 3, 4, 5}
    free = simulated.clustered(50_000, correlation=0.0, random_state=1)
    assert abs(sigmas(free)) < 4.5


def test_last_cluster_may_be_short():
    assert np.bincount(simulated.clustered(12).cluster).tolist() == [5, 5, 2]


def test_weights_cost_rows_as_the_formula_says():
    w = simulated.weighted(200_000, spread=0.7).weight
    assert (w > 0).all()
    assert w.sum() ** 2 / (w**2).sum() / len(w) == pytest.approx(np.exp(-0.49), rel=0.05)


def test_records_are_frozen_and_turn_into_predictions():
    data = simulated.clustered(100)
    with pytest.raises(AttributeError):
        data.gap = 1.0
    predictions = data.predictions()
    assert predictions.rows == 100
    assert predictions.cluster is not None
    assert np.array_equal(simulated.weighted(50).predictions().weight, simulated.weighted(50).weight)
    construction = nested_subpopulations(5)
    assert construction.predictions().rows == 30
    assert "multicalibration_error" in repr(construction)


STUDIED = {"local_wave": local_wave, "local_wave_error": local_wave_error, "one_sided": one_sided} | {
    name: getattr(simulated, name) for name in ("clustered", "weighted", "distorted")
}
BAD = [
    ("calibrated", dict(n=0), "'n'"),
    ("calibrated", dict(n=2.5), "'n'"),
    ("calibrated", dict(n=True), "'n'"),
    ("calibrated", dict(rate=0.0), "'rate'"),
    ("calibrated", dict(rate=1.0), "'rate'"),
    ("calibrated", dict(rate=float("nan")), "'rate'"),
    ("calibrated", dict(step=0.3), "'step'"),
    ("calibrated", dict(step=0.0), "'step'"),
    ("calibrated", dict(step=-0.1), "'step'"),
    ("calibrated", dict(shape=(1.0,)), "'shape'"),
    ("calibrated", dict(shape=(1.0, -1.0)), "'shape'"),
    ("calibrated", dict(shape="ab"), "'shape'"),
    ("calibrated", dict(random_state=-1), "'random_state'"),
    ("calibrated", dict(random_state="seed"), "'random_state'"),
    ("calibrated_classes", dict(n_classes=1), "'n_classes'"),
    ("calibrated_classes", dict(concentration="steep"), "'concentration'"),
    ("calibrated_classes", dict(concentration=(1.0, 1.0)), "'concentration'"),
    ("calibrated_classes", dict(concentration=(1.0, 1.0, 0.0)), "'concentration'"),
    ("calibrated_classes", dict(concentration=3), "'concentration'"),
    ("clustered", dict(rows_each=0), "'rows_each'"),
    ("clustered", dict(correlation=1.5), "'correlation'"),
    ("weighted", dict(spread=-1.0), "'spread'"),
    ("planted", dict(place="feild"), "did you mean 'field'"),
    ("planted", dict(place=None), "'place'"),
    ("planted", dict(place=[1]), "'place'"),
    ("planted", dict(gap=0.9), "'gap'"),
    ("planted", dict(gap=-0.9), "'gap'"),
    ("planted", dict(gap="much"), "'gap'"),
    ("planted", dict(n=1, place="pair"), "'n'"),
    ("planted", dict(n=1, random_state=1, balanced=True), "'n'"),
    ("distorted", dict(slope=float("inf")), "'slope'"),
    ("distorted", dict(intercept=None), "'intercept'"),
    ("local_wave", dict(dimensions=0), "'dimensions'"),
    ("local_wave", dict(amplitude=0.3), "'amplitude'"),
    ("local_wave_error", dict(points=[[1.5]], bandwidth=0.1), "'points'"),
    ("local_wave_error", dict(points=[["a"]], bandwidth=0.1), "'points'"),
    ("local_wave_error", dict(points=[[np.nan]], bandwidth=0.1), "'points'"),
    ("local_wave_error", dict(points=[[0.5]], bandwidth=0.0), "'bandwidth'"),
    ("local_wave_error", dict(points=[[0.5]], bandwidth=0.1, cycles=-1), "'cycles'"),
    ("one_sided", dict(repeats=8), "'repeats'"),
]


@pytest.mark.parametrize(("name", "arguments", "words"), BAD)
def test_bad_parameters_are_refused_by_name(name, arguments, words):
    with pytest.raises(MiscalError, match=words):
        (STUDIED.get(name) or getattr(datasets, name))(**arguments)
