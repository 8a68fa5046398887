"""by_neighbourhood: its statistic against the definition, its noise, its words, its refusals."""

from __future__ import annotations

import numpy as np
import pytest

import miscal
from miscal import MiscalError, Predictions, by_neighbourhood, datasets
from miscal.metrics import maximum_local_calibration_error


def drawn(n: int, seed: int, gap: float = 0.0) -> tuple[Predictions, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    p = rng.uniform(0.1, 0.9, n)
    truth = p - gap * ((x > 0.3).all(axis=1))
    y = rng.random(n) < truth
    columns = {"a": x[:, 0], "b": x[:, 1], "kind": rng.choice(["u", "v", "w"], n)}
    return Predictions(y, p, columns=columns), x


def naive_z(p: Predictions, features: np.ndarray, bandwidth: float, bins: int = 15) -> tuple[np.ndarray, np.ndarray]:
    """The definition, pair by pair; also the information."""
    score, y = p.probability, p.outcome
    cell = np.ceil(score * bins)
    w = np.ones(len(score)) if p.weight is None else p.weight / p.weight.mean()
    z, information = [], []
    for i in range(len(score)):
        k = np.exp(-np.abs(features - features[i]).sum(axis=1) / (features.shape[1] * bandwidth)) * (cell == cell[i])
        v = score * (1 - score)
        z.append((k * w * (score - y)).sum() / np.sqrt((k**2 * w**2 * v).sum()))
        information.append((k**2 * w**2 * v).sum() ** 2 / (k**4 * w**4 * v).sum())
    return np.array(z), np.array(information)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_statistic_is_the_definition(weighted: bool) -> None:
    p, x = drawn(300, 1, gap=0.3)
    if weighted:
        weight = np.random.default_rng(2).exponential(size=300) + 0.1
        p = Predictions(p.outcome, p.probability, weight=weight, columns=p.columns)
    result = by_neighbourhood(p, x, scale=None, bandwidth=0.6, bins=4, simulations=19, min_information=2.0)
    z, information = naive_z(p, x, 0.6, bins=4)
    judged = information >= 2.0
    assert 0 < judged.sum() < 300
    assert result.settings["tested"] == judged.sum()
    assert result.extra["largest_deviations"] == pytest.approx(np.abs(z[judged]).max(), rel=1e-10)
    expected = maximum_local_calibration_error(
        p.outcome, p.probability, x, bandwidth=0.6, bins=4, target="positive", sample_weight=p.weight
    )
    assert result.value == pytest.approx(expected, rel=1e-12)
    worst = result.table.take(slice(0, 1)).to_dict()
    assert worst["deviations"][0] == pytest.approx(z[worst["centre"][0]], rel=1e-10)
    assert worst["gap"][0] / worst["standard_error"][0] == pytest.approx(worst["deviations"][0], rel=1e-10)


def test_simulated_maxima_have_the_law_of_the_naive_ones() -> None:
    p, x = drawn(120, 3)
    result = by_neighbourhood(p, x, scale=None, bandwidth=0.4, bins=3, simulations=999, min_information=1.0)
    _, information = naive_z(p, x, 0.4, bins=3)
    rng = np.random.default_rng(0)
    maxima, plain = [], []
    for _ in range(200):
        redrawn = Predictions(rng.random(120) < p.probability, p.probability, columns=p.columns)
        z, _ = naive_z(redrawn, x, 0.4, bins=3)
        maxima.append(np.abs(z[information >= 1.0]).max())
        plain.append(
            maximum_local_calibration_error(redrawn.outcome, p.probability, x, bandwidth=0.4, bins=3, target="positive")
        )
    # Means of 200 and of at least 199 draws: within 4 standard errors of each other.
    for ours, theirs in ((result.extra["null_mean"], maxima), (result.noise_floor, plain)):
        assert abs(ours - np.mean(theirs)) < 4 * np.std(theirs) * np.sqrt(2 / 199)


def test_the_planted_neighbourhood_is_found_and_named() -> None:
    p, _ = drawn(2500, 4, gap=0.35)
    result = by_neighbourhood(p, ["a", "b", "kind"], bandwidth=0.4, bins=5, simulations=199)
    assert result.p_value == pytest.approx(1 / 200)
    label = str(result.table["label"][0])
    assert "high a" in label
    assert "high b" in label
    assert result.table["gap"][0] > 0.15
    assert result.table["specific"][0]
    assert "significant (p" in result.sentence()
    assert "high a" in result.sentence()


def test_listed_neighbourhoods_share_no_rows() -> None:
    p, x = drawn(800, 5)
    result = by_neighbourhood(p, x, scale=None, bandwidth=0.5, bins=2, simulations=19)
    assert result.table.rows >= 3
    taken = np.zeros(800, int)
    cell = np.ceil(p.probability * 2)
    for centre in result.table["centre"]:
        k = np.exp(-np.abs(x - x[centre]).sum(axis=1) / (2 * 0.5)) * (cell == cell[centre])
        nearest = np.argsort(-k)
        taken[nearest[: int((np.cumsum(k[nearest]) < 0.5 * k.sum()).sum()) + 1]] += 1
    assert taken.max() == 1
    assert taken.sum() == result.table["rows"].sum()


def test_beyond_3000_rows_random_centres_are_tested() -> None:
    p, _ = drawn(4000, 6)
    result = by_neighbourhood(p, ["a", "b"], bandwidth=0.5, simulations=50)
    assert result.settings["tested"] == 2000
    assert "noisiest" in result.method


def test_categories_are_one_deviation_apart_and_missing_is_a_level() -> None:
    rng = np.random.default_rng(0)
    kind = np.array(["u", "v", "w", None] * 100, dtype=object)
    number = rng.normal(size=400)
    number[::7] = np.nan
    p = Predictions(rng.random(400) < 0.5, np.full(400, 0.5), columns={"kind": kind, "number": number})
    result = by_neighbourhood(p, None, simulations=9)
    features = result.extra["map"].features
    d = features.shape[1]
    rows = [i for i in range(400) if np.isfinite(number[i])][:8]
    for i in rows:
        for j in rows:
            ours = np.abs(features[i] - features[j]).sum() / d
            spread = np.nanstd(np.where(np.isnan(number), np.nanmean(number), number))
            apart = abs(number[i] - number[j]) / spread + (kind[i] != kind[j])
            assert ours == pytest.approx(apart / 2, abs=1e-12)
    there, gone = 1, 0
    assert kind[there] != kind[gone]
    assert np.isnan(number[gone])


def test_reductions_are_stated() -> None:
    p, _ = drawn(150, 7)
    result = by_neighbourhood(p, ["a", "b", "kind"], reduce="pca", dimensions=2, simulations=19)
    assert result.settings["dimensions"] == 2
    assert "principal" in result.settings["features"]
    again = by_neighbourhood(p, ["a", "b", "kind"], reduce="pca", dimensions=2, simulations=19)
    assert again.value == result.value


def test_principal_components_keep_distances_when_all_are_kept() -> None:
    from miscal.metrics.neighbourhood_places import components

    x = np.random.default_rng(0).normal(size=(50, 4))
    centre, directions, share = components(x, 4, None)
    made = (x - centre) @ directions
    assert share == pytest.approx(1.0)
    assert np.linalg.norm(made[:, None] - made[None], axis=2) == pytest.approx(
        np.linalg.norm(x[:, None] - x[None], axis=2), abs=1e-10
    )
    assert np.abs(np.corrcoef(made.T) - np.eye(4)).max() < 1e-10


@pytest.mark.parametrize("kernel", ["gaussian", "group", "callable"])
def test_other_kernels(kernel: str) -> None:
    p, x = drawn(300, 8)

    def tent(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1.0 - np.abs(a[:, None] - b[None]).max(axis=2))

    given = tent if kernel == "callable" else kernel
    columns = "kind" if kernel == "group" else x
    result = by_neighbourhood(p, columns, kernel=given, bandwidth=0.5, simulations=19, min_information=1.0)
    assert 0 < result.p_value <= 1
    cell = np.ceil(p.probability * 15)
    centre = int(result.table["centre"][0])
    if kernel == "group":
        levels = p.columns["kind"].values
        k = (levels == levels[centre]).astype(float)
    elif kernel == "gaussian":
        scaled = result.extra["map"].features
        k = np.exp(-((scaled - scaled[centre]) ** 2).sum(axis=1) / (2 * 2 * 0.5**2))
    else:
        scaled = result.extra["map"].features
        k = tent(scaled[centre : centre + 1], scaled)[0]
    k *= cell == cell[centre]
    score = p.probability
    z = (k * (score - p.outcome)).sum() / np.sqrt((k**2 * score * (1 - score)).sum())
    assert result.table["deviations"][0] == pytest.approx(z, rel=1e-9)


def test_counts_stand_for_rows() -> None:
    p, x = drawn(200, 9)
    twice = Predictions(
        p.outcome.astype(int) * 2, p.probability, count=np.full(200, 2), columns={"a": x[:, 0], "b": x[:, 1]}
    )
    doubled = Predictions(
        np.repeat(p.outcome, 2), np.repeat(p.probability, 2),
        columns={"a": np.repeat(x[:, 0], 2), "b": np.repeat(x[:, 1], 2)},
    )  # fmt: skip
    ours = by_neighbourhood(twice, ["a", "b"], simulations=199, bandwidth=0.5, bins=3)
    theirs = by_neighbourhood(doubled, ["a", "b"], simulations=199, bandwidth=0.5, bins=3)
    assert ours.value == pytest.approx(theirs.value, rel=1e-10)
    assert ours.settings["tested"] > 0
    assert ours.extra["largest_deviations"] == pytest.approx(theirs.extra["largest_deviations"], rel=1e-10)
    assert ours.noise_floor == pytest.approx(theirs.noise_floor, rel=0.1)


def test_clusters_are_flipped_together() -> None:
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(60), 10)
    x = np.repeat(rng.normal(size=(60, 2)), 10, axis=0) + 0.05 * rng.normal(size=(600, 2))
    y = np.repeat(rng.random(60) < 0.5, 10)
    alone = by_neighbourhood(Predictions(y, np.full(600, 0.5)), x, simulations=199, bins=1)
    together = by_neighbourhood(Predictions(y, np.full(600, 0.5), cluster=cluster), x, simulations=199, bins=1)
    assert alone.p_value == pytest.approx(1 / 200)
    assert together.p_value > 0.05
    assert together.settings["null"] == "residual"


def test_too_small_to_judge_is_said() -> None:
    p, x = drawn(20, 10)
    result = by_neighbourhood(p, x, bandwidth=1e-3, simulations=19)
    assert np.isnan(result.p_value)
    assert result.table.rows == 0
    assert "too small to test" in result.method
    assert "too small to judge" in repr(result)
    assert result.value == pytest.approx(np.abs(p.probability - p.outcome).max())


def test_spec_runs_it_and_results_travel() -> None:
    p, _ = drawn(150, 11)
    (ran,) = miscal.measure(p, miscal.Neighbourhood(["a", "b"], simulations=19))
    assert ran.value == by_neighbourhood(p, ["a", "b"], simulations=19).value
    assert ran.kind == "neighbourhood"
    assert "map" not in ran.to_dict()["extra"]


@pytest.mark.parametrize(
    "options",
    [
        {"bandwidth": 0.0},
        {"bandwidth": [0.1, 0.2]},
        {"reduce": "umap"},
        {"scale": "robust"},
        {"dimensions": 2},
        {"reduce": "pca", "dimensions": 0},
        {"reduce": "tsne"},
        {"kernel": "tent"},
        {"simulations": 0},
        {"min_information": -1.0},
        {"columns": "c"},
        {"columns": []},
        {"columns": np.zeros((3, 2))},
        {"columns": np.full((50, 2), np.nan)},
        {"null": "permutation"},
        {"device": "tpu"},
    ],
)
def test_refusals(options: dict[str, object]) -> None:
    p, _ = drawn(50, 12)
    columns = options.pop("columns", ["a", "b"])
    with pytest.raises(MiscalError):
        by_neighbourhood(p, columns, **options)


@pytest.mark.slow
def test_false_alarms_on_calibrated_data() -> None:
    """100 calibrated data sets: at most 13 alarms at 5% (99.9% point of the binomial)."""
    alarms = 0
    for seed in range(100):
        data = datasets.calibrated(400, random_state=seed)
        rng = np.random.default_rng(seed)
        p = Predictions(data.y_true, data.y_prob)
        result = by_neighbourhood(p, rng.normal(size=(400, 2)), bandwidth=0.4, simulations=199, random_state=seed)
        alarms += result.p_value <= 0.05
    assert alarms <= 13
