"""P-values by resampling rows."""

from collections.abc import Callable

import numpy as np

from miscal.stats.cell_sums import Floats, Integers


def bootstrap_p(
    supported: Callable[[Floats], bool], units: Integers, *, draws: int = 200, random_state: int = 0
) -> float:
    """One-sided p-value of a statement about all rows, by a Poisson bootstrap of independent units.

    Parameters
    ----------
    supported : callable
        Says of the multiplicity of each row (0, 1, 2, ...) whether the resampled rows support the statement.
    units : ndarray of int
        The unit of each row: its cluster, or the row itself.
    draws : int, default=200
        Resamples.
    random_state : int, default=0
        Seed.

    Returns
    -------
    float
        ``(1 + resamples that do not support it) / (1 + draws)``.

    Examples
    --------
    >>> values = np.array([1.0, 2.0, 3.0, 4.0])
    >>> bootstrap_p(lambda times: float(times @ values) >= 0.0, np.arange(4), draws=99)
    0.01
    """
    random = np.random.default_rng(random_state)
    n_units = int(units.max()) + 1
    unsupported = 0
    for _ in range(draws):
        unsupported += not supported(random.poisson(1.0, n_units)[units].astype(np.float64))
    return (1 + unsupported) / (1 + draws)
