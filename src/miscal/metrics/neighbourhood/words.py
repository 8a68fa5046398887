"""What sets a neighbourhood apart, in words: the columns in which its rows differ most from all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from miscal.data.columns import Column

NAMED = 3  # columns named at most
LEAST = 0.15  # of all rows, by which a column must set a neighbourhood apart to be named
INNER = (0.1, 0.9)  # the part of a neighbourhood's values that is given as its range
LIKE_THE_REST = "much like the rows as a whole"


class Difference(NamedTuple):
    """One column's part of a description.

    apart : share of all rows that the neighbourhood's range leaves out beyond its own tails, or the difference of a
        level's shares
    """

    column: str
    apart: float
    words: str


def described(differences: Sequence[Difference]) -> str:
    """The description of a neighbourhood by its largest differences."""
    large = sorted((each for each in differences if each.apart >= LEAST), key=lambda each: -each.apart)
    return ", ".join(each.words for each in large[:NAMED]) or LIKE_THE_REST


def differences(
    columns: Mapping[str, Column], names: Sequence[str], inside: np.ndarray, share: np.ndarray, weight: np.ndarray
) -> list[Difference]:
    """Compare the rows `inside`, weighted by `share`, with all rows, weighted by `weight`; one entry a column."""
    found = []
    for name in names:
        each = columns[name]
        if each.nominal:
            found.append(_levels(each, inside, share, weight))
        else:
            found.append(_numbers(each, inside, share, weight))
    return [each for each in found if each is not None]


def _levels(each: Column, inside: np.ndarray, share: np.ndarray, weight: np.ndarray) -> Difference | None:
    size = len(each.levels) + 1
    if size < 2:
        return None
    codes = np.where(each.values < 0, size - 1, each.values)
    there = np.bincount(codes[inside], share, size) / share.sum()
    everywhere = np.bincount(codes, weight, size) / weight.sum()
    place = int(np.argmax(np.abs(there - everywhere)))
    level = each.show(place if place < size - 1 else -1)
    amount = f"({there[place]:.0%} against {everywhere[place]:.0%})"
    if there[place] >= 0.995:
        words = f"{each.name} {level}"
    else:
        words = f"{each.name} {level} {'more' if there[place] > everywhere[place] else 'less'} often {amount}"
    return Difference(each.name, float(abs(there[place] - everywhere[place])), words)


def _numbers(each: Column, inside: np.ndarray, share: np.ndarray, weight: np.ndarray) -> Difference | None:
    values = each.values
    seen = ~np.isnan(values)
    here = values[inside]
    known = ~np.isnan(here)
    missing_there = float(share[~known].sum() / share.sum())
    missing = float(weight[~seen].sum() / weight.sum())
    if abs(missing_there - missing) >= max(LEAST, 0.5 * max(missing_there, missing)) or not known.any():
        often = "more" if missing_there > missing else "less"
        words = f"{each.name} missing {often} often ({missing_there:.0%} against {missing:.0%})"
        return Difference(each.name, abs(missing_there - missing), words)
    low, high = quantiles(here[known], share[known], INNER)
    total = float(weight[seen].sum())
    below = float(weight[seen & (values < low)].sum()) / total
    above = float(weight[seen & (values > high)].sum()) / total
    apart = below + above - (1.0 - (INNER[1] - INNER[0]))
    word = "high" if below > 2.0 * above else ("low" if above > 2.0 * below else "middling")
    spread = f"{shown(low, each)} to {shown(high, each)}" if shown(low, each) != shown(high, each) else shown(low, each)
    return Difference(each.name, apart, f"{word} {each.name} ({spread})")


def quantiles(values: np.ndarray, weight: np.ndarray, levels: Sequence[float]) -> tuple[float, ...]:
    """Weighted quantiles: the smallest value at which the weight reaches each level."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    places = np.searchsorted(reached, np.asarray(levels) * reached[-1], side="left")
    return tuple(float(values[order[min(place, values.size - 1)]]) for place in places)


def shown(value: float, each: Column) -> str:
    """One value for people."""
    if each.kind == "date":
        return str(np.datetime64(int(value), "D"))
    return f"{value:.0f}" if each.integer or abs(value) >= 1000 else f"{value:.3g}"
