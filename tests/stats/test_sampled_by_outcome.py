"""A small piece of studies/sampled_by_outcome.py: weights that know the outcome are recognised and judged rightly."""

from __future__ import annotations

import numpy as np
import pytest

import miscal
from miscal.data.target import select_target
from miscal.stats.null_model import choose_null
from studies import sampled_by_outcome as study


@pytest.mark.parametrize("kept", ["events", "non-events"])
def test_uneven_weights_of_a_sample_by_outcome_raise_no_alarms(kept):
    row = study.row(kept, "stratum of 1.3", 25)
    assert row["recognised"] == 25
    assert row["kept"], row


def test_a_planted_error_is_still_seen():
    row = study.row("non-events", "stratum of 1.3", 8, shift=0.6)
    assert min(row["counts"][name][0] for name in study.TESTS) >= 7, row


@pytest.mark.parametrize(("kept", "scale"), [("events", 10.0), ("non-events", 10.0)])
def test_the_usual_noise_is_the_product_of_both_weights(kept, scale):
    """One kind weighs 10, the other 1: w(y - p) has the variance 10·p(1 - p), and sums of samples vary so."""
    found = [select_target(study.sample(seed, kept, "as sampled")) for seed in range(60)]
    spreads = [choose_null(each, "bernoulli").residual_variance for each in found]
    assert np.mean([each.scale for each in spreads]) == pytest.approx(scale, rel=0.05)
    usual = [
        each.of_sum(rows.predicted, rows.mean_weight, rows.variance_weight).sum()
        for each, rows in zip(spreads, found, strict=True)
    ]
    off = [float(np.sum(rows.weight * (rows.observed - rows.predicted))) for rows in found]
    assert np.mean(np.square(off)) == pytest.approx(np.mean(usual), rel=0.6)  # 60 squares of a normal: ± 18%


def test_cells_are_judged_by_the_usual_noise_where_few_events_were_kept():
    """By their own residuals alone 23 of the first 200 calibrated tables alarmed along a variable, at 5%."""
    samples = [study.sample(seed, "events", "as sampled") for seed in range(60)]
    along = [miscal.by_variable(each, "age", curve=False, random_state=seed) for seed, each in enumerate(samples)]
    across = [miscal.by_field(each, "region", random_state=seed) for seed, each in enumerate(samples)]
    assert sum(each.p_value <= 0.05 for each in along) <= 5
    assert sum(each.p_value <= 0.05 for each in across) <= 5
