"""Draws of the largest error over subpopulations: all draws of a block walk the lists together."""

import cython
import numpy as np
from cython.cimports.libc.math import fabs
from cython.cimports.miscal.kernels.arithmetic import drawn, limit_of, mixed
from cython.cimports.miscal.kernels.kinds import (
    Codes, Floats, FloatsOut, Index, Integer, Integers, Table, TableOut, Word, WordsOut,
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
