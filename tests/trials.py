"""Trials on drawn data sets, one after another, until the verdict over all of them is certain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping


def too_often(ask: Callable[[int], Mapping[str, object]], sets: int, most: int) -> dict[str, int]:
    """What fails in more than `most` of the trials 0, 1, ..., `sets` - 1, of all that `ask` says of each.

    The trials end once the rest can change nothing: each name has then failed more often than `most`, or been right so
    often that it cannot. The verdict is that of all trials.
    """
    failed: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for number in range(sets):
        for name, fails in ask(number).items():
            (failed if fails else right)[name] += 1
        if all(failed[name] > most or right[name] >= sets - most for name in {*failed, *right}):
            break
    return {name: count for name, count in failed.items() if count > most}
