"""Sums over the levels of a field: more levels than the nearest cache holds, so cells are asked for ahead of their use.

The cells are those of `kernels.sums.coded_means`, and the sums have the same bits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from miscal.kernels.jit import inlined, kernel
from miscal.kernels.sums import LOW_BITS, LOW_MASK, PACKED_ROWS, grid

AHEAD = 32  # rows; long enough for a cell to come from the third cache, short enough for it to stay in the first
FAR = 1 << 15  # cells of 16 bytes from which on they no longer fit beside the rows in the second cache
HIGH_UNIT, LOW_UNIT = 2.0**-20, 2.0**-52
ROWS_PLACE = 52 - LOW_BITS  # a whole number of rows stands in the high limb from this bit on


@intrinsic  # type: ignore[untyped-decorator]
def _soon(_context, values, _index):  # type: ignore[no-untyped-def]
    """Ask for the cache line of values[index], which will be written; values is flat and contiguous."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        place = builder.bitcast(builder.gep(array.data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(ask, [place, *(ir.Constant(number, value) for value in (1, 3, 1))])
        return context.get_dummy_value()

    return types.void(values, types.uint64), generate


@inlined
def _add_row(place, predicted, observed, packed):
    q = np.uint64(grid(predicted))
    total = packed[place] + q
    packed[place] = total
    carry = np.uint64(total < q)
    packed[place + np.uint64(1)] += np.uint64(1) + (np.uint64(observed) << np.uint64(24)) + (carry << np.uint64(48))


@kernel
def level_means(codes, predicted, observed, packed):
    """As `coded_means`; `packed` is flat, two words a cell. At most `PACKED_ROWS` rows at a time."""
    near = max(0, codes.size - AHEAD) if packed.size > 2 * FAR else 0
    for i in range(near):
        _soon(packed, np.uint64(codes[i + AHEAD]) << np.uint64(1))
        _add_row(np.uint64(codes[i]) << np.uint64(1), predicted[i], observed[i], packed)
    for i in range(near, codes.size):
        _add_row(np.uint64(codes[i]) << np.uint64(1), predicted[i], observed[i], packed)


@kernel
def add_levels(packed, counts, limbs):
    """Add packed cells to the rows (cells,) and the limbs (cells, 3, 2) of weight, predictions and events, carried."""
    for cell in range(counts.size):
        total = packed[2 * cell]
        word = packed[2 * cell + 1]
        rows = np.int64(word & np.uint64(PACKED_ROWS))
        events = np.int64((word >> np.uint64(24)) & np.uint64(PACKED_ROWS))
        low = limbs[cell, 1, 1] + np.int64(total & np.uint64(LOW_MASK))
        high = np.int64(((word >> np.uint64(48)) << np.uint64(LOW_BITS)) + (total >> np.uint64(LOW_BITS)))
        counts[cell] += rows
        limbs[cell, 0, 0] += rows << ROWS_PLACE
        limbs[cell, 1, 0] += high + (low >> LOW_BITS)
        limbs[cell, 1, 1] = low & LOW_MASK
        limbs[cell, 2, 0] += events << ROWS_PLACE


@kernel
def _read(limbs, one, two, result):
    for cell in range(result.size):
        high, low = limbs[cell, one, 0], limbs[cell, one, 1]
        if two >= 0:
            high -= limbs[cell, two, 0]
            low -= limbs[cell, two, 1]
        result[cell] = (high + (low >> LOW_BITS)) * HIGH_UNIT + (low & LOW_MASK) * LOW_UNIT


def read_limbs(limbs: npt.NDArray[np.int64], one: int, two: int = -1) -> npt.NDArray[np.float64]:
    """A column of carried limbs (cells, columns, 2) as numbers, less another one: the difference is rounded once."""
    result = np.empty(len(limbs))
    _read(limbs, one, two, result)
    return result
