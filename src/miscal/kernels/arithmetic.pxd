# Numbers as bits, the grid of exact sums, and the exponential and the logarithm without a branch or a table.
from libc.math cimport INFINITY, log, log1p
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    LOW_BITS = 32  # of the lower limb of a sum
    HALF = 26  # bits of a limb of a walk
    SUB_BLOCK = 1024  # rows whose integers still fit one int64: 2**10 * 2**52 < 2**63

cdef extern from *:
    """
    #define MISCAL_ONE ((int64_t)1 << 52)
    #define MISCAL_HALF_MASK (((int64_t)1 << 26) - 1)
    #define MISCAL_LOW_MASK ((int64_t)0xFFFFFFFF)
    #define MISCAL_LOWER_BASE ((uint64_t)0x4330000000000000)
    #define MISCAL_ROOT_BITS ((uint64_t)0x3FE6A09E667F3BCD - ((uint64_t)1024 << 52))
    #define MISCAL_SURE 1.4210854715202004e-14
    """
    const int64_t ONE "MISCAL_ONE"  # what stands for 1
    const int64_t HALF_MASK "MISCAL_HALF_MASK"
    const int64_t LOW_MASK "MISCAL_LOW_MASK"
    const uint64_t LOWER_BASE "MISCAL_LOWER_BASE"  # the bits of 2**52, whose last is worth 1
    const uint64_t ROOT_BITS "MISCAL_ROOT_BITS"  # those of sqrt(1/2), less 1024 in the exponent
    # 2**-46: down to this probability the logarithm is our own, which kernels can work out several at a time
    const double SURE "MISCAL_SURE"


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


cdef inline void add_limbs(int64_t *limbs, int64_t q, int64_t weight) noexcept nogil:
    """Add weight * q to a pair of limbs, the upper one first; weight < 2**31, so no product overflows."""
    cdef int64_t scaled = (q & LOW_MASK) * weight
    cdef int64_t low = limbs[1] + (scaled & LOW_MASK)
    limbs[0] += (q >> LOW_BITS) * weight + (scaled >> LOW_BITS) + (low >> LOW_BITS)
    limbs[1] = low & LOW_MASK


cdef inline double logarithm(double x) noexcept nogil:
    """log(x) of a positive, normal number, without a branch or a table.

    log(x) = e ln 2 + 2 atanh(f), x = 2**e m with m in [sqrt(1/2), sqrt(2)), f = (m - 1) / (m + 1), and atanh by its
    series to f**17: the error is below 2 ulp of the larger of |log x| and 1. The exponent is kept positive and read as
    the last bits of 2**52, by steps that become vector code where integers of 64 bits cannot.
    """
    cdef uint64_t bits = <uint64_t>bits_of(x)
    cdef uint64_t raised = (bits - ROOT_BITS) >> 52  # the exponent + 1024
    cdef double exponent = number_of(<int64_t>(raised | LOWER_BASE)) - 4503599627371520.0  # 2**52 + 1024
    cdef double m = number_of(<int64_t>(bits - ((raised - 1024) << 52)))
    cdef double f = (m - 1.0) / (m + 1.0)
    cdef double s = f * f
    cdef double series = 1.0 / 19.0
    series = series * s + 1.0 / 17.0
    series = series * s + 1.0 / 15.0
    series = series * s + 1.0 / 13.0
    series = series * s + 1.0 / 11.0
    series = series * s + 1.0 / 9.0
    series = series * s + 1.0 / 7.0
    series = series * s + 1.0 / 5.0
    series = series * s + 1.0 / 3.0
    return exponent * 0.6931471805599453 + 2.0 * f * (1.0 + s * series)


cdef inline double loss(double predicted, double observed) noexcept nogil:
    """Log loss of one row, with 0 log 0 = 0; infinite when a certain prediction is wrong.

    The loss of a probability x up to SURE is libm's, any other -`logarithm(x)`: the same bits from every kernel. 1 - p
    is rounded to half a step of the grid, which is as fine as the grid itself can tell.
    """
    cdef double x
    if observed == 1.0:
        x = predicted
    elif observed == 0.0:
        x = 1.0 - predicted
    elif predicted <= 0.0 or predicted >= 1.0:
        return INFINITY
    else:
        return -(observed * log(predicted) + (1.0 - observed) * log1p(-predicted))
    if x > SURE:
        return -logarithm(x)
    return -log(x) if x > 0.0 else INFINITY


cdef inline double exponential(double x) noexcept nogil:
    """exp(x) for x <= 700; exactly 0 below -708."""
    cdef double bounded = x if x > -708.0 else -708.0
    cdef double shifted = bounded * 1.4426950408889634 + 6755399441055744.0
    cdef double whole = shifted - 6755399441055744.0
    cdef double r = (bounded - whole * 0.693147180369123816490) - whole * 1.90821492927058770002e-10
    cdef double p = 1.60590438368216145994e-10
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
    p = p * number_of((bits_of(shifted) + 1023) << 52)
    return p if x >= -708.0 else 0.0
