"""Exponential and logarithm that the compiler can vectorise.

The library functions of C are called one number at a time from compiled loops. These polynomials are accurate to two
units in the last place and cost a quarter of that, because a loop over them becomes vector instructions.
"""

from __future__ import annotations

import numba
import numpy as np

from miscal.kernels.fast_exp import LN2_HIGH, LN2_LOW, MAGIC, bits_of_float, float_of_bits, held_exponential
from miscal.kernels.jit import inlined

_MAGIC_BITS = 0x4338000000000000  # the bits of MAGIC
_EXPONENT_1024 = 1024 << 52
_EXPONENT_SHIFT = _EXPONENT_1024 - 0x3FE6A09E667F3BCD  # ... less the bits of sqrt(1/2)
_SMALLEST = 2.2250738585072014e-308

# Sums may be regrouped, so that they vectorise; nothing else is relaxed. The grouping is fixed by the compiled code
# and by the block, so that the number of threads never changes the bits. Rounding tricks (as in `held_exponential`)
# must not be compiled with this.
reduction = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})

# Fused multiply-adds are quicker and, if anything, more exact. Python's check of every division would keep a loop from
# becoming vector instructions: here no divisor can be 0.
fused = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})


@inlined
def logarithm(x):
    """ln(x) for normal positive x, by the series of atanh on [sqrt(1/2), sqrt(2))."""
    bits = bits_of_float(max(x, _SMALLEST))
    shifted = np.int64(np.uint64(bits + _EXPONENT_SHIFT) >> np.uint64(52))  # exponent + 1024, never negative
    mantissa = float_of_bits(bits - (shifted << 52) + _EXPONENT_1024)
    exponent = float_of_bits(shifted + _MAGIC_BITS) - (MAGIC + 1024.0)  # a conversion that is only an addition
    f = (mantissa - 1.0) / (mantissa + 1.0)
    s = f * f
    p = 1.0 / 21.0
    p = p * s + 1.0 / 19.0
    p = p * s + 1.0 / 17.0
    p = p * s + 1.0 / 15.0
    p = p * s + 1.0 / 13.0
    p = p * s + 1.0 / 11.0
    p = p * s + 1.0 / 9.0
    p = p * s + 1.0 / 7.0
    p = p * s + 0.2
    p = p * s + 1.0 / 3.0
    return exponent * LN2_HIGH + (exponent * LN2_LOW + 2.0 * f * (1.0 + s * p))


@fused
def exponentials(x, out):
    """Put exp(x) in out, for x <= 700."""
    for i in range(x.size):
        out[i] = held_exponential(x[i])


@fused
def logarithms(x, low, high, out):
    """Put ln(x held within [low, high]) in out."""
    for i in range(x.size):
        out[i] = logarithm(min(max(x[i], low), high))
