"""Local sums against the pairwise sum: any dimension, ties, scales, weights, empty cells, queries."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from miscal.kernels.neighbours import local_sums

SCALES = [1e-3, 1.0, 30.0, 1e4]


def pairwise(features, cells, values, bandwidth, *, asked=None, asked_cells=None, own=True):
    """Sums over all pairs relative to the nearest source; also that nearest distance, for the rounding bound."""
    same = asked is None
    asked, asked_cells = (features, cells) if same else (asked, asked_cells)
    distance = np.abs(asked[:, None] - features).sum(axis=2)
    distance[asked_cells[:, None] != cells] = np.inf
    if same and not own:
        np.fill_diagonal(distance, np.inf)
    nearest = distance.min(axis=1)
    nearest[np.isinf(nearest)] = 0.0
    kernel = np.exp(-(distance - nearest[:, None]) / (features.shape[1] * bandwidth))
    return kernel @ values, nearest / (features.shape[1] * bandwidth)


def close(found, expected, offset):
    """Ratios of the sums agree, relative to the mean of absolute values, within 1e-12 and the rounding of distances."""
    some = expected[:, 0] > 0
    assert np.array_equal(found[:, 0] > 0, some)
    for column in (1, 2):
        ours, theirs = found[some, column] / found[some, 0], expected[some, column] / expected[some, 0]
        size = expected[some, 2] / expected[some, 0]
        np.testing.assert_array_less(np.abs(ours - theirs), (1e-12 + 4e-16 * offset[some]) * size + 1e-300)


@st.composite
def clouds(draw):
    """Points on a grid (ties), spread out, or both; weights of very different sizes; cells of which some are empty."""
    d, n = draw(st.integers(1, 4)), draw(st.one_of(st.integers(1, 12), st.integers(1, 150)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    features = rng.normal(size=(n, d))
    kind = draw(st.sampled_from(["spread", "grid", "one place", "constant column", "clusters"]))
    if kind == "grid":
        features = np.round(features)
    elif kind == "one place":
        features[:] = features[0]
    elif kind == "constant column":
        features[:, 0] = 3.0
    elif kind == "clusters":
        features += 1000.0 * rng.integers(0, 2, size=(n, d))
    features *= draw(st.sampled_from(SCALES))
    weight = 10.0 ** rng.uniform(-3, 3, n) if draw(st.booleans()) else np.ones(n)
    residual = rng.normal(size=n)
    values = np.stack([weight, weight * residual, weight * np.abs(residual)], axis=1)
    cells = rng.integers(0, draw(st.integers(1, 5)), n) * 2
    return features, cells, values, rng


METHODS = st.sampled_from(["auto", "exact", "pairs"])
BANDWIDTHS = st.sampled_from([1e-3, 0.05, 0.2, 3.0, 1e6])


@given(clouds(), BANDWIDTHS, METHODS)
def test_own_point_in(cloud, bandwidth, method):
    features, cells, values, _ = cloud
    found = local_sums(features, cells, values, np.array([bandwidth]), method=method)
    expected, _ = pairwise(features, cells, values, bandwidth)
    np.testing.assert_allclose(found[0][:, [0, 2]], expected[:, [0, 2]], rtol=1e-12)
    close(found[0], expected, np.zeros(len(cells)))


@given(clouds(), BANDWIDTHS, METHODS)
def test_own_point_out(cloud, bandwidth, method):
    features, cells, values, _ = cloud
    found = local_sums(features, cells, values, np.array([bandwidth]), method=method, own=False)
    expected, offset = pairwise(features, cells, values, bandwidth, own=False)
    close(found[0], expected, offset)


@given(clouds(), BANDWIDTHS, METHODS, st.integers(1, 60), st.sampled_from([0.0, 1.0, 1e3]))
def test_queries(cloud, bandwidth, method, asked, shift):
    features, cells, values, rng = cloud
    size = np.abs(features).max() + 1e-3
    places = rng.normal(size=(asked, features.shape[1])) * size + shift * size
    places[: asked // 2] = features[rng.integers(0, len(features), asked // 2)]
    where = rng.integers(0, 10, asked)
    found = local_sums(features, cells, values, np.array([bandwidth]), method=method, queries=(places, where))
    expected, offset = pairwise(features, cells, values, bandwidth, asked=places, asked_cells=where)
    close(found[0], expected, offset)


@given(clouds(), METHODS, st.booleans())
def test_bandwidths_together_are_each_one(cloud, method, own):
    features, cells, values, _ = cloud
    bandwidths = np.array([5.0, 1e-3, 0.2])
    together = local_sums(features, cells, values, bandwidths, method=method, own=own)
    for b in range(3):
        alone = local_sums(features, cells, values, bandwidths[[b]], method=method, own=own)
        offset = pairwise(features, cells, values, bandwidths[b], own=own)[1]
        close(together[b], alone[0], offset)


@given(clouds(), BANDWIDTHS, METHODS)
def test_order_of_rows_does_not_matter(cloud, bandwidth, method):
    features, cells, values, rng = cloud
    order = rng.permutation(len(cells))
    one = local_sums(features, cells, values, np.array([bandwidth]), method=method)
    other = local_sums(features[order], cells[order], values[order], np.array([bandwidth]), method=method)
    close(other[0], one[0][order], np.zeros(len(cells)))
