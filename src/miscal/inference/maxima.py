"""P-value of the largest of many statistics: the whole search is repeated on each draw."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from miscal.data.errors import refusal
from miscal.inference.aggregates import DRAWS, NullSummary, summary_of_draws
from miscal.inference.sums import Floats

STOP = 20
FLOOR_DRAWS = 199  # the floor and the 95% point want at least this many, however early the p-value is settled


def max_statistic_p(
    observed: float,
    simulate_block: Callable[[int, int], Floats],
    draws: int = DRAWS,
    stop: int | None = STOP,
    *,
    block: int = 50,
    at_least: int = FLOOR_DRAWS,
    method: str = "simulation",
) -> NullSummary:
    """Give ``p = (1 + #{T* >= T})/(1 + B)`` of a statistic that was simulated through its whole search.

    Parameters
    ----------
    observed
        The statistic of the data.
    simulate_block
        ``simulate_block(first, count)`` gives draws first .. first + count - 1 of the statistic under the null.
    draws, stop
        At most `draws`; no more once `stop` of them reached the statistic (and `at_least` were made): the p-value is
        then large whatever follows. ``stop=None`` makes them all.
    block
        Draws asked for at a time; the answer does not depend on it except in where it stops.

    Examples
    --------
    >>> found = max_statistic_p(9.0, lambda first, count: np.arange(first, first + count) % 8.0)
    >>> found.p_words
    'p <= 0.001'
    """
    if draws < 1 or block < 1:
        raise refusal("must be at least 1", where="'draws' and 'block'", got=f"got {draws} and {block}")
    made: list[Floats] = []
    total, hits = 0, 0
    while total < draws and not (stop is not None and hits >= stop and total >= min(at_least, draws)):
        count = min(block, draws - total)
        values = np.asarray(simulate_block(total, count), dtype=np.float64)
        made.append(values)
        total += count
        hits += int(np.count_nonzero(values >= observed - 1e-12 * abs(observed)))
    return summary_of_draws(float(observed), np.concatenate(made), method=method)
