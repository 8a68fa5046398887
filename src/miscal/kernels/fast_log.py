"""The logarithm without a branch or a table, so that compilers turn loops over it into vector instructions.

log(x) = e ln 2 + 2 atanh(f), x = 2**e m with m in [sqrt(1/2), sqrt(2)), f = (m - 1) / (m + 1), and atanh by its series
to f**17: the error is below 2 ulp of the larger of |log x| and 1.
"""

from __future__ import annotations

import numba

from miscal.kernels.fast_exp import bits_of_float, float_of_bits

HALF_ROOT = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
LN2 = 0.6931471805599453

# Python's check for a division by zero would be a branch, and no loop with one becomes vector code.
vectorised = numba.njit(cache=True, nogil=True, fastmath={"contract", "nsz"}, error_model="numpy")


@numba.njit(cache=True, nogil=True, inline="always", fastmath={"contract", "nsz"}, error_model="numpy")
def logarithm(x):
    """Return log(x) of a positive, normal number."""
    bits = bits_of_float(x)
    exponent = (bits - HALF_ROOT) >> 52
    m = float_of_bits(bits - (exponent << 52))
    f = (m - 1.0) / (m + 1.0)
    s = f * f
    series = 1.0 / 19.0
    series = series * s + 1.0 / 17.0
    series = series * s + 1.0 / 15.0
    series = series * s + 1.0 / 13.0
    series = series * s + 1.0 / 11.0
    series = series * s + 1.0 / 9.0
    series = series * s + 1.0 / 7.0
    series = series * s + 1.0 / 5.0
    series = series * s + 1.0 / 3.0
    return exponent * LN2 + 2.0 * f * (1.0 + s * series)
