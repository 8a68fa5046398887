"""Neural Calibration: what it promises of levels, missing values, weights, seeds, classes, modules and JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.base import clone

from miscal import MiscalError, metrics
from miscal.data.errors import MissingExtra
from miscal.recalibrate import NeuralCalibration, Recalibrator

torch = pytest.importorskip("torch", reason="the neural extra is not installed")
SMALL = {"hidden": (16,), "embedding": 4, "epochs": 6, "learning_rate": 0.02, "batch": 256}


def sample(rng, rows=3000):
    state = rng.choice(["CA", "NY", "TX", "WA"], rows)
    age = rng.normal(50, 15, rows)
    p = rng.beta(2, 4, rows)
    shift = np.select([state == "NY", state == "TX"], [1.2, -1.0], 0.0) + 0.03 * (age - 50)
    y = (rng.random(rows) < expit(logit(p) + shift)).astype(int)
    return p, y, {"state": state, "age": age}


def test_repairs_the_field_and_the_ranking_at_once(rng):
    p, y, X = sample(rng, 6000)
    made = NeuralCalibration(**SMALL).fit(p[:4000], y[:4000], X and {k: v[:4000] for k, v in X.items()})
    held = {k: v[4000:] for k, v in X.items()}
    truth, raw, better = y[4000:], p[4000:], made.predict_proba(p[4000:], held)[:, 1]
    errors = [metrics.field_calibration_error(truth, each, held["state"]) for each in (raw, better)]
    assert errors[1] < 0.5 * errors[0]
    ratios = [metrics.prediction_rejection_ratio(truth, each, target="positive") for each in (raw, better)]
    assert ratios[1] > ratios[0] + 0.06  # twice the area under the curve
    assert metrics.log_loss(truth, better) < metrics.log_loss(truth, raw)
    assert len(made.losses_) <= 6
    assert made.held_losses_.min() < made.held_losses_[0]


def test_starts_from_the_identity(rng):
    p, y, X = sample(rng, 400)
    made = NeuralCalibration(hidden=(4,), embedding=2, epochs=1, learning_rate=1e-12).fit(p, y, X)
    np.testing.assert_allclose(made.predict_proba(p, X)[:, 1], p, atol=1e-5)
    classes = rng.dirichlet([1, 1, 1], 300)
    outcome = rng.integers(0, 3, 300)
    several = NeuralCalibration(hidden=(4,), epochs=1, learning_rate=1e-12).fit(classes, outcome, {"v": np.arange(300)})
    np.testing.assert_allclose(several.predict_proba(classes, {"v": np.arange(300)}), classes, atol=1e-4)


def test_nothing_to_learn_keeps_the_identity(rng):
    p = rng.beta(2, 4, 2000)
    y = (rng.random(2000) < p).astype(int)
    noise = rng.choice(100, 2000).astype(str)
    made = NeuralCalibration(hidden=(32,), embedding=8, epochs=8, learning_rate=0.05).fit(p, y, {"noise": noise})
    best = made.held_losses_.min()
    assert best <= made.held_losses_[0]
    held = np.sort(np.random.default_rng(1).permutation(2000)[:200])
    q = made.predict_proba(p[held], {"noise": noise[held]})[:, 1]
    assert np.mean(-np.log(np.where(y[held], q, 1 - q))) == pytest.approx(best, abs=1e-4)  # the best epoch was kept


def test_the_map_of_the_score_is_monotone(rng):
    p, _, X = sample(rng, 2000)
    y = (rng.random(2000) < 1 - p).astype(int)  # falling: the best monotone map is flat
    made = NeuralCalibration(hidden=(), embedding=1, epochs=15, learning_rate=0.05, batch=128).fit(
        p, y, {"one": np.ones(2000)}
    )
    grid = np.linspace(0.001, 0.999, 400)
    out = made.predict_proba(grid, {"one": np.ones(400)})[:, 1]
    assert (np.diff(out) >= -1e-12).all()
    del X


def test_the_last_rows_can_be_held_out(rng):
    """A level that helps on early rows and misleads on late ones: only late rows held out tell."""
    rows = 3000
    g = rng.integers(0, 2, rows)
    late = np.arange(rows) >= 2700
    p = np.full(rows, 0.5)
    y = (rng.random(rows) < np.where(late, 0.8 - 0.6 * g, 0.2 + 0.6 * g)).astype(int)
    last = NeuralCalibration(**SMALL, hold_out="last").fit(p, y, {"g": g.astype(str)})
    assert np.argmin(last.held_losses_) == 0
    np.testing.assert_allclose(last.predict_proba([0.5], {"g": ["1"]})[0, 1], 0.5, atol=1e-5)
    random = NeuralCalibration(**SMALL).fit(p, y, {"g": g.astype(str)})
    assert random.predict_proba([0.5], {"g": ["1"]})[0, 1] > 0.6


def test_levels_that_fit_did_not_see(rng):
    p, y, X = sample(rng)
    made = NeuralCalibration(**SMALL).fit(p, y, X)
    same = np.full(3, 0.4)
    ages = np.full(3, 50.0)
    unseen = made.predict_proba(same, {"state": ["ZZ", "AA", "ZZ"], "age": ages})[:, 1]
    np.testing.assert_allclose(unseen, unseen[0], rtol=1e-13)
    ny, tx = (made.predict_proba(same[:1], {"state": [s], "age": ages[:1]})[0, 1] for s in ("NY", "TX"))
    assert tx < unseen[0] < ny
    absent = made.predict_proba(same, {"state": [None, "CA", "CA"], "age": ages})[:, 1]  # fit had no missing state
    assert absent[0] == pytest.approx(unseen[0], rel=1e-13)


def test_missing_values_are_learned(rng):
    rows = 4000
    state = np.where(rng.random(rows) < 0.3, None, "CA")
    income = np.where(rng.random(rows) < 0.3, np.nan, rng.normal(0, 1, rows))
    p = np.full(rows, 0.4)
    y = rng.random(rows) < 0.4 + 0.3 * (state == None) - 0.2 * np.isnan(income)  # noqa: E711
    made = NeuralCalibration(**SMALL | {"epochs": 15}).fit(p, y, {"state": state, "income": income})
    out = made.predict_proba(np.full(3, 0.4), {"state": [None, "CA", "CA"], "income": [0.0, 0.0, np.nan]})[:, 1]
    np.testing.assert_allclose(out, [0.7, 0.4, 0.2], atol=0.1)


def test_same_seed_same_bits_and_other_seed_others(rng):
    p, y, X = sample(rng, 1000)
    one, two, three = (NeuralCalibration(**SMALL | {"epochs": 2}, random_state=s).fit(p, y, X) for s in (5, 5, 6))
    assert np.array_equal(one.predict_proba(p, X), two.predict_proba(p, X))
    assert not np.array_equal(one.predict_proba(p, X), three.predict_proba(p, X))
    before = torch.random.get_rng_state()
    clone(one).fit(p, y, X)
    assert torch.equal(before, torch.random.get_rng_state())  # the user's own stream is left alone


def test_weights_count(rng):
    rows = 3000
    p = np.full(rows, 0.5)
    y = np.arange(rows) % 2
    weight = np.where(y == 1, 3.0, 1.0)
    options = {**SMALL, "learning_rate": 0.05}
    out = (
        NeuralCalibration(**options)
        .fit(p, y, {"c": ["x"] * rows}, sample_weight=weight)
        .predict_proba([0.5], {"c": ["x"]})
    )
    assert out[0, 1] == pytest.approx(0.75, abs=0.03)


def test_json_holds_everything_and_runs_nothing(rng):
    p, y, X = sample(rng, 800)
    X["flag"] = rng.random(800) < 0.5
    made = NeuralCalibration(**SMALL | {"epochs": 2}).fit(p, y, X)
    text = made.to_json()
    back = Recalibrator.from_json(text)
    assert np.array_equal(back.predict_proba(p, X), made.predict_proba(p, X))
    document = json.loads(text)
    for name, value in (
        ("weights_", []),
        ("weights_", ["AAAA"] * 8),
        ("weights_", ["not base64!"] * len(document["state"]["weights_"])),
        ("levels_", [["CA"], [], []]),
        ("knots_", [0.0, 0.0]),
        ("means_", []),
    ):
        broken = json.loads(text)
        broken["state"][name] = value
        with pytest.raises(MiscalError):
            Recalibrator.from_json(json.dumps(broken))
    infinite = json.loads(text)
    size = len(infinite["state"]["weights_"][0])
    infinite["state"]["weights_"][0] = "AACAfw=="  # one float32 infinity
    assert size == len("AACAfw==")
    with pytest.raises(MiscalError, match="finite"):
        Recalibrator.from_json(json.dumps(infinite))


def test_several_classes(rng):
    rows = 4000
    p = rng.dirichlet([2, 2, 2], rows)
    group = rng.integers(0, 2, rows)
    tilted = p * np.where(group[:, None] == 1, [3.0, 1.0, 1.0], 1.0)
    tilted /= tilted.sum(axis=1, keepdims=True)
    y = (tilted.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
    X = {"group": group.astype(str)}
    made = NeuralCalibration(**SMALL).fit(p, y, X)
    out = made.predict_proba(p, X)
    np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-12)
    assert metrics.log_loss(y, out) < metrics.log_loss(y, p) - 0.02
    assert np.abs(out - tilted).mean() < 0.5 * np.abs(p - tilted).mean()
    back = Recalibrator.from_json(made.to_json())
    assert np.array_equal(back.predict_proba(p, X), out)


def test_any_module(rng):
    p, y, X = sample(rng, 1500)
    torch.manual_seed(0)
    numbers = {"a": X["age"], "b": rng.normal(size=1500)}
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    before = module[0].weight.detach().clone()
    made = NeuralCalibration(epochs=6, learning_rate=0.01, batch=128, module=module).fit(p, y, numbers)
    assert torch.equal(before, module[0].weight)
    assert made.held_losses_.min() < made.held_losses_[0]
    assert made.predict_proba(p, numbers).shape == (1500, 2)
    with pytest.raises(MiscalError, match="JSON"):
        made.to_json()

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(6, 1)

        def forward(self, numbers, codes):
            return self.table(codes[:, 0])[:, 0] + 0.0 * numbers.sum(dim=1)

    assert NeuralCalibration(epochs=1, module=Both()).fit(p, y, X).predict_proba(p, X).shape == (1500, 2)
    with pytest.raises(MiscalError, match=r"\(n, 1\) numbers"):
        NeuralCalibration(epochs=1, module=torch.nn.Linear(4, 3)).fit(p, y, numbers)


def test_a_module_receives_scaled_values_then_flags_and_codes(rng):
    """What the docstring says of `numbers` and `codes`, value for value."""
    rows = 400
    p, y = rng.beta(2, 4, rows), rng.integers(0, 2, rows)
    age = np.where(np.arange(rows) % 5 == 0, np.nan, rng.normal(40, 10, rows))
    size = rng.normal(0, 1, rows)
    size[0] = 1e6  # so far out that it is held within 10 standard deviations
    state = np.where(np.arange(rows) % 7 == 0, None, np.where(np.arange(rows) % 2, "CA", "NY"))
    X = {"age": age, "state": state, "size": size}
    batches = []

    class Keeps(torch.nn.Module):
        def forward(self, numbers, codes):
            if not self.training:
                batches.append((numbers.numpy().copy(), codes.numpy().copy()))
            return numbers[:, 0] * 0.0

    fitted = NeuralCalibration(epochs=1, module=Keeps()).fit(p, y, X)
    fitted.predict_proba(p, {**X, "state": np.where(np.arange(rows) == 1, "TX", state)})
    (numbers, codes), missing = batches[-1], np.isnan(age)
    known = age[~missing]
    assert numbers.shape == (rows, 4)
    assert numbers.dtype == np.float32
    np.testing.assert_allclose(numbers[~missing, 0], (known - known.mean()) / known.std(), atol=1e-5)
    assert (numbers[missing, 0] == 0).all()
    assert numbers[0, 1] == 10.0
    np.testing.assert_array_equal(numbers[:, 2], missing)
    assert not numbers[:, 3].any()
    assert codes.shape == (rows, 1)
    expected = np.select([state == None, state == "CA"], [1, 2], 3)  # noqa: E711
    expected[1] = 0  # TX was not there in fit
    np.testing.assert_array_equal(codes[:, 0], expected)


def test_images_are_flattened_and_get_their_shape_back(rng):
    """A convolution learns a bright corner, which no single number of a row says; images as they are get an error."""
    rows, side = 2000, 6
    bright = rng.integers(0, 2, rows)
    images = rng.normal(0, 1, (rows, side, side))
    corner = rng.integers(0, 5, (2, rows))
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        images[np.arange(rows), corner[0] + i, corner[1] + j] += 4.0 * bright
    p = np.full(rows, 0.5)
    y = (rng.random(rows) < 0.2 + 0.6 * bright).astype(int)

    class Convolution(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.filter, self.last = torch.nn.Conv2d(1, 4, 2), torch.nn.Linear(4, 1)

        def forward(self, numbers):
            pixels = numbers[:, : side * side].reshape(-1, 1, side, side)
            return self.last(torch.relu(self.filter(pixels)).amax(dim=(2, 3)))

    torch.manual_seed(0)
    options = {"epochs": 20, "learning_rate": 0.02, "batch": 128}
    fitted = NeuralCalibration(**options, module=Convolution()).fit(p, y, images.reshape(rows, -1))
    q = fitted.predict_proba(p, images.reshape(rows, -1))[:, 1]
    assert q[bright == 1].mean() > 0.7
    assert q[bright == 0].mean() < 0.3
    with pytest.raises(MiscalError, match=r"(?s)\(n, d\).*X.reshape\(len\(X\), -1\)"):
        NeuralCalibration(module=Convolution()).fit(p, y, images)


def test_a_module_of_another_shape_is_told_what_it_must_take(rng):
    p, y, X = sample(rng, 300)
    with pytest.raises(MiscalError, match=r"(?s)'module' must take numbers \(n, 2\).*flags"):
        NeuralCalibration(epochs=1, module=torch.nn.Linear(1, 1)).fit(p, y, {"age": X["age"]})

    class Pair(torch.nn.Module):
        def forward(self, numbers, codes):
            return numbers, codes

    with pytest.raises(MiscalError, match="'module' must give one tensor; it gives tuple"):
        NeuralCalibration(epochs=1, module=Pair()).fit(p, y, X)


def test_the_number_of_knots(rng):
    """The line bends at k/(K + 1) and nowhere else; a document without `knots` has the 100 of earlier versions."""
    p, y, X = sample(rng, 3000)
    fitted = NeuralCalibration(**SMALL | {"learning_rate": 0.1}, knots=3).fit(p, y, X)
    values, _, _ = fitted.parts()
    assert values.shape == (1, 3)
    first = {name: column[:1] for name, column in X.items()}
    grid = np.linspace(-4, 4, 801)
    line = logit(fitted.predict_proba(expit(grid), {name: np.repeat(c, 801) for name, c in first.items()})[:, 1])
    bends = np.abs(np.diff(line, 2)) > 1e-7
    near = np.abs(grid[1:-1, None] - logit([0.25, 0.5, 0.75])).min(axis=1) < 0.011
    assert bends.any()
    assert not (bends & ~near).any()
    back = Recalibrator.from_json(fitted.to_json())
    assert np.array_equal(back.predict_proba(p, X), fitted.predict_proba(p, X))
    earlier = json.loads(NeuralCalibration(**SMALL).fit(p, y, X).to_json())
    del earlier["params"]["knots"]
    assert Recalibrator.from_json(json.dumps(earlier)).parts()[0].shape == (1, 100)


def test_numbers_that_are_names(rng):
    p, y, _ = sample(rng, 600)
    code = rng.choice([10115, 94103, 75001], 600)
    made = NeuralCalibration(**SMALL | {"epochs": 1}, nominal=["zip"]).fit(p, y, {"zip": code})
    assert made.levels_ == [[None, 10115, 75001, 94103]]
    made.predict_proba(p[:2], {"zip": [10115, 1]})


def test_a_bar_is_drawn_when_asked_for(rng, capfd):
    p, y, X = sample(rng, 300)
    NeuralCalibration(**SMALL | {"epochs": 1}, progress=False).fit(p, y, X)
    assert capfd.readouterr().err == ""
    NeuralCalibration(**SMALL | {"epochs": 1}, progress=True).fit(p, y, X)
    assert "Neural" in capfd.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        {"embedding": 0},
        {"hidden": 200},
        {"hidden": (0,)},
        {"epochs": 0},
        {"learning_rate": 0},
        {"batch": 1.5},
        {"patience": 0},
        {"module": 3},
        {"device": "abacus"},
        {"progress": "often"},
        {"random_state": -1},
        {"hold_out": "first"},
        {"knots": 1},
    ],
)
def test_wrong_parameters(wrong):
    with pytest.raises(MiscalError, match=next(iter(wrong))):
        NeuralCalibration(**wrong).fit([0.1, 0.9, 0.5], [0, 1, 1], {"a": [1, 2, 3]})


def test_needs_columns_and_torch(monkeypatch):
    with pytest.raises(MiscalError, match="needed"):
        NeuralCalibration().fit([0.1, 0.9], [0, 1])
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "miscal.recalibrate.by_columns.neural_network", raising=False)
    import miscal.recalibrate.by_columns

    monkeypatch.delattr(miscal.recalibrate.by_columns, "neural_network", raising=False)
    with pytest.raises(MissingExtra, match="neural"):
        NeuralCalibration().fit([0.1, 0.9], [0, 1], {"a": [1, 2]})


def test_the_four_steps_of_the_papers_pipeline(rng):
    """Split by date, train a model, train the recalibrator on later rows, predict."""
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    from miscal.recalibrate import RecalibratedClassifier

    rows = 5000
    day = np.arange(rows) // 10
    X = pd.DataFrame({"a": rng.normal(size=rows), "g": rng.integers(0, 4, rows).astype(float)})
    late = day > 350
    y = (rng.random(rows) < expit(X["a"] + late * (X["g"] - 1))).astype(int).to_numpy()
    neural = NeuralCalibration(**SMALL | {"epochs": 10}, nominal=["g"])
    alone = LogisticRegression().fit(X[:4000], y[:4000])
    made = RecalibratedClassifier(alone, neural, by=["a", "g"], cv="prefit").fit(X[4000:], y[4000:])
    assert made.recalibrator_.n_rows_ == 1000
    gap = lambda p: metrics.field_calibration_error(y[4500:], p[:, 1], X["g"][4500:])
    assert gap(made.predict_proba(X[4500:])) < 0.5 * gap(alone.predict_proba(X[4500:]))
