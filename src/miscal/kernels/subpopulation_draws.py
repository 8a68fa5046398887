"""Draws of the largest error over subpopulations: all draws of a block walk the lists together."""

import cython
import numpy as np
from cython.cimports.libc.math import fabs
from cython.cimports.miscal.kernels.arithmetic import drawn, limit_of, mixed
from cython.cimports.miscal.kernels.kinds import (
    Codes, CodesOut, Floats, FloatsOut, Index, Integer, Integers, Table, TableOut, Word, WordsOut,
)  # fmt: skip


def random_steps(
    event: Floats, none: Floats, chance: Floats, unit: Integers, first: Index, seed: Word, steps: TableOut
) -> None:
    """Fill steps[row, draw] with `event` at its chance, else with `none`; rows of one unit are drawn as one."""
    own: WordsOut = np.empty(steps.shape[1], np.uint64)
    with cython.nogil:
        for b in range(steps.shape[1]):
            own[b] = mixed(seed, first + b)
        for i in range(event.shape[0]):
            limit: Integer = limit_of(chance[i])
            for b in range(steps.shape[1]):
                steps[i, b] = drawn(mixed(own[b], unit[i]), limit, event[i], none[i])


def simulated_maxima(
    signed: Floats, members: Codes, offsets: Integers, scale: Floats, ends_only: cython.bint, steps: Table,
    maxima: FloatsOut,
) -> None:  # fmt: skip
    """Largest scale·range over the lists for every draw: maxima (draws,). With `ends_only`, |end| in the range's place.

    All draws walk a list together, so each row's position is looked up once and the draws fill a vector register.
    """
    lanes: Index = steps.shape[1]
    total: FloatsOut = np.empty(lanes)
    high: FloatsOut = np.empty(lanes)
    low: FloatsOut = np.empty(lanes)
    with cython.nogil:
        maxima[:] = 0.0
        for k in range(scale.shape[0]):
            total[:] = 0.0
            high[:] = 0.0
            low[:] = 0.0
            before: cython.double = -1.0
            for q in range(offsets[k], offsets[k + 1]):
                i: Index = members[q]
                score: cython.double = fabs(signed[i])
                if score != before and not ends_only:
                    before = score
                    for b in range(lanes):
                        value: cython.double = total[b]
                        high[b] = value if value > high[b] else high[b]
                        low[b] = value if value < low[b] else low[b]
                for b in range(lanes):
                    total[b] += steps[i, b]
            for b in range(lanes):
                span: cython.double = max(high[b], total[b]) - min(low[b], total[b])
                span = fabs(total[b]) if ends_only else span
                maxima[b] = max(maxima[b], span * scale[k])


@cython.cfunc
@cython.nogil
def _falls(
    signed: Floats, weight: Floats, members: Codes, first: Integer, last: Integer, number: Index, falls: TableOut,
    mark: CodesOut,
) -> cython.double:  # fmt: skip
    """For each row of a list the sum of w·s below its score and up to it, ties included; returns the sum of all."""
    weighted: cython.bint = weight.shape[0] > 0
    total: cython.double = 0.0
    start: Integer = first
    while start < last:
        score: cython.double = fabs(signed[members[start]])
        below: cython.double = total
        stop: Integer = start
        while stop < last and fabs(signed[members[stop]]) == score:
            total += score * weight[members[stop]] if weighted else score
            stop += 1
        for q in range(start, stop):
            i: Index = members[q]
            falls[i, 0], falls[i, 1] = below, total
            mark[i] = number
        start = stop
    return total


def event_maxima(
    signed: Floats, weight: Floats, members: Codes, offsets: Integers, scale: Floats, ends_only: cython.bint,
    rows: Codes, starts: Integers, maxima: FloatsOut,
) -> None:  # fmt: skip
    """As `simulated_maxima` where events are rare: between two events a walk only falls, so only events are visited.

    rows, starts : those with an event, draw after draw, and where each draw starts. The sums are grouped differently,
        so the last digits may differ.
    """
    weighted: cython.bint = weight.shape[0] > 0
    falls: TableOut = np.empty((signed.shape[0], 2))
    mark: CodesOut = np.full(signed.shape[0], -1, np.int32)
    with cython.nogil:
        maxima[:] = 0.0
        for k in range(scale.shape[0]):
            fallen: cython.double = _falls(signed, weight, members, offsets[k], offsets[k + 1], k, falls, mark)
            for b in range(maxima.shape[0]):
                risen: cython.double = 0.0
                end: cython.double = 0.0
                before: cython.double = -1.0
                high = low = 0.0
                for e in range(starts[b], starts[b + 1]):
                    i: Index = rows[e]
                    if mark[i] != k:
                        continue
                    score: cython.double = fabs(signed[i])
                    if score != before:  # the walk ends a block of ties here, and falls to where the next one begins
                        high = max(high, risen - end)
                        low = min(low, risen - falls[i, 0])
                        before = score
                    risen += weight[i] if weighted else 1.0
                    end = falls[i, 1]
                total: cython.double = risen - fallen
                high = max(high, risen - end, total)
                low = min(low, total)
                span: cython.double = fabs(total) if ends_only else high - low
                maxima[b] = max(maxima[b], span * scale[k])
