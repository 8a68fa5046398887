"""Many classes everywhere: top label, any class, class-wise, tables by class; and on published model outputs."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import miscal
from miscal import metrics
from miscal.datasets import calibrated_classes
from miscal.stats.multiplicity import step_down

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")


@pytest.fixture(scope="module")
def data():
    return calibrated_classes(1500, n_classes=4, concentration="skewed")


@pytest.fixture(scope="module")
def predictions(data):
    return miscal.Predictions(data.y_true, data.y_prob, columns=data.columns)


SCALARS = {
    "expected": metrics.expected_calibration_error,
    "maximum": metrics.maximum_calibration_error,
    "kuiper": metrics.kuiper_calibration_error,
    "smooth": metrics.smooth_calibration_error,
    "mean_kernel": metrics.mean_kernel_calibration_error,
}


# ------------------------------------------------------------------------------------- one class is a binary problem
@pytest.mark.parametrize("name", SCALARS)
@pytest.mark.parametrize("k", [0, 3])
def test_one_class_against_the_rest_is_the_binary_problem(name, k, data):
    y, p = data.y_true, data.y_prob
    binary = SCALARS[name]((y == k).astype(int), np.ascontiguousarray(p[:, k]))
    assert SCALARS[name](y, p, target=k) == binary


ALONG = {
    "variable": lambda y, p, columns, **k: metrics.variable_calibration_error(y, p, columns["age"], **k),
    "field": lambda y, p, columns, **k: metrics.field_calibration_error(y, p, columns["region"], **k),
    "relative": lambda y, p, columns, **k: metrics.field_relative_calibration_error(y, p, columns["region"], **k),
}


@pytest.mark.parametrize("name", ALONG)
def test_errors_along_columns_take_any_class_and_the_top_label(name, data):
    y, p = data.y_true, data.y_prob
    of_class = ALONG[name]((y == 1).astype(int), np.ascontiguousarray(p[:, 1]), data.columns)
    assert ALONG[name](y, p, data.columns, target=1) == of_class
    top = ALONG[name]((p.argmax(axis=1) == y).astype(int), p.max(axis=1), data.columns, target="positive")
    assert ALONG[name](y, p, data.columns) == top


@pytest.mark.parametrize("name", SCALARS)
def test_the_top_label_is_confidence_against_correctness(name, data):
    y, p = data.y_true, data.y_prob
    correct = (p.argmax(axis=1) == y).astype(int)
    expected = SCALARS[name](correct, p.max(axis=1), target="positive")
    assert SCALARS[name](y, p) == expected == SCALARS[name](y, p, target="top")


def _results(predictions, target):
    return {
        "score": miscal.by_score(predictions, target=target),
        "variable": miscal.by_variable(predictions, "age", target=target),
        "field": miscal.by_field(predictions, "region", target=target),
    }


@pytest.mark.parametrize("kind", ["score", "variable", "field"])
def test_results_of_one_class_are_those_of_the_binary_problem(kind, data, predictions):
    binary = miscal.Predictions(
        (data.y_true == 2).astype(int), np.ascontiguousarray(data.y_prob[:, 2]), columns=data.columns
    )
    one, two = _results(predictions, 2)[kind], _results(binary, "auto")[kind]
    assert (one.value, one.noise_floor, one.p_value) == (two.value, two.noise_floor, two.p_value)
    np.testing.assert_array_equal(one.table["gap"], two.table["gap"])


def test_no_hint_offers_the_target_that_was_refused(predictions):
    with pytest.raises(miscal.MiscalError, match="it is 'positive'") as refused:
        miscal.by_score(predictions, target="positive")
    assert "did you mean" not in str(refused.value)
    assert "known names: 'auto', 'top', '0', '1', '2', '3'" in str(refused.value)


def test_class_names_are_targets(data):
    words = np.array(["ant", "bee", "cat", "dog"])
    named = miscal.Predictions(words[data.y_true], data.y_prob, classes=list(words))
    assert miscal.by_score(named, target="cat").value == miscal.by_score(named, target=2).value
    assert miscal.by_class(named).table["class"].tolist() == list(words)


# ------------------------------------------------------------------------------------------------------- class-wise
@pytest.mark.parametrize("options", [{}, {"bins": [0, 0.1, 0.4, 1]}, {"strategy": "quantile"}, {"norm": "l2"}])
@pytest.mark.parametrize("rows", [1, 63, 1500])
def test_the_classwise_error_is_the_mean_over_classes(options, rows, data):
    y, p = data.y_true[:rows], data.y_prob[:rows]
    each = [metrics.expected_calibration_error(y, p, target=k, **options) for k in range(4)]
    assert metrics.classwise_calibration_error(y, p, **options) == np.mean(each)


def test_weights_of_classwise_errors_are_repetition(data):
    y, p = data.y_true[:300], data.y_prob[:300]
    w = np.random.default_rng(0).integers(1, 4, 300)
    repeated = np.repeat(np.arange(300), w)
    weighted = metrics.classwise_calibration_error(y, p, sample_weight=w)
    assert weighted == metrics.classwise_calibration_error(y[repeated], p[repeated])


def test_a_thousand_classes_need_no_memory_for_classes_by_bins_by_rows():
    """4,000 rows of 1,000 classes are 32 MB, their sums in 15 bins half a MB: nothing as long as the data is made."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(1000, 0.05), 4000)
    y = (np.cumsum(p, axis=1)[:, :-1] <= rng.random((4000, 1))).sum(axis=1)
    metrics.classwise_calibration_error(y[:10], p[:10])
    tracemalloc.start()
    value = metrics.classwise_calibration_error(y, p)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6
    k = int(np.bincount(y).argmax())
    one = metrics.expected_calibration_error(y, p, target=k)
    assert 0 < value < one


# ------------------------------------------------------------------------------------------------- tables by class
@pytest.mark.parametrize("spec", [miscal.Score(bins=8), miscal.Score(strategy="uniform")])
def test_each_row_is_the_class_measured_alone(spec, predictions):
    from dataclasses import replace

    table = miscal.by_class(predictions, spec).table
    for k in range(4):
        alone = miscal.measure(predictions, replace(spec, target=k))[0]
        assert table["error"][k] == pytest.approx(alone.value, rel=1e-12)
        # Both floors are means of 999 draws of the same null, one row by row, one by matched binomials.
        assert table["noise_floor"][k] == pytest.approx(alone.noise_floor, rel=0.06)
    np.testing.assert_allclose(table["gap"], table["predicted"] - table["observed"])
    assert table["outcomes"].sum() == predictions.rows


def test_the_mean_is_the_classwise_error_with_its_noise(data, predictions):
    result = miscal.by_class(predictions, miscal.Score(strategy="uniform"))
    assert result.value == metrics.classwise_calibration_error(data.y_true, data.y_prob)
    assert result.p_value > 0.01
    assert result.interval[0] <= result.value <= result.interval[1]
    again = miscal.by_class(predictions, miscal.Score(strategy="uniform"))
    assert again.noise_floor == result.noise_floor


def test_two_classes_mirror_each_other():
    rng = np.random.default_rng(1)
    p = rng.random(500)
    result = miscal.by_class(miscal.Predictions((rng.random(500) < p).astype(int), p), miscal.Score(strategy="uniform"))
    np.testing.assert_allclose(result.table["gap"][0], -result.table["gap"][1], atol=1e-12)
    assert abs(result.table["p_value"][0] - result.table["p_value"][1]) < 0.03


def test_a_planted_class_is_found_and_the_others_are_not():
    data = calibrated_classes(4000, n_classes=30)
    p = data.y_prob.copy()
    p[:, 7] *= 1.6
    p /= p.sum(axis=1, keepdims=True)
    table = miscal.by_class(miscal.Predictions(data.y_true, p), miscal.Score(bins=5)).table
    assert table["p_adjusted"][7] <= 0.01
    assert (table["p_adjusted"] <= 0.05).sum() == 1


def test_clusters_and_residuals_serve_all_classes(data, predictions):
    flipped = miscal.by_class(predictions, miscal.Score(bins=5, null="residual"))
    drawn = miscal.by_class(predictions, miscal.Score(bins=5))
    np.testing.assert_allclose(flipped.table["noise_floor"], drawn.table["noise_floor"], rtol=0.2)
    rows = np.repeat(np.arange(300), 4)
    clustered = miscal.Predictions(data.y_true[rows], data.y_prob[rows], cluster=rows)
    alone = miscal.Predictions(data.y_true[rows], data.y_prob[rows])
    ratio = miscal.by_class(clustered).noise_floor / miscal.by_class(alone).noise_floor
    assert ratio == pytest.approx(2.0, rel=0.15)  # four copies of each row


def test_with_random_signs_rare_classes_are_not_judged():
    data = calibrated_classes(600, n_classes=4, concentration=[10, 1, 1, 0.2])
    table = miscal.by_class(miscal.Predictions(data.y_true, data.y_prob), miscal.Score(bins=4, null="residual")).table
    assert (
        np.isnan(table["p_value"]).tolist() == (600 * table["predicted"] < 25).tolist() == [False, False, False, True]
    )
    assert np.isnan(table["p_adjusted"]).tolist() == [False, False, False, True]


def test_adjusted_p_values_are_valid_for_the_largest():
    """200 calibrated data sets of 8 classes: the smallest adjusted p-value is below .05 at most 21 times (99.9%)."""
    alarms = 0
    for seed in range(200):
        data = calibrated_classes(150, n_classes=8, random_state=seed)
        p = miscal.Predictions(data.y_true, data.y_prob)
        alarms += miscal.by_class(p, miscal.Score(bins=3, random_state=seed)).table["p_adjusted"].min() <= 0.05
    assert alarms <= 21


def test_step_down_is_at_least_the_single_p_value():
    rng = np.random.default_rng(5)
    drawn, values = rng.gamma(2, size=(499, 6)), rng.gamma(2, size=6) + 1
    single = (1 + (drawn >= values).sum(axis=0)) / 500
    adjusted = step_down(values, drawn)
    assert (adjusted >= single - 1e-12).all()
    assert (adjusted <= 1).all()


def test_other_specs_are_refused(predictions):
    with pytest.raises(miscal.MiscalError, match="spec"):
        miscal.by_class(predictions, miscal.Variation())


def test_the_display_names_the_classes(predictions):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    drawn = miscal.by_class(predictions).plot()
    assert sorted(text.get_text() for text in drawn.ax_.get_yticklabels()) == ["0", "1", "2", "3"]
    plt.close("all")


# -------------------------------------------------------------------------------------------- published model outputs
def _read(path, prefix):
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    names = [name for name in table.column_names if name.startswith(prefix)]
    return table, np.stack([table[name].to_numpy().astype(np.float64) for name in names], axis=1)


def _naive_variation(y, p):
    order = np.argsort(-p, axis=1, kind="stable")
    q, r = np.take_along_axis(p, order, 1), order == y[:, None]
    entropy = lambda x: -(x * np.log(np.where(x > 0, x, 1))).sum(axis=-1) / np.log(p.shape[1])
    cell = np.clip(np.ceil(np.clip(entropy(q), 0, 1) * 10 - 1e-11).astype(int) - 1, 0, 9)
    parts = [(np.mean(cell == m), q[cell == m].mean(0), r[cell == m].mean(0)) for m in np.unique(cell)]
    return sum(share * abs(entropy(a) - entropy(b)) for share, a, b in parts)


@pytest.mark.parametrize(
    ("file", "prefix", "label", "classes", "accuracy"),
    [
        ("cifar10h_densenet_rt", "prob_", "y_true", 10, None),
        ("cifar10_resnet110_logits", "logit_", "label", 10, 0.9356),
        ("netcal_densenet_bc_100_cifar_100", "prob_", "label", 100, None),
    ],
)
def test_published_image_classifiers(shared_data, file, prefix, label, classes, accuracy):
    table, p = _read(shared_data / f"{file}.parquet", prefix)
    y = table[label].to_numpy().astype(np.int64)
    if prefix == "logit_":
        test = np.array(table["split"].to_pylist()) == "test"
        p, y = np.exp(p[test] - p[test].max(axis=1, keepdims=True)), y[test]
    assert p.shape[1] == classes
    p /= p.sum(axis=1, keepdims=True)
    top, correct = p.max(axis=1), p.argmax(axis=1) == y
    if accuracy is not None:
        assert correct.mean() == accuracy
    expected = metrics.expected_calibration_error(y, p)
    cell = np.clip(np.ceil(top * 15).astype(int) - 1, 0, 14)
    naive = sum(abs((top - correct)[cell == m].sum()) for m in range(15)) / len(y)
    assert expected == pytest.approx(naive, abs=1e-9)
    assert metrics.variation_calibration_error(y, p) == pytest.approx(_naive_variation(y, p), abs=1e-9)
    each = [metrics.expected_calibration_error(y, p, target=k) for k in range(classes)]
    assert metrics.classwise_calibration_error(y, p) == np.mean(each)
    predictions = miscal.Predictions(y, p)
    assert miscal.by_variation(predictions).p_value == 0.001  # modern networks are over-confident
    by_class = miscal.by_class(predictions, miscal.Score(strategy="uniform"))
    assert by_class.table.rows == classes
    assert by_class.p_value == 0.001


def test_imagenet_top_labels_by_true_class_and_factor(shared_data):
    """1,000 classes known by their top label alone: confidence against correctness, a thousand levels."""
    import pyarrow.parquet as pq

    table = pq.read_table(shared_data / "imagenet_x_predictions.parquet")
    confidence = table["conf_ResNet50"].to_numpy().astype(np.float64)
    correct = (table["pred_ResNet50"].to_numpy() == table["label"].to_numpy()).astype(int)
    assert round(float(correct.mean()), 4) == 0.7613
    predicted = [f"class {k}" for k in table["pred_ResNet50"].to_pylist()]
    p = miscal.Predictions(correct, confidence, columns={"predicted": predicted, "factor": table["top_factor"]})
    result = miscal.by_field(p, "predicted")
    assert 990 <= result.table.rows <= 1000
    assert result.p_value <= 0.001
    assert metrics.variation_calibration_error(correct, confidence) > 0.01
    assert miscal.by_field(p, "factor").table.rows >= 16
