"""Exponential and logarithm that the compiler can vectorise.

The library functions of C are called one number at a time from compiled loops. These polynomials are accurate to two
units in the last place and cost a quarter of that, because a loop over them becomes vector instructions.
"""

from __future__ import annotations

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from miscal.kernels.jit import inlined

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.693147180369123816490
_LN2_LOW = 1.90821492927058770002e-10
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer, held in the low bits
_ROUND_BITS = 0x4338000000000000  # the bits of _ROUND
_EXPONENT_1024 = 1024 << 52
_EXPONENT_SHIFT = _EXPONENT_1024 - 0x3FE6A09E667F3BCD  # ... less the bits of sqrt(1/2)
_SMALLEST = 2.2250738585072014e-308

# Sums may be regrouped, so that they vectorise; nothing else is relaxed. The grouping is fixed by the compiled code
# and by the block, so that the number of threads never changes the bits. Rounding tricks (as in `exponential`) must
# not be compiled with this.
reduction = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})

# Fused multiply-adds are quicker and, if anything, more exact. Python's check of every division would keep a loop from
# becoming vector instructions: here no divisor can be 0.
fused = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})


@intrinsic
def bits_to_float(typing_context, value):
    """Read the bits of an int64 as a float64."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


@intrinsic
def float_to_bits(typing_context, value):
    """Read the bits of a float64 as an int64."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


@inlined
def exponential(x):
    """exp(x) for x <= 700; below -708 it stays at exp(-708), which callers treat as nothing."""
    x = max(x, -708.0)
    shifted = x * _LOG2_E + _ROUND
    whole = shifted - _ROUND
    r = (x - whole * _LN2_HIGH) - whole * _LN2_LOW
    p = 1.60590438368216145994e-10
    p = p * r + 2.08767569878680989792e-9
    p = p * r + 2.50521083854417187751e-8
    p = p * r + 2.75573192239858906526e-7
    p = p * r + 2.75573192239858906526e-6
    p = p * r + 2.48015873015873015873e-5
    p = p * r + 1.98412698412698412698e-4
    p = p * r + 1.38888888888888888889e-3
    p = p * r + 8.33333333333333333333e-3
    p = p * r + 4.16666666666666666667e-2
    p = p * r + 1.66666666666666666667e-1
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * bits_to_float((float_to_bits(shifted) + 1023) << 52)


@inlined
def logarithm(x):
    """ln(x) for normal positive x, by the series of atanh on [sqrt(1/2), sqrt(2))."""
    bits = float_to_bits(max(x, _SMALLEST))
    shifted = np.int64(np.uint64(bits + _EXPONENT_SHIFT) >> np.uint64(52))  # exponent + 1024, never negative
    mantissa = bits_to_float(bits - (shifted << 52) + _EXPONENT_1024)
    exponent = bits_to_float(shifted + _ROUND_BITS) - (_ROUND + 1024.0)  # a conversion that is only an addition
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
    return exponent * _LN2_HIGH + (exponent * _LN2_LOW + 2.0 * f * (1.0 + s * p))


@fused
def exponentials(x, out):
    """Put exp(x) in out, for x <= 700."""
    for i in range(x.size):
        out[i] = exponential(x[i])


@fused
def logarithms(x, low, high, out):
    """Put ln(x held within [low, high]) in out."""
    for i in range(x.size):
        out[i] = logarithm(min(max(x[i], low), high))
