"""Data that are miscalibrated by a known amount in a known place.

Scores are drawn the same way everywhere, so the score alone does not betray the place. In the planted rows the true
probability is the score moved by one shift on the logit, solved so that the mean gap is exactly the one asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from miscal.data.errors import nearest, refusal
from miscal.datasets.records import Booleans, Floats, Synthetic, generator, number, whole
from miscal.datasets.synthetic import WIDE, draw_columns, draw_outcomes, draw_scores

RADIUS = 0.2
LARGEST_SHIFT = 700.0
Columns = Mapping[str, np.ndarray]
PLACES: dict[str, tuple[str, Callable[[Columns], Booleans]]] = {
    "field": ("region = South", lambda c: c["region"] == "South"),
    "variable": ("50 <= age < 60", lambda c: (c["age"] >= 50) & (c["age"] < 60)),
    "pair": ("region = East and product = plus", lambda c: (c["region"] == "East") & (c["product"] == "plus")),
    "subpopulation": (
        "age >= 54 and member and income < 30000",
        lambda c: (c["age"] >= 54) & c["member"] & (c["income"] < 30_000),
    ),
    "neighbourhood": (
        "within 0.2 of (x, y) = (0.7, 0.3)",
        lambda c: (c["x"] - 0.7) ** 2 + (c["y"] - 0.3) ** 2 <= RADIUS**2,
    ),
}


def moved(y_prob: Floats, shift: float) -> Floats:
    """Return the probabilities with a shift taken from their logit; ends included, no overflow."""
    from scipy.special import expit, logit

    return np.asarray(expit(logit(y_prob) - shift), dtype=np.float64)


def truth_with_gap(y_prob: Floats, gap: float) -> Floats:
    """Return true probabilities whose mean is that of ``y_prob`` less ``gap``, by one shift of the logit."""
    from scipy.optimize import brentq

    if gap == 0.0 or not len(y_prob):
        return y_prob.copy()
    mean = float(y_prob.mean())
    if not mean - 1.0 < gap < mean:
        raise refusal(
            f"must leave a rate between 0 and 1: above {mean - 1.0:.3g} and below {mean:.3g} for these scores",
            where="'gap'",
            got=f"got {gap!r}",
        )

    def excess(shift: float) -> float:
        return mean - float(moved(y_prob, shift).mean()) - gap

    shift = float(brentq(excess, -LARGEST_SHIFT, LARGEST_SHIFT, xtol=1e-14, rtol=1e-14))
    return moved(y_prob, shift)


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
    gap = number("gap", gap, -1.0, 1.0)
    if place not in PLACES:
        raise refusal("must name a kind of place", where="'place'", got=f"got {place!r}", hint=nearest(place, PLACES))
    columns = draw_columns(n, random)
    y_prob = draw_scores(n, shape, random)
    words, find = PLACES[place]
    rows = np.asarray(find(columns), dtype=np.bool_)
    if not rows.any():
        raise refusal("is too small: no row fell in the place", where="'n'", got=f"got {n}", hint="take more rows")
    truth = y_prob.copy()
    truth[rows] = truth_with_gap(y_prob[rows], gap)
    if balanced:
        if rows.all():
            raise refusal("needs rows outside the place", where="'balanced'", got=f"n = {n}", hint="take more rows")
        truth[~rows] = truth_with_gap(y_prob[~rows], -gap * rows.sum() / (~rows).sum())
    found = float((y_prob - truth)[rows].mean())
    return Synthetic(draw_outcomes(truth, random), y_prob, truth, columns, words, rows, found)


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
    from scipy.special import expit, logit

    n, random = whole("n", n, 1), generator(random_state)
    slope, intercept = number("slope", slope, -100.0, 100.0), number("intercept", intercept, -100.0, 100.0)
    y_prob = draw_scores(n, shape, random)
    truth = np.asarray(expit(intercept + slope * logit(y_prob)), dtype=np.float64)
    columns, everywhere = draw_columns(n, random), np.ones(n, dtype=np.bool_)
    found = float((y_prob - truth).mean())
    return Synthetic(draw_outcomes(truth, random), y_prob, truth, columns, "everywhere", everywhere, found)
