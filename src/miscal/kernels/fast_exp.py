"""The exponential of a distance, fast enough to be the inner loop: about 0.7 ns a value, error below 1.5 ulp.

exp(x) = 2**n * exp(r), n the integer nearest to x / ln 2, |r| <= ln 2 / 2, exp(r) by its Taylor polynomial of degree 13
(truncation 4e-18). It has no branch and no table, so that compilers turn the loop into vector instructions.
"""

from __future__ import annotations

from typing import Any

import numba
from numba import types
from numba.extending import intrinsic

# `contract` allows fused multiply-add, which makes the polynomial both faster and more accurate. Nothing that reorders
# sums is allowed: it would fold away the addition of MAGIC that rounds to an integer.
fused = numba.njit(cache=True, nogil=True, fastmath={"contract", "nsz"})

INVERSE_LN2 = 1.4426950408889634
LN2_HIGH = 0.693147180369123816490  # the leading 32 bits, so that n * LN2_HIGH is exact
LN2_LOW = 1.90821492927058770002e-10
MAGIC = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer, which its low bits then hold
SMALLEST = -708.0


@intrinsic  # type: ignore[untyped-decorator]
def float_of_bits(typing_context: Any, bits: Any) -> Any:
    """Read the bits of an int64 as a float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def bits_of_float(typing_context: Any, number: Any) -> Any:
    """Read the bits of a float64 as an int64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


@numba.njit(cache=True, nogil=True, inline="always", fastmath={"contract", "nsz"})
def held_exponential(x):
    """Return exp(x) for x <= 700; below -708, where the result would lose digits, it stays at exp(-708)."""
    bounded = max(x, SMALLEST)
    shifted = bounded * INVERSE_LN2 + MAGIC
    whole = shifted - MAGIC
    r = (bounded - whole * LN2_HIGH) - whole * LN2_LOW
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
    return p * float_of_bits((bits_of_float(shifted) + 1023) << 52)


@numba.njit(cache=True, nogil=True, inline="always", fastmath={"contract", "nsz"})
def exponential(x):
    """Return exp(x) for x <= 700; exactly 0 below -708."""
    power = held_exponential(x)
    return power if x >= SMALLEST else 0.0


@fused
def decay(distance, scale, weight):
    """Fill weight = exp(-distance * scale); distances may be negative down to -700 / scale."""
    for i in range(distance.size):
        weight[i] = exponential(-distance[i] * scale)


@fused
def decay_or_rebase(lead, scale, slack, weight):
    """Fill weight = exp(-lead * scale), or exp(lead * scale) where lead < -slack: a change of reference."""
    for i in range(lead.size):
        x = lead[i] if lead[i] < -slack else -lead[i]
        weight[i] = exponential(x * scale)
