"""The papers' own examples: data whose metrics are known exactly.

The theorems of Kelly & Smyth speak of continuous scores. Here the scores are the midpoints of an even number of equal
steps in each half, and every score occurs with every value of the variable equally often, with a whole number of right
answers. The kinks of the papers' integrals then fall between steps, so the sums over rows equal the integrals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from miscal import Predictions
from miscal.data.checks import Floats, Integers, number, whole
from miscal.data.errors import refusal
from miscal.datasets import Booleans

LARGEST_DENOMINATOR = 1000


@dataclass(frozen=True, slots=True, eq=False)
class Construction:
    """Data without any chance in it, whose metrics are known from a paper's formulas.

    Attributes
    ----------
    y_true, y_prob : array
        Outcomes and probabilities.
    columns : mapping of name to array (n,)
        The variable of the theorem.
    expected : mapping of name to float
        Exact values, under the names of the metrics that give them.
    score_edges, variable_edges : array or None
        Edges that part every two distinct scores, or values of the variable; with them as ``bins`` a binned metric
        has its exact value.
    subpopulations : tuple of index arrays
        Without the full population; empty where the paper has none.
    """

    y_true: Integers
    y_prob: Floats
    columns: Mapping[str, npt.NDArray[Any]]
    expected: Mapping[str, float]
    score_edges: Floats | None = None
    variable_edges: Floats | None = None
    subpopulations: tuple[Integers, ...] = field(default=())

    def masks(self) -> Booleans:
        """Return the subpopulations as boolean rows, (number of subpopulations, n)."""
        made = np.zeros((len(self.subpopulations), len(self.y_true)), dtype=np.bool_)
        for row, indices in zip(made, self.subpopulations, strict=True):
            row[indices] = True
        return made

    def predictions(self) -> Predictions:
        """Return the same data as validated predictions."""
        return Predictions(self.y_true, self.y_prob, columns=dict(self.columns))

    def __repr__(self) -> str:
        known = ", ".join(f"{name}={value:.6g}" for name, value in self.expected.items())
        return f"Construction({len(self.y_true)} rows, {known})"


def edges_between(values: Floats) -> Floats:
    """Return edges that part every two neighbouring distinct values."""
    distinct = np.unique(values)
    inner = (distinct[1:] + distinct[:-1]) / 2.0
    return np.concatenate([[min(0.0, distinct[0])], inner, [max(1.0, distinct[-1])]])


def halves(low: Floats, high: Floats, steps: int) -> Floats:
    """Return the midpoints of equal steps of two intervals, one after the other."""
    middle = (np.arange(steps) + 0.5) / steps
    return np.concatenate([low[0] + (low[1] - low[0]) * middle, high[0] + (high[1] - high[0]) * middle])


def answers(right: Integers, repeats: int) -> Integers:
    """Return ``repeats`` 0/1 answers for each count, the right ones first."""
    return (np.arange(repeats) < right[:, None]).astype(np.int64).ravel()


def as_classes(score: Floats, right: Integers, n_classes: int) -> tuple[Integers, Floats]:
    """Return outcomes and probabilities whose top score and its correctness are the ones given.

    Two classes: the label predicted is always 1, so that "positive" and "top" compare the same. More: the predicted
    class changes from row to row, a wrong answer is the next class, and the rest of the probability is shared equally.
    """
    if n_classes == 2:
        return right, score
    row = np.arange(len(score))
    label = row % n_classes
    y_prob = np.repeat(((1.0 - score) / (n_classes - 1))[:, None], n_classes, axis=1)
    y_prob[row, label] = score
    return np.where(right == 1, label, (label + 1) % n_classes), y_prob


def assemble(score: Floats, right: Integers, repeats: int, n_classes: int, expected: dict[str, float]) -> Construction:
    """Cross scores with values of the variable; ``right`` (scores, values) counts the right answers of ``repeats``."""
    values = right.shape[1]
    variable = (np.arange(values) + 0.5) / values
    every_score = np.repeat(score, values * repeats)
    every_variable = np.tile(np.repeat(variable, repeats), len(score))
    y_true, y_prob = as_classes(every_score, answers(right.ravel(), repeats), n_classes)
    return Construction(
        y_true,
        y_prob,
        {"variable": every_variable},
        expected,
        score_edges=edges_between(score),
        variable_edges=edges_between(variable),
    )


def checked(n_classes: int, alpha: float, steps: int, values: int) -> tuple[int, Fraction, int, int]:
    """Check the parameters that the first two theorems share; alpha becomes a fraction."""
    n_classes, steps, values = (
        whole("n_classes", n_classes, 2), whole("steps", steps, 2), whole("values", values, 2),
    )  # fmt: skip
    number("alpha", alpha, 0.0, 0.25)
    exact = Fraction(alpha).limit_denominator(LARGEST_DENOMINATOR)
    if abs(float(exact) - alpha) > 1e-12:
        raise refusal("must be a fraction such as .1 or 1/8", where="'alpha'", got=f"got {alpha!r}")
    for name, value in (("steps", steps), ("values", values)):
        if value % 2:
            raise refusal("must be even", where=f"'{name}'", got=f"got {value}")
    return n_classes, exact, steps, values


def variable_worse_than_score(
    *, n_classes: int = 2, alpha: float = 0.1, steps: int = 20, values: int = 10
) -> Construction:
    """Build the example of Theorem 5.1 of Kelly & Smyth: nearly perfect by score, far off by the variable.

    Scores are uniform on γ ± α, γ = 1/2 + 1/(2K), independent of the variable. The accuracy is 1 - α for scores up to γ
    and 1 above where the variable is low, 1/K and 1/K + α where it is high. Then

    expected calibration error = α/4,  variable calibration error = 1/2 - 1/(2K) - α/2.

    Parameters
    ----------
    n_classes : int
        K. With 2 the probabilities are (n,) and the label predicted is 1; with more use ``target="top"``.
    alpha : float in [0, .25]
        Must be a fraction with a small denominator.
    steps : int, even
        Distinct scores in each half.
    values : int, even
        Distinct values of the variable, equally often; the lower half of them is v <= v_t.

    Examples
    --------
    >>> variable_worse_than_score(n_classes=2, alpha=0.1)
    Construction(4000 rows, expected_calibration_error=0.025, variable_calibration_error=0.2)
    """
    n_classes, fraction, steps, values = checked(n_classes, alpha, steps, values)
    one = Fraction(1, n_classes)
    repeats = math.lcm(fraction.denominator, n_classes)
    middle, width = 0.5 + 0.5 / n_classes, float(fraction)
    score = halves(np.array([middle - width, middle]), np.array([middle, middle + width]), steps)
    counts = [[int(value * repeats) for value in pair] for pair in ((1 - fraction, one), (Fraction(1), one + fraction))]
    right = np.repeat(np.repeat(np.array(counts, dtype=np.int64), steps, axis=0), values // 2, axis=1)
    expected = {
        "expected_calibration_error": width / 4.0,
        "variable_calibration_error": 0.5 - 0.5 / n_classes - width / 2.0,
    }
    return assemble(score, right, repeats, n_classes, expected)


def score_worse_than_variable(
    *, n_classes: int = 2, alpha: float = 0.1, steps: int = 20, values: int = 10
) -> Construction:
    """Build the example of Theorem 5.2 of Kelly & Smyth: perfect by the variable, far off by score.

    Half of the scores are uniform on (1/K, 1/K + α), half on (1 - α, 1), independent of the variable; the accuracy is
    γ = 1/2 + 1/(2K) everywhere. Then

    expected calibration error = 1/2 - 1/(2K) - α/2,  variable calibration error = 0.

    The parameters are those of :func:`variable_worse_than_score`.

    Examples
    --------
    >>> score_worse_than_variable(n_classes=4, alpha=0.125)
    Construction(3200 rows, expected_calibration_error=0.3125, variable_calibration_error=0)
    """
    n_classes, fraction, steps, values = checked(n_classes, alpha, steps, values)
    repeats, width = 2 * n_classes, float(fraction)
    low = 1.0 / n_classes
    score = halves(np.array([low, low + width]), np.array([1.0 - width, 1.0]), steps)
    right = np.full((2 * steps, values), n_classes + 1, dtype=np.int64)
    expected = {
        "expected_calibration_error": 0.5 - 0.5 / n_classes - width / 2.0,
        "variable_calibration_error": 0.0,
    }
    return assemble(score, right, repeats, n_classes, expected)


def one_sided(*, repeats: int = 32, values: int = 10, overconfident: bool = True) -> Construction:
    """Build an example for Theorem 5.4 of Kelly & Smyth: over-confident at every score and every value of the variable.

    Binary, scores j / repeats above one half; among the ``repeats`` rows of a score and a value of the variable the
    right answers number d too few (too many if not ``overconfident``), d between 1 and 3 and depending on both. Then
    both errors equal the mean of d / repeats.

    Examples
    --------
    >>> one_sided()
    Construction(3840 rows, expected_calibration_error=0.0625, variable_calibration_error=0.0625)
    """
    repeats, values = whole("repeats", repeats, 16), whole("values", values, 2)
    # Three away from the ends, so that the counts stay between 0 and ``repeats``.
    numerator = np.arange(repeats // 2 + 1, repeats - 3)[: 3 * ((repeats - 4 - repeats // 2) // 3)]
    short = 1 + (np.arange(len(numerator))[:, None] + np.arange(values)) % 3
    right = numerator[:, None] - short if overconfident else numerator[:, None] + short
    error = float(short.mean()) / repeats
    expected = {"expected_calibration_error": error, "variable_calibration_error": error}
    return assemble(numerator / repeats, right.astype(np.int64), repeats, 2, expected)


def nested_subpopulations(q: int = 7) -> Construction:
    """Build Appendix F of Guy et al.: q(q + 1) rows and (q - 1)/2 nested subpopulations, all metrics in closed form.

    S_j = (2j + q) / (2(q + 1)²); the responses come in q blocks of q + 1, block j with j ones and then zeros.
    Subpopulation k leaves out k blocks at each end. Then

    D_0 = (2q + 3) / (8q(q + 1)),  largest D = (2q + 3) / (8(q + 1)), and M by eq. (29).

    ``expected`` holds kuiper_calibration_error (D_0), multicalibration_error (M), largest_kuiper (the largest D_k, the
    metric without normalisation) and standard_deviation (of the full population, eq. 5).

    Parameters
    ----------
    q : int
        Odd, at least 3.

    Examples
    --------
    >>> data = nested_subpopulations(7)
    >>> len(data.y_true), [len(rows) for rows in data.subpopulations]
    (56, [40, 24, 8])
    >>> round(data.expected["multicalibration_error"], 10)
    0.0868714808
    """
    q = whole("q", q, 3)
    if q % 2 == 0:
        raise refusal("must be odd", where="'q'", got=f"got {q}")
    n, block = q * (q + 1), q + 1
    y_prob = (2.0 * np.arange(1, n + 1, dtype=np.float64) + q) / (2.0 * block**2)
    y_true = (np.arange(block) < np.arange(1, q + 1)[:, None]).astype(np.int64).ravel()
    inner = tuple(np.arange(k * block, n - k * block, dtype=np.int64) for k in range(1, (q - 1) // 2 + 1))
    # Integers throughout, so that the polynomials of eqs. (26) and (29) are exact before the root.
    full = 2 * q**5 + 12 * q**4 + 27 * q**3 + 29 * q**2 + 16 * q + 4
    core = 3 * q**6 + 15 * q**5 + 29 * q**4 + 27 * q**3 + 13 * q**2 + 3 * q
    expected = {
        "kuiper_calibration_error": (2 * q + 3) / (8 * q * block),
        "multicalibration_error": (2 * q + 3) / (8 * block) * math.sqrt(full / core),
        "largest_kuiper": (2 * q + 3) / (8 * block),
        "standard_deviation": math.sqrt(q * full / 12) / (q * block**3),
    }
    columns = {"position": np.arange(n, dtype=np.int64)}
    return Construction(y_true, y_prob, columns, expected, score_edges=edges_between(y_prob), subpopulations=inner)
