"""Paper 001 against naive twins, closed forms and printed identities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import miscal
from miscal import metrics
from miscal.metrics.rank_sums import NAMED

pytestmark = pytest.mark.filterwarnings("ignore::miscal.MiscalWarning")
# Sums of n <= 60 probabilities on a grid of 2**-52, a logarithm of 2 ulp, means, and a weighted sum of the bins' gaps.
# The entropy's slope is unbounded near 0, so a frequency's rounding is magnified by at most log(2**52) / log(2).
BOUND = 64 * 52 * np.finfo(float).eps


# ------------------------------------------------------------------------------------------------- the naive twin
def naive_entropy(p):
    return -sum(x * math.log(x) for x in p if x > 0) / math.log(len(p))


NAIVE = {
    "entropy": naive_entropy,
    "confidence": lambda p: p[0],
    "variation_ratio": lambda p: len(p) / (len(p) - 1) * (1 - max(p)),
    "qualitative_variation": lambda p: len(p) / (len(p) - 1) * (1 - sum(x * x for x in p)),
}


def naive_error(y, P, V, edges, w=None, power=1.0, correction=None):
    """Section 2.2, row by row: ranks by sorting (ties: lowest class first), bins by comparison with every edge."""
    n, C = P.shape
    w = np.ones(n) if w is None else w
    cells = {}
    for i in range(n):
        order = sorted(range(C), key=lambda k: (-P[i, k], k))
        q = [P[i, k] for k in order]
        r = [float(k == y[i]) for k in order]
        value = V(q)
        cell = sum(value > edge + 1e-12 for edge in edges[1:-1])
        cells.setdefault(cell, []).append((w[i], q, r))
    gaps, shares = [], []
    for rows in cells.values():
        weight = sum(row[0] for row in rows)
        q = [sum(row[0] * row[1][c] for row in rows) / weight for c in range(C)]
        r = [sum(row[0] * row[2][c] for row in rows) / weight for c in range(C)]
        observed = V(r)
        if correction is not None:
            observed = correction(observed, r, weight**2 / sum(row[0] ** 2 for row in rows), C)
        gaps.append(abs(V(q) - observed))
        shares.append(weight / w.sum())
    if math.isinf(power):
        return max(gaps)
    return sum(s * g**power for s, g in zip(shares, gaps, strict=True)) ** (1 / power)


def edges_of(name, C, bins):
    low = 1 / C if name == "confidence" else 0.0
    return [low + (1 - low) * m / bins for m in range(bins + 1)]


@st.composite
def several(draw, most=40):
    """Outcomes, predictions (Dirichlet, in tenths with ties, or certain) and whole-number weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    C, n = draw(st.integers(2, 6)), draw(st.integers(1, most))
    kind = draw(st.sampled_from(["smooth", "tenths", "certain", "halves"]))
    if kind == "smooth":
        P = rng.dirichlet(np.full(C, draw(st.sampled_from([0.1, 1.0, 10.0]))), n)
    elif kind == "tenths":
        P = rng.multinomial(10, np.full(C, 1 / C), n) / 10
    elif kind == "halves":
        P = rng.multinomial(2, np.full(C, 1 / C), n) / 2
    else:
        P = np.eye(C)[rng.integers(0, C, n)]
    return rng.integers(0, C, n), P, rng.integers(1, 5, n).astype(float)


@pytest.mark.parametrize("name", NAMED)
@given(batch=several())
def test_the_error_is_the_papers(name, batch):
    y, P, w = batch
    edges = edges_of(name, P.shape[1], 10)
    found = metrics.variation_calibration_error(y, P, variation=name)
    assert abs(found - naive_error(y, P, NAIVE[name], edges)) <= BOUND
    found = metrics.variation_calibration_error(y, P, variation=name, sample_weight=w)
    assert abs(found - naive_error(y, P, NAIVE[name], edges, w)) <= BOUND
    found = metrics.variation_calibration_error(y, P, variation=name, sample_weight=0.3 * w)
    assert abs(found - naive_error(y, P, NAIVE[name], edges, w)) <= BOUND


@pytest.mark.parametrize(("norm", "power"), [("l2", 2.0), (3, 3.0), ("max", math.inf)])
@given(batch=several(25))
def test_other_norms(norm, power, batch):
    y, P, w = batch
    found = metrics.variation_calibration_error(y, P, norm=norm, bins=4, sample_weight=w)
    naive = naive_error(y, P, naive_entropy, edges_of("entropy", P.shape[1], 4), w, power)
    exponent = 1.0 if math.isinf(power) else power
    assert abs(found**exponent - naive**exponent) <= BOUND


@given(batch=several(25))
def test_given_edges_range_and_a_callable(batch):
    y, P, w = batch
    edges = [0.0, 0.21, 0.52, 0.83]
    found = metrics.variation_calibration_error(y, P, bins=edges, sample_weight=w)
    assert abs(found - naive_error(y, P, naive_entropy, edges, w)) <= BOUND
    in_range = [0.25 + 0.5 * m / 4 for m in range(5)]
    found = metrics.variation_calibration_error(y, P, bins=4, range=(0.25, 0.75))
    assert abs(found - naive_error(y, P, naive_entropy, in_range)) <= BOUND
    gap = lambda ranked: ranked[:, 0] - ranked[:, -1]
    found = metrics.variation_calibration_error(y, P, variation=gap, bins=edges)
    # A callable's values are compared with the edges as they are.
    naive = naive_error(y, P, lambda p: p[0] - p[-1], [e - 1e-12 for e in edges])
    assert abs(found - naive) <= BOUND


def test_a_callables_bins_run_from_its_smallest_to_its_largest_value():
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(4), 500)
    y = rng.integers(0, 4, 500)
    spread = lambda ranked: 5 + 3 * ranked[:, 0]
    values = spread(np.sort(P, axis=1)[:, ::-1])
    low, high = values.min(), values.max()
    expected = naive_error(y, P, lambda p: 5 + 3 * p[0], [low + (high - low) * m / 10 for m in range(11)])
    assert abs(metrics.variation_calibration_error(y, P, variation=spread) - expected) <= BOUND


def test_equal_frequency_bins_are_numpys():
    rng = np.random.default_rng(4)
    for rows in (300, 70_001):
        P = rng.dirichlet(np.ones(3), rows)
        y = rng.integers(0, 3, rows)
        H = -(P * np.log(P)).sum(axis=1) / np.log(3)
        edges = np.quantile(H, np.arange(11) / 10)
        cell = np.clip(np.searchsorted(edges, H, side="left") - 1, 0, 9)
        order = np.argsort(-P, axis=1, kind="stable")
        q, r = np.take_along_axis(P, order, 1), order == y[:, None]
        total = 0.0
        for m in range(10):
            inside = cell == m
            total += inside.mean() * abs(naive_entropy(q[inside].mean(0)) - naive_entropy(r[inside].mean(0)))
        found = metrics.variation_calibration_error(y, P, strategy="quantile")
        assert abs(found - total) <= 1e-12


# ------------------------------------------------------------------------------------------- values and identities
def test_printed_values_of_the_measures():
    p = np.array([0.6, 0.25, 0.1, 0.05])
    assert round(float(NAMED["qualitative_variation"](p)), 7) == 0.7533333
    assert round(float(NAMED["variation_ratio"](p)), 7) == 0.5333333
    for name, measure in NAMED.items():
        assert measure(np.full(8, 1 / 8)) == (1 / 8 if name == "confidence" else 1.0)
        assert measure(np.eye(8)[0]) == (1.0 if name == "confidence" else 0.0)


@given(batch=several(60))
def test_the_first_rank_is_the_expected_error_exactly(batch):
    """With V the first rank's share, the error is ECE's in bins over [1/C, 1]: the same bits."""
    y, P, w = batch
    for weight in (None, w, 0.7 * w):
        for norm in ("l1", "l2", "max"):
            one = metrics.variation_calibration_error(y, P, variation="confidence", norm=norm, sample_weight=weight)
            two = metrics.expected_calibration_error(
                y, P, target="top", bins=10, range=(1 / P.shape[1], 1.0), norm=norm, sample_weight=weight
            )
            assert one == two if weight is None or np.all(weight == np.floor(weight)) else abs(one - two) <= BOUND


def test_with_the_maximum_the_papers_claim_is_false():
    """Binary, confidence .7, accuracy .3: the expected error is .4, the variation error of the maximum 0."""
    P = np.tile([0.7, 0.3], (1000, 1))
    y = (np.arange(1000) >= 300).astype(int)
    largest = lambda ranked: ranked.max(axis=1)
    assert metrics.variation_calibration_error(y, P, variation=largest, bins=[0.5, 1.0]) == pytest.approx(0, abs=1e-12)
    assert metrics.variation_calibration_error(y, P, variation="confidence") == pytest.approx(0.4, abs=1e-12)


@pytest.mark.parametrize(("classes", "limit"), [(3, 0.369644), (10, 0.130637)])
def test_the_uncertainty_error_of_flat_predictions(classes, limit):
    """(psi(C+1) - psi(2)) / ln C - (1 - H_C / C), and the sample within 5 standard errors of it."""
    from scipy.special import digamma

    harmonic = sum(1 / k for k in range(1, classes + 1))
    closed = (digamma(classes + 1) - digamma(2)) / math.log(classes) - (1 - harmonic / classes)
    assert round(closed, 6) == limit
    n = 400_000
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(classes), n)
    y = (np.cumsum(P, axis=1)[:, :-1] <= rng.random((n, 1))).sum(axis=1)
    H = -(P * np.log(P)).sum(axis=1) / math.log(classes)
    wrong = P.argmax(axis=1) != y
    standard_error = np.std(H - wrong) / math.sqrt(n)
    # Entropy exceeds the error rate in every bin of flat predictions but the emptiest, so the bins' gaps add up.
    assert abs(metrics.uncertainty_calibration_error(y, P) - closed) <= 5 * standard_error
    assert metrics.variation_calibration_error(y, P) < 0.01


def naive_uncertainty(y, P, bins=10):
    n, C = P.shape
    H = [naive_entropy(p) for p in P]
    wrong = [float(int(np.argmax(P[i])) != y[i]) for i in range(n)]
    cell = [sum(h > m / bins + 1e-12 for m in range(1, bins)) for h in H]
    total = 0.0
    for m in set(cell):
        inside = [i for i in range(n) if cell[i] == m]
        total += abs(sum(wrong[i] for i in inside) - sum(H[i] for i in inside)) / n
    return total


@given(batch=several())
def test_the_uncertainty_error(batch):
    y, P, _ = batch
    assert abs(metrics.uncertainty_calibration_error(y, P) - naive_uncertainty(y, P)) <= BOUND


def test_a_label_permuted_model_is_not_seen():
    """Outcomes in the frequencies .5, .3, .2 of classes 0, 1, 2, predicted as .2, .5, .3: documented blindness."""
    y = np.repeat([0, 1, 2], [50, 30, 20])
    P = np.tile([0.2, 0.5, 0.3], (100, 1))
    for name in ("entropy", "variation_ratio", "qualitative_variation"):
        assert metrics.variation_calibration_error(y, P, variation=name) == pytest.approx(0.0, abs=1e-12)
    # Class by class |.2 - .5|, |.5 - .3|, |.3 - .2|; the top label is right 30 times of 100 at confidence .5.
    assert metrics.classwise_calibration_error(y, P) == pytest.approx(0.2, abs=1e-12)
    assert metrics.variation_calibration_error(y, P, variation="confidence") == pytest.approx(0.2, abs=1e-12)


# ------------------------------------------------------------------------------------------------- bias correction
def miller_madow(value, r, size, C):
    return value + (sum(x > 0 for x in r) - 1) / (2 * size * math.log(C))


def unbiased_qualitative(value, r, size, C):
    return value * size / (size - 1) if size > 1 else value


@given(batch=several(25))
def test_bias_correction(batch):
    y, P, w = batch
    for name, rule in (("entropy", miller_madow), ("qualitative_variation", unbiased_qualitative)):
        found = metrics.variation_calibration_error(y, P, variation=name, bias_correction=True, sample_weight=w)
        expected = naive_error(y, P, NAIVE[name], edges_of(name, P.shape[1], 10), w, correction=rule)
        assert abs(found - expected) <= BOUND
    plain = metrics.variation_calibration_error(y, P, variation="confidence")
    assert metrics.variation_calibration_error(y, P, variation="confidence", bias_correction=True) == plain


def test_the_plug_in_entropy_is_low_and_the_correction_mends_it():
    """Mean observed entropy over 4,000 draws of 50 rows: low by (C-1)/(2 n ln C), within a tenth of it corrected."""
    rng = np.random.default_rng(7)
    q = np.array([0.4, 0.3, 0.2, 0.1])
    bias = 3 / (2 * 50 * math.log(4))
    drawn = rng.multinomial(50, q, 4000) / 50
    plain = NAMED["entropy"](drawn).mean() - NAMED["entropy"](q)
    assert plain == pytest.approx(-bias, rel=0.1)
    corrected = [miller_madow(NAMED["entropy"](r), r, 50, 4) for r in drawn]
    assert abs(np.mean(corrected) - NAMED["entropy"](q)) < 0.1 * bias


@pytest.mark.parametrize("variation", ["variation_ratio", lambda ranked: ranked[:, 0]])
def test_no_correction_is_made_up(variation):
    with pytest.raises(miscal.MiscalError, match="bias_correction"):
        metrics.variation_calibration_error([0, 1], [0.2, 0.7], variation=variation, bias_correction=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"variation": "entropie"}, "did you mean 'entropy'"),
        ({"variation": 3}, "known names"),
        ({"variation": lambda ranked: ranked}, "one number a row"),
        ({"variation": lambda ranked: np.full(len(ranked), np.nan)}, "finite"),
        ({"range": (1.0, 0.0)}, "low < high"),
        ({"range": 3}, "low, high"),
        ({"bins": 0}, "at least 1"),
        ({"strategy": "equal"}, "'uniform' or 'quantile'"),
        ({"norm": "l3"}, "norm"),
        ({"bias_correction": "yes"}, "True or False"),
    ],
)
def test_bad_parameters_are_refused(options, words):
    with pytest.raises(miscal.MiscalError, match=words):
        metrics.variation_calibration_error([0, 1, 2], np.full((3, 3), 1 / 3), **options)
