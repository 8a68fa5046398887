# Numbers as bits, the grid of exact sums, and the exponential and the logarithm without a branch or a table.
from libc.math cimport INFINITY, log, log1p
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy


cdef inline int64_t bits_of(double number) noexcept nogil:
    cdef int64_t bits
    memcpy(&bits, &number, 8)
    return bits


cdef inline double number_of(int64_t bits) noexcept nogil:
    cdef double number
    memcpy(&number, &bits, 8)
    return number


cdef inline int64_t grid(double value) noexcept nogil:
    """The integer that stands for a value: value * 2**52, rounded half up."""
    return <int64_t>(value * 4503599627370496.0 + 0.5)


cdef inline double logarithm(double x) noexcept nogil:
    """log(x) of a positive, normal number: x = 2**e m, m in [sqrt(1/2), sqrt(2)), log(x) = e ln 2 + 2 atanh(f).

    f = (m - 1) / (m + 1), atanh(f) = f (1 + f**2 q(f**2)), q the polynomial of degree 6 with the least relative error,
    1e-18: the error is below 2 ulp of the larger of |log x| and 1. The exponent is read by unsigned shifts and becomes
    a number beside 2**52: every processor has that as vector code.
    """
    cdef uint64_t beyond = <uint64_t>bits_of(x) - <uint64_t>0x3FE6A09E667F3BCD
    cdef double m = number_of(<int64_t>(<uint64_t>bits_of(x) - (beyond & <uint64_t>0xFFF0000000000000)))
    cdef uint64_t raised = (beyond + <uint64_t>0x4000000000000000) >> 52  # the exponent and 1024
    cdef double exponent = number_of(<int64_t>(raised | <uint64_t>0x4330000000000000)) - 4503599627371520.0
    cdef double f = (m - 1.0) / (m + 1.0)
    cdef double s = f * f
    cdef double s2 = s * s
    cdef double low = (0.333333333333336723054 + 0.199999999997071589073 * s) + (
        0.142857143712376916125 + 0.11111099281724645873 * s) * s2
    cdef double high = (0.0909178243397737760452 + 0.0765701790716204160017 * s) + 0.0739805277797873793648 * s2
    cdef double rest = 2.0 * f * (1.0 + s * (low + s2 * s2 * high)) + exponent * 1.90821492927058770002e-10
    return exponent * 0.693147180369123816490 + rest  # ln 2 in two parts, of which the first loses nothing


cdef inline double loss(double predicted, double observed) noexcept nogil:
    """Log loss of one row, with 0 log 0 = 0; infinite when a certain prediction is wrong."""
    cdef double x
    if observed == 1.0:
        x = predicted
    elif observed == 0.0:
        x = 1.0 - predicted
    elif predicted <= 0.0 or predicted >= 1.0:
        return INFINITY
    else:
        return -(observed * log(predicted) + (1.0 - observed) * log1p(-predicted))
    if x > 1.4210854715202004e-14:
        return -logarithm(x)
    return -log(x) if x > 0.0 else INFINITY


cdef inline double power_of_e(double x) noexcept nogil:
    """exp(x) for -708 <= x <= 700: 2**n * exp(r), n the integer nearest to x / ln 2, |r| <= ln 2 / 2.

    exp(r) = 1 + r + r**2 q(r), q the polynomial of degree 9 with the least relative error, 4e-18: the error is below
    1.5 ulp. Adding 1.5 * 2**52 rounds; the low bits then hold n. The terms of q are added in pairs, not one after the
    other, so that a processor need not wait for each. Outside the range the result means nothing.
    """
    cdef double shifted = x * 1.4426950408889634 + 6755399441055744.0
    cdef double whole = shifted - 6755399441055744.0
    cdef double r = (x - whole * 0.693147180369123816490) - whole * 1.90821492927058770002e-10
    cdef double r2 = r * r
    cdef double r4 = r2 * r2
    cdef double low = (0.500000000000001062715 + 0.166666666666664125227 * r) + (
        0.0416666666665301584938 + 0.00833333333349446166393 * r) * r2
    cdef double middle = (0.00138888889436301341611 + 0.000198412695065787239323 * r) + (
        0.0000248014930988873915447 + 0.00000275575863737851809539 * r) * r2
    cdef double high = 2.76302483853230205604e-7 + 2.50000616255312795875e-8 * r
    return (1.0 + (r + r2 * (low + r4 * (middle + r4 * high)))) * number_of((bits_of(shifted) + 1023) << 52)


cdef inline double exponential(double x) noexcept nogil:
    """exp(x) for x <= 700; exactly 0 below -708."""
    cdef double power = power_of_e(x)
    return power if x >= -708.0 else 0.0


cdef inline double held_exponential(double x) noexcept nogil:
    """exp(x) for x <= 700; below -708, where the result would lose digits, it stays at exp(-708)."""
    cdef double power = power_of_e(x)
    return power if x >= -708.0 else 3.307553003638408e-308
