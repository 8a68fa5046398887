# Numbers as bits, the grid of exact sums, packed words, the exponential and the logarithm without a branch or a table,
# and random numbers by counter: the same seed and counter give the same number in any thread and any order.
from libc.math cimport ceil, cos, log, sqrt
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    LOW_BITS = 32  # of the lower limb of a sum
    HALF = 26  # bits of a limb of a walk
    SUB_BLOCK = 1024  # rows whose integers still fit one int64: 2**10 * 2**52 < 2**63

cdef extern from *:
    """
    #define MISCAL_HALF_MASK (((int64_t)1 << 26) - 1)
    #define MISCAL_LOW_MASK ((int64_t)0xFFFFFFFF)
    """
    const int64_t HALF_MASK "MISCAL_HALF_MASK"
    const int64_t LOW_MASK "MISCAL_LOW_MASK"


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


# ------------------------------------------------------------------------------------------------- random numbers
cdef inline uint64_t mixed(uint64_t seed, uint64_t counter) noexcept nogil:
    """Give 64 random bits (splitmix64)."""
    cdef uint64_t z = seed + (counter + 1) * <uint64_t>0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline double uniform(uint64_t seed, uint64_t counter) noexcept nogil:
    """Give a uniform number in [0, 1)."""
    return <double><int64_t>(mixed(seed, counter) >> 11) * 1.1102230246251565e-16


cdef inline int64_t limit_of(double probability) noexcept nogil:
    """Give the integer above the first 53 bits of a random number where the uniform number is below a probability."""
    return <int64_t>ceil(probability * 9007199254740992.0)


cdef inline double drawn(uint64_t bits, int64_t limit, double event, double none) noexcept nogil:
    """Give `event` where a random number is below the limit of a probability, else `none`; without a branch."""
    cdef int64_t below = -<int64_t>((<uint64_t>(<int64_t>(bits >> 11) - limit)) >> 63)  # all bits, or none of them
    return number_of(bits_of(none) ^ ((bits_of(none) ^ bits_of(event)) & below))


cdef inline double gaussian(uint64_t seed, uint64_t counter) noexcept nogil:
    """Give a standard normal number (Box-Muller on two of the counter's uniforms)."""
    cdef double first = 1.0 - uniform(seed, 2 * counter)
    cdef double second = uniform(seed, 2 * counter + 1)
    return sqrt(-2.0 * log(first)) * cos(6.283185307179586 * second)


cdef inline double flipped(double value, uint64_t bits) noexcept nogil:
    """Give the value where the first bit is 1, minus the value where it is 0; without a branch."""
    return number_of(bits_of(value) ^ <int64_t>(~bits & <uint64_t>0x8000000000000000))


# ------------------------------------------------------------------------------------------------- cache lines
# Two words or eight added at once, and memory that is asked for before it is needed.
cdef enum:  # of a packed row or cell, see `sums.py`
    FULL = 4095  # rows of a cell: as many numbers of 52 bits fit one word
    UPPER = 32  # where a word is cut in two
    ROWS = 16  # where, of the words of `coded_means`, rows begin above the carries
    EVENTS = 40  # and events above the rows

cdef extern from *:
    """
    #define MISCAL_UPPER_MASK ((uint64_t)0xFFFFFFFF)
    #if defined(__GNUC__)
    #define MISCAL_RESTRICT __restrict__
    #define miscal_fetch(place) __builtin_prefetch(place, 1, 3)
    #else
    #define MISCAL_RESTRICT __restrict
    #define miscal_fetch(place) ((void)0)
    #endif
    static inline uint64_t miscal_add_line(uint64_t *MISCAL_RESTRICT to, const uint64_t *MISCAL_RESTRICT of) {
        int k;
        for (k = 0; k < 8; ++k) to[k] += of[k];
        return to[0];
    }
    #if defined(__SIZEOF_INT128__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    typedef unsigned __int128 miscal_pair __attribute__((aligned(8), may_alias));
    static inline void miscal_add_pair(uint64_t *to, uint64_t low, uint64_t high) {
        *(miscal_pair *)to += (miscal_pair)high << 64 | low; /* two instructions: the carry costs none */
    }
    #else
    static inline void miscal_add_pair(uint64_t *to, uint64_t low, uint64_t high) {
        to[0] += low;
        to[1] += high + (to[0] < low);
    }
    #endif
    """
    const uint64_t UPPER_MASK "MISCAL_UPPER_MASK"
    uint64_t add_line "miscal_add_line"(uint64_t *to, const uint64_t *of) noexcept nogil  # the first word of the sum
    void add_pair "miscal_add_pair"(uint64_t *to, uint64_t low, uint64_t high) noexcept nogil  # a number of 128 bits
    void fetch "miscal_fetch"(const void *place) noexcept nogil
