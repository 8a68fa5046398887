"""Paper 002's repairs against naive twins and their exact limits: LoRe, group-wise recalibration, MMCE."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from miscal import MiscalError, MiscalWarning
from miscal.metrics import (
    local_calibration_error,
    maximum_local_calibration_error,
    mean_kernel_calibration_error,
)
from miscal.recalibrate import (
    GroupWise,
    HistogramBinning,
    KernelCalibration,
    LocalRecalibration,
    PlattScaling,
    Recalibrator,
    TemperatureScaling,
)
from studies.wave import local_wave, local_wave_error


def binary(n: int, seed: int, d: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    p = rng.uniform(0.02, 0.98, n)
    return p, (rng.random(n) < np.clip(p + 0.3 * np.tanh(x[:, 0]), 0, 1)).astype(int), x


def several(n: int, seed: int, classes: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(classes, 0.5), n)
    y = np.array([rng.choice(classes, p=row) for row in p])
    return p, y, rng.normal(size=(n, 3))


def naive_lore(
    score: np.ndarray, happened: np.ndarray, x: np.ndarray, asked: np.ndarray, asked_x: np.ndarray, gamma: float,
    bins: int, weight: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Equation (6), row by row; an empty bin keeps the score."""
    weight = np.ones(len(score)) if weight is None else weight
    cell, out = np.maximum(np.ceil(score * bins), 1), asked.copy()
    for i, value in enumerate(asked):
        inside = cell == max(np.ceil(value * bins), 1)
        if inside.any():
            far = np.abs(x[inside] - asked_x[i]).sum(axis=1)
            k = np.exp(-(far - far.min()) / (x.shape[1] * gamma)) * weight[inside]
            out[i] = (k * happened[inside]).sum() / k.sum()
    return out


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_lore_is_equation_6(d: int, weighted: bool) -> None:
    p, y, x = binary(400, 1, d)
    asked, _, asked_x = binary(60, 2, d)
    weight = np.random.default_rng(3).exponential(size=400) if weighted else None
    made = LocalRecalibration(bandwidth=0.3, bins=7, smooth=0).fit(p, y, x, sample_weight=weight)
    expected = naive_lore(p, y, x, asked, asked_x, 0.3, 7, weight)
    assert made.predict_proba(asked, asked_x)[:, 1] == pytest.approx(expected, abs=1e-12)


def test_several_classes_move_the_confidence_and_spread_the_rest() -> None:
    p, y, x = several(500, 1)
    asked, _, asked_x = several(80, 2)
    out = LocalRecalibration(bandwidth=0.5, bins=5).fit(p, y, x).predict_proba(asked, asked_x)
    right = (p.argmax(axis=1) == y).astype(float)
    confidence = naive_lore(p.max(axis=1), right, x, asked.max(axis=1), asked_x, 0.5, 5)
    for i in range(80):
        top = asked[i].argmax()
        assert out[i, top] == pytest.approx(confidence[i], abs=1e-12)
        rest = np.delete(asked[i], top)
        assert np.delete(out[i], top) == pytest.approx(rest / rest.sum() * (1 - confidence[i]), abs=1e-12)


def test_certainty_shares_the_rest_alike() -> None:
    p = np.array([[1.0, 0.0, 0.0]] * 4)
    made = LocalRecalibration(bandwidth=1e9).fit(p, [0, 0, 0, 1], np.zeros((4, 1)))
    assert made.predict_proba(p[:1], [[0.0]])[0] == pytest.approx([0.75, 0.125, 0.125])


def test_bandwidth_to_infinity_is_histogram_binning() -> None:
    p, y, x = binary(500, 4)
    asked, _, asked_x = binary(200, 5)
    binned = HistogramBinning(bins=15).fit(p, y).predict_proba(asked)
    for bandwidth in (1e30, np.inf):
        ours = LocalRecalibration(bandwidth=bandwidth).fit(p, y, x).predict_proba(asked, asked_x)
        assert (ours == binned).all()


def test_bins_of_equal_support_are_those_of_histogram_binning() -> None:
    p, y, x = binary(500, 4)
    asked, _, asked_x = binary(200, 5)
    weight = np.random.default_rng(6).exponential(size=500)
    options = {"bins": 7, "strategy": "quantile"}
    for weights in (None, weight):
        binned = HistogramBinning(**options).fit(p, y, sample_weight=weights)
        ours = LocalRecalibration(bandwidth=np.inf, **options).fit(p, y, x, sample_weight=weights)
        assert (ours.edges_ == binned.edges_).all()
        found, expected = ours.predict_proba(asked, asked_x), binned.predict_proba(asked)
        assert found == pytest.approx(expected, abs=1e-14)  # sums of uneven weights round by their order
        assert weights is not None or (found == expected).all()
    assert np.bincount(LocalRecalibration(**options).fit(p, y, x).bin_).tolist() == [72, 71, 71, 72, 71, 71, 72]


def test_lore_in_bins_of_equal_support_is_equation_6() -> None:
    p, y, x = binary(300, 1)
    asked, _, asked_x = binary(40, 2)
    fitted = LocalRecalibration(bandwidth=0.3, bins=4, strategy="quantile", smooth=0).fit(p, y, x)
    inner = np.quantile(p, [0.25, 0.5, 0.75])

    def cell(value: float) -> int:
        return sum(value > edge for edge in inner)

    expected = []
    for score, place in zip(asked, asked_x, strict=True):
        inside = np.array([cell(value) == cell(score) for value in p])
        k = np.exp(-np.abs(x[inside] - place).sum(axis=1) / (2 * 0.3))
        expected.append((k * y[inside]).sum() / k.sum())
    assert fitted.predict_proba(asked, asked_x)[:, 1] == pytest.approx(expected, abs=1e-12)
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(asked, asked_x) == fitted.predict_proba(asked, asked_x)).all()
    with pytest.raises(MiscalError, match="strategy"):
        LocalRecalibration(strategy="mass").fit(p, y, x)


def test_a_file_from_before_strategy_holds_bins_of_equal_width() -> None:
    p, y, x = binary(100, 3)
    fitted = LocalRecalibration(bins=4).fit(p, y, x)
    document = json.loads(fitted.to_json())
    del document["params"]["strategy"]
    older = Recalibrator.from_json(json.dumps(document))
    assert older.get_params()["strategy"] == "uniform"
    assert (older.predict_proba(p, x) == fitted.predict_proba(p, x)).all()


def test_bandwidth_to_zero_is_the_nearest_row_of_the_bin() -> None:
    p, y, x = binary(300, 6)
    asked, _, asked_x = binary(100, 7)
    ours = LocalRecalibration(bandwidth=1e-9, bins=5, smooth=0).fit(p, y, x).predict_proba(asked, asked_x)[:, 1]
    for i in range(100):
        inside = np.flatnonzero(np.ceil(p * 5) == np.ceil(asked[i] * 5))
        nearest = inside[np.abs(x[inside] - asked_x[i]).sum(axis=1).argmin()]
        assert ours[i] == y[nearest]


def test_the_group_kernel_is_group_wise_histogram_binning() -> None:
    p, y, _ = binary(900, 8)
    asked, _, _ = binary(200, 9)
    rng = np.random.default_rng(0)
    group, other = rng.choice(list("abc"), 900), rng.choice(list("abc"), 200)
    ours = LocalRecalibration(kernel="group").fit(p, y, {"g": group}).predict_proba(asked, {"g": other})
    wise = GroupWise(HistogramBinning(bins=15), min_rows=1, pooling=False, smooth=0).fit(p, y, {"g": group})
    assert (ours == wise.predict_proba(asked, {"g": other})).all()
    each = np.empty((200, 2))
    for level in "abc":
        fitted = HistogramBinning(bins=15).fit(p[group == level], y[group == level])
        each[other == level] = fitted.predict_proba(asked[other == level])
    assert (ours == each).all()


def test_an_empty_bin_and_an_unseen_group_keep_their_probability() -> None:
    p, y, x = np.array([0.1, 0.12, 0.9, 0.95]), np.array([0, 1, 1, 1]), np.zeros((4, 1))
    made = LocalRecalibration(bins=4).fit(p, y, x)
    assert np.unique(made.bin_).tolist() == [0, 3]  # of four
    assert made.predict_proba([0.4, 0.6, 0.05], np.zeros((3, 1)))[:, 1].tolist() == [0.4, 0.6, 0.5]
    groups = LocalRecalibration(bins=1, kernel="group").fit(p, y, {"g": ["a", "a", "b", None]})
    assert groups.predict_proba([0.3, 0.3, 0.3], {"g": ["c", "a", None]})[:, 1].tolist() == [0.3, 0.5, 0.75]


@pytest.mark.parametrize("kernel", ["laplacian", "group"])
def test_predicting_does_not_change_the_recalibrator(kernel: str) -> None:
    p, y, x = binary(60, 3)
    made = LocalRecalibration(bins=4, kernel=kernel).fit(p, y, np.round(x))
    before = pickle.dumps(made)
    made.predict_proba(p[:7], np.round(x[:7]))
    assert pickle.dumps(made) == before


def test_own_rows_have_no_local_error_left_without_a_kernel_and_less_with_one() -> None:
    p, y, x = binary(2000, 10)
    before = maximum_local_calibration_error(y, p, x, bandwidth=np.inf, target="positive")
    out = LocalRecalibration(bandwidth=0.4).fit(p, y, x).predict_proba(p, x)[:, 1]
    fresh_p, fresh_y, fresh_x = binary(2000, 11)
    repaired = LocalRecalibration(bandwidth=0.4).fit(p, y, x).predict_proba(fresh_p, fresh_x)[:, 1]

    def local(q: np.ndarray) -> float:
        return float(np.abs(local_calibration_error(fresh_y, q, fresh_x, bandwidth=0.4, target="positive")).mean())

    assert before > 0
    assert ((out >= 0) & (out <= 1)).all()
    assert local(repaired) < 0.7 * local(fresh_p)


def test_a_permutation_of_rows_changes_nothing_and_repetition_is_weight() -> None:
    p, y, x = binary(200, 12)
    order = np.random.default_rng(0).permutation(200)
    weight = np.random.default_rng(1).integers(1, 4, 200)
    made = LocalRecalibration(bandwidth=0.5, bins=3)
    plain = clone(made).fit(p, y, x).predict_proba(p, x)
    assert clone(made).fit(p[order], y[order], x[order]).predict_proba(p, x) == pytest.approx(plain, abs=1e-12)
    repeated = clone(made).fit(np.repeat(p, weight), np.repeat(y, weight), np.repeat(x, weight, axis=0))
    weighted = clone(made).fit(p, y, x, sample_weight=weight)
    assert repeated.predict_proba(p, x) == pytest.approx(weighted.predict_proba(p, x), abs=1e-12)


@pytest.mark.parametrize(
    "made",
    [
        LocalRecalibration(bandwidth=0.5, bins=3),
        LocalRecalibration(bandwidth=0.5, bins=3, target="top", scale="standard"),
        LocalRecalibration(bandwidth=0.5, bins=3, reduce="pca", dimensions=2),
        LocalRecalibration(bins=3, kernel="group", columns="kind"),
        LocalRecalibration(bandwidth=0.5, kernel="gaussian"),
        GroupWise(PlattScaling(), columns="kind", min_rows=20),
        GroupWise(PlattScaling(), columns=["kind", "a"], min_rows=500),
        GroupWise(LocalRecalibration(columns=["a"], bandwidth=0.5), columns="kind", min_rows=20, pooling=False),
        KernelCalibration(),
        KernelCalibration(base="platt", weight=2.0),
    ],
)
def test_json_gives_back_the_same_bits(made: Recalibrator) -> None:
    p, y, x = binary(200, 13)
    frame = {"a": x[:, 0], "b": x[:, 1], "kind": np.random.default_rng(0).choice(["u", "v", "w"], 200)}
    frame["a"] = np.where(np.arange(200) % 17 == 0, np.nan, frame["a"])
    fitted = clone(made).fit(p, y, frame)
    again = Recalibrator.from_json(fitted.to_json())
    assert (fitted.predict_proba(p, frame) == again.predict_proba(p, frame)).all()
    assert np.abs(fitted.predict_proba(p, frame).sum(axis=1) - 1).max() < 1e-12


@pytest.mark.parametrize(
    "made",
    [
        LocalRecalibration(bandwidth=0.0),
        LocalRecalibration(bandwidth=[0.1, 0.2]),
        LocalRecalibration(bins=0),
        LocalRecalibration(kernel="tent"),
        LocalRecalibration(reduce="umap"),
        LocalRecalibration(dimensions=2),
        LocalRecalibration(reduce="tsne"),
        LocalRecalibration(reduce="pca", dimensions=0),
        LocalRecalibration(target="middle"),
        LocalRecalibration(scale="robust"),
        LocalRecalibration(device="tpu"),
        LocalRecalibration(columns="c"),
        GroupWise("platt"),
        GroupWise(PlattScaling(), min_rows=0),
        GroupWise(PlattScaling(), handle_unknown="drop"),
        GroupWise(PlattScaling(), pooling=1),
        GroupWise(PlattScaling(), columns="c"),
        KernelCalibration(base="beta"),
        KernelCalibration(weight=-1.0),
    ],
)
def test_refusals(made: Recalibrator) -> None:
    p, y, x = binary(50, 16)
    with pytest.raises(MiscalError):
        made.fit(p, y, {"a": x[:, 0], "b": x[:, 1]})


def test_features_are_needed_and_must_be_the_same() -> None:
    p, y, x = binary(50, 17)
    made = LocalRecalibration().fit(p, y, {"a": x[:, 0]})
    for wrong in (None, {"b": x[:, 0]}, {"a": ["word"] * 50}, {"a": x[:40, 0]}):
        with pytest.raises(MiscalError):
            made.predict_proba(p, wrong)


# ---------------------------------------------------------------------------------------------------- group-wise


def grouped(n: int, seed: int, shifts: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    group = rng.integers(0, len(shifts), n)
    p = rng.uniform(0.1, 0.9, n)
    z = np.log(p / (1 - p)) + np.array(shifts)[group]
    return p, (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int), group


@pytest.mark.parametrize("policy", ["parent", "global", "identity", "error"])
def test_policies_for_small_unseen_and_missing_groups(policy: str) -> None:
    p, y, group = grouped(600, 1, (1.0, -1.0))
    town = np.where(group == 0, "north", "south").astype(object)
    street = np.array([f"{'n' if g == 0 else 's'}{i % 2}" for i, g in enumerate(group)], dtype=object)
    town[:30], street[:30] = None, "n0"  # missing is a level of its own, here a small one
    frame = {"town": town, "street": street}
    made = GroupWise(PlattScaling(), min_rows=50, handle_unknown=policy, pooling=False, smooth=0).fit(p, y, frame)
    asked = {"town": ["north", "north", None, "west"], "street": ["n0", "n9", "n0", "n0"]}
    score = np.full(4, 0.5)
    if policy == "error":
        with pytest.raises(MiscalError, match=r"column 'street'|column 'town'"):
            made.predict_proba(score, asked)
        return
    out = made.predict_proba(score, asked)[:, 1]
    everyone = PlattScaling().fit(p, y).predict_proba([0.5])[0, 1]

    def of(rows: np.ndarray) -> float:
        return float(PlattScaling().fit(p[rows], y[rows]).predict_proba([0.5])[0, 1])

    whole_town = of(town == "north")
    assert out[0] == pytest.approx(of((town == "north") & (street == "n0")))
    assert out[1] == pytest.approx({"parent": whole_town, "global": everyone, "identity": 0.5}[policy])
    assert out[2:] == pytest.approx([0.5 if policy == "identity" else everyone] * 2)


def test_pooling_keeps_groups_together_that_do_not_differ() -> None:
    p, y, group = grouped(4000, 2, (0.4,) * 40)
    made = GroupWise(PlattScaling()).fit(p, y, {"g": group})
    assert made.strength_ >= 1000
    everyone = PlattScaling().fit(p, y)
    far = np.abs(made.predict_proba(p, {"g": group}) - everyone.predict_proba(p))[:, 1]
    alone = GroupWise(PlattScaling(), pooling=False).fit(p, y, {"g": group}).predict_proba(p, {"g": group})
    assert far.mean() < 0.3 * np.abs(alone - everyone.predict_proba(p))[:, 1].mean()


def test_pooling_lets_groups_go_that_do_differ() -> None:
    shifts = tuple(np.random.default_rng(0).normal(0, 1.5, 20))
    p, y, group = grouped(8000, 3, shifts)
    made = GroupWise(PlattScaling()).fit(p, y, {"g": group})
    assert made.strength_ <= 100
    fresh, outcome, other = grouped(8000, 4, shifts)

    def loss(q: np.ndarray) -> float:
        return float(-np.log(np.where(outcome == 1, q, 1 - q)).mean())

    everyone = PlattScaling().fit(p, y).predict_proba(fresh)[:, 1]
    assert loss(made.predict_proba(fresh, {"g": other})[:, 1]) < loss(everyone) - 0.05


def test_a_group_of_one_class_takes_its_parents_map() -> None:
    p, y, group = grouped(300, 5, (0.5, 0.5))
    y = np.where(group == 1, 1, y)
    made = GroupWise(PlattScaling(), pooling=False, min_rows=10).fit(p, y, {"g": group})
    assert made.groups_ == 1
    assert made.predict_proba([0.5], {"g": [1]}) == pytest.approx(PlattScaling().fit(p, y).predict_proba([0.5]))


def test_group_wise_several_classes() -> None:
    p, y, _ = several(600, 6)
    group = np.random.default_rng(0).integers(0, 3, 600)
    out = GroupWise(TemperatureScaling()).fit(p, y, {"g": group}).predict_proba(p, {"g": group})
    assert out.shape == (600, 4)
    assert np.abs(out.sum(axis=1) - 1).max() < 1e-12


# ------------------------------------------------------------------------------------------------ kernel (MMCE)


def naive_objective(p: np.ndarray, y: np.ndarray, power: float, weight: float) -> float:
    z = power * np.log(p / (1 - p))
    q = 1 / (1 + np.exp(-z))
    loss = -np.log(np.maximum(np.where(y == 1, q, 1 - q), 1e-12)).mean()
    r, c = np.where(p > 0.5, q, 1 - q), (p > 0.5) == (y == 1)
    e = r - c
    double = (e[:, None] * e[None, :] * np.exp(-np.abs(r[:, None] - r[None, :]) / 0.2)).sum()
    return float(loss + weight * np.sqrt(max(double, 0.0)) / len(p))


@pytest.mark.parametrize("weight", [0.0, 1.0, 10.0])
def test_kernel_calibration_finds_the_least_of_its_objective(weight: float) -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.99, 300)
    y = (rng.random(300) < 1 / (1 + np.exp(-0.5 * np.log(p / (1 - p))))).astype(int)
    found = float(KernelCalibration(weight=weight).fit(p, y).coefficients_[0, 0])
    grid = np.exp(np.linspace(-3, 3, 601))
    best = min(naive_objective(p, y, float(power), weight) for power in grid)
    assert naive_objective(p, y, found, weight) <= best + 1e-9
    if weight == 0.0:
        assert found == pytest.approx(TemperatureScaling().fit(p, y).inverse_temperature_, rel=1e-4)


def test_a_heavier_kernel_makes_the_kernel_error_smaller() -> None:
    p, y, _ = binary(800, 18)
    error = [
        mean_kernel_calibration_error(y, KernelCalibration(base="platt", weight=w).fit(p, y).predict_proba(p))
        for w in (0.0, 100.0)
    ]
    assert error[1] <= error[0] + 1e-9
    assert KernelCalibration(base="platt", weight=0.0).fit(p, y).predict_proba(p) == pytest.approx(
        PlattScaling().fit(p, y).predict_proba(p), abs=1e-4
    )


def test_kernel_calibration_of_several_classes() -> None:
    p, y, _ = several(400, 19)
    for base in ("temperature", "platt"):
        made = KernelCalibration(base=base).fit(p, y)
        out = made.predict_proba(p)
        assert np.abs(out.sum(axis=1) - 1).max() < 1e-12
        if base == "temperature":
            assert made.keeps_ranking
            assert (out.argmax(axis=1) == p.argmax(axis=1)).all()


def test_one_class_leaves_probabilities_as_they_are() -> None:
    for made in (LocalRecalibration(), GroupWise(PlattScaling()), KernelCalibration()):
        with pytest.warns(MiscalWarning):
            made.fit([0.2, 0.3], [0, 0], [[1.0], [2.0]])
        assert made.predict_proba([0.2], [[1.0]])[0].tolist() == [0.8, 0.2]


# ------------------------------------------------------------------------------------------------- theorems 1 and 2


@pytest.mark.slow
def test_the_largest_error_of_the_estimate_falls_with_the_root_of_the_rows() -> None:
    """Theorem 2: sup over x of |estimate - signed local error|, known on local_wave, falls as n^(-1/2).

    The mean of the supremum over 12 draws has a relative error near .25 / sqrt(12) = .07 at each of the four sizes; a
    line through them over a factor of 64 has a slope with standard error .07 / 3.3 = .02: five of them are allowed.
    """
    side = np.linspace(0.02, 0.98, 15)
    grid = np.array([(a, b) for a in side for b in side])
    exact = local_wave_error(grid, 0.15)
    sizes = np.array([500, 2000, 8000, 32_000])
    largest = []
    for n in sizes:
        each = []
        for seed in range(12):
            data = local_wave(int(n), random_state=seed)
            x = np.column_stack([data.columns["x1"], data.columns["x2"]])
            found = local_calibration_error(
                data.y_true, data.y_prob, x, bandwidth=0.15, bins=1, signed=True,
                queries=(np.full(len(grid), 0.7), grid),
            )  # fmt: skip
            each.append(np.abs(found - exact).max())
        largest.append(np.mean(each))
    slope = np.polyfit(np.log(sizes), np.log(largest), 1)[0]
    assert -0.6 < slope < -0.4
    assert largest[-1] < 0.02


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_crime_study_in_small(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One seed of setting 1: the overconfident network is mended by every method, and LoRe's limits are in order."""
    pytest.importorskip("torch", reason="needs torch (extra neural)")
    pytest.importorskip("openTSNE", reason="openTSNE is not installed: make setup")
    monkeypatch.setenv("MISCAL_DATA", str(shared_data))
    from studies import crime

    found = crime.one_seed(0, crime.load())
    scores = found["scores"]
    assert set(scores) == set(crime.PAPER)
    assert 0.75 < found["accuracy"] < 0.88
    assert scores["none"]["ECE"] > 0.1  # the paper: .151
    for method in ("temperature", "histogram", "isotonic", "MMCE", "LoRe (t-SNE)", "LoRe (PCA)"):
        assert scores[method]["ECE"] < 0.7 * scores["none"]["ECE"]
        assert scores[method]["NLL"] < scores["none"]["NLL"]
    for curve in found["curves"].values():
        assert curve["largest t-SNE"][0] > curve["largest t-SNE"][-1]
