"""A local error with a closed form: predictions wrong by a cosine of the features (for Luo et al.'s signed error)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from miscal.data.checks import Floats, number, whole
from miscal.data.errors import refusal
from miscal.datasets import Synthetic, draw_outcomes, generator

LOWEST, HIGHEST = 0.6, 0.8
LARGEST_AMPLITUDE = 0.2  # keeps the true probability in [.4, 1]


def check_wave(amplitude: float, cycles: float) -> None:
    """Check the two numbers that make the wave."""
    number("amplitude", amplitude, -LARGEST_AMPLITUDE, LARGEST_AMPLITUDE)
    number("cycles", cycles, 0.0, 1e6)


def local_wave(
    n: int = 10_000,
    *,
    dimensions: int = 2,
    amplitude: float = 0.15,
    cycles: float = 1.0,
    random_state: object = 0,
) -> Synthetic:
    """Draw predictions that err by a wave over the features: gap(x) = amplitude · Π cos(2π · cycles · x_j).

    Features are uniform on [0, 1]^d and tell nothing about the score, which is uniform on [.6, .8]. So the signed local
    calibration error is the same in every bin of the score and known exactly: :func:`local_wave_error`. Every score is
    above one half, so "positive" and "top" compare the same.

    Parameters
    ----------
    n : int
        Rows.
    dimensions : int
        Number d of features, columns x1, x2, ...
    amplitude : float in [-.2, .2]
        The largest gap.
    cycles : float
        Waves from 0 to 1 along each feature. With a whole number the total is right: the mean gap is 0.
    random_state : int, Generator or None
        The seed.

    Examples
    --------
    >>> data = local_wave(1000, dimensions=1)
    >>> list(data.columns), round(float(np.abs(data.y_prob - data.truth).max()), 2)
    (['x1'], 0.15)
    """
    n, dimensions, random = whole("n", n, 1), whole("dimensions", dimensions, 1), generator(random_state)
    check_wave(amplitude, cycles)
    features = random.random((n, dimensions))
    y_prob = random.uniform(LOWEST, HIGHEST, n)
    gap = amplitude * np.cos(2.0 * np.pi * cycles * features).prod(axis=1)
    truth = np.minimum(y_prob - gap, 1.0)  # .8 + .2 may round above 1
    columns: dict[str, npt.NDArray[Any]] = {f"x{j + 1}": features[:, j].copy() for j in range(dimensions)}
    everywhere = np.ones(n, dtype=np.bool_)
    where = "everywhere, as a wave over " + ", ".join(columns)
    return Synthetic(draw_outcomes(truth, random), y_prob, truth, columns, where, everywhere, float(gap.mean()))


def local_wave_error(
    points: npt.ArrayLike,
    bandwidth: float,
    *,
    amplitude: float = 0.15,
    cycles: float = 1.0,
) -> Floats:
    """Return the exact signed local calibration error of :func:`local_wave` at some points.

    With ``k(x, t) = exp(-|x - t|_1 / (d · bandwidth))`` both integrals factorise, and along one feature, with
    λ = 1/(d · bandwidth) and ω = 2π · cycles,

    ∫ cos(ωt) k dt = [2λ cos ωx - λ e^(-λx) + e^(-λ(1-x)) (ω sin ω - λ cos ω)] / (λ² + ω²),
    ∫ k dt = [2 - e^(-λx) - e^(-λ(1-x))] / λ, both over [0, 1].

    Parameters
    ----------
    points : array (m, d) or (m,) for one feature
        Places in [0, 1]^d.
    bandwidth : float
        The kernel's γ.
    amplitude, cycles : float
        As given to :func:`local_wave`.

    Returns
    -------
    array (m,)
        Predicted - observed around each point, in the limit of endless data.

    Examples
    --------
    >>> local_wave_error([[0.5, 0.5]], 1e-4).round(3), local_wave_error([[0.5, 0.5]], 1e6).round(6) + 0.0
    (array([0.15]), array([0.]))
    """
    try:
        places = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError):
        raise refusal("must be (m, d) numbers in [0, 1]", where="'points'", got="got no table of numbers") from None
    places = places[:, None] if places.ndim == 1 else places
    if places.ndim != 2 or not places.size or not ((places >= 0.0) & (places <= 1.0)).all():
        raise refusal("must be (m, d) numbers in [0, 1]", where="'points'", got=f"got shape {places.shape}")
    number("bandwidth", bandwidth, 0.0, above=True)
    check_wave(amplitude, cycles)
    rate, omega = 1.0 / (places.shape[1] * bandwidth), 2.0 * np.pi * cycles
    left, right = np.exp(-rate * places), np.exp(-rate * (1.0 - places))
    end = omega * np.sin(omega) - rate * np.cos(omega)
    wave = (2.0 * rate * np.cos(omega * places) - rate * left + right * end) / (rate**2 + omega**2)
    # expm1, not 2 - left - right: for a wide kernel both are near 1 and the difference would lose its digits.
    mass = -(np.expm1(-rate * places) + np.expm1(-rate * (1.0 - places))) / rate
    return np.asarray(amplitude * (wave / mass).prod(axis=1), dtype=np.float64)
