"""Laws of local regression, its policies for odd inputs, and its refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from miscal.data.errors import MiscalError
from miscal.metrics.curves import smooth, variable_calibration_curve
from miscal.stats import local_regression
from miscal.stats.local_regression import NODES, line_of

EPS = np.finfo(float).eps
seeds = st.integers(0, 2**32 - 1)
spans = st.floats(0.3, 1.0)
degrees = st.integers(0, 2)
scales = st.sampled_from([1e-3, 1.0, 1e3, 1e6])


def draw(seed, n=120, distinct=0):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, distinct, n).astype(float) if distinct else rng.lognormal(size=n)
    return rng, x, rng.standard_normal((n, 2))


def lebesgue(x, grid, span, degree):
    """Largest sum of |l_i| over the grid: by how much the operator can enlarge an error of the responses."""
    return np.abs(smooth(x, np.eye(x.size), span=span, degree=degree, grid=grid).fit).sum(axis=1).max()


@given(seeds, spans, degrees, scales)
def test_polynomials_of_its_degree_are_reproduced(seed, span, degree, scale):
    """Error: rounding of the responses through the operator (Lebesgue constant) and of its n-term sums."""
    rng, x, _ = draw(seed)
    x = rng.permutation(np.linspace(-1, 1, 60) + 0.01 * rng.random(60)) * scale
    coefficients = rng.standard_normal(degree + 1)
    y = np.polyval(coefficients, x / scale)
    curve = smooth(x, y, span=span, degree=degree, grid=15)
    size = np.abs(y).max() * lebesgue(x, curve.grid, span, degree)
    # pivots are at least 1e-5 of their columns, or the window is solved again by orthogonalisation
    assert np.abs(curve.fit[:, 0] - np.polyval(coefficients, curve.grid / scale)).max() <= 1e5 * 60 * EPS * size


@given(seeds, spans, degrees, st.sampled_from([0, 12]))
def test_count_is_repetition(seed, span, degree, distinct):
    rng, x, y = draw(seed, 50, distinct)
    count = rng.integers(1, 5, 50)
    weight = rng.random(50) + 0.1
    grid = np.quantile(x, [0.1, 0.4, 0.8])
    for weights in (None, weight):
        repeated = None if weights is None else np.repeat(weights, count)
        a = smooth(x, y, count=count, weight=weights, span=span, degree=degree, grid=grid)
        b = smooth(
            np.repeat(x, count), np.repeat(y, count, axis=0), weight=repeated, span=span, degree=degree, grid=grid
        )
        scale = np.abs(y).max()
        assert np.abs(a.fit - b.fit).max() < 1e-9 * scale
        assert np.allclose(a.standard_error, b.standard_error, rtol=1e-6, atol=1e-9 * scale, equal_nan=True)
        assert np.allclose(a.degrees_of_freedom, b.degrees_of_freedom, rtol=1e-6, equal_nan=True)


@given(seeds, degrees)
def test_integer_weights_are_repetition_when_every_row_is_in_the_window(seed, degree):
    rng, x, y = draw(seed, 40)
    weight = rng.integers(1, 5, 40)
    grid = np.quantile(x, [0.1, 0.4, 0.8])
    a = smooth(x, y, weight=weight, span=1.0, degree=degree, grid=grid)
    b = smooth(np.repeat(x, weight), np.repeat(y, weight, axis=0), span=1.0, degree=degree, grid=grid)
    assert np.abs(a.fit - b.fit).max() < 1e-9 * np.abs(y).max()


@given(seeds, spans, degrees, st.sampled_from([0, 9]))
def test_row_order_and_the_scale_of_weights_do_not_matter(seed, span, degree, distinct):
    rng, x, y = draw(seed, 90, distinct)
    weight = rng.random(90) + 0.1
    order = rng.permutation(90)
    a = smooth(x, y, weight=weight, span=span, degree=degree, grid=12)
    b = smooth(x[order], y[order], weight=weight[order] * 1e6, span=span, degree=degree, grid=12)
    assert np.array_equal(a.grid, b.grid)
    assert np.abs(a.fit - b.fit).max() < 1e-9
    assert np.allclose(a.standard_error, b.standard_error, rtol=1e-6, atol=1e-10, equal_nan=True)


@given(seeds, spans, degrees, st.sampled_from([1e-3, 0.7, 1e6]), st.sampled_from([0.0, -3.0, 1e3]))
def test_affine_changes_of_x_and_y_pass_through(seed, span, degree, scale, offset):
    _, x, y = draw(seed, 80)
    x = np.round(x * 1024) / 1024  # so that scaled distances keep their ties
    grid = np.quantile(x, [0.06, 0.33, 0.71])
    a = smooth(x, y, span=span, degree=degree, grid=grid)
    b = smooth(x * 2.0**10 + 64.0, offset + scale * y, span=span, degree=degree, grid=grid * 2.0**10 + 64.0)
    size = 1e-9 * (abs(offset) + scale * np.abs(y).max())
    assert np.abs(offset + scale * a.fit - b.fit).max() < size
    assert np.allclose(scale * a.standard_error, b.standard_error, rtol=1e-5, atol=size, equal_nan=True)


@given(seeds, st.sampled_from([0, 7]))
def test_curves_are_linear_in_the_responses(seed, distinct):
    _, x, y = draw(seed, 70, distinct)
    curve = smooth(x, np.column_stack([y, y[:, 0] - y[:, 1]]), grid=9)
    assert np.abs(curve.fit[:, 0] - curve.fit[:, 1] - curve.fit[:, 2]).max() < 1e-11
    assert np.allclose(curve.fit[:, 0], smooth(x, y[:, 0], grid=9).fit[:, 0], rtol=0, atol=1e-13)


def test_there_are_enough_nodes_for_the_degrees_of_the_sums():
    """Tricube has degree 9; it meets t^4 in the fit, and t^2, squared or to the fourth, in the errors."""
    assert NODES[0] > 9 + 4
    assert NODES[2] > 2 * (9 + 2)
    assert NODES[4] > 4 * (9 + 2)


@pytest.mark.parametrize("power", NODES)
@pytest.mark.parametrize("cells", [1, 2, 4])
def test_nodes_stand_for_cells_exactly_below_their_number(rng, power, cells):
    """Chebyshev polynomials of degree below `nodes` are summed exactly, by the nodes of a cell and of several."""
    nodes = NODES[power]
    n = 4 * nodes * cells
    x, values = np.sort(rng.random(n)), rng.standard_normal((1, n))
    line = line_of(x, values, power)
    assert line.distinct == n
    places, out = line.sums[:, -nodes:]
    assert (np.diff(places) > 0).all()
    unit, there = ((2 * each - x[0] - x[-1]) / (x[-1] - x[0]) for each in (x, places))
    for degree in range(nodes):
        basis = np.polynomial.chebyshev.Chebyshev.basis(degree)
        assert out @ basis(there) == pytest.approx(values[0] @ basis(unit), abs=1e-12 * 200)
    if cells == 1:
        assert np.abs(np.polynomial.chebyshev.Chebyshev.basis(nodes)(there)).max() < 1e-11


@pytest.mark.parametrize("se", ["robust", "constant"])
@pytest.mark.parametrize("degree", [0, 1, 2])
def test_wide_cells_change_nothing(rng, monkeypatch, se, degree):
    """Cells that each hold a good part of the rows: every power that the sums need must be exact."""
    x, y = rng.random(400), rng.random((400, 2))
    a = smooth(x, y, degree=degree, se=se, grid=40)
    monkeypatch.setattr(local_regression, "NODES", dict.fromkeys(NODES, 101))  # no cell has as many values
    b = smooth(x, y, degree=degree, se=se, grid=40)
    assert np.abs(a.fit - b.fit).max() < 1e-13
    assert np.abs(a.standard_error / b.standard_error - 1).max() < 1e-12
    assert np.abs(a.degrees_of_freedom / b.degrees_of_freedom - 1).max() < 1e-11


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_cells_of_cells_change_nothing(rng, monkeypatch, degree):
    x, y = rng.lognormal(size=2000), rng.random((2000, 2))
    a = smooth(x, y, degree=degree, se="constant", grid=10)
    monkeypatch.setattr(local_regression, "NODES", dict.fromkeys(NODES, 501))
    b = smooth(x, y, degree=degree, se="constant", grid=10)
    assert a.one_delta == pytest.approx(b.one_delta, rel=1e-12)
    assert np.abs(a.sigma / b.sigma - 1).max() < 1e-12


@pytest.mark.parametrize("kind", ["uniform", "skewed", "atom"])
@pytest.mark.parametrize("span", [0.9, 0.3])
def test_pooling_many_values_is_far_below_the_noise(rng, monkeypatch, kind, span):
    """60,000 rows in 20,000 cells against the exact fit.

    Bandwidths are exact and a cell keeps its mean: what is smooth in x moves by the square of a cell's share of the
    window, below (1 / 2,000)^2 at this span. Random outcomes move with their rows, by about that share of the
    standard error; where windows are narrow beside an atom a little more.
    """
    n = 60_000
    x = rng.random(n) if kind == "uniform" else rng.lognormal(size=n)
    if kind == "atom":
        x[rng.random(n) < 0.4] = 0.0
    y = np.column_stack([rng.random(n) < 0.3 + 0.2 * np.sin(3 * x), x > 0.5]).astype(float)
    a = smooth(x, y, grid=50, span=span)
    with monkeypatch.context() as patch:
        patch.setattr(local_regression, "EXACT", n)
        b = smooth(x, y, grid=50, span=span)
    assert np.array_equal(a.grid, b.grid)
    assert np.abs((a.fit - b.fit) / b.standard_error)[:, 0].max() < 0.01
    assert np.abs(a.fit - b.fit)[:, 1].max() < (1 / 2000) ** 2
    assert np.abs(a.standard_error / b.standard_error - 1)[:, 0].max() < 1e-3


def test_pooling_keeps_a_common_value_apart(rng):
    x = np.concatenate([np.zeros(30_000), 1e-3 + rng.random(40_000)])
    y = rng.random(x.size)
    curve = smooth(x, y, span=0.4, grid=[0.0])
    assert curve.fit[0, 0] == pytest.approx(y[:30_000].mean(), rel=1e-12)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_the_same_bits_for_any_number_of_threads(rng, monkeypatch, threads):
    x, y = rng.random(9000), rng.random((9000, 2))
    monkeypatch.setenv("MISCAL_THREADS", "2")
    a = smooth(x, y, grid=70)
    monkeypatch.setenv("MISCAL_THREADS", threads)
    b = smooth(x, y, grid=70)
    assert np.array_equal(a.fit, b.fit)
    assert np.array_equal(a.standard_error, b.standard_error)


# ---- policies --------------------------------------------------------------------------------------------------------
def test_a_window_of_width_zero_gives_the_mean_of_the_tied_rows():
    x = np.array([0.0] * 95 + [1, 2, 3, 4, 5])
    y = np.arange(100.0)
    curve = smooth(x, y, span=0.9, grid=[0.0])
    assert curve.fit[0, 0] == pytest.approx(y[:95].mean(), rel=1e-14)
    spread = ((y[:95] - y[:95].mean()) / (1 - 1 / 95)) ** 2
    assert curve.standard_error[0, 0] == pytest.approx(np.sqrt(spread.sum()) / 95, rel=1e-12)


def test_a_collapsed_grid_becomes_the_distinct_values():
    x = np.array([0.0] * 97 + [10.0, 20.0, 30.0])
    curve = smooth(x, x * 0.5)
    assert curve.grid.tolist() == [0.0, 10.0, 20.0, 30.0]
    assert np.isfinite(curve.fit).all()
    thinned = smooth(np.concatenate([np.zeros(1900), np.arange(1.0, 101.0)]), np.zeros(2000), grid=11, trim=0.1)
    assert thinned.grid.size == 11
    assert (thinned.grid[0], thinned.grid[-1]) == (0.0, 100.0)


def test_too_few_distinct_values_lower_the_degree():
    x = np.repeat([1.0, 2.0], 30)
    y = np.concatenate([np.zeros(30), np.ones(30)])
    curve = smooth(x, y, grid=[1.0, 1.5, 2.0])
    assert curve.fit[[0, 2], 0] == pytest.approx([0.0, 1.0], abs=1e-12)


def test_a_constant_variable_gives_one_point_and_the_mean():
    curve = smooth(np.full(50, 3.5), np.arange(50.0))
    assert curve.grid.tolist() == [3.5]
    assert curve.fit[0, 0] == pytest.approx(24.5)


def test_a_fit_that_rests_on_one_row_has_no_robust_error():
    curve = smooth([0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 4.0, 8.0], span=0.25, grid=[1.0])
    assert curve.fit[0, 0] == 2.0
    assert np.isnan(curve.standard_error[0, 0])


def test_a_perfect_fit_has_a_band_of_no_width():
    curve = smooth(np.arange(40.0), np.zeros(40), grid=5, band="simultaneous")
    assert (curve.standard_error == 0).all()
    assert (curve.low == 0).all()
    assert (curve.high == 0).all()


def test_one_row_and_points_outside_the_data(rng):
    assert smooth([2.0], [5.0], grid=[2.0, 3.0]).fit[:, 0].tolist() == [5.0, 5.0]
    x = rng.random(200)
    curve = smooth(x, 1 + 2 * x + 3 * x**2, grid=[-1.0, 1.7])
    assert curve.fit[:, 0] == pytest.approx([2.0, 1 + 3.4 + 3 * 1.7**2], abs=1e-6)


def test_the_grid_may_come_in_any_order(rng):
    x, y = rng.random(60), rng.random(60)
    a, b = smooth(x, y, grid=[0.7, 0.2]), smooth(x, y, grid=[0.2, 0.7])
    assert a.fit[:, 0] == pytest.approx(b.fit[::-1, 0], rel=1e-12)
    assert a.grid.tolist() == [0.7, 0.2]


def test_default_grid_lies_between_the_trimmed_quantiles(rng):
    x = rng.random(333)
    for count in (None, np.full(333, 2)):
        rows = x if count is None else np.repeat(x, 2)
        curve = smooth(x, x, count=count)
        assert curve.grid == pytest.approx(np.linspace(*np.quantile(rows, [0.05, 0.95]), 500), abs=1e-15)


def test_whole_numbers_are_sorted_by_counting_with_the_same_answer(rng):
    x = rng.integers(-40, 40, 3000).astype(float)
    y = rng.random(3000)
    a, b = smooth(x, y, grid=20), smooth(x + 0.5, y, grid=20)  # halves are not whole: the comparison sort
    assert np.abs(a.fit - b.fit).max() < 1e-12


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (dict(span=0.0), "span"),
        (dict(span=1.5), "span"),
        (dict(degree=3), "degree"),
        (dict(grid=1), "grid"),
        (dict(grid=[np.nan]), "grid"),
        (dict(trim=0.5), "trim"),
        (dict(level=1.0), "level"),
        (dict(se="robsut"), "did you mean 'robust'"),
        (dict(band="point"), "band"),
        (dict(robust_iterations=-1), "robust_iterations"),
    ],
)
def test_wrong_parameters_are_refused(change, word):
    with pytest.raises(MiscalError, match=word):
        smooth(np.arange(9.0), np.arange(9.0), **change)


def test_a_variable_that_is_not_finite_is_refused():
    with pytest.raises(MiscalError, match="finite"):
        variable_calibration_curve([0, 1], [0.2, 0.7], [1.0, np.inf])


def test_values_too_near_each_other_for_any_fit_have_no_worst_place(rng):
    y, p = rng.integers(0, 2, 60), rng.random(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = variable_calibration_curve(y, p, rng.normal(size=60) * 1e-320)
    assert np.isnan(made.worst_gap)
    assert 0.0 < made.p_value <= 1.0
