# Where a number falls: its bin or its bucket. Compiled into the kernels that ask.
from libc.stdint cimport int32_t, int64_t, uint64_t

from miscal.kernels.arithmetic cimport bits_of


cdef inline uint64_t ordinal(double value) noexcept nogil:
    """An unsigned integer in the order of the numbers; -0.0 and 0.0 share one."""
    cdef uint64_t bits = <uint64_t>bits_of(value + 0.0)
    return ~bits if bits >> 63 else bits | <uint64_t>0x8000000000000000


cdef inline Py_ssize_t bucket(
    double value, uint64_t base, double scale, const double[::1] starts, const double[::1] widths
) noexcept nogil:
    """The bucket of a value: where its stretch starts, plus its share of the stretch's width."""
    cdef double position = <double><int64_t>((ordinal(value) - base) >> 1) * scale
    cdef Py_ssize_t stretch = <Py_ssize_t>position
    return <Py_ssize_t>(starts[stretch] + (position - <double>stretch) * widths[stretch])


