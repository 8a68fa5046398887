"""The root of a falling function."""

from collections.abc import Callable


def find_root(falling: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Where a function that falls is 0, between two positive ends, within `tolerance` of itself; else the nearer end.

    Regula falsi (Illinois variant), kept from the ends, so that both close in. scipy's solvers cost a command the time
    of importing all of `scipy.optimize`.

    Examples
    --------
    >>> round(find_root(lambda x: 2.0 - x * x, 1.0, 2.0, 1e-12), 10)
    1.4142135624
    """
    above, below, raised = falling(low), falling(high), None
    while above > 0.0 > below and high - low > tolerance * high:
        least = 0.4 * tolerance * high
        middle = (low * below - high * above) / (below - above)
        middle = min(max(middle, low + least), high - least)
        height = falling(middle)
        again = raised == (height > 0.0)  # the same end moves twice: the other counts for half
        raised = height > 0.0
        if raised:
            low, above = middle, height
            below *= 0.5 if again else 1.0
        else:
            high, below = middle, height
            above *= 0.5 if again else 1.0
    if above <= 0.0:
        return low
    return high if below >= 0.0 else 0.5 * (low + high)
