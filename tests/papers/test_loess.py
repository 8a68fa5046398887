"""Local regression against its definition (weighted least squares at each point) and against skmisc's `loess`."""

from __future__ import annotations

import numpy as np
import pytest

from miscal.metrics.curves import smooth


def naive(x, y, point, span, degree, weight=None, count=None):
    """Operator row at one point, from the definition: nearest q rows, tricube, weighted least squares by QR."""
    weight = np.ones(x.size) if weight is None else weight
    count = np.ones(x.size, int) if count is None else count
    distance = np.abs(x - point)
    wanted = max(1, int(np.floor(span * count.sum() + 1e-5)))
    bandwidth = np.sort(np.repeat(distance, count))[wanted - 1]
    inside = distance < bandwidth
    if not inside.any():
        inside = distance <= bandwidth
        kernel = inside * 1.0
        degree = 0
    else:
        kernel = np.where(inside, (1 - (distance / bandwidth) ** 3) ** 3, 0.0)
    degree = min(degree, np.unique(x[inside]).size - 1)
    root = np.sqrt(kernel * weight)
    design = np.vander((x - point) / (bandwidth or 1.0), degree + 1, increasing=True)
    scaled = np.repeat(design * root[:, None], count, axis=0)
    triangle = np.linalg.qr(scaled, mode="r")
    solved = np.linalg.solve(triangle.T @ triangle, np.eye(degree + 1)[0])
    return (design @ solved) * root**2  # per single row of weight `weight`


def corrected(y, at_rows, weight=None):
    """HC3 residuals; a row that its own fit reproduces gets its deviation from the overall mean."""
    left = 1 - np.diag(at_rows)
    reproduced = left < 1e-7
    return np.where(reproduced, y - np.average(y, weights=weight), (y - at_rows @ y) / np.where(reproduced, 1, left))


def naive_curve(x, y, grid, span, degree, weight=None):
    """Values and sandwich standard errors with residuals divided by 1 - l_ii."""
    at_rows = np.array([naive(x, y, v, span, degree, weight) for v in x])
    at_grid = np.array([naive(x, y, v, span, degree, weight) for v in grid])
    residual = corrected(y, at_rows, weight)
    squares = at_grid**2 @ residual**2
    freedom = squares**2 / (at_grid**4 @ residual**4)
    return at_grid @ y, np.sqrt(squares), freedom, at_rows, at_grid


def sample(rng, kind, n):
    if kind == "uniform":
        return rng.random(n)
    if kind == "heavy":
        return 1.0 / rng.random(n)
    if kind == "ties":
        return rng.integers(17, 47, n).astype(float)
    return np.concatenate([np.zeros(n // 2), rng.integers(1, 40, n - n // 2)]).astype(float)


@pytest.mark.parametrize("kind", ["uniform", "heavy", "ties", "zeros"])
@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("span", [0.9, 0.35])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_and_sandwich_are_those_of_the_definition(rng, kind, degree, span, weighted):
    n = 130
    x = sample(rng, kind, n)
    y = np.column_stack([rng.random(n) < 0.4, rng.random(n)]).astype(float)
    weight = rng.random(n) + 0.2 if weighted else None
    grid = np.linspace(*np.quantile(x, [0.05, 0.95]), 17)
    curve = smooth(x, y, weight=weight, span=span, degree=degree, grid=grid)
    for k in range(2):
        value, error, freedom, at_rows, _ = naive_curve(x, y[:, k], grid, span, degree, weight)
        assert np.abs(curve.fit[:, k] - value).max() < 1e-10
        assert np.abs(curve.standard_error[:, k] / error - 1).max() < 1e-9
        assert np.abs(curve.degrees_of_freedom[:, k] / np.maximum(freedom, 1) - 1).max() < 1e-8


@pytest.mark.parametrize("kind", ["uniform", "heavy", "ties"])
def test_many_values_go_through_cells(rng, kind):
    """6,000 rows: the sums come from the nodes of cells; the definition is evaluated at a few points."""
    n = 6000
    x = sample(rng, kind, n) + (1e-3 * rng.random(n) if kind == "ties" else 0.0)
    y = np.column_stack([rng.random(n) < 0.3, rng.random(n)]).astype(float)
    curve = smooth(x, y, grid=np.quantile(x, [0.05, 0.3, 0.5, 0.9]), se="constant")
    for i, point in enumerate(curve.grid):
        operator = naive(x, y, point, 0.9, 2)
        assert np.abs(curve.fit[i] - operator @ y).max() < 1e-10
        assert np.abs(curve.standard_error[i] - curve.sigma * np.sqrt(operator @ operator)).max() < 1e-10


def test_clusters_are_summed_before_squaring(rng):
    n = 120
    x, y = rng.random(n), rng.random(n)
    cluster = rng.integers(0, 25, n)
    curve = smooth(x, y, cluster=cluster, grid=9)
    at_rows = np.array([naive(x, y, v, 0.9, 2) for v in x])
    at_grid = np.array([naive(x, y, v, 0.9, 2) for v in curve.grid])
    residual = corrected(y, at_rows)
    member = np.unique(cluster)[:, None] == cluster
    groups = member.shape[0]
    squares = ((at_grid * residual) @ member.T) ** 2
    expected = np.sqrt(squares.sum(axis=1) * groups / (groups - 1))
    assert np.abs(curve.standard_error[:, 0] / expected - 1).max() < 1e-9


def test_simultaneous_band_is_the_largest_deviation_of_the_curve(rng):
    """Against sign flips of the residuals through the naive operator; 20,000 flips against 4,000 normal draws."""
    n = 400
    x = rng.random(n)
    y = (rng.random(n) < 0.5) * 1.0
    curve = smooth(x, y, grid=40, band="simultaneous")
    point = smooth(x, y, grid=40)
    _, error, freedom, at_rows, at_grid = naive_curve(x, y, curve.grid, 0.9, 2)
    residual = corrected(y, at_rows)
    flips = rng.integers(0, 2, (20_000, n)) * 2.0 - 1.0
    largest = np.abs((flips * residual) @ at_grid.T / error).max(axis=1)
    # undo Student's widening to compare the Gaussian quantiles
    from scipy import stats

    gaussian = stats.norm.ppf(stats.t.cdf(curve.critical[:, 0], curve.degrees_of_freedom[:, 0]))
    assert np.ptp(gaussian) < 1e-8
    # the 95% point lies between the 93.5% and 96.5% points: binomial error of 4,000 draws is 0.35%, four of them 1.4%
    assert np.quantile(largest, 0.935) < gaussian[0] < np.quantile(largest, 0.965)
    assert (curve.critical > point.critical).all()


# ---- skmisc ----------------------------------------------------------------------------------------------------------
def peer(x, y, grid, span, degree, symmetric, weights=None, statistics="exact"):
    from skmisc.loess import loess

    model = loess(
        x, y, weights=weights, span=span, degree=degree, surface="direct", statistics=statistics,
        family="symmetric" if symmetric else "gaussian", iterations=4,
    )  # fmt: skip
    model.fit()
    return model.outputs, model.predict(grid, stderror=True)


@pytest.mark.parametrize("kind", ["uniform", "heavy", "ties"])
@pytest.mark.parametrize("span", [0.9, 0.4])
@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("iterations", [0, 4])
def test_constant_errors_are_those_of_skmisc(rng, kind, span, degree, iterations):
    n = 250
    x = sample(rng, kind, n)
    y = np.sin(x) + rng.standard_normal(n)
    grid = np.linspace(*np.quantile(x, [0.05, 0.95]), 21)
    outputs, predicted = peer(x, y, grid, span, degree, iterations > 0)
    curve = smooth(x, y, span=span, degree=degree, grid=grid, se="constant", robust_iterations=iterations)
    assert np.abs(curve.fit[:, 0] - predicted.values).max() < 1e-8
    assert np.abs(curve.standard_error[:, 0] / predicted.stderr - 1).max() < 1e-6
    assert curve.one_delta == pytest.approx(outputs.one_delta, rel=1e-10)
    assert curve.sigma[0] == pytest.approx(outputs.residual_scale, rel=1e-8)
    assert curve.degrees_of_freedom[0, 0] == pytest.approx(predicted.df, rel=1e-8)
    interval = predicted.confidence(0.05)
    assert np.abs(curve.low[:, 0] - interval.lower).max() < 1e-7
    assert np.abs(curve.high[:, 0] - interval.upper).max() < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("iterations", [0, 4])
def test_values_of_3000_rows_are_those_of_skmisc(rng, iterations):
    """Its exact statistics take minutes at this size; the shape of the error does not depend on them."""
    n = 3000
    x = rng.random(n) * 60 + 18
    y = (rng.random(n) < 0.3) * 1.0 if not iterations else np.sin(x / 9) + rng.standard_normal(n)
    grid = np.linspace(20, 75, 30)
    outputs, predicted = peer(x, y, grid, 0.9, 2, iterations > 0, statistics="approximate")
    curve = smooth(x, y, grid=grid, se="constant", robust_iterations=iterations)
    assert np.abs(curve.fit[:, 0] - predicted.values).max() < 1e-8
    ours = curve.standard_error[:, 0] / curve.sigma[0]
    assert np.abs(ours / (predicted.stderr / outputs.residual_scale) - 1).max() < 1e-8
    assert curve.sigma[0] ** 2 * curve.one_delta == pytest.approx(
        outputs.residual_scale**2 * outputs.one_delta, rel=1e-9
    )


def test_one_delta_of_1500_rows_is_exact(rng):
    """One_delta against the dense operator where skmisc's own exact statistics would take long."""
    n = 1500
    x = rng.random(n)
    y = rng.random(n)
    operator = np.array([naive(x, y, v, 0.9, 2) for v in x])
    rest = np.eye(n) - operator
    curve = smooth(x, y, se="constant", grid=5)
    assert curve.one_delta == pytest.approx((rest**2).sum(), rel=1e-11)
    assert curve.sigma[0] == pytest.approx(np.sqrt(((rest @ y) ** 2).sum() / (rest**2).sum()), rel=1e-10)


def test_weights_are_those_of_skmisc(rng):
    n = 300
    x, y = rng.random(n), rng.random(n)
    weight = rng.random(n) + 0.1
    grid = np.linspace(0.1, 0.9, 11)
    outputs, predicted = peer(x, y, grid, 0.7, 2, symmetric=False, weights=weight)
    curve = smooth(x, y, weight=weight, span=0.7, grid=grid, se="constant")
    assert np.abs(curve.fit[:, 0] - predicted.values).max() < 1e-8
    assert curve.one_delta == pytest.approx(outputs.one_delta, rel=1e-10)


# ---- coverage --------------------------------------------------------------------------------------------------------
def test_the_band_covers_a_calibrated_gap(rng):
    """0/1 outcomes drawn from their probabilities: the true gap is 0 everywhere and there is no bias.

    Pointwise at the middle of the grid and simultaneously, 150 data sets of 400 rows: 95% cover; a binomial count of
    150 at .95 lies in 133..149 with probability .999.
    """
    covered = np.zeros(2, int)
    for seed in range(150):
        x = rng.random(400)
        p = 0.2 + 0.5 * x
        gap = p - (rng.random(400) < p)
        for k, band in enumerate(("pointwise", "simultaneous")):
            curve = smooth(x, gap, grid=25, band=band, random_state=seed)
            inside = (curve.low[:, 0] <= 0) & (curve.high[:, 0] >= 0)
            covered[k] += inside[12] if k == 0 else inside.all()
    assert (covered >= 133).all()
    assert (covered <= 149).all()
