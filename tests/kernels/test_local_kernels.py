"""The compiled parts of local calibration, and the policies of its metrics."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

import miscal.kernels.threads
from miscal.data.errors import MiscalError
from miscal.kernels.neighbours import FAR, Problem, add_pairs, all_pairs, laplacian_sums, local_sums
from miscal.metrics import (
    average_local_calibration_error,
    local_calibration_error,
    maximum_local_calibration_error,
)


def exponentials(exponents):
    """Of numbers up to 0: what the second of two points, which alone counts, adds to the first, that far away."""
    points = np.stack([np.zeros_like(exponents), -exponents], axis=1).reshape(-1, 1)
    values = np.tile([0.0, 1.0], exponents.size)[:, None]
    starts = np.arange(0, 2 * exponents.size + 1, 2)
    problem = Problem(points, values, starts, points, starts, same=True, own=True)
    return all_pairs(problem, np.ones(1), False, "cpu")[0, ::2, 0]


def test_exponential_is_within_one_and_a_half_units_in_the_last_place(rng):
    exponents = np.concatenate(
        [-rng.random(20000) * 708, -rng.random(20000), -(10 ** -rng.uniform(0, 20, 2000)), [0.0]]
    )
    reference = np.array([math.exp(x) for x in exponents])  # the system's, right to about half a unit
    errors = np.abs(exponentials(exponents) - reference) / np.spacing(reference)
    assert errors.max() <= 1.5
    assert exponentials(np.array([0.0]))[0] == 1.0


def test_exponential_ends_at_exact_zero():
    found = exponentials(np.array([-708.0, -708.0001, -1e6, -1e300]))
    assert found[0] == pytest.approx(math.exp(-708), rel=1e-15)
    np.testing.assert_array_equal(found[1:], 0.0)


@pytest.mark.parametrize("kernel", ["group", "laplacian", "gaussian"])
def test_others_in_a_cell_lose_no_digits(kernel):
    values, cells = np.array([[1e20], [1.0], [2.0], [5.0]]), np.array([0, 0, 0, 1])
    others = local_sums(np.full((4, 1), 7.0), cells, values, np.array([np.inf]), kernel=kernel, own=False)
    assert others[0, :, 0].tolist() == [3.0, 1e20, 1e20, 0.0]


def cloud(rng, n, d):
    values = np.stack([np.ones(n), rng.normal(size=n)], axis=1)
    return rng.normal(size=(n, d)) * 20, rng.integers(0, 3, n), values


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("own", [True, False])
def test_exact_equals_pairs_on_many_points(rng, d, own):
    features, cells, values = cloud(rng, 6000, d)
    bandwidths = np.array([0.01, 0.2, 4.0])
    exact = local_sums(features, cells, values, bandwidths, method="exact", own=own)
    pairs = local_sums(features, cells, values, bandwidths, method="pairs", own=own)
    ours, theirs = (sums[..., 1] / sums[..., 0] for sums in (exact, pairs))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-11)
    auto = local_sums(features, cells, values, bandwidths, own=own)
    np.testing.assert_allclose(auto[..., 1] / auto[..., 0], theirs, rtol=0, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("bandwidths", [[1e17], [2e4, 0.01]])
def test_long_sums_of_equal_terms_do_not_drift(d, bandwidths):
    """On a lattice every step has the same rounding error, which a plain running sum adds up to 1e-11.

    So does a small bandwidth beside a large one, if the large one's sums change their reference as often.
    """
    n = 1_000_000
    features = np.zeros((n, d))
    features[:, 0] = np.arange(n) * 0.1
    cells, values = np.zeros(n, np.int64), np.full((n, 1), 0.1)
    found = local_sums(features, cells, values, np.array(bandwidths) / d, method="exact")[0, :, 0]
    # The same sum as two geometric series.
    ratio = np.longdouble(-0.1) / np.longdouble(bandwidths[0])
    place = np.arange(n, dtype=np.longdouble)
    before, after = (np.expm1(ratio * (count + 1)) / np.expm1(ratio) for count in (place, n - 1 - place))
    expected = np.longdouble(0.1) * (before + after - 1)
    assert np.abs(found / expected - 1).max() < 1e-12


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("own", [True, False])
def test_same_bits_for_any_number_of_threads(rng, monkeypatch, d, own):
    features, cells, values = cloud(rng, 40_000 if d < 3 else 5000, d)
    answers = []
    for threads in ("1", "3"):
        monkeypatch.setenv("MISCAL_THREADS", threads)
        assert miscal.kernels.threads.thread_count() == int(threads)
        answers.append(local_sums(features, cells, values, np.array([0.3]), own=own))
    np.testing.assert_array_equal(*answers)


def test_memory_of_pairs_does_not_grow_with_their_number(rng):
    features, cells, values = cloud(rng, 4000, 10)
    local_sums(features[:10], cells[:10], values[:10], np.array([0.3]))
    tracemalloc.start()
    local_sums(features, np.zeros(4000, np.int64), values, np.array([0.3, 1.0]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16e6  # the kernel matrix alone would be 128e6


def test_short_memory_does_not_change_the_sums(rng, monkeypatch):
    features, cells, values = cloud(rng, 500, 4)
    bandwidths = np.array([0.1, 0.5, 2.0])
    whole = local_sums(features, cells, values, bandwidths)
    monkeypatch.setattr("miscal.kernels.neighbours.BUDGET", 1)
    np.testing.assert_allclose(local_sums(features, cells, values, bandwidths), whole, rtol=1e-13, atol=1e-12)


def test_distant_clusters_do_not_underflow():
    """A query between two clusters a million bandwidths away: both count, in the share of their weights."""
    rng = np.random.default_rng(1)
    features = np.concatenate([np.full((600, 2), -1e3), np.full((300, 2), 1e3)])
    values = np.stack([np.ones(900), np.r_[np.ones(600), np.zeros(300)]], axis=1)
    shuffled = rng.permutation(900)
    for method in ("exact", "pairs"):
        found = local_sums(
            features[shuffled], np.zeros(900, np.int64), values[shuffled], np.array([1e-3]),
            queries=(np.zeros((5, 2)), np.zeros(5, np.int64)), method=method,
        )  # fmt: skip
        np.testing.assert_allclose(found[0, :, 1] / found[0, :, 0], 2 / 3, rtol=1e-13)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("method", ["exact", "pairs"])
def test_a_row_alone_in_its_cell_has_nobody_else(rng, d, method):
    features, cells = rng.normal(size=(40, d)), np.r_[np.zeros(39, np.int64), 1]
    found = local_sums(features, cells, np.ones((40, 1)), np.array([0.1]), method=method, own=False)
    assert (found[0, :39, 0] > 0).all()
    assert found[0, 39, 0] == 0.0


def test_low_level_sums_agree(rng):
    features, _, values = cloud(rng, 700, 2)
    starts, scales = np.array([0, 0, 300, 700]), np.array([0.05, 1.0])
    features = features[np.lexsort((features[:, 0], np.arange(700) >= 300))]
    problem = Problem(features, values, starts, features, starts, same=True, own=True)
    pairs = all_pairs(problem, scales, False, "cpu")
    exact = np.stack([laplacian_sums(problem, scale) for scale in scales])
    one, reference = np.zeros_like(pairs), np.full(700, FAR)
    asked = Problem(features, values, starts, features, starts, same=False, own=True)  # as queries, one by one
    add_pairs(asked, scales, False, reference, one)
    np.testing.assert_allclose(exact[..., 0], pairs[..., 0], rtol=1e-12)
    np.testing.assert_allclose(one[..., 0] * np.exp(-reference * scales[:, None]), pairs[..., 0], rtol=1e-12)


Y, P = np.array([1, 0, 1, 0]), np.array([0.9, 0.8, 0.7, 0.2])


@pytest.mark.parametrize(
    ("features", "options", "words"),
    [
        ([[0.0], [np.nan], [1.0], [2.0]], {}, "column '0' must not be missing; row 1 is missing"),
        ([[0.0, 1], [0, np.inf], [1, 1], [2, 2]], {}, "column '1' must hold finite numbers"),
        ({"age": [1.0, 2.0, None, 4.0]}, {}, "column 'age' must not be missing; row 2"),
        ({"state": ["a", "b", "c", "d"]}, {}, "column 'state' must hold numbers"),
        (np.array(["a", "b", "c", "d"]), {}, "must hold numbers"),
        (np.zeros((4, 0)), {}, "at least one column"),
        ({}, {"kernel": "group"}, "at least one column"),
        (np.zeros((4, 0)), {"kernel": "group"}, "at least one column"),
        ({"a": [1, 2, 3, 4], "b": [1, 2]}, {"kernel": "group"}, "rows"),
        ({"a": [1, 2, 3, 4], "b": [1, 2]}, {}, "rows"),
        ([[1], [2, 3]], {}, "must be"),
        (None, {}, "must be"),
        (None, {"kernel": "group"}, "must be"),
        ({"day": np.array(["2020-01-01"] * 4, "datetime64[D]")}, {}, "column 'day' must hold numbers"),
        (np.zeros((2, 2, 2)), {}, r"must be \(n,\) or \(n, d\)"),
        (np.zeros((3, 2)), {}, "must have one value a row"),
        (np.zeros((4, 2)), {"bandwidth": 0}, "above 0"),
        (np.zeros((4, 2)), {"bandwidth": [0.2, -1.0]}, "above 0"),
        (np.zeros((4, 2)), {"bandwidth": np.nan}, "above 0"),
        (np.zeros((4, 2)), {"bandwidth": "wide"}, "above 0"),
        (np.zeros((4, 2)), {"bandwidth": []}, "above 0"),
        (np.zeros((4, 2)), {"kernel": "laplace"}, "'kernel' must be"),
        (np.zeros((4, 2)), {"kernel": lambda a, b: np.ones((1, 1))}, "'kernel' must give"),
        (np.zeros((4, 2)), {"kernel": lambda a, b: -np.ones((len(a), len(b)))}, "negative"),
        (np.zeros((4, 2)), {"device": "tpu"}, "'device'"),
        (np.zeros((4, 2)), {"queries": 3}, "'queries' must be"),
        (np.zeros((4, 2)), {"queries": ([0.5], [[1.0]])}, "must have 2 columns"),
        (np.zeros((4, 2)), {"queries": ([0.5], np.zeros((2, 2)))}, "as many rows"),
        (np.zeros((4, 2)), {"queries": ([1.5], np.zeros((1, 2)))}, r"must lie in \[0, 1\]"),
        (np.zeros((4, 2)), {"queries": (P, np.zeros((4, 2))), "leave_one_out": True}, "cannot go with"),
        (np.zeros((4, 2)), {"bins": 0}, "'bins'"),
        (np.zeros((4, 2)), {"strategy": "equal"}, "'strategy'"),
        (np.zeros((4, 2)), {"target": "best"}, "'target'"),
    ],
)
def test_refusals(features, options, words):
    for metric in (local_calibration_error, maximum_local_calibration_error, average_local_calibration_error):
        with pytest.raises(MiscalError, match=words):
            metric(Y, P, features, **options)


@pytest.mark.filterwarnings("ignore::miscal.data.errors.MiscalWarning")
def test_one_row():
    assert local_calibration_error([1], [0.7], [[1.0, 2.0]], signed=True) == pytest.approx([-0.3])
    assert np.isnan(local_calibration_error([1], [0.7], [[1.0, 2.0]], leave_one_out=True)).all()
    assert math.isnan(maximum_local_calibration_error([1], [0.7], [[1.0]], leave_one_out=True))
    assert math.isnan(average_local_calibration_error([1], [0.7], [[1.0]], leave_one_out=True))


def test_constant_features_give_the_bins(rng):
    y, p = rng.integers(0, 2, 300), rng.random(300)
    flat = local_calibration_error(y, p, np.full((300, 7), 3.0), signed=True)
    wide = local_calibration_error(y, p, rng.normal(size=(300, 7)), bandwidth=np.inf, signed=True)
    np.testing.assert_allclose(flat, wide, rtol=0, atol=1e-15)  # the same numbers, in another order


def test_more_dimensions_than_rows(rng):
    features = rng.normal(size=(5, 400))
    found = local_calibration_error([1, 0, 1, 0, 1], [0.6, 0.61, 0.62, 0.6, 0.61], features, bandwidth=1.0)
    assert np.isfinite(found).all()


def test_queries_in_an_empty_bin_have_no_error():
    found = local_calibration_error(Y, P, np.zeros((4, 2)), queries=([0.5, 0.9], np.zeros((2, 2))), target="positive")
    assert np.isnan(found[0])
    assert np.isfinite(found[1])


def test_frames_arrays_and_lists_are_the_same(rng):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    features = rng.normal(size=(4, 2))
    expected = local_calibration_error(Y, P, features)
    named = {"a": features[:, 0], "b": features[:, 1]}
    for given in (features.tolist(), named, pandas.DataFrame(named), polars.DataFrame(named)):
        np.testing.assert_array_equal(local_calibration_error(Y, P, given), expected)
    one = local_calibration_error(Y, P, features[:, :1])
    np.testing.assert_array_equal(local_calibration_error(Y, P, features[:, 0]), one)


def test_equal_support_bins(rng):
    y, p, features = rng.integers(0, 2, 400), rng.random(400) ** 3, rng.normal(size=(400, 2))
    edges = np.quantile(np.maximum(p, 1 - p), np.arange(9) / 8)
    by_name = local_calibration_error(y, p, features, bins=8, strategy="quantile")
    np.testing.assert_allclose(by_name, local_calibration_error(y, p, features, bins=edges), rtol=0, atol=1e-14)


@pytest.mark.parametrize("target", ["top", "positive", "auto", 0, 1])
def test_targets_of_queries_are_those_of_the_data(rng, target):
    y, p, features = rng.integers(0, 2, 200), rng.random(200), rng.normal(size=(200, 2))
    data = local_calibration_error(y, p, features, target=target, signed=True)
    for probability in (p, np.stack([1 - p, p], axis=1)):
        asked = local_calibration_error(y, p, features, target=target, signed=True, queries=(probability, features))
        np.testing.assert_allclose(asked, data, rtol=0, atol=1e-12)


def test_scale_of_weights_does_not_matter(rng):
    y, p, features, weight = rng.integers(0, 2, 90), rng.random(90), rng.normal(size=(90, 2)), rng.random(90) + 0.1
    one = local_calibration_error(y, p, features, sample_weight=weight)
    other = local_calibration_error(y, p, features, sample_weight=weight * 1e-90)
    np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize(("rows", "most"), [(300, 256), (3000, 256), (60_000, 16)])
def test_a_given_kernel_is_asked_for_a_million_weights_at_most(rows, most):
    asked = []

    def ones(a, b):
        asked.append((len(a), len(b)))
        return np.ones((len(a), len(b)))

    features, cells = np.linspace(0.0, 1.0, rows)[:, None], np.zeros(rows, np.int64)
    queries = features[:300], cells[:300]
    sums = local_sums(features, cells, np.ones((rows, 1)), np.array([1.0]), kernel=ones, queries=queries)
    assert (sums == rows).all()
    assert sum(some for some, _ in asked) == 300
    assert max(some for some, _ in asked) == most
    assert max(some * many for some, many in asked) <= 1_000_000


def test_one_query_may_have_more_than_a_million_weights(monkeypatch):
    from miscal.kernels import neighbours

    monkeypatch.setattr(neighbours, "ENTRIES", 10)
    asked = []

    def ones(a, b):
        asked.append(len(a))
        return np.ones((len(a), len(b)))

    features, cells = np.linspace(0.0, 1.0, 40)[:, None], np.zeros(40, np.int64)
    sums = local_sums(features, cells, np.ones((40, 1)), np.array([1.0]), kernel=ones, own=False)
    assert asked == [1] * 40
    assert (sums == 39).all()
