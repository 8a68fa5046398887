"""Calibrated data by design: every outcome is drawn from the probability that is predicted for it.

What a test finds here is a false alarm.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from miscal.data.errors import refusal
from miscal.datasets.records import Codes, Floats, Synthetic, generator, number, whole

WIDE = (0.8, 1.6)
REGIONS = np.array(["North", "East", "South", "West", "Coast", "Hills", "Lakes", "Islands"])
REGION_SHARES = np.array([0.24, 0.20, 0.16, 0.13, 0.11, 0.08, 0.05, 0.03])
PRODUCTS = np.array(["basic", "plus", "family", "premium"])


def draw_columns(n: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw columns that say nothing about the outcome: two fields, two variables, a flag and a place in the plane."""
    return {
        "region": REGIONS[random.choice(len(REGIONS), n, p=REGION_SHARES)],
        "product": PRODUCTS[random.integers(len(PRODUCTS), size=n)],
        "age": np.floor(random.uniform(18.0, 90.0, n)),
        "income": np.round(random.lognormal(10.3, 0.6, n), 2),
        "member": random.random(n) < 0.5,
        "x": random.random(n),
        "y": random.random(n),
    }


def draw_scores(n: int, shape: Sequence[float], random: np.random.Generator) -> Floats:
    """Draw probabilities from a beta distribution."""
    pair = tuple(shape) if isinstance(shape, Sequence | np.ndarray) else ()
    if len(pair) != 2:
        raise refusal("must be the two parameters of a beta distribution", where="'shape'", got=f"got {shape!r}")
    first, second = (number("shape", value, 0.0, np.inf) for value in pair)
    # Far in the tails of a very skewed shape a draw can round to 0 or 1, where no logit exists.
    return np.clip(random.beta(first, second, n), 1e-300, 1.0 - 2.0**-53)


def draw_outcomes(truth: Floats, random: np.random.Generator) -> Codes:
    """Draw 0 or 1 for each probability."""
    return (random.random(len(truth)) < truth).astype(np.int64)


def calibrated_record(
    y_true: Codes,
    y_prob: Floats,
    columns: dict[str, np.ndarray],
    *,
    weight: Floats | None = None,
    cluster: Codes | None = None,
) -> Synthetic:
    """Gather calibrated data: the truth is what is predicted, and nothing is planted."""
    nothing = np.zeros(len(y_true), dtype=np.bool_)
    return Synthetic(y_true, y_prob, y_prob.copy(), columns, "nowhere", nothing, 0.0, weight, cluster)


def calibrated(
    n: int = 10_000,
    *,
    shape: Sequence[float] = WIDE,
    rate: float | None = None,
    step: float | None = None,
    random_state: object = 0,
) -> Synthetic:
    """Draw calibrated binary predictions: p from a beta distribution, then y = 1 with probability p.

    Parameters
    ----------
    n : int
        Rows.
    shape : two numbers
        The beta distribution's parameters.
    rate : float, optional
        For rare events: the distribution is Beta(1, (1 - rate) / rate) instead, with that mean. Try .01 and .001.
    step : float, optional
        Round p to multiples of this (.1, .01) before y is drawn, so that scores tie and are still calibrated;
        1 / step must be whole.
    random_state : int, Generator or None
        The seed.

    Returns
    -------
    Synthetic
        With columns region, product, age, income, member, x, y, none of which tells anything about the outcome.

    Examples
    --------
    >>> data = calibrated(1000, step=0.1)
    >>> data
    Synthetic(1000 rows, where='nowhere', gap=0)
    >>> len(np.unique(data.y_prob))
    11
    """
    n, random = whole("n", n, 1), generator(random_state)
    if rate is not None:
        rate = number("rate", rate, 0.0, 1.0)
        shape = (1.0, (1.0 - rate) / rate)
    y_prob = draw_scores(n, shape, random)
    if step is not None:
        parts = 1.0 / number("step", step, 0.0, 1.0, closed=True) if step else 0.5
        if abs(parts - round(parts)) > 1e-9 * parts:
            raise refusal("must divide 1", where="'step'", got=f"got {step!r}", hint="try step=0.1 or step=0.01")
        y_prob = np.round(y_prob * round(parts)) / round(parts)
    return calibrated_record(draw_outcomes(y_prob, random), y_prob, draw_columns(n, random))


def calibrated_classes(
    n: int = 10_000,
    *,
    n_classes: int = 3,
    concentration: str | Sequence[float] = "flat",
    random_state: object = 0,
) -> Synthetic:
    """Draw calibrated predictions of several classes: p from a Dirichlet distribution, then the class from p.

    Parameters
    ----------
    n : int
        Rows.
    n_classes : int
        Number of classes K.
    concentration : "flat", "skewed" or K positive numbers
        flat is (1, ..., 1); skewed is (10, 1, ..., 1), a first class that is usually right.
    random_state : int, Generator or None
        The seed.

    Examples
    --------
    >>> data = calibrated_classes(1000, n_classes=4, concentration="skewed")
    >>> data.y_prob.shape, bool(np.mean(data.y_true == 0) > 0.6)
    ((1000, 4), True)
    """
    n, n_classes, random = whole("n", n, 1), whole("n_classes", n_classes, 2), generator(random_state)
    if isinstance(concentration, str):
        if concentration not in {"flat", "skewed"}:
            raise refusal("must be 'flat', 'skewed' or numbers", where="'concentration'", got=f"got {concentration!r}")
        alpha = [10.0 if concentration == "skewed" else 1.0, *[1.0] * (n_classes - 1)]
    else:
        given = concentration if isinstance(concentration, Sequence | np.ndarray) else ()
        alpha = [number("concentration", value, 0.0, np.inf) for value in given]
        if len(alpha) != n_classes:
            raise refusal("must have one number a class", where="'concentration'", got=f"got {len(alpha)}")
    y_prob = random.dirichlet(alpha, n)
    # The class is the first whose cumulative probability exceeds a uniform draw; the last one catches the rounding.
    y_true = (np.cumsum(y_prob, axis=1)[:, :-1] <= random.random((n, 1))).sum(axis=1).astype(np.int64)
    return calibrated_record(y_true, y_prob, draw_columns(n, random))


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
    from scipy.special import expit, logit, ndtri

    n, rows_each = whole("n", n, 1), whole("rows_each", rows_each, 1)
    correlation, random = number("correlation", correlation, 0.0, 1.0, closed=True), generator(random_state)
    cluster = np.arange(n, dtype=np.int64) // rows_each
    patients = int(cluster[-1]) + 1
    base = logit(draw_scores(patients, shape, random))
    y_prob = expit(base[cluster] + 0.5 * random.standard_normal(n))
    shared = random.standard_normal(patients)[cluster]
    latent = np.sqrt(correlation) * shared + np.sqrt(1.0 - correlation) * random.standard_normal(n)
    y_true = (latent < ndtri(y_prob)).astype(np.int64)
    columns = {name: values[cluster] for name, values in draw_columns(patients, random).items()}
    columns["visit"] = np.arange(n, dtype=np.int64) % rows_each + 1
    return calibrated_record(y_true, y_prob, columns, cluster=cluster)


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
    weight = np.exp(number("spread", spread, 0.0, 10.0, closed=True) * random.standard_normal(n))
    y_prob = draw_scores(n, shape, random)
    return calibrated_record(draw_outcomes(y_prob, random), y_prob, draw_columns(n, random), weight=weight)
