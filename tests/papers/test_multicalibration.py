"""Paper 004: the metric, written again from its equations, against ours."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from miscal import MiscalError, MiscalWarning, Predictions, by_subpopulation
from miscal.aggregate.subpopulations import ordered, ordered_real
from miscal.data.columns import Columns
from miscal.data.target import TargetData
from miscal.metrics import (
    kuiper_calibration_error,
    low_prevalence_weights,
    multicalibration_error,
    proportional_weights,
)
from miscal.metrics.subpopulation_errors import SubpopulationRequest
from studies.constructions import nested_subpopulations


# ------------------------------------------------------------------------------------------- the paper, naively
def partial_sums(s, r, w):
    """C_0, C_1, ..., one entry after each block of equal scores (eq. 1)."""
    sums = [0.0]
    for value in sorted(set(s.tolist())):
        block = s == value
        sums.append(sums[-1] + float(np.sum((r[block] - s[block]) * w[block])))
    return np.array(sums) / w.sum()


def kuiper(s, r, w):
    sums = partial_sums(s, r, w)
    return sums.max() - sums.min()  # eq. 2


def kuiper_by_intervals(s, r, w):
    """The largest absolute total over an interval of scores (eq. 3)."""
    values = sorted(set(s.tolist()))
    best = 0.0
    for low in values:
        for high in values:
            inside = (s >= low) & (s <= high)
            best = max(best, abs(float(np.sum((r[inside] - s[inside]) * w[inside]))))
    return best / w.sum()


def sigma(s, w):
    return math.sqrt(float(np.sum(s * (1 - s) * w**2))) / w.sum()  # eq. 5


def naive_error(s, r, w, masks):
    """Eq. 4."""
    best = kuiper(s, r, w)
    for mask in masks:
        own = kuiper(s[mask], r[mask], w[mask]) * sigma(s, w) / sigma(s[mask], w[mask])
        best = max(best, own)
    return best


def tied_batch(rng, n, steps=12):
    s = (rng.integers(1, steps, n)) / steps
    r = (rng.random(n) < np.clip(s + rng.normal(0, 0.1), 0, 1)).astype(int)
    return s, r


# ------------------------------------------------------------------------------------------------------- tests
@pytest.mark.parametrize("q", [3, 5, 7, 9, 11, 21, 33, 51, 101])
def test_appendix_f(q):
    data = nested_subpopulations(q)
    for given in (list(data.subpopulations), data.masks(), list(data.masks())):
        found = multicalibration_error(data.y_true, data.y_prob, subpopulations=given)
        assert abs(found - data.expected["multicalibration_error"]) < 1e-12
    ablated = multicalibration_error(data.y_true, data.y_prob, subpopulations=data.masks(), normalise=False)
    assert abs(ablated - data.expected["largest_kuiper"]) < 1e-12
    alone = multicalibration_error(data.y_true, data.y_prob, subpopulations=[])
    assert abs(alone - data.expected["kuiper_calibration_error"]) < 1e-12


def test_equation_2_is_equation_3(rng):
    for n in (6, 20, 60):
        s, r = tied_batch(rng, n)
        w = rng.random(n) + 0.1
        first, second = kuiper(s, r, w), kuiper_by_intervals(s, r, w)
        ours = multicalibration_error(r, s, subpopulations=[], sample_weight=w)
        assert abs(first - second) < 1e-12
        assert abs(first - ours) < 1e-12


@pytest.mark.parametrize("weights", ["none", "whole", "real"])
def test_brute_force_over_masks(rng, weights):
    for _ in range(10):
        n = int(rng.integers(20, 200))
        s, r = tied_batch(rng, n)
        w = {"none": np.ones(n), "whole": rng.integers(1, 5, n) * 1.0, "real": rng.lognormal(size=n)}[weights]
        masks = rng.random((15, n)) < rng.uniform(0.1, 0.9, (15, 1))
        masks = masks[masks.any(axis=1)]
        found = multicalibration_error(r, s, subpopulations=masks, sample_weight=None if weights == "none" else w)
        assert abs(found - naive_error(s, r, w, masks)) < 1e-12


def test_generated_are_what_their_masks_say(rng):
    """Generate by Algorithm 1, take the positions it found, and measure those masks naively."""
    n = 400
    s, r = tied_batch(rng, n, 60)
    columns = {"age": rng.integers(20, 60, n), "state": rng.choice(["CA", "NV", "TX", "NY"], n)}
    rows = ordered(TargetData(s, r.astype(np.uint8)))
    asked = SubpopulationRequest(Columns(columns), ["age", "state"], n, None, None, 10, 0.0, 0)
    found = asked.search(rows, 60)
    every = np.arange(len(found.stats))
    masks = np.zeros((every.size, n), bool)
    for k in every:
        masks[k, rows.order[found.members(k)]] = True
    assert masks[0].all()
    assert len(np.unique(masks, axis=0)) == every.size  # equal ones are merged
    assert (masks.sum(axis=1) >= 10).all()
    ours = multicalibration_error(r, s, columns, subpopulations=60)
    assert abs(ours - naive_error(s, r, np.ones(n), masks)) < 1e-12
    from miscal.cells.parse import rows_where

    for k in every[1:]:  # the words mean those rows
        np.testing.assert_array_equal(rows_where(found.define(k).words(), asked.columns), masks[k])


def naive_paths(column_values, least):
    """All subpopulations that median splits of ordinal columns can reach: Algorithm 1 without chance."""
    n = len(next(iter(column_values.values())))
    reached, waiting = set(), [frozenset(range(n))]
    while waiting:
        rows = waiting.pop()
        for values in column_values.values():
            inside = sorted(rows)
            distinct = np.unique(values[inside])
            if distinct.size < 2:
                continue
            median = np.median(distinct)
            for child in (
                frozenset(i for i in inside if values[i] < median),
                frozenset(i for i in inside if values[i] >= median),
            ):
                if len(child) >= least and child not in reached:
                    reached.add(child)
                    waiting.append(child)
    return reached


def test_every_reachable_subpopulation_is_reached(rng):
    n = 60
    s, r = tied_batch(rng, n)
    columns = {"a": rng.integers(0, 5, n), "b": rng.random(n).round(1)}
    rows = ordered(TargetData(s, r.astype(np.uint8)))
    asked = SubpopulationRequest(Columns(columns), ["a", "b"], n, None, None, 8, 0.0, 0)
    found = asked.search(rows, 10_000)
    ours = {frozenset(rows.order[found.members(k)].tolist()) for k in range(1, len(found.stats))}
    expected = naive_paths(columns, 8)
    assert ours <= expected
    assert len(ours) >= 0.95 * len(expected)  # random paths stop when 64 in a row bring nothing new


def test_ties_do_not_depend_on_the_order_of_rows(rng):
    """Calibrated scores rounded to .1 in a table sorted by outcome read as 6.7 sigma elsewhere."""
    n = 3000
    s = rng.integers(1, 10, n) / 10
    r = (rng.random(n) < s).astype(int)
    columns = rng.integers(0, 30, (n, 3))
    for w in (None, rng.integers(1, 4, n), rng.lognormal(size=n)):
        values = set()
        for order in (np.argsort(r, kind="stable"), np.argsort(-r, kind="stable"), rng.permutation(n)):
            weight = None if w is None else w[order]
            values.add(multicalibration_error(r[order], s[order], columns[order], sample_weight=weight))
        assert len(values) == 1


def test_whole_weights_are_repetitions(rng):
    n = 300
    s, r = tied_batch(rng, n)
    w = rng.integers(1, 4, n)
    mask = rng.random(n) < 0.4
    again = np.repeat(np.arange(n), w)
    kuiper_of = [
        multicalibration_error(r, s, subpopulations=[mask], sample_weight=w, normalise=False),
        multicalibration_error(r[again], s[again], subpopulations=[mask[again]], normalise=False),
    ]
    assert abs(kuiper_of[0] - kuiper_of[1]) < 1e-13


def test_rows_of_weight_zero_are_ignored(rng):
    n = 200
    s, r = tied_batch(rng, n)
    w = rng.integers(0, 3, n)
    mask = rng.random(n) < 0.5
    kept = w > 0
    whole = multicalibration_error(r, s, subpopulations=[mask, np.flatnonzero(~mask)], sample_weight=w)
    some = multicalibration_error(r[kept], s[kept], subpopulations=[mask[kept], ~mask[kept]], sample_weight=w[kept])
    assert whole == some


def test_full_population_alone_is_kuiper(rng):
    s, r = rng.random(500), rng.integers(0, 2, 500)
    assert abs(multicalibration_error(r, s, subpopulations=0) - kuiper_calibration_error(r, s)) < 1e-14


# ------------------------------------------------------------------------------------------------- appendices
def test_proportional_weights(rng):
    s, r = tied_batch(rng, 200)
    masks = rng.random((4, 200)) < 0.5
    for regularise, w in (("max", 1 / np.maximum(s, 0.2)), ("sum", 1 / (s + 0.2))):
        np.testing.assert_allclose(proportional_weights(s, rho=0.2, regularise=regularise), w, rtol=1e-15)
        weight = proportional_weights(s, rho=0.2, regularise=regularise)
        found = multicalibration_error(r, s, subpopulations=masks, sample_weight=weight)
        assert abs(found - naive_error(s, r, w, masks)) < 1e-12

    np.testing.assert_array_equal(proportional_weights(s, regularise="none"), 1 / s)
    with pytest.raises(MiscalError, match="above 0"):
        proportional_weights(s, rho=0)
    with pytest.raises(MiscalError, match="above 0 for weights of 1/p"):
        proportional_weights([0.0, 0.5], regularise="none")
    with pytest.raises(MiscalError, match="'max', 'sum', 'none'"):
        proportional_weights(s, regularise="min")


def appendix_weights(emphasis, s, r, w, rho):
    """Appendices A and B, row by row; prevalence is that of the sampling weights."""
    rate = sum(w[r == 1]) / sum(w)
    return {
        "proportional": [1 / rho if score <= rho else 1 / score for score in s],
        "proportional_sum": [1 / (score + rho) for score in s],
        "inverse_score": [1 / score for score in s],
        "low_prevalence": [1 / rate if outcome == 1 else 1.0 for outcome in r],
    }[emphasis]


@pytest.mark.parametrize("emphasis", ["proportional", "proportional_sum", "inverse_score", "low_prevalence"])
@pytest.mark.parametrize("weighted", [False, True])
def test_emphasis(rng, emphasis, weighted):
    s, r = tied_batch(rng, 300)
    masks = rng.random((5, 300)) < 0.4
    sampling = rng.lognormal(size=300) if weighted else None
    w = np.ones(300) if sampling is None else sampling
    expected = naive_error(s, r, w * appendix_weights(emphasis, s, r, w, 0.2), masks)
    options = {"subpopulations": masks, "emphasis": emphasis, "rho": 0.2, "variance": "paper"}
    found = multicalibration_error(r, s, sample_weight=sampling, **options)
    assert abs(found - expected) < 1e-12
    by = by_subpopulation(Predictions(r, s, weight=sampling), min_information=0, simulations=0, **options)
    assert by.value == found
    plain = multicalibration_error(r, s, subpopulations=masks, sample_weight=sampling)
    assert abs(plain - found) > 1e-4


def test_an_emphasis_of_the_score_needs_events_and_scores_above_0(rng):
    s, r = tied_batch(rng, 50)
    options = {"subpopulations": [], "emphasis": "inverse_score"}
    with pytest.raises(MiscalError, match="above 0 for weights of 1/p"):
        multicalibration_error(r, np.where(s > 0.5, s, 0.0), **options)
    with pytest.raises(MiscalError, match="binary responses"):
        multicalibration_error(r, s, response="real", **options)


def test_low_prevalence_weights(rng):
    s, r = tied_batch(rng, 200)
    w = np.where(r == 1, 200 / r.sum(), 1.0)
    np.testing.assert_allclose(low_prevalence_weights(r), w, rtol=1e-15)
    found = multicalibration_error(r, s, subpopulations=[], sample_weight=low_prevalence_weights(r))
    assert abs(found - kuiper(s, r, w)) < 1e-12
    masks = rng.random((4, 200)) < 0.5
    found = multicalibration_error(r, s, subpopulations=masks, sample_weight=w, variance="paper")
    assert abs(found - naive_error(s, r, w, masks)) < 1e-12


def equation_6(d, w):
    top = sum((d[j] - d[j + 1]) ** 2 * (w[j] + w[j + 1]) ** 2 for j in range(len(d) - 1))
    bottom = 4 * w.sum() * (w[0] + w[-1] + 2 * w[1:-1].sum())
    return math.sqrt(top / bottom)


def corrected_6(d, w):
    pairs = w[:-1] ** 2 + w[1:] ** 2
    top = float(np.sum((d[:-1] - d[1:]) ** 2 * pairs))
    return math.sqrt(np.sum(w**2) * top / (2 * pairs.sum())) / w.sum()


def residual_variances(s, r, w, masks, exposed=False):
    """Σw²(R-S)² of each mask, or what is usual for such scores where that is more; usual is the mean in ranges of S.

    There are as many ranges as have 200 rows each, 15 at most, of equally many rows. Where weights are exposure the
    variance of a sum grows with w, not with w².
    """
    ranges = min(max(s.size // 200, 1), 15)
    borders = np.unique(np.quantile(s, np.arange(1, ranges) / ranges))
    place = np.array([sum(value >= border for border in borders) for value in s])
    squares, size = w**2 * (r - s) ** 2, w if exposed else w**2
    usual = np.array([squares[place == k].sum() / size[place == k].sum() for k in range(place.max() + 1)])[place] * size
    return [max(squares[mask].sum(), usual[mask].sum()) for mask in masks]


@pytest.mark.parametrize("n", [150, 1000])
@pytest.mark.parametrize("exposed", [False, True])
def test_real_responses_by_their_residuals(rng, n, exposed):
    s = np.sort(rng.gamma(2, 10, n))
    r = s * rng.lognormal(-0.5, 1, n)
    w = rng.lognormal(size=n)
    masks = [np.ones(n, bool), s < np.median(s), *(rng.random((6, n)) < 0.1)]
    full, *others = residual_variances(s, r, w, masks, exposed)
    expected = max(
        kuiper(s[mask], r[mask], w[mask]) * w[mask].sum() / w.sum() * math.sqrt(full / own)
        for mask, own in zip(masks, [full, *others], strict=True)
    )
    options = {"exposure": w} if exposed else {"sample_weight": w}
    amount = r * w if exposed else r
    found = multicalibration_error(amount, s, subpopulations=masks[1:], response="real", **options)
    assert abs(found - expected) < 1e-12 * expected


def test_a_subpopulation_without_events_does_not_decide_the_metric():
    """Among counts of equal predictions neighbours that have none do not differ: eq. 6 is 0, M infinite."""
    rng = np.random.default_rng(3)
    s = np.full(2000, 0.1)
    r = rng.poisson(s)
    quiet = np.flatnonzero(r == 0)[:20]
    given = {"subpopulations": [quiet], "response": "count"}
    assert multicalibration_error(r, s, **given) < 3 * math.sqrt(r.var() / 2000)
    for variance in ("corrected", "paper"):
        with pytest.warns(MiscalWarning, match="neighbouring residuals are all equal"):
            assert multicalibration_error(r, s, **given, variance=variance) == math.inf


@pytest.mark.parametrize("variance", ["paper", "corrected"])
def test_real_responses(rng, variance):
    n = 150
    s = np.sort(rng.normal(50, 10, n))
    r = s + rng.normal(0, 3, n)
    w = rng.lognormal(size=n)
    mask = rng.random(n) < 0.5
    spread = equation_6 if variance == "paper" else corrected_6
    full, own = spread(r - s, w), spread((r - s)[mask], w[mask])
    expected = max(kuiper(s, r, w), kuiper(s[mask], r[mask], w[mask]) * full / own)
    order = rng.permutation(n)
    found = multicalibration_error(
        r[order], s[order], subpopulations=[mask[order]], sample_weight=w[order], response="real", variance=variance
    )
    assert abs(found - expected) < 1e-12


def test_real_variances_agree_for_equal_weights(rng):
    s, r = rng.normal(size=80), rng.normal(size=80)
    values = {
        multicalibration_error(r, s, subpopulations=[np.arange(40)], response="real", variance=v).__round__(12)
        for v in ("paper", "corrected")
    }
    assert len(values) == 1


def test_equation_6_of_alternating_weights_has_78_percent_of_the_deviation():
    """Its mean is 2·Σ(w_j + w_{j+1})² / (4·Σw·Σ(w_j + w_{j+1})) times that of a row, where Σw²/(Σw)² is right."""
    w = np.tile([1.0, 9.0], 2000)
    ends = w[:-1] + w[1:]
    mean = 2 * np.sum(ends**2) / (4 * w.sum() * ends.sum())
    assert math.sqrt(mean / (np.sum(w**2) / w.sum() ** 2)) == pytest.approx(1 / math.sqrt(1.64), rel=1e-3)
    rng = np.random.default_rng(0)
    found = np.mean([equation_6(rng.normal(size=w.size), w) ** 2 for _ in range(20)])
    assert found == pytest.approx(mean, rel=0.03)


def test_corrected_variance_is_unbiased_where_the_papers_is_not():
    """Rough weights: the standard deviation by eq. 6 reads low (.80 of the truth), the corrected form does not."""
    rng = np.random.default_rng(1)
    n, ratios = 400, {"paper": [], "corrected": []}
    w = rng.lognormal(size=n)
    from miscal.aggregate.subpopulations import walk_lists
    from miscal.kernels.subpopulation import CORRECTED, PAPER, VARIANCE

    for _ in range(200):
        s = rng.random(n)
        r = s + rng.normal(size=n)
        for name, how in (("paper", PAPER), ("corrected", CORRECTED)):
            rows = ordered_real(s, r, w, how)
            ratios[name].append(walk_lists(rows, [rows.everyone])[0, VARIANCE] / np.sum(w**2))
    standard_error = np.std(ratios["corrected"], ddof=1) / math.sqrt(200)
    assert abs(np.mean(ratios["corrected"]) - 1) < 3 * standard_error < 0.1
    assert math.sqrt(np.mean(ratios["paper"])) < 0.9


def test_real_responses_with_ties_do_not_depend_on_the_order_of_rows(rng):
    s = rng.integers(0, 5, 200) * 1.0
    r = s + rng.integers(-2, 3, 200)
    mask = rng.random(200) < 0.5
    values = set()
    for _ in range(5):
        order = rng.permutation(200)
        values.add(multicalibration_error(r[order], s[order], subpopulations=[mask[order]], response="real"))
    assert len(values) == 1


# -------------------------------------------------------------------------------------------------- bad input
def test_constant_covariates_leave_the_full_population(rng):
    s, r = tied_batch(rng, 100)
    assert multicalibration_error(r, s, np.ones((100, 3))) == multicalibration_error(r, s, subpopulations=[])


def test_smallest_size_beyond_the_rows_leaves_the_full_population(rng):
    s, r = tied_batch(rng, 50)
    x = rng.random((50, 2))
    assert multicalibration_error(r, s, x, min_size=1000) == multicalibration_error(r, s, subpopulations=[])


def test_smallest_size_does_not_filter_what_is_given(rng):
    s, r = tied_batch(rng, 100)
    few = [np.array([3])]
    expected = max(kuiper(s, r, np.ones(100)), abs(r[3] - s[3]) * sigma(s, np.ones(100)) / math.sqrt(s[3] * (1 - s[3])))
    assert abs(multicalibration_error(r, s, subpopulations=few, min_size=50) - expected) < 1e-12


def test_one_row():
    with pytest.warns(MiscalWarning, match="single class"):
        assert multicalibration_error([1], [0.25], np.array([[1.0]])) == 0.75


def test_all_nominal_and_missing(rng):
    n = 500
    s, r = tied_batch(rng, n)
    state = rng.choice(["CA", "NV", "TX", None], n).astype(object)
    age = np.where(rng.random(n) < 0.2, np.nan, rng.integers(20, 70, n))
    found = multicalibration_error(r, s, {"state": state, "age": age}, subpopulations=200)
    assert found >= multicalibration_error(r, s, subpopulations=[])
    missing = np.isnan(age)
    only = multicalibration_error(r, s, {"age": age}, subpopulations=["age is missing"])
    assert only == multicalibration_error(r, s, subpopulations=[missing])


def test_columns_without_order_by_name_position_or_mask(rng):
    s, r = tied_batch(rng, 300)
    table = np.column_stack([rng.random(300), rng.integers(0, 4, 300)])
    named = multicalibration_error(r, s, {"0": table[:, 0], "1": table[:, 1]}, subpopulations=50, nominal=["1"])
    for way in ([1], [-1], [False, True], np.array([False, True])):
        assert multicalibration_error(r, s, table, subpopulations=50, nominal=way) == named
    assert multicalibration_error(r, s, table, subpopulations=50) != named


def test_contradicted_certainty_is_infinite(rng):
    s = np.concatenate([rng.random(50), np.zeros(5)])
    r = np.concatenate([rng.integers(0, 2, 50), np.array([0, 0, 1, 0, 0])])
    certain = np.arange(50, 55)
    with pytest.warns(MiscalWarning, match="infinite"):
        assert multicalibration_error(r, s, subpopulations=[certain]) == math.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        r[52] = 0  # 0/0 is 0
        assert multicalibration_error(r, s, subpopulations=[certain]) < math.inf
        # A population that is certain throughout keeps its own error.
        assert multicalibration_error([1, 0, 0, 1], [0.0, 0.0, 1.0, 1.0], subpopulations=[[0]]) == 0.25


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs columns"),
        ({"subpopulations": np.ones((2, 3), bool)}, "as many truth values"),
        ({"subpopulations": np.ones((2, 4))}, "truth values of shape"),
        ({"subpopulations": [[9]]}, "row numbers below 4"),
        ({"subpopulations": [[0.5]]}, "row numbers"),
        ({"subpopulations": -1}, "at least 0"),
        ({"subpopulations": True}, "must be a number of subpopulations"),
        ({"subpopulations": "age < 3"}, "needs features"),
        ({"features": np.ones((3, 2))}, "one value a row"),
        ({"features": {"a": [1, 2, 3, 4]}, "nominal": "b"}, "must be names or positions of columns"),
        ({"features": {"a": [1, 2, 3, 4]}, "nominal": [True, False]}, "one truth value for each of the 1 columns"),
        ({"features": {"a": [1, 2, 3, 4]}, "subpopulations": "b < 3"}, "not among the columns"),
        ({"features": {"a": [1, 2, 3, 4]}, "subpopulations": "a < x"}, "cannot be understood"),
        ({"features": {"a": [1, 2, 3, 4]}, "subpopulations": "a ; 3"}, "cannot be understood"),
        ({"subpopulations": [], "response": "rate"}, "one of 'binary', 'real', 'count'"),
        ({"subpopulations": [], "variance": "x"}, "one of 'residual', 'corrected', 'paper'"),
        ({"subpopulations": [], "exposure": [1.0, 1.0, 1.0, 1.0]}, "exposure"),
        ({"subpopulations": [], "min_size": 0}, "at least 1"),
        ({"subpopulations": [], "min_information": -1}, "at least 0"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(MiscalError, match=words):
        multicalibration_error([0, 1, 0, 1], [0.2, 0.4, 0.6, 0.8], **options)
