# Where a number falls: its bin or its bucket. Compiled into the kernels that ask.
#
# Bins are right-closed, the lowest edge included, end bins catch what lies outside: the index of x is the number of
# interior edges strictly below x, whatever shortcut finds it.
from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t, uint64_t

from miscal.kernels.arithmetic cimport LOW_MASK, bits_of, number_of

cdef enum:
    DIGIT = 11  # bits of a digit by which numbers are sorted
    DIGITS = 6
    DIGIT_MASK = 2047

cdef extern from *:
    """
    #define MISCAL_DOUBT 1e-9
    #define MISCAL_SIGN ((uint64_t)1 << 63)
    """
    # A value whose position is this close to a whole number may lie on the other side of an edge: it is compared with
    # the edges themselves. The position errs by a few units in the last place times the number of bins, far below this.
    const double DOUBT "MISCAL_DOUBT"
    const uint64_t SIGN "MISCAL_SIGN"


cdef inline uint64_t ordinal(double value) noexcept nogil:
    """An unsigned integer in the order of the numbers; -0.0 and 0.0 share one."""
    cdef uint64_t bits = <uint64_t>bits_of(value + 0.0)
    return ~bits if bits >> 63 else bits | SIGN


cdef inline double position_of(double value, uint64_t base, double scale) noexcept nogil:
    """scale * ((ordinal(value) - base) >> 1), by steps that become vector code where integers of 64 bits cannot."""
    cdef uint64_t bits = <uint64_t>bits_of(value + 0.0)
    cdef uint64_t steps = ((bits ^ (<uint64_t>(<int64_t>bits >> 63) | SIGN)) - base) >> 1
    # The two halves as the last bits of 2**84 and 2**52: their sum rounds once, as the conversion would.
    cdef double high = number_of(<int64_t>((steps >> 32) | <uint64_t>0x4530000000000000))
    cdef double low = number_of(<int64_t>((steps & LOW_MASK) | <uint64_t>0x4330000000000000))
    return ((high - 19342813118337666422669312.0) + low) * scale  # without 2**84 and 2**52


cdef inline void uniform_index(
    const double *values, Py_ssize_t rows, double low, double high, const double[:] edges, int32_t *codes
) noexcept nogil:
    """Equal-width bins: `edges` holds low + (high - low) * m / bins, m = 0..bins."""
    cdef Py_ssize_t i, doubtful = 0
    cdef int32_t bins = <int32_t>(edges.shape[0] - 1)
    cdef int32_t top = bins - 1, guess, code
    # Doubts as wide as the numbers that are compared, and an end that is no whole number, make plain vector code.
    cdef double last = bins + 0.5, scale = bins / (high - low), position, rest, value
    for i in range(rows):
        position = (values[i] - low) * scale
        position = position if position > 0.0 else 0.0
        position = position if position < last else last
        guess = <int32_t>position
        rest = position - guess
        doubtful += fabs(rest - 0.5) > 0.5 - DOUBT
        codes[i] = guess if guess < top else top
    if doubtful == 0:
        return
    for i in range(rows):
        value = values[i]
        code = codes[i]
        if value <= edges[code]:
            if code > 0:
                codes[i] = code - 1
        elif value > edges[code + 1] and code < top:
            codes[i] = code + 1


cdef inline void edge_index(
    const double *values, Py_ssize_t rows, const double[:] edges, int32_t *codes
) noexcept nogil:
    """Any increasing edges: count the interior edges below each value."""
    cdef Py_ssize_t i, m
    cdef double edge
    for i in range(rows):
        codes[i] = 0
    for m in range(1, edges.shape[0] - 1):
        edge = edges[m]
        for i in range(rows):
            codes[i] += values[i] > edge
