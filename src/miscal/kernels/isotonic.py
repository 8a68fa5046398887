"""Isotonic regression: radix sort, ties pooled, adjacent violators pooled."""

from __future__ import annotations

import numpy as np

from miscal.kernels.jit import kernel

_DIGIT = 11
_DIGITS = 6  # 6 x 11 bits cover the 62 bits that a float64 in [0, 1] uses
_MASK = np.uint64((1 << _DIGIT) - 1)


@kernel
def sorted_order(score):
    """Stable order of numbers >= 0, by their bits: a float64 >= 0 sorts as its bits do."""
    rows = score.size
    key = np.empty(rows, np.uint64)
    bits = score.view(np.uint64)
    for i in range(rows):
        key[i] = bits[i] if score[i] != 0.0 else np.uint64(0)  # -0.0 is 0.0
    order = np.arange(rows).astype(np.uint32)
    key_to = np.empty(rows, np.uint64)
    order_to = np.empty(rows, np.uint32)
    counts = np.zeros((_DIGITS, 1 << _DIGIT), np.int64)
    for i in range(rows):
        for digit in range(_DIGITS):
            counts[digit, (key[i] >> np.uint64(_DIGIT * digit)) & _MASK] += 1
    for digit in range(_DIGITS):
        place = counts[digit]
        if place.max() == rows:  # all alike in this digit
            continue
        total = 0
        for b in range(place.size):
            here = place[b]
            place[b] = total
            total += here
        shift = np.uint64(_DIGIT * digit)
        for i in range(rows):
            b = (key[i] >> shift) & _MASK
            at = place[b]
            place[b] = at + 1
            key_to[at] = key[i]
            order_to[at] = order[i]
        key, key_to = key_to, key
        order, order_to = order_to, order
    return order


@kernel
def pooled(score, outcome, weight, order):
    """Pool ties, then adjacent violators.

    Returns the first and the last score of each block, its events and its weight; events / weight increases strictly.
    An empty `weight` means ones. Comparisons are products of sums, exact for whole weights.
    """
    rows = score.size
    first = np.empty(rows)
    last = np.empty(rows)
    events = np.empty(rows)
    total = np.empty(rows)
    blocks = 0
    i = 0
    while i < rows:
        x = score[order[i]]
        e = 0.0
        t = 0.0
        while i < rows and score[order[i]] == x:
            row = order[i]
            w = weight[row] if weight.size else 1.0
            e += w * outcome[row]
            t += w
            i += 1
        first[blocks] = x
        last[blocks] = x
        events[blocks] = e
        total[blocks] = t
        blocks += 1
        while blocks > 1 and events[blocks - 2] * total[blocks - 1] >= events[blocks - 1] * total[blocks - 2]:
            events[blocks - 2] += events[blocks - 1]
            total[blocks - 2] += total[blocks - 1]
            last[blocks - 2] = last[blocks - 1]
            blocks -= 1
    return first[:blocks].copy(), last[:blocks].copy(), events[:blocks].copy(), total[:blocks].copy()


@kernel
def rising_rates(events, weight, rates):
    """The non-decreasing rates that fit events / weight best: adjacent violators are pooled; all weights positive."""
    last = np.empty(events.size, np.int64)
    total = np.empty(events.size)
    mass = np.empty(events.size)
    blocks = 0
    for i in range(events.size):
        last[blocks] = i
        total[blocks] = events[i]
        mass[blocks] = weight[i]
        blocks += 1
        while blocks > 1 and total[blocks - 2] * mass[blocks - 1] >= total[blocks - 1] * mass[blocks - 2]:
            last[blocks - 2] = i
            total[blocks - 2] += total[blocks - 1]
            mass[blocks - 2] += mass[blocks - 1]
            blocks -= 1
    i = 0
    for block in range(blocks):
        rate = total[block] / mass[block]
        while i <= last[block]:
            rates[i] = rate
            i += 1
