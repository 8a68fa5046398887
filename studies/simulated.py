"""Data of known truth that only tests and studies draw: clusters, sampling weights, a score wrong everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from miscal.data.checks import number, whole
from miscal.datasets import WIDE, Synthetic, calibrated_record, draw_columns, draw_outcomes, draw_scores, generator


def clustered(
    n: int = 10_000,
    *,
    rows_each: int = 5,
    correlation: float = 0.5,
    shape: Sequence[float] = WIDE,
    random_state: object = 0,
) -> Synthetic:
    """Draw calibrated predictions whose outcomes come in clusters, such as patients with five visits each.

    Row j of patient i has y = 1 if sqrt(c) u_i + sqrt(1 - c) e_ij < z(p_ij), with u and e standard normal and z the
    normal quantile. So P(y = 1) = p exactly for every row, and the rows of a patient move together: a test that takes
    rows for independent finds too much.

    Parameters
    ----------
    n : int
        Rows; the last patient may have fewer than ``rows_each``.
    rows_each : int
        Rows of a patient.
    correlation : float in [0, 1]
        The latent correlation c between two rows of a patient.
    shape : two numbers
        The beta distribution of the scores. A patient's scores are alike: half a logit's spread around its own.
    random_state : int, Generator or None
        The seed.

    Returns
    -------
    Synthetic
        With ``cluster``, and the columns of the patient: region, product, age, income, member, x, y, and visit.

    Examples
    --------
    >>> data = clustered(1000)
    >>> len(np.unique(data.cluster))
    200
    """
    n, rows_each = whole("n", n, 1), whole("rows_each", rows_each, 1)
    correlation, random = number("correlation", correlation, 0.0, 1.0), generator(random_state)
    cluster = np.arange(n, dtype=np.int64) // rows_each
    patients = int(cluster[-1]) + 1
    base = special.logit(draw_scores(patients, shape, random))
    y_prob = special.expit(base[cluster] + 0.5 * random.standard_normal(n))
    shared = random.standard_normal(patients)[cluster]
    latent = np.sqrt(correlation) * shared + np.sqrt(1.0 - correlation) * random.standard_normal(n)
    y_true = (latent < special.ndtri(y_prob)).astype(np.int64)
    columns = {name: values[cluster] for name, values in draw_columns(patients, random).items()}
    columns["visit"] = np.arange(n, dtype=np.int64) % rows_each + 1
    return replace(calibrated_record(y_true, y_prob, columns), cluster=cluster)


def weighted(
    n: int = 10_000,
    *,
    spread: float = 1.0,
    shape: Sequence[float] = WIDE,
    random_state: object = 0,
) -> Synthetic:
    """Draw calibrated predictions with lognormal sampling weights, w = exp(spread · z).

    The weights say nothing about the outcome, so the data are calibrated with and without them; but the noise is that
    of fewer rows: n / (1 + var(w) / mean(w)²) = n · exp(-spread²) in expectation, about a third at spread 1.

    Examples
    --------
    >>> data = weighted(100_000)
    >>> bool(0.3 < data.weight.sum() ** 2 / (data.weight**2).sum() / 100_000 < 0.45)
    True
    """
    n, random = whole("n", n, 1), generator(random_state)
    weight = np.exp(number("spread", spread, 0.0, 10.0) * random.standard_normal(n))
    y_prob = draw_scores(n, shape, random)
    made = calibrated_record(draw_outcomes(y_prob, random), y_prob, draw_columns(n, random))
    return replace(made, weight=weight)


def distorted(
    n: int = 10_000,
    *,
    slope: float = 0.7,
    intercept: float = 0.0,
    shape: Sequence[float] = WIDE,
    random_state: object = 0,
) -> Synthetic:
    """Draw predictions that are wrong everywhere, by a slope and an intercept of the logit.

    logit(truth) = intercept + slope · logit(predicted), so a logistic recalibration finds exactly these two numbers:
    slope < 1 is over-confidence, intercept < 0 over-prediction.

    Examples
    --------
    >>> distorted(1000, slope=1.0, intercept=-0.5)
    Synthetic(1000 rows, where='everywhere', gap=0.07481)
    """
    n, random = whole("n", n, 1), generator(random_state)
    slope, intercept = number("slope", slope, -100.0, 100.0), number("intercept", intercept, -100.0, 100.0)
    y_prob = draw_scores(n, shape, random)
    truth = np.asarray(special.expit(intercept + slope * special.logit(y_prob)), dtype=np.float64)
    columns, everywhere = draw_columns(n, random), np.ones(n, dtype=np.bool_)
    found = float((y_prob - truth).mean())
    return Synthetic(draw_outcomes(truth, random), y_prob, truth, columns, "everywhere", everywhere, found)
